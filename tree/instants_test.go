package tree_test

import (
	"iter"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// asked is a question that stops at its n-th pause, until it is finished.
type asked struct {
	next   func() (struct{}, bool)
	answer []tree.Depths
	pauses int
}

// ask begins a question and stops at pause n of its walk; ok is false if it has
// not so many.
func ask(x *tree.Index, query []uint64, n int) (a *asked, ok bool) {
	a = &asked{}
	var pause func(struct{}) bool
	stopped := false
	a.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		pause = yield
		a.answer = x.NewReader().Match(0, query)
	})
	x.Hook(nil, func() {
		if a.pauses++; a.pauses == n+1 {
			stopped = true
			pause(struct{}{})
		}
	})
	a.next()
	return a, stopped
}

func (a *asked) finish() []tree.Depths {
	for more := true; more; {
		_, more = a.next()
	}
	return a.answer
}

// Pitfall: a holder loses a block while it is hidden, and is shown: a walk that
// began before and ends while the holder is being shown has counted the block.
// No instant had it.
func TestShownUnderReader(t *testing.T) {
	for pause, more := 0, true; more; pause++ {
		for store, shown := 0, false; more && !shown; store++ { // where in the show it ends
			x := tree.New(tree.Options{Seed: 1})
			a := add(t, x)
			put(x, a, 0, 1, 2, 3, 4)
			x.Hide(a)
			q, ok := ask(x, []uint64{1, 2, 3, 4}, pause)
			if more = ok; !more {
				break
			}
			take(x, a, 4)
			put(x, a, 3, 5)
			shown = true
			left := store
			x.Hook(func() {
				if left--; left < 0 && shown {
					shown = false
					q.finish()
				}
			}, nil)
			x.Show(a)
			if n := anyOf(q.finish(), a); n != 0 && n != 3 {
				t.Errorf("pause %d, store %d: %d, was hidden, then 3", pause, store, n)
			}
			if shown && store < 2 {
				t.Fatalf("a show has only %d stores", store)
			}
		}
		if !more && pause < 3 {
			t.Fatalf("the walk has only %d pauses", pause)
		}
	}
}

// Pitfall: a run grows at its end, then a hole in front is filled, and a walk
// that saw the run short and the reach long stops in between.
func TestRunGrowsUnderReader(t *testing.T) {
	for pause := 0; ; pause++ {
		x := tree.New(tree.Options{Seed: 1})
		a := add(t, x)
		put(x, a, 0, 1, 2, 3)
		x.Place(tree.Owner{Holder: a, Tier: tree.Disk}, []uint64{1, 2}) // so that the lane stays of one kind
		take(x, a, 2)
		q, ok := ask(x, []uint64{1, 2, 3, 4}, pause)
		if !ok {
			if pause < 3 {
				t.Fatalf("the walk has only %d pauses", pause)
			}
			return
		}
		x.Hook(nil, nil)
		put(x, a, 3, 4)
		put(x, a, 1, 2)
		for _, d := range q.finish() {
			if n := d.Units[tree.ViewDevice]; n != 1 && n != 4 {
				t.Errorf("pause %d: %d on the device, was 1, then 4", pause, n)
			}
		}
	}
}

// Pitfall: a holder's side record goes to another holder between the two words
// that a walk reads of it.
func TestSideRecordRecycledUnderReader(t *testing.T) {
	var a, b tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1})
		a, b = add(t, x), add(t, x)
		put(x, a, 0, 1, 2, 3, 4)
		take(x, a, 2)
		put(x, b, 0, 11, 12, 13)
		return x, []uint64{1, 2, 3, 4}, func() {
			put(x, a, 1, 2) // without the hole nothing is left to say in a record
			x.Place(tree.Owner{Holder: b, Tier: tree.Host}, []uint64{11})
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		for _, d := range got {
			n := d.Units[tree.ViewAny]
			want := [tree.NumViews]uint32{tree.ViewDevice: n, tree.ViewAny: n, tree.ViewDeviceHost: n, tree.ViewExtension: n}
			if d.Holder != a || n != 1 && n != 4 || d.Units != want {
				t.Errorf("pause %d: %v, was 1, then 4, nothing on the host", pause, d)
			}
		}
	})
}

