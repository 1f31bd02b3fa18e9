package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/tree/shard"
)

// replays gives each of a guest's publishers an archive, before it registers.
func (g *guest) replays() []*archive {
	var all []*archive
	for _, p := range g.shards {
		a := newArchive(g.rig.t)
		p.keep = a.keep
		all = append(all, a)
		g.intent.Replays = append(g.intent.Replays, a.Addr())
	}
	return all
}

// unready demands that a slot is attached, neither schedulable nor hint ready,
// for a repair.
func (g *guest) unready(when string) {
	g.rig.t.Helper()
	rt := g.rig.route(g.intent.Owner)
	if rt.State != residency.Attached || rt.Outcome != residency.RecoveryBehindBarrier || rt.Schedulable || rt.HintReady {
		g.rig.t.Fatalf("%s: %+v", when, rt)
	}
}

func (g *guest) repairing() {
	g.rig.t.Helper()
	await(g.rig.t, "the repair to begin", func() bool {
		return g.rig.route(g.intent.Owner).Outcome == residency.RecoveryBehindBarrier
	})
}

func (g *guest) ready() {
	g.rig.t.Helper()
	await(g.rig.t, "the slot to be ready", func() bool {
		rt := g.rig.route(g.intent.Owner)
		return rt.Outcome == residency.Ready && rt.Schedulable && rt.HintReady
	})
}

// everywhere is the store of the chain's first n blocks in both domains.
func everywhere(n int) []event {
	return []event{store(n, "GPU", ""), store(n, "CPU", "kvcr")}
}

// nowhere is the removal of blocks from both.
func nowhere(names ...uint64) []event {
	return []event{remove("GPU", "", names...), remove("CPU", "kvcr", names...)}
}

// TestRepairBeforeRetire holds §9.2 for slots of both lifetimes, with one stream
// and with one for every TP shard: frozen, replayed, merged, ready behind the
// barrier and not before, watched by readers at full speed.
func TestRepairBeforeRetire(t *testing.T) {
	for _, protocol := range []residency.Protocol{residency.HiCacheV1, residency.VLLMResidencyV1} {
		for tp := 1; tp <= 2; tp++ {
			t.Run(fmt.Sprintf("9.2 %s, TP %d", protocol, tp), func(t *testing.T) {
				r := newOwnerRig(t, 4, Options{Owners: OwnerOptions{OnGap: RepairOnGap}, Repair: RepairOptions{ProbeAfter: -1}})
				g := r.guest(17, owner(1), protocol, tp, dialects[1])
				archives := g.replays()
				g.register()
				other := r.guest(18, owner(2), protocol, tp, dialects[1]).register()
				full := string(g.intent.Owner) + "/0 cache_owner depth 4"
				g.say(store(4, "CPU", "kvcr"))
				if got := other.hint(); got != full {
					t.Fatal(got)
				}
				g.say(store(4, "GPU", ""))
				// In phase 1 nothing of the guest may be answered from; after it, no
				// more than what is left of its blocks.
				stop := r.readers(2, func(a *Answer, phase int32) string {
					for d, name := range [2]string{g.name(), string(g.intent.Owner)} {
						got, flagged, f, _ := in(a, name, Domain(d))
						switch {
						case phase == 1 && r.phase.Load() == 1 && (got.Any > 0 || !flagged || f.State != Repairing):
							return fmt.Sprintf("%s: %+v, %v, while it is repaired", Domain(d), got, f.State)
						case phase == 2 && got.Any > 192:
							return fmt.Sprintf("%s: %+v of which the replay removes a block", Domain(d), got)
						}
					}
					return ""
				})
				late, open := g.shards[tp-1], archives[tp-1].hold()
				late.lose(nowhere(chainNames[3])...)
				late.send(nowhere(99)...)
				g.repairing()
				g.unready("a gap")
				r.phase.Store(1)
				if got := other.hint(); got != "no_longer_source" {
					t.Errorf("while it is repaired: %s", got)
				}
				if g.worker() != (Depths{}) || g.pool() != (Depths{}) {
					t.Errorf("worker %+v, pool %+v", g.worker(), g.pool())
				}

				release := sync.OnceFunc(r.halt())
				defer release()
				open()
				last := shard.Position{Seq: late.next - 1, Any: true}
				await(t, "all to have come", func() bool {
					return g.feeds()[tp-1].stream.Status(ingest.CacheOwner, last).State == ingest.Exact
				})
				g.unready("repaired, and not applied")
				r.phase.Store(2)
				release()
				g.ready()
				if rest := fmt.Sprint(g.intent.Owner, "/0 cache_owner depth 3"); other.hint() != rest {
					t.Errorf("after the repair: %s", other.hint())
				}
				if got := g.worker(); got.Device != 192 {
					t.Errorf("worker %+v", got)
				}
				stop()
				r.phase.Store(3)
				g.say(everywhere(4)...)
				await(t, "it to go on", func() bool { return other.hint() == full })
			})
		}
	}
}

