package tree_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// wanter is a holder that wants what it tells, again and again.
type wanter struct {
	tree.Owner
	last uint64 // name of the block that what comes next is behind
	at   uint64 // blocks of its chains so far
	own  uint64 // mixed into its names
	told int
}

// kept is what an index has of holders.
func kept(x *tree.Index) map[tree.Holder]int {
	n := map[tree.Holder]int{}
	x.Dump(func(uint64, uint64) uint64 { return 0 }, func(b tree.Block) {
		if !b.Waiting && b.Shard == 0 {
			n[b.Holder]++
		}
	})
	return n
}

// scatter is a name or content for a number.
func scatter(n uint64) uint64 {
	n = (n ^ n>>31) * 0x9e3779b97f4a7c15
	return n ^ n>>29
}

// grow stores the next n blocks of a chain that ends after length blocks, where
// a new one begins. base says which chains those are: holders with one base
// tell the same.
func (w *wanter) grow(x *tree.Index, r *rand.Rand, base uint64, n, length int) tree.Outcome {
	st := tree.Store{Span: 1}
	if at := int(w.at) % length; at > 0 {
		st.HasParent, st.Parent = true, w.last
		n = min(n, length-at)
	}
	for range n {
		c := scatter(base<<40 + w.at)
		w.last = c ^ w.own
		st.Pairs = append(st.Pairs, w.last, c)
		w.at++
	}
	out := x.Store(w.Owner, &st)
	w.told += n
	return out
}

