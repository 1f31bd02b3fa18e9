package tree_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
)

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
				if l.Units[tree.ViewAny] > deeper || l.Len() == 0 {
					t.Fatalf("seed %d, op %d: a level of %d, with %d holders, behind one of %d", seed, op, l.Units[tree.ViewAny], l.Len(), deeper)
				}
				deeper = l.Units[tree.ViewAny]
				if l.Len() > 64 {
					wide++
				}
				listed := l.Append(nil)
				if n := len(listed); n != l.Len() {
					t.Fatalf("seed %d, op %d: %d holders in a level of %d", seed, op, n, l.Len())
				}
				for h := range l.All() {
					if h != listed[0] {
						t.Fatalf("seed %d, op %d: holder %d where Append has %d", seed, op, h, listed[0])
					}
					listed = listed[1:]
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

// A lane id that has another holder now must not be told as the old one's, by a
// reader that noted whose it was before, or in the midst of the change.
func TestLevelsKnowWhoseAnIdIs(t *testing.T) {
	for pause := 0; ; pause++ {
		x := tree.New(tree.Options{Seed: 1})
		var holders []tree.Holder
		join := func() {
			h := add(t, x)
			put(x, h, 0, 1, 2)
			holders = append(holders, h)
		}
		for range 200 {
			join()
		}
		r := x.NewReader().(tree.LevelReader)
		told := func() (all []tree.Holder) {
			for _, l := range r.Levels(0, []uint64{1, 2}) {
				all = l.Append(all)
			}
			slices.Sort(all)
			return all
		}
		told()
		x.Drop(holders[100])
		holders = slices.Delete(holders, 100, 101)
		for x.Step() {
		}
		left := pause
		x.Hook(func() {
			if left == 0 {
				for _, h := range told() {
					if len(holders) == 199 && !slices.Contains(holders, h) {
						t.Errorf("pause %d: holder %d, who is not there or has nothing yet", pause, h)
					}
				}
			}
			left--
		}, nil)
		h := add(t, x)
		x.Hook(nil, nil)
		put(x, h, 0, 1, 2)
		holders = append(holders, h)
		slices.Sort(holders)
		if got := told(); !slices.Equal(got, holders) {
			t.Fatalf("pause %d: %d holders, want %d, the new one among them: %v", pause, len(got), len(holders), slices.Contains(got, h))
		}
		if left >= 0 {
			if pause < 3 {
				t.Fatalf("the change has only %d pauses", pause)
			}
			return
		}
	}
}

// A warm reader makes nothing for the heap, whatever form its levels have.
func TestLevelsAllocateNothing(t *testing.T) {
	x := tree.New(tree.Options{})
	for range 300 {
		put(x, add(t, x), 0, 1, 2)
	}
	r := x.NewReader().(tree.LevelReader)
	var dst []tree.Holder
	n := 0
	query := []uint64{1, 2, 3}
	ask := func() {
		dst = dst[:0]
		for _, l := range r.Levels(0, query) {
			dst = l.Append(dst)
			for range l.All() {
				n++
			}
		}
	}
	ask()
	if got := testing.AllocsPerRun(100, ask); got > 0 || len(dst) != 300 {
		t.Errorf("%v allocations for %d holders", got, len(dst))
	}
}

// BenchmarkLevels asks for a prompt that all have and reads the holders out: what
// the answer costs as a set, and what it costs to list.
func BenchmarkLevels(b *testing.B) {
	for _, holders := range []int{8, 128, 1000, 7000} {
		x := tree.New(tree.Options{})
		for range holders {
			h, err := x.AddHolder(tree.Copies, 1)
			if err != nil {
				b.Fatal(err)
			}
			put(x, h, 0, 1, 2)
		}
		r, query := x.NewReader().(tree.LevelReader), []uint64{1, 2, 3}
		b.Run(fmt.Sprintf("holders=%d/set", holders), func(b *testing.B) {
			for b.Loop() {
				r.Levels(0, query)
			}
		})
		b.Run(fmt.Sprintf("holders=%d/listed", holders), func(b *testing.B) {
			var dst []tree.Holder
			for b.Loop() {
				dst = dst[:0]
				for _, l := range r.Levels(0, query) {
					dst = l.Append(dst)
				}
			}
			if len(dst) != holders {
				b.Fatalf("%d holders", len(dst))
			}
		})
		b.Run(fmt.Sprintf("holders=%d/depths", holders), func(b *testing.B) {
			for b.Loop() {
				r.Match(0, query)
			}
		})
	}
}
