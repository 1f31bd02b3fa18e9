//go:build !race

package engine

import (
	"testing"
)

// TestWarmQueriesDoNotAllocate; not under the race detector, which allocates.
func TestWarmQueriesDoNotAllocate(t *testing.T) {
	e := openEngine(t, Options{Shards: 2})
	set := func(s *Source) {
		s.Protocol = HiCacheV1
		s.Hint = &HintConfig{WorkerType: "agg", Endpoint: "tcp://10.0.0.1:1"}
	}
	for _, id := range []string{"a", "b", "c"} {
		addWorker(t, e, id, "127.0.0.1", 1, dialects[1], set).say(t, store(3, "GPU", ""), store(4, "CPU", "kvcr"))
	}
	addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], set).say(t, event{clear: true})
	image, _ := MultimodalKey("image-1")
	var a Answer
	var h HintAnswer
	plain := prompt()
	keyed := &Query{Model: "m", Tokens: count(1, 256), Adapter: "x", Salt: "y", Keys: []Key{{Hash: image, Offset: 70, Length: 10}}}
	for name, f := range map[string]func() error{
		"match":       func() error { return e.Match(plain, &a) },
		"match keyed": func() error { return e.Match(keyed, &a) },
		"hint":        func() error { return e.Hint(plain, Target{Source: "t", MessageID: "req-42"}, &h) },
		"no hint":     func() error { return e.Hint(plain, Target{Source: "a"}, &h) },
	} {
		if err := f(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := testing.AllocsPerRun(200, func() { f() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if err := e.Match(plain, &a); err != nil || len(a.Holders) != 6 {
		t.Errorf("%d holders, %v", len(a.Holders), err)
	}
}
