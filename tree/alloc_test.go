package tree_test

import (
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// TestAllocations plays events and queries on an index whose tables have been
// larger before: nothing may be allocated then. Every case leaves the index as
// it was; names and contents of new blocks are new each time.
func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	x := tree.New(tree.Options{Seed: 1})
	w := &warm{t: t, x: x, reader: x.NewReader()}
	for i := range w.owners {
		h, err := x.AddHolder(tree.Copies, 1+i/4) // the last holder has two TP shards
		if err != nil {
			t.Fatal(err)
		}
		w.owners[i] = tree.Owner{Holder: h}
	}
	w.warmUp()
	trunk := slices.Clone(w.chain(100))
	w.store(w.owners[0], trunk, tree.Outcome{New: 100})
	a, b, c, twice := w.owners[0], w.owners[1], w.owners[2], w.owners[4]
	host := tree.Owner{Holder: b.Holder, Tier: tree.Host}
	second := tree.Owner{Holder: twice.Holder, Shard: 1}

	for _, tc := range []struct {
		name string
		run  func()
	}{
		{"new blocks", func() {
			n := w.chain(32)
			w.store(b, n, tree.Outcome{New: 32})
			w.remove(b, n, tree.Outcome{Removed: 32})
		}},
		{"new blocks one by one", func() {
			n := w.chain(20)
			for i := range 20 {
				w.storeBehind(b, n, i, i+1, tree.Outcome{New: 1})
			}
			w.remove(b, n, tree.Outcome{Removed: 20})
		}},
		{"foreseen", func() {
			n := w.chain(20)
			x.Coming(b, &tree.Store{Span: 1, Pairs: n})
			x.Coming(b, &tree.Store{Span: 1, HasParent: true, Parent: trunk[2*99], Pairs: n})
			x.ComingRemove(b, n)
		}},
		{"new blocks behind known ones", func() {
			n := w.chain(50)
			copy(n, trunk[:2*30])
			w.store(b, n, tree.Outcome{New: 50})
			w.remove(b, n, tree.Outcome{Removed: 50})
		}},
		{"known blocks", func() {
			w.store(b, trunk, tree.Outcome{New: 100})
			w.store(c, trunk, tree.Outcome{New: 100})
			w.store(w.owners[3], trunk, tree.Outcome{New: 100}) // more than fit inline
			w.store(twice, trunk, tree.Outcome{New: 100})
			w.remove(b, trunk, tree.Outcome{Removed: 100})
			w.remove(twice, trunk, tree.Outcome{Removed: 100})
			w.remove(w.owners[3], trunk, tree.Outcome{Removed: 100})
			w.remove(c, trunk, tree.Outcome{Removed: 100})
		}},
		{"copies", func() {
			w.store(a, trunk, tree.Outcome{Known: 100})
			w.remove(a, trunk, tree.Outcome{})
		}},
		{"own names", func() {
			n := w.chain(40)
			for i := range 40 {
				n[2*i+1] = trunk[2*i+1]
			}
			w.store(b, n, tree.Outcome{New: 40})
			w.remove(b, n, tree.Outcome{Removed: 40})
		}},
		{"holes", func() {
			w.remove(a, trunk[2*10:2*14], tree.Outcome{Removed: 4})
			w.storeBehind(a, trunk, 10, 14, tree.Outcome{New: 4})
		}},
		{"root side first", func() {
			n := w.chain(40)
			w.store(b, n, tree.Outcome{New: 40})
			for i := range 40 {
				w.remove(b, n[2*i:2*i+2], tree.Outcome{Removed: 1})
			}
		}},
		{"tiers", func() {
			n := w.chain(40)
			w.store(b, n, tree.Outcome{New: 40})
			w.store(host, n[:2*20], tree.Outcome{New: 20})
			w.remove(b, n, tree.Outcome{Removed: 40})
			w.remove(host, n[:2*20], tree.Outcome{Removed: 20})
		}},
		{"placements", func() {
			w.store(b, trunk, tree.Outcome{New: 100})
			w.place(host, trunk, tree.Outcome{New: 100})
			w.remove(host, trunk, tree.Outcome{Removed: 100})
			w.remove(b, trunk, tree.Outcome{Removed: 100})
		}},
		{"TP shards", func() {
			n := w.chain(40)
			w.store(twice, n, tree.Outcome{New: 40})
			w.store(second, n, tree.Outcome{New: 40})
			w.remove(twice, n, tree.Outcome{Removed: 40})
			w.remove(second, n, tree.Outcome{Removed: 40})
		}},
		{"orphans that find their parent", func() {
			n := w.chain(48)
			w.storeBehind(b, n, 32, 48, tree.Outcome{Waiting: 16})
			w.storeBehind(b, n, 16, 32, tree.Outcome{Waiting: 16})
			w.storeBehind(b, n, 0, 16, tree.Outcome{New: 48})
			w.remove(b, n, tree.Outcome{Removed: 48})
		}},
		{"orphans withdrawn", func() {
			n := w.chain(48)
			w.storeBehind(b, n, 16, 48, tree.Outcome{Waiting: 32})
			w.remove(b, n[2*16:], tree.Outcome{})
		}},
		{"orphans dropped by a clear", func() {
			w.storeBehind(b, w.chain(48), 16, 48, tree.Outcome{Waiting: 32})
			w.clear(b.Holder)
		}},
		{"a name with another meaning", func() {
			n, m := w.chain(10), w.chain(10)
			for i := range 10 {
				m[2*i] = n[2*i]
			}
			w.store(b, n, tree.Outcome{New: 10})
			w.stored = tree.Store{Span: 1, Pairs: m}
			if out := x.Store(b, &w.stored); out.Moved != 10 {
				t.Fatalf("%+v, want 10 names moved", out)
			}
			w.remove(b, n, tree.Outcome{}) // the copy of before
			w.remove(b, n, tree.Outcome{Removed: 10})
		}},
		{"clears", func() {
			w.store(b, trunk, tree.Outcome{New: 100})
			w.store(b, w.chain(60), tree.Outcome{New: 60})
			w.clear(b.Holder)
		}},
		{"hide and show", func() {
			x.Hide(a.Holder)
			x.Show(a.Holder)
		}},
		{"matches and names", func() {
			if d := w.reader.Match(0, w.contents); len(d) != 1 || d[0].Units[tree.ViewDevice] != 100 {
				t.Fatalf("answer %v, want the first holder with 100 blocks", d)
			}
			if w.names = w.reader.Names(w.names[:0], a.Holder, tree.ViewDevice, 100); len(w.names) != 100 {
				t.Fatalf("%d names, want 100", len(w.names))
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			w.contents = w.contents[:0]
			for i := 1; i < len(trunk); i += 2 {
				w.contents = append(w.contents, trunk[i])
			}
			tc.run() // the first time may make room
			if n := testing.AllocsPerRun(100, tc.run); n != 0 {
				t.Errorf("%v allocations a run, want 0", n)
			}
			if err := x.Check(); err != nil {
				t.Error(err)
			}
			if st := x.Stats(); st.Residencies != 100 || st.Waiting != 0 {
				t.Errorf("%d blocks are left, %d wait; want 100, 0", st.Residencies, st.Waiting)
			}
		})
	}
}

// warm is an index and the buffers of who writes it.
type warm struct {
	t        *testing.T
	x        *tree.Index
	reader   tree.Reader
	owners   [5]tree.Owner
	stored   tree.Store
	last     uint64
	pairs    [4][]uint64 // of chains, in turn
	turn     int
	list     []uint64
	contents []uint64
	names    []uint64
}

// warmUp makes every table larger than a case needs it, and empties them.
func (w *warm) warmUp() {
	for range 100 {
		for _, o := range w.owners {
			for shard := range 2 {
				o.Shard = uint8(shard)
				w.stored = tree.Store{Span: 1, Pairs: w.chain(64)}
				w.x.Store(o, &w.stored) // the second shard is refused by most
				o.Tier = tree.Host
				w.x.Store(o, &w.stored)
				w.stored = tree.Store{Span: 1, HasParent: true, Parent: ^w.last, Pairs: w.chain(64)}
				w.x.Store(o, &w.stored)
				o.Tier = tree.Device
			}
		}
	}
	for _, o := range w.owners {
		w.clear(o.Holder)
	}
}

// chain makes n new blocks. The slice is used again after three more calls.
func (w *warm) chain(n int) []uint64 {
	w.turn = (w.turn + 1) % len(w.pairs)
	p := w.pairs[w.turn][:0]
	for range n {
		w.last++
		p = append(p, w.last*0x9e3779b97f4a7c15, w.last*0xd6e8feb86659fd93)
	}
	w.pairs[w.turn] = p
	return p
}

func (w *warm) store(o tree.Owner, pairs []uint64, want tree.Outcome) {
	w.storeBehind(o, pairs, 0, len(pairs)/2, want)
}

// storeBehind stores blocks [from, to) of a chain.
func (w *warm) storeBehind(o tree.Owner, pairs []uint64, from, to int, want tree.Outcome) {
	w.stored = tree.Store{Span: 1, Pairs: pairs[2*from : 2*to]}
	if from > 0 {
		w.stored.HasParent, w.stored.Parent = true, pairs[2*from-2]
	}
	w.expect("store", w.x.Store(o, &w.stored), want)
}

// remove removes the blocks of a chain, the last first.
func (w *warm) remove(o tree.Owner, pairs []uint64, want tree.Outcome) {
	w.list = w.list[:0]
	for i := len(pairs) - 2; i >= 0; i -= 2 {
		w.list = append(w.list, pairs[i])
	}
	w.expect("remove", w.x.Remove(o, w.list), want)
}

func (w *warm) place(o tree.Owner, pairs []uint64, want tree.Outcome) {
	w.list = w.list[:0]
	for i := 0; i < len(pairs); i += 2 {
		w.list = append(w.list, pairs[i])
	}
	w.expect("place", w.x.Place(o, w.list), want)
}

func (w *warm) clear(h tree.Holder) {
	w.x.Clear(h)
	for w.x.Step() {
	}
}

// expect checks that an event did what its case is about.
func (w *warm) expect(what string, got, want tree.Outcome) {
	if got != want {
		w.t.Fatalf("%s: %+v, want %+v", what, got, want)
	}
}
