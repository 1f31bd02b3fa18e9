package conformance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/tree"
)

// capture is a recorded stream with the answers of the engine it came from.
type capture struct {
	head  head
	lines []captured
}

// head is the first line of a capture.
type head struct {
	ID         string        `json:"id"`
	Engine     string        `json:"engine"`
	Version    string        `json:"version"`
	Streams    []namedStream `json:"streams"`
	IndexBlock int           `json:"index_block"`
	Policy     string        `json:"policy"`
	Config     struct {
		MainGroup       int      `json:"main_group"`
		Groups          []string `json:"groups"`
		GroupBlockSizes []int    `json:"group_block_sizes"`
	} `json:"config"`
}

// namedStream is one publisher of a capture.
type namedStream struct {
	Name  string `json:"name"`
	Topic string `json:"topic"`
	Rank  int    `json:"rank"`
}

// captured is one line behind the head.
type captured struct {
	Kind   string `json:"kind"`
	Stream string `json:"stream"`

	// msg
	Topic   string  `json:"topic"`
	Seq     string  `json:"seq"`
	Payload *string `json:"payload"`

	// query, state
	After   string       `json:"after"`
	Tokens  []uint32     `json:"tokens"`
	Lora    *string      `json:"lora"`
	LoraID  *int64       `json:"lora_id"`
	Salt    *string      `json:"salt"`
	MM      []image      `json:"mm"`
	History string       `json:"history"`
	Expect  *leading     `json:"expect"`
	Rules   *leadingRule `json:"rules"`

	Resident *int           `json:"resident"`
	ByTier   map[string]int `json:"by_tier"`

	// lost
	From string `json:"from"`
	To   string `json:"to"`

	// replay: what was sent or received in base64, a line a message, or a whole
	// exchange in hex
	Dir    string            `json:"dir"`
	Start  string            `json:"start"`
	Frames []json.RawMessage `json:"frames"`

	number int
	seq    uint64 // of a message; of the last before a query or state
	lost   span
	data   []byte
	replay *exchange // of the first line of one
}