// TestRepairBehindARepair: the end of one repair, which waits to be applied, must
// not make a slot ready of which the next one has begun.
func TestRepairBehindARepair(t *testing.T) {
	r := newOwnerRig(t, 2, Options{Owners: OwnerOptions{OnGap: RepairOnGap}, Repair: RepairOptions{ProbeAfter: -1}})
	g := r.guest(17, owner(1), residency.HiCacheV1, 1, dialects[1])
	a := g.replays()[0]
	g.register()
	g.say(everywhere(4)...)
	release := sync.OnceFunc(r.halt())
	defer release()
	p, f := g.shards[0], g.feeds()[0]
	p.lose(nowhere(chainNames[3])...)
	first := shard.Position{Seq: p.send(nowhere(99)...), Any: true}
	g.repairing() // until it is applied
	await(t, "the first to have come", func() bool { return f.stream.Status(ingest.Worker, first).State == ingest.Exact })
	open := a.hold()
	defer open()
	p.lose(nowhere(chainNames[2])...)
	p.send(nowhere(99)...)
	await(t, "the second to begin", func() bool { return f.stream.Status(ingest.Worker, first).State == ingest.Repairing })
	release()
	if err := f.wait(patience(t), first.Seq); err != nil {
		t.Fatal(err)
	}
	for range 50 { // who waited for the first has its time
		g.unready("the first is applied, the second under way")
		time.Sleep(time.Millisecond)
	}
	open()
	g.ready()
	if w := g.worker(); w.Device != 128 {
		t.Errorf("worker %+v", w)
	}
}

// TestRetire holds when nothing is repaired, or not with success: an engine-local
// slot is fenced, for a durable one it is a loss.
func TestRetire(t *testing.T) {
	repair := Options{Owners: OwnerOptions{OnGap: RepairOnGap}, Repair: RepairOptions{ProbeAfter: -1}}
	for _, protocol := range []residency.Protocol{residency.HiCacheV1, residency.VLLMResidencyV1} {
		for _, c := range []struct {
			name    string
			options Options
			replay  bool
			wrong   func(p *publisher)
			cause   string
		}{
			{"on_gap retire", Options{}, true, func(p *publisher) { p.lose(event{clear: true}) }, "gap"},
			{"no replay endpoint", repair, false, func(p *publisher) { p.next++ }, "gap"},
			{"history lost", repair, true, func(p *publisher) { p.next++ }, "gap"},
			{"a regression", repair, true, func(p *publisher) { p.next-- }, "regression"},
		} {
			t.Run(fmt.Sprintf("9.2 %s, %s", protocol, c.name), func(t *testing.T) {
				r := newOwnerRig(t, 2, c.options)
				g := r.guest(17, owner(1), protocol, 1, dialects[1])
				if c.replay {
					g.replays()
				}
				g.register()
				g.say(everywhere(4)...)
				c.wrong(g.shards[0])
				g.shards[0].send(everywhere(1)...)
				if protocol.EngineLocal() {
					await(t, "the fence", func() bool { return r.route(g.intent.Owner).State == residency.Fenced })
					if f := freshnessOf(t, r.Engine, g.name(), 0, hint.Worker); f.State != Fenced || f.Cause != c.cause {
						t.Errorf("%+v", f)
					}
					if g.worker() != (Depths{}) || g.pool() != (Depths{}) {
						t.Errorf("worker %+v, pool %+v", g.worker(), g.pool())
					}
					return
				}
				await(t, "the loss", func() bool {
					f := freshnessOf(t, r.Engine, string(g.intent.Owner), 0, hint.CacheOwner)
					return f.State == Degraded && f.Cause == c.cause && g.pool().Host == blockTokens
				})
				g.ready() // degraded, as without a repair
			})
		}
	}
}

