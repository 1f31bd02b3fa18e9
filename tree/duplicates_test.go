package tree_test

import (
	"fmt"
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// TestDuplicates refuses events of every length in which a name is there twice,
// or the parent, wherever they are; and no others.
func TestDuplicates(t *testing.T) {
	for _, n := range []int{1, 2, 6, 7, 8, 31, 64, 65, 1000, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			x := tree.New(tree.Options{Seed: 1})
			h, err := x.AddHolder(tree.Copies, 1)
			if err != nil {
				t.Fatal(err)
			}
			next, parent := uint64(1<<40), uint64(1<<40)
			try := func(hasParent bool, change func(pairs []uint64), want tree.Reason) {
				t.Helper()
				pairs := make([]uint64, 2*n)
				for i := range n {
					next++
					pairs[2*i], pairs[2*i+1] = next, next
				}
				change(pairs)
				out := x.Store(tree.Owner{Holder: h}, &tree.Store{Span: 1, HasParent: hasParent, Parent: parent, Pairs: pairs})
				if out.Reason != want || out.New > 0 && want != tree.Accepted || out.New != n && want == tree.Accepted {
					t.Fatalf("%+v, want %v", out, want)
				}
				if want == tree.Accepted {
					parent = next
				}
			}
			try(false, func([]uint64) {}, tree.Accepted)
			for i := 0; i < n; i = i*3/2 + 1 {
				try(true, func([]uint64) {}, tree.Accepted)
				try(true, func(p []uint64) { p[2*i] = parent }, tree.SelfParent)
				for k := 0; k < i; k = k*2 + 1 {
					try(i%2 == 0, func(p []uint64) { p[2*i] = p[2*k] }, tree.DuplicateName)
				}
				if i >= 2 {
					try(true, func(p []uint64) { p[2], p[2*i] = p[0], parent }, tree.SelfParent)
					try(false, func(p []uint64) { p[2*i] = parent }, tree.Accepted)
				}
			}
		})
	}
}
