package tree

import "testing"

// namesOf is the pairs of blocks whose contents are [from, to), named by what engine
// e calls them.
func namesOf(e, from, to uint64) (pairs []uint64) {
	for c := from; c < to; c++ {
		pairs = append(pairs, e<<32|c, c)
	}
	return pairs
}

// TestPrivateHolder plays engines that hash differently: all of them, or kinds of
// them. Who finds nearly all names to be its own alone has none that are a run's
// after a while, not even where it is first; who has its like shares names with it.
func TestPrivateHolder(t *testing.T) {
	for _, c := range []struct {
		name    string
		kinds   []uint64 // of each holder: what its engine calls blocks
		private int      // how many of them are private in the end,
		shared  int      // and in how many runs they bear the run's names all the same
	}{
		// The first to come bears the names of runs where the others have theirs.
		{"each its own", []uint64{1, 2, 3, 4, 5, 6}, 5, 0},
		{"two kinds", []uint64{1, 2, 1, 2, 1, 2}, 0, 0},
		// It has been first in some before it was private.
		{"many of a new kind", []uint64{1, 2, 2, 2, 2, 2}, 1, 5},
		{"one of a new kind", []uint64{1, 1, 1, 1, 1, 2}, 1, 0},
		{"one kind", []uint64{1, 1, 1, 1, 1, 1}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := New(Options{Seed: 1})
			var owners []Owner
			for range c.kinds {
				h, err := x.AddHolder(Set, 1)
				if err != nil {
					t.Fatal(err)
				}
				owners = append(owners, Owner{Holder: h})
			}
			store := func(i int, parent, from, to uint64) {
				k := c.kinds[i]
				s := Store{Span: 1, HasParent: parent != 0, Parent: k<<32 | parent, Pairs: namesOf(k, from, to)}
				if out := x.Store(owners[i], &s); out.New != int(to-from) {
					t.Fatalf("holder %d, [%d, %d): %+v", i, from, to, out)
				}
			}
			// A prompt that all begin with, and whoever is first another time.
			for i := range owners {
				store(i, 0, 1, 41)
			}
			next := uint64(1000)
			for round := range 5 * len(owners) {
				for i := range owners {
					store((round+i)%len(owners), 40, next, next+20)
				}
				next += 20
			}
			private, shared := 0, 0
			for i, o := range owners {
				ls := &x.lanes[x.state(o.Holder).lane]
				if !ls.private() {
					continue
				}
				private++
				shared += ls.runs - ls.ownRuns
				was := x.names.live
				store(i, 40, next, next+20)
				store(i, next+19, next+20, next+21)
				if x.names.live != was {
					t.Errorf("holder %d: %d names more in the table of shared ones", i, x.names.live-was)
				}
				next += 21
			}
			if private != c.private || shared > c.shared {
				t.Errorf("%d holders are private, want %d, and bear names of %d runs, want at most %d", private, c.private, shared, c.shared)
			}
			if err := x.Check(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestPrivateHolderKeepsBudget has a private holder's chain go on behind full runs
// where the arena of just those names that a new run's first blocks need is full, and
// that of the larger ones it will have one day is not: what is charged is what was
// asked for.
func TestPrivateHolderKeepsBudget(t *testing.T) {
	x := New(Options{Seed: 1, Bytes: 64 << 20})
	x.budget.soft = 0
	var owners [2]Owner
	for i := range owners {
		h, err := x.AddHolder(Set, 1)
		if err != nil {
			t.Fatal(err)
		}
		owners[i].Holder = h
		x.Store(owners[i], &Store{Span: 1, Pairs: namesOf(uint64(i+1), 1, 501)})
	}
	const room = 25_000 // for some of what a new run needs, less than a chunk of names
	last, next, tried := uint64(2<<32|500), uint64(501), 0
	for range 5000 {
		p, ok := x.resolveFor(owners[1], last)
		if !ok {
			t.Fatalf("block %d is gone", next-1)
		}
		left := capOf(p.class()) - p.pos() - 1
		n := uint64(pieceBlocks)
		if left > 0 {
			n = min(n, uint64(left))
		}
		limit := x.meter.limit
		if left == 0 && p.class() >= 5 {
			tried++
			for c := range x.runs {
				x.runs[c].release(x.runs[c].alloc())
			}
			few := namesClass(int(n))
			for c := range x.nameArrays {
				if ref := x.newNames(4 << c); uint32(c) != few {
					x.freeNames(ref)
				}
			}
			for x.nameArrays[few].spare(1) == 0 {
				x.newNames(int(n))
			}
			x.meter.limit = x.meter.bytes + room
		}
		out := x.Store(owners[1], &Store{Span: 1, HasParent: true, Parent: last, Pairs: namesOf(2, next, next+n)})
		if x.meter.bytes > x.meter.limit {
			t.Fatalf("behind a run of class %d: %d bytes more than there are, %+v", p.class(), x.meter.bytes-x.meter.limit, out)
		}
		if x.meter.limit = limit; tried == 4 {
			return
		}
		next += uint64(out.New)
		last = 2<<32 | (next - 1)
	}
	t.Errorf("only %d runs have been full", tried)
}

// resolveFor is resolve for an owner.
func (x *Index) resolveFor(o Owner, name uint64) (spot, bool) {
	x.begin(o)
	return x.resolve(name)
}
