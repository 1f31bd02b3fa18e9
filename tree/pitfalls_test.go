package tree_test

import (
	"fmt"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

// Short forms for lists of ops. Names are contents plus 100 where nothing else is
// said.

func holders(n int) (ops []differ.Op) {
	for i := range n {
		ops = append(ops, differ.Op{Kind: differ.Add, Holder: i + 1, Shards: 1})
	}
	return ops
}

// st stores contents behind a parent, 0 for none, under names of contents + 100.
func st(h int, parent uint64, contents ...uint64) differ.Op {
	o := differ.Op{Kind: differ.Store, Holder: h, HasParent: parent != 0, Parent: parent, Span: 1, Contents: contents}
	for _, c := range contents {
		o.Names = append(o.Names, c+100)
	}
	return o
}

// as gives the blocks of a store other names.
func as(o differ.Op, names ...uint64) differ.Op {
	o.Names = names
	return o
}

func shard(s uint8, o differ.Op) differ.Op {
	o.Shard = s
	return o
}

func rm(h int, names ...uint64) differ.Op {
	return differ.Op{Kind: differ.Remove, Holder: h, Names: names}
}

func query(contents ...uint64) differ.Op { return differ.Op{Kind: differ.Query, Contents: contents} }

func do(k differ.Kind, h int) differ.Op { return differ.Op{Kind: k, Holder: h} }

func ops(parts ...any) (list []differ.Op) {
	for _, p := range parts {
		switch p := p.(type) {
		case differ.Op:
			list = append(list, p)
		case []differ.Op:
			list = append(list, p...)
		}
	}
	return append(list, differ.Op{Kind: differ.Drain})
}

func series(from, n uint64) (list []uint64) {
	for i := range n {
		list = append(list, from+i)
	}
	return list
}

// TestPitfalls are those of the list in the design that need no race, each by
// its number there. What is right the reference model says after every query,
// and the index's own invariants hold after every op. Those that need a race
// are, by number: (4, 6) TestLaneIDRecycledUnderReader, TestParentRecycledUnderReader;
// (5) TestReadersWaitForNobody; (7, 27) TestCellGrowsUnderReader,
// TestCellGrowsAtEveryStore; (12) TestWriterAnswersReaderThatAlwaysLoses;
// (16) TestVersionMovesBehindTheFigure; (17) TestMoveBetweenTiersUnderReader;
// (22) TestChildTableGrowsUnderReader; (24) TestBudget; (28) TestStoreSeenAtEveryStore;
// (29) TestTrimmedPlaceReusedUnderReader.
func TestPitfalls(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  []differ.Op
	}{
		{"1: equal counts are not equal sets", ops(holders(2),
			st(1, 0, 1, 2, 3), st(2, 0, 1, 2, 3), rm(1, 102), rm(2, 103), query(1, 2, 3), query(1, 2), st(1, 101, 2), query(1, 2, 3))},
		{"2: nothing counts behind a hole", ops(holders(1),
			st(1, 0, series(1, 70)...), rm(1, 133), query(series(1, 70)...), rm(1, 101), query(series(1, 70)...), st(1, 0, 1), query(series(1, 70)...))},
		{"3: a cell that goes and comes", ops(holders(14), func() (l []differ.Op) {
			for round := 0; round < 3; round++ {
				for h := 1; h <= 14; h++ {
					l = append(l, st(h, 0, 1, 2, 3))
				}
				l = append(l, query(1, 2, 3))
				for h := 14; h > round; h-- {
					l = append(l, rm(h, 103, 102, 101))
				}
				l = append(l, query(1, 2, 3))
			}
			return l
		}())},
		{"4: a recycled id inherits nothing from lanes that moved", ops(holders(5), func() (l []differ.Op) {
			for i := range uint64(40) {
				l = append(l, st(1, 0, 1000*i, 1000*i+1))
			}
			l = append(l, do(differ.Clear, 1))
			for h := 2; h <= 5; h++ { // reclaimed meanwhile, run by run, while cells come
				for i := range uint64(40) {
					l = append(l, st(h, 0, 1000*i, 1000*i+1))
				}
			}
			for range 60 {
				l = append(l, differ.Op{Kind: differ.Step})
			}
			l = append(l, differ.Op{Kind: differ.Add, Holder: 6, Shards: 1}, differ.Op{Kind: differ.Add, Holder: 7, Shards: 1}, st(1, 0, 7))
			for i := range uint64(40) {
				l = append(l, query(1000*i, 1000*i+1))
			}
			return l
		}())},
		{"8: an event that renames what it stored itself", ops(holders(2),
			st(1, 0, 1, 2, 3, 4), st(2, 0, 1, 2, 3, 4), as(st(1, 0, 2, 3, 4, 5), 101, 102, 103, 104), query(1, 2, 3, 4), query(2, 3, 4, 5),
			as(st(1, 0, 1, 2, 3, 4), 104, 103, 102, 101), query(1, 2, 3, 4), query(2, 3, 4, 5), rm(1, 102), query(1, 2, 3, 4))},
		{"9: residencies while copies and shards come down", ops(
			differ.Op{Kind: differ.Add, Holder: 1, Shards: 2},
			st(1, 0, 1, 2, 3), shard(1, st(1, 0, 1, 2, 3)), st(1, 0, 1, 2), query(1, 2, 3), rm(1, 103, 102, 101), query(1, 2, 3),
			shard(1, rm(1, 102)), query(1, 2, 3), rm(1, 102, 101), query(1, 2, 3))},
		{"10: sets whose numbers add up to the same", ops(holders(4),
			st(1, 0, 1, 2), st(4, 0, 1, 2), st(2, 0, 1, 3), st(3, 0, 1, 3), query(1, 2), query(1, 3), rm(1, 102), rm(2, 103), query(1, 2), query(1, 3))},
		{"11: second names of neighbours in one chain", ops(holders(1),
			st(1, 0, 1, 2, 3), as(st(1, 101, 2, 3), 202, 203), rm(1, 102), query(1, 2, 3), rm(1, 203), query(1, 2, 3), rm(1, 202), query(1, 2, 3), rm(1, 103, 101))},
		{"13: zero is a name and a content like any other", ops(holders(2),
			as(st(1, 0, 0, 0, 5), 7, 0, 9), query(0, 0, 5),
			differ.Op{Kind: differ.Store, Holder: 1, HasParent: true, Parent: 0, Span: 1, Names: []uint64{11}, Contents: []uint64{6}}, query(0, 0, 6),
			differ.Op{Kind: differ.Store, Holder: 2, HasParent: true, Parent: 0, Span: 1, Names: []uint64{1, 2}, Contents: []uint64{6, 0}}, as(st(2, 0, 6), 0), query(6, 0), query(0, 0, 6),
			rm(1, 0), query(0, 0, 6), rm(2, 0), query(6))},
		{"14: of equal names the holder's own", ops(holders(3),
			as(st(1, 0, 1), 7), as(st(2, 0, 2), 7), as(st(3, 0, 3), 7),
			as(st(2, 7, 9), 8), query(2, 9), query(1, 9), rm(1, 7), query(1), query(2, 9), rm(3, 7), query(3), query(2, 9))},
		{"15: a parent that only others know", ops(holders(2),
			st(1, 0, 1, 2), st(2, 102, 3), query(1, 2, 3), st(2, 0, 1), query(1, 2, 3), st(2, 101, 2), query(1, 2, 3))},
		{"18: many children at one place, a lane re-created above them", ops(holders(2), func() (l []differ.Op) {
			l = append(l, st(1, 0, 1, 2))
			for i := range uint64(90) {
				l = append(l, st(1, 102, 1000+i, 2000+i))
			}
			l = append(l, rm(1, 102, 101), query(1, 2, 1005, 2005), st(2, 0, 1, 2), query(1, 2, 1005, 2005), st(1, 0, 1, 2), query(1, 2, 1005, 2005))
			for i := range uint64(90) {
				l = append(l, rm(1, 2100+i, 1100+i))
			}
			return append(l, query(1, 2, 1005), rm(1, 102), rm(2, 102), query(1, 2))
		}())},
		{"19: copies through renames, second names and clears", ops(holders(1),
			st(1, 0, 1, 2), st(1, 0, 1, 2), as(st(1, 0, 9), 102), query(9), rm(1, 102), query(9), rm(1, 102), query(9), query(1, 2),
			st(1, 101, 2), do(differ.Clear, 1), query(1, 2), st(1, 0, 1, 2), rm(1, 102), query(1, 2), rm(1, 101), query(1))},
		{"20: what waits is removed, cleared, announced again; in a circle", ops(holders(1),
			st(1, 150, 2, 3), rm(1, 103), st(1, 0, 50), query(50, 2, 3), do(differ.Clear, 1),
			st(1, 150, 2), do(differ.Clear, 1), st(1, 0, 50), query(50, 2),
			as(st(1, 160, 2), 170), as(st(1, 170, 3), 160), as(st(1, 160, 4), 180), query(2, 3), st(1, 0, 50), as(st(1, 0, 8), 160), query(8, 2, 3), query(8, 4),
			st(1, 190, 5), as(st(1, 0, 6), 105), query(6), as(st(1, 0, 7), 190), query(7, 5))},
		{"21: a refilled hole counts again, and what lies behind", ops(holders(2),
			st(1, 0, series(1, 20)...), st(2, 0, series(1, 20)...), rm(1, 105, 110, 115), query(series(1, 20)...),
			st(1, 109, 10), query(series(1, 20)...), st(1, 104, 5), query(series(1, 20)...), st(1, 114, 15), query(series(1, 20)...))},
		{"23: a tail and a head under one key", ops(holders(3),
			st(1, 0, 1, 2, 3), st(2, 0, 1, 2), st(2, 102, 3, 4), as(st(3, 0, 1, 2, 3, 3), 101, 102, 103, 104), query(1, 2, 3, 4), query(1, 2, 3, 3), rm(1, 103), rm(3, 104), as(st(1, 102, 3, 3), 103, 104), query(1, 2, 3, 3),
			as(st(1, 0, 7, 7, 7, 7), 201, 202, 203, 204), as(st(2, 0, 7, 7), 201, 202), as(st(2, 202, 8, 7), 205, 206), query(7, 7, 7, 7, 7), query(7, 7, 8, 7), rm(1, 202), query(7, 7, 7, 7))},
		{"25: a TP shard that clears, lags, repeats, disagrees", ops(
			differ.Op{Kind: differ.Add, Holder: 1, Shards: 2},
			st(1, 0, 1, 2, 3), query(1, 2, 3), shard(1, st(1, 0, 1, 2)), query(1, 2, 3), shard(1, st(1, 102, 3)), shard(1, st(1, 102, 3)), query(1, 2, 3),
			shard(1, do(differ.ClearShard, 1)), query(1, 2, 3), shard(1, as(st(1, 0, 1, 9), 101, 102)), query(1, 2, 3), query(1, 9), shard(1, as(st(1, 101, 2), 102)), query(1, 2, 3),
			shard(1, rm(1, 101)), query(1, 2, 3))},
		{"26: a block over two runs is removed", ops(holders(2),
			st(1, 0, 1, 2, 3, 4), st(2, 0, 1, 2, 9),
			differ.Op{Kind: differ.Store, Holder: 1, HasParent: true, Parent: 102, Span: 4, Names: []uint64{300}, Contents: []uint64{3, 4, 5, 6}},
			query(1, 2, 3, 4, 5, 6), rm(1, 103), query(1, 2, 3, 4, 5, 6), rm(1, 300), query(1, 2, 3, 4, 5, 6), rm(1, 104), query(1, 2, 3, 4))},
		{"30: a removal that walks along neighbours stays with the holder's names", ops(holders(2),
			st(1, 0, 1, 2, 3, 4), as(st(2, 0, 1, 2, 3, 4), 101, 202, 103, 204), rm(2, 101, 102, 103), query(1, 2, 3, 4), rm(2, 204, 103, 202), query(1, 2, 3, 4), rm(1, 104, 103, 202), query(1, 2, 3, 4))},
		{"31: a path without names is compared by contents", ops(holders(2),
			st(1, 0, 1, 2, 3, 4), rm(1, 102, 101), query(1, 2, 3, 4), as(st(2, 0, 1, 2, 3, 4), 7, 8, 9, 10), query(1, 2, 3, 4), as(st(1, 0, 1, 2), 55, 56), query(1, 2, 3, 4), rm(2, 8), query(1, 2, 3, 4), rm(1, 56), query(1, 2, 3, 4))},
	} {
		t.Run(c.name, func(t *testing.T) {
			differ.Must(t, newIndex, c.ops, differ.Options{Check: invariants}, "%s", c.name)
		})
	}
}

