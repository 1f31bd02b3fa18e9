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
//	frames topic payload  a malformed message: topic, sequence, sequence7
//	                      (seven bytes), payload, extra
//	? 1..8 -> 2         a prompt with tokens 1 to 8 finds 2 blocks of 4
//	state exact         the source's state
//	gaps, missing, restarts, dropped, connections N   what was counted
//
// The blocks are those of the project's transport cases: a, b, c and d one
// behind the other with tokens 1..16 and the names 101 to 104, x a root block
// with tokens 21..24 and the name 121.
type script struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	FirstSeq uint64   `json:"first_seq"` // of the source: 0, or 1
	Script   []string `json:"script"`

	line  int
	moves []move
}

// move is one statement of a script.
type move struct {
	text        string
	verb        string  // live, frames, ?, state, or what is counted
	first, last uint64  // live
	events      []event // live
	frames      []string
	tokens      []uint32 // ?
	n           uint64   // ?, counts
	state       string
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
var counted = []string{"gaps", "missing", "restarts", "dropped", "connections"}

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
		if m.verb != "live" && m.verb != "frames" {
			checks++
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
	case "live":
		sequences, events, ok := strings.Cut(rest, ": ")
		if !ok {
			return m, errors.New("want live SEQUENCE: EVENTS")
		}
		var err error
		if m.first, m.last, err = parseRange(sequences); err != nil {
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
	return m, fmt.Errorf("unknown statement; want live, frames, ?, state, %s", strings.Join(counted, ", "))
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
