package ingest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// archived is a stream whose publisher keeps what it sends for replay.
type kept struct {
	*feed
	archive *archive
}

func (r *rig) kept(o Options, limit int) *kept {
	r.t.Helper()
	v := newArchive(r.t, limit)
	if o.Repair.Silence == 0 {
		o.Repair.Silence = 20 * time.Second
	}
	if o.Repair.ProbeAfter == 0 {
		o.Repair.ProbeAfter = -1
	}
	o.Repair.Endpoint = v.Addr()
	return &kept{r.feed(o), v}
}

// sends publishes a batch, loses keeps it alone.
func (k *kept) sends(n uint64, events ...[]byte) {
	k.rig.t.Helper()
	p := payload(nil, events...)
	k.archive.keep(n, p)
	k.raw(nil, be(n), p)
}

func (k *kept) loses(n uint64, events ...[]byte) { k.archive.keep(n, payload(nil, events...)) }

func (k *kept) asked(want ...uint64) {
	k.rig.t.Helper()
	got := k.archive.requests()
	if len(got) != len(want) {
		k.rig.t.Fatalf("asked from %d, want %d", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			k.rig.t.Fatalf("asked from %d, want %d", got, want)
		}
	}
}

func TestQ01AGapIsRepairedByOneReplay(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{}, 0)
	f.sends(0, storeAB)
	f.sends(1, remove([]uint64{102}))
	f.wait(1)
	f.state(Worker, Exact, "")
	f.loses(2, store([]uint64{102}, 101, span(5, 8), 4))
	f.loses(3)
	f.sends(4, storeC)
	f.wait(4)
	f.state(Worker, Exact, "") // it was said before batch 4 became visible
	r.device(span(1, 12), 3)
	f.asked(2)
	f.sends(5, remove([]uint64{103}))
	f.wait(5)
	r.device(span(1, 12), 2) // each was applied once
	if got := f.counted("repairs", "whole"); got != 1 {
		t.Errorf("%d repairs, want 1", got)
	}
	if got := f.counted("losses", ""); got != 0 {
		t.Errorf("%d losses, want none", got)
	}
}

func TestQ03TheReplayBeginsTooLate(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{}, 0)
	f.sends(0, store([]uint64{101}, nil, span(1, 4), 4))
	f.wait(0)
	f.archive.batches = nil
	f.loses(5, storeC)
	f.loses(6)
	f.loses(7)
	f.loses(8)
	f.sends(9, store([]uint64{102}, 101, span(5, 8), 4))
	f.wait(9)
	f.state(Worker, Degraded, CauseGap)
	r.device(span(1, 4), 0)
	r.device(span(1, 12), 0)
	f.asked(1)
	if got := f.counted("unrecovered_batches", ""); got != 4 {
		t.Errorf("%d batches unrecovered, want 4", got)
	}
	// The root comes again: b and c waited for it.
	f.sends(10, store([]uint64{101}, nil, span(1, 4), 4))
	f.wait(10)
	r.device(span(1, 12), 3)
	f.sends(11, clearAll())
	f.wait(11)
	f.state(Worker, Exact, "")
}

func TestQ07LateJoiner(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{}, 0)
	for n := range uint64(41) {
		f.loses(n, chain(n))
	}
	f.sends(41, chain(41))
	f.wait(41)
	f.state(Worker, Exact, "")
	r.device(span(1, 168), 42)
	f.asked(0)
	f.sends(42, remove([]uint64{1042}))
	f.wait(42)
	r.device(span(1, 168), 41)
}

func TestQ13LiveTrafficDuringALongReplay(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	f := r.feed(repairing(p.Addr()))
	f.live(1000, chain(1000))
	a := p.asked(0)
	for n := range uint64(1000) {
		a.batch(n, chain(n))
		if n%5 == 0 {
			f.live(1001+n/5, chain(1001+n/5))
		}
		if n == 500 {
			f.until("some of it is applied", func() bool { return f.counted("replayed_batches", "") > 100 })
			f.state(Worker, Repairing, CauseLateJoin) // hidden, whatever is applied
		}
	}
	f.live(1200, chain(1200)) // one more than the script's
	a.end()
	f.wait(1200)
	f.state(Worker, Exact, "")
	r.device(span(1, 4*1201), 1201)
	if got := f.counted("batches", ""); got != 1201 {
		t.Errorf("%d batches applied, want 1201", got)
	}
}