// givenState gives one snapshot to whoever asks.
type givenState ingest.Snapshot

func (s *givenState) Snapshot(context.Context) (*ingest.Snapshot, error) {
	return (*ingest.Snapshot)(s), nil
}

// TestRepairBySnapshot: what the replay has no more is had by a snapshot, which
// is asked for by the worker's id.
func TestRepairBySnapshot(t *testing.T) {
	d := dialects[1]
	state := &givenState{Watermark: 3, Batches: [][]byte{payloadOf(d, everywhere(2)...)}}
	r := newOwnerRig(t, 2, Options{Owners: OwnerOptions{OnGap: RepairOnGap}, Repair: RepairOptions{ProbeAfter: -1,
		Snapshot: func(source string, rank, tp int) ingest.Snapshotter {
			if source != "17" || rank != 0 || tp != 0 {
				return nil
			}
			return state
		}}})
	g := r.guest(17, owner(1), residency.HiCacheV1, 1, d)
	g.replays()
	g.register()
	g.say(everywhere(4)...)
	g.shards[0].next = 4 // 1 … 3 are lost
	g.say(nowhere(chainNames[1])...)
	g.ready()
	if w, p := g.worker(), g.pool(); w.Device != 64 || p.Host != 64 {
		t.Errorf("worker %+v, pool %+v; want 64 tokens each", w, p)
	}
}

// TestDetachDuringARepair: what a repair was to bring is lost for good when its
// worker goes, and a durable pool is worth what on_loss says.
func TestDetachDuringARepair(t *testing.T) {
	for _, c := range []struct {
		onLoss OnLoss
		pool   int // tokens
	}{{ClearOnLoss, 0}, {KeepOnLoss, 256}} {
		t.Run("9.2 durable, on_loss "+c.onLoss.String(), func(t *testing.T) {
			r := newOwnerRig(t, 4, Options{Owners: OwnerOptions{OnGap: RepairOnGap, OnLoss: c.onLoss}, Repair: RepairOptions{ProbeAfter: -1}})
			g := r.guest(17, owner(1), residency.VLLMResidencyV1, 1, dialects[1])
			open := g.replays()[0].hold()
			t.Cleanup(open)
			g.register()
			other := r.guest(18, owner(2), residency.VLLMResidencyV1, 1, dialects[1]).register()
			g.say(everywhere(4)...)
			g.shards[0].lose(nowhere(chainNames[1])...)
			g.shards[0].send(nowhere(99)...)
			g.repairing()
			g.release()
			if rt := r.route(g.intent.Owner); rt.State != residency.Detached || rt.HintReady != (c.onLoss == ClearOnLoss) {
				t.Errorf("%+v", rt)
			}
			if got := other.hint(); got != "no_longer_source" {
				t.Errorf("a hint of a pool that lacks what is known to be missing: %s", got)
			}
			if got := g.pool(); got.Host != c.pool {
				t.Errorf("pool %+v, want %d tokens", got, c.pool)
			}
			// It recovers with its next worker.
			next := r.guest(19, owner(1), residency.VLLMResidencyV1, 1, dialects[1]).register()
			next.say(event{clear: true}, store(3, "CPU", "kvcr"))
			next.ready()
			if got := next.pool(); got.Host != max(192, c.pool) {
				t.Errorf("pool %+v", got)
			}
		})
	}
}
