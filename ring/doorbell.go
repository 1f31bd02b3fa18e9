package ring

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"sync/atomic"
)

// Doorbell is where one consumer waits for many rings. It holds a bit per
// ring, set while the ring may hold something:
//
//	          slot 0 … 63        64 … 127
//	words   ┌───────────────┬───────────────┐     Commit sets its ring's bit,
//	        │ 0 1 0 0 … 1 0 │ 0 0 … 0       │ …   a Peek that finds nothing
//	        └───────────────┴───────────────┘     takes it back
//	parked    the consumer sleeps: whoever sets a bit wakes it
//
// All methods but Ring belong to the consumer's goroutine. A loop round
// [Doorbell.Next] that parks in [Doorbell.Wait] when Next gives -1 misses
// nothing; the package comment says why. A Doorbell must not be copied.
type Doorbell struct {
	words []*word
	used  []uint64      // per word, the bits that belong to a ring
	wake  chan struct{} // one slot; the consumer parks here

	_      pad
	parked atomic.Bool
	_      pad
	called atomic.Bool // Ring was called and Wait has not seen it
	_      pad
}

// word is 64 bits of a Doorbell, alone on its cache lines.
type word struct {
	bits atomic.Uint64
	_    pad
}

// Member is a [Ring] of any item type.
type Member interface {
	bind(d *Doorbell, word *atomic.Uint64, bit uint64)
}

// NewDoorbell makes a doorbell without rings.
func NewDoorbell() *Doorbell {
	return &Doorbell{wake: make(chan struct{}, 1)}
}

// Attach gives r a slot: the smallest number not in use. It must come before
// r is handed to its producer, and once per ring. There is no limit: slots
// come in words of 64 as they are needed.
func (d *Doorbell) Attach(r Member) (slot int) {
	i := 0
	for i < len(d.used) && d.used[i] == ^uint64(0) {
		i++
	}
	if i == len(d.used) {
		d.words = append(d.words, new(word))
		d.used = append(d.used, 0)
	}
	b := bits.TrailingZeros64(^d.used[i])
	d.used[i] |= 1 << b
	r.bind(d, &d.words[i].bits, 1<<b)
	return i<<6 + b
}

// Detach frees a slot. Its ring must be closed: its producer or whoever closed
// it may set the bit a last time later, which Next then ignores, or which
// makes the slot's next ring be looked at once for nothing.
func (d *Doorbell) Detach(slot int) {
	i, bit := slot>>6, uint64(1)<<(slot&63)
	if slot < 0 || i >= len(d.used) || d.used[i]&bit == 0 {
		panic(fmt.Sprintf("ring: detach of slot %d, which holds no ring", slot))
	}
	d.used[i] &^= bit
	d.words[i].bits.And(^bit)
}

// Next returns the first slot at or behind from whose ring may hold something,
// going round past the last slot to the slots before from; -1 if no ring
// does. The bit stays set until Peek finds the ring empty. To serve the rings
// in turn, pass the slot served last plus one.
func (d *Doorbell) Next(from int) int {
	n := len(d.words)
	if n == 0 {
		return -1
	}
	if from < 0 || from >= n<<6 {
		from = 0
	}
	first, below := from>>6, uint64(1)<<(from&63)-1
	if b := d.rung(first) &^ below; b != 0 {
		return first<<6 + bits.TrailingZeros64(b)
	}
	for k := 1; k <= n; k++ {
		i := first + k
		if i >= n {
			i -= n
		}
		if b := d.rung(i); b != 0 {
			return i<<6 + bits.TrailingZeros64(b)
		}
	}
	return -1
}

// rung returns the bits of word i that are set for attached rings, and takes
// back those set late for a ring that is gone.
func (d *Doorbell) rung(i int) uint64 {
	b := d.words[i].bits.Load()
	if stray := b &^ d.used[i]; stray != 0 {
		d.words[i].bits.And(^stray)
	}
	return b & d.used[i]
}

// Ring wakes the consumer for another reason than a ring: Wait returns, now or
// at its next call. Any goroutine may call it.
func (d *Doorbell) Ring() {
	if !d.called.Swap(true) {
		d.rouse()
	}
}

// Wait returns nil when a ring may hold something or Ring was called since the
// last Wait, and ctx's error when it ends first. It may return nil without a
// cause, seldom.
func (d *Doorbell) Wait(ctx context.Context) error {
	for i := range looks + yields {
		if i >= looks {
			runtime.Gosched()
		}
		if d.any() {
			return nil
		}
	}
	d.parked.Swap(true)
	defer d.parked.Store(false)
	if d.any() {
		return nil
	}
	select {
	case <-d.wake:
		d.called.Swap(false)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// any reports whether a bit is set or Ring was called, and takes the call.
func (d *Doorbell) any() bool {
	if d.called.Load() {
		d.called.Swap(false)
		return true
	}
	for _, w := range d.words {
		if w.bits.Load() != 0 {
			return true
		}
	}
	return false
}

// rouse wakes the consumer if it is parked.
func (d *Doorbell) rouse() {
	if d.parked.Load() && d.parked.CompareAndSwap(true, false) {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}
