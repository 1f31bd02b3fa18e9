package ring_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/cairn-kv/cairn/ring"
)

func put(t *testing.T, r *ring.Ring[int]) {
	t.Helper()
	fill(t, r, 1)
	commit(t, r)
}

func TestNextGoesRound(t *testing.T) {
	bell := ring.NewDoorbell()
	if got := bell.Next(0); got != -1 {
		t.Fatalf("Next without rings = %d, want -1", got)
	}
	rings := make([]*ring.Ring[int], 200)
	for i := range rings {
		rings[i] = ring.New[int](4)
		if slot := bell.Attach(rings[i]); slot != i {
			t.Fatalf("ring %d got slot %d", i, slot)
		}
	}
	if got := bell.Next(0); got != -1 {
		t.Fatalf("Next of idle rings = %d, want -1", got)
	}
	for _, i := range []int{3, 63, 64, 199} {
		put(t, rings[i])
	}
	for _, c := range []struct{ from, want int }{
		{0, 3}, {3, 3}, {4, 63}, {63, 63}, {64, 64}, {65, 199}, {199, 199}, {200, 3}, {-1, 3}, {1 << 20, 3},
	} {
		if got := bell.Next(c.from); got != c.want {
			t.Errorf("Next(%d) = %d, want %d", c.from, got, c.want)
		}
	}
	// The bit stays until the ring was found empty.
	rings[3].Peek()
	rings[3].Release(1)
	if got := bell.Next(0); got != 3 {
		t.Errorf("Next before the empty Peek = %d, want 3", got)
	}
	rings[3].Peek()
	if got := bell.Next(0); got != 63 {
		t.Errorf("Next after the empty Peek = %d, want 63", got)
	}
	// Round the end, back to a lower slot of the same word.
	for _, i := range []int{63, 64, 199} {
		rings[i].Peek()
		rings[i].Release(1)
		rings[i].Peek()
	}
	put(t, rings[130])
	if got := bell.Next(140); got != 130 {
		t.Errorf("Next(140) = %d, want 130", got)
	}
}

func TestAttachDetach(t *testing.T) {
	bell := ring.NewDoorbell()
	old := ring.New[int](4)
	bell.Attach(ring.New[int](4))
	if slot := bell.Attach(old); slot != 1 {
		t.Fatalf("slot %d, want 1", slot)
	}
	bell.Attach(ring.New[int](4))
	old.Close()
	bell.Detach(1)
	if got := bell.Next(0); got != -1 {
		t.Errorf("Next after Detach = %d, want -1", got)
	}
	// A bit that a ring's end sets late belongs to nobody and goes away.
	old.Close()
	if got := bell.Next(0); got != -1 {
		t.Errorf("Next after a late Close = %d, want -1", got)
	}
	full := ring.New[int](4)
	put(t, full)
	if slot := bell.Attach(full); slot != 1 {
		t.Errorf("slot %d, want 1 again", slot)
	}
	if got := bell.Next(0); got != 1 {
		t.Errorf("Next after Attach of a ring with items = %d, want 1", got)
	}
	for _, slot := range []int{-1, 3, 64} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Detach(%d) did not panic", slot)
				}
			}()
			bell.Detach(slot)
		}()
	}
}

