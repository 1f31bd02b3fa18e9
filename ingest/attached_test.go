package ingest

import (
	"errors"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
	"github.com/cairn-kv/cairn/tree/shard"
)

// What the cache owner says in these tests.
func pool(hash uint64, from uint32) []byte {
	return store([]uint64{hash}, nil, span(from, from+3), 4, "medium", "CPU", "ownership", "kvcr")
}

// attachedFeed follows a publisher under the rules of attached streams; what it
// reports as a fault comes from the channel.
func (r *rig) attachedFeed(o Options) (*feed, chan Fault) {
	faults := make(chan Fault, 4)
	if o.Attached == nil {
		o.Attached = &Attached{}
	}
	o.Attached.Fault = func(f Fault, _ Cause) { faults <- f }
	o.Topic = "t"
	return r.feed(o), faults
}

// over waits for the stream's end and returns why; the rig's own check at the
// end of the test finds it again.
func (f *feed) over() *EndError {
	f.rig.t.Helper()
	select {
	case err := <-f.ended:
		f.ended <- shard.ErrClosed
		end, ok := errors.AsType[*EndError](err)
		if !ok {
			f.rig.t.Fatalf("the stream ended with %v", err)
		}
		return end
	case <-f.rig.ctx.Done():
		f.rig.t.Fatal("the stream did not end")
		return nil
	}
}

// TestAttachedEnds holds what ends an attached stream, and that nothing of the
// message at fault, and nothing behind it, is applied.
func TestAttachedEnds(t *testing.T) {
	long := make([]uint64, maxAttachedBlocks+1)
	for i := range long {
		long[i] = uint64(5000 + i)
	}
	good := payload(nil, storeC)
	for _, c := range []struct {
		name   string
		pool   Pool
		frames func(n uint64) [][]byte
		cause  Cause
		fault  int // -1: none
		owner  State
	}{
		{"5.3.4 two frames", PoolDurable, func(n uint64) [][]byte { return [][]byte{[]byte("t"), be(n)} }, CauseFrames, -1, Exact},
		{"5.3.4 four frames", PoolEngineLocal, func(n uint64) [][]byte { return [][]byte{[]byte("t"), be(n), good, nil} }, CauseFrames, -1, Fenced},
		{"5.3.4 short sequence", PoolDurable, func(n uint64) [][]byte { return [][]byte{[]byte("t"), be(n)[1:], good} }, CauseFrames, -1, Exact},
		{"5.3.4 undecodable", PoolDurable, func(n uint64) [][]byte {
			return [][]byte{[]byte("t"), be(n), append(payload(nil, storeC)[:20], 0xc1)}
		}, CauseUndecodable, -1, Exact},
		{"5.3.4 another rank", PoolEngineLocal, func(n uint64) [][]byte { return [][]byte{[]byte("t"), be(n), payload(1, storeC)} }, CauseRank, -1, Fenced},
		{"5.3.4 a rank beyond all", PoolDurable, func(n uint64) [][]byte { return [][]byte{[]byte("t"), be(n), payload(1000, storeC)} }, CauseRank, -1, Exact},
		{"5.3.4 an event of too many blocks", PoolDurable, func(n uint64) [][]byte {
			return [][]byte{[]byte("t"), be(n), payload(nil, storeC, remove(long))}
		}, CauseTooBig, -1, Exact},
		{"5.3.4 a message of more than 8 MiB", PoolDurable, func(n uint64) [][]byte {
			return [][]byte{[]byte("t"), be(n), make([]byte, maxAttachedMessage+1)}
		}, CauseTooBig, -1, Exact},
		{"5.2.3 gap, engine-local", PoolEngineLocal, func(n uint64) [][]byte { return [][]byte{[]byte("t"), be(n + 1), good} }, CauseGap, int(FaultSource), Fenced},
		{"5.2.3 regression, engine-local", PoolEngineLocal, func(n uint64) [][]byte { return [][]byte{[]byte("t"), be(0), good} }, CauseRegression, int(FaultSource), Fenced},
		{"5.2.3 the same sequence again, engine-local", PoolEngineLocal, func(n uint64) [][]byte { return [][]byte{[]byte("t"), be(n - 1), good} }, CauseRegression, int(FaultSource), Fenced},
		{"5.3.1 exhausted cursor", PoolDurable, func(n uint64) [][]byte { return [][]byte{[]byte("t"), be(1<<64 - 1), good} }, CauseExhausted, int(FaultSource), Fenced},
		{"5.3.1 an owner nobody knows", PoolDurable, func(n uint64) [][]byte {
			return [][]byte{[]byte("t"), be(n), payload(nil, storeC, store([]uint64{7}, nil, span(41, 44), 4, "ownership", "other"))}
		}, CauseOwnership, int(FaultSource), Fenced},
		{"5.3.2 kvcr on the device", PoolDurable, func(n uint64) [][]byte {
			return [][]byte{[]byte("t"), be(n), payload(nil, storeC, store([]uint64{7}, nil, span(41, 44), 4, "ownership", "kvcr"))}
		}, CauseOwnerTier, int(FaultCacheOwner), Fenced},
		{"5.3.2 kvcr remove on shared storage", PoolEngineLocal, func(n uint64) [][]byte {
			return [][]byte{[]byte("t"), be(n), payload(nil, storeC, remove([]uint64{7}, "medium", "EXTERNAL", "ownership", "kvcr"))}
		}, CauseOwnerTier, int(FaultCacheOwner), Fenced},
		{"5.3.2 kvcr of another block size", PoolDurable, func(n uint64) [][]byte {
			return [][]byte{[]byte("t"), be(n), payload(nil, storeC, store([]uint64{7}, nil, span(41, 48), 8, "medium", "CPU", "ownership", "kvcr"))}
		}, CauseOwnerGeometry, int(FaultCacheOwner), Fenced},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			f, faults := r.attachedFeed(Options{Pool: c.pool, Attached: &Attached{BlockSize: 4}})
			f.live(0, storeAB, pool(201, 1))
			f.live(1, remove([]uint64{999}))
			f.wait(1)
			f.raw(c.frames(2)...)
			f.raw([]byte("t"), be(3), payload(nil, storeC))
			end := f.over()
			if end.Cause != c.cause {
				t.Fatalf("ended for %q, want %q: %v", end.Cause, c.cause, end)
			}
			select {
			case got := <-faults:
				if int(got) != c.fault {
					t.Fatalf("fault %d, want %d", got, c.fault)
				}
			default:
				if c.fault >= 0 {
					t.Fatal("no fault was reported")
				}
			}
			<-f.port.Done()
			f.state(Worker, Fenced, c.cause)
			if st := f.now(CacheOwner); st.State != c.owner {
				t.Fatalf("the cache owner is %v, want %v", st.State, c.owner)
			}
			r.expect(0, Worker, query{tokens: span(1, 12)}, 2, 2) // what was there: the slot clears it
		})
	}
}

