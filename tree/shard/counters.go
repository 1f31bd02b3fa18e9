package shard

import (
	"sync/atomic"

	"github.com/cairn-kv/cairn/tree"
)

// NumReasons is the number of tree.Reason values.
const NumReasons = int(tree.Full) + 1

// Counters is what became of a port's records since it was opened. What
// belongs to a batch is counted before Applied shows the batch.
type Counters struct {
	Batches uint64 // batches wholly applied
	Records uint64 // records taken from the ring, stale ones included
	Stale   uint64 // records dropped, as their holder's generation had passed
	Stalls  uint64 // times the stream found the ring full and waited
	// Reasons counts the records given to the index by what it said, indexed
	// by tree.Reason; tree.Accepted counts the good ones. A clear is always
	// accepted.
	Reasons [NumReasons]uint64
	Blocks  Blocks
}

// Blocks sums the fields of tree.Outcome of the same names, in blocks.
type Blocks struct {
	New, Known, Waiting, Dropped, Removed, Unknown, Moved, Refused uint64
}

func (c *Counters) outcome(o tree.Outcome) {
	c.Reasons[o.Reason]++
	c.Blocks.New += uint64(o.New)
	c.Blocks.Known += uint64(o.Known)
	c.Blocks.Waiting += uint64(o.Waiting)
	c.Blocks.Dropped += uint64(o.Dropped)
	c.Blocks.Removed += uint64(o.Removed)
	c.Blocks.Unknown += uint64(o.Unknown)
	c.Blocks.Moved += uint64(o.Moved)
	c.Blocks.Refused += uint64(o.Refused)
}

// counters are Counters that any goroutine may read. The writer counts in
// plain words and adds them up here once per batch or turn.
type counters struct {
	batches, records, stale                                          atomic.Uint64
	reasons                                                          [NumReasons]atomic.Uint64
	fresh, known, waiting, dropped, removed, unknown, moved, refused atomic.Uint64
}

// Counters returns the port's counters now. Any goroutine may call it; the
// figures of one call need not belong to one moment.
func (p *Port) Counters() Counters {
	c := &p.counters
	out := Counters{
		Batches: c.batches.Load(),
		Records: c.records.Load(),
		Stale:   c.stale.Load(),
		Stalls:  p.ring.Stalls(),
		Blocks: Blocks{
			New:     c.fresh.Load(),
			Known:   c.known.Load(),
			Waiting: c.waiting.Load(),
			Dropped: c.dropped.Load(),
			Removed: c.removed.Load(),
			Unknown: c.unknown.Load(),
			Moved:   c.moved.Load(),
			Refused: c.refused.Load(),
		},
	}
	for i := range out.Reasons {
		out.Reasons[i] = c.reasons[i].Load()
	}
	return out
}

// show moves the writer's tally to the counters.
func (p *Port) show() {
	t, c := &p.tally, &p.counters
	if t.Records|t.Batches == 0 {
		return
	}
	add(&c.batches, t.Batches)
	add(&c.records, t.Records)
	add(&c.stale, t.Stale)
	for i := range t.Reasons {
		add(&c.reasons[i], t.Reasons[i])
	}
	add(&c.fresh, t.Blocks.New)
	add(&c.known, t.Blocks.Known)
	add(&c.waiting, t.Blocks.Waiting)
	add(&c.dropped, t.Blocks.Dropped)
	add(&c.removed, t.Blocks.Removed)
	add(&c.unknown, t.Blocks.Unknown)
	add(&c.moved, t.Blocks.Moved)
	add(&c.refused, t.Blocks.Refused)
	*t = Counters{}
}

func add(c *atomic.Uint64, n uint64) {
	if n != 0 {
		c.Add(n)
	}
}
