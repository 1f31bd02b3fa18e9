package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-kv/cairn/ingest/replay"
	"github.com/cairn-kv/cairn/ingest/wire"
)

// Snapshotter gives a publisher's whole state at once. No release of an engine
// offers one so far; what is proposed are a request over the replay socket and
// an endpoint of its own with an epoch and heartbeats, neither with a settled
// form. So the form is the Snapshotter's affair; [HTTPSnapshot] is one.
type Snapshotter interface {
	// Snapshot asks for the state, until ctx ends. It is called on a goroutine
	// of its own.
	Snapshot(ctx context.Context) (*Snapshot, error)
}

// Snapshot is what a publisher held once everything through Watermark was
// applied.
type Snapshot struct {
	// Epoch names the publisher's process, for logs.
	Epoch string
	// Watermark is the last sequence that is in the state.
	Watermark uint64
	// Batches are payloads as of live messages, in order, whose stores make up
	// the state of all ranks and domains.
	Batches [][]byte
}

// askSnapshot sends for the publisher's state; why says what the replay lacked.
func (s *Stream) askSnapshot(ctx context.Context, why failure) error {
	r := &s.repair
	if s.opt.Repair.Snapshot == nil || r.tried || r.left <= 0 {
		return s.failRepair(ctx, why)
	}
	r.tried = true
	s.counters.add(why, 1)
	left := r.left
	s.send(forSnapshot, func(ctx context.Context, e *errand) {
		began := time.Now()
		asking, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		var err error
		e.state, err = s.opt.Repair.Snapshot.Snapshot(asking)
		_ = e.inbox.Put(ctx, replay.Item{Kind: replay.Done, Err: err, Took: time.Since(began)})
	})
	return nil
}

// awaitsSnapshot reports whether a snapshot is on its way.
func (s *Stream) awaitsSnapshot() bool { return s.errand != nil && s.errand.kind == forSnapshot }

// errOldSnapshot: batches between the snapshot and what is held are missing.
var errOldSnapshot = errors.New("ingest: the snapshot is older than what must follow it")

// restored replaces everything the stream taught by a snapshot, and goes on with
// what is held behind it.
func (s *Stream) restored(ctx context.Context, state *Snapshot, done *replay.Item) error {
	r := &s.repair
	if !r.active {
		return nil
	}
	r.left -= done.Took
	err := done.Err
	if err == nil {
		err = s.checkSnapshot(state)
	}
	if err != nil {
		s.log.Warn("no snapshot", "error", err)
		return s.failRepair(ctx, failSnapshot)
	}
	s.log.Info("a snapshot replaces what was known", "epoch", state.Epoch, "watermark", state.Watermark)
	s.counters.add(countSnapshots, 1)
	s.tapRestored()
	s.machine.Skip(state.Watermark)
	s.heardOf(state.Watermark)
	s.received.Store(true)
	r.held.drop(state.Watermark)
	s.seq = state.Watermark
	s.mark = mark{}
	s.proven = true // whoever it is: nothing is left of what was known before
	r.causes, r.alien = [NumDomains]Cause{}, false
	for d := range NumDomains {
		s.spoil(d, false)
	}
	if err := s.clearAll(ctx); err != nil {
		return err
	}
	s.clearing, s.pieces = false, true // hidden, so no reader sees the pieces
	now := time.Now()
	for _, payload := range state.Batches {
		if cause, err := s.fill(ctx, now, payload); err != nil {
			return s.fail(ctx, cause, err)
		}
	}
	s.counters.settle(&s.tally)
	s.settleStates()
	s.endBatch()
	if err := s.port.Commit(s.seq); err != nil || !r.active {
		return err
	}
	if err := s.merge(ctx); err != nil || !r.active {
		return err
	}
	if _, holding := r.held.first(); !holding && r.toEnd {
		s.finishRepair()
		s.linkProven()
		return nil
	}
	return s.failRepair(ctx, failSnapshot)
}

// checkSnapshot refuses a state that the stream cannot go on from.
func (s *Stream) checkSnapshot(state *Snapshot) error {
	if applied, any := s.machine.Applied(); any && state.Watermark < applied {
		return errOldSnapshot
	}
	if n, ok := s.repair.held.first(); ok && n > state.Watermark+1 {
		return errOldSnapshot
	}
	for _, payload := range state.Batches {
		if err := wire.Check(payload); err != nil {
			return err
		}
	}
	return nil
}
