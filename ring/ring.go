package ring

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync/atomic"
)

var (
	// ErrClosed: the ring was closed. What was committed before is still there
	// for the consumer; what was not is lost to it.
	ErrClosed = errors.New("ring: closed")
	// ErrTooLong: the wait could never end, because the items asked for and
	// those already reserved do not fit into the ring together.
	ErrTooLong = errors.New("ring: longer than the ring")
)

// pad keeps what lies before and behind it from sharing a cache line, wherever
// the allocator puts the struct: 128 bytes, since amd64 fetches lines in pairs
// and some arm64 cores have lines of that length.
type pad [128]byte

// closedBit marks the head of a closed ring.
const closedBit = 1 << 63

// Waiters look at what they wait for this often, then yield their core this
// often, then park. Looks are cheap but hold the core; a yield lets the other
// side run when both share one.
const (
	looks  = 32
	yields = 4
)

// Ring is a bounded queue between one producer and one consumer; see the
// package comment for how it works. Reserve, Contiguous, Wait, Commit and
// Rollback belong to the producer's goroutine, Peek, Release and Closed to the
// consumer's; Close, Stalls and Cap may be called by any.
//
// Released items are not cleared: a T with pointers keeps what it points at
// alive until it is overwritten. A Ring must not be copied.
type Ring[T any] struct {
	buf  []T
	mask uint64
	wake chan struct{} // one slot; the producer parks here
	// Set by Doorbell.Attach before the ring is handed to its producer.
	bell *Doorbell
	word *atomic.Uint64 // the word of the bell with this ring's bit
	bit  uint64

	_    pad
	head atomic.Uint64 // end of what is committed; top bit: closed

	_ pad
	// The producer's own.
	next     uint64 // end of what is reserved
	sent     uint64 // head, as the producer left it
	seenTail uint64 // tail, as the producer saw it last
	stalls   atomic.Uint64

	_    pad
	tail atomic.Uint64 // end of what is released

	_ pad
	// The consumer's own.
	read     uint64 // tail, as the consumer left it
	seenHead uint64 // head, as the consumer saw it last

	_ pad
	// want is the tail a parked producer waits for; 0 while none is parked.
	want atomic.Uint64
	_    pad
}

// New makes a ring for at least capacity items: capacity is rounded up to a
// power of two, and to 2. It panics if capacity is negative or above 2⁴⁰.
func New[T any](capacity int) *Ring[T] {
	if capacity < 0 || capacity > 1<<40 {
		panic(fmt.Sprintf("ring: capacity %d: want 0 … 2⁴⁰", capacity))
	}
	size := 2
	if capacity > 2 {
		size = 1 << bits.Len(uint(capacity-1))
	}
	return &Ring[T]{
		buf:  make([]T, size),
		mask: uint64(size - 1),
		wake: make(chan struct{}, 1),
	}
}

// Cap returns how many items the ring holds.
func (r *Ring[T]) Cap() int { return len(r.buf) }

// Stalls returns how often the producer found the ring too full and waited.
func (r *Ring[T]) Stalls() uint64 { return r.stalls.Load() }

// Reserve takes the n items behind those already reserved and returns them for
// writing. They hold whatever was there before, and stay the producer's until
// Commit or Rollback. It returns nil, and reserves nothing, if the n items are
// not free now, would cross the end of the buffer (see Contiguous), or if n is
// not positive. It does not look whether the ring was closed: Commit does.
func (r *Ring[T]) Reserve(n int) []T {
	at := r.next & r.mask
	if n <= 0 || uint64(n) > uint64(len(r.buf))-at || !r.room(uint64(n)) {
		return nil
	}
	r.next += uint64(n)
	return r.buf[at : at+uint64(n) : at+uint64(n)]
}

// Contiguous returns how many items lie between the reservation point and the
// end of the buffer, free or not; at least 1.
func (r *Ring[T]) Contiguous() int { return len(r.buf) - int(r.next&r.mask) }

// Wait returns nil once n items behind the reservation point are free, whether
// or not they cross the end of the buffer. If they are not free at once it
// counts a stall and waits until the consumer released enough, the ring is
// closed (ErrClosed) or ctx ends (its error). What is reserved stays so. It
// fails with ErrTooLong if n items never fit behind what is reserved but not
// yet committed.
func (r *Ring[T]) Wait(ctx context.Context, n int) error {
	if reserved := int(r.next - r.sent); n > len(r.buf)-reserved {
		return fmt.Errorf("%w: %d items behind %d reserved, it holds %d", ErrTooLong, n, reserved, len(r.buf))
	}
	if r.shut() {
		return ErrClosed
	}
	if n <= 0 || r.room(uint64(n)) {
		return nil
	}
	r.stalls.Add(1)
	for i := range looks + yields {
		if i >= looks {
			runtime.Gosched()
		}
		if r.room(uint64(n)) {
			return nil
		}
	}
	return r.park(ctx, uint64(n))
}

