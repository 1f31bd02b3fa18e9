package model_test

import (
	"bufio"
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

// TestTraces plays every trace of the shared cases twice on one model, with
// all sources dropped in between, and expects nothing left behind.
func TestTraces(t *testing.T) {
	file, err := os.ReadFile("testdata/index.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	m := model.New()
	traces := 0
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); traces++ {
		for range 2 {
			if err := differ.RunTrace(m, lines.Bytes()); err != nil {
				t.Error(err)
			}
			if st := m.Stats(); st != (tree.Stats{}) {
				t.Errorf("left behind: %+v", st)
			}
		}
	}
	if traces != 21 {
		t.Errorf("%d traces, want 21", traces)
	}
}

// step is one call of a scripted test and what it must lead to.
type step struct {
	store  *tree.Store
	place  []uint64
	remove []uint64
	tier   tree.Tier
	shard  uint8
	clear  bool
	out    *tree.Outcome         // compared if given
	ask    []uint64              // query of root 0
	want   [tree.NumViews]uint32 // of ask
	names  []uint64              // of ask, in ViewAny, if any
}

func root(pairs ...uint64) *tree.Store { return &tree.Store{Span: 1, Pairs: pairs} }

func behind(parent uint64, pairs ...uint64) *tree.Store {
	return &tree.Store{Span: 1, HasParent: true, Parent: parent, Pairs: pairs}
}

func keep(s *tree.Store) *tree.Store {
	s.KeepMeaning = true
	return s
}

func skip(s *tree.Store) *tree.Store {
	s.KeepMeaning, s.SkipUnknown = true, true
	return s
}

func span(n int, s *tree.Store) *tree.Store {
	s.Span = n
	return s
}

// views: device, host, any, device or host, extension.
func dev(n uint32) [tree.NumViews]uint32 { return [tree.NumViews]uint32{n, 0, n, n, n} }

func hst(n uint32) [tree.NumViews]uint32 { return [tree.NumViews]uint32{0, n, n, n, n} }

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy tree.Policy
		shards int
		steps  []step
	}{
		{"a chain, names root first", tree.Copies, 1, []step{
			{store: root(11, 1, 12, 2), out: &tree.Outcome{New: 2}},
			{store: behind(12, 13, 3)},
			{ask: []uint64{1, 2, 3, 4}, want: dev(3), names: []uint64{11, 12, 13}},
			{ask: []uint64{2, 3}},
		}},
		{"a hole, and its refill", tree.Copies, 1, []step{
			{store: root(11, 1, 12, 2, 13, 3)},
			{remove: []uint64{12, 99}, out: &tree.Outcome{Removed: 1, Unknown: 1}},
			{ask: []uint64{1, 2, 3}, want: dev(1), names: []uint64{11}},
			{store: behind(11, 12, 2)},
			{ask: []uint64{1, 2, 3}, want: dev(3)},
		}},
		{"copies, never below zero", tree.Copies, 1, []step{
			{store: root(11, 1)},
			{store: root(11, 1), out: &tree.Outcome{Known: 1}},
			{remove: []uint64{11}, out: &tree.Outcome{}},
			{ask: []uint64{1}, want: dev(1)},
			{remove: []uint64{11, 11}, out: &tree.Outcome{Removed: 1, Unknown: 1}},
			{store: root(11, 1)},
			{ask: []uint64{1}, want: dev(1)},
		}},
		{"a set", tree.Set, 1, []step{
			{store: root(11, 1)},
			{store: root(11, 1)},
			{remove: []uint64{11}, out: &tree.Outcome{Removed: 1}},
			{ask: []uint64{1}},
		}},
		{"two names for one block", tree.Copies, 1, []step{
			{store: root(11, 1)},
			{store: root(21, 1)},
			{remove: []uint64{11}},
			{ask: []uint64{1}, want: dev(1), names: []uint64{21}},
		}},
		{"name 0 is a name, parent 0 is the root until it is known", tree.Copies, 1, []step{
			{store: behind(0, 11, 1)},
			{store: root(0, 2)},
			{store: behind(0, 12, 3)},
			{ask: []uint64{1}, want: dev(1)},
			{ask: []uint64{2, 3}, want: dev(2), names: []uint64{0, 12}},
			{remove: []uint64{0}},
			{ask: []uint64{2, 3}},
		}},
		{"content 0 is a content", tree.Copies, 1, []step{
			{store: root(11, 0, 12, 0)},
			{ask: []uint64{0, 0, 0}, want: dev(2)},
		}},
		{"tiers and views", tree.Copies, 1, []step{
			{store: root(11, 1, 12, 2)},
			{store: behind(12, 13, 3, 14, 4), tier: tree.Host},
			{store: behind(14, 15, 5), tier: tree.Disk},
			{store: behind(15, 16, 6)},
			{ask: []uint64{1, 2, 3, 4, 5, 6}, want: [tree.NumViews]uint32{2, 0, 6, 4, 4}},
			{place: []uint64{11}, tier: tree.Host},
			{ask: []uint64{1, 2, 3, 4, 5, 6}, want: [tree.NumViews]uint32{2, 1, 6, 4, 4}},
			{place: []uint64{13}},
			{ask: []uint64{1, 2, 3, 4, 5, 6}, want: [tree.NumViews]uint32{3, 1, 6, 4, 4}},
		}},
		{"the extension does not come back to the device", tree.Copies, 1, []step{
			{store: root(11, 1, 13, 3)},
			{remove: []uint64{13}},
			{store: behind(11, 12, 3), tier: tree.Host},
			{store: behind(12, 13, 4)},
			{ask: []uint64{1, 3, 4}, want: [tree.NumViews]uint32{1, 0, 3, 3, 2}},
		}},
		{"an orphan waits for its parent", tree.Copies, 1, []step{
			{store: behind(12, 13, 3, 14, 4), out: &tree.Outcome{Waiting: 2}},
			{ask: []uint64{3, 4}},
			{store: behind(11, 12, 2), out: &tree.Outcome{Waiting: 1}},
			{store: root(11, 1), out: &tree.Outcome{New: 4}},
			{ask: []uint64{1, 2, 3, 4}, want: dev(4)},
		}},
		{"a waiting block is withdrawn copy by copy", tree.Copies, 1, []step{
			{store: behind(11, 12, 2)},
			{store: behind(11, 12, 2)},
			{remove: []uint64{12}},
			{store: root(11, 1)},
			{ask: []uint64{1, 2}, want: dev(2)},
			{remove: []uint64{12}},
			{ask: []uint64{1, 2}, want: dev(1)},
		}},
		{"what waits behind a withdrawn block goes on waiting", tree.Copies, 1, []step{
			{store: behind(11, 12, 2, 13, 3)},
			{remove: []uint64{12}},
			{store: root(11, 1)},
			{ask: []uint64{1, 2, 3}, want: dev(1)},
			{store: behind(11, 12, 2)},
			{ask: []uint64{1, 2, 3}, want: dev(3)},
		}},
		{"a clear takes what waits", tree.Copies, 1, []step{
			{store: behind(11, 12, 2)},
			{clear: true},
			{store: root(11, 1)},
			{ask: []uint64{1, 2}, want: dev(1)},
		}},
		{"a cycle waits for ever", tree.Copies, 1, []step{
			{store: behind(12, 11, 1)},
			{store: behind(11, 12, 2)},
			{ask: []uint64{1, 2}},
			{remove: []uint64{11, 12}},
		}},
		{"the last announcement decides, on all tiers; children keep their chain", tree.Copies, 1, []step{
			{store: root(11, 1, 12, 2)},
			{store: root(11, 1), tier: tree.Host},
			{store: root(11, 9), tier: tree.Disk, out: &tree.Outcome{New: 1, Moved: 1}},
			{ask: []uint64{9}, want: [tree.NumViews]uint32{1, 1, 1, 1, 1}},
			{ask: []uint64{1, 2}},
			{store: root(21, 1)},
			{ask: []uint64{1, 2}, want: dev(2)},
		}},
		{"a resident name announced behind an unknown parent stays until the parent comes", tree.Copies, 1, []step{
			{store: root(11, 1)},
			{store: behind(99, 11, 1), out: &tree.Outcome{Waiting: 1}},
			{ask: []uint64{1}, want: dev(1)},
			{store: root(99, 9)},
			{ask: []uint64{1}},
			{ask: []uint64{9, 1}, want: dev(2)},
			{remove: []uint64{11}},
			{ask: []uint64{9, 1}, want: dev(2)},
		}},
		{"a child of a name that waits under a newer meaning waits too", tree.Copies, 1, []step{
			{store: root(11, 1)},
			{store: behind(99, 11, 3)},
			{store: behind(11, 12, 2), out: &tree.Outcome{Waiting: 1}},
			{ask: []uint64{1, 2}, want: dev(1)},
			{store: root(99, 9)},
			{ask: []uint64{9, 3, 2}, want: dev(3)},
		}},
		{"a waiting name announced behind a known parent waits no more", tree.Copies, 1, []step{
			{store: behind(99, 11, 1), tier: tree.Host},
			{store: root(11, 2)},
			{ask: []uint64{2}, want: [tree.NumViews]uint32{1, 1, 1, 1, 1}},
			{store: root(99, 9)},
			{ask: []uint64{9, 1}, want: dev(1)},
		}},
		{"a placeholder adds a tier to resident names only", tree.Copies, 1, []step{
			{store: behind(99, 12, 2)},
			{store: root(11, 1)},
			{place: []uint64{11, 12, 13}, tier: tree.Host, out: &tree.Outcome{New: 1, Unknown: 2}},
			{remove: []uint64{11}},
			{ask: []uint64{1}, want: hst(1)},
		}},
		{"kept meaning", tree.Copies, 1, []step{
			{store: root(11, 1, 12, 2)},
			{store: keep(root(11, 7, 12, 8, 13, 3)), tier: tree.Host},
			{ask: []uint64{7, 8, 3}},
			{ask: []uint64{1, 2, 3}, want: [tree.NumViews]uint32{2, 3, 3, 3, 3}},
			{store: keep(behind(99, 12, 8, 14, 4)), tier: tree.Host, out: &tree.Outcome{Known: 1, New: 1}},
			{ask: []uint64{1, 2, 4}, want: [tree.NumViews]uint32{2, 3, 3, 3, 3}},
		}},
		{"kept meaning of a waiting name", tree.Copies, 1, []step{
			{store: behind(11, 12, 2)},
			{store: keep(root(12, 7)), tier: tree.Host},
			{ask: []uint64{7}},
			{store: root(11, 1)},
			{ask: []uint64{1, 2}, want: [tree.NumViews]uint32{2, 0, 2, 2, 2}},
		}},
		{"unknown names skipped", tree.Copies, 1, []step{
			{store: root(11, 1)},
			{store: skip(root(10, 5, 11, 6, 12, 7)), tier: tree.Host, out: &tree.Outcome{New: 1, Unknown: 2}},
			{ask: []uint64{1, 7}, want: [tree.NumViews]uint32{1, 1, 1, 1, 1}},
		}},
		{"blocks of several units", tree.Copies, 1, []step{
			{store: span(2, root(11, 1, 2, 12, 3, 4))},
			{store: behind(12, 13, 5)},
			{ask: []uint64{1, 2, 3}, want: dev(3), names: []uint64{11}},
			{ask: []uint64{1, 2, 3, 4, 5}, want: dev(5), names: []uint64{11, 12, 13}},
			{remove: []uint64{11}},
			{ask: []uint64{1, 2, 3, 4, 5}},
		}},
		{"every shard, per tier", tree.Copies, 2, []step{
			{store: root(11, 1, 12, 2)},
			{ask: []uint64{1, 2}},
			{store: root(11, 1, 12, 2), shard: 1, tier: tree.Host},
			{ask: []uint64{1, 2}},
			{store: root(11, 1), shard: 1},
			{ask: []uint64{1, 2}, want: dev(1), names: []uint64{11}},
			{remove: []uint64{11}},
			{ask: []uint64{1, 2}},
		}},
		{"a parent is known to the shard or not at all", tree.Copies, 2, []step{
			{store: root(11, 1)},
			{store: behind(11, 12, 2), shard: 1, out: &tree.Outcome{Waiting: 1}},
			{store: root(11, 1), shard: 1},
			{store: behind(11, 12, 2)},
			{ask: []uint64{1, 2}, want: dev(2)},
		}},
		{"rejected whole", tree.Copies, 1, []step{
			{store: behind(12, 11, 1, 12, 2), out: &tree.Outcome{Reason: tree.SelfParent}},
			{store: root(11, 1, 11, 2), out: &tree.Outcome{Reason: tree.DuplicateName}},
			{store: root(11), out: &tree.Outcome{Reason: tree.BadShape}},
			{store: span(0, root(11)), out: &tree.Outcome{Reason: tree.BadShape}},
			{store: root(11, 1), tier: tree.NumTiers, out: &tree.Outcome{Reason: tree.BadOwner}},
			{store: root(11, 1), shard: 1, out: &tree.Outcome{Reason: tree.BadOwner}},
			{ask: []uint64{1}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := model.New()
			h, err := m.AddHolder(c.policy, c.shards)
			if err != nil {
				t.Fatal(err)
			}
			r := m.NewReader()
			for i, s := range c.steps {
				o := tree.Owner{Holder: h, Tier: s.tier, Shard: s.shard}
				var out tree.Outcome
				switch {
				case s.store != nil:
					out = m.Store(o, s.store)
				case s.place != nil:
					out = m.Place(o, s.place)
				case s.remove != nil:
					out = m.Remove(o, s.remove)
				case s.clear:
					m.Clear(h)
				}
				if s.out != nil && *s.out != out {
					t.Errorf("step %d: outcome %+v, want %+v", i, out, *s.out)
				}
				if s.ask == nil {
					continue
				}
				var got [tree.NumViews]uint32
				for _, d := range r.Match(0, s.ask) {
					got = d.Units
				}
				if got != s.want {
					t.Errorf("step %d: depths %v, want %v", i, got, s.want)
				}
				names := r.Names(nil, h, tree.ViewAny, len(s.ask))
				if s.names != nil && !slices.Equal(names, s.names) {
					t.Errorf("step %d: names %v, want %v", i, names, s.names)
				}
				if err := m.NameOK(h, tree.ViewAny, 0, s.ask, len(s.ask), names); err != nil {
					t.Errorf("step %d: the model refuses its own names: %v", i, err)
				}
			}
			m.Drop(h)
			if st := m.Stats(); st != (tree.Stats{}) {
				t.Errorf("left behind: %+v", st)
			}
		})
	}
}

