package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// trace is one line of index.jsonl: events on several sources, with queries.
type trace struct {
	ID     string            `json:"id"`
	Block  int               `json:"block"` // tokens per index block
	Policy string            `json:"policy"`
	Ops    []json.RawMessage `json:"ops"`

	line  int
	steps []step
}

// step is one operation of a trace.
type step struct {
	line   int    // in the file
	op     string // store, remove, clear, drop, query, count, rejected
	source string
	rank   int
	model  string
	event  event  // store, remove, clear
	query  prompt // query
	expect map[string][2]int
	n      int // count, rejected
}

// prompt is what a query asks.
type prompt struct {
	model, adapter, salt string
	tokens               []uint32
	keys                 []*string // per index block
}

// arguments are those of all operations; which one may stand where is checked
// by the operation.
type arguments struct {
	Src      string            `json:"src"`
	Hashes   []name            `json:"hashes"`
	Parent   *name             `json:"parent"`
	Tokens   []uint32          `json:"tokens"`
	BS       *int              `json:"bs"`
	Medium   *string           `json:"medium"`
	Rank     int               `json:"rank"`
	Group    *int              `json:"group"`
	Kind     string            `json:"kind"`
	Model    string            `json:"model"`
	Lora     string            `json:"lora"`
	LoraID   *int64            `json:"lora_id"`
	Salt     string            `json:"salt"`
	MM       []*string         `json:"mm"`
	Expect   map[string][2]int `json:"expect"`
	Resident *int              `json:"resident"`
	N        *int              `json:"n"`
}

// defaultModel is the model of sources and queries that name none.
const defaultModel = "base"

// parseTrace reads one trace. Here a key that is not known is an error: it
// would change what is asked.
func parseTrace(l line) (*trace, error) {
	t := &trace{line: l.number}
	if err := l.decode(t); err != nil {
		return nil, err
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("line %d, %s: %s", l.number, t.ID, fmt.Sprintf(format, args...))
	}
	if t.Block < 1 {
		return nil, fail("block %d: want the tokens of an index block", t.Block)
	}
	if t.Policy != "copies" && t.Policy != "set" {
		return nil, fail("policy %q: want copies or set", t.Policy)
	}
	checks := 0
	for i, raw := range t.Ops {
		s, err := parseStep(raw)
		if err != nil {
			return nil, fail("op %d: %v", i, err)
		}
		switch s.op {
		case "query", "count", "rejected":
			checks++
		}
		s.line = l.number
		t.steps = append(t.steps, s)
	}
	if checks == 0 {
		return nil, fail("asks nothing: want a query, count or rejected among its ops")
	}
	return t, nil
}

func parseStep(raw json.RawMessage) (step, error) {
	var pair []json.RawMessage
	if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 {
		return step{}, fmt.Errorf("want [name, argument], got %s", raw)
	}
	var s step
	if err := json.Unmarshal(pair[0], &s.op); err != nil {
		return s, fmt.Errorf("name %s: want a string", pair[0])
	}
	var a arguments
	d := json.NewDecoder(bytes.NewReader(pair[1]))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return s, fmt.Errorf("%s: %w", s.op, err)
	}
	s.source, s.rank, s.model = a.Src, a.Rank, a.Model
	if s.rank < 0 || s.rank >= maxRanks {
		return s, fmt.Errorf("%s: rank %d: want 0 to %d", s.op, s.rank, maxRanks-1)
	}
	if s.model == "" {
		s.model = defaultModel
	}
	s.event = event{
		op: s.op, hashes: a.Hashes, parent: a.Parent, tokens: a.Tokens, blockSize: 4, medium: "GPU",
		grouped: a.Group != nil || a.Kind != "", kind: a.Kind,
		adapter: a.Lora, adapterID: a.LoraID, salt: a.Salt, keys: a.MM,
	}
	if a.BS != nil {
		s.event.blockSize = *a.BS
	}
	if a.Medium != nil {
		s.event.medium = *a.Medium
	}
	if a.Group != nil {
		s.event.group = *a.Group
	}
	switch s.op {
	case "store", "remove", "clear", "drop":
		if a.Src == "" {
			return s, fmt.Errorf("%s: src is missing", s.op)
		}
	case "query":
		if a.Expect == nil {
			return s, fmt.Errorf("query: expect is missing")
		}
		s.expect = a.Expect
		s.query = prompt{model: s.model, adapter: a.Lora, salt: a.Salt, tokens: a.Tokens, keys: a.MM}
	case "count":
		if a.Resident == nil {
			return s, fmt.Errorf("count: resident is missing")
		}
		s.n = *a.Resident
	case "rejected":
		if a.N == nil {
			return s, fmt.Errorf("rejected: n is missing")
		}
		s.n = *a.N
	default:
		return s, fmt.Errorf("unknown op %q", s.op)
	}
	return s, nil
}

// speaks reports whether the dialect has words for all of the trace.
func (t *trace) speaks(d dialect) bool {
	for i := range t.steps {
		if e := &t.steps[i].event; t.steps[i].op != "query" && !d.can(e) {
			return false
		}
	}
	return true
}

// traceSource is a source that a trace uses.
type traceSource struct {
	id, model string
	ranks     int
}

// sources lists the sources of the trace and what it needs of them.
func (t *trace) sources() ([]traceSource, error) {
	found := map[string]*traceSource{}
	for i := range t.steps {
		s := &t.steps[i]
		if s.source == "" {
			continue
		}
		src := found[s.source]
		if src == nil {
			src = &traceSource{id: s.source}
			found[s.source] = src
		}
		src.ranks = max(src.ranks, s.rank+1)
		if s.op != "store" {
			continue
		}
		if src.model != "" && src.model != s.model {
			return nil, fmt.Errorf("line %d, %s: op %d: source %s has the models %s and %s; a source has one", t.line, t.ID, i, s.source, src.model, s.model)
		}
		src.model = s.model
	}
	var list []traceSource
	for _, id := range slices.Sorted(maps.Keys(found)) {
		src := *found[id]
		if src.model == "" {
			src.model = defaultModel
		}
		list = append(list, src)
	}
	return list, nil
}

// renderDepths writes depths per "source/rank" in a fixed order.
func renderDepths(m map[string][2]int) string {
	if len(m) == 0 {
		return "nobody"
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s=%d/%d", k, m[k][0], m[k][1]))
	}
	return strings.Join(parts, " ")
}
