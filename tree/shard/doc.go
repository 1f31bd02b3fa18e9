// Package shard is the one goroutine that writes an index, and the ways in.
//
//	stream goroutine                     writer goroutine
//	┌────────────────┐   ring of words   ┌──────────────────────────────┐
//	│ Port.Store     │  ┌─────────────┐  │ 1. control: every queued Do  │
//	│   fill pairs   ├─▶│ records …   ├─▶│ 2. the next ring in turn:    │
//	│ Port.Commit(7) │  └─────────────┘  │    ≤ 64 records into the     │─▶ tree.Writer
//	└────────────────┘   one per stream  │    index, pairs read in place│
//	         ▲   begun through 7 ◀───────┤    (said before the first,   │
//	         └── applied through 7 ◀─────┤     and behind the last)     │
//	                                     │ 3. idle: Step, then park     │
//	                                     │    at the doorbell           │
//	                                     └──────────────────────────────┘
//	any goroutine ── Shard.Do(fn) ── bounded queue ──▲
//
// A stream owns one [Port] and writes what it decoded straight into the port's
// ring: Store, Place, Remove and Clear reserve a record and return the words
// to fill; Commit publishes the whole batch by one atomic operation. Nothing of
// a batch is visible before, and Rollback leaves nothing of it. The writer
// hands the index slices of ring memory; nothing is copied on the way.
//
// # Order
//
// The records of one port are applied in their order: the batch's sequence shows
// in [Port.Begun] before the first of them is, in [Port.Applied] when all are. A
// reader of the index that asks for Applied before its walk and for Begun after
// it knows both ends of what it may have seen; they are the same unless a batch
// was being applied meanwhile. Control has no sequence and shows in neither.
//
//	├─── batch 6 ───┤     ├─── batch 7 ───┤
//	begun 6         │     begun 7         │
//	        applied 6             applied 7
//
// Ports have no order among themselves: they are served in turn, each up to 64
// records or 8,192 words at a time. Functions given to [Shard.Do] run between
// turns, before any record that no turn has reached, so control overtakes what
// lies in the rings. A batch that takes several turns may be half applied when
// control runs; Begun covers it then, Applied does not yet.
//
// # Generations
//
// Because control overtakes, a cleared holder could be filled again by records
// that were written before it was cleared. So every holder has a generation. A
// stream stamps its records with the one it knows; [Shard.Raise], called inside
// Do beside Clear, Hide or Drop, makes all older records void: they are dropped
// and counted as stale.
//
// # Concurrency
//
// A Port's producing methods belong to its stream's goroutine; Begun, Applied,
// WaitApplied, Counters, Close and Done may be called by any. Every method of
// Shard may be called by any goroutine, but not from inside Do, where only
// Raise, Forget and Generation are allowed.
//
// The writer waits for nobody. It takes no lock; a stream that finds its ring
// full waits for the writer, never the reverse; who waits for a sequence parks
// on a channel that the writer closes. Queues are bounded: a full control queue
// makes Do wait, a full ring makes its stream wait, and both show.
//
// # The end
//
// Close, or the end of Start's context, closes all rings, applies what had been
// committed, at most a ring per port, and then ends the writer. From then on
// everything fails with [ErrClosed].
package shard
