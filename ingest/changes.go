package ingest

import (
	"sync/atomic"

	"github.com/cairn-kv/cairn/tree/shard"
)

// Changes counts, over all streams that share it, how often one of them changed
// what its word is worth otherwise than by going on: a standing was replaced, a
// link went down or is up again. Who has found streams settled need not look at
// them again while it stands still.
//
// A stream first stores what has changed, then counts it, and only then lets out
// what follows from it: the clear that a loss brings, the batch behind a gap, the
// incarnation of a new process. So who walks the index and then loads the count
// has seen nothing that follows from a change which is not in it. Let
//
//	A   note positions; load the count, n; look at a stream: it is Settled
//	B   take what A found; note positions; walk; load the count: n again
//
// Then B may take the stream for settled without a look. Between the two loads
// nothing was counted, so the stream has stored one change at most, and counts
// it behind B's load. Either A saw it already: then it is what B would see. Or A
// saw what was before: then B would see that, or the change, nothing of which is
// in what it has walked; so it answers as it would have a moment earlier.
//
// B's positions are other than A's. But B noted them later, and a stream goes on
// from where it was; and what is Settled at a position is so at all behind it,
// which is why that takes more than a state that answers: a stream short of the
// batch that its standing begins with may get worse by going on.
//
// Sequences go back in one case: a durable attached stream loses something, and
// goes on from below. It is not settled from then on, which it stores before it
// counts that loss.
type Changes struct {
	_ [64]byte // others are written for every query or batch
	n atomic.Uint64
	_ [64]byte
}

// Load returns the count. Any goroutine may call it.
func (c *Changes) Load() uint64 { return c.n.Load() }

// made counts a change that has been stored.
func (c *Changes) made() { c.n.Add(1) }

// Settled reports whether a domain's word is that of a link that is up and of a
// state that answers, Exact or Degraded, and stays so wherever the stream goes
// on from a position, until the stream's Changes are counted up. Any goroutine
// may call it.
func (s *Stream) Settled(d Domain, from shard.Position) (State, bool) {
	if s.down.Load() != 0 || s.receding.Load() { // in this order: see Status
		return Connecting, false
	}
	n := s.standings[d].Load()
	ok := (n.state == Exact || n.state == Degraded) && reached(from, n.begin) && reached(from, n.from)
	return n.state, ok
}