// A batch that could not be encoded uses up its number: no replay fills it.
func TestAHoleThatNoReplayFills(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{}, 0)
	f.sends(0, storeAB)
	f.wait(0)
	f.loses(2, storeX)
	f.sends(3)
	f.wait(3)
	f.state(Worker, Degraded, CauseGap)
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 1)
}

// What comes behind a loss makes the domain whole: a clear in the replay.
func TestAClearBehindALossMakesWhole(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{}, 0)
	f.sends(0, storeAB)
	f.wait(0)
	f.archive.batches = nil
	f.loses(5, clearAll())
	f.loses(6, storeX)
	f.sends(7)
	f.wait(7)
	f.state(Worker, Exact, "")
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 1)
}

func TestAnUndecodableBatchInAReplay(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{}, 0)
	f.sends(0, storeAB)
	f.wait(0)
	f.archive.keep(1, []byte{0x93, 0x01})
	f.loses(2, storeX)
	f.sends(3)
	f.wait(3)
	f.state(Worker, Degraded, CauseUndecodable)
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 1)
	// The same where it is the last that is waited for.
	f.loses(4)
	bad := []byte{0x93}
	f.archive.keep(5, bad)
	f.raw(nil, be(5), bad)
	f.wait(5)
	f.state(Worker, Degraded, CauseUndecodable)
	r.device(span(21, 24), 0)
}

func TestARepairOfADegradedStreamLeavesItDegraded(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{}, 0)
	f.sends(0, storeAB)
	bad := []byte{0x93}
	f.archive.keep(1, bad)
	f.raw(nil, be(1), bad)
	f.wait(1)
	f.state(Worker, Degraded, CauseUndecodable)
	f.loses(2, storeX)
	f.sends(3)
	f.wait(3)
	f.state(Worker, Degraded, CauseUndecodable)
	r.device(span(21, 24), 1)
}

func TestAnEngineLocalPoolIsFencedWhenRepairFails(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	o := repairing(p.Addr())
	o.Pool = PoolEngineLocal
	f := r.feed(o)
	f.live(0, storeAB)
	f.wait(0)
	f.live(3, storeX)
	a := p.asked(1)
	f.state(Worker, Repairing, CauseGap)
	f.state(CacheOwner, Repairing, CauseGap) // both domains freeze
	a.batch(2, storeX).batch(3)
	a.end()
	f.wait(3)
	f.state(Worker, Fenced, CauseGap)
	f.state(CacheOwner, Fenced, CauseGap)
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 0)
	f.live(4, storeX)
	f.wait(4)
	r.device(span(21, 24), 0)
	// Its restart brings it back.
	f.live(0, storeX)
	f.restarted()
	f.wait(0)
	f.state(Worker, Exact, "")
	r.device(span(21, 24), 1)
}

func TestAnEngineLocalPoolIsRepaired(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{Pool: PoolEngineLocal}, 0)
	f.sends(0, storeAB)
	f.wait(0)
	f.loses(1, storeC)
	f.sends(2)
	f.wait(2)
	f.state(Worker, Exact, "")
	f.state(CacheOwner, Exact, "")
	r.device(span(1, 12), 3)
}

func TestTheHoldIsBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Repair)
	}{
		{"in batches", func(r *Repair) { r.HoldBatches = 3 }},
		{"in bytes", func(r *Repair) { r.HoldBytes = 3 * len(payload(nil, chain(10))) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			p := newReplayer(t)
			o := repairing(p.Addr())
			c.set(&o.Repair)
			f := r.feed(o)
			f.live(0, chain(0))
			f.live(10, chain(10))
			p.asked(1)
			f.live(11, chain(11))
			f.live(12, chain(12))
			f.until("three are held", func() bool { return f.counted("held_messages", "") == 3 })
			f.state(Worker, Repairing, CauseGap)
			f.live(13, chain(13))
			f.wait(13)
			f.state(Worker, Degraded, CauseGap)
			if got := f.counted("repairs_failed", "hold_overflow"); got != 1 {
				t.Errorf("%d repairs failed for the hold, want 1", got)
			}
			r.device(span(1, 4), 0)
			if got := f.counted("batches", ""); got != 5 {
				t.Errorf("%d batches applied, want 5: what was held is not lost", got)
			}
		})
	}
}

