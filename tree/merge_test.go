package tree_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// idle lets the writer do all that it puts off.
func idle(x *tree.Index) {
	for range 100 {
		x.Step()
	}
	for x.Step() {
	}
}

// Pitfall: peers split a node wherever a branch parts, and never join what is
// left when the branch has gone: 15 nodes for a chain of 128 blocks. The number
// of runs must follow from what lives.
func TestBranchesThatDiedLeaveOneRun(t *testing.T) {
	const length, every = 128, 9
	x := tree.New(tree.Options{Seed: 1})
	a, b := add(t, x), add(t, x)
	main := series(1, length)
	// a brings the chain piece by piece, and between the pieces branches that
	// keep each piece in a run of its own.
	for at := 0; at < length; at += every {
		parent := uint64(0)
		if at > 0 {
			parent = main[at-1]
			before := max(0, at-every)
			put(x, b, main[max(0, before-1)]*uint64(min(1, before)), main[before:at]...)
			put(x, b, parent, series(uint64(1000*at), 5)...)
		}
		put(x, a, parent, main[at:min(length, at+every)]...)
	}
	split := x.Stats().Runs
	for at := every; at < length; at += every {
		take(x, b, backwards(series(uint64(1000*at), 5))...)
	}
	idle(x)
	if n := x.Stats().Runs; n != 1 {
		t.Errorf("%d runs for a chain that two hold, %d while it had branches", n, split)
	}
	if split < length/every {
		t.Errorf("only %d runs while there were branches: nothing was apart", split)
	}
	same(t, x, main, map[tree.Holder]int{a: length, b: length / every * every})
	if err := x.Check(); err != nil {
		t.Error(err)
	}
}

// same compares depths and names along a chain whose names are its contents.
func same(t *testing.T, x *tree.Index, main []uint64, want map[tree.Holder]int) {
	t.Helper()
	r := x.NewReader()
	got := r.Match(0, main)
	if len(got) != len(want) {
		t.Errorf("%d holders, want %d", len(got), len(want))
	}
	for h, n := range want {
		if d := anyOf(got, h); int(d) != n {
			t.Errorf("holder %d: %d blocks, want %d", h, d, n)
		}
		if names := r.Names(nil, h, tree.ViewAny, n); !slices.Equal(names, main[:n]) {
			t.Errorf("holder %d: names %v", h, names)
		}
	}
}

// TestEverySplitMerges brings a chain in pieces, in every way there is, each piece
// behind the end of a branch that dies: one run is left, and all of it is found
// and removed by its names.
func TestEverySplitMerges(t *testing.T) {
	const length = 9
	main := series(1, length)
	for ways := range 1 << (length - 1) {
		x := tree.New(tree.Options{Seed: 1})
		a, b := add(t, x), add(t, x)
		var dead [][]uint64
		from := 0
		for end := 1; end <= length; end++ {
			if end < length && ways>>(end-1)&1 == 0 {
				continue
			}
			parent := uint64(0)
			if from > 0 {
				parent = main[from-1]
				branch := series(uint64(100*from), uint64(1+from%6))
				put(x, a, parent, branch...)
				dead = append(dead, branch)
			}
			put(x, a, parent, main[from:end]...)
			from = end
		}
		put(x, b, 0, main[:length/2]...)
		for _, branch := range dead {
			take(x, a, backwards(branch)...)
		}
		idle(x)
		if n := x.Stats().Runs; n != 1 {
			t.Fatalf("way %b: %d runs", ways, n)
		}
		same(t, x, main, map[tree.Holder]int{a: length, b: length / 2})
		if err := x.Check(); err != nil {
			t.Fatalf("way %b: %v", ways, err)
		}
		take(x, b, main[:length/2]...)
		take(x, a, main...)
		if left := x.Stats().Runs; left != 0 {
			t.Fatalf("way %b: %d runs are left", ways, left)
		}
	}
}

