package conformance

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// script is one transport script: what a publisher does, and what must be seen.
//
//	live 0: +a b        a message with sequence 0: a store of a and b, chained
//	live 1..5: empty    messages without events
//	live 2^63: +c^b -a  sequences may be powers; c has the parent b; a is removed
//	live 7: +# -#3      the block of batch 7 of one long chain is stored, that of
//	                    batch 3 removed
//	request 2           the source asks its replay endpoint from 2 on
//	rp 2: +c^b          a reply with sequence 2
//	end                 the end marker
//	frames topic payload  a malformed message: topic, sequence, sequence7
//	                      (seven bytes), payload, extra
//	? 1..8 -> 2         a prompt with tokens 1 to 8 finds 2 blocks of 4
//	state exact         the source's state
//	gaps, missing, restarts, dropped, connections, requests N   what was counted
//
// The blocks are those of the project's transport cases: a, b, c and d one
// behind the other with tokens 1..16 and the names 101 to 104, x a root block
// with tokens 21..24 and the name 121. Block n of the chain has the tokens 4n+1
// to 4n+4 and the name 1001+n; block 0 is a root.
type script struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	FirstSeq uint64   `json:"first_seq"` // of the source: 0, or 1
	Replay   bool     `json:"replay"`    // the source has a replay endpoint
	Script   []string `json:"script"`

	line  int
	moves []move
}

// move is one statement of a script.
type move struct {
	text        string
	verb        string  // live, rp, request, end, frames, ?, state, or what is counted
	first, last uint64  // live, rp, request
	events      []event // live, rp; those of the chain are made per sequence
	chain       []chained
	frames      []string
	tokens      []uint32 // ?
	n           uint64   // ?, counts
	state       string
}

// chained is an event about a block of the chain.
type chained struct {
	op  string // store, remove
	n   uint64
	own bool // n is the batch's sequence
}

// event makes it for the batch with sequence seq.
func (c chained) event(seq uint64) event {
	n := c.n
	if c.own {
		n = seq
	}
	e := event{op: c.op, blockSize: scriptBlock, medium: "GPU", hashes: []name{{value: 1001 + n}}}
	if c.op == "store" {
		e.tokens = count(scriptBlock*n+1, scriptBlock)
		if n > 0 {
			e.parent = &name{value: 1000 + n}
		}
	}
	return e
}

// batch is the payload of the move's batch with sequence seq.
func (m *move) batch(seq uint64) []byte {
	events := m.events
	for _, c := range m.chain {
		events = append(events[:len(events):len(events)], c.event(seq))
	}
	return vllmMap.batch(0, events...)
}

// scriptBlock is the tokens of one block of a script.
const scriptBlock = 4

// scriptBlocks are the blocks by letter: name and first token.
var scriptBlocks = map[string]struct{ name, first uint64 }{
	"a": {101, 1}, "b": {102, 5}, "c": {103, 9}, "d": {104, 13}, "x": {121, 21},
}

// count lists n numbers from the first on.
func count(first, n uint64) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = uint32(first) + uint32(i)
	}
	return list
}

// counted are the words for what the engine counted.
var counted = []string{"gaps", "missing", "restarts", "dropped", "connections", "requests"}

func parseScript(l line) (*script, error) {
	s := &script{line: l.number}
	if err := l.decode(s); err != nil {
		return nil, err
	}
	if s.FirstSeq > 1 {
		return nil, fmt.Errorf("line %d, %s: first_seq %d: want 0 or 1", l.number, s.ID, s.FirstSeq)
	}
	checks := 0
	for i, text := range s.Script {
		m, err := parseMove(text)
		if err != nil {
			return nil, fmt.Errorf("line %d, %s: statement %d, %q: %w", l.number, s.ID, i, text, err)
		}
		switch m.verb {
		case "live", "rp", "end", "frames":
		default:
			checks++
		}
		if !s.Replay && (m.verb == "request" || m.verb == "rp" || m.verb == "end") {
			return nil, fmt.Errorf("line %d, %s: statement %d, %q: the source has no replay endpoint; want replay true", l.number, s.ID, i, text)
		}
		s.moves = append(s.moves, m)
	}
	if checks == 0 {
		return nil, fmt.Errorf("line %d, %s: checks nothing", l.number, s.ID)
	}
	return s, nil
}

