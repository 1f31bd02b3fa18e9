package ingest

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// attachedKept is an attached stream whose publisher keeps what it sends.
type attachedKept struct {
	*kept
	faults chan Fault
	mu     sync.Mutex
	told   []word
}

// word is one word of a repair to who keeps the attachment.
type word struct {
	Under bool
	Seq   uint64
}

func (r *rig) attachedKept(o Options, limit int) *attachedKept {
	k := &attachedKept{faults: make(chan Fault, 4)}
	o.Attached = &Attached{
		Fault: func(f Fault, _ Cause) { k.faults <- f },
		Repairing: func(under bool, seq uint64) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.told = append(k.told, word{under, seq})
		},
	}
	k.kept = r.kept(o, limit)
	return k
}

func (k *attachedKept) heard(want ...word) {
	k.rig.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if diff := cmp.Diff(want, k.told); diff != "" {
		k.rig.t.Errorf("told of repairs, want -, got +:\n%s", diff)
	}
}

func (k *attachedKept) faultless() {
	k.rig.t.Helper()
	select {
	case f := <-k.faults:
		k.rig.t.Errorf("fault %d", f)
	default:
	}
}

// lifetimes are the pools that an attached stream may have.
var lifetimes = []struct {
	name  string
	pool  Pool
	local bool
}{{"engine-local", PoolEngineLocal, true}, {"durable", PoolDurable, false}}

