package engine

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/tree"
)

// chainFrom is the store of the chain's blocks from … to-1.
func chainFrom(from, to int, medium, owner string) event {
	e := event{names: chainNames[from:to], tokens: count(uint32(from*blockTokens+1), uint32(to*blockTokens)), medium: medium, owner: owner}
	if from > 0 {
		e.parent, e.hasParent = chainNames[from-1], true
	}
	return e
}

// halt keeps a slot's writer from applying anything but control that was asked
// for before it is let go: what is published meanwhile lies in the rings.
func (r *ownerRig) halt() (release func()) {
	r.t.Helper()
	halted, open := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- r.shards[0].writer.Do(patience(r.t), func(tree.Writer) {
			close(halted)
			<-open
		})
	}()
	<-halted
	return func() {
		r.t.Helper()
		close(open)
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	}
}

// awaitsWriter waits until a function has asked something of a shard's writer
// that is halted. Nothing but its stack tells.
func awaitsWriter(t testing.TB, name string) {
	t.Helper()
	buf := make([]byte, 1<<20)
	await(t, name+" to wait for the writer", func() bool {
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			head, _, _ := strings.Cut(g, "\n")
			if strings.Contains(head, "[select") && strings.Contains(g, "shard.(*Shard).Do(") && strings.Contains(g, name) {
				return true
			}
		}
		return false
	})
}

// received waits until a guest's streams have taken everything that was sent.
func (g *guest) received() {
	g.rig.t.Helper()
	await(g.rig.t, "all to be received", func() bool {
		for i, f := range g.feeds() {
			if in := f.stream.Status(0, f.applied()); !in.Received || in.Seq != g.shards[i].next-1 {
				return false
			}
		}
		return true
	})
}

// feeds are the streams of the guest's attachment.
func (g *guest) feeds() []*feed {
	g.rig.owners.mu.Lock()
	defer g.rig.owners.mu.Unlock()
	for _, s := range g.rig.owners.slots {
		if s.Owner == g.intent.Owner && s.attached != nil {
			return s.attached.source.feeds
		}
	}
	return nil
}

