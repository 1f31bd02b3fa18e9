package tree_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

// newIndex makes a seeded index, so that a failure comes back.
func newIndex() tree.Interface { return tree.New(tree.Options{Seed: 1}) }

func newEager() tree.Interface { return tree.New(tree.Options{Seed: 1}).Eager() }

// invariants checks what the index promises itself, and that one that is empty
// has nothing left.
func invariants(ix tree.Interface) error {
	x := ix.(*tree.Index)
	if st := x.Stats(); st.Residencies == 0 && st.Names == 0 && st.Waiting == 0 && st.Deferred == 0 {
		if left := x.Left(); len(left) > 0 {
			return fmt.Errorf("empty, but there are %v", left)
		}
	}
	return x.Check()
}

// TestDifferential drives the index and the reference model through the same
// random events and compares every answer. A failure prints the shortest list
// of ops that still fails.
func TestDifferential(t *testing.T) {
	seeds, ops := 4, 2000
	if raceDetector || testing.Short() {
		seeds, ops = 2, 400
	}
	for _, p := range differ.Profiles() {
		seeds := seeds
		if seeds > 1 && (p.Name == "mixed" || p.Name == "tp" || p.Name == "many") {
			seeds *= 3 // where most faults have been found
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			var given, held atomic.Int64
			t.Run("seed", func(t *testing.T) {
				for seed := 1; seed <= seeds; seed++ {
					t.Run(fmt.Sprint(seed), func(t *testing.T) {
						make := newIndex
						if seed%2 == 0 {
							make = newEager
						}
						f := differ.Run(t, make, p, uint64(seed), ops, differ.Options{Check: invariants, CheckEvery: 50, Counters: true})
						given.Add(int64(f.NamesGiven))
						held.Add(int64(f.NamesHeld))
					})
				}
			})
			// Names may be short, but not as a rule. Where blocks are longer than
			// a unit a reader gets none behind the first such block.
			if p.Spans == 1 && given.Load()*10 < held.Load()*namesFloor {
				t.Errorf("only %d of %d names are given", given.Load(), held.Load())
			}
			t.Logf("%d of %d names given", given.Load(), held.Load())
		})
	}
}

// namesFloor is the tenths of all names that an index must give at least.
const namesFloor = 3