// image is one multimodal input of a prompt.
type image struct {
	ID     string `json:"id"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
}

// leading are leading index blocks of a prompt.
type leading struct {
	Device *int `json:"device_blocks"`
	Any    *int `json:"any_blocks"`
}

// leadingRule is the answer by the rules of a query, or of a state the number
// of residencies per tier.
type leadingRule struct {
	leading
	OnDevice *int `json:"device"`
	OnHost   *int `json:"host"`
}

// parseCapture reads a capture. An unknown kind of line is an error.
func parseCapture(lines []line) (*capture, error) {
	c := &capture{}
	for i, l := range lines {
		var x captured
		if i == 0 {
			var kind struct {
				Kind string `json:"kind"`
			}
			if err := l.decode(&kind); err != nil {
				return nil, err
			}
			if kind.Kind != "head" {
				return nil, fmt.Errorf("line %d: a capture begins with a line of kind head, not %s", l.number, kind.Kind)
			}
			if err := l.decode(&c.head); err != nil {
				return nil, err
			}
			continue
		}
		if err := l.decode(&x); err != nil {
			return nil, err
		}
		x.number = l.number
		if err := x.check(c); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
		c.lines = append(c.lines, x)
	}
	if err := c.joinExchanges(); err != nil {
		return nil, err
	}
	return c, c.checkHistory()
}

// check looks at what a line of its kind must have.
func (x *captured) check(c *capture) (err error) {
	switch x.Kind {
	case "msg":
		if x.Payload == nil {
			return fmt.Errorf("msg: payload is missing")
		}
		if x.data, err = base64.StdEncoding.DecodeString(*x.Payload); err != nil {
			return fmt.Errorf("msg: payload: %w", err)
		}
		if x.seq, err = sequence(x.Seq); err != nil {
			return fmt.Errorf("msg: seq: %w", err)
		}
	case "query":
		if x.Expect == nil || x.Expect.Device == nil {
			return fmt.Errorf("query: expect.device_blocks is missing")
		}
		if x.seq, err = sequence(x.After); err != nil {
			return fmt.Errorf("query: after: %w", err)
		}
	case "state":
		if x.Resident == nil {
			return fmt.Errorf("state: resident is missing")
		}
		if x.seq, err = sequence(x.After); err != nil {
			return fmt.Errorf("state: after: %w", err)
		}
	case "lost":
		if x.lost.from, err = sequence(x.From); err != nil {
			return fmt.Errorf("lost: from: %w", err)
		}
		if x.lost.to, err = sequence(x.To); err != nil {
			return fmt.Errorf("lost: to: %w", err)
		}
		if x.lost.from > x.lost.to {
			return fmt.Errorf("lost: from %d to %d: want the first and the last that are missing", x.lost.from, x.lost.to)
		}
	case "replay":
		if err := x.checkReplay(); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
	case "head":
		return fmt.Errorf("a second head")
	default:
		return fmt.Errorf("unknown kind of line %q", x.Kind)
	}
	if _, ok := c.stream(x.Stream); !ok {
		return fmt.Errorf("stream %q is not in the head", x.Stream)
	}
	return nil
}

// hasHostTier reports whether the captured engine has a host tier of its own.
func (c *capture) hasHostTier() bool {
	return slices.ContainsFunc(c.lines, func(x captured) bool {
		return x.ByTier != nil || c.head.Engine == "vllm" && x.Kind == "query" && x.Expect.Any != nil
	})
}

func (c *capture) stream(name string) (namedStream, bool) {
	for _, s := range c.head.Streams {
		if s.Name == name {
			return s, true
		}
	}
	return namedStream{}, false
}

// captureSource is the name of a capture's one source.
const captureSource = "captured"

// source is the configuration under which the capture is played.
func (c *capture) source(pythonRoot bool) (engine.Source, error) {
	s := engine.Source{ID: captureSource, Model: defaultModel, Ranks: 1, MainGroup: c.head.Config.MainGroup, NoPythonRoot: !pythonRoot, TakeUnsound: true}
	switch c.head.Policy {
	case "", "copies":
	case "set":
		s.Policy = tree.Set
	default:
		return s, fmt.Errorf("head: policy %q: want copies or set", c.head.Policy)
	}
	if len(c.head.Streams) == 0 {
		return s, fmt.Errorf("head: streams is empty")
	}
	if c.head.IndexBlock < 1 {
		return s, fmt.Errorf("head: index_block %d: want the tokens of an index block", c.head.IndexBlock)
	}
	ranks := map[int]bool{}
	for i, st := range c.head.Streams {
		if st.Rank < 0 || st.Rank >= maxRanks || ranks[st.Rank] {
			return s, fmt.Errorf("head: streams[%d]: rank %d: want ranks from 0 to %d, each once", i, st.Rank, maxRanks-1)
		}
		ranks[st.Rank] = true
		s.Ranks = max(s.Ranks, st.Rank+1)
		// A source has one subscription; streams of other topics need all.
		if i == 0 {
			s.Topic = st.Topic
		} else if s.Topic != st.Topic {
			s.Topic = ""
		}
	}
	return s, nil
}

// before reports whether the capture's engine is vLLM older than a release:
// its events then lack what that release began to tell.
func (h *head) before(release string) bool {
	return h.Engine == "vllm" && older(h.Version, release)
}

// older compares releases such as 0.9.0.1 and 0.5.5.post3 part by part.
func older(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		m, n := part(x, i), part(y, i)
		if m != n {
			return m < n
		}
	}
	return false
}

func part(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimPrefix(parts[i], "post"))
	if err != nil {
		return 0
	}
	return n
}

// query is the question of a query line: what the engine's release tells apart
// on the wire, and no more.
func (c *capture) query(x *captured) *engine.Query {
	q := &engine.Query{Model: defaultModel, Tokens: x.Tokens}
	switch {
	case x.Lora != nil && c.head.before("0.14.0"):
		// Only the process's own number of the adapter is on the wire.
		if x.LoraID != nil {
			q.Adapter = fmt.Sprintf("id:%d@%s", *x.LoraID, captureSource)
		}
	case x.Lora != nil:
		q.Adapter = *x.Lora
	}
	if c.head.before("0.17.0") {
		return q // salts and images are invisible
	}
	if x.Salt != nil {
		q.Salt = *x.Salt
	}
	for _, m := range x.MM {
		if hash, ok := engine.MultimodalKey(m.ID); ok {
			q.Keys = append(q.Keys, engine.Key{Hash: hash, Offset: m.Offset, Length: m.Length})
		}
	}
	return q
}
