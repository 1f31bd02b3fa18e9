package conformance

import (
	"cmp"
	"fmt"
	"slices"
)

// following is how a message stands to those of its stream before it.
type following uint8

const (
	inOrder   following = iota
	repeated            // the last message again: an index drops it
	behindGap           // messages before it are missing
	restarted           // a new process
)

// follows judges a sequence by the one that was expected, which is 0 before
// the first message.
func follows(seq, expected uint64) following {
	switch {
	case seq == expected:
		return inOrder
	case seq > expected:
		return behindGap
	case seq+1 == expected:
		return repeated
	}
	return restarted
}

// span is an inclusive run of sequences.
type span struct{ from, to uint64 }

// checkHistory holds a capture's lines against each other, so that no damaged
// file is judged more kindly than a whole one: messages that are missing must
// be said to be lost, and every question must stand behind the message it names.
func (c *capture) checkHistory() error {
	for _, s := range c.head.Streams {
		if err := c.checkStream(s.Name); err != nil {
			return err
		}
	}
	return nil
}

func (c *capture) checkStream(name string) error {
	var expected uint64
	var told []span // by lost lines of this process
	var since int   // how many of told stand before the last message
	var gaps []gap  // of this process
	for i := range c.lines {
		x := &c.lines[i]
		if x.Stream != name {
			continue
		}
		switch x.Kind {
		case "lost":
			told = append(told, x.lost)
		case "query", "state":
			if expected == 0 || x.seq != expected-1 {
				return fmt.Errorf("line %d: %s of %q: after %d: want the sequence of the last message before it, %s",
					x.number, x.Kind, name, x.seq, last(expected))
			}
		case "msg":
			if x.seq+1 == 0 {
				return fmt.Errorf("line %d: msg of %q: seq %d is what every index refuses; want one below it", x.number, name, x.seq)
			}
			how := follows(x.seq, expected)
			if how == restarted {
				if err := explained(gaps, told); err != nil {
					return err
				}
				told, since, gaps, expected = told[since:], 0, nil, 0
			}
			if x.seq > expected {
				gaps = append(gaps, gap{x, span{expected, x.seq - 1}, since})
			}
			since, expected = len(told), x.seq+1
		}
	}
	return explained(gaps, told)
}

// gap is what is missing right before a message.
type gap struct {
	behind  *captured
	missing span
	since   int // the lost lines before this one are about earlier messages
}

// explained reports the first gap that lost lines do not cover. A line about a
// gap stands anywhere behind the last message before it: a recorder may notice
// late.
func explained(gaps []gap, told []span) error {
	for _, g := range gaps {
		if !covered(g.missing, told[g.since:]) {
			return fmt.Errorf("line %d: msg of %q: seq %d: %d to %d are missing before it, and no line of kind lost says so",
				g.behind.number, g.behind.Stream, g.behind.seq, g.missing.from, g.missing.to)
		}
	}
	return nil
}

func last(expected uint64) string {
	if expected == 0 {
		return "of which there is none"
	}
	return fmt.Sprint(expected - 1)
}

// covered reports whether every sequence of missing is in one of told.
func covered(missing span, told []span) bool {
	told = slices.Clone(told)
	slices.SortFunc(told, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, t := range told {
		if t.from > missing.from {
			return false
		}
		if t.to >= missing.to {
			return true
		}
		missing.from = max(missing.from, t.to+1)
	}
	return false
}
