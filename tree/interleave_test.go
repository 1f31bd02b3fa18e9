package tree_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
)

// A world is one index with one writer and one reader as coroutines, so that a
// random schedule can stop either between any two of its steps and go on with
// the other: the reader's protocol, played on the real code.
type world struct {
	r       *rand.Rand
	index   *tree.Index
	model   *model.Model
	truth   tree.Reader
	holders []tree.Holder // in the index
	same    map[tree.Holder]tree.Holder
	queries [][]uint64

	ops  []figures // truth before the first op and after each
	text []string
	now  int // ops finished
	busy bool
}

type figures []map[tree.Holder][tree.NumViews]uint32 // by query, by the index's holder

func (w *world) look() figures {
	f := make(figures, len(w.queries))
	for i, q := range w.queries {
		f[i] = map[tree.Holder][tree.NumViews]uint32{}
		for _, d := range w.truth.Match(0, q) {
			f[i][w.same[d.Holder]] = d.Units
		}
	}
	return f
}

// chain i of a world: a common prefix, then its own blocks.
func chain(i int) []uint64 {
	c := []uint64{1, 2, 3, 4, 5, 6}
	for k := 0; k < 8; k++ {
		c = append(c, uint64(100*(i+1)+k))
	}
	return c
}

// op makes one random change in model and index.
func (w *world) op(profile int) {
	if profile == 5 && w.r.IntN(4) == 0 {
		w.do("step", func() {}, func() { w.index.Step() })
		return
	}
	k := w.r.IntN(len(w.holders))
	if profile == 5 { // few, so that what is left of a branch is often a chain
		k = w.r.IntN(2)
	}
	h := w.holders[k]
	mh := tree.Holder(0)
	for m, x := range w.same {
		if x == h {
			mh = m
		}
	}
	c := chain(w.r.IntN(3))
	o, mo := tree.Owner{Holder: h}, tree.Owner{Holder: mh}
	if profile >= 2 && profile < 5 {
		o.Tier = tree.Tier(w.r.IntN(3))
	}
	if profile == 3 {
		o.Shard = uint8(w.r.IntN(2))
	}
	mo.Tier, mo.Shard = o.Tier, o.Shard
	name := func(pos int) uint64 { return c[pos] + 1000 }
	if profile == 4 {
		name = func(pos int) uint64 { return c[pos] + uint64(1000*(k+1)) }
	}
	lo := w.r.IntN(len(c))
	hi := lo + 1 + w.r.IntN(len(c)-lo)
	switch n := w.r.IntN(20); {
	case n < 9:
		if w.r.IntN(2) == 0 {
			lo = 0
		}
		s := tree.Store{Span: 1, HasParent: lo > 0}
		if lo > 0 {
			s.Parent = name(lo - 1)
		}
		for p := lo; p < hi; p++ {
			s.Pairs = append(s.Pairs, name(p), c[p])
		}
		w.do(fmt.Sprint("store ", o, s), func() { w.model.Store(mo, &s) }, func() { w.index.Store(o, &s) })
	case n < 17:
		var names []uint64
		if profile == 0 || profile == 5 { // leaf first, to the end
			hi = len(c)
		}
		for p := hi - 1; p >= lo; p-- {
			names = append(names, name(p))
		}
		if profile == 1 && w.r.IntN(2) == 0 {
			names = names[len(names)-1:]
		}
		w.do(fmt.Sprint("remove ", o, names), func() { w.model.Remove(mo, names) }, func() { w.index.Remove(o, names) })
	case n == 17 || profile == 0 && n == 18:
		w.do(fmt.Sprint("clear ", h), func() { w.model.Clear(mh) }, func() { w.index.Clear(h) })
	case n == 18:
		w.do("step", func() {}, func() { w.index.Step() })
	default:
		if w.r.IntN(2) == 0 {
			w.do(fmt.Sprint("hide ", h), func() { w.model.Hide(mh) }, func() { w.index.Hide(h) })
		} else {
			w.do(fmt.Sprint("show ", h), func() { w.model.Show(mh) }, func() { w.index.Show(h) })
		}
	}
}