func TestTotalTimeIsBounded(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	o := repairing(p.Addr())
	o.Repair.Total = 500 * time.Millisecond
	f := r.feed(o)
	f.live(0, chain(0))
	f.live(3, chain(3))
	a := p.asked(1)
	stop := make(chan struct{})
	defer func() { <-stop }()
	go func() {
		defer close(stop)
		// It brings something all the time, but never what is asked for.
		for a.reply(nil, be(0), nil) == nil && a.reply() == nil && f.counted("repairs_failed", "timeout") == 0 {
			time.Sleep(time.Millisecond)
		}
	}()
	f.wait(3)
	f.state(Worker, Degraded, CauseGap)
	if got := f.counted("repairs_failed", "timeout"); got != 1 {
		t.Errorf("%d repairs timed out, want 1", got)
	}
}

// A replay that ends before what was heard live is asked for again.
func TestTheEndMarkerProvesNothing(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	f := r.feed(repairing(p.Addr()))
	f.live(0, chain(0))
	f.live(5, chain(5))
	p.asked(1).batch(1, chain(1)).batch(2, chain(2)).end()
	p.asked(3).end()
	f.state(Worker, Repairing, CauseGap)
	p.asked(3).batch(3, chain(3)).batch(4, chain(4)).end()
	f.wait(5)
	f.state(Worker, Exact, "")
	r.device(span(1, 24), 6)
}

// A restart in the middle of a repair begins another.
func TestARestartDuringARepair(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	f := r.feed(repairing(p.Addr()))
	f.live(0, storeAB)
	f.live(5)
	old := p.asked(1)
	old.batch(1, storeC)
	f.until("one is replayed", func() bool { return f.counted("replayed_batches", "") == 1 })
	f.live(1, storeX) // 0 of the new process did not come
	a := p.asked(0)
	old.batch(2, storeC) // too late
	a.batch(0, store([]uint64{301}, nil, span(41, 44), 4)).batch(1, storeX).end()
	f.restarted()
	f.wait(1)
	f.state(Worker, Exact, "")
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 1)
	r.device(span(41, 44), 1)
}

// Messages that a replay brought arrive live as well, below what is applied.
func TestLiveMessagesBehindAReplayAreNoRestart(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	f := r.feed(repairing(p.Addr()))
	f.live(0, chain(0))
	f.live(2, chain(2))
	a := p.asked(1)
	a.batch(1, chain(1))
	f.wait(2)
	for n := uint64(3); n < 6; n++ {
		f.live(n, chain(n))
	}
	f.wait(5)
	f.state(Worker, Exact, "")
	f.live(9, chain(9))
	b := p.asked(6)
	// All of it at once, and more than was heard live: it applies what it needs.
	for n := uint64(6); n < 12; n++ {
		b.batch(n, chain(n))
	}
	b.end()
	f.wait(9)
	for n := uint64(10); n < 14; n++ {
		f.live(n, chain(n))
	}
	f.wait(13)
	f.state(Worker, Exact, "")
	r.device(span(1, 56), 14)
	if got := f.counted("restarts", ""); got != 0 {
		t.Errorf("%d restarts, want none", got)
	}
}

func TestABurstOfGapsThenTheCooldown(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{Repair: Repair{Cooldown: time.Hour}}, 0)
	n := uint64(0)
	f.sends(n, chain(n))
	for range repairsInHand {
		f.loses(n+1, chain(n+1))
		f.sends(n+2, chain(n+2))
		n += 2
		f.wait(n)
		f.state(Worker, Exact, "")
	}
	// None is left: it waits, hidden.
	f.loses(n+1, chain(n+1))
	f.sends(n+2, chain(n+2))
	f.logged("a repair waits for its cooldown")
	f.state(Worker, Repairing, CauseGap)
	if got := f.counted("repairs", "begun"); got != repairsInHand {
		t.Errorf("%d repairs begun, want %d", got, repairsInHand)
	}
}

func TestTheCooldownEnds(t *testing.T) {
	r := newRig(t, 0)
	f := r.kept(Options{Repair: Repair{Cooldown: 50 * time.Millisecond}}, 0)
	n := uint64(0)
	f.sends(n, chain(n))
	for range repairsInHand + 3 {
		f.loses(n+1, chain(n+1))
		f.sends(n+2, chain(n+2))
		n += 2
		f.wait(n)
		f.state(Worker, Exact, "")
	}
	r.device(span(1, uint32(4*n+4)), uint32(n+1))
}