func parseMove(text string) (move, error) {
	m := move{text: text}
	verb, rest, _ := strings.Cut(text, " ")
	m.verb = verb
	switch verb {
	case "request":
		var err error
		m.first, err = parseSequence(rest)
		return m, err
	case "end":
		return m, nil
	case "live", "rp":
		sequences, events, ok := strings.Cut(rest, ": ")
		if !ok {
			return m, fmt.Errorf("want %s SEQUENCE: EVENTS", verb)
		}
		var err error
		if m.first, m.last, err = parseRange(sequences); err != nil {
			return m, err
		}
		if m.chain, events, err = parseChain(events); err != nil || len(m.chain) > 0 && events == "" {
			return m, err
		}
		m.events, err = parseEvents(events)
		return m, err
	case "frames":
		m.frames = strings.Fields(rest)
		for _, f := range m.frames {
			switch f {
			case "topic", "sequence", "sequence7", "payload", "extra":
			default:
				return m, fmt.Errorf("frame %q: want topic, sequence, sequence7, payload or extra", f)
			}
		}
		return m, nil
	case "?":
		span, answer, ok := strings.Cut(rest, " -> ")
		if !ok {
			return m, errors.New("want ? FIRST..LAST -> BLOCKS")
		}
		first, last, err := parseRange(span)
		if err != nil {
			return m, err
		}
		if last-first >= 1<<20 {
			return m, errors.New("want a prompt of at most 2^20 tokens")
		}
		m.tokens = count(first, last-first+1)
		m.n, err = strconv.ParseUint(answer, 10, 64)
		return m, err
	case "state":
		m.state = rest
		return m, nil
	}
	for _, word := range counted {
		if verb == word {
			var err error
			m.n, err = strconv.ParseUint(rest, 10, 64)
			return m, err
		}
	}
	return m, fmt.Errorf("unknown statement; want live, request, rp, end, frames, ?, state, %s", strings.Join(counted, ", "))
}

// parseRange reads "5", "1..5" or "2^63-1".
func parseRange(s string) (first, last uint64, err error) {
	a, b, span := strings.Cut(s, "..")
	if first, err = parseSequence(a); err != nil {
		return 0, 0, err
	}
	last = first
	if span {
		if last, err = parseSequence(b); err != nil {
			return 0, 0, err
		}
	}
	if last < first || last-first > 1<<20 {
		return 0, 0, fmt.Errorf("range %q: want FIRST..LAST with at most 2^20 numbers", s)
	}
	return first, last, nil
}

// parseSequence reads a number, or a power of two with what is to be taken
// from it: no float64 is on the way.
func parseSequence(s string) (uint64, error) {
	power, minus, _ := strings.Cut(s, "-")
	exponent, ok := strings.CutPrefix(power, "2^")
	if !ok {
		return strconv.ParseUint(s, 10, 64)
	}
	e, err := strconv.ParseUint(exponent, 10, 7)
	if err != nil {
		return 0, err
	}
	v := new(big.Int).Lsh(big.NewInt(1), uint(e))
	if minus != "" {
		n, err := strconv.ParseUint(minus, 10, 64)
		if err != nil {
			return 0, err
		}
		v.Sub(v, new(big.Int).SetUint64(n))
	}
	if !v.IsUint64() {
		return 0, fmt.Errorf("%s is no number of 64 bits", s)
	}
	return v.Uint64(), nil
}

// parseChain takes the events about the chain, "+#" and "-#3", out of a list.
func parseChain(s string) (list []chained, rest string, err error) {
	var others []string
	for _, word := range strings.Fields(s) {
		sign, number, ok := strings.Cut(word, "#")
		if !ok {
			others = append(others, word)
			continue
		}
		c := chained{op: map[string]string{"+": "store", "-": "remove"}[sign], own: number == ""}
		if c.op == "" {
			return nil, "", fmt.Errorf("%q: want + or - in front of a block of the chain", word)
		}
		if !c.own {
			if c.n, err = strconv.ParseUint(number, 10, 32); err != nil {
				return nil, "", err
			}
		}
		list = append(list, c)
	}
	return list, strings.Join(others, " "), nil
}

// parseEvents reads "+a b", "+c^b", "-b" or "empty". A sign begins an event.
func parseEvents(s string) ([]event, error) {
	if s == "empty" {
		return nil, nil
	}
	var events []event
	for _, word := range strings.Fields(s) {
		sign := word[0]
		letter, parent, child := strings.Cut(strings.TrimLeft(word, "+-"), "^")
		block, known := scriptBlocks[letter]
		if !known {
			return nil, fmt.Errorf("block %q: want a, b, c, d or x", letter)
		}
		switch {
		case sign == '+' || sign == '-':
			e := event{op: "store", blockSize: scriptBlock, medium: "GPU"}
			if sign == '-' {
				e.op = "remove"
			}
			if child {
				p, known := scriptBlocks[parent]
				if !known || sign == '-' {
					return nil, fmt.Errorf("parent %q: want a store with a parent of a, b, c, d or x", parent)
				}
				e.parent = &name{value: p.name}
			}
			events = append(events, e)
		case len(events) == 0 || child:
			return nil, fmt.Errorf("%q: want + or - in front of an event", word)
		}
		e := &events[len(events)-1]
		e.hashes = append(e.hashes, name{value: block.name})
		if e.op == "store" {
			e.tokens = append(e.tokens, count(block.first, scriptBlock)...)
		}
	}
	if len(events) == 0 {
		return nil, errors.New("want events, or empty")
	}
	return events, nil
}