// Pitfall 6: a run and its child go, and come back on another path with the same
// ids and the same first content behind: a walk between the two has the old
// parent and the new child.
func TestParentRecycledUnderReader(t *testing.T) {
	var a tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1})
		a = add(t, x)
		put(x, a, 0, 1, 2, 3, 4)
		put(x, a, 4, 5)
		return x, []uint64{1, 2, 3, 4, 5, 6}, func() {
			take(x, a, 5, 4, 3, 2, 1)
			put(x, a, 0, 11, 12, 13, 14)
			put(x, a, 14, 5, 6)
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		if n := anyOf(got, a); n != 5 && n != 0 {
			t.Errorf("pause %d: %d, was 5, then 0", pause, n)
		}
	})
}

// Pitfall 22: the child table grows under a walk, which goes on in the old one.
func TestChildTableGrowsUnderReader(t *testing.T) {
	var a, b tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1})
		a, b = add(t, x), add(t, x)
		put(x, a, 0, 1, 2, 3, 4)
		put(x, a, 4, 5, 6, 7, 8)
		put(x, a, 8, 9)
		return x, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, func() {
			for i := range uint64(4000) {
				put(x, b, 0, 1000+i)
			}
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		if n := anyOf(got, a); n != 9 {
			t.Errorf("pause %d: %d, was 9 all along", pause, n)
		}
	})
}

