package ingest

import (
	"slices"
	"testing"
	"time"
)

// cut lets the connection fail and come back, with missed batches in between.
func (k *kept) cut(missed func()) {
	k.rig.t.Helper()
	k.pub.Close()
	k.logged("disconnected")
	missed()
	k.publish(k.opt.Endpoint)
}

// other begins a process that knows nothing of what was sent before.
func (k *kept) other() {
	k.archive.mu.Lock()
	defer k.archive.mu.Unlock()
	k.archive.batches = nil
}

func TestWhatWasMissedWhileTheLinkWasDownIsAskedForAtOnce(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{}, 0)
	f.sends(0, chain(0))
	f.sends(1, chain(1))
	f.wait(1)
	f.cut(func() {
		f.state(Worker, Disconnected, CauseLink)
		f.loses(2, chain(2))
		f.loses(3, chain(3))
	})
	// The publisher says nothing more.
	f.wait(3)
	f.becomes(Worker, Exact, "")
	r.device(span(1, 16), 4)
	f.asked(2, 1) // is there anything? then with the last batch we know as witness
	f.sends(4, chain(4))
	f.wait(4)
	f.state(Worker, Exact, "")
	r.device(span(1, 20), 5)
}

func TestNothingWasMissedWhileTheLinkWasDown(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{Repair: Repair{ProbeAfter: 50 * time.Millisecond}}, 0)
	f.sends(0, chain(0))
	f.sends(1, chain(1))
	f.wait(1)
	f.cut(func() {})
	// Nothing comes over the link, yet the probe proves it: the process has our
	// last batch, and nothing behind it.
	f.becomes(Worker, Exact, "")
	r.device(span(1, 8), 2)
	if asked := f.archive.requests(); asked[0] != 2 || asked[1] != 1 {
		t.Errorf("asked from %d, want 2, then 1", asked)
	}
	if got := f.counted("restarts", ""); got != 0 {
		t.Errorf("%d restarts, want none", got)
	}
}

// Another process has come further than the one before by the time we are back:
// its batches must not be hung behind the old ones.
func TestAnotherProcessThatHasComeFurther(t *testing.T) {
	for _, live := range []bool{false, true} {
		name := "and is quiet"
		if live {
			name = "and speaks"
		}
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 0)
			f := r.kept(Options{}, 0)
			f.sends(0, storeAB)
			f.sends(1)
			f.wait(1)
			f.cut(func() {
				f.other()
				f.loses(0, storeX)
				f.loses(1)
				f.loses(2, store([]uint64{301}, nil, span(41, 44), 4))
			})
			f.restarted()
			last := uint64(2)
			if live {
				f.sends(3, remove([]uint64{301}))
				last = 3
			}
			f.wait(last)
			f.becomes(Worker, Exact, "")
			r.device(span(1, 8), 0)
			r.device(span(21, 24), 1)
			r.device(span(41, 44), map[bool]uint32{false: 1, true: 0}[live])
		})
	}
}

// Another process has come exactly as far as the one before when its first
// message reaches us: by its sequence alone it is the same. Found by fuzzing.
func TestAnotherProcessThatGoesOnWhereTheOldOneStopped(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{}, 0)
	f.sends(0, storeAB)
	f.wait(0)
	f.cut(func() {
		f.other()
		f.loses(0, storeX)
	})
	f.sends(1, store([]uint64{301}, nil, span(41, 44), 4))
	f.until("found out", func() bool { return f.counted("restarts", "") == 1 })
	f.restarted()
	f.wait(1)
	f.becomes(Worker, Exact, "")
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 1)
	r.device(span(41, 44), 1)
}

// The same process goes on: it is asked once, and found to be the same.
func TestTheSameProcessGoesOn(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{}, 0)
	f.sends(0, storeAB)
	f.wait(0)
	f.cut(func() {})
	f.sends(1, storeC)
	f.wait(1)
	f.state(Worker, Exact, "")
	f.until("vouched for", func() bool { return slices.Contains(f.archive.requests(), 0) })
	f.sends(2, storeX)
	f.wait(2)
	f.state(Worker, Exact, "")
	r.device(span(1, 12), 3)
	if got := f.counted("restarts", ""); got != 0 {
		t.Errorf("%d restarts, want none", got)
	}
}

