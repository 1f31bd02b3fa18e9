package tree_test

import (
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// TestTablesAreGivenBack takes nineteen of twenty prompts out of an index that
// was large: its tables become small by and by, what is left is there, and what
// comes back finds its place.
func TestTablesAreGivenBack(t *testing.T) {
	const prompts, kept = 20_000, 20
	x := tree.New(tree.Options{Seed: 1})
	a, b := tree.Owner{Holder: add(t, x)}, tree.Owner{Holder: add(t, x)}
	// Of each prompt a has two blocks, b the same under names of its own, one of
	// them twice.
	events := func(p uint64) (st, own tree.Store) {
		st.Span, own.Span = 1, 1
		for i := range uint64(2) {
			st.Pairs = append(st.Pairs, name(2*p+i), p<<1|i)
			own.Pairs = append(own.Pairs, ^name(2*p+i), p<<1|i)
		}
		return st, own
	}
	fill := func(p uint64) {
		st, own := events(p)
		x.Store(a, &st)
		x.Store(b, &own)
		own.Pairs = own.Pairs[:2]
		x.Store(b, &own)
	}
	r := x.NewReader()
	whole := func(p uint64) bool {
		got := r.Match(0, []uint64{p << 1, p<<1 | 1})
		return anyOf(got, a.Holder) == 2 && anyOf(got, b.Holder) == 2
	}
	for p := range uint64(prompts) {
		fill(p)
	}
	large := x.Tables()
	for p := range uint64(prompts) {
		if p%kept == 0 {
			continue
		}
		st, own := events(p)
		x.Remove(a, []uint64{st.Pairs[2], st.Pairs[0]})
		x.Remove(b, []uint64{own.Pairs[2], own.Pairs[0], own.Pairs[0]})
	}
	if err := x.Check(); err != nil {
		t.Fatal(err)
	}
	small := x.Tables()
	if small*4 > large {
		t.Errorf("tables of %d bytes have %d left with a twentieth of what was in them", large, small)
	}
	for p := uint64(0); p < prompts; p += kept {
		if !whole(p) {
			t.Fatalf("prompt %d is not whole", p)
		}
	}
	for p := range uint64(prompts) {
		if p%kept != 0 {
			fill(p)
		}
		if !whole(p) {
			t.Fatalf("prompt %d is not whole after it came back", p)
		}
	}
	if err := x.Check(); err != nil {
		t.Fatal(err)
	}
	if again := x.Tables(); again > large*5/4 {
		t.Errorf("the tables take %d bytes for what took %d", again, large)
	}
	t.Logf("%d bytes of tables, %d with a twentieth, %d in use", large, small, x.Tables())
}

// TestChildTableShrinksUnderReader has the child table made smaller at every
// pause of a walk, and a walk at many a pause of the writer that makes it so: a
// prompt of several runs that nobody touches is whole all the time.
func TestChildTableShrinksUnderReader(t *testing.T) {
	const others = 4000
	var h tree.Holder
	query := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	setup := func() *tree.Index {
		x := tree.New(tree.Options{Seed: 1})
		h = add(t, x)
		for i := 0; i < len(query); i += 4 {
			put(x, h, uint64(i), query[i:i+4]...)
		}
		for i := range uint64(others) {
			put(x, h, 0, 1000+i)
		}
		return x
	}
	shrink := func(x *tree.Index) {
		large := x.Tables()
		for i := range uint64(others) {
			take(x, h, 1000+i)
		}
		if small := x.Tables(); small >= large {
			t.Errorf("%d bytes of tables, %d before", small, large)
		}
	}
	during(t, func() (*tree.Index, []uint64, func()) {
		x := setup()
		return x, query, func() { shrink(x) }
	}, func(t *testing.T, pause int, got []tree.Depths) {
		if n := anyOf(got, h); n != uint32(len(query)) {
			t.Errorf("pause %d: %d of %d", pause, n, len(query))
		}
	})
	x := setup()
	r, stops := x.NewReader(), 0
	x.Hook(func() {
		if stops++; stops%64 == 0 {
			if n := anyOf(r.Match(0, query), h); n != uint32(len(query)) {
				t.Errorf("stop %d of the writer: %d of %d", stops, n, len(query))
			}
		}
	}, nil)
	shrink(x)
	if stops < others {
		t.Errorf("the writer stopped %d times", stops)
	}
}

// TestChainOfLittleEvents grows a long chain block by block: it has few runs, and
// the last of them does not waste much.
func TestChainOfLittleEvents(t *testing.T) {
	x := tree.New(tree.Options{Seed: 1})
	h := add(t, x)
	for i := range uint64(8900) {
		put(x, h, i, i+1)
	}
	if st := x.Stats(); st.Runs > 40 {
		t.Errorf("%d runs", st.Runs)
	}
}

// TestDeadTailsAreGivenBack has the ends of long prompts evicted: what is left
// of them moves together, so that as many prompts find room where they were.
func TestDeadTailsAreGivenBack(t *testing.T) {
	const prompts, length, left = 100, 2000, 100
	x := tree.New(tree.Options{Seed: 1})
	a, b := add(t, x), add(t, x)
	for p := range uint64(prompts) {
		put(x, a, 0, series(p<<32+1, length)...)
	}
	large := x.Stats().Bytes
	for p := range uint64(prompts) {
		for end := uint64(length); end > left; end -= left {
			take(x, a, backwards(series(p<<32+1+end-left, left))...)
		}
	}
	for range prompts {
		x.Step()
	}
	r := x.NewReader()
	var names []uint64
	for p := range uint64(prompts) {
		n := anyOf(r.Match(0, series(p<<32+1, length)), a)
		names = r.Names(names[:0], a, tree.ViewAny, int(n))
		if n != left || !slices.Equal(names, series(p<<32+1, left)) {
			t.Fatalf("prompt %d: %d blocks, %d names, want %d", p, n, len(names), left)
		}
	}
	for p := range uint64(prompts) {
		put(x, b, 0, series((prompts+p)<<32+1, length)...)
	}
	if again := x.Stats().Bytes; again > large*5/4 {
		t.Errorf("%d bytes for %d prompts, %d when what is left of others is there", large, prompts, again)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
	for p := range uint64(prompts) {
		take(x, a, backwards(series(p<<32+1, left))...)
	}
	x.Drop(a)
	x.Drop(b)
	for x.Step() {
	}
	if left := x.Left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func backwards(c []uint64) []uint64 {
	c = slices.Clone(c)
	slices.Reverse(c)
	return c
}

// TestRunMovedUnderReader has a run whose tail has died move at every pause of a
// walk, and its place taken by another prompt; and a walk at every pause of the
// writer that moves it. Its holders have what they have all the time.
func TestRunMovedUnderReader(t *testing.T) {
	for _, c := range []struct {
		name    string
		front   int // blocks of the run before, 0: it is the first
		holders int
	}{
		{"first", 0, 1}, {"behind another", 4, 1}, {"of many", 4, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			const length, left = 120, 20
			query := series(1, uint64(c.front+length))
			var all []tree.Holder
			setup := func() *tree.Index {
				x := tree.New(tree.Options{Seed: 1})
				all = all[:0]
				for range c.holders {
					h := add(t, x)
					all = append(all, h)
					if c.front > 0 {
						put(x, h, 0, query[:c.front]...)
					}
					put(x, h, uint64(c.front), query[c.front:]...)
				}
				other := add(t, x)
				put(x, other, 0, 7000)
				for _, h := range all {
					take(x, h, backwards(query[c.front+left:])...)
				}
				all = append(all, other)
				return x
			}
			judge := func(where string, n int, got []tree.Depths) {
				t.Helper()
				for _, h := range all[:c.holders] {
					if d := anyOf(got, h); int(d) != c.front+left {
						t.Errorf("%s %d: %d blocks, want %d", where, n, d, c.front+left)
					}
				}
				if len(got) != c.holders {
					t.Errorf("%s %d: %d holders, want %d", where, n, len(got), c.holders)
				}
			}
			for _, taken := range []bool{false, true} {
				during(t, func() (*tree.Index, []uint64, func()) {
					x := setup()
					return x, query, func() {
						if x.Step(); taken {
							put(x, all[c.holders], 7000, series(8000, length)...)
						}
					}
				}, func(t *testing.T, pause int, got []tree.Depths) { judge("pause", pause, got) })
			}

			x := setup()
			r, stops := x.NewReader(), 0
			x.Hook(func() {
				judge("stop", stops, r.Match(0, query))
				stops++
			}, nil)
			x.Step()
			if stops < 5 {
				t.Errorf("the writer stopped %d times: nothing has moved", stops)
			}
			x.Hook(nil, nil)
			if err := x.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}
