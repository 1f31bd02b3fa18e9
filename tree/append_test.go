package tree_test

import (
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

// TestAppendOne plays chains that grow by a block an event, and all that keeps
// such an event from being as plain as it looks.
func TestAppendOne(t *testing.T) {
	grown := append(holders(3), st(1, 0, 1, 2, 3, 4, 5, 6), query(1, 2, 3, 4, 5, 6))
	for _, c := range []struct {
		name string
		ops  []differ.Op
	}{
		{"block by block through several runs", ops(holders(2), func() (l []differ.Op) {
			l = append(l, st(1, 0, 1))
			for i := range uint64(300) {
				l = append(l, st(1, 101+i, 2+i))
			}
			return append(l, query(series(1, 301)...), rm(1, 150), query(series(1, 301)...), st(1, 401, 302), st(1, 149, 50), query(series(1, 302)...))
		}())},
		{"two holders in turns", ops(holders(2), st(1, 0, 1, 2, 3, 4, 5), st(2, 0, 1, 2, 3, 4, 5), st(1, 105, 6), st(2, 105, 6), st(2, 106, 7), st(1, 106, 7), query(series(1, 7)...))},
		{"many holders, one after the other", ops(holders(60), func() (l []differ.Op) {
			for h := 1; h <= 60; h++ {
				l = append(l, st(h, 0, 1, 2, 3, 4, 5))
			}
			for h := 1; h <= 60; h += 2 {
				l = append(l, st(h, 105, 6), query(1, 2, 3, 4, 5, 6), st(h, 106, 7), query(series(1, 7)...))
			}
			return l
		}())},
		{"a holder of many goes ahead", ops(holders(60), func() (l []differ.Op) {
			for h := 1; h <= 60; h++ {
				l = append(l, st(h, 0, 1, 2, 3, 4, 5))
			}
			return append(l, st(60, 105, 6), query(1, 2, 3, 4, 5, 6), st(60, 106, 7), query(series(1, 7)...), st(30, 105, 6), query(series(1, 7)...))
		}())},
		{"a child has the block already", ops(grown, st(1, 104, 9), rm(1, 106, 105), query(1, 2, 3, 4, 9),
			st(2, 0, 1, 2, 3, 4), as(st(2, 104, 9), 77), query(1, 2, 3, 4, 9))},
		{"a child has another", ops(grown, st(1, 104, 9), rm(1, 106, 105), st(2, 0, 1, 2, 3, 4), st(2, 104, 5), query(1, 2, 3, 4, 5), query(1, 2, 3, 4, 9))},
		{"the name means another block", ops(grown, st(1, 0, 50), as(st(1, 106, 7), 150), query(1, 2, 3, 4, 5, 6, 7), query(50), rm(1, 150), query(1, 2, 3, 4, 5, 6, 7))},
		{"the name means another's block", ops(grown, st(2, 0, 50), as(st(1, 106, 7), 150), query(1, 2, 3, 4, 5, 6, 7), query(50), rm(2, 150), query(50), rm(1, 150), query(1, 2, 3, 4, 5, 6, 7))},
		{"a hole in front", ops(grown, rm(1, 103), st(1, 106, 7), query(1, 2, 3, 4, 5, 6, 7), st(1, 102, 3), query(1, 2, 3, 4, 5, 6, 7))},
		{"another tier", ops(grown, differ.Op{Kind: differ.Store, Holder: 1, Tier: tree.Host, HasParent: true, Parent: 106, Span: 1, Names: []uint64{107}, Contents: []uint64{7}}, query(1, 2, 3, 4, 5, 6, 7))},
		{"names of its own", ops(grown, as(st(2, 0, 1, 2, 3, 4, 5, 6), 201, 202, 203, 204, 205, 206), as(st(2, 206, 7), 207), query(1, 2, 3, 4, 5, 6, 7), rm(2, 207), query(1, 2, 3, 4, 5, 6, 7))},
		{"names of its own, block by block through several runs", ops(holders(2), func() (l []differ.Op) {
			l = append(l, st(1, 0, series(1, 9)...), as(st(2, 0, series(1, 9)...), series(1001, 1009)...))
			for i := range uint64(300) {
				l = append(l, as(st(2, 1009+i, 10+i), 1010+i))
			}
			return append(l, query(series(1, 309)...), rm(2, 1150), query(series(1, 309)...), as(st(2, 1309, 310), 1310), as(st(2, 1149, 150), 1150), query(series(1, 310)...))
		}())},
		{"names of its own, one of which means another block", ops(grown, as(st(2, 0, 1, 2, 3, 4, 5, 6), 201, 202, 203, 204, 205, 206),
			as(st(2, 206, 7), 203), query(1, 2, 3, 4, 5, 6, 7), rm(2, 203), query(1, 2, 3, 4, 5, 6, 7), as(st(2, 202, 3), 203), query(1, 2, 3, 4, 5, 6, 7))},
		{"names of its own and one of the run's", ops(grown, st(2, 0, 50), as(st(2, 0, 1, 2, 3, 4, 5, 6), 201, 202, 203, 204, 205, 206),
			as(st(2, 206, 7), 150), query(1, 2, 3, 4, 5, 6, 7), query(50), rm(2, 150), query(1, 2, 3, 4, 5, 6, 7))},
		{"many holders with names of their own", ops(holders(60), func() (l []differ.Op) {
			for h := uint64(1); h <= 60; h++ {
				l = append(l, as(st(int(h), 0, 1, 2, 3, 4, 5), series(1000*h+1, 1000*h+5)...))
			}
			for h := uint64(2); h <= 60; h += 2 {
				l = append(l, as(st(int(h), 1000*h+5, 6), 1000*h+6), query(1, 2, 3, 4, 5, 6), as(st(int(h), 1000*h+6, 7), 1000*h+7), query(series(1, 7)...))
			}
			return l
		}())},
		{"one TP shard of two", ops(differ.Op{Kind: differ.Add, Holder: 1, Shards: 2},
			st(1, 0, 1, 2, 3, 4, 5), shard(1, st(1, 0, 1, 2, 3, 4, 5)), st(1, 105, 6), query(series(1, 6)...), shard(1, st(1, 105, 6)), query(series(1, 6)...))},
		{"what waits behind it", ops(grown, st(1, 107, 8), st(1, 106, 7), query(series(1, 8)...))},
		{"a remembered end that is gone", ops(grown, rm(1, 106, 105, 104, 103, 102, 101), st(2, 0, 11, 12, 13, 14, 15, 16), st(1, 106, 7), st(2, 116, 17), query(11, 12, 13, 14, 15, 16, 17), query(series(1, 7)...))},
		{"an end that moved", ops(grown, st(1, 0, 31, 32), as(st(1, 132, 33), 106), st(1, 106, 7), query(31, 32, 33, 7), query(1, 2, 3, 4, 5, 6, 7))},
	} {
		t.Run(c.name, func(t *testing.T) {
			differ.Must(t, newIndex, c.ops, differ.Options{Check: invariants, Counters: true}, "%s", c.name)
		})
	}
}

// TestAppendOneUnderReader looks between any two stores of an event of one
// block: the block is there with its content, or not at all.
func TestAppendOneUnderReader(t *testing.T) {
	x := tree.New(tree.Options{Seed: 1})
	a := add(t, x)
	put(x, a, 0, series(1, 6)...)
	looks := 0
	x.Hook(func() {
		looks++
		if n := anyOf(x.NewReader().Match(0, series(1, 7)), a); n != 6 && n != 7 {
			t.Errorf("look %d: %d, was 6, then 7", looks, n)
		}
		if n := anyOf(x.NewReader().Match(0, append(series(1, 6), 0)), a); n != 6 {
			t.Errorf("look %d: %d of a path that parts at 6", looks, n)
		}
	}, nil)
	put(x, a, 6, 7)
	x.Hook(nil, nil)
	if looks < 3 {
		t.Errorf("only %d looks", looks)
	}
	if n := anyOf(x.NewReader().Match(0, series(1, 7)), a); n != 7 {
		t.Errorf("%d in the end, want 7", n)
	}
}
