package maptree_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/perf/maptree"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

func newTree() tree.Interface { return maptree.New() }

// profiles are those a map tree plays: one TP shard, blocks of one unit. The
// last is mixed without what it does not do.
func profiles() (list []differ.Profile) {
	for _, p := range differ.Profiles() {
		switch p.Name {
		case "tp", "spans":
			continue
		case "mixed":
			p.Name, p.TP, p.Waits, p.Spans = "mixed-plain", 1, 0, 1
		}
		list = append(list, p)
	}
	return list
}

// TestDifferential compares the yardstick with the reference model: a ratio to
// something that answers wrongly says nothing.
func TestDifferential(t *testing.T) {
	list := profiles()
	if len(list) != len(differ.Profiles())-2 {
		t.Fatalf("%d profiles are left, want all but tp and spans", len(list))
	}
	for _, p := range list {
		for seed := uint64(1); seed <= 2; seed++ {
			t.Run(fmt.Sprintf("%s/%d", p.Name, seed), func(t *testing.T) {
				t.Parallel()
				n := 2000
				if testing.Short() || p.Name == "long" { // its ops are long instead
					n /= 4
				}
				f := differ.Run(t, newTree, p, seed, n, differ.Options{})
				if f.NamesGiven*100 < f.NamesHeld*99 {
					t.Errorf("only %d of %d names are given", f.NamesGiven, f.NamesHeld)
				}
			})
		}
	}
}

// TestRace lets readers at a tree that is written.
func TestRace(t *testing.T) {
	p := differ.RaceProfiles()[0]
	differ.Race(t, newTree, p, 1, differ.RaceOptions{Ops: 500, Cycles: 1})
}

// TestRefused is what a map tree does not do.
func TestRefused(t *testing.T) {
	ix := maptree.New()
	if _, err := ix.AddHolder(tree.Copies, 2); err == nil || !strings.Contains(err.Error(), "shards is 2, must be 1") {
		t.Errorf("two TP shards: error %v", err)
	}
	h, err := ix.AddHolder(tree.Copies, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := tree.Owner{Holder: h}
	if out := ix.Store(o, &tree.Store{Span: 2, Pairs: []uint64{1, 2, 3}}); out.Reason != tree.BadShape {
		t.Errorf("a block of two units: reason %d, want BadShape", out.Reason)
	}
	o.Shard = 1
	if out := ix.Store(o, &tree.Store{Span: 1, Pairs: []uint64{1, 2}}); out.Reason != tree.BadOwner {
		t.Errorf("a second TP shard: reason %d, want BadOwner", out.Reason)
	}
}

// TestWaitingIsBounded drops the oldest waiting blocks, as the index does.
func TestWaitingIsBounded(t *testing.T) {
	const bound = 1 << 16
	ix := maptree.New()
	h, err := ix.AddHolder(tree.Set, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := tree.Store{Span: 1, HasParent: true, Parent: 1, Pairs: make([]uint64, 2*(bound+3))}
	for i := range bound + 3 {
		s.Pairs[2*i], s.Pairs[2*i+1] = uint64(i+2), 7
	}
	out := ix.Store(tree.Owner{Holder: h}, &s)
	if out.Waiting != bound+3 || out.Dropped != 3 || ix.Stats().Waiting != bound {
		t.Errorf("%d blocks waited, %d were dropped, %d wait; want %d, 3, %d", out.Waiting, out.Dropped, ix.Stats().Waiting, bound+3, bound)
	}
	out = ix.Store(tree.Owner{Holder: h}, &tree.Store{Span: 1, Pairs: []uint64{1, 9}})
	if out.New != 1 || ix.Stats().Waiting != bound {
		t.Errorf("the parent came: %+v, %d wait; the children had been dropped, so want %d", out, ix.Stats().Waiting, bound)
	}
}