// TestPostGap holds what becomes of a batch behind a gap, and of those behind
// it, watched by readers at full speed.
func TestPostGap(t *testing.T) {
	for _, c := range []struct {
		name     string
		protocol residency.Protocol
		onLoss   OnLoss
	}{
		{"R3 engine-local: fenced", residency.HiCacheV1, ClearOnLoss},
		{"R3 engine-local: fenced, whatever on_loss says", residency.HiCacheV1, KeepOnLoss},
		{"R3 durable, on_loss clear: applied, one drop counted", residency.VLLMResidencyV1, ClearOnLoss},
		{"R3 durable, on_loss keep: applied, one drop counted", residency.VLLMResidencyV1, KeepOnLoss},
	} {
		t.Run(c.name, func(t *testing.T) {
			local := c.protocol.EngineLocal()
			r := newOwnerRig(t, 4, Options{Owners: OwnerOptions{OnLoss: c.onLoss}})
			g := r.guest(17, owner(1), c.protocol, 1, dialects[1]).register()
			other := r.guest(18, owner(2), c.protocol, 1, dialects[1]).register()
			other.say(event{clear: true})
			var fenced atomic.Int64
			stop := r.readers(2, func(a *Answer, phase int32) string {
				for d, name := range [2]string{g.name(), string(g.intent.Owner)} {
					got, flagged, f, _ := in(a, name, Domain(d))
					switch {
					case local && got.Any > 128:
						return fmt.Sprintf("%s: %+v of the batch behind the gap", Domain(d), got)
					case flagged && f.State == Fenced:
						fenced.Add(1)
					case local && phase == 1 && got.Any > 0:
						return fmt.Sprintf("%s: %+v after the fence", Domain(d), got)
					}
				}
				return ""
			})
			g.say(chainFrom(0, 1, "GPU", ""), chainFrom(0, 1, "CPU", "kvcr"))
			g.say(chainFrom(1, 2, "GPU", ""), chainFrom(1, 2, "CPU", "kvcr"))
			p := g.shards[0]
			p.next++ // 2 is lost
			p.send(chainFrom(2, 4, "GPU", ""), chainFrom(2, 4, "CPU", "kvcr"))
			if local {
				await(t, "the fence", func() bool { return r.route(g.intent.Owner).State == residency.Fenced })
				r.phase.Store(1)
				p.send(chainFrom(0, 4, "GPU", ""), chainFrom(0, 4, "CPU", "kvcr")) // ignored
				if err := p.pub.WaitGone(patience(t)); err != nil {
					t.Fatal(err)
				}
				await(t, "readers to see it", func() bool { return fenced.Load() > 100 })
				stop()
				if g.worker() != (Depths{}) || g.pool() != (Depths{}) {
					t.Fatalf("worker %+v, pool %+v", g.worker(), g.pool())
				}
				if got := other.hint(); got != "no_longer_source" {
					t.Fatal(got)
				}
				if f := freshnessOf(t, r.Engine, g.name(), 0, hint.Worker); f.State != Fenced || f.Cause != "gap" {
					t.Fatalf("%+v", f)
				}
				return
			}
			if err := r.WaitApplied(patience(t), g.name(), 0, 3); err != nil {
				t.Fatal(err)
			}
			stop()
			// Of the worker's chain the beginning was emptied, so the rest waits.
			g.say(chainFrom(0, 2, "GPU", ""))
			if got := g.worker(); got.Device != 256 {
				t.Fatalf("batch 3 was not applied: %+v", got)
			}
			pool, f := g.pool(), freshnessOf(t, r.Engine, string(g.intent.Owner), 0, hint.CacheOwner)
			if f.State != Degraded || f.Cause != "gap" || f.Advisory != (c.onLoss == KeepOnLoss) {
				t.Fatalf("%+v", f)
			}
			want, hinted := 0, "no_longer_source"
			if c.onLoss == KeepOnLoss {
				want, hinted = 256, string(g.intent.Owner)+"/0 cache_owner depth 4"
			}
			if pool.Host != want {
				t.Fatalf("the pool has %+v", pool)
			}
			if got := other.hint(); got != hinted {
				t.Fatalf("hint: %s, want %s", got, hinted)
			}
			for _, s := range r.Sources() {
				for _, n := range s.Streams[0].Counters {
					if s.ID == g.name() && n.Name == "missing_batches" && n.Value != 1 {
						t.Fatalf("%d drops counted", n.Value)
					}
				}
			}
		})
	}
}

// TestFenceAtOnce holds that a fence needs nobody's turn: records that lie in the
// ring when it comes are never applied, those of sibling shards included.
func TestFenceAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  func(g *guest)
	}{
		{"gap", func(g *guest) { g.shards[0].next++; g.shards[0].send(event{clear: true}) }},
		{"source fault in the last event", func(g *guest) {
			g.shards[0].send(chainFrom(0, 4, "GPU", ""), event{names: []uint64{7}, tokens: count(1, 64), medium: "GPU", owner: "nobody"})
		}},
	} {
		for _, tp := range []int{1, 2} {
			t.Run(fmt.Sprintf("5.3.1 fence at once: %s, tp%d", c.name, tp), func(t *testing.T) {
				r := newOwnerRig(t, 2, Options{})
				g := r.guest(17, owner(1), residency.HiCacheV1, tp, dialects[1]).register()
				g.say(event{clear: true})
				stop := r.readers(2, func(a *Answer, _ int32) string {
					for d, name := range [2]string{g.name(), string(g.intent.Owner)} {
						if got, _, _, _ := in(a, name, Domain(d)); got != (Depths{}) {
							return fmt.Sprintf("%s: %+v", Domain(d), got)
						}
					}
					return ""
				})
				release := r.halt()
				const batches = 20
				for range batches {
					for _, p := range g.shards {
						p.send(chainFrom(0, 4, "GPU", ""), chainFrom(0, 4, "CPU", "kvcr"))
					}
				}
				g.received()
				feeds := g.feeds()
				c.bad(g)
				awaitsWriter(t, "(*plane).Fence")
				if r.route(g.intent.Owner).State != residency.Fenced {
					t.Fatal("the index is fenced before readers were told")
				}
				release()
				for _, f := range feeds {
					select {
					case <-f.port.Done():
					case <-patience(t).Done():
						t.Fatal("a ring was not drained")
					}
					if got := f.port.Counters(); got.Stale != 2*batches || got.Blocks.New > 0 {
						t.Errorf("shard %d: %d records void, want %d; %d blocks were stored", f.tp, got.Stale, 2*batches, got.Blocks.New)
					}
				}
				stop()
			})
		}
	}
}