// The buffer begins behind what we know: nobody can tell whose history it is.
func TestTheWitnessIsGone(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{}, 3)
	f.sends(0, storeAB)
	f.wait(0)
	f.cut(func() {
		for n := uint64(1); n < 9; n++ {
			f.loses(n, store([]uint64{301 + n}, nil, span(41+4*uint32(n), 44+4*uint32(n)), 4))
		}
	})
	f.restarted()
	f.wait(8)
	f.becomes(Worker, Degraded, CauseLateJoin)
	r.device(span(1, 8), 0)
	r.device(span(41+4*8, 44+4*8), 1)
	r.device(span(41+4*5, 44+4*5), 0)
	// The first live message of that history does not make it whole.
	f.sends(9, storeX)
	f.wait(9)
	f.state(Worker, Degraded, CauseLateJoin)
	r.device(span(21, 24), 1)
}

func TestALinkThatFailsInTheMiddleOfARepair(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	f := r.feed(repairing(p.Addr()))
	batch := func(n uint64) []byte { return payload(nil, chain(n)) }
	sent := batch(0)
	f.raw(nil, be(0), sent)
	f.wait(0)
	f.live(5, chain(5))
	p.asked(1).bytes(1, batch(1))
	f.until("one is replayed", func() bool { return f.counted("replayed_batches", "") == 1 })
	f.pub.Disconnect()
	f.logged("disconnected")
	f.state(Worker, Repairing, CauseGap) // hidden, not the truth of then
	f.joined()
	// It goes on, but who answers now has to have what was answered before.
	p.asked(1).bytes(1, []byte("another's")).end()
	// It has not: everything of this process is asked for.
	a := p.asked(0)
	for n := range uint64(3) {
		a.bytes(n, payload(nil, store([]uint64{501 + n}, nil, span(100+4*uint32(n), 103+4*uint32(n)), 4)))
	}
	a.end()
	f.restarted()
	f.wait(2)
	f.becomes(Worker, Exact, "")
	r.device(span(1, 4), 0)
	r.device(span(100, 103), 1)
	r.device(span(108, 111), 1)
}

func TestALinkThatFailsInTheMiddleOfARepairOfTheSameProcess(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	f := r.feed(repairing(p.Addr()))
	b1 := payload(nil, chain(1))
	f.live(0, chain(0))
	f.wait(0)
	f.live(3, chain(3))
	p.asked(1).bytes(1, b1)
	f.until("one is replayed", func() bool { return f.counted("replayed_batches", "") == 1 })
	f.pub.Disconnect()
	f.logged("disconnected")
	f.joined()
	a := p.asked(1).bytes(1, b1).batch(2, chain(2))
	f.wait(3) // what was held over the old connection is good still
	f.state(Worker, Repairing, CauseGap)
	a.batch(3, chain(3)).batch(4, chain(4)).end()
	f.becomes(Worker, Exact, "")
	f.wait(4)
	r.device(span(1, 20), 5)
}

// Nothing is known but what is held when the link fails: it is not kept, for the
// next process cannot prove that it belongs to it.
func TestALinkThatFailsBeforeAnythingIsApplied(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	f := r.feed(repairing(p.Addr()))
	f.live(1, storeAB)
	p.asked(0)
	f.pub.Disconnect()
	f.logged("disconnected")
	f.state(Worker, Repairing, CauseLateJoin)
	f.joined()
	a := p.asked(0)
	a.batch(0, storeX).end()
	f.wait(0)
	f.becomes(Worker, Exact, "")
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 1)
	f.live(1, remove([]uint64{121}))
	f.wait(1)
	f.state(Worker, Exact, "")
	r.device(span(21, 24), 0)
}