// TestSharesAreEqual has holders that all want twice as much as there is room
// for: when it is quiet they have equally much, within a twentieth, whatever
// their blocks look like and whoever came first.
func TestSharesAreEqual(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, c := range []struct {
		name    string
		holders int
		shards  int
		bytes   int
		tell    func(x *tree.Index, w *wanter, h int)
	}{
		{"little-events", 12, 1, 2 << 20, func(x *tree.Index, w *wanter, h int) { w.grow(x, r, uint64(h), 1+r.IntN(4), 100) }},
		{"short-chains", 12, 1, 2 << 20, func(x *tree.Index, w *wanter, h int) { w.grow(x, r, uint64(h), 16, 48) }},
		{"long-chains", 12, 1, 4 << 20, func(x *tree.Index, w *wanter, h int) { w.grow(x, r, uint64(h), 32, 1500) }},
		{"long-events", 8, 1, 8 << 20, func(x *tree.Index, w *wanter, h int) { w.grow(x, r, uint64(h), 700, 1400) }},
		{"shared", 12, 1, 2 << 20, func(x *tree.Index, w *wanter, h int) { w.grow(x, r, uint64(h%3), 16, 48) }},
		{"own-names", 12, 1, 3 << 20, func(x *tree.Index, w *wanter, h int) {
			w.own = uint64(h) << 32
			w.grow(x, r, uint64(h%3), 16, 48)
		}},
		{"tiers", 12, 1, 3 << 20, func(x *tree.Index, w *wanter, h int) {
			w.Tier = tree.Tier(r.IntN(2))
			w.grow(x, r, uint64(h), 16, 48)
		}},
		{"many", 300, 1, 8 << 20, func(x *tree.Index, w *wanter, h int) { w.grow(x, r, uint64(h%100), 8, 32) }},
		{"shards", 8, 2, 3 << 20, func(x *tree.Index, w *wanter, h int) {
			again := *w
			w.Shard = 0
			w.grow(x, r, uint64(h), 16, 48)
			again.Shard = 1
			again.grow(x, r, uint64(h), 16, 48)
		}},
		{"one-is-quick", 12, 1, 2 << 20, func(x *tree.Index, w *wanter, h int) {
			for range 1 + 20*b2i(h == 0) {
				w.grow(x, r, uint64(h), 16, 48)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := tree.New(tree.Options{Seed: 9, Bytes: c.bytes})
			all := make([]*wanter, c.holders)
			for i := range all {
				h, err := x.AddHolder(tree.Set, c.shards)
				if err != nil {
					t.Fatal(err)
				}
				all[i] = &wanter{Owner: tree.Owner{Holder: h}}
			}
			for told, quiet := 0, false; !quiet; {
				for _, i := range r.Perm(len(all)) {
					was := all[i].told
					c.tell(x, all[i], i)
					told += all[i].told - was
				}
				st := x.Stats()
				quiet = st.Bytes > c.bytes/8*7 && told > 3*st.Residencies
				if st.Bytes > c.bytes {
					t.Fatalf("%d bytes", st.Bytes)
				}
			}
			n := kept(x)
			least, most, sum := 1<<40, 0, 0
			for _, w := range all {
				least, most, sum = min(least, n[w.Holder]), max(most, n[w.Holder]), sum+n[w.Holder]
			}
			mean := sum / len(all)
			t.Logf("%d to %d, mean %d: %.1f %%; %+v", least, most, mean, 100*float64(most-least)/float64(mean), x.Stats())
			if (most-least)*20 > mean {
				t.Errorf("holders that want equally much have %d to %d blocks", least, most)
			}
			if st := x.Stats(); st.Refused*20 > st.Evicted {
				t.Errorf("%d blocks were refused, %d evicted: what was evicted should have made room", st.Refused, st.Evicted)
			}
			for _, w := range all {
				if !x.Thinned(w.Holder) {
					t.Error("a holder that lost blocks is not said to have")
				}
			}
			if err := x.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSharesAreEqualWhenOthersAreTold has holders that go over to blocks of
// another look when an index is full: what they need now, another kind of memory,
// was all given to what they needed before. One is cleared besides and comes
// back. When it is quiet they have equally much again, and hardly anything was
// refused meanwhile.
func TestSharesAreEqualWhenOthersAreTold(t *testing.T) {
	const bytes, holders = 2 << 20, 8
	again := func(x *tree.Index, r *rand.Rand, w *wanter, h int, change func(*wanter)) {
		w.Tier, w.own = tree.Device, 0
		second := *w
		w.grow(x, r, uint64(h), 16, 48)
		change(&second)
		second.grow(x, r, uint64(h), 16, 48)
	}
	looks := map[string]func(x *tree.Index, r *rand.Rand, w *wanter, h int){
		"plain": func(x *tree.Index, r *rand.Rand, w *wanter, h int) {
			w.Tier, w.own = tree.Device, 0
			w.grow(x, r, uint64(h), 16, 48)
		},
		"own-names": func(x *tree.Index, r *rand.Rand, w *wanter, h int) {
			w.Tier, w.own = tree.Device, uint64(h+1)<<32
			w.grow(x, r, uint64(100+h/4), 16, 48)
		},
		"tiers": func(x *tree.Index, r *rand.Rand, w *wanter, h int) {
			again(x, r, w, h, func(w *wanter) { w.Tier = tree.Host })
		},
		"two-names": func(x *tree.Index, r *rand.Rand, w *wanter, h int) {
			again(x, r, w, h, func(w *wanter) { w.own = 7 << 50 })
		},
		"copies": func(x *tree.Index, r *rand.Rand, w *wanter, h int) {
			again(x, r, w, h, func(*wanter) {})
		},
		"holes": func(x *tree.Index, r *rand.Rand, w *wanter, h int) {
			w.Tier, w.own = tree.Device, 0
			var gone []uint64
			for at := w.at + 1; at < w.at+16; at += 5 {
				gone = append(gone, scatter(uint64(h)<<40+at))
			}
			w.grow(x, r, uint64(h), 16, 48)
			x.Remove(w.Owner, gone)
		},
	}
	for _, c := range [][]string{
		{"plain", "own-names"}, {"own-names", "tiers"}, {"tiers", "own-names"}, {"copies", "own-names"},
		{"plain", "two-names"}, {"two-names", "plain"}, {"plain", "holes"}, {"holes", "copies", "tiers", "two-names"},
	} {
		t.Run(strings.Join(c, "-then-"), func(t *testing.T) {
			r := rand.New(rand.NewPCG(4, 4))
			x := tree.New(tree.Options{Seed: 9, Bytes: bytes})
			all := make([]*wanter, holders)
			for i := range all {
				h, err := x.AddHolder(tree.Policy(i%2), 1)
				if err != nil {
					t.Fatal(err)
				}
				all[i] = &wanter{Owner: tree.Owner{Holder: h}}
			}
			for turn := range 2 * len(c) {
				look := c[turn/2]
				if turn%2 == 1 {
					x.Clear(all[1].Holder)
				}
				for _, w := range all {
					w.at += 48 - w.at%48 // a new chain
				}
				before := x.Stats()
				for told, rounds, quiet := 0, 0, false; !quiet; rounds++ {
					for _, i := range r.Perm(len(all)) {
						was := all[i].told
						looks[look](x, r, all[i], i)
						told += all[i].told - was
					}
					st := x.Stats()
					quiet = rounds > 100 && st.Bytes > bytes/8*7 && told > 4*st.Residencies
					if st.Bytes > bytes {
						t.Fatalf("%d bytes", st.Bytes)
					}
				}
				n, st := kept(x), x.Stats()
				least, most, sum := 1<<40, 0, 0
				for _, w := range all {
					least, most, sum = min(least, n[w.Holder]), max(most, n[w.Holder]), sum+n[w.Holder]
				}
				evicted, refused := st.Evicted-before.Evicted, st.Refused-before.Refused
				t.Logf("%s: %d to %d, %d evicted, %d refused, %d bytes", look, least, most, evicted, refused, st.Bytes)
				if (most-least)*20 > sum/len(all) {
					t.Errorf("%s: holders that want equally much have %d to %d blocks", look, least, most)
				}
				if refused*20 > evicted {
					t.Errorf("%s: %d blocks were refused, %d evicted: what was evicted should have made room", look, refused, evicted)
				}
				if err := x.Check(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestModestHoldersKeepAll has holders that want less than a share, each
// another part of it, beside some that want far more: they keep all, whenever
// they bring it.
func TestModestHoldersKeepAll(t *testing.T) {
	const bytes, greedy, modest = 4 << 20, 4, 10
	for _, c := range []struct {
		name  string
		tiers int
		own   bool
		base  func(h int) uint64
	}{
		{"plain", 1, false, func(h int) uint64 { return uint64(h) }},
		{"shared", 1, false, func(h int) uint64 { return uint64(h % 7) }},
		{"own-names", 1, true, func(h int) uint64 { return uint64(h % 7) }},
		{"tiers", 2, false, func(h int) uint64 { return uint64(h) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(6, 6))
			x := tree.New(tree.Options{Seed: 9, Bytes: bytes})
			all := make([]*wanter, greedy+modest)
			for i := range all {
				h, err := x.AddHolder(tree.Policy(i%2), 1)
				if err != nil {
					t.Fatal(err)
				}
				all[i] = &wanter{Owner: tree.Owner{Holder: h}}
				if c.own {
					all[i].own = uint64(i) << 32
				}
			}
			wants := func(i int) int { return 48 * (i - greedy + 1) }
			for round := range 4000 {
				for i, w := range all {
					w.Tier = tree.Tier(r.IntN(c.tiers))
					switch {
					case i < greedy:
						w.grow(x, r, c.base(i), 24, 96)
					case round > 300*(i-greedy) && w.told < wants(i):
						if out := w.grow(x, r, c.base(i), 16, 48); out.New != 16 {
							t.Fatalf("modest holder %d: %+v", i, out)
						}
					}
				}
			}
			st, n := x.Stats(), kept(x)
			if st.Bytes > bytes || st.Evicted == 0 {
				t.Fatalf("%+v", st)
			}
			for i, w := range all {
				switch {
				case i < greedy && !x.Thinned(w.Holder):
					t.Errorf("greedy holder %d is not said to have lost blocks", i)
				case i >= greedy && (n[w.Holder] != wants(i) || x.Thinned(w.Holder)):
					t.Errorf("modest holder %d has %d of %d blocks, lost some: %v", i, n[w.Holder], wants(i), x.Thinned(w.Holder))
				}
			}
			if err := x.Check(); err != nil {
				t.Error(err)
			}
			x.Clear(all[0].Holder)
			if x.Thinned(all[0].Holder) {
				t.Error("an empty holder is said to have lost blocks")
			}
			t.Logf("%d %d %d %d of greedy ones; %+v", n[all[0].Holder], n[all[1].Holder], n[all[2].Holder], n[all[3].Holder], st)
		})
	}
}

// TestCopiesAreNotRefused fills an index with copies of what it has, until none
// can be noted: no block that is there counts as refused, and nothing goes for
// them.
func TestCopiesAreNotRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	x := tree.New(tree.Options{Seed: 9, Bytes: 2 << 20})
	h, err := x.AddHolder(tree.Copies, 1)
	if err != nil {
		t.Fatal(err)
	}
	w := &wanter{Owner: tree.Owner{Holder: h}}
	for x.Stats().Bytes < 3<<19 {
		w.grow(x, r, 1, 16, 48)
	}
	had := x.Stats().Residencies
	for range 3 {
		for w.at = 0; int(w.at) < had; {
			if out := w.grow(x, r, 1, 16, 48); out.Known != 16 {
				t.Fatalf("copies of blocks that are there: %+v", out)
			}
		}
	}
	st := x.Stats()
	if st.Refused+st.Evicted != 0 || st.Residencies != had || !x.Thinned(h) {
		t.Errorf("%+v, %d before; lost copies: %v", st, had, x.Thinned(h))
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
