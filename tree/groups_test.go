package tree_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
)

// upTo is 1 … n: a query, and the blocks of a chain.
func upTo(n uint64) []uint64 {
	var c []uint64
	for i := uint64(1); i <= n; i++ {
		c = append(c, i)
	}
	return c
}

// Pitfall: a group gets another reach, and other members, between the two words
// of it that a walk reads: those are taken for holders of the old reach.
func TestGroupChangesItsReachUnderReader(t *testing.T) {
	var few []tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1}).Eager()
		few = few[:0]
		hold := func(n uint64, holders int) (all []tree.Holder) {
			for range holders {
				h := add(t, x)
				put(x, h, 0, upTo(n)...)
				all = append(all, h)
			}
			return all
		}
		hold(14, 3) // in the run's header
		six := hold(6, 2)
		hold(5, 3)
		hold(4, 3)
		few = append(few, hold(2, 3)...) // no group is left for them
		return x, upTo(6), func() {
			// Those with six go on, so that their group is the smallest, until
			// so many are in no group that others are looked for.
			for n := uint64(7); n < 13; n++ {
				for _, h := range six {
					put(x, h, n-1, n)
				}
			}
			x.Step()
			if err := x.Check(); err != nil {
				t.Error(err)
			}
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		for _, h := range few {
			if n := anyOf(got, h); n != 2 {
				t.Errorf("pause %d: %d of a holder that has 2 all along", pause, n)
			}
		}
	})
}

// TestLevels compares levels with the model's answers by holder, in a fleet
// that is large enough for sets of several words, some of it hidden, cleared or
// dropped.
func TestLevels(t *testing.T) {
	wide := 0
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		x, m := tree.New(tree.Options{Seed: 1}), model.New()
		if seed == 2 {
			x.Eager()
		}
		truth, levels := m.NewReader(), x.NewReader().(tree.LevelReader)
		same := map[tree.Holder]tree.Holder{}
		var mine, theirs []tree.Holder
		join := func() {
			theirs = append(theirs, add(t, x))
			h, err := m.AddHolder(tree.Copies, 1)
			if err != nil {
				t.Fatal(err)
			}
			mine = append(mine, h)
			same[theirs[len(theirs)-1]] = h
		}
		for range 300 {
			join()
		}
		for op := range 3000 {
			i := r.IntN(len(mine))
			both := func(do func(w tree.Writer, h tree.Holder)) { do(x, theirs[i]); do(m, mine[i]) }
			switch n := r.IntN(100); {
			case n < 60:
				s := tree.Store{Span: 1}
				for p, length := uint64(1), uint64(1+r.IntN(3)*r.IntN(20)); p <= length; p++ {
					s.Pairs = append(s.Pairs, p, p)
				}
				if r.IntN(4) == 0 { // and another end
					end := 1000 * uint64(1+r.IntN(3))
					for p := range uint64(1 + r.IntN(5)) {
						s.Pairs = append(s.Pairs, end+p, end+p)
					}
				}
				tier := tree.Tier(max(0, r.IntN(8)-6))
				both(func(w tree.Writer, h tree.Holder) { w.Store(tree.Owner{Holder: h, Tier: tier}, &s) })
			case n < 80:
				name := uint64(1 + r.IntN(40))
				both(func(w tree.Writer, h tree.Holder) { w.Remove(tree.Owner{Holder: h}, []uint64{name}) })
			case n < 84:
				both(func(w tree.Writer, h tree.Holder) { w.Clear(h) })
			case n < 88:
				both(func(w tree.Writer, h tree.Holder) { w.Hide(h) })
			case n < 94:
				both(func(w tree.Writer, h tree.Holder) { w.Show(h) })
			case n < 95:
				both(func(w tree.Writer, h tree.Holder) { w.Drop(h) })
				join()
			default:
				for x.Step() {
				}
			}
			if op%20 != 0 {
				continue
			}
			if err := x.Check(); err != nil {
				t.Fatalf("seed %d, op %d: %v", seed, op, err)
			}
			q := upTo(uint64(1 + r.IntN(30)))
			want := map[tree.Holder][tree.NumViews]uint32{}
			for _, d := range truth.Match(0, q) {
				want[d.Holder] = d.Units
			}
			deeper := ^uint32(0)
			for _, l := range levels.Levels(0, q) {
				if l.Units[tree.ViewAny] > deeper || len(l.Holders) == 0 {
					t.Fatalf("seed %d, op %d: a level of %d, with %d holders, behind one of %d", seed, op, l.Units[tree.ViewAny], len(l.Holders), deeper)
				}
				deeper = l.Units[tree.ViewAny]
				if len(l.Holders) > 64 {
					wide++
				}
				for _, h := range l.Holders {
					if w, ok := want[same[h]]; !ok || w != l.Units {
						t.Fatalf("seed %d, op %d: holder %d at %v, want %v (%v)", seed, op, h, l.Units, w, ok)
					}
					delete(want, same[h])
				}
			}
			if len(want) > 0 {
				t.Fatalf("seed %d, op %d: %v are missing", seed, op, want)
			}
		}
	}
	if wide == 0 {
		t.Error("no level had more holders than a word has bits")
	}
}
