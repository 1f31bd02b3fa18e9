package main

import (
	"fmt"
	"testing"
)

// TestInteropReplay loses messages of a publisher made of the engines' own
// libraries, which keeps them for replay in both framings.
func TestInteropReplay(t *testing.T) {
	p := startPython(t)
	sources := "sources:\n"
	for name, topics := range map[string]bool{"old": false, "new": true} {
		live := p.do(t, ev{"op": "bind", "name": name})["endpoint"]
		replay := p.do(t, ev{"op": "replay", "name": name, "topics": topics})["endpoint"]
		sources += fmt.Sprintf("  - {id: %s, model: %s, endpoint: %q, replay: %q, topic: %q}\n", name, name, live, replay, "kv@"+name+"@m")
	}
	s := startServe(t, sources)
	for _, name := range []string{"old", "new"} {
		p.do(t, ev{"op": "subscribed", "name": name})
	}
	store := func(n int) ev {
		e := ev{"event": "store", "block_hashes": []int{101 + n}, "token_ids": []int{4*n + 1, 4*n + 2, 4*n + 3, 4*n + 4}, "block_size": 4}
		if n > 0 {
			e["parent_block_hash"] = 100 + n
		}
		return e
	}
	for _, name := range []string{"old", "new"} {
		t.Run(name, func(t *testing.T) {
			send := func(seq int, lost bool, events ...ev) {
				t.Helper()
				p.do(t, ev{"op": "send", "name": name, "dialect": "vllm-map", "topic": "kv@" + name + "@m", "seq": seq, "rank": 0, "events": events, "lost": lost})
			}
			// It begins before we listened.
			send(0, true, store(0))
			send(1, false, store(1))
			s.applied(t, name, 0, 1)
			send(2, true, store(2), ev{"event": "remove", "block_hashes": []int{102}})
			send(3, true, store(1))
			send(4, false, ev{"event": "remove", "block_hashes": []int{103}})
			s.applied(t, name, 0, 4)
			if got := depthsOf(t, s, "--model", name, "--tokens", "1,2,3,4,5,6,7,8,9,10,11,12"); got != name+"/0=8/8" {
				t.Errorf("got %q, want 8 tokens", got)
			}
			at := s.stream(t, name, 0)
			if at.State != "exact" || at.Counters["missing_batches"] != 3 || at.Counters["losses"] != 0 {
				t.Errorf("behind two gaps: %+v", at)
			}
			if n := p.do(t, ev{"op": "asked", "name": name})["requests"]; n != float64(2) {
				t.Errorf("asked %v times, want 2", n)
			}
		})
	}
}