// TestAttachedRepair holds §9.2 for attached streams of both lifetimes.
func TestAttachedRepair(t *testing.T) {
	for _, l := range lifetimes {
		start := func(t *testing.T, o Options, limit int) (*rig, *attachedKept) {
			r := newRig(t, 0)
			o.Pool = l.pool
			f := r.attachedKept(o, limit)
			f.sends(0, storeAB, pool(201, 1))
			f.wait(0)
			return r, f
		}
		// lost is what a loss for good makes of the stream.
		lost := func(t *testing.T, r *rig, f *attachedKept, cause Cause, last uint64) {
			t.Helper()
			if l.local {
				if end := f.over(); end.Cause != cause || <-f.faults != FaultSource {
					t.Errorf("ended with %v, want a source fault, %s", end, cause)
				}
				f.state(Worker, Fenced, cause)
				f.state(CacheOwner, Fenced, cause)
				return
			}
			f.becomes(Worker, Degraded, cause)
			f.becomes(CacheOwner, Degraded, cause)
			f.wait(last)
			f.faultless()
			r.device(span(1, 8), 0)
		}
		t.Run(l.name+": a gap is filled by the replay", func(t *testing.T) {
			r, f := start(t, Options{}, 0)
			f.loses(1, storeC)
			f.sends(2, remove([]uint64{102}))
			f.wait(2)
			f.faultless()
			f.state(Worker, Exact, "")
			f.state(CacheOwner, Exact, "")
			r.device(span(1, 12), 1) // the store of 1 does not undo the remove of 2
			f.heard(word{true, 0}, word{false, 2})
		})
		t.Run(l.name+": what a replay was quicker with is no regression", func(t *testing.T) {
			r, f := start(t, Options{}, 0)
			f.cut(func() {
				for n := uint64(1); n <= 4; n++ {
					f.loses(n, chain(n))
				}
			})
			f.wait(4)
			f.becomes(Worker, Exact, "")
			f.raw(nil, be(3), payload(nil, chain(3)))
			f.raw(nil, be(4), payload(nil, chain(4)))
			f.sends(5, storeX)
			f.wait(5)
			f.faultless()
			f.state(Worker, Exact, "")
			r.device(span(21, 24), 1)
			if got := f.counted("messages_dropped", "duplicate"); got != 2 {
				t.Errorf("%d duplicates, want 2", got)
			}
		})
		t.Run(l.name+": history lost", func(t *testing.T) {
			r, f := start(t, Options{}, 2)
			for n := uint64(1); n <= 5; n++ {
				f.loses(n)
			}
			f.sends(6, storeX)
			lost(t, r, f, CauseGap, 6)
			if !l.local {
				f.heard(word{true, 0}, word{false, 6})
			} else {
				f.heard(word{true, 0})
			}
		})
		t.Run(l.name+": history lost, a snapshot", func(t *testing.T) {
			r, f := start(t, Options{Repair: Repair{Snapshot: &snapshots{give: func(int) (*Snapshot, error) {
				return &Snapshot{Watermark: 5, Batches: [][]byte{payload(nil, storeC)}}, nil
			}}}}, 2)
			for n := uint64(1); n <= 5; n++ {
				f.loses(n)
			}
			f.sends(6, storeX)
			f.wait(6)
			f.faultless()
			f.state(Worker, Exact, "")
			f.state(CacheOwner, Exact, "")
			r.device(span(1, 8), 0)
			r.device(span(21, 24), 1)
			f.heard(word{true, 0}, word{false, 6})
		})
		t.Run(l.name+": a regression is never repaired", func(t *testing.T) {
			r, f := start(t, Options{}, 0)
			f.sends(1)
			f.wait(1)
			f.raw(nil, be(0), payload(nil, storeX))
			lost(t, r, f, CauseRegression, 0)
			f.asked()
			f.heard()
		})
		for _, again := range []uint64{1, 3} { // below the last one, and the same
			t.Run(l.name+": a regression ends a repair, "+map[uint64]string{1: "lower", 3: "the same"}[again], func(t *testing.T) {
				p := newReplayer(t)
				r := newRig(t, 0)
				o := repairing(p.Addr())
				o.Pool = l.pool
				var mu sync.Mutex
				var words []word
				o.Attached = &Attached{Repairing: func(under bool, seq uint64) {
					mu.Lock()
					defer mu.Unlock()
					words = append(words, word{under, seq})
				}}
				faults := make(chan Fault, 4)
				o.Attached.Fault = func(f Fault, _ Cause) { faults <- f }
				f := &attachedKept{kept: &kept{feed: r.feed(o)}, faults: faults}
				f.live(0, storeAB)
				f.wait(0)
				f.live(3, storeX)
				p.asked(1)
				f.state(Worker, Repairing, CauseGap)
				f.live(again, storeX)
				lost(t, r, f, CauseRegression, again)
				mu.Lock()
				defer mu.Unlock()
				if diff := cmp.Diff([]word{{true, 0}, {false, again}}, words); diff != "" {
					t.Errorf("told of repairs, want -, got +:\n%s", diff)
				}
			})
		}
		t.Run(l.name+": another process at the same place", func(t *testing.T) {
			_, f := start(t, Options{}, 0)
			f.cut(func() {
				f.other()
				f.loses(0, storeX)
			})
			f.raw(nil, be(1), payload(nil, storeX))
			end := f.over()
			if end.Cause != CauseStranger {
				t.Errorf("ended with %v", end)
			}
			f.state(Worker, Fenced, CauseStranger)
			if l.local != (len(f.faults) == 1) {
				t.Errorf("%d faults", len(f.faults))
			}
		})
		t.Run(l.name+": a full hold wants a snapshot", func(t *testing.T) {
			p := newReplayer(t)
			r := newRig(t, 0)
			o := repairing(p.Addr())
			o.Pool, o.Repair.HoldBatches = l.pool, 2
			o.Repair.Snapshot = &snapshots{give: func(int) (*Snapshot, error) {
				return &Snapshot{Watermark: 5, Batches: [][]byte{payload(nil, storeX)}}, nil
			}}
			f, _ := r.attachedFeed(o)
			send := func(n uint64, events ...[]byte) { f.raw([]byte("t"), be(n), payload(nil, events...)) }
			send(0, storeAB)
			f.wait(0)
			send(3)
			p.asked(1)
			send(4)
			send(5)
			f.until("the snapshot", func() bool { return f.counted("snapshots", "") == 1 })
			send(6)
			f.wait(6)
			f.state(Worker, Exact, "")
			r.device(span(21, 24), 1)
			r.device(span(1, 8), 0)
			if got := f.counted("repairs_failed", "hold_overflow"); got != 1 {
				t.Errorf("%d repairs overflowed, want 1", got)
			}
		})
	}
	// What the snapshot has not is missing: the loss is one for good.
	t.Run("a full hold, and no snapshot to be had", func(t *testing.T) {
		p := newReplayer(t)
		r := newRig(t, 0)
		o := repairing(p.Addr())
		o.Repair.HoldBatches = 2
		given := make(chan struct{})
		o.Repair.Snapshot = &snapshots{give: func(int) (*Snapshot, error) { <-given; return nil, errors.New("none") }}
		f := r.feed(o)
		f.live(0, storeAB)
		f.wait(0)
		f.live(3)
		p.asked(1)
		for n := uint64(4); n <= 9; n++ {
			f.live(n, chain(n))
		}
		f.until("all to be held", func() bool { return f.counted("held_messages", "") == 7 })
		close(given)
		f.wait(9)
		f.state(Worker, Degraded, CauseGap)
		r.device(span(1, 8), 0)
		if got := f.counted("batches", ""); got != 3 {
			t.Errorf("%d batches applied, want the first and the two that are held", got)
		}
	})
}
