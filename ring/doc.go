// Package ring hands items from one goroutine to another, in place.
//
// A [Ring] is a bounded queue with one producer and one consumer. Nothing is
// copied: the producer reserves a piece of the buffer, fills it, and publishes
// everything it reserved by one store; the consumer reads the items where they
// lie and gives the space back by one store.
//
//	         released          committed          reserved
//	            │                  │                  │
//	────────────┼──────────────────┼──────────────────┼────────────
//	   free     │ readable: Peek   │ private to the   │    free
//	            │                  │ producer         │
//	           tail               head               next
//	     Release moves ──▶   Commit moves ──▶   Reserve moves ──▶
//	                                          ◀── Rollback, to head
//
// Positions count items since the beginning and never wrap (2⁶³ items do not
// happen); an item lies at position & mask. Invariants:
//
//	tail ≤ head ≤ next ≤ tail + capacity
//
// # Who writes what
//
// Only the producer moves head and next, only the consumer moves tail. The one
// exception is Close, which any goroutine may call: it sets the top bit of
// head. Commit is a compare-and-swap against the head without that bit, so a
// batch is either published before the ring closed or not at all; a consumer
// that saw [Ring.Closed] has seen every item there will ever be.
//
// Each side keeps what it alone uses on cache lines of its own, with a copy of
// the other side's index, and looks at the real one only when the copy says
// full or empty.
//
// # Waiting
//
// A full ring makes the producer wait and counts it: [Ring.Wait]. An empty
// ring makes nobody wait. The consumer waits for many rings at once, at a
// [Doorbell], which holds one bit per ring; idle rings cost it nothing. Both
// waits look a few times, yield a few times and then park on a channel, for on
// few cores a spinning waiter steals the core of whom it waits for.
//
// # No wake-up is lost
//
// There are three places where one side could fall asleep while the other
// thinks it awake. All three have one shape: each side first writes its own
// word, then reads the other's. Atomic operations of Go form one total order,
// in which one of the two writes comes first, and the side that wrote second
// sees it:
//
//	producer parks:    want  = position │ reads tail    (room meanwhile?)
//	consumer releases: tail  = position │ reads want    (somebody parked?)
//
//	consumer empties:  bit   = 0        │ reads head    (items meanwhile?)
//	producer commits:  head  = position │ reads bit     (already marked?)
//
//	consumer parks:    parked = true    │ reads all bits (one set meanwhile?)
//	producer marks:    bit    = 1       │ reads parked   (somebody parked?)
//
// The writes on the left are read-modify-write instructions throughout: under
// the race detector a plain atomic store orders less than the memory model
// promises, and on amd64 it is the same instruction anyway.
//
// A wake-up is a token in a channel with one slot. A token that finds the slot
// taken can be thrown away, for the one in it has yet to be seen; one that
// comes late, after its sleeper went on for another reason, wakes it once for
// nothing, and it looks again.
package ring
