package ring_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/ring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test. A test that hits it has failed; one
// that passes never waits so long.
const patience = time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// await yields until the condition holds; the test's own time-out bounds it.
func await(holds func() bool) {
	for !holds() {
		runtime.Gosched()
	}
}

// fill reserves the given values, as one run, and fails if they do not fit.
func fill(t *testing.T, r *ring.Ring[int], values ...int) {
	t.Helper()
	got := r.Reserve(len(values))
	if len(got) != len(values) {
		t.Fatalf("Reserve(%d) gave %d items", len(values), len(got))
	}
	copy(got, values)
}

func commit(t *testing.T, r *ring.Ring[int]) {
	t.Helper()
	if err := r.Commit(); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func wantPeek(t *testing.T, r *ring.Ring[int], values ...int) {
	t.Helper()
	if got := r.Peek(); !slices.Equal(got, values) {
		t.Fatalf("Peek = %v, want %v", got, values)
	}
}

func TestCapacity(t *testing.T) {
	for _, c := range []struct{ ask, want int }{{0, 2}, {1, 2}, {2, 2}, {3, 4}, {4, 4}, {5, 8}, {1000, 1024}, {1024, 1024}} {
		if got := ring.New[int](c.ask).Cap(); got != c.want {
			t.Errorf("New(%d).Cap() = %d, want %d", c.ask, got, c.want)
		}
	}
	for _, bad := range []int{-1, 1<<40 + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("New(%d) did not panic", bad)
				}
			}()
			ring.New[int](bad)
		}()
	}
}

func TestNothingBeforeCommit(t *testing.T) {
	r := ring.New[int](8)
	fill(t, r, 1, 2)
	wantPeek(t, r)
	fill(t, r, 3)
	wantPeek(t, r)
	commit(t, r)
	wantPeek(t, r, 1, 2, 3)
	r.Release(2)
	wantPeek(t, r, 3)
	r.Release(1)
	wantPeek(t, r)
}

func TestRollback(t *testing.T) {
	r := ring.New[int](8)
	fill(t, r, 1)
	commit(t, r)
	fill(t, r, 2, 3)
	fill(t, r, 4)
	r.Rollback()
	wantPeek(t, r, 1)
	if got := r.Contiguous(); got != 7 {
		t.Errorf("Contiguous after Rollback = %d, want 7", got)
	}
	fill(t, r, 5, 6, 7, 8, 9, 10, 11) // all the room there was before
	commit(t, r)
	r.Rollback() // nothing reserved: nothing happens
	r.Release(1)
	wantPeek(t, r, 5, 6, 7, 8, 9, 10, 11)
}

func TestReserveNeverWraps(t *testing.T) {
	r := ring.New[int](8)
	fill(t, r, 0, 1, 2, 3, 4)
	commit(t, r)
	r.Peek()
	r.Release(5)
	if got := r.Contiguous(); got != 3 {
		t.Fatalf("Contiguous = %d, want 3", got)
	}
	for _, n := range []int{4, 8, 9, 0, -1} {
		if got := r.Reserve(n); got != nil {
			t.Errorf("Reserve(%d) with 3 to the end = %d items, want nil", n, len(got))
		}
	}
	fill(t, r, 5, 6, 7)
	if got := r.Contiguous(); got != 8 {
		t.Fatalf("Contiguous at the start = %d, want 8", got)
	}
	if got := r.Reserve(6); got != nil {
		t.Errorf("Reserve(6) with 5 free = %d items, want nil", len(got))
	}
	fill(t, r, 8, 9)
	commit(t, r)
	wantPeek(t, r, 5, 6, 7) // up to the end, then from the start
	r.Release(3)
	wantPeek(t, r, 8, 9)
}

// TestSlicesAreCapped: an append to a reserved or peeked run must not reach
// the items behind it.
func TestSlicesAreCapped(t *testing.T) {
	r := ring.New[int](8)
	a := r.Reserve(2)
	fill(t, r, 30)
	_ = append(a, 99)
	commit(t, r)
	run := r.Peek()
	if run[2] != 30 {
		t.Errorf("append to a reservation wrote over the next: %d", run[2])
	}
	fill(t, r, 40)
	_ = append(run, 99)
	commit(t, r)
	r.Release(3)
	wantPeek(t, r, 40)
}

func TestReleaseOfMoreThanPeekedPanics(t *testing.T) {
	r := ring.New[int](4)
	fill(t, r, 1)
	commit(t, r)
	r.Peek()
	for _, n := range []int{2, -1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Release(%d) with 1 peeked did not panic", n)
				}
			}()
			r.Release(n)
		}()
	}
}

