package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
)

// TestIndependentEviction plays both cases of the acceptance scenarios with
// owners that attach at run time.
func TestIndependentEviction(t *testing.T) {
	for _, tp := range []int{1, 2} {
		for _, keep := range []string{"F", "K"} {
			t.Run(fmt.Sprintf("R10 independent eviction: %s, TP%d", keep, tp), func(t *testing.T) {
				r := newOwnerRig(t, 2, Options{})
				source := r.guest(1, owner(1), residency.HiCacheV1, tp, dialects[0]).register()
				target := r.guest(2, owner(2), residency.HiCacheV1, tp, dialects[0]).register()
				target.say(event{clear: true})
				source.say(store(4, "GPU", ""), store(4, "CPU_PINNED", ""), store(4, "CPU", "kvcr"))
				worker, pool, want := Depths{Device: 256, Host: 256, Any: 256}, Depths{}, "ineligible{state_agent}"
				if keep == "F" {
					source.say(remove("CPU", "kvcr", chainNames...))
				} else {
					source.say(remove("GPU", "", chainNames...), remove("CPU_PINNED", "", chainNames...))
					worker, pool = Depths{}, Depths{Host: 256, Any: 256, HostExtension: 256}
					want = string(owner(1)) + "/0 cache_owner depth 4"
				}
				if source.worker() != worker || source.pool() != pool {
					t.Fatalf("worker %+v, pool %+v", source.worker(), source.pool())
				}
				if got := target.hint(); got != want {
					t.Fatalf("got %s, want %s", got, want)
				}
				var a Answer
				if err := r.Match(prompt(), &a); err != nil {
					t.Fatal(err)
				}
				for _, h := range a.Holders { // the pool's blocks count for its worker
					if h.Domain == hint.CacheOwner && h.AttachedTo != "1" {
						t.Errorf("projected on %q", h.AttachedTo)
					}
				}
			})
		}
	}
}

// TestShardSkew lets two shards of one slot store and remove at full speed, each
// in its own time, blocks of which only the first two can be on both.
func TestShardSkew(t *testing.T) {
	t.Run("R14 shard skew", func(t *testing.T) {
		r := newOwnerRig(t, 1, Options{})
		g := r.guest(17, owner(1), residency.HiCacheV1, 2, dialects[1]).register()
		var deepest atomic.Int64
		stop := r.readers(2, func(a *Answer, _ int32) string {
			for d, name := range [2]string{g.name(), string(g.intent.Owner)} {
				got, _, _, _ := in(a, name, Domain(d))
				if got.Any > 128 {
					return fmt.Sprintf("%s: %+v, a block of one shard alone", Domain(d), got)
				}
				deepest.Store(max(deepest.Load(), int64(got.Any)))
			}
			return ""
		})
		var wg sync.WaitGroup
		for shard, p := range g.shards {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(14, uint64(shard)))
				for range 400 {
					from := rnd.IntN(2)
					for _, at := range []struct{ medium, owner string }{{"GPU", ""}, {"CPU", "kvcr"}} {
						if rnd.IntN(3) == 0 {
							p.send(remove(at.medium, at.owner, chainNames[from]))
						}
						if shard == 0 { // 0, 1, 2; the other 0, 1 and never 2
							p.send(chainFrom(0, 3, at.medium, at.owner))
						} else {
							p.send(chainFrom(0, 2, at.medium, at.owner))
						}
					}
				}
			})
		}
		wg.Wait()
		g.say(event{remove: true, names: []uint64{1}, medium: "GPU"})
		stop()
		if got := g.pool(); got.Host != 128 || deepest.Load() != 128 {
			t.Fatalf("pool %+v; the deepest answer had %d tokens", got, deepest.Load())
		}
	})
}