// A conversation is a chain that grows turn by turn: a prompt in one event, then
// an answer block by block. Every third answer is asked for again; the first one
// is never continued, and is evicted when so many more have been tossed like it.
type conversation struct {
	x      *tree.Index
	h      tree.Holder
	later  int
	next   uint64
	path   []uint64
	tossed [][]uint64
}

func (c *conversation) fresh(n int) []uint64 {
	s := series(c.next, uint64(n))
	c.next += uint64(n)
	return s
}

func (c *conversation) end() uint64 {
	if len(c.path) == 0 {
		return 0
	}
	return c.path[len(c.path)-1]
}

func (c *conversation) answer(n int) []uint64 {
	parent := c.end()
	blocks := c.fresh(n)
	for _, b := range blocks {
		put(c.x, c.h, parent, b)
		parent = b
	}
	return blocks
}

func (c *conversation) turn(k, prompt, answer int) {
	blocks := c.fresh(prompt)
	put(c.x, c.h, c.end(), blocks...)
	c.path = append(c.path, blocks...)
	if k%3 == 0 {
		c.tossed = append(c.tossed, c.answer(answer))
	}
	c.path = append(c.path, c.answer(answer)...)
	if len(c.tossed) > c.later {
		take(c.x, c.h, backwards(c.tossed[0])...)
		c.tossed = c.tossed[1:]
	}
}

