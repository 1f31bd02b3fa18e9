package shard

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
)

// watch is what everybody who waits for a port waits at. Whoever wakes them
// takes it out of the port first; those who wait on make a new one.
type watch struct {
	lowest atomic.Uint64 // sequence of the running incarnation that wakes them
	woken  chan struct{}
}

// published is the writer's: batch seq of the running incarnation is applied.
func (p *Port) published(seq uint64) {
	if w := p.watch.Load(); w != nil && seq >= w.lowest.Load() {
		p.wake(w)
	}
}

// restarted is the stream's: a new incarnation has begun.
func (p *Port) restarted() {
	if w := p.watch.Load(); w != nil {
		p.wake(w)
	}
}

func (p *Port) wake(w *watch) {
	if p.watch.CompareAndSwap(w, nil) {
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
		w := p.join(at, want)
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
func (p *Port) join(at, want Position) *watch {
	w := p.watch.Load()
	for w == nil {
		fresh := &watch{woken: make(chan struct{})}
		fresh.lowest.Store(math.MaxUint64)
		if p.watch.CompareAndSwap(nil, fresh) {
			w = fresh
		} else {
			w = p.watch.Load()
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