func TestAGapBehindAFailedRepairIsALossAtOnce(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	o := repairing(p.Addr())
	o.Repair.Silence = 500 * time.Millisecond
	f := r.feed(o)
	f.live(0, chain(0))
	f.live(2, chain(2))
	p.asked(1)
	f.wait(2)
	f.state(Worker, Degraded, CauseGap)
	f.live(4, storeX)
	f.wait(4)
	f.state(Worker, Degraded, CauseGap)
	r.device(span(21, 24), 1)
	p.unasked()
	if got := f.counted("repairs_failed", "cooldown"); got != 1 {
		t.Errorf("%d repairs refused, want 1", got)
	}
	if got := f.counted("unrecovered_batches", ""); got != 2 {
		t.Errorf("%d batches unrecovered, want 2", got)
	}
	// Nor does it say that it asks, or that it repairs: a publisher that drops in
	// bursts would flood the log.
	asks, repairs := 0, 0
	for range len(f.logs) {
		switch got := <-f.logs; got {
		case "batches are missing, asking for them":
			asks++
		case "state worker repairing gap":
			repairs++
		}
	}
	if asks != 1 || repairs != 1 {
		t.Errorf("%d times it logged that it asks and %d times that it repairs, want 1 and 1", asks, repairs)
	}
}

// A process that is joined late says repairing while it is asked for its
// beginning, also to who has only seen the one before.
func TestALateRestartSaysRepairing(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	f := r.feed(repairing(p.Addr()))
	f.live(0, chain(0))
	f.live(1, chain(1))
	f.live(2, chain(2))
	f.wait(2)
	f.live(1, storeX)
	a := p.asked(0)
	f.state(Worker, Repairing, CauseLateJoin)
	a.batch(0).batch(1, storeX).end()
	f.becomes(Worker, Exact, "")
}

// The bounds of residency.md §9.2 are the defaults.
func TestRepairDefaults(t *testing.T) {
	var r Repair
	r.setDefaults()
	if r.HoldBatches != 4096 || r.HoldBytes != 32<<20 || r.Silence != 5*time.Second || r.Total != 30*time.Second || r.Cooldown != 30*time.Second {
		t.Errorf("defaults %+v", r)
	}
	if n := cap(r.Limit.repairs); n != 8 || r.Limit != processLimit {
		t.Errorf("%d repairs at once, want 8 over the process", n)
	}
}

// A replay endpoint that answers nobody is asked whether there is something, and
// keeps no repair of others waiting.
func TestLookingUpTakesNoRepairsTurn(t *testing.T) {
	r := newRig(t, 0)
	limit := NewLimit(1)
	p1, p2 := newReplayer(t), newReplayer(t)
	o := repairing(p1.Addr())
	o.Repair.Limit, o.Repair.ProbeAfter = limit, time.Millisecond
	f1 := r.feed(o)
	f1.live(0, chain(0))
	p1.asked(1) // the probe, and nobody answers
	o = repairing(p2.Addr())
	o.Repair.Limit, o.Source, o.Rank = limit, "w2", 1
	f2 := r.feed(o)
	f2.live(1, chain(1))
	p2.asked(0).batch(0, chain(0)).end()
	f2.wait(1)
	f2.state(Worker, Exact, "")
}

func TestRepairsAtOnceAreBounded(t *testing.T) {
	r := newRig(t, 0)
	limit := NewLimit(1)
	p1, p2 := newReplayer(t), newReplayer(t)
	o := repairing(p1.Addr())
	o.Repair.Limit = limit
	f1 := r.feed(o)
	o = repairing(p2.Addr())
	o.Repair.Limit, o.Source, o.Rank = limit, "w2", 1
	f2 := r.feed(o)
	f1.live(1, chain(1))
	a := p1.asked(0)
	f2.live(1, chain(1))
	f2.until("it is held", func() bool { return f2.counted("held_messages", "") == 1 })
	f2.state(Worker, Repairing, CauseLateJoin)
	p2.unasked()
	a.batch(0, chain(0)).end()
	f1.wait(1)
	p2.asked(0).batch(0, chain(0)).end()
	f2.wait(1)
	f2.state(Worker, Exact, "")
}

func TestARepairOfATopicThatIsNotOurs(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	o := repairing(p.Addr())
	o.Topic = "kv@a@m"
	f := r.feed(o)
	f.live(0, chain(0))
	f.live(2, chain(2))
	p.asked(1).frames(nil, []byte("kv@ab@m"), be(1), payload(nil, chain(1)))
	f.wait(2)
	f.state(Worker, Degraded, CauseGap)
	if got := f.counted("repairs_failed", "topic"); got != 1 {
		t.Errorf("%d repairs failed for the topic, want 1", got)
	}
}