// Pitfall 29: a place is trimmed and used again for another block under a walk
// that compares it.
func TestTrimmedPlaceReusedUnderReader(t *testing.T) {
	for _, query := range [][]uint64{{1, 2, 3, 4}, {1, 2, 3, 5}} {
		var a, b tree.Holder
		during(t, func() (*tree.Index, []uint64, func()) {
			x := tree.New(tree.Options{Seed: 1})
			a, b = add(t, x), add(t, x)
			put(x, a, 0, 1, 2, 3, 4)
			put(x, b, 0, 1, 2, 3)
			return x, query, func() {
				take(x, a, 4)
				put(x, b, 3, 5)
			}
		}, func(t *testing.T, pause int, got []tree.Depths) {
			wantA, wantB := uint32(4), uint32(3) // of the first query
			if query[3] == 5 {
				wantA, wantB = 3, 4
			}
			if n := anyOf(got, a); n != 3 && n != wantA {
				t.Errorf("pause %d, query %v: the first holder has %d", pause, query, n)
			}
			if n := anyOf(got, b); n != 3 && n != wantB {
				t.Errorf("pause %d, query %v: the second holder has %d", pause, query, n)
			}
		})
	}
}

// Pitfall 28: whoever comes by between any two stores of a store finds blocks
// one after another, from the root, each with its contents.
func TestStoreSeenAtEveryStore(t *testing.T) {
	query := series(1, 40)
	for store, met := 0, true; met; store++ {
		x := tree.New(tree.Options{Seed: 1})
		a, b := add(t, x), add(t, x)
		put(x, a, 0, query[:7]...)
		put(x, b, 0, query[:30]...)
		met = false
		left := store
		var last uint32
		look := func(n uint32) {
			if n < 7 || n < last {
				t.Errorf("store %d: %d, had 7 and %d before", store, n, last)
			}
			last = n
		}
		x.Hook(func() {
			if left--; left < 0 {
				met = true
				look(anyOf(x.NewReader().Match(0, query), a))
				for depth := 1; depth < len(query); depth++ { // no block is there under other contents
					other := append(append([]uint64(nil), query[:depth]...), 0)
					if n := anyOf(x.NewReader().Match(0, other), a); int(n) > depth {
						t.Errorf("store %d: %d of a path that parts at %d", store, n, depth)
					}
				}
			}
		}, nil)
		put(x, a, query[6], query[7:]...)
		x.Hook(nil, nil)
		if n := anyOf(x.NewReader().Match(0, query), a); n != 40 {
			t.Fatalf("store %d: %d after the store, want 40", store, n)
		}
		if !met && store < 4 {
			t.Fatalf("a store has only %d stores", store)
		}
	}
}