// TestConversationsHaveFewRuns plays conversations and counts runs: their number
// must not grow with that of turns. Where a branch dies only when the conversation
// has parted again behind it, what is before that is made one when there is time,
// if nothing hangs behind it then.
func TestConversationsHaveFewRuns(t *testing.T) {
	const conversations, turns = 20, 40
	for _, c := range []struct{ later, most int }{{0, 6}, {1, 22}} {
		x := tree.New(tree.Options{Seed: 1})
		h := add(t, x)
		var all []*conversation
		for i := range conversations {
			all = append(all, &conversation{x: x, h: h, later: c.later, next: uint64(i+1) << 32})
		}
		for k := range turns {
			for i, c := range all {
				c.turn(k, 5+(i+k)%14, 9+(i*k)%11)
			}
		}
		blocks := 0
		for _, c := range all {
			blocks += len(c.path)
			same(t, x, c.path, map[tree.Holder]int{h: len(c.path)})
		}
		n := x.Stats().Runs
		if t.Logf("%d runs for %d conversations of %d blocks each", n, conversations, blocks/conversations); n > conversations*c.most {
			t.Errorf("more than %d each", c.most)
		}
		if err := x.Check(); err != nil {
			t.Error(err)
		}
		for _, c := range all {
			take(x, h, backwards(c.path)...)
			for _, s := range c.tossed {
				take(x, h, backwards(s)...)
			}
		}
		x.Drop(h)
		idle(x)
		if left := x.Left(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// BenchmarkMatchConversations asks for conversations of some 500 blocks that have
// grown turn by turn, answers asked for again among them.
func BenchmarkMatchConversations(b *testing.B) {
	const conversations, turns = 400, 20
	x := tree.New(tree.Options{Seed: 1})
	h, err := x.AddHolder(tree.Copies, 1)
	if err != nil {
		b.Fatal(err)
	}
	var all []*conversation
	for i := range conversations {
		all = append(all, &conversation{x: x, h: h, later: i % 3, next: uint64(i+1) << 32})
	}
	for k := range turns {
		for i, c := range all {
			c.turn(k, 5+(i+k)%14, 9+(i*k)%11)
		}
	}
	r := x.NewReader().(tree.LevelReader)
	for i := 0; b.Loop(); i++ {
		r.Levels(0, all[i*7%conversations].path)
	}
	st := x.Stats()
	b.ReportMetric(float64(st.Runs)/conversations, "runs/conversation")
	b.ReportMetric(float64(st.Bytes)/float64(st.Residencies), "bytes/membership")
}

// TestRunsMergedUnderReader has runs become one at every pause of a walk, and
// what was theirs taken by others; and a walk at every pause of the writer that
// makes them one; and a walk that stops anywhere and ends anywhere in between.
// Their holders have what they have all the time.
func TestRunsMergedUnderReader(t *testing.T) {
	for _, c := range []struct {
		name    string
		front   int // blocks before, on which others hang: 0, the chain is at a root
		holders int
		eager   bool
	}{
		{"first", 0, 2, false}, {"behind another", 4, 2, false}, {"of many", 4, 9, false}, {"in a dense cell", 0, 9, true},
	} {
		for _, goesOn := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, goesOn), func(t *testing.T) {
				const pieces, piece = 4, 5
				query := series(1, uint64(c.front+pieces*piece+6))
				chain := query[:c.front+pieces*piece]
				var all []tree.Holder
				depth := func(i int) int { return max(c.front, 1) + (i*7)%(len(chain)-max(c.front, 1)) }
				setup := func() *tree.Index {
					x := tree.New(tree.Options{Seed: 1})
					if c.eager {
						x.Eager()
					}
					all = all[:0]
					for range c.holders + 1 {
						all = append(all, add(t, x))
					}
					h := all[0]
					if c.front > 0 {
						put(x, h, 0, query[:c.front]...)
						put(x, h, query[c.front-1], 5000)
					}
					var dead []uint64
					for at := c.front; at < len(chain); at += piece {
						parent := uint64(0)
						if at > 0 {
							parent = query[at-1]
							put(x, h, parent, uint64(6000+at))
							dead = append(dead, uint64(6000+at))
						}
						put(x, h, parent, query[at:at+piece]...)
					}
					for i, h := range all[1:c.holders] {
						put(x, h, 0, query[:depth(i)]...)
					}
					put(x, all[c.holders], 0, 7000)
					for _, d := range dead {
						take(x, h, d)
					}
					return x
				}
				change := func(x *tree.Index) {
					before := x.Stats().Runs
					if goesOn {
						put(x, all[0], chain[len(chain)-1], query[len(chain):]...)
					} else {
						idle(x)
					}
					if after := x.Stats().Runs; after >= before {
						t.Errorf("%d runs, %d before", after, before)
					}
				}
				judge := func(where string, n int, got []tree.Depths) {
					t.Helper()
					want := len(chain)
					if d := int(anyOf(got, all[0])); d != want && !(goesOn && d > want) {
						t.Errorf("%s %d: %d blocks, want %d", where, n, d, want)
					}
					for i, h := range all[1:c.holders] {
						if d := anyOf(got, h); int(d) != depth(i) {
							t.Errorf("%s %d: holder %d has %d blocks, want %d", where, n, i+1, d, depth(i))
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
							if change(x); taken {
								for k := range uint64(8) {
									put(x, all[c.holders], 7000, series(8000+100*k, 5+3*k)...)
								}
							}
						}
					}, func(t *testing.T, pause int, got []tree.Depths) { judge("pause", pause, got) })
				}
				x := setup()
				r, before, stops := x.NewReader(), x.NewReader(), 0
				before.Match(0, query)
				x.Hook(func() {
					judge("stop", stops, r.Match(0, query))
					if names := before.Names(nil, all[0], tree.ViewAny, len(chain)); !slices.Equal(names, chain[:len(names)]) {
						t.Errorf("stop %d: names %v", stops, names)
					}
					stops++
				}, nil)
				change(x)
				if stops < 8 {
					t.Errorf("the writer stopped %d times", stops)
				}
				x.Hook(nil, nil)
				if err := x.Check(); err != nil {
					t.Error(err)
				}
				for pause, more := 0, true; more; pause++ {
					for end := 0; more && end < stops; end++ {
						x := setup()
						q, ok := ask(x, query, pause)
						if more = ok; !more {
							break
						}
						stop := 0
						x.Hook(func() {
							if stop == end {
								judge(fmt.Sprintf("pause %d, stop", pause), end, q.finish())
							}
							stop++
						}, nil)
						change(x)
					}
				}
			})
		}
	}
}
