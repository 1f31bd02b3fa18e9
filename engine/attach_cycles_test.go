package engine

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine/residency"
)

// cycles is how often TestCycles attaches and detaches. CAIRN_CYCLES asks for
// more: 10000 take half a minute.
func cycles(t *testing.T) int {
	if s := os.Getenv("CAIRN_CYCLES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 100 {
			t.Fatalf("CAIRN_CYCLES is %q: want a number of at least 100", s)
		}
		return n
	}
	return 150
}

// descriptors counts the process's open files; false where that cannot be told.
func descriptors() (int, bool) {
	all, err := os.ReadDir("/proc/self/fd")
	return len(all), err == nil
}

// TestCycles attaches and detaches workers over and over, of both lifetimes,
// while their publishers send, and holds that memory, goroutines
// and descriptors come back to where they were after the first cycles.
func TestCycles(t *testing.T) {
	r := newOwnerRig(t, 4, Options{})
	var guests []*guest
	for i, p := range []residency.Protocol{residency.HiCacheV1, residency.VLLMResidencyV1} {
		guests = append(guests, r.guest(uint64(17+i), owner(i+1), p, 1, dialects[1]))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var live sync.WaitGroup
	for _, g := range guests {
		live.Go(func() { // every batch is whole, so that any may be the first
			for ctx.Err() == nil {
				g.shards[0].send(store(4, "GPU", ""), store(4, "CPU", "kvcr"), remove("GPU", "", chainNames[3]))
				if g.shards[0].next%4 == 0 {
					time.Sleep(time.Millisecond) // leave the processors something
				}
			}
		})
	}
	type figures struct {
		heap        uint64
		goroutines  int
		descriptors int
		holders     int
		residencies int
	}
	settle := func() (f figures) {
		t.Helper()
		for _, g := range guests {
			if err := g.shards[0].pub.WaitGone(patience(t)); err != nil {
				t.Fatal(err)
			}
		}
		await(t, "deferred work of the index", func() bool { return r.Stats().Shards[0].Deferred == 0 })
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		st := r.Stats().Shards[0]
		f = figures{heap: m.HeapAlloc, goroutines: runtime.NumGoroutine(), holders: st.Holders, residencies: st.Residencies}
		f.descriptors, _ = descriptors()
		return f
	}
	heard := 0
	cycle := func(n int) {
		t.Helper()
		g := guests[n%len(guests)]
		r.incarnation++
		g.intent.Incarnation = r.incarnation
		reg := residency.Registration{ID: g.lease(), Scope: scopeName, Intents: []residency.Intent{g.intent}}
		own, end := context.WithTimeout(t.Context(), 20*time.Second) // patience would stay until the test ends
		defer end()
		if _, err := r.Residency().Register(own, reg); err != nil {
			t.Fatal(err)
		}
		if n%4 < 2 { // else it is gone again before anything came
			await(t, "traffic", func() bool {
				f := g.feeds()
				return len(f) > 0 && f[0].applied().Any
			})
			heard++
		}
		if err := r.Residency().Release(own, g.lease()); err != nil {
			t.Fatal(err)
		}
	}
	total := cycles(t)
	for n := range total / 5 {
		cycle(n)
	}
	before := settle()
	for n := range total - total/5 {
		cycle(n)
	}
	after := settle()
	cancel()
	live.Wait()
	if heard < total/3 {
		t.Errorf("only %d of %d attachments heard anything", heard, total)
	}
	// A cycle that left but a ring behind would show 128 KiB.
	if slack := uint64(4 << 20); after.heap > before.heap+slack {
		t.Errorf("%d cycles: heap %d → %d KiB", total, before.heap>>10, after.heap>>10)
	}
	if after.goroutines > before.goroutines+2 || after.descriptors > before.descriptors+2 {
		t.Errorf("%d cycles: goroutines %d → %d, descriptors %d → %d", total, before.goroutines, after.goroutines, before.descriptors, after.descriptors)
	}
	if after.holders != before.holders || after.residencies != before.residencies {
		t.Errorf("%d cycles: %+v → %+v", total, before, after)
	}
	t.Logf("%d cycles: heap %d → %d KiB, goroutines %d → %d, descriptors %d → %d", total, before.heap>>10, after.heap>>10,
		before.goroutines, after.goroutines, before.descriptors, after.descriptors)
}