func TestBound(t *testing.T) {
	m := model.NewBounded(2)
	h, _ := m.AddHolder(tree.Copies, 1)
	o := tree.Owner{Holder: h}
	m.Store(o, behind(9, 11, 1))
	m.Store(o, behind(9, 12, 2))
	if out := m.Store(o, behind(9, 13, 3)); out.Dropped != 1 {
		t.Errorf("outcome %+v, want 1 dropped", out)
	}
	m.Store(o, root(9, 9))
	for content, want := range []int{0, 0, 1, 1} { // 11 was the oldest
		d := m.Depths(h, 0, []uint64{9, uint64(content)})
		if int(d[tree.ViewAny]) != 1+want {
			t.Errorf("content %d: depth %d, want %d", content, d[tree.ViewAny], 1+want)
		}
	}
}

func TestHolders(t *testing.T) {
	m := model.New()
	for _, n := range []int{0, -1, tree.MaxShards + 1} {
		if _, err := m.AddHolder(tree.Copies, n); err == nil {
			t.Errorf("%d shards are no error", n)
		}
	}
	a, _ := m.AddHolder(tree.Copies, 1)
	b, _ := m.AddHolder(tree.Copies, tree.MaxShards)
	if a == 0 || b == 0 || a == b {
		t.Fatalf("holders %d and %d", a, b)
	}
	r := m.NewReader()
	m.Store(tree.Owner{Holder: a}, root(11, 1))
	m.Hide(a)
	if got := r.Match(0, []uint64{1}); len(got) != 0 {
		t.Errorf("hidden, but %v", got)
	}
	m.Show(a)
	if got := r.Match(0, []uint64{1}); len(got) != 1 {
		t.Errorf("shown, but %v", got)
	}
	m.Drop(a)
	if out := m.Store(tree.Owner{Holder: a}, root(11, 1)); out.Reason != tree.BadOwner {
		t.Errorf("a dropped holder stores: %+v", out)
	}
	if c, _ := m.AddHolder(tree.Copies, 1); c == a || c == b {
		t.Errorf("holder %d is given twice", c)
	}
	m.Drop(a) // twice, and one that never was: nothing happens
	m.Clear(77)
	if got := r.Match(0, []uint64{1}); len(got) != 0 {
		t.Errorf("dropped, but %v", got)
	}
}