// TestReattach watches, by readers at full speed, a source whose worker goes and
// comes back as another one with other hint metadata.
func TestReattach(t *testing.T) {
	for _, p := range []residency.Protocol{residency.HiCacheV1, residency.VLLMResidencyV1} {
		t.Run("6.7 reattach shows no stale hint, "+p.String(), func(t *testing.T) {
			r := newOwnerRig(t, 2, Options{})
			source := r.guest(17, owner(1), p, 1, dialects[1]).register()
			target := r.guest(18, owner(2), p, 1, dialects[1]).register()
			target.say(event{clear: true})
			source.say(store(4, "GPU", ""), store(4, "CPU", "kvcr"))

			// What a call may say that began in a phase: the endpoint before, or
			// the one after.
			next := r.guest(19, owner(1), p, 1, dialects[1])
			var phase atomic.Int32 // 0 attached, 1 detached, 2 attached anew, 3 in between
			endpoint := [4]string{source.intent.Hint.ControlEndpoint, source.intent.Hint.ControlEndpoint, next.intent.Hint.ControlEndpoint}
			if p.EngineLocal() {
				endpoint[1] = ""
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var asked, hinted [4]atomic.Int64
			for range 2 {
				wg.Go(func() {
					var h HintAnswer
					for ctx.Err() == nil {
						before := phase.Load()
						if err := r.Hint(prompt(), Target{Source: "18"}, &h); err != nil {
							t.Error(err)
							return
						}
						after := phase.Load()
						asked[before].Add(1)
						if h.Reason != hint.Hinted {
							continue
						}
						hinted[before].Add(1)
						if before == after && before != 3 && h.Endpoint != endpoint[before] {
							t.Errorf("phase %d: hint to %q, want %q", before, h.Endpoint, endpoint[before])
							return
						}
					}
				})
			}
			pause := func() {
				at := phase.Load()
				n := asked[at].Load()
				await(t, "readers", func() bool { return asked[at].Load() > n+200 })
			}
			pause()
			phase.Store(3)
			source.release()
			phase.Store(1)
			pause()
			phase.Store(3)
			next.register()
			phase.Store(2)
			pause()
			if n := hinted[2].Load(); p.EngineLocal() && n > 0 {
				t.Errorf("%d hints to a worker that has stored nothing", n)
			}
			next.say(store(4, "CPU", "kvcr"))
			pause()
			cancel()
			wg.Wait()
			for at := range hinted {
				if at == 3 || p.EngineLocal() && at == 1 {
					continue
				}
				if hinted[at].Load() == 0 {
					t.Errorf("no hint was seen in phase %d", at)
				}
			}
		})
	}
}

// TestDoubt holds, from readers at full speed, that an owner whose records are in
// doubt is neither projected nor offered, from the moment the call returns, and
// that its entries stay.
func TestDoubt(t *testing.T) {
	t.Run("5.5.4 doubt unprojects at once and deletes nothing", func(t *testing.T) {
		r := newOwnerRig(t, 2, Options{})
		source := r.guest(17, owner(1), residency.HiCacheV1, 1, dialects[1]).register()
		target := r.guest(18, owner(2), residency.HiCacheV1, 1, dialects[1]).register()
		target.say(event{clear: true})
		source.say(store(4, "CPU", "kvcr"))
		stop := r.readers(2, func(a *Answer, phase int32) string {
			for i := range a.Holders {
				if h := &a.Holders[i]; h.Source == string(owner(1)) && h.Tokens.Host == 256 {
					// Phases rise: 0, 4 certain, 2, 6 in doubt, odd ones in between.
					if r.phase.Load() == phase && (phase%4 == 0 && h.AttachedTo != "17" || phase%4 == 2 && h.AttachedTo != "") {
						return fmt.Sprintf("phase %d: attached to %q", phase, h.AttachedTo)
					}
					return ""
				}
			}
			return "the pool's entries are gone"
		})
		hinted := string(owner(1)) + "/0 cache_owner depth 4"
		for _, want := range []string{hinted, "no_longer_source", hinted} {
			if got := target.hint(); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			r.phase.Add(1)
			var doubt error
			if want == hinted {
				doubt = errors.New("the watch is behind")
			}
			if err := r.Residency().Doubt(scopeName, doubt); err != nil {
				t.Fatal(err)
			}
			r.phase.Add(1)
		}
		stop()
	})
}

// TestLegacyPath holds that a source without owned residency is judged as ever,
// also beside owners that attach.
func TestLegacyPath(t *testing.T) {
	t.Run("R15 legacy path", func(t *testing.T) {
		r := newOwnerRig(t, 1, Options{})
		g := r.guest(17, owner(1), residency.HiCacheV1, 1, dialects[1]).register()
		g.say(store(4, "GPU", ""), store(4, "CPU", "kvcr"))
		w := addWorker(t, r.Engine, "legacy", "127.0.0.1", 1, dialects[1], func(s *Source) {
			s.Hint = &HintConfig{WorkerType: "aggregated", Endpoint: "tcp://10.0.0.9:23280"}
		})
		w.say(t, store(2, "GPU", ""))
		state := func(want State, cause string, device int) {
			t.Helper()
			if f := freshnessOf(t, r.Engine, "legacy", 0, hint.Worker); f.State != want || f.Cause != cause {
				t.Fatalf("%v %q, want %v %q", f.State, f.Cause, want, cause)
			}
			if got := depthsOf(t, r.Engine, prompt(), "legacy", 0, hint.Worker).Device; got != device {
				t.Fatalf("device %d, want %d", got, device)
			}
		}
		state(Exact, "", 128)
		p := w.shards[0]
		p.next++ // a gap empties it, and it goes on, degraded
		w.say(t, store(1, "GPU", ""))
		state(Degraded, "gap", 64)
		p.next = 0 // a lower sequence is another process
		p.send(store(3, "GPU", ""))
		await(t, "the restart", func() bool {
			return depthsOf(t, r.Engine, prompt(), "legacy", 0, hint.Worker).Device == 192
		})
		state(Exact, "", 192)
		p.sendRaw([]byte{0xc1}) // an undecodable batch is a loss, not the end
		w.say(t, store(1, "GPU", ""))
		state(Degraded, "undecodable", 64)
		if got := g.hint(); got != "no_longer_source" {
			t.Fatal(got)
		}
		for _, o := range r.Owners() {
			if o.Source == "legacy" && (o.StateAgent || o.AttachedTo != "" || o.Domain != hint.Worker) {
				t.Fatalf("%+v", o)
			}
		}
		if err := r.RemoveSource(patience(t), "legacy"); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNames holds that registered workers and configured sources cannot take
// each other's names, and that a worker leaves by its lease alone.
func TestNames(t *testing.T) {
	r := newOwnerRig(t, 3, Options{})
	g := r.guest(17, owner(1), residency.HiCacheV1, 1, dialects[1]).register()
	for _, id := range []string{"17", string(owner(1))} {
		if err := r.AddSource(patience(t), Source{ID: id, Model: "m", Endpoint: "tcp://127.0.0.1:1"}); err == nil {
			t.Errorf("source %q was added beside its namesake", id)
		}
		if err := r.RemoveSource(patience(t), id); err == nil {
			t.Errorf("%q was removed though it is registered", id)
		}
	}
	if err := r.AddSource(patience(t), Source{ID: "18", Model: "m", Endpoint: "tcp://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	late := r.guest(18, owner(2), residency.HiCacheV1, 1, dialects[1])
	reg := residency.Registration{ID: late.lease(), Scope: scopeName, Intents: []residency.Intent{late.intent}}
	if _, err := r.Residency().Register(patience(t), reg); err == nil {
		t.Error("worker 18 was registered beside source 18")
	}
	// Two owners of one rank of one worker cannot be.
	twice := r.guest(17, owner(3), residency.HiCacheV1, 1, dialects[1])
	reg = residency.Registration{ID: "twice", Scope: scopeName, Intents: []residency.Intent{twice.intent}}
	if _, err := r.Residency().Register(patience(t), reg); err == nil {
		t.Error("rank 0 of worker 17 has two owners")
	}
	g.say(store(1, "GPU", ""))
	if got := g.worker().Device; got != 64 {
		t.Fatal(got)
	}
	// Several ranks of one worker are one name.
	a, b := r.guest(20, owner(4), residency.HiCacheV1, 1, dialects[1]), r.guest(20, owner(5), residency.HiCacheV1, 1, dialects[1])
	b.intent.Worker.Rank = 3
	reg = residency.Registration{ID: "ranks", Scope: scopeName, Intents: []residency.Intent{a.intent, b.intent}}
	if _, err := r.Residency().Register(patience(t), reg); err != nil {
		t.Fatal(err)
	}
	a.joined()
	b.joined()
	b.shards[0].send(store(4, "GPU", ""))
	if err := r.WaitApplied(patience(t), "20", 3, 0); err != nil {
		t.Fatal(err)
	}
	if got := depthsOf(t, r.Engine, prompt(), "20", 3, hint.Worker).Device; got != 256 {
		t.Fatalf("rank 3 has %d", got)
	}
	if got := depthsOf(t, r.Engine, prompt(), "20", 0, hint.Worker).Device; got != 0 {
		t.Fatalf("rank 0 has %d", got)
	}
	var h HintAnswer
	if err := r.Hint(prompt(), Target{Source: "20", Rank: 1}, &h); err != nil || h.Reason != hint.TargetIncapable {
		t.Fatal(h.Reason, err)
	}
	if err := r.Residency().Release(patience(t), "ranks"); err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Sources() {
		if s.ID == "20" {
			t.Error("worker 20 is still a source")
		}
	}
}

// TestClearedByCall holds router-level clears to their domain, watched by
// readers at full speed, and what is said of a domain that was emptied so.
func TestClearedByCall(t *testing.T) {
	t.Run("R13 null domain clear", func(t *testing.T) {
		r := newOwnerRig(t, 1, Options{})
		g := r.guest(17, owner(1), residency.HiCacheV1, 1, dialects[1]).register()
		g.say(store(4, "GPU", ""), store(4, "CPU", "kvcr"))
		stop := r.readers(2, func(a *Answer, phase int32) string {
			worker, _, _, _ := in(a, g.name(), hint.Worker)
			pool, _, _, _ := in(a, string(g.intent.Owner), hint.CacheOwner)
			if pool.Host != 256 || phase == 0 && r.phase.Load() == 0 && worker.Device != 256 {
				return fmt.Sprintf("worker %+v, pool %+v", worker, pool)
			}
			return ""
		})
		for _, event := range []string{`{"domain":null}`, `{"domain":7}`} {
			d, err := residency.ParseCleared([]byte(event))
			if err == nil || r.Residency().Clear(patience(t), scopeName, g.intent.Owner, d) == nil {
				t.Fatalf("%s was taken", event)
			}
		}
		r.phase.Store(1)
		d, err := residency.ParseCleared([]byte(`{"domain":"worker"}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Residency().Clear(patience(t), scopeName, g.intent.Owner, d); err != nil {
			t.Fatal(err)
		}
		stop()
		if got := g.worker(); got != (Depths{}) {
			t.Fatalf("%+v", got)
		}
		// The publisher knows nothing of it, so what it has said is not all there.
		if f := freshnessOf(t, r.Engine, g.name(), 0, hint.Worker); f.State != Degraded || f.Cause != causeCleared {
			t.Fatalf("%+v", f)
		}
		if f := freshnessOf(t, r.Engine, string(g.intent.Owner), 0, hint.CacheOwner); f.State != Exact {
			t.Fatalf("%+v", f)
		}
	})
	t.Run("R13 a cleared pool serves again once it is attached anew", func(t *testing.T) {
		r := newOwnerRig(t, 2, Options{})
		target := r.guest(18, owner(2), residency.HiCacheV1, 1, dialects[1]).register()
		target.say(event{clear: true})
		g := r.guest(17, owner(1), residency.VLLMResidencyV1, 1, dialects[1]).register()
		g.say(store(4, "CPU", "kvcr"))
		if err := r.Residency().Clear(patience(t), scopeName, g.intent.Owner, residency.CacheOwnerDomain); err != nil {
			t.Fatal(err)
		}
		g.say(store(4, "CPU", "kvcr"))
		if f := freshnessOf(t, r.Engine, string(owner(1)), 0, hint.CacheOwner); f.State != Degraded || f.Cause != causeCleared {
			t.Fatalf("%+v", f)
		}
		if got := target.hint(); got != "no_longer_source" {
			t.Fatal(got)
		}
		g.release()
		again := r.guest(19, owner(1), residency.VLLMResidencyV1, 1, dialects[1]).register()
		again.say(store(4, "CPU", "kvcr"))
		if got, want := target.hint(), string(owner(1))+"/0 cache_owner depth 4"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}
