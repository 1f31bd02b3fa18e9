package tree_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// TestNothingIsLeftOver tells an index without room for more of blocks of which
// only the first bears a name that nobody knows: what it then refuses of the others
// must not stay where nobody holds it, and nobody would take it away.
func TestNothingIsLeftOver(t *testing.T) {
	for _, c := range []struct {
		name string
		// whose is who else calls a block by an event's last name.
		whose   string
		private bool // all A's names are its own
	}{
		{"another-holder's-name", "B", false},
		{"an-ancestor's-name", "A", false},
		{"a-private-holder's-name", "A", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var trims int
			for seed := range uint64(8) {
				trims += leftOver(t, seed, c.whose == "A", c.private)
			}
			if trims == 0 {
				t.Error("no event ended in a name that is known while the index was tight")
			}
		})
	}
}

// leftOver grows a chain of one holder, which now and then uses a name of its own
// once more or one of another holder's, until the budget is spent and beyond; then
// all is removed.
func leftOver(t *testing.T, seed uint64, own, private bool) (trims int) {
	t.Helper()
	const soft = (2 << 20) / 8 * 7
	r := rand.New(rand.NewPCG(seed, 11))
	x := tree.New(tree.Options{Seed: seed, Bytes: 2 << 20})
	a, err := x.AddHolder(tree.Set, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x.AddHolder(tree.Set, 1)
	if err != nil {
		t.Fatal(err)
	}
	oa, ob := tree.Owner{Holder: a}, tree.Owner{Holder: b}
	const others = 500 // names 1 … 500 are B's
	st := tree.Store{Span: 1}
	for n := range uint64(others) {
		st.Pairs = append(st.Pairs, n+1, n+1<<40)
	}
	x.Store(ob, &st)
	told := []uint64(nil) // A's
	if private {
		same := tree.Store{Span: 1}
		for n := range uint64(others) {
			told = append(told, n+1<<30)
			same.Pairs = append(same.Pairs, told[n], n+1<<40)
		}
		x.Store(oa, &same)
	}
	content := uint64(1 << 50)
	for next, refused := uint64(1000), 0; refused < 40 && next < 200_000; {
		s := tree.Store{Span: 1, HasParent: len(told) > 0}
		if s.HasParent {
			s.Parent = told[len(told)-1]
		}
		n := 1 + r.IntN(30)
		for range n {
			content++
			next++
			s.Pairs = append(s.Pairs, next, content)
		}
		if r.IntN(60) == 0 && n > 1 {
			last := 1 + r.Uint64N(others)
			if own && len(told) > 0 && x.Stats().Bytes > 1950<<10 {
				last = told[r.IntN(len(told))]
			}
			s.Pairs[2*n-2] = last
			if x.Stats().Bytes > soft {
				trims++
			}
		}
		out := x.Store(oa, &s)
		for i := range n {
			told = append(told, s.Pairs[2*i])
		}
		if out.Refused > 0 {
			refused++
			if err := x.Check(); err != nil {
				t.Fatalf("seed %d, %d names, %d refused: %v", seed, len(told), out.Refused, err)
			}
			told = told[:len(told)-out.Refused]
			for range 1 + r.IntN(4) { // room for a little more
				if len(told) > 1 {
					x.Remove(oa, told[len(told)-1:])
					told = told[:len(told)-1]
				}
			}
		}
	}
	if err := x.Check(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for len(told) > 0 {
		k := min(len(told), 30)
		x.Remove(oa, told[len(told)-k:])
		told = told[:len(told)-k]
	}
	x.Drop(a)
	x.Drop(b)
	for x.Step() {
	}
	if err := x.Check(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if st := x.Stats(); st.Runs+st.Names+st.Links+st.Residencies != 0 {
		t.Fatalf("seed %d: nobody holds anything, and there are %+v", seed, st)
	}
	return trims
}