func TestATailThatWasLostIsFoundByAsking(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{Repair: Repair{ProbeAfter: 50 * time.Millisecond}}, 0)
	f.sends(0, chain(0))
	f.sends(1, chain(1))
	f.wait(1)
	f.loses(2, chain(2))
	f.loses(3, remove([]uint64{1001}))
	f.wait(3)
	f.becomes(Worker, Exact, "")
	r.device(span(1, 12), 0) // 0 is removed: 1 and 2 lie behind a hole
	if got := f.counted("tails_lost", ""); got != 1 {
		t.Errorf("%d tails lost, want 1", got)
	}
	// Late, they come live as well.
	f.sends(2, chain(2))
	f.sends(3, remove([]uint64{1001}))
	f.sends(4, chain(0))
	f.wait(4)
	f.state(Worker, Exact, "")
	r.device(span(1, 12), 3)
	if got := f.counted("restarts", ""); got != 0 {
		t.Errorf("%d restarts, want none", got)
	}
}

// The tail was longer than the buffer: a gap like any other, on a connection
// that is one process's.
func TestATailThatTheBufferHasNotWhole(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{Repair: Repair{ProbeAfter: 50 * time.Millisecond}}, 2)
	f.sends(0, storeAB)
	f.wait(0)
	for n := uint64(1); n < 6; n++ {
		f.loses(n, storeX)
	}
	f.wait(5)
	f.becomes(Worker, Degraded, CauseGap)
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 1)
}

func TestProbesBecomeRare(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{Repair: Repair{ProbeAfter: 20 * time.Millisecond}}, 0)
	f.sends(0, chain(0))
	f.wait(0)
	began := time.Now()
	f.until("four probes", func() bool { return f.counted("tail_probes", "") == 4 })
	// 20, 40, 80 and 160 ms of quiet at least.
	if took := time.Since(began); took < 250*time.Millisecond {
		t.Errorf("four probes in %v", took)
	}
	if quiet := f.archive.requests(); len(quiet) < 3 {
		t.Errorf("asked from %d", quiet)
	}
}

// A probe that nobody answers is no loss: nothing is known to be missing.
func TestAProbeInVain(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	o := repairing(p.Addr())
	o.Repair.ProbeAfter = 20 * time.Millisecond
	o.Repair.Silence = 20 * time.Millisecond
	f := r.feed(o)
	f.live(0, chain(0))
	f.wait(0)
	f.until("two probes", func() bool { return f.counted("tail_probes", "") == 2 })
	f.state(Worker, Exact, "")
	r.device(span(1, 4), 1)
	f.live(1, chain(1))
	f.wait(1)
	f.state(Worker, Exact, "")
}

// Engines may be idle when we come: what they hold is not less true for it.
func TestAQuietPublisherIsAskedForItsHistory(t *testing.T) {
	for _, c := range []struct {
		name  string
		keeps int // batches of five; 0: all
		state State
		cause Cause
		depth uint32
	}{
		{"all of it", 0, Exact, "", 6},
		{"the end of it", 2, Degraded, CauseLateJoin, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			o := repairing("")
			o.Repair.ProbeAfter = time.Millisecond
			f := r.kept(o, c.keeps)
			for n := range uint64(5) {
				f.loses(n, chain(n)) // before we came
			}
			f.becomes(Worker, c.state, c.cause)
			f.wait(4)
			if st := f.now(Worker); !st.Received || st.Seq != 4 {
				t.Errorf("%+v; want 4 as received", st)
			}
			f.pub.Disconnect() // nothing was heard over it, and yet it counts
			f.logged("caught up after a disconnect")
			if got := f.counted("messages", "") + f.counted("tails_lost", ""); got != 0 {
				t.Errorf("%d messages and lost tails, want none", got)
			}
			f.joined()
			f.sends(5, chain(5))
			f.wait(5)
			f.state(Worker, c.state, c.cause)
			r.device(span(1, 24), c.depth)
			if got := f.counted("gaps", "") + f.counted("restarts", ""); got != 0 {
				t.Errorf("%d gaps and restarts, want none", got)
			}
		})
	}
}
