package tree_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// BenchmarkWalk asks for a prompt that ends behind one run of 32 blocks, where many
// others go on, or passes five runs of 100: with all of it in the cache; behind other
// work, that has taken the near caches; and behind that with the code of a walk back
// in them. It reports what a fifth of the walks take at most: machines that others
// use are slow for a while, not quick.
func BenchmarkWalk(b *testing.B) {
	for _, shape := range []struct {
		name          string
		runs, blocks  int
		holders, kids int // holders of all; what else goes on from each run
	}{
		{"one-run", 1, 32, 8, 20_000},
		{"five-runs", 5, 100, 6, 1},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		x := tree.New(tree.Options{Seed: 1})
		prompt := grow(b, x, r, shape.runs, shape.blocks, shape.holders, shape.kids)
		small := tree.New(tree.Options{Seed: 1})
		same := grow(b, small, r, shape.runs, shape.blocks, shape.holders, 1)
		for _, before := range []string{"cached", "cold", "cold-but-for-the-code"} {
			b.Run(shape.name+"/"+before, func(b *testing.B) {
				reader, other := x.NewReader().(tree.LevelReader), small.NewReader().(tree.LevelReader)
				const walks = 100 // measured together where nothing comes between
				var took []time.Duration
				work := make([]uint64, 3<<20/16)
				for b.Loop() {
					n := 1
					if before == "cached" {
						n = walks
					} else {
						for i := 0; i < len(work); i += 8 {
							work[i]++
						}
						prompt[len(prompt)-1] = r.Uint64() // another child is not there
						for i, c := range prompt {         // whoever made it has had it near
							work[i%8] += c
						}
					}
					if before == "cold-but-for-the-code" {
						other.Levels(0, same)
					}
					from := time.Now()
					for range n {
						reader.Levels(0, prompt)
					}
					took = append(took, time.Since(from)/time.Duration(n))
				}
				slices.Sort(took)
				b.ReportMetric(0, "ns/op") // of the work as well: says nothing
				b.ReportMetric(float64(took[len(took)/5]), "ns/walk")
			})
		}
	}
}

// grow gives holders a chain of runs, and behind each of them kids other blocks to
// one of them. It returns a prompt that is the chain and one block more.
func grow(b *testing.B, x *tree.Index, r *rand.Rand, runs, blocks, holders, kids int) (prompt []uint64) {
	b.Helper()
	all := make([]tree.Owner, holders)
	for i := range all {
		h, err := x.AddHolder(tree.Copies, 1)
		if err != nil {
			b.Fatal(err)
		}
		all[i].Holder = h
	}
	name := uint64(0)
	for k := range runs {
		st := tree.Store{Span: 1, HasParent: k > 0, Parent: name}
		for range blocks {
			name++
			prompt = append(prompt, r.Uint64())
			st.Pairs = append(st.Pairs, name, prompt[len(prompt)-1])
		}
		for _, o := range all {
			x.Store(o, &st)
		}
		for i := range kids {
			x.Store(all[i%holders], &tree.Store{Span: 1, HasParent: true, Parent: name, Pairs: []uint64{uint64(k+1)<<32 | uint64(i), r.Uint64()}})
		}
	}
	return append(prompt, r.Uint64())
}
