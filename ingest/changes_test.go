package ingest

import (
	"context"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// What a stream was worth when it was found settled, it is worth to all who walk
// while nothing is counted, though nobody looks at it: a reader that goes by
// what it found is right about a publisher that loses, clears, restarts and is
// cut off.
func TestSettledIsTakenForGranted(t *testing.T) {
	const messages, blocks = 3000, 8
	var changes Changes
	r := newRig(t, 4096)
	r.learned.fit(4)
	links := make(chan *queueLink, 1)
	f := r.stream(Options{Endpoint: "queue", Changes: &changes, Dial: func(ctx context.Context, h Hooks) (Link, error) {
		select {
		case l := <-links:
			l.ctx, l.hooks = ctx, h
			return l, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}})
	var k truth
	var final atomic.Pointer[shard.Position]
	var enough atomic.Bool // the reader has taken enough for granted
	go func() {
		rng := rand.New(rand.NewPCG(9, 1))
		var link *queueLink
		connect := func() {
			link = &queueLink{queue: make(chan [][]byte, 16), wake: make(chan struct{}, 1), closed: make(chan struct{})}
			links <- link
		}
		connect()
		inc, n := 0, uint64(0)
		var have [blocks]int // copies
		say := func(ev []byte) bool {
			depth := slices.Index(have[:], 0)
			if depth < 0 {
				depth = blocks
			}
			k.note(inc, step{n, uint32(depth)})
			if n > 0 && rng.IntN(60) == 0 {
				n++ // lost on the way
				return true
			}
			select {
			case link.queue <- [][]byte{nil, be(n), payload(nil, ev)}:
				n++
				return true
			case <-r.ctx.Done():
				return false
			}
		}
		for i := 0; i < messages || !enough.Load(); i++ {
			var ev []byte
			switch x := rng.IntN(100); {
			case x == 0 && n > 1: // restart
				inc, n, have = inc+1, 0, [blocks]int{}
				fallthrough
			case x < 60: // the whole chain up to a block: always attached
				to := 1 + rng.IntN(blocks)
				var hashes []uint64
				for i := range to {
					have[i]++
					hashes = append(hashes, uint64(1001+i))
				}
				ev = store(hashes, nil, span(1, uint32(4*to)), 4)
			case x < 92:
				i := rng.IntN(blocks)
				have[i] = max(0, have[i]-1)
				ev = remove([]uint64{uint64(1001 + i)})
			case x < 94:
				link.queue <- nil // the end of the connection
				<-link.closed
				connect()
				continue
			default:
				have = [blocks]int{}
				ev = clearAll()
			}
			if !say(ev) {
				return // the test is over
			}
		}
		k.note(inc, step{n, 0})
		link.queue <- [][]byte{nil, be(n), payload(nil, clearAll())}
		final.Store(&shard.Position{Incarnation: uint32(inc), Seq: n, Any: true})
	}()

	q := query{tokens: span(1, 4*blocks)}
	var found struct { // by a look behind the load of n
		n       uint64
		settled bool
		exact   bool
	}
	granted, looks, deep := map[bool]int{}, 0, 0 // by whether it was exact
	for round := 0; ; round++ {
		before := f.port.Applied()
		if round%2 == 0 {
			runtime.Gosched()
		}
		end := final.Load()
		ended := end != nil && before.Covers(*end)
		if r.ctx.Err() != nil {
			t.Fatalf("stuck at %+v\n%s", before, f.dump())
		}
		got := r.depths(0, Worker, q)[tree.ViewDevice]
		after := f.port.Begun()
		n := changes.Load()
		if ended {
			break
		}
		if !found.settled || found.n != n {
			looks++
			var state State
			state, found.settled = f.Settled(Worker, before)
			found.n, found.exact = n, state == Exact
			continue
		}
		granted[found.exact]++
		if granted[true] >= 500 && granted[false] >= 500 && deep >= 100 {
			enough.Store(true)
		}
		want := k.between(before, after)
		switch {
		case found.exact && !slices.Contains(want, got):
			t.Fatalf("found exact, from %+v to %+v: depth %d, the truth was %v", before, after, got, want)
		case len(want) > 0 && got > slices.Max(want):
			t.Fatalf("found degraded, from %+v to %+v: depth %d, the truth was %v", before, after, got, want)
		case got > 0:
			deep++
		}
	}
	t.Logf("granted %v after %d looks, %d changes; %d gaps, %d restarts, %d cuts", granted, looks, changes.Load(),
		f.counted("gaps", ""), f.counted("restarts", ""), f.counted("disconnects", ""))
}

// Settled is more than a state that answers, and less than exact.
func TestSettled(t *testing.T) {
	at := func(inc uint32, n uint64) shard.Position { return shard.Position{Incarnation: inc, Seq: n, Any: true} }
	r := newRig(t, 0)
	var changes Changes
	f := r.feed(Options{Changes: &changes})
	moved := uint64(0)
	expect := func(what string, from shard.Position, want, changed bool) {
		t.Helper()
		n := changes.Load()
		if _, got := f.Settled(Worker, from); got != want || n > moved != changed {
			t.Errorf("%s: settled at %+v: %v, want %v; %d changes behind %d", what, from, got, want, n, moved)
		}
		moved = n
	}
	expect("connecting", shard.Position{}, false, false)
	f.live(0, storeAB)
	f.wait(0)
	expect("short of the first batch", shard.Position{}, false, true)
	expect("exact", at(0, 0), true, false)
	f.live(1, storeC)
	f.wait(1)
	expect("going on", at(0, 0), true, false)
	f.live(3, storeX)
	f.wait(3)
	expect("behind a gap", at(0, 3), true, true)
	expect("the same, for who walked before", at(0, 0), true, false)
	f.live(4, clearAll())
	f.wait(4)
	expect("short of what made it whole", at(0, 3), false, true)
	expect("whole", at(0, 4), true, false)
	f.live(0, storeAB)
	f.restarted()
	f.wait(0)
	expect("short of another process", at(0, 4), false, true)
	expect("its beginning", shard.Position{Incarnation: 1}, false, false)
	expect("its first batch", at(1, 0), true, false)
	f.follow()
	f.until("down", func() bool { return f.down.Load() != 0 })
	expect("down", at(1, 0), false, true)
	f.live(1, storeC)
	f.wait(1)
	expect("up again", at(1, 1), true, true)
	f.raw(nil, be(2), payload(nil, clearAll("ownership", "kvcr")))
	f.wait(2)
	f.state(Worker, Fenced, CauseNoPool)
	expect("fenced", at(1, 2), false, true)
}

// A durable attached stream may go back to a position at which its standing has
// not begun. It is settled at none, from the loss on that says so.
func TestWhoGoesBackIsNotSettled(t *testing.T) {
	var changes Changes
	r := newRig(t, 0)
	f, _ := r.attachedFeed(Options{Changes: &changes, Pool: PoolDurable})
	f.live(5, storeAB, pool(201, 1))
	f.wait(5)
	before := f.port.Applied()
	for d := range NumDomains {
		if _, ok := f.Settled(d, before); !ok {
			t.Fatalf("the %v of a stream that has only gone on is not settled", d)
		}
	}
	n := changes.Load()
	f.live(2, storeC)
	f.until("the regression", func() bool { return f.port.Applied().Seq == 2 })
	if changes.Load() == n {
		t.Error("nothing was counted")
	}
	for d := range NumDomains {
		for _, at := range []shard.Position{before, f.port.Applied()} {
			if _, ok := f.Settled(d, at); ok {
				t.Errorf("%v is settled at %+v", d, at)
			}
		}
	}
}

// A change is stored before it is counted: who loads the count of a change and
// looks then sees it. Of the changes, this is about a link that goes down: it
// takes a moment to find out when that is.
func TestChangesAreCountedLast(t *testing.T) {
	const times = 1000
	var changes Changes
	r := newRig(t, 0)
	port, err := r.shard.OpenPort(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStream(Options{Learned: &r.learned, Owner: r, Port: port, Changes: &changes})
	if err != nil {
		t.Fatal(err)
	}
	s.received.Store(true)
	s.set(Worker, &standing{state: Exact})
	var said, heard atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range int64(times) {
			s.up()
			s.linkDown(io.EOF)
			for said.Store(i + 1); heard.Load() <= i; { // no later change hides it
				runtime.Gosched()
			}
		}
	}()
	for last, i := int64(0), 0; last < times; i++ {
		if i%1000 == 0 {
			runtime.Gosched() // there may be one processor
		}
		n := changes.Load()
		_, settled := s.Settled(Worker, shard.Position{})
		at := said.Load()
		if at > last && settled && changes.Load() == n {
			t.Errorf("change %d is counted, and was not seen behind the count", n)
			at = times
		}
		last = at
		heard.Store(at)
	}
	<-done
}