// A stream that ends in the middle of a repair leaves nothing behind.
func TestAStreamEndsInTheMiddleOfARepair(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	f := r.feed(repairing(p.Addr()))
	f.live(3, chain(3))
	p.asked(0)
	f.cancel()
	err := <-f.ended
	f.ended <- err
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the stream ended with %v", err)
	}
}

// snapshots is a Snapshotter that a test answers by hand.
type snapshots struct {
	mu    sync.Mutex
	asked int
	give  func(n int) (*Snapshot, error)
}

func (s *snapshots) Snapshot(context.Context) (*Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.give(s.asked)
}

func TestSnapshots(t *testing.T) {
	state := func(watermark uint64) func(int) (*Snapshot, error) {
		return func(int) (*Snapshot, error) {
			return &Snapshot{Watermark: watermark, Batches: [][]byte{payload(nil, storeX), payload(nil, storeAB, storeC)}}, nil
		}
	}
	for _, c := range []struct {
		name  string
		give  func(int) (*Snapshot, error)
		state State
		cause Cause
		x     uint32
	}{
		{"as of the message before the gap's", state(9), Exact, "", 1},
		{"as of the gap's message", state(10), Exact, "", 1},
		{"newer than what was heard", state(12), Exact, "", 1},
		{"too old for what is held", state(8), Degraded, CauseGap, 0},
		{"none", func(int) (*Snapshot, error) { return nil, errors.New("none") }, Degraded, CauseGap, 0},
		{"undecodable", func(int) (*Snapshot, error) {
			return &Snapshot{Watermark: 9, Batches: [][]byte{{0x93}}}, nil
		}, Degraded, CauseGap, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			f := r.feed(Options{Repair: Repair{Snapshot: &snapshots{give: c.give}}})
			f.live(0, store([]uint64{301}, nil, span(41, 44), 4))
			f.wait(0)
			f.live(10)
			f.wait(10)
			f.state(Worker, c.state, c.cause)
			r.device(span(41, 44), 0) // what was known is gone either way
			r.device(span(21, 24), c.x)
			r.device(span(1, 12), 3*c.x)
			f.live(13) // never a duplicate of what a snapshot has
			if c.name == "newer than what was heard" {
				f.wait(13)
				f.state(Worker, Exact, "")
			}
		})
	}
}

// Where the replay begins too late a snapshot is better; where there is none,
// what the replay has is better than nothing.
func TestASnapshotWhereTheReplayBeginsTooLate(t *testing.T) {
	for _, c := range []struct {
		name  string
		give  func(int) (*Snapshot, error)
		state State
		cause Cause
		depth [2]uint32 // of a chain's block 0 and of x
	}{
		{"there is one", func(int) (*Snapshot, error) {
			return &Snapshot{Watermark: 6, Batches: [][]byte{payload(nil, chain(0), chain(1))}}, nil
		}, Exact, "", [2]uint32{3, 1}},
		{"there is none", func(int) (*Snapshot, error) { return nil, errors.New("none") }, Degraded, CauseGap, [2]uint32{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			f := r.kept(Options{Repair: Repair{Snapshot: &snapshots{give: c.give}}}, 3)
			f.sends(0, chain(0))
			f.wait(0)
			for n := uint64(1); n < 6; n++ {
				f.loses(n)
			}
			f.loses(6, storeX)
			f.sends(7, chain(2), storeX)
			f.wait(7)
			f.state(Worker, c.state, c.cause)
			r.device(span(1, 12), c.depth[0])
			r.device(span(21, 24), c.depth[1])
			// Counting copies shows whether batch 6 was applied beside the snapshot.
			f.sends(8, remove([]uint64{121}))
			f.wait(8)
			r.device(span(21, 24), map[State]uint32{Exact: 0, Degraded: 1}[c.state])
		})
	}
}

// A snapshot comes where nobody answers the replay.
func TestASnapshotBehindAReplayInVain(t *testing.T) {
	r := newRig(t, 0)
	p := newReplayer(t)
	o := repairing(p.Addr())
	o.Repair.Silence = 500 * time.Millisecond
	o.Repair.Snapshot = &snapshots{give: func(int) (*Snapshot, error) {
		return &Snapshot{Watermark: 3, Batches: [][]byte{payload(nil, storeX)}}, nil
	}}
	f := r.feed(o)
	f.live(0, storeAB)
	f.live(3)
	p.asked(1)
	f.live(4, remove([]uint64{121}))
	f.wait(4)
	f.state(Worker, Exact, "")
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 0) // batch 4 came behind the snapshot
	if got := f.counted("snapshots", ""); got != 1 {
		t.Errorf("%d snapshots, want 1", got)
	}
}
