package tree_test

import (
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// during runs change once, at the n-th pause of a walk, and gives the answer.
// n is raised until the walk has no such pause: so the change is tried at every
// place where a reader can be overtaken.
func during(t *testing.T, setup func() (x *tree.Index, query []uint64, change func()), judge func(t *testing.T, pause int, got []tree.Depths)) {
	t.Helper()
	for pause := 0; ; pause++ {
		x, query, change := setup()
		left, done := pause, false
		x.Hook(nil, func() {
			if left == 0 && !done {
				done = true
				change()
			}
			left--
		})
		got := x.NewReader().Match(0, query)
		if !done {
			if pause < 3 {
				t.Fatalf("the walk has only %d pauses", pause)
			}
			return
		}
		judge(t, pause, got)
	}
}

func add(t *testing.T, x *tree.Index) tree.Holder {
	t.Helper()
	h, err := x.AddHolder(tree.Copies, 1)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// put stores contents with equal names behind a parent, 0 for none.
func put(x *tree.Index, h tree.Holder, parent uint64, contents ...uint64) {
	s := tree.Store{Span: 1, HasParent: parent != 0, Parent: parent}
	for _, c := range contents {
		s.Pairs = append(s.Pairs, c, c)
	}
	x.Store(tree.Owner{Holder: h}, &s)
}

func take(x *tree.Index, h tree.Holder, names ...uint64) {
	x.Remove(tree.Owner{Holder: h}, names)
}

func anyOf(got []tree.Depths, h tree.Holder) uint32 {
	for _, d := range got {
		if d.Holder == h {
			return d.Units[tree.ViewAny]
		}
	}
	return 0
}

// Pitfall: a run is freed and comes back as another path's while a reader has
// compared its contents but not yet read its lanes.
func TestRunRecycledUnderReader(t *testing.T) {
	var a, b tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1})
		a, b = add(t, x), add(t, x)
		put(x, a, 0, 1, 2, 3, 4)
		return x, []uint64{1, 2, 3, 4}, func() {
			take(x, a, 4, 3, 2, 1)
			put(x, b, 0, 11, 12, 13, 14)
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		if n := anyOf(got, b); n != 0 {
			t.Errorf("pause %d: the holder of another path has %d", pause, n)
		}
		if n := anyOf(got, a); n != 0 && n != 4 {
			t.Errorf("pause %d: %d, was 4 or 0", pause, n)
		}
	})
}

// Pitfall: the memory of runs, of their lanes and side records goes to other kinds
// while a reader is in them, and perhaps comes back, as other runs'.
func TestMemoryGivenBackUnderReader(t *testing.T) {
	const holders = 6 // some lanes lie outside the header
	for _, after := range []struct {
		name string
		put  func(x *tree.Index, a, b tree.Holder)
		want uint32 // of a then
	}{
		{"nothing", func(*tree.Index, tree.Holder, tree.Holder) {}, 0},
		{"shorter", func(x *tree.Index, a, _ tree.Holder) { put(x, a, 0, 1, 2, 3, 4) }, 4},
		{"forks", func(x *tree.Index, a, b tree.Holder) {
			put(x, b, 0, 1, 2, 3, 4)
			put(x, b, 4, 15, 16)
			put(x, a, 0, 1, 2, 3)
		}, 3},
		{"another path", func(x *tree.Index, _, b tree.Holder) { put(x, b, 0, 11, 12, 13, 14); put(x, b, 14, 15, 16, 17, 18) }, 0},
	} {
		t.Run(after.name, func(t *testing.T) {
			var a, b tree.Holder
			during(t, func() (*tree.Index, []uint64, func()) {
				x := tree.New(tree.Options{Seed: 1, Bytes: 2 << 20})
				b = add(t, x)
				chain := func(all []tree.Holder, c uint64) {
					for _, h := range all {
						put(x, h, 0, c+1, c+2, c+3, c+4)
						put(x, h, c+4, c+5, c+6, c+7, c+8)
						x.Store(tree.Owner{Holder: h, Tier: tree.Host}, &tree.Store{Span: 1, Pairs: []uint64{c + 1, c + 1, c + 2, c + 2}})
					}
				}
				var stay, all []tree.Holder
				for range holders {
					stay, all = append(stay, add(t, x)), append(all, add(t, x))
				}
				a = all[0]
				for k := range uint64(150) { // what is asked for lies between what goes with it
					switch {
					case k < 50:
						chain(stay, 1000+10*k)
					case k == 100:
						chain(all, 0)
					default:
						chain(all, 1000+10*k)
					}
				}
				return x, []uint64{1, 2, 3, 4, 5, 6, 7, 8}, func() {
					for _, h := range all {
						x.Clear(h)
					}
					for x.Step() {
					}
					if !x.GiveBack() {
						t.Fatal("nothing was given back")
					}
					after.put(x, a, b)
				}
			}, func(t *testing.T, pause int, got []tree.Depths) {
				if n := anyOf(got, b); n != 0 && after.name != "forks" || n > 4 {
					t.Errorf("pause %d: the holder of another path has %d", pause, n)
				}
				if n := anyOf(got, a); n != 8 && n != after.want {
					t.Errorf("pause %d: %d, was 8 or %d", pause, n, after.want)
				}
			})
		})
	}
}