// TestAttachedLoss holds what a durable slot makes of a loss: by default both
// domains are emptied, with KeepOwner the pool stays and is advisory; the batch
// itself is applied, and what is missing counted.
func TestAttachedLoss(t *testing.T) {
	for _, c := range []struct {
		name    string
		keep    bool
		seq     uint64
		missing uint64
		cause   Cause
	}{
		{"5.2.3 gap, clear", false, 7, 1, CauseGap},
		{"5.2.3 gap, keep", true, 7, 1, CauseGap},
		{"5.2.3 regression, clear", false, 2, 1, CauseRegression},
		{"5.2.3 the same again, clear", false, 5, 1, CauseRegression},
		{"5.2.3 regression, keep", true, 2, 1, CauseRegression},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			f, _ := r.attachedFeed(Options{Pool: PoolDurable, Attached: &Attached{KeepOwner: c.keep}})
			f.live(0, storeAB)
			f.live(1, pool(201, 1))
			for n := range uint64(4) {
				f.live(2 + n)
			}
			f.wait(5)
			f.state(CacheOwner, Exact, "")
			f.live(c.seq, storeX, pool(202, 21))
			f.live(c.seq+1, remove([]uint64{999}))
			await(t, f, c.seq+1)
			f.state(Worker, Degraded, c.cause)
			f.state(CacheOwner, Degraded, c.cause)
			r.device(span(1, 8), 0)
			r.device(span(21, 24), 1)
			kept := uint32(0)
			if c.keep {
				kept = 1
			}
			r.expect(0, CacheOwner, query{tokens: span(1, 4)}, 0, kept)
			r.expect(0, CacheOwner, query{tokens: span(21, 24)}, 0, 1)
			if got := f.now(CacheOwner).Advisory; got != c.keep {
				t.Fatalf("advisory %v, want %v", got, c.keep)
			}
			if f.now(Worker).Advisory {
				t.Fatal("the worker domain is advisory; only a pool may be")
			}
			if n := f.counted("missing_batches", ""); n != c.missing {
				t.Fatalf("%d batches counted as missing, want %d", n, c.missing)
			}
			// The owner says what it has by clearing: exact, and no advice any more.
			f.live(c.seq+2, clearAll("ownership", "kvcr"), pool(203, 31))
			await(t, f, c.seq+2)
			f.state(CacheOwner, Exact, "")
			if f.now(CacheOwner).Advisory {
				t.Fatal("still advisory after the owner has cleared")
			}
			r.expect(0, CacheOwner, query{tokens: span(1, 4)}, 0, 0)
		})
	}
}

// await waits for a batch whose sequence may have come before: for the last one
// that was received, and that it is applied.
func await(t *testing.T, f *feed, n uint64) {
	t.Helper()
	for f.lastSeq.Load() != n || f.port.Applied().Seq != n {
		if f.rig.ctx.Err() != nil {
			t.Fatalf("batch %d was never applied\n%s", n, f.dump())
		}
	}
}