// TestHolderAfterFence holds that a stream which asks for its holder only after
// its slot was fenced gets the generation of its attachment, which is void, and
// not the one that the fence began.
func TestHolderAfterFence(t *testing.T) {
	t.Run("R12 a holder that is asked for late", func(t *testing.T) {
		r := newOwnerRig(t, 1, Options{})
		g := r.guest(17, owner(1), residency.HiCacheV1, 2, dialects[1]).register()
		rt := r.route(g.intent.Owner)
		r.owners.mu.Lock()
		a := r.owners.slots[rt.Slot].attached
		r.owners.mu.Unlock()
		if !r.Residency().Fault(rt.Slot, rt.Generation, residency.FaultSource, "test") {
			t.Fatal("the fault was not taken")
		}
		for d, h := range a.slot.holders {
			got, generation, err := a.Holder(0, ingest.Domain(d))
			if err != nil || got != h || generation >= r.shards[0].writer.Generation(h) {
				t.Errorf("domain %d: holder %d of generation %d, the index is at %d: %v", d, got, generation, r.shards[0].writer.Generation(h), err)
			}
			if _, _, err := a.Holder(1, ingest.Domain(d)); err == nil {
				t.Error("it has a holder for another rank")
			}
		}
	})
}

// TestStaleGenerations holds that what was received before a detach and lies in
// the ring is not the next generation's, nor visible in between.
func TestStaleGenerations(t *testing.T) {
	for _, p := range []residency.Protocol{residency.HiCacheV1, residency.VLLMResidencyV1} {
		t.Run("R12 stale generation, "+p.String(), func(t *testing.T) {
			r := newOwnerRig(t, 2, Options{})
			g := r.guest(17, owner(1), p, 1, dialects[1]).register()
			g.say(event{clear: true})
			stop := r.readers(2, func(a *Answer, _ int32) string {
				if got, _, _, _ := in(a, g.name(), hint.Worker); got != (Depths{}) {
					return fmt.Sprintf("the worker has %+v", got)
				}
				if got, _, _, _ := in(a, string(g.intent.Owner), hint.CacheOwner); p.EngineLocal() && got != (Depths{}) {
					return fmt.Sprintf("the pool has %+v", got)
				}
				return ""
			})
			release := r.halt()
			g.shards[0].send(chainFrom(0, 4, "GPU", ""), chainFrom(0, 4, "CPU", "kvcr"))
			g.received()
			f := g.feeds()[0]
			done := make(chan error, 1)
			go func() { done <- r.Residency().Release(patience(t), g.lease()) }()
			// Its stop waits for the writer, which we hold; what it asks of it comes
			// before what lies in the ring.
			awaitsWriter(t, "(*plane).Stop")
			if r.route(g.intent.Owner).Live {
				t.Fatal("it is stopped while it is routed")
			}
			release()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			<-f.port.Done()
			stale := uint64(1) // a durable owner's own is heard
			if p.EngineLocal() {
				stale = 2
			}
			if got := f.port.Counters().Stale; got != stale {
				t.Fatalf("%d records void, want %d", got, stale)
			}
			if got := r.pool(g.intent.Owner).Host; (got == 256) == p.EngineLocal() {
				t.Fatalf("the pool has %d tokens", got)
			}
			again := r.guest(18, owner(1), p, 1, dialects[1]).register()
			again.say(event{remove: true, names: []uint64{1}, medium: "GPU"})
			if got := again.worker(); got != (Depths{}) {
				t.Fatalf("the next generation has %+v", got)
			}
			stop()
		})
	}
}