// TestPeersBugs are faults that other people's indexes of residencies are known
// for, each as the least that shows it.
func TestPeersBugs(t *testing.T) {
	many := func(n int) (l []differ.Op) {
		for h := 1; h <= n; h++ {
			l = append(l, st(h, 0, 1, 2, 3))
		}
		return append(l, query(1, 2, 3))
	}
	for _, c := range []struct {
		name string
		ops  []differ.Op
	}{
		{"a jump by counts counts over holes", ops(holders(2),
			st(1, 0, series(1, 64)...), st(2, 0, series(1, 64)...), rm(1, series(102, 31)...), rm(2, series(110, 31)...), query(series(1, 64)...), query(series(1, 33)...), query(series(1, 40)...))},
		{"one name for different prefixes", ops(holders(2),
			as(st(1, 0, 1, 2), 5, 6), as(st(2, 0, 3, 2), 5, 6), query(1, 2), query(3, 2), rm(1, 6), query(1, 2), query(3, 2), as(st(2, 6, 9), 7), query(3, 2, 9), query(1, 2, 9))},
		{"a store behind itself", ops(holders(1),
			as(st(1, 7, 1), 7), query(1), as(st(1, 7, 1, 2), 8, 7), query(1, 2), as(st(1, 0, 1), 7), as(st(1, 7, 2), 7), query(1, 2), query(2))},
		{"a name twice in an event", ops(holders(1),
			as(st(1, 0, 1, 2), 7, 7), query(1, 2), as(st(1, 0, 1, 2, 1), 7, 8, 7), query(1, 2, 1), st(1, 0, 1), query(1))},
		{"a removal takes a prefix that others share", ops(holders(3),
			st(1, 0, 1, 2, 3), st(2, 0, 1, 2, 4), st(3, 0, 1, 2), rm(1, 103, 102, 101), query(1, 2, 4), query(1, 2, 3), rm(3, 102, 101), query(1, 2, 4))},
		{"one holder's eviction is everybody's", ops(holders(3), many(3), rm(2, 103), query(1, 2, 3), rm(1, 103, 102), query(1, 2, 3))},
		{"a global map of names: an eviction misses its holder or meets another", ops(holders(2),
			as(st(1, 0, 1), 9), as(st(2, 0, 2), 9), rm(1, 9), query(1), query(2), as(st(1, 0, 3), 9), rm(2, 9), query(2), query(3))},
		{"the eleventh holder is dropped", ops(holders(300), many(12), many(300))},
		{"the name of whoever was first is the only one", ops(holders(2),
			as(st(1, 0, 1, 2), 11, 12), as(st(2, 0, 1, 2), 21, 22), rm(2, 22), query(1, 2), rm(2, 12), query(1, 2), rm(1, 12), query(1, 2), rm(2, 21), query(1))},
		{"a removal in the middle cuts what is behind", ops(holders(2),
			st(1, 0, series(1, 9)...), st(2, 0, series(1, 9)...), rm(1, 104), query(series(1, 9)...), st(1, 103, 4), query(series(1, 9)...))},
		{"the second copy goes with the first", ops(holders(1), st(1, 0, 1, 2), st(1, 0, 1, 2), rm(1, 102), query(1, 2), rm(1, 102), query(1, 2))},
		{"orphans are refused for good", ops(holders(1), st(1, 102, 3), st(1, 101, 2), query(1, 2, 3), st(1, 0, 1), query(1, 2, 3))},
		{"two names for one position", ops(holders(1), as(st(1, 0, 1), 7), as(st(1, 0, 1), 8), rm(1, 7), query(1), as(st(1, 8, 2), 9), query(1, 2), rm(1, 8), query(1, 2))},
		{"an unknown name ends a removal", ops(holders(1), st(1, 0, 1, 2, 3), rm(1, 103, 999, 102), query(1, 2, 3))},
		{"a clear is ignored, or for all ranks", ops(holders(2), st(1, 0, 1, 2), st(2, 0, 1, 2), do(differ.Clear, 1), query(1, 2), st(1, 0, 1), query(1, 2))},
		{"a clear misses what has moved", ops(holders(3),
			st(1, 0, series(1, 12)...), st(2, 0, 1, 2, 3, 50), st(3, 0, 1, 60), as(st(1, 0, 70), 106), do(differ.Clear, 1), query(series(1, 12)...), query(70), query(1, 2, 3, 50))},
		{"a tail goes on into a child of equal contents", ops(holders(2),
			as(st(1, 0, 7, 7, 7, 7, 7, 7), series(1, 6)...), as(st(2, 0, 7, 7, 7), series(1, 3)...), as(st(2, 3, 8), 20), as(st(2, 2, 7, 7), 30, 31),
			query(7, 7, 7, 7, 7, 7, 7), query(7, 7, 7, 8), rm(1, 6, 5), as(st(1, 4, 7), 5), query(7, 7, 7, 7, 7, 7))},
		{"removed entries come back with a repair", ops(holders(2),
			st(1, 0, 1, 2, 3, 4), rm(1, 104, 103), st(2, 0, 1, 2, 9), query(1, 2, 3, 4), st(1, 102, 3), query(1, 2, 3, 4), rm(1, 104), query(1, 2, 3, 4))},
		{"a grouped removal beside a fork counts too much", ops(holders(2),
			st(1, 0, 1, 2, 3, 4, 5, 6), st(1, 103, 14, 15), st(2, 0, 1, 2, 3, 14), rm(1, 106, 115, 105, 114, 104, 103), query(1, 2, 3, 4, 5, 6), query(1, 2, 3, 14, 15), rm(2, 114, 103, 102), query(1, 2, 3, 14))},
		{"sizes after a part is removed, stored again, cleared", ops(holders(1),
			st(1, 0, 1, 2, 3, 4), rm(1, 104, 102), query(1, 2, 3, 4), st(1, 0, 1, 2, 3, 4), query(1, 2, 3, 4), do(differ.Clear, 1), query(1, 2, 3, 4), st(1, 0, 1), query(1))},
		{"a block is hashed without what is in front of it", ops(holders(1), st(1, 0, 1, 2), as(st(1, 0, 3, 2), 201, 202), rm(1, 102), query(1, 2), query(3, 2))},
	} {
		t.Run(c.name, func(t *testing.T) {
			differ.Must(t, newIndex, c.ops, differ.Options{Check: invariants}, "%s", c.name)
		})
	}
}

