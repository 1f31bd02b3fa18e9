package engine

import (
	"testing"
)

// TestIndexBytes fills an index beyond its byte budget: it stays within, and
// says whose answers may be too low for it.
func TestIndexBytes(t *testing.T) {
	const budget, blocks = MinIndexBytes, 500
	e := openEngine(t, Options{IndexBytes: budget})
	modest := addWorker(t, e, "modest", "127.0.0.1", 1, dialects[0], nil)
	greedy := addWorker(t, e, "greedy", "127.0.0.1", 1, dialects[0], nil)
	modest.say(t, store(4, "", ""))
	next := uint64(1)
	for range 12 {
		for range 60 {
			ev := event{size: 1}
			for range blocks {
				ev.names, ev.tokens = append(ev.names, next), append(ev.tokens, uint32(next+1_000_000))
				next++
			}
			greedy.shards[0].send(ev)
		}
		greedy.settle(t)
	}
	st := e.Stats().Shards[0]
	if st.Bytes > budget || st.Budget != budget || st.Evicted == 0 {
		t.Errorf("%d bytes of %d, %d blocks evicted", st.Bytes, st.Budget, st.Evicted)
	}
	var a Answer
	q := prompt()
	if err := e.Match(q, &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Holders) != 1 || a.Holders[0].Source != "modest" || a.Holders[0].Tokens.Any != 4*blockTokens || a.Holders[0].Freshness.Thinned {
		t.Errorf("the modest worker lost something: %+v", a.Holders)
	}
	q.Tokens = []uint32{uint32(next - blocks + 1_000_000)} // the last event's first block
	if err := e.Match(q, &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Holders) != 1 || a.Holders[0].Source != "greedy" || !a.Holders[0].Freshness.Thinned {
		t.Errorf("the greedy worker should be thinned, and hold its newest block: %+v", a.Holders)
	}
}