func TestNameOKRefuses(t *testing.T) {
	m := model.New()
	h, _ := m.AddHolder(tree.Copies, 1)
	o := tree.Owner{Holder: h}
	m.Store(o, root(11, 1, 12, 2, 13, 3, 14, 4))
	m.Remove(o, []uint64{14})
	m.Store(tree.Owner{Holder: h, Tier: tree.Host}, root(21, 1))
	query := []uint64{1, 2, 3, 4}
	for _, c := range []struct {
		name  string
		view  tree.View
		depth int
		names []uint64
		ok    bool
	}{
		{"all", tree.ViewAny, 4, []uint64{11, 12, 13}, true},
		{"short", tree.ViewAny, 4, []uint64{11}, true},
		{"the other name of a block", tree.ViewAny, 4, []uint64{21, 12}, true},
		{"none", tree.ViewAny, 4, nil, true},
		{"a gap", tree.ViewAny, 4, []uint64{11, 13}, false},
		{"a removed one", tree.ViewAny, 4, []uint64{11, 12, 13, 14}, false},
		{"too deep", tree.ViewAny, 2, []uint64{11, 12, 13}, false},
		{"another tier's", tree.ViewDevice, 4, []uint64{21}, false},
		{"twice", tree.ViewAny, 4, []uint64{11, 11}, false},
		{"never stored", tree.ViewAny, 4, []uint64{99}, false},
	} {
		if err := m.NameOK(h, c.view, 0, query, c.depth, c.names); (err == nil) != c.ok {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
}