// Peers keep dead nodes, and runs that were split and never merged: here the
// runs of a chain are bounded by its live blocks, whatever has forked from it.
func TestRunsAreBoundedByLiveBlocks(t *testing.T) {
	x := tree.New(tree.Options{Seed: 1})
	a, b := add(t, x), add(t, x)
	chain := series(1, 128)
	put(x, a, 0, chain...)
	whole := x.Stats()
	for round := range uint64(50) {
		for cut := 1; cut < 128; cut += 5 {
			other := append(append([]uint64(nil), chain[:cut]...), 1_000_000*(round+1)+uint64(cut))
			put(x, b, 0, other...)
		}
		x.Clear(b)
		for x.Step() {
		}
	}
	if st := x.Stats(); st.Runs != whole.Runs || st.Names != whole.Names || st.Links != whole.Links || whole.Runs > 4 {
		t.Errorf("after churn %d runs, %d names, %d links; before it %d, %d, %d", st.Runs, st.Names, st.Links, whole.Runs, whole.Names, whole.Links)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
}

// Peers copy the set of a block's holders with every holder that comes: the
// memory of many is theirs alone, and no square of it.
func TestManyHoldersOfOneBlock(t *testing.T) {
	bytes := map[int]int{}
	for _, n := range []int{500, 2000} {
		x := tree.New(tree.Options{Seed: 1})
		empty := x.Stats().Bytes
		for range n {
			put(x, add(t, x), 0, 1, 2, 3)
		}
		if got := len(x.NewReader().Match(0, []uint64{1, 2, 3})); got != n {
			t.Errorf("%d holders answer, want %d", got, n)
		}
		bytes[n] = x.Stats().Bytes - empty
	}
	if bytes[2000] > 6*bytes[500]+1<<20 {
		t.Errorf("500 holders take %d bytes, 2,000 take %d", bytes[500], bytes[2000])
	}
	t.Log(fmt.Sprint(bytes))
}