// Pitfall: a holder's own names move to a longer array, and the old one becomes
// another holder's, while a reader copies from it.
func TestNamesMoveUnderReader(t *testing.T) {
	for pause := 0; ; pause++ {
		x := tree.New(tree.Options{Seed: 1})
		shared, a, b := add(t, x), add(t, x), add(t, x)
		put(x, shared, 0, 1, 2, 3, 4, 5)
		store := func(h tree.Holder, first, parent uint64, contents ...uint64) {
			s := tree.Store{Span: 1, HasParent: parent != 0, Parent: parent}
			for i, c := range contents {
				s.Pairs = append(s.Pairs, first+uint64(i), c)
			}
			x.Store(tree.Owner{Holder: h}, &s)
		}
		store(a, 101, 0, 1, 2, 3, 4)
		r := x.NewReader()
		r.Match(0, []uint64{1, 2, 3, 4})
		left, met := pause, false
		x.Hook(nil, func() {
			if left--; left < 0 && !met {
				met = true
				store(a, 105, 104, 5)
				store(b, 201, 0, 1, 2, 3, 4)
			}
		})
		got := r.Names(nil, a, tree.ViewDevice, 4)
		if want := []uint64{101, 102, 103, 104}; len(got) > 0 && !slices.Equal(got, want) {
			t.Errorf("pause %d: the names are %v, were %v all along", pause, got, want)
		}
		if !met {
			if pause < 2 {
				t.Errorf("a reader of names has only %d pauses", pause)
			}
			return
		}
	}
}

// Pitfall: lanes move to a larger cell, which is seen before they are in it: a
// walk that comes by at any store of it finds who was there all along.
func TestCellGrowsAtEveryStore(t *testing.T) {
	for store, met := 0, true; met; store++ {
		x := tree.New(tree.Options{Seed: 1})
		var hs []tree.Holder
		for range 12 {
			hs = append(hs, add(t, x))
		}
		for _, h := range hs[:11] { // three inline, eight in the first cell
			put(x, h, 0, 1, 2, 3, 4)
		}
		met = false
		left := store
		x.Hook(func() {
			if left--; left >= 0 || met {
				return
			}
			met = true
			got := x.NewReader().Match(0, []uint64{1, 2, 3, 4})
			for _, h := range hs[:11] {
				if n := anyOf(got, h); n != 4 {
					t.Errorf("store %d: holder %d has %d, had 4 all along", store, h, n)
				}
			}
		}, nil)
		put(x, hs[11], 0, 1, 2, 3, 4)
		if !met && store < 3 {
			t.Fatalf("a larger cell has only %d stores", store)
		}
	}
}

// Pitfall: a device prefix grows under a walk that has gone on to the host: what
// it goes on with there may be gone, and is not needed any more.
func TestExtensionMovesUnderReader(t *testing.T) {
	var a tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1})
		a = add(t, x)
		host := tree.Owner{Holder: a, Tier: tree.Host}
		put(x, a, 0, 1, 2, 3, 4)
		put(x, a, 4, 5, 6)
		x.Place(host, []uint64{1, 2, 3, 4, 5, 6})
		take(x, a, 6, 5, 4)
		return x, []uint64{1, 2, 3, 4, 5, 6}, func() {
			put(x, a, 3, 4, 5, 6)
			x.Remove(host, []uint64{6, 5})
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		for _, d := range got {
			if n := d.Units[tree.ViewExtension]; n != 6 {
				t.Errorf("pause %d: the device and what follows on the host are %d, were 6 all along", pause, n)
			}
		}
	})
}

// Pitfall: the version moves before the figure: a walk that begins in between
// has the new version and the old figure, and finds nothing to look at again.
func TestVersionMovesBehindTheFigure(t *testing.T) {
	for store := 0; ; store++ { // of the removal: here a walk begins
		x := tree.New(tree.Options{Seed: 1})
		a := add(t, x)
		put(x, a, 0, 1, 2, 3, 4)
		put(x, a, 4, 5)
		var q *asked
		left := store
		x.Hook(func() {
			if left--; left < 0 && q == nil {
				q = &asked{} // the walk itself is let go to its second run
				q2, ok := ask(x, []uint64{1, 2, 3, 4, 5, 6}, 3)
				if q = q2; !ok {
					t.Errorf("store %d: the walk has no second run", store)
				}
			}
		}, nil)
		take(x, a, 1)
		if q == nil {
			if store < 2 {
				t.Fatalf("a removal has only %d stores", store)
			}
			return
		}
		x.Hook(nil, nil)
		put(x, a, 5, 6)
		if n := anyOf(q.finish(), a); n != 5 && n != 0 {
			t.Errorf("store %d: %d, was 5, then 0", store, n)
		}
	}
}

// Pitfall: a walk meets a lane of a holder that was dropped, and ends when the
// lane's id, free by then, has become another holder's. That one holds nothing.
func TestReusedUnderReader(t *testing.T) {
	for pause, more := 0, true; more; pause++ {
		x := tree.New(tree.Options{Seed: 1})
		a := add(t, x)
		put(x, a, 0, 1, 2, 3, 4)
		x.Drop(a)
		q, ok := ask(x, []uint64{1, 2, 3, 4}, pause)
		more = ok
		for x.Step() {
		}
		add(t, x)
		if got := q.finish(); len(got) > 0 {
			t.Errorf("pause %d: %v, nobody ever held anything while it was asked", pause, got)
		}
		if more {
			continue
		}
		if pause < 3 {
			t.Errorf("only %d pauses", pause)
		}
	}
}