// TestAttachedRetained holds what an attachment makes of a pool that was there
// before it: it is shown from the first moment, as advice, until it is cleared.
func TestAttachedRetained(t *testing.T) {
	r := newRig(t, 0)
	h, _, err := r.Holder(0, CacheOwner)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := r.attachedFeed(Options{Pool: PoolDurable, Attached: &Attached{Retained: true}})
	f.state(Worker, Connecting, "")
	f.state(CacheOwner, Degraded, CauseRestart)
	if !f.now(CacheOwner).Advisory {
		t.Fatal("a retained pool is not advisory")
	}
	f.live(0, storeAB, pool(201, 1))
	f.wait(0)
	f.state(Worker, Exact, "")
	f.state(CacheOwner, Degraded, CauseRestart)
	if before := f.Status(CacheOwner, shard.Position{}); before.State != Degraded || !before.Advisory {
		t.Fatalf("short of the first batch the pool is %v, advisory %v", before.State, before.Advisory)
	}
	f.live(1, clearAll("ownership", "kvcr"))
	f.wait(1)
	f.state(CacheOwner, Exact, "")
	if r.holders[key{0, CacheOwner}] != h {
		t.Fatal("the pool has another holder")
	}
}

// TestAttachedRetainedLate: the same where the first batch heard is not the first
// there was, and where more is lost.
func TestAttachedRetainedLate(t *testing.T) {
	for _, keep := range []bool{false, true} {
		r := newRig(t, 0)
		f, _ := r.attachedFeed(Options{Pool: PoolDurable, Attached: &Attached{Retained: true, KeepOwner: keep}})
		f.live(7, storeAB)
		f.wait(7)
		f.state(CacheOwner, Degraded, CauseLateJoin)
		for _, at := range []shard.Position{{}, f.port.Applied()} {
			if st := f.Status(CacheOwner, at); st.State != Degraded || !st.Advisory {
				t.Fatalf("at %+v the pool is %v, advisory %v", at, st.State, st.Advisory)
			}
		}
		f.live(9, storeC)
		f.wait(9)
		if st := f.now(CacheOwner); st.State != Degraded || st.Cause != CauseGap || st.Advisory != keep {
			t.Fatalf("behind a gap the pool is %v, advisory %v", st.State, st.Advisory)
		}
	}
}

// TestAttachedFirst holds both ways to take a first sequence above the start.
func TestAttachedFirst(t *testing.T) {
	t.Run("5.2.1 any first sequence", func(t *testing.T) {
		r := newRig(t, 0)
		f, _ := r.attachedFeed(Options{Pool: PoolEngineLocal})
		f.live(7, storeAB)
		f.wait(7)
		f.state(Worker, Degraded, CauseLateJoin)
		r.device(span(1, 8), 2)
	})
	t.Run("5.2.2 the first must be at the start", func(t *testing.T) {
		r := newRig(t, 0)
		f, faults := r.attachedFeed(Options{Pool: PoolEngineLocal, Attached: &Attached{FirstAtStart: true}})
		f.live(7, storeAB)
		if end := f.over(); end.Cause != CauseGap {
			t.Fatal(end)
		}
		if got := <-faults; got != FaultSource {
			t.Fatal(got)
		}
	})
}

// TestNothingOfALongBatchAtFault holds that a batch longer than the ring, which
// is published in pieces, is looked through first: what is wrong with its last
// event takes out its first.
func TestNothingOfALongBatchAtFault(t *testing.T) {
	bad := store([]uint64{7}, nil, span(41, 44), 4, "ownership", "kvcr")
	var events [][]byte
	for n := range uint64(64) {
		events = append(events, chain(n))
	}
	r := &rig{t: t, index: model.New(), shards: 1, cap: DefaultMaxRanks,
		holders: map[key]tree.Holder{}, roots: map[[2]int]tree.Root{}, sizes: map[key][2]int{}}
	r.start(r.index, 512)
	f, _ := r.attachedFeed(Options{Pool: PoolDurable})
	f.live(0, storeAB)
	f.wait(0)
	f.live(1, append(events, bad)...)
	if end := f.over(); end.Cause != CauseOwnerTier {
		t.Fatal(end)
	}
	<-f.port.Done()
	r.device(span(1, 8), 2)
	if n := f.port.Counters().Records; n != 1 {
		t.Fatalf("%d records were applied, 1 was good", n)
	}
}

func TestAttachedWantsWhoHears(t *testing.T) {
	o := Options{Attached: &Attached{}, Pool: PoolDurable, Port: &shard.Port{}, Learned: &Learned{}, Owner: &rig{}}
	if o.check() == nil {
		t.Error("attached without Fault was taken")
	}
	o.Attached.Fault, o.Pool = func(Fault, Cause) {}, PoolNone
	if o.check() == nil {
		t.Error("attached without a pool was taken")
	}
}