func (w *world) do(text string, model, index func()) {
	model()
	w.ops = append(w.ops, w.look())
	w.text = append(w.text, text)
	w.busy = true
	index()
	w.now++
	w.busy = false
}

// allowed reports whether a figure was true at some instant between op from
// having finished and the state to; an op in progress may show all between.
func (w *world) allowed(q int, h tree.Holder, v tree.View, got uint32, from, to int) bool {
	for i := from; i <= to; i++ {
		a := w.ops[i][q][h][v]
		if got == a {
			return true
		}
		if i < to {
			b := w.ops[i+1][q][h][v]
			if got >= min(a, b) && got <= max(a, b) {
				return true
			}
		}
	}
	return false
}

func TestInterleavings(t *testing.T) {
	profiles := []string{"leaf first", "holes", "tiers", "two shards", "own names", "chains"}
	worlds := 400
	if testing.Short() {
		worlds = 60
	}
	for p, name := range profiles {
		t.Run(name, func(t *testing.T) {
			answers, retries := 0, uint64(0)
			for seed := range worlds {
				n, r := play(t, p, uint64(seed))
				answers += n
				retries += r
				if t.Failed() {
					t.FailNow()
				}
			}
			if answers == 0 || retries == 0 {
				t.Errorf("%d answers, %d retries: the schedule never came between", answers, retries)
			}
			t.Logf("%d answers, %d retries", answers, retries)
		})
	}
}

func play(t *testing.T, profile int, seed uint64) (answers int, retries uint64) {
	w := &world{r: rand.New(rand.NewPCG(seed, uint64(profile))), index: tree.New(tree.Options{Seed: seed + 1}), model: model.New(), same: map[tree.Holder]tree.Holder{}}
	w.truth = w.model.NewReader()
	shards := 1
	if profile == 3 {
		shards = 2
	}
	holders := 5
	if seed%2 != 0 { // enough that most lanes are in a dense cell
		w.index.Eager()
		holders = 8
	}
	for range holders {
		h, err := w.index.AddHolder(tree.Copies, shards)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := w.model.AddHolder(tree.Copies, shards)
		w.holders = append(w.holders, h)
		w.same[m] = h
	}
	for i := range 3 {
		w.queries = append(w.queries, chain(i))
	}
	w.ops = append(w.ops, w.look())
	for range 20 {
		w.op(profile)
	}

	left := true
	var writer func() (struct{}, bool)
	step := func() { // the reader is within a walk: the writer goes on a little
		n := w.r.IntN(4)
		if w.r.IntN(12) == 0 { // long enough for a run or a lane id to come back as another
			n = w.r.IntN(200)
		}
		for range n {
			if left {
				_, left = writer()
			}
		}
	}
	writer, stop := iter.Pull(func(yield func(struct{}) bool) {
		w.index.Hook(func() { yield(struct{}{}) }, step)
		for range 120 {
			w.op(profile)
			if !yield(struct{}{}) {
				return
			}
		}
	})
	defer stop()
	reader := w.index.NewReader()
	for left {
		_, left = writer()
		from, q := w.now, w.r.IntN(len(w.queries))
		got := map[tree.Holder][tree.NumViews]uint32{}
		for _, d := range reader.Match(0, w.queries[q]) {
			got[d.Holder] = d.Units
		}
		to := w.now
		if w.busy {
			to++
		}
		answers++
		for _, h := range w.holders {
			for v := range tree.NumViews {
				if !w.allowed(q, h, v, got[h][v], from, to) {
					t.Errorf("seed %d: query %d, holder %d, view %d: %d is not among the truths of ops %d to %d", seed, q, h, v, got[h][v], from, to)
					for i := from; i <= to; i++ {
						t.Logf("truth %d: %v", i, w.ops[i][q][h])
						if i < to {
							t.Log(w.text[i])
						}
					}
					return answers, 0
				}
			}
		}
	}
	return answers, w.index.Stats().Retries
}