// Pitfall: a holder is cleared and its lane id goes to another holder while a
// reader carries it.
func TestLaneIDRecycledUnderReader(t *testing.T) {
	var a, b tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1})
		a = add(t, x)
		put(x, a, 0, 1, 2, 3, 4)
		return x, []uint64{1, 2, 3, 4}, func() {
			x.Drop(a)
			for x.Step() {
			}
			b = add(t, x)
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		if n := anyOf(got, b); n != 0 {
			t.Errorf("pause %d: a new holder without blocks has %d", pause, n)
		}
	})
}

// Pitfall: the root block goes first, then all behind it, and a reader that saw
// the first run whole finds no child: the holder never had just the first run.
func TestRootRemovedBeforeChildVanishes(t *testing.T) {
	var a tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1})
		a = add(t, x)
		put(x, a, 0, 1, 2, 3, 4)
		put(x, a, 4, 5)
		return x, []uint64{1, 2, 3, 4, 5}, func() {
			take(x, a, 1)
			take(x, a, 5)
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		if n := anyOf(got, a); n != 5 && n != 0 {
			t.Errorf("pause %d: %d, was 5 then 0", pause, n)
		}
	})
}

// Pitfall: a tail goes, a block behind the hole comes, and a reader that saw
// the tail counts both.
func TestHoleUnderReader(t *testing.T) {
	var a tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1})
		a = add(t, x)
		put(x, a, 0, 1, 2, 3, 4)
		put(x, a, 4, 5, 6)
		take(x, a, 6)
		return x, []uint64{1, 2, 3, 4, 5, 6}, func() {
			take(x, a, 4)
			put(x, a, 5, 6)
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		if n := anyOf(got, a); n != 5 && n != 3 {
			t.Errorf("pause %d: %d, was 5 then 3", pause, n)
		}
	})
}

// Pitfall: both tiers missed during a move. The union is one figure.
func TestMoveBetweenTiersUnderReader(t *testing.T) {
	var a tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1})
		a = add(t, x)
		put(x, a, 0, 1, 2, 3, 4)
		put(x, a, 4, 5, 6)
		return x, []uint64{1, 2, 3, 4, 5, 6}, func() {
			x.Place(tree.Owner{Holder: a, Tier: tree.Host}, []uint64{1, 2, 3, 4, 5, 6})
			take(x, a, 6, 5, 4, 3, 2, 1)
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		if n := anyOf(got, a); n != 6 {
			t.Errorf("pause %d: any tier %d, was 6 all along", pause, n)
		}
	})
}

