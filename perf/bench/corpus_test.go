package bench

import (
	"slices"
	"sync"
	"testing"

	"github.com/cairn-kv/cairn/perf/fleet"
)

// conversation is the whole trace.
var conversation = sync.OnceValue(func() []fleet.Arrival {
	a, err := fleet.Conversation(0)
	if err != nil {
		panic(err)
	}
	return a
})

// TestCorpus checks the promises that benchmarks rest on: engines keep their
// capacity and whole prefixes, parents are known, and kinds are true.
func TestCorpus(t *testing.T) {
	for name, s := range map[string]Shape{
		"8 holders":   {Engines: 8, Capacity: 2048},
		"128 holders": {Engines: 128, Capacity: 512, Seed: 3},
		"16 tokens":   {Engines: 4, Capacity: 32768, Length: 32},
		"replicas":    {Engines: 4, Replicas: 3, Capacity: 4096},
		"apart":       {Engines: 8, Replicas: 2, Apart: true, Capacity: 2048},
		"alone":       {Engines: 1, Capacity: 4096, Window: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := Simulate(conversation()[:1000], s)
			held := make([]map[uint64]uint64, c.Holders) // name → parent's name
			for h := range held {
				held[h] = map[uint64]uint64{}
			}
			heldBy := map[uint64]int{}
			var kinds [NumKinds]int
			for i, o := range c.Ops {
				kinds[o.Kind]++
				if len(o.Words) == 0 {
					t.Fatalf("op %d (%+v) is about nothing", i, o)
				}
				mine := held[o.Holder]
				switch o.Kind {
				case Query:
					continue
				case Remove:
					for _, name := range o.Words {
						if _, ok := mine[name]; !ok {
							t.Fatalf("op %d removes %#x, which holder %d does not have", i, name, o.Holder)
						}
						delete(mine, name)
						heldBy[name]--
					}
					continue
				}
				known, parent := 0, o.Parent
				if _, ok := mine[parent]; o.HasParent && !ok {
					t.Fatalf("op %d hangs behind %#x, which holder %d does not have", i, parent, o.Holder)
				}
				for k := 0; k < len(o.Words); k += 2 {
					name := o.Words[k]
					if _, ok := mine[name]; ok {
						t.Fatalf("op %d stores %#x, which holder %d has", i, name, o.Holder)
					}
					if heldBy[name] > 0 {
						known++
					}
					heldBy[name]++
					mine[name] = parent
					parent = name
				}
				want := StoreMixed
				switch known {
				case 0:
					want = StoreNew
				case o.Blocks():
					want = StoreKnown
				}
				if o.Kind != want {
					t.Fatalf("op %d is of kind %d with %d known blocks of %d, want %d", i, o.Kind, known, o.Blocks(), want)
				}
				if len(mine) > s.Capacity {
					t.Fatalf("after op %d holder %d has %d blocks, capacity %d", i, o.Holder, len(mine), s.Capacity)
				}
			}
			for h, mine := range held {
				for name, parent := range mine {
					if _, ok := mine[parent]; parent != 0 && !ok {
						t.Fatalf("holder %d has %#x without %#x before it", h, name, parent)
					}
				}
			}
			if s.Replicas > 1 && kinds[StoreKnown] < (s.Replicas-1)*kinds[StoreNew] {
				t.Errorf("%d stores of known blocks, %d of new ones, with %d replicas", kinds[StoreKnown], kinds[StoreNew], s.Replicas)
			}
			if s.Apart && (kinds[StoreMixed] > 0 || kinds[StoreNew] != kinds[StoreKnown]) {
				t.Errorf("engines are apart, but the stores are %v", kinds)
			}
			if kinds[Query] != 1000 || c.Warm <= 0 || c.Warm >= len(c.Ops) || c.Ops[c.Warm].Kind != Query {
				t.Errorf("%d queries, op %d of %d begins the measured half", kinds[Query], c.Warm, len(c.Ops))
			}
			for k, n := range kinds {
				if n == 0 && k < int(StoreKnown) {
					t.Errorf("no op of kind %d", k)
				}
			}
		})
	}
}

// TestCorpusRepeats makes the same corpus twice.
func TestCorpusRepeats(t *testing.T) {
	s := Shape{Engines: 5, Capacity: 1024, Seed: 9}
	a, b := Simulate(conversation()[:500], s), Simulate(conversation()[:500], s)
	same := slices.EqualFunc(a.Ops, b.Ops, func(x, y Op) bool {
		return x.Kind == y.Kind && x.Holder == y.Holder && x.Parent == y.Parent && slices.Equal(x.Words, y.Words)
	})
	if !same || a.Warm != b.Warm {
		t.Error("two corpora of one shape differ")
	}
}
