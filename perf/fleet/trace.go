package fleet

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

//go:embed conversation.jsonl.zst
var conversation []byte // see ATTRIBUTION.md

// Arrival is one line of a trace.
type Arrival struct {
	// IDs name the blocks of the prompt, root first.
	IDs []uint32 `json:"hash_ids"`
	// Millis is the arrival, counted from the start of the trace.
	Millis uint64 `json:"timestamp"`
	// Input and Output are lengths in tokens as recorded. The fleet's prompts
	// are shorter: TokensPerID tokens stand for each id.
	Input  int `json:"input_length"`
	Output int `json:"output_length"`
	// Answer names the blocks of the answer, for prompts to come that go on from
	// it. Recorded traces do not tell: none.
	Answer []uint32 `json:"-"`
}

// Conversation returns the first limit requests of the embedded conversation
// trace, all of them if limit is 0.
func Conversation(limit int) ([]Arrival, error) {
	z, err := zstd.NewReader(bytes.NewReader(conversation), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("fleet: embedded trace: %w", err)
	}
	defer z.Close()
	return ReadTrace(z, limit)
}

// ReadTrace reads a trace of JSON lines, at most limit of them if limit is
// above 0.
func ReadTrace(r io.Reader, limit int) ([]Arrival, error) {
	var out []Arrival
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for line := 1; sc.Scan() && (limit <= 0 || len(out) < limit); line++ {
		var a Arrival
		if err := json.Unmarshal(sc.Bytes(), &a); err != nil {
			return nil, fmt.Errorf("fleet: trace line %d: %w", line, err)
		}
		if len(a.IDs) == 0 {
			return nil, fmt.Errorf("fleet: trace line %d: hash_ids is empty; a request has at least one block", line)
		}
		out = append(out, a)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("fleet: trace: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("fleet: the trace holds no request")
	}
	return out, nil
}