func TestWaitErrors(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name     string
		reserved int
		close    bool
		n        int
		want     error
		stalls   uint64
	}{
		{"fits", 0, false, 8, nil, 0},
		{"fits behind a reservation", 3, false, 5, nil, 0},
		{"nothing asked", 8, false, 0, nil, 0},
		{"longer than the ring", 0, false, 9, ring.ErrTooLong, 0},
		{"longer behind a reservation", 3, false, 6, ring.ErrTooLong, 0},
		{"closed", 0, true, 1, ring.ErrClosed, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ring.New[int](8)
			r.Reserve(c.reserved)
			if c.close {
				r.Close()
			}
			if err := r.Wait(cancelled, c.n); !errors.Is(err, c.want) {
				t.Errorf("Wait(%d) = %v, want %v", c.n, err, c.want)
			}
			if r.Stalls() != c.stalls {
				t.Errorf("Stalls = %d, want %d", r.Stalls(), c.stalls)
			}
		})
	}
}

// TestFullRingCountsAndCancels: a full ring holds its producer until its
// context ends, says so in the counter, and keeps the reservation.
func TestFullRingCountsAndCancels(t *testing.T) {
	r := ring.New[int](4)
	fill(t, r, 1, 2)
	commit(t, r)
	fill(t, r, 3)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Wait(ctx, 3) }() // the goroutine is the producer until done
	await(r.ProducerParked)
	if r.Stalls() != 1 {
		t.Errorf("Stalls = %d, want 1", r.Stalls())
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait = %v, want Canceled", err)
	}
	commit(t, r)
	wantPeek(t, r, 1, 2, 3)
}

// TestWaitWakesWhenEnoughIsFree parks for three items and releases one by one.
func TestWaitWakesWhenEnoughIsFree(t *testing.T) {
	r := ring.New[int](4)
	fill(t, r, 1, 2, 3, 4)
	commit(t, r)
	done := make(chan error, 1)
	go func() { done <- r.Wait(within(t), 3) }()
	await(r.ProducerParked)
	r.Peek()
	r.Release(1)
	r.Release(1)
	if !r.ProducerParked() {
		t.Fatal("woken for 3 items with 2 free")
	}
	r.Release(1)
	if err := <-done; err != nil {
		t.Fatalf("Wait = %v", err)
	}
	fill(t, r, 5, 6, 7)
}

func TestCloseWakesParkedProducer(t *testing.T) {
	for range 200 {
		r := ring.New[int](2)
		fill(t, r, 1, 2)
		commit(t, r)
		done := make(chan error, 1)
		go func() { done <- r.Wait(within(t), 1) }()
		await(r.ProducerParked)
		r.Close()
		if err := <-done; !errors.Is(err, ring.ErrClosed) {
			t.Fatalf("Wait = %v, want ErrClosed", err)
		}
		wantPeek(t, r, 1, 2) // what was committed is drained
		if r.Closed() {
			t.Fatal("Closed with two items to read")
		}
		r.Release(2)
		if r.Peek() != nil || !r.Closed() {
			t.Fatal("not Closed after the last release")
		}
	}
}

func TestNothingIsCommittedAfterClose(t *testing.T) {
	r := ring.New[int](8)
	fill(t, r, 1)
	commit(t, r)
	fill(t, r, 2)
	r.Close()
	r.Close()
	if err := r.Commit(); !errors.Is(err, ring.ErrClosed) {
		t.Fatalf("Commit = %v, want ErrClosed", err)
	}
	if err := r.Commit(); err != nil {
		t.Errorf("Commit of nothing = %v, want nil", err)
	}
	wantPeek(t, r, 1)
	r.Release(1)
	if !r.Closed() {
		t.Error("not Closed after the last release")
	}
}

// TestCloseRacesCommit: whoever comes first, the consumer that saw Closed has
// seen exactly the batches whose Commit succeeded.
func TestCloseRacesCommit(t *testing.T) {
	for range 2000 {
		r := ring.New[int](64)
		sent := make(chan int)
		go func() {
			n := 0
			for {
				if r.Reserve(2) == nil {
					if r.Wait(context.Background(), 2) != nil {
						break
					}
					continue
				}
				if r.Commit() != nil {
					break
				}
				n += 2
			}
			sent <- n
		}()
		go r.Close()
		got := 0
		for {
			run := r.Peek()
			if run == nil && r.Closed() {
				break
			}
			got += len(run)
			r.Release(len(run))
			runtime.Gosched()
		}
		if n := <-sent; n != got {
			t.Fatalf("%d items committed, %d seen before Closed", n, got)
		}
	}
}