// park waits until n items are free. The order of its two steps, announce and
// then look again, is what keeps a wake-up from being lost.
func (r *Ring[T]) park(ctx context.Context, n uint64) error {
	defer r.want.Store(0)
	for {
		r.want.Swap(r.next + n - uint64(len(r.buf)))
		if r.room(n) {
			return nil
		}
		if r.shut() {
			return ErrClosed
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// room reports whether n items behind the reservation point are free.
func (r *Ring[T]) room(n uint64) bool {
	if r.next+n-r.seenTail <= uint64(len(r.buf)) {
		return true
	}
	r.seenTail = r.tail.Load()
	return r.next+n-r.seenTail <= uint64(len(r.buf))
}

// Commit publishes everything reserved, at once and in order. If the ring was
// closed meanwhile nothing is published, the reservation is forgotten, and the
// error is ErrClosed. With nothing reserved it does nothing.
func (r *Ring[T]) Commit() error {
	if r.next == r.sent {
		return nil
	}
	// Only Close changes head besides us, so this fails only if it came first.
	if !r.head.CompareAndSwap(r.sent, r.next) {
		r.next = r.sent
		return ErrClosed
	}
	r.sent = r.next
	if r.word != nil {
		r.mark()
	}
	return nil
}

// Rollback forgets everything reserved since the last Commit.
func (r *Ring[T]) Rollback() { r.next = r.sent }

// Close ends the ring: the producer can commit nothing more, and both sides
// wake if they are parked. The consumer still gets what was committed. Any
// goroutine may call it, and call it again.
func (r *Ring[T]) Close() {
	r.head.Or(closedBit)
	if w := r.want.Load(); w != 0 {
		r.unpark(w)
	}
	if r.word != nil {
		r.mark()
	}
}

// mark sets the ring's bit at the doorbell and wakes the consumer, unless the
// bit is set: then whoever set it has woken the consumer, or will.
func (r *Ring[T]) mark() {
	if r.word.Load()&r.bit == 0 {
		r.word.Or(r.bit)
		r.bell.rouse()
	}
}

// unpark wakes the producer that parked with this value of want.
func (r *Ring[T]) unpark(want uint64) {
	if r.want.CompareAndSwap(want, 0) {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// Peek returns the committed items up to the end of the buffer, oldest first;
// nil if there are none. They stay valid, and the consumer's to change, until
// Release. At the end of the buffer the rest comes with the next call, after
// Release; what is committed meanwhile may come then only, too.
//
// A nil takes the ring's bit from its doorbell: the consumer may park.
func (r *Ring[T]) Peek() []T {
	if r.read == r.seenHead {
		r.seenHead = r.head.Load() &^ closedBit
		if r.read == r.seenHead && !r.unmark() {
			return nil
		}
	}
	at := r.read & r.mask
	n := min(r.seenHead-r.read, uint64(len(r.buf))-at)
	return r.buf[at : at+n : at+n]
}

// unmark takes back the bit of a ring that was found empty and looks once
// more, since the producer may have committed while the bit was still set. It
// reports whether there is something after all, with the bit set again.
func (r *Ring[T]) unmark() bool {
	if r.word == nil || r.word.Load()&r.bit == 0 {
		return false
	}
	r.word.And(^r.bit)
	r.seenHead = r.head.Load() &^ closedBit
	if r.read == r.seenHead {
		return false
	}
	r.word.Or(r.bit)
	return true
}

// Release gives back the first n items that Peek returned. It panics if there
// are fewer.
func (r *Ring[T]) Release(n int) {
	if n < 0 || uint64(n) > r.seenHead-r.read {
		panic(fmt.Sprintf("ring: release of %d items, %d were peeked", n, r.seenHead-r.read))
	}
	r.read += uint64(n)
	r.tail.Swap(r.read)
	if w := r.want.Load(); w != 0 && r.read >= w {
		r.unpark(w)
	}
}

// Closed reports that the ring was closed and everything committed has been
// released: nothing will come any more. A consumer asks after a Peek that
// returned nil.
func (r *Ring[T]) Closed() bool { return r.head.Load() == r.read|closedBit }

// shut reports whether the ring was closed.
func (r *Ring[T]) shut() bool { return r.head.Load()&closedBit != 0 }

// bind ties the ring to its bit of a doorbell; see Doorbell.Attach.
func (r *Ring[T]) bind(d *Doorbell, word *atomic.Uint64, bit uint64) {
	r.bell, r.word, r.bit = d, word, bit
	if r.head.Load() != r.read {
		r.mark()
	}
}
