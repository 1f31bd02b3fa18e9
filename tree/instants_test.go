package tree_test

import (
	"iter"
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
	for pause := 0; ; pause++ {
		x := tree.New(tree.Options{Seed: 1})
		a := add(t, x)
		put(x, a, 0, 1, 2, 3, 4)
		x.Hide(a)
		q, ok := ask(x, []uint64{1, 2, 3, 4}, pause)
		if !ok {
			if pause < 3 {
				t.Fatalf("the walk has only %d pauses", pause)
			}
			return
		}
		take(x, a, 4)
		put(x, a, 3, 5)
		x.Hook(func() { q.finish() }, nil) // between any two stores of the show
		x.Show(a)
		if n := anyOf(q.finish(), a); n != 0 && n != 3 {
			t.Errorf("pause %d: %d, was hidden, then 3", pause, n)
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
