package ring_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cairn-kv/cairn/ring"
)

// count sends 0 … n-1 through r, in batches of changing length that are rolled
// back now and then, and checks that the consumer gets exactly that. The
// consumer parks on a doorbell and takes what it likes of each run.
func count(t *testing.T, r *ring.Ring[uint64], n uint64) {
	ctx := within(t)
	bell := ring.NewDoorbell()
	bell.Attach(r)
	failed := make(chan error, 1)
	go func() { failed <- produce(ctx, r, n) }()

	want := uint64(0)
	for step := 0; ; step++ {
		if bell.Next(0) < 0 {
			if err := bell.Wait(ctx); err != nil {
				t.Fatalf("consumer waited in vain after %d items: %v", want, err)
			}
			continue
		}
		run := r.Peek()
		if run == nil {
			if r.Closed() {
				break
			}
			continue
		}
		if step%8 == 7 { // leave something behind
			run = run[:(len(run)+1)/2]
		}
		for _, got := range run {
			if got != want {
				t.Fatalf("item %d is %d", want, got)
			}
			want++
		}
		r.Release(len(run))
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if want != n {
		t.Fatalf("%d items arrived, %d sent", want, n)
	}
}

func produce(ctx context.Context, r *ring.Ring[uint64], n uint64) error {
	defer r.Close()
	sent := uint64(0)
	for step := 0; sent < n; step++ {
		batch := 1 + step*7%r.Cap()
		if step%64 == 63 { // a batch that turns out wrong
			if run := r.Reserve(min(batch, r.Contiguous())); run != nil {
				run[0] = ^uint64(0)
			}
			r.Rollback()
		}
		for left := int(min(uint64(batch), n-sent)); left > 0; {
			k := min(left, r.Contiguous())
			run := r.Reserve(k)
			if run == nil {
				if err := r.Wait(ctx, k); err != nil {
					return fmt.Errorf("producer waited in vain after %d items: %w", sent, err)
				}
				continue
			}
			for i := range run {
				run[i] = sent
				sent++
			}
			left -= k
		}
		if err := r.Commit(); err != nil {
			return err
		}
	}
	return nil
}

func TestStream(t *testing.T) {
	n := uint64(200_000)
	if testing.Short() || raceEnabled {
		n = 20_000
	}
	for _, capacity := range []int{2, 4, 16, 4096} {
		t.Run(fmt.Sprintf("capacity %d", capacity), func(t *testing.T) {
			count(t, ring.New[uint64](capacity), n)
		})
	}
}

// TestHundredMillion is the long run: 10⁸ items, or 10⁶ where time matters.
func TestHundredMillion(t *testing.T) {
	n := uint64(100_000_000)
	if testing.Short() || raceEnabled {
		n = 1_000_000
	}
	count(t, ring.New[uint64](4096), n)
}

// TestPingPong makes both sides park for every single item: with two rings of
// capacity 2, each side has nothing to do until the other wakes it. A lost
// wake-up hangs it, and the context tells.
func TestPingPong(t *testing.T) {
	rounds := uint64(200_000)
	if testing.Short() || raceEnabled {
		rounds = 20_000
	}
	ctx := within(t)
	ping, pong := ring.New[uint64](2), ring.New[uint64](2)
	pingBell, pongBell := ring.NewDoorbell(), ring.NewDoorbell()
	pingBell.Attach(ping)
	pongBell.Attach(pong)

	send := func(r *ring.Ring[uint64], v uint64) error {
		for {
			if run := r.Reserve(1); run != nil {
				run[0] = v
				return r.Commit()
			}
			if err := r.Wait(ctx, 1); err != nil {
				return err
			}
		}
	}
	receive := func(d *ring.Doorbell, r *ring.Ring[uint64]) (uint64, error) {
		for {
			if d.Next(0) == 0 {
				if run := r.Peek(); run != nil {
					v := run[0]
					r.Release(1)
					return v, nil
				}
			}
			if err := d.Wait(ctx); err != nil {
				return 0, err
			}
		}
	}
	echo := make(chan error, 1)
	go func() {
		for range rounds {
			v, err := receive(pingBell, ping)
			if err == nil {
				err = send(pong, v+1)
			}
			if err != nil {
				echo <- err
				return
			}
		}
		echo <- nil
	}()
	for i := range rounds {
		if err := send(ping, i); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		v, err := receive(pongBell, pong)
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if v != i+1 {
			t.Fatalf("round %d: got %d back", i, v)
		}
	}
	if err := <-echo; err != nil {
		t.Fatal(err)
	}
}

func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ctx := context.Background()
	r := ring.New[uint64](1024)
	bell := ring.NewDoorbell()
	bell.Attach(r)
	allocs := testing.AllocsPerRun(1000, func() {
		for i := range uint64(3) {
			if err := r.Wait(ctx, 100); err != nil {
				t.Error(err)
			}
			if run := r.Reserve(min(100, r.Contiguous())); run != nil {
				run[0] = i
			}
			if i == 1 {
				r.Rollback()
			}
		}
		if err := r.Commit(); err != nil {
			t.Error(err)
		}
		if err := bell.Wait(ctx); err != nil {
			t.Error(err)
		}
		for bell.Next(0) == 0 {
			r.Release(len(r.Peek()))
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations per round, want 0", allocs)
	}

	t.Run("parked", func(t *testing.T) {
		small := ring.New[uint64](2)
		bell := ring.NewDoorbell()
		bell.Attach(small)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !(small.Peek() == nil && small.Closed()) {
				small.Release(len(small.Peek()))
				if bell.Next(0) < 0 {
					if err := bell.Wait(ctx); err != nil {
						t.Error(err)
						return
					}
				}
			}
		}()
		allocs := testing.AllocsPerRun(10_000, func() {
			for range 3 { // one more than fits
				if err := small.Wait(ctx, 1); err != nil {
					t.Error(err)
				}
				small.Reserve(1)
				if err := small.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
		small.Close()
		<-done
		if allocs != 0 {
			t.Errorf("%v allocations per round, want 0", allocs)
		}
		if small.Stalls() == 0 {
			t.Error("the producer never waited: the test shows nothing")
		}
	})
}