func TestWaitReturns(t *testing.T) {
	for _, c := range []struct {
		name string
		wake func(*ring.Doorbell, *ring.Ring[int])
	}{
		{"commit", func(_ *ring.Doorbell, r *ring.Ring[int]) { r.Reserve(1); _ = r.Commit() }},
		{"close", func(_ *ring.Doorbell, r *ring.Ring[int]) { r.Close() }},
		{"ring", func(d *ring.Doorbell, _ *ring.Ring[int]) { d.Ring() }},
	} {
		for _, when := range []string{"before", "while parked"} {
			t.Run(c.name+" "+when, func(t *testing.T) {
				bell, r := ring.NewDoorbell(), ring.New[int](4)
				bell.Attach(r)
				done := make(chan error, 1)
				if when == "before" {
					c.wake(bell, r)
					done <- bell.Wait(within(t))
				} else {
					go func() { done <- bell.Wait(within(t)) }()
					await(bell.ConsumerParked)
					c.wake(bell, r)
				}
				if err := <-done; err != nil {
					t.Fatalf("Wait = %v", err)
				}
				if c.name == "close" && (bell.Next(0) != 0 || r.Peek() != nil || !r.Closed()) {
					t.Error("the closed ring does not show")
				}
			})
		}
	}
	t.Run("context", func(t *testing.T) {
		bell := ring.NewDoorbell()
		bell.Attach(ring.New[int](4))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- bell.Wait(ctx) }()
		await(bell.ConsumerParked)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait = %v, want Canceled", err)
		}
	})
	t.Run("ring counts once", func(t *testing.T) {
		bell := ring.NewDoorbell()
		bell.Ring()
		bell.Ring()
		if err := bell.Wait(within(t)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := bell.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("second Wait = %v, want Canceled", err)
		}
	})
}

// TestManyRings: 2,000 rings, a producer each, one consumer that parks.
// Capacity is small and batches cross it, so that both sides park all the
// time; sums in must be sums out, per ring and in order.
func TestManyRings(t *testing.T) {
	const rings = 2000
	each := uint64(2000)
	if testing.Short() || raceEnabled {
		each = 200
	}
	ctx := within(t)
	bell := ring.NewDoorbell()
	all := make([]*ring.Ring[uint64], rings)
	for i := range all {
		all[i] = ring.New[uint64](16)
		bell.Attach(all[i])
	}
	var producers sync.WaitGroup
	for _, r := range all {
		producers.Go(func() {
			if err := produce(ctx, r, each); err != nil {
				t.Error(err)
			}
		})
	}
	next := make([]uint64, rings)
	for open, slot := rings, 0; open > 0; slot++ {
		if slot = bell.Next(slot); slot < 0 {
			if err := bell.Wait(ctx); err != nil {
				t.Fatalf("waited in vain for %d rings: %v", open, err)
			}
			continue
		}
		run := all[slot].Peek()
		if run == nil && all[slot].Closed() {
			bell.Detach(slot)
			open--
		}
		for _, v := range run {
			if v != next[slot] {
				t.Fatalf("ring %d: got %d, want %d", slot, v, next[slot])
			}
			next[slot]++
		}
		all[slot].Release(len(run))
	}
	producers.Wait()
	for i, n := range next {
		if n != each {
			t.Errorf("ring %d: %d items, want %d", i, n, each)
		}
	}
}

// TestOneBusyAmongIdle: idle rings must neither be served nor slow the one
// that works, and the first of 2,000 wakes the consumer as the last does.
func TestOneBusyAmongIdle(t *testing.T) {
	ctx := within(t)
	bell := ring.NewDoorbell()
	all := make([]*ring.Ring[uint64], 2000)
	for i := range all {
		all[i] = ring.New[uint64](2)
		bell.Attach(all[i])
	}
	for _, busy := range []int{0, 63, 64, 1000, 1999} {
		done := make(chan error, 1)
		const items = 5000
		go func() {
			for i := range uint64(items) {
				if err := all[busy].Wait(ctx, 1); err != nil {
					done <- err
					return
				}
				all[busy].Reserve(1)[0] = i
				if err := all[busy].Commit(); err != nil {
					done <- err
					return
				}
				if i%16 == 0 {
					runtime.Gosched() // let the consumer empty it and park
				}
			}
			done <- nil
		}()
		for got := 0; got < items; {
			slot := bell.Next(0)
			if slot < 0 {
				if err := bell.Wait(ctx); err != nil {
					t.Fatalf("ring %d: waited in vain after %d items: %v", busy, got, err)
				}
				continue
			}
			if slot != busy {
				t.Fatalf("Next = %d, only %d works", slot, busy)
			}
			n := len(all[slot].Peek())
			all[slot].Release(n)
			got += n
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		all[busy].Peek() // takes the bit back
	}
}
