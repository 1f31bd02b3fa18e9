package shard

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
)

// Position is a place in a stream: the batch with sequence Seq in the given
// incarnation, or, if Any is false, the incarnation's beginning.
type Position struct {
	Incarnation uint32 // how often the stream restarted
	Seq         uint64
	Any         bool // a batch of the incarnation is meant; else Seq is 0
}

// Covers reports whether who has applied through p has applied q: the same
// incarnation, and no later sequence.
func (p Position) Covers(q Position) bool {
	return p.Incarnation == q.Incarnation && (!q.Any || p.Any && p.Seq >= q.Seq)
}

// progress is how far a port's batches are begun and applied, and who waits for
// more.
//
// A position does not fit one word, so each is a sequence and a bit of state
// that says whether the sequence counts. The stream moves state to (incarnation
// + 1, no bits) when it restarts; the writer stores a sequence and then, for
// the first batch of an incarnation, sets its bit. It cannot set it for an
// incarnation that is over, so a late batch of one leaves sequences behind that
// nobody reads. A reader that finds the same state before and after a sequence
// has a sequence of that incarnation, for a later one could only have come
// after a change of state.
type progress struct {
	state   atomic.Uint64 // incarnation << 2 | sawApplied | sawBegun
	begun   atomic.Uint64 // sequence
	applied atomic.Uint64 // sequence
	watch   atomic.Pointer[watch]
}

const (
	sawBegun   = 1 << iota // progress.begun counts
	sawApplied             // progress.applied counts
	stateBits  = iota
)

// watch is what everybody who waits for the port waits at. Whoever wakes them
// takes it out of progress first; those who wait on make a new one.
type watch struct {
	lowest atomic.Uint64 // sequence of the running incarnation that wakes them
	woken  chan struct{}
}

// Applied returns how far the port's batches are wholly applied and visible.
// Any goroutine may call it; it takes no lock.
func (p *Port) Applied() Position { return p.progress.position(sawApplied, &p.progress.applied) }

// Begun returns the last batch of which anything may be visible: the one that
// Applied says, or one later that the writer is about to apply. So whoever
// reads the index has seen no less than an Applied before and no more than a
// Begun behind. An incarnation that has begun is later than all batches of the
// one before, which may still become visible then. Any goroutine may call it;
// it takes no lock.
func (p *Port) Begun() Position { return p.progress.position(sawBegun, &p.progress.begun) }

func (g *progress) position(saw uint64, counter *atomic.Uint64) Position {
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
func (g *progress) begin(incarnation uint32, seq uint64) {
	if g.begun.Load() != seq {
		g.begun.Swap(seq)
	}
	before := uint64(incarnation) << stateBits
	if g.state.Load() == before {
		g.state.CompareAndSwap(before, before|sawBegun) // or the stream has restarted
	}
}

// publish is the writer's: batch seq of the incarnation is applied.
func (g *progress) publish(incarnation uint32, seq uint64) {
	g.begin(incarnation, seq) // unless it was: the batch may be empty
	g.applied.Swap(seq)
	before := uint64(incarnation)<<stateBits | sawBegun
	if state := before | sawApplied; g.state.Load() != state && !g.state.CompareAndSwap(before, state) {
		return // the stream has restarted
	}
	if w := g.watch.Load(); w != nil && seq >= w.lowest.Load() {
		g.wake(w)
	}
}

// restart is the stream's: a new incarnation begins.
func (g *progress) restart(incarnation uint32) {
	g.state.Swap(uint64(incarnation) << stateBits)
	if w := g.watch.Load(); w != nil {
		g.wake(w)
	}
}

func (g *progress) wake(w *watch) {
	if g.watch.CompareAndSwap(w, nil) {
		close(w.woken)
	}
}

// WaitApplied waits until the port has applied through want; a want without
// Any waits for its incarnation to begin. It fails with ErrRestarted if the
// stream is past want's incarnation, with ErrClosed if the port was released
// short of want, and with ctx's error when that ends first. Any goroutine may
// call it, any number at once. The writer does not notice those who wait for a
// sequence it has not reached.
func (p *Port) WaitApplied(ctx context.Context, want Position) error {
	for closed := false; ; {
		at := p.Applied()
		switch {
		case at.Covers(want):
			return nil
		case at.Incarnation > want.Incarnation:
			return fmt.Errorf("%w: waited for sequence %d of incarnation %d, it is at %d", ErrRestarted, want.Seq, want.Incarnation, at.Incarnation)
		case closed:
			return ErrClosed
		}
		w := p.progress.join(at, want)
		// Look again: what came before we joined did not wake us.
		if now := p.Applied(); now.Incarnation != at.Incarnation || now.Covers(want) {
			continue
		}
		select {
		case <-w.woken:
		case <-p.released:
			closed = true // nothing more is applied: one last look
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// join returns the watch, made to wake when want is reached if that can happen
// in the incarnation of at. A restart wakes it in any case.
func (g *progress) join(at, want Position) *watch {
	w := g.watch.Load()
	for w == nil {
		fresh := &watch{woken: make(chan struct{})}
		fresh.lowest.Store(math.MaxUint64)
		if g.watch.CompareAndSwap(nil, fresh) {
			w = fresh
		} else {
			w = g.watch.Load()
		}
	}
	if want.Incarnation != at.Incarnation {
		return w
	}
	for {
		lowest := w.lowest.Load()
		if want.Seq >= lowest || w.lowest.CompareAndSwap(lowest, want.Seq) {
			return w
		}
	}
}