// Pitfall: a holder missed while lanes move to a larger cell.
func TestCellGrowsUnderReader(t *testing.T) {
	var hs []tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1})
		hs = hs[:0]
		for range 60 {
			hs = append(hs, add(t, x))
		}
		for _, h := range hs[:11] { // three inline, eight in the first cell
			put(x, h, 0, 1, 2, 3, 4)
		}
		return x, []uint64{1, 2, 3, 4}, func() {
			for _, h := range hs[11:] {
				put(x, h, 0, 1, 2, 3, 4)
			}
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		for _, h := range hs[:11] {
			if n := anyOf(got, h); n != 4 {
				t.Errorf("pause %d: holder %d has %d, had 4 all along", pause, h, n)
			}
		}
	})
}

// The writer stops for good inside every multi-step change, at each of its
// steps; readers answer all the same.
func TestReadersWaitForNobody(t *testing.T) {
	for step := 0; ; step++ {
		x := tree.New(tree.Options{Seed: 1})
		var hs []tree.Holder
		for range 14 {
			hs = append(hs, add(t, x))
		}
		left, stopped := step, false
		r := x.NewReader()
		x.Hook(func() {
			if left == 0 {
				stopped = true
				for _, q := range [][]uint64{{1, 2, 3, 4, 5, 6}, {1, 2, 9}, {7}} {
					for _, d := range r.Match(0, q) {
						if d.Units[tree.ViewAny] > uint32(len(q)) {
							t.Errorf("step %d: %v", step, d)
						}
						r.Names(nil, d.Holder, tree.ViewAny, len(q))
					}
				}
			}
			left--
		}, nil)
		for _, h := range hs {
			put(x, h, 0, 1, 2, 3, 4, 5, 6)
			put(x, h, 2, 9)
			x.Place(tree.Owner{Holder: h, Tier: tree.Host}, []uint64{1, 2, 3})
		}
		for _, h := range hs[1:] {
			take(x, h, 3)
			take(x, h, 9, 6, 5, 4, 2, 1)
		}
		x.Clear(hs[0])
		for x.Step() {
		}
		x.Hide(hs[1])
		x.Show(hs[1])
		if !stopped {
			if step < 100 {
				t.Fatalf("only %d steps", step)
			}
			return
		}
	}
}

// Pitfall: the last child of a run ends, and with it the path to it, which nobody
// holds any more; its place is used again under a walk that has compared it.
func TestPathTrimmedUnderReader(t *testing.T) {
	var h tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1})
		g := add(t, x)
		put(x, g, 0, upTo(8)...)
		put(x, g, 8, 9) // another run: the first is full
		h = add(t, x)
		put(x, h, 0, 1, 2, 3)
		take(x, g, 4, 5, 6, 7, 8) // all of it is only the path to 9
		return x, upTo(8), func() {
			take(x, g, 9)
			put(x, h, 3, 14, 15, 16)
			if err := x.Check(); err != nil {
				t.Error(err)
			}
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		if n := anyOf(got, h); n != 3 {
			t.Errorf("pause %d: %d of a holder that has 3 of this prompt all along", pause, n)
		}
	})
}

// A walk goes on, whatever ends behind runs on its way: a prompt that everybody
// begins with has such an end all the time.
func TestNoWalkBeginsAgainForAnothersEnd(t *testing.T) {
	var h tree.Holder
	var x *tree.Index
	during(t, func() (*tree.Index, []uint64, func()) {
		x = tree.New(tree.Options{Seed: 1})
		h = add(t, x)
		put(x, h, 0, upTo(8)...)
		put(x, h, 8, 9)
		put(x, h, 8, 39) // else the runs before 9 would become one with it
		g := add(t, x)
		put(x, g, 0, upTo(8)...)
		put(x, g, 8, 19, 20)
		cleared := add(t, x)
		put(x, cleared, 0, upTo(8)...)
		return x, upTo(9), func() {
			take(x, g, 20, 19)
			x.Drop(cleared)
			for x.Step() {
			}
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		if n := anyOf(got, h); n != 9 || x.Stats().Retries > 0 {
			t.Errorf("pause %d: %d, want 9; begun again %d times", pause, n, x.Stats().Retries)
		}
	})
}
