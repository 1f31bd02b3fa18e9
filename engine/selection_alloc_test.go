//go:build !race

package engine

import (
	"testing"

	"github.com/cairn-kv/cairn/engine/hint"
)

// TestOptionsDoNotAllocate: all options at once cost no allocation either.
func TestOptionsDoNotAllocate(t *testing.T) {
	coefficients := CostCoefficients{PerToken: 1, BytesPerToken: 1, BytesPerSecond: 1e9}
	e := openEngine(t, Options{Hints: HintOptions{MinGainBlocks: 2, Spread: true, SpreadWindowBlocks: 1,
		Cost:   CostOptions{Enabled: true, Coefficients: []CostCoefficients{coefficients}},
		Policy: func(o *hint.Offer) hint.Choice { return hint.FetchFrom(len(o.Sources) - 1) }}})
	for i, id := range []string{"a", "b", "c"} {
		addWorker(t, e, id, "127.0.0.1", 1, dialects[1], hinted()).say(t, store(4-i%2, "GPU", ""))
	}
	addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], hinted(func(h *HintConfig) { h.Carrier = "kv_transfer_params.router_hint" })).say(t, event{clear: true})
	var h HintAnswer
	var a Answer
	var request []byte
	q := prompt()
	for _, id := range []string{"req-42", ""} {
		f := func() {
			if err := e.Hint(q, Target{Source: "t", MessageID: id}, &h); err != nil || h.Reason != hint.Hinted {
				t.Fatalf("%s, %v", outcome(&h), err)
			}
			request = h.AppendRequest(request[:0], hint.Numbers)
		}
		f()
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("message id %q: %v allocations", id, n)
		}
	}
	f := func() {
		err := e.Route(q, func(a *Answer) Target { return Target{Source: "t", MessageID: "req-42"} }, &a, &h)
		if err != nil || h.Reason != hint.Hinted || len(a.Holders) != 3 {
			t.Fatalf("%s, %v", outcome(&h), err)
		}
	}
	f()
	if n := testing.AllocsPerRun(200, f); n != 0 {
		t.Errorf("route: %v allocations", n)
	}
}

// TestRangesDoNotAllocate: nor do runs of blocks behind the root.
func TestRangesDoNotAllocate(t *testing.T) {
	e := openEngine(t, Options{Hints: HintOptions{SuffixRanges: true}})
	addWorker(t, e, "a", "127.0.0.1", 1, dialects[1], hinted()).say(t, store(4, "GPU", ""), remove("GPU", "", chainNames[0]))
	addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], hinted()).say(t, store(2, "GPU", ""))
	var h HintAnswer
	q := prompt()
	f := func() {
		if err := e.Hint(q, Target{Source: "t"}, &h); err != nil || h.Start != 1 || len(h.Names) != 3 {
			t.Fatalf("%s from block %d, %v", outcome(&h), h.Start, err)
		}
	}
	f()
	if n := testing.AllocsPerRun(200, f); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
