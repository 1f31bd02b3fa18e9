package shard

import (
	"context"
	"sync/atomic"

	"github.com/cairn-kv/cairn/tree"
)

// call is one function on its way to the writer.
type call struct {
	fn    func(tree.Writer)
	state atomic.Uint32 // who got it: callWaiting, then one of the others
	done  chan struct{} // closed when fn has returned
}

const (
	callWaiting   = iota
	callTaken     // by the writer, which runs it
	callAbandoned // by its caller, which went away
)

// Do runs fn on the writer goroutine, with the index to itself, between two
// turns and before records no turn has reached; it returns nil after fn did. It
// waits while the control queue is full. If ctx ends or the shard closes before
// fn began, fn never runs and Do returns ctx's error or ErrClosed; once begun,
// Do waits for it.
//
// Streams and queries stop at nothing fn does, but records wait for it: keep it
// short. fn must not call Do, OpenPort or Close, nor wait for a port.
func (s *Shard) Do(ctx context.Context, fn func(w tree.Writer)) error {
	if s.closing.Load() {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &call{fn: fn, done: make(chan struct{})}
	select {
	case s.control <- c:
	case <-s.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	s.bell.Ring()
	var err error
	select {
	case <-c.done:
		return nil
	case <-s.done:
		err = ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	if c.state.CompareAndSwap(callWaiting, callAbandoned) {
		return err
	}
	<-c.done
	return nil
}

// runControl runs what is queued, calls that come meanwhile included, but no
// more than one queue full: callers that keep it full must not keep the rings
// waiting for ever.
func (s *Shard) runControl() {
	for range controlQueue {
		select {
		case c := <-s.control:
			if c.state.CompareAndSwap(callWaiting, callTaken) {
				s.controlling.Store(true)
				c.fn(s.index)
				s.controlling.Store(false)
				close(c.done)
			}
		default:
			return
		}
	}
}
