package engine

import (
	"testing"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
)

// TestAttachedWorker plays the life of two workers and their owners over
// sockets: attach, hint, detach, and what is left by either lifetime.
func TestAttachedWorker(t *testing.T) {
	for _, ix := range indexes {
		for _, tp := range []int{1, 2} {
			for _, p := range []residency.Protocol{residency.HiCacheV1, residency.VLLMResidencyV1} {
				t.Run(ix.name+"/"+p.String()+"/tp"+string(rune('0'+tp)), func(t *testing.T) {
					r := newOwnerRig(t, 4, Options{NewIndex: ix.make})
					source := r.guest(17, owner(1), p, tp, dialects[1]).register()
					target := r.guest(18, owner(2), p, tp, dialects[1]).register()
					source.say(store(4, "GPU", ""), store(4, "CPU_PINNED", ""))
					target.say(event{clear: true})
					if got := target.hint(); got != "ineligible{state_agent}" {
						t.Fatalf("framework blocks alone gave %s", got)
					}
					source.say(store(4, "CPU", "kvcr"))
					if source.worker().Device != 256 || source.pool().Host != 256 {
						t.Fatalf("worker %+v, pool %+v", source.worker(), source.pool())
					}
					want := string(owner(1)) + "/0 cache_owner depth 4"
					if got := target.hint(); got != want {
						t.Fatalf("got %s, want %s", got, want)
					}
					if got := source.hint(); got != "no_longer_source" {
						t.Fatalf("its own blocks gave %s", got)
					}
					source.release()
					if source.worker() != (Depths{}) {
						t.Fatalf("a detached worker still has %+v", source.worker())
					}
					if p.EngineLocal() {
						want = "no_longer_source"
					}
					if got := target.hint(); got != want {
						t.Fatalf("after the detach: %s, want %s", got, want)
					}
					var a Answer
					if err := r.Match(prompt(), &a); err != nil {
						t.Fatal(err)
					}
					_, flagged, f, ok := in(&a, string(owner(1)), 1)
					if ok == p.EngineLocal() || flagged || ok && (!f.Advisory || f.State != Degraded || f.Cause != causeDetached) {
						t.Fatalf("the pool is there: %v, flagged: %v, %+v", ok, flagged, f)
					}
					// Attached anew, a pool that lived on is advice until it says itself
					// what it has; one that died with its engine begins at nothing.
					again := r.guest(19, owner(1), p, tp, dialects[1]).register()
					again.say(store(1, "GPU", ""))
					pool, f := again.pool(), freshnessOf(t, r.Engine, string(owner(1)), 0, hint.CacheOwner)
					if p.EngineLocal() && (pool != (Depths{}) || f.State != Exact) ||
						!p.EngineLocal() && (pool.Host != 256 || f.State != Degraded || f.Cause != "restart" || !f.Advisory) {
						t.Fatalf("the pool of the next worker: %+v, %+v", pool, f)
					}
					again.say(event{clear: true, owner: "kvcr"}, store(2, "CPU", "kvcr"))
					pool, f = again.pool(), freshnessOf(t, r.Engine, string(owner(1)), 0, hint.CacheOwner)
					if pool.Host != 128 || f.State != Exact || f.Advisory {
						t.Fatalf("the pool said what it has: %+v, %+v", pool, f)
					}
					if got := again.worker(); got.Device != 64 {
						t.Fatalf("the pool's clear took %+v", got)
					}
				})
			}
		}
	}
}
