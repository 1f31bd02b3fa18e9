package shard

import (
	"slices"
	"sync/atomic"
)

// Position is a place in a stream: the batch with sequence Seq in the given
// incarnation, or, if Any is false, the incarnation's beginning.
type Position struct {
	Seq         uint64
	Incarnation uint32 // how often the stream restarted
	Any         bool   // a batch of the incarnation is meant; else Seq is 0
}

// Covers reports whether who has applied through p has applied q: the same
// incarnation, and no later sequence.
func (p Position) Covers(q Position) bool {
	return p.Incarnation == q.Incarnation && (!q.Any || p.Any && p.Seq >= q.Seq)
}

// Progress is how far a port's batches are begun and applied. A port has one
// and the same for all its life.
//
// A position does not fit one word, so each is a sequence and a bit of state
// that says whether the sequence counts. The stream moves state to (incarnation
// + 1, no bits) when it restarts; the writer stores a sequence and then, for
// the first batch of an incarnation, sets its bit. It cannot set it for an
// incarnation that is over, so a late batch of one leaves sequences behind that
// nobody reads. A reader that finds the same state before and after a sequence
// has a sequence of that incarnation, for a later one could only have come
// after a change of state.
//
// Who asks a fleet of ports at once asks their Progress, which lie side by side:
// two to a line of memory, with nothing on it that others than the shard's
// writer write for every batch.
type Progress struct {
	state   atomic.Uint64 // incarnation << 2 | sawApplied | sawBegun
	begun   atomic.Uint64 // sequence
	applied atomic.Uint64 // sequence
	_       uint64
}

const (
	sawBegun   = 1 << iota // Progress.begun counts
	sawApplied             // Progress.applied counts
	stateBits  = iota
)

// progressChunk is how many Progress a shard allocates at once: 2 KiB, which the
// allocator lays out by lines.
const progressChunk = 64

// newProgress gives a port its Progress, on the writer goroutine. It is given
// once and never again: who has kept it beyond the port's end must not find
// another port's positions in it. The collector takes a chunk back when nobody
// has any of it, so a port that outlives its neighbours costs a chunk at most.
func (s *Shard) newProgress() *Progress {
	if len(s.progress) == 0 {
		s.progress = make([]Progress, progressChunk)
	}
	g := &s.progress[0]
	s.progress = s.progress[1:]
	return g
}

// Applied returns how far the port's batches are wholly applied and visible.
// Any goroutine may call it; it takes no lock.
func (g *Progress) Applied() Position { return g.position(sawApplied, &g.applied) }

// Begun returns the last batch of which anything may be visible: the one that
// Applied says, or one later that the writer is about to apply. So whoever
// reads the index has seen no less than an Applied before and no more than a
// Begun behind. An incarnation that has begun is later than all batches of the
// one before, which may still become visible then. Any goroutine may call it;
// it takes no lock.
func (g *Progress) Begun() Position { return g.position(sawBegun, &g.begun) }

// AppendApplied appends what Applied returns for each of many ports.
func AppendApplied(to []Position, of []*Progress) []Position {
	n := len(to)
	to = slices.Grow(to, len(of))[:n+len(of)]
	for i, g := range of {
		at := &to[n+i]
		state := g.state.Load()
		*at = Position{Incarnation: uint32(state >> stateBits)}
		if state&sawApplied != 0 {
			if at.Seq, at.Any = g.applied.Load(), true; g.state.Load() != state {
				*at = g.Applied()
			}
		}
	}
	return to
}

func (g *Progress) position(saw uint64, counter *atomic.Uint64) Position {
	for {
		state := g.state.Load()
		at := Position{Incarnation: uint32(state >> stateBits)}
		if state&saw == 0 {
			return at
		}
		at.Seq, at.Any = counter.Load(), true
		if g.state.Load() == state {
			return at
		}
	}
}

// begin is the writer's: it is about to apply records of batch seq.
func (g *Progress) begin(incarnation uint32, seq uint64) {
	if g.begun.Load() != seq {
		g.begun.Swap(seq)
	}
	before := uint64(incarnation) << stateBits
	if g.state.Load() == before {
		g.state.CompareAndSwap(before, before|sawBegun) // or the stream has restarted
	}
}

// publish is the writer's: batch seq of the incarnation is applied. It reports
// whether that shows, which it does not if the stream has restarted.
func (g *Progress) publish(incarnation uint32, seq uint64) bool {
	g.begin(incarnation, seq) // unless it was: the batch may be empty
	g.applied.Swap(seq)
	before := uint64(incarnation)<<stateBits | sawBegun
	state := before | sawApplied
	return g.state.Load() == state || g.state.CompareAndSwap(before, state)
}

// restart is the stream's: a new incarnation begins.
func (g *Progress) restart(incarnation uint32) { g.state.Swap(uint64(incarnation) << stateBits) }
