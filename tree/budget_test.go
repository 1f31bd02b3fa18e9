package tree_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
)

// spender makes events for a fleet that wants far more than a budget.
type spender struct {
	r      *rand.Rand
	owners []tree.Owner                // of the first index
	others map[tree.Holder]tree.Holder // of the second
	stored [][]told                    // by owner
	tiers  bool
	own    bool
	span   int // units of every third block's event, 0: 1
}

type told struct {
	contents []uint64 // of the whole path
	names    []uint64
	ends     []int // units up to the end of each block
}

func (s *spender) name(h int, content uint64, depth int) uint64 {
	x := content*0x9e3779b97f4a7c15 ^ uint64(depth)<<40
	if s.own && s.r.IntN(3) > 0 {
		x ^= uint64(h+1) << 50
	}
	return x
}

// step plays one event on every index.
func (s *spender) step(ixs ...tree.Writer) {
	h := s.r.IntN(len(s.owners))
	o := s.owners[h]
	on := func(k int) tree.Owner {
		if k > 0 {
			return tree.Owner{Holder: s.others[o.Holder], Tier: o.Tier, Shard: o.Shard}
		}
		return o
	}
	if s.tiers && s.r.IntN(3) == 0 {
		o.Tier = tree.Tier(s.r.IntN(int(tree.NumTiers)))
	}
	switch mine := s.stored[h]; {
	case s.r.IntN(6) == 0 && len(mine) > 0:
		c := mine[s.r.IntN(len(mine))]
		from := s.r.IntN(len(c.names))
		names := c.names[from:min(len(c.names), from+1+s.r.IntN(8))]
		for k, ix := range ixs {
			ix.Remove(on(k), names)
		}
	case s.r.IntN(400) == 0:
		for k, ix := range ixs {
			ix.Clear(on(k).Holder)
		}
		s.stored[h] = nil
	default:
		st := tree.Store{Span: 1}
		if s.span > 0 && s.r.IntN(3) == 0 {
			st.Span = s.span
		}
		c := told{}
		if len(mine) > 0 && s.r.IntN(2) == 0 { // behind a part of something told before
			p := mine[s.r.IntN(len(mine))]
			k := 1 + s.r.IntN(len(p.names))
			c = told{slices.Clone(p.contents[:p.ends[k-1]]), slices.Clone(p.names[:k]), slices.Clone(p.ends[:k])}
			st.HasParent, st.Parent = true, c.names[k-1]
		}
		shared := s.r.IntN(4) > 0
		for range 1 + s.r.IntN(60/st.Span) {
			block := make([]uint64, st.Span)
			for u := range block {
				if block[u] = s.r.Uint64(); shared {
					block[u] = uint64(s.r.IntN(2)) + 1
				}
			}
			c.contents = append(c.contents, block...)
			n := s.name(h, hash(c.contents), len(c.contents)) + uint64(st.Span)
			c.names, c.ends = append(c.names, n), append(c.ends, len(c.contents))
			st.Pairs = append(append(st.Pairs, n), block...)
		}
		for k, ix := range ixs {
			ix.Store(on(k), &st)
		}
		if s.stored[h] = append(s.stored[h], c); len(s.stored[h]) > 200 {
			s.stored[h] = s.stored[h][100:]
		}
	}
}

func hash(c []uint64) (h uint64) {
	for _, v := range c {
		h = (h ^ v) * 0xd6e8feb86659fd93
	}
	return h
}

func newSpender(t *testing.T, seed uint64, holders, shards int, ixs ...tree.Writer) *spender {
	t.Helper()
	s := &spender{r: rand.New(rand.NewPCG(seed, 7)), stored: make([][]told, holders), others: map[tree.Holder]tree.Holder{}}
	for i := range holders {
		var o tree.Owner
		for k, ix := range ixs {
			h, err := ix.AddHolder(tree.Policy(i%2), shards)
			if err != nil {
				t.Fatal(err)
			}
			if k == 0 {
				o.Holder = h
			} else {
				s.others[o.Holder] = h
			}
		}
		s.owners = append(s.owners, o)
	}
	return s
}

// TestBudget holds an index to its budget under more than it can hold, of every
// kind of memory it has: its bytes are bounded after every event, and no answer
// is above the truth.
func TestBudget(t *testing.T) {
	const budget = 2 << 20
	for _, c := range []struct {
		name  string
		tiers bool
		own   bool
		span  int
		steps int
	}{
		{"plain", false, false, 0, 12_000},
		{"own-names", false, true, 0, 8_000},
		{"tiers", true, false, 0, 8_000},
		{"tiers-and-own-names", true, true, 0, 6_000},
		{"long-blocks", true, true, 3, 6_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x, m := tree.New(tree.Options{Seed: 1, Bytes: budget}), model.New()
			s := newSpender(t, 3, 12, 1, x, m)
			s.tiers, s.own, s.span = c.tiers, c.own, c.span
			steps := c.steps
			if testing.Short() || raceDetector {
				steps /= 8
			}
			rx, rm := x.NewReader(), m.NewReader()
			for i := range steps {
				s.step(x, m)
				if got := x.Stats(); got.Bytes > budget {
					t.Fatalf("step %d: %d bytes, budget %d", i, got.Bytes, budget)
				}
				if i%20 == 0 {
					h := s.r.IntN(len(s.stored))
					if len(s.stored[h]) > 0 {
						q := s.stored[h][s.r.IntN(len(s.stored[h]))].contents
						neverAbove(t, s.others, rx.Match(0, q), rm.Match(0, q))
					}
				}
				if i%1000 == 999 {
					if err := x.Check(); err != nil {
						t.Fatalf("step %d: %v", i, err)
					}
				}
			}
			st := x.Stats()
			t.Logf("%+v, the truth %d", st, m.Stats().Residencies)
			if !testing.Short() && !raceDetector && st.Evicted == 0 {
				t.Error("nothing was evicted: the budget was not reached")
			}
			for _, o := range s.owners {
				x.Drop(o.Holder)
			}
			for x.Step() {
			}
			if err := x.Check(); err != nil {
				t.Fatal(err)
			}
			if st := x.Stats(); st.Residencies+st.Runs+st.Names+st.Links != 0 {
				t.Errorf("after all are dropped: %+v", st)
			}
		})
	}
}

func neverAbove(t *testing.T, others map[tree.Holder]tree.Holder, got, truth []tree.Depths) {
	t.Helper()
	most := map[tree.Holder][tree.NumViews]uint32{}
	for _, d := range truth {
		most[d.Holder] = d.Units
	}
	for _, d := range got {
		for v, n := range d.Units {
			if n > most[others[d.Holder]][v] {
				t.Fatalf("holder %d, view %d: %d, the truth is %d", d.Holder, v, n, most[others[d.Holder]][v])
			}
		}
	}
}
