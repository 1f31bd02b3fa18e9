package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Bounds of what a file may ask for: it may come from anywhere.
const (
	maxLine    = 16 << 20 // bytes of one line
	maxWindow  = 64 << 20 // bytes that one zstd frame may make the decoder hold
	maxUnzstd  = 1 << 30  // bytes of one file after decompression
	maxProblem = 200      // bytes of a line shown in an error
)

// line is one JSON object of a file.
type line struct {
	number int // from 1
	data   []byte
}

// readLines reads a file of JSON lines, plain or zstd (by its name).
func readLines(name string) ([]line, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var r io.Reader = file
	if strings.HasSuffix(name, ".zst") {
		// One goroutine, bounded memory: the file is not ours.
		d, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxUnzstd))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		r = d
	}
	return scanLines(io.LimitReader(r, maxUnzstd+1))
}

func scanLines(r io.Reader) ([]line, error) {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	var lines []line
	total := 0
	for n := 1; s.Scan(); n++ {
		data := bytes.TrimSpace(s.Bytes())
		if total += len(data); total > maxUnzstd {
			return nil, fmt.Errorf("more than %d bytes of lines", maxUnzstd)
		}
		if len(data) > 0 {
			lines = append(lines, line{number: n, data: bytes.Clone(data)})
		}
	}
	if err := s.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line of more than %d bytes", maxLine)
		}
		return nil, err
	}
	return lines, nil
}

// decode reads the line into v, integers exact. Keys that v does not know are
// left alone: they tell people something.
func (l line) decode(v any) error {
	d := json.NewDecoder(bytes.NewReader(l.data))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("line %d: %w", l.number, err)
	}
	if d.More() {
		return fmt.Errorf("line %d: more than one JSON value", l.number)
	}
	return nil
}

// shape tells the format of a file by the keys of its first line.
type shape struct {
	Payload *json.RawMessage `json:"payload_hex"` // wire vectors
	Steps   *json.RawMessage `json:"steps"`       // replay transcripts
	Ops     *json.RawMessage `json:"ops"`         // index traces
	Script  *json.RawMessage `json:"script"`      // transport scripts
	Content *json.RawMessage `json:"content"`     // content hash vectors
	Kind    string           `json:"kind"`        // captures
}

// Formats of files.
const (
	kindWire      = "wire"
	kindReplay    = "replay"
	kindIndex     = "index"
	kindTransport = "transport"
	kindCapture   = "capture"
	kindHashes    = "hashes"
)

// formatOf tells what a line belongs to, or that it is of no known kind.
func formatOf(l line) (string, error) {
	var s shape
	if err := l.decode(&s); err != nil {
		return "", err
	}
	switch {
	case s.Payload != nil:
		return kindWire, nil
	case s.Steps != nil:
		return kindReplay, nil
	case s.Ops != nil:
		return kindIndex, nil
	case s.Script != nil:
		return kindTransport, nil
	case s.Kind != "":
		return kindCapture, nil
	case s.Content != nil:
		return kindHashes, nil
	}
	shown := l.data[:min(len(l.data), maxProblem)]
	return "", fmt.Errorf("line %d: unknown kind of line: %s", l.number, shown)
}
