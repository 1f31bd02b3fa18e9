//go:build !race

package engine

import (
	"testing"

	"github.com/cairn-kv/cairn/engine/residency"
)

// TestAttachedAllocs holds warm calls to no allocation, also where owners are
// attached, detached and fenced; not under the race detector, which allocates.
func TestAttachedAllocs(t *testing.T) {
	r := newOwnerRig(t, 4, Options{})
	target := r.guest(18, owner(2), residency.HiCacheV1, 1, dialects[1]).register()
	target.say(event{clear: true})
	attached := r.guest(17, owner(1), residency.HiCacheV1, 2, dialects[1]).register()
	attached.say(store(3, "GPU", ""), store(3, "CPU", "kvcr"))
	gone := r.guest(19, owner(3), residency.VLLMResidencyV1, 1, dialects[1]).register()
	gone.say(store(4, "CPU", "kvcr"))
	gone.release()
	fenced := r.guest(20, owner(4), residency.HiCacheV1, 1, dialects[1]).register()
	fenced.say(store(4, "CPU", "kvcr"))
	fenced.shards[0].next++
	fenced.shards[0].send(event{clear: true})
	await(t, "the fence", func() bool { return r.route(owner(4)).State == residency.Fenced })
	var a Answer
	var h HintAnswer
	q := prompt()
	both := func() {
		if err := r.Match(q, &a); err != nil {
			t.Fatal(err)
		}
		if err := r.Hint(q, Target{Source: "18", MessageID: "m"}, &h); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		both()
	}
	if h.Best.Source != string(owner(3)) || len(a.Holders) != 3 || len(a.Flagged) != 2 {
		t.Fatalf("best %+v, %d holders, %d flagged", h.Best, len(a.Holders), len(a.Flagged))
	}
	if n := testing.AllocsPerRun(200, both); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
