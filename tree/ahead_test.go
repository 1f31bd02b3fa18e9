package tree_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

// foretold is an index that is told of events ahead: of those that come, of
// some that came long ago, and of some that never will.
type foretold struct {
	*tree.Index
	r      *rand.Rand
	past   []tree.Store
	pasted [][]uint64
	owners []tree.Owner // of events so far
}

func newForetold() tree.Interface {
	return &foretold{Index: tree.New(tree.Options{Seed: 1}), r: rand.New(rand.NewPCG(1, 2))}
}

var _ tree.Foreseer = (*foretold)(nil)

func (f *foretold) Store(o tree.Owner, s *tree.Store) tree.Outcome {
	f.owners = append(f.owners, o)
	for range f.r.IntN(3) {
		f.Coming(f.owner(o), s)
	}
	f.gossip()
	kept := *s
	kept.Pairs = slices.Clone(s.Pairs)
	f.past = append(f.past, kept)
	return f.Index.Store(o, s)
}

func (f *foretold) Remove(o tree.Owner, names []uint64) tree.Outcome {
	for range f.r.IntN(3) {
		f.ComingRemove(f.owner(o), names)
	}
	f.gossip()
	f.pasted = append(f.pasted, slices.Clone(names))
	return f.Index.Remove(o, names)
}

// owner is mostly one, and now and then another one, or nobody.
func (f *foretold) owner(o tree.Owner) tree.Owner {
	switch f.r.IntN(6) {
	case 0:
		return tree.Owner{Holder: tree.Holder(f.r.Uint32())}
	case 1:
		if len(f.owners) > 0 {
			return f.owners[f.r.IntN(len(f.owners))]
		}
	}
	return o
}

// gossip tells of what will not come.
func (f *foretold) gossip() {
	for range f.r.IntN(4) {
		switch n := f.r.IntN(4); {
		case n == 0 && len(f.past) > 0:
			f.Coming(f.owner(tree.Owner{}), &f.past[f.r.IntN(len(f.past))])
		case n == 1 && len(f.pasted) > 0:
			f.ComingRemove(f.owner(tree.Owner{}), f.pasted[f.r.IntN(len(f.pasted))])
		case n == 2:
			f.Coming(f.owner(tree.Owner{}), &tree.Store{Span: f.r.IntN(4), Root: tree.Root(f.r.Uint32()), HasParent: f.r.IntN(2) == 0, Parent: f.r.Uint64(), Pairs: make([]uint64, f.r.IntN(5))})
		default:
			f.ComingRemove(f.owner(tree.Owner{}), []uint64{f.r.Uint64()})
		}
	}
}

// TestForesight compares an index that is told of events, rightly and wrongly,
// with the model.
func TestForesight(t *testing.T) {
	ops := 2000
	if raceDetector || testing.Short() {
		ops = 400
	}
	check := func(ix tree.Interface) error { return invariants(ix.(*foretold).Index) }
	for _, p := range differ.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			differ.Run(t, newForetold, p, 7, ops, differ.Options{Check: check, CheckEvery: 50, Counters: true})
		})
	}
}

// TestRepeatedNames has a name twice in events of all sizes, at all distances.
func TestRepeatedNames(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{2, 3, 6, 7, 24, 25, 160, 161, 1024, 1025, 3000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			x := tree.New(tree.Options{})
			h := add(t, x)
			pairs := make([]uint64, 2*n)
			for i := range pairs {
				pairs[i] = r.Uint64()
			}
			for range 50 {
				i, k := r.IntN(n), r.IntN(n-1)
				if k >= i {
					k++
				}
				twice := slices.Clone(pairs)
				twice[2*i] = twice[2*k]
				if out := x.Store(tree.Owner{Holder: h}, &tree.Store{Span: 1, Pairs: twice}); out != (tree.Outcome{Reason: tree.DuplicateName}) {
					t.Fatalf("names %d and %d of %d are one: %+v", i, k, n, out)
				}
				if out := x.Store(tree.Owner{Holder: h}, &tree.Store{Span: 1, HasParent: true, Parent: pairs[2*i], Pairs: pairs}); out != (tree.Outcome{Reason: tree.SelfParent}) {
					t.Fatalf("name %d of %d is the parent: %+v", i, n, out)
				}
			}
			if out := x.Store(tree.Owner{Holder: h}, &tree.Store{Span: 1, Pairs: pairs}); out != (tree.Outcome{New: n}) {
				t.Fatalf("%d names, each once: %+v", n, out)
			}
		})
	}
}
