package tree_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
)

// rangeRig plays the same events on an index and on the reference model.
type rangeRig struct {
	x       *tree.Index
	m       *model.Model
	shards  map[tree.Holder]int
	holders []tree.Holder               // of the index
	twin    map[tree.Holder]tree.Holder // the model's of the index's
}

func newRangeRig(t *testing.T, shards ...int) *rangeRig {
	t.Helper()
	r := &rangeRig{x: tree.New(tree.Options{}), m: model.New(), shards: map[tree.Holder]int{}, twin: map[tree.Holder]tree.Holder{}}
	for _, n := range shards {
		h, err := r.x.AddHolder(tree.Set, n)
		if err != nil {
			t.Fatal(err)
		}
		k, err := r.m.AddHolder(tree.Set, n)
		if err != nil {
			t.Fatal(err)
		}
		r.shards[h], r.shards[k], r.twin[h] = n, n, k
		r.holders = append(r.holders, h)
	}
	return r
}

// both calls f for the index and for the model, which name holders each in its
// own way.
func (r *rangeRig) both(o tree.Owner, f func(w tree.Writer, o tree.Owner)) {
	f(r.x, o)
	o.Holder = r.twin[o.Holder]
	f(r.m, o)
}

func (r *rangeRig) of(h tree.Holder) int { return r.shards[h] }

// store lets an owner hold positions from … to-1 of a chain, whose names are
// content and chain.
func (r *rangeRig) store(o tree.Owner, chain uint64, from, to int) {
	s := &tree.Store{Span: 1, HasParent: from > 0, Parent: rangeName(chain, from-1)}
	for i := from; i < to; i++ {
		s.Pairs = append(s.Pairs, rangeName(chain, i), rangeContent(chain, i))
	}
	r.both(o, func(w tree.Writer, o tree.Owner) { w.Store(o, s) })
}

func (r *rangeRig) remove(o tree.Owner, chain uint64, from, to int) {
	var names []uint64
	for i := from; i < to; i++ {
		names = append(names, rangeName(chain, i))
	}
	r.both(o, func(w tree.Writer, o tree.Owner) { w.Remove(o, names) })
}

// Chains share their first positions: chain c leaves the others at 8·c.
func rangeContent(chain uint64, i int) uint64 {
	if i < 8*int(chain) {
		chain = 0
	}
	return 1<<32 | chain<<16 | uint64(i)
}

func rangeName(chain uint64, i int) uint64 { return rangeContent(chain, i) << 20 }

func rangeQuery(chain uint64, n int) (q []uint64) {
	for i := range n {
		q = append(q, rangeContent(chain, i))
	}
	return q
}

// TestRangesAreTheModels: every range of every holder, around every position,
// with its names, after every one of many random events.
func TestRangesAreTheModels(t *testing.T) {
	const length = 40
	for seed := range uint64(4) {
		r := newRangeRig(t, 1, 2, 1, 3)
		x, m := r.x.NewRanger(), r.m.NewRanger()
		rng := rand.New(rand.NewPCG(seed, 1))
		for step := range 40 {
			h := r.holders[rng.IntN(len(r.holders))]
			o := tree.Owner{Holder: h, Tier: tree.Tier(rng.IntN(3)), Shard: uint8(rng.IntN(r.shards[h]))}
			chain, from := uint64(rng.IntN(4)), rng.IntN(length)
			to := min(length, from+1+rng.IntN(20))
			switch rng.IntN(8) {
			case 0, 1:
				r.remove(o, chain, from, to)
			case 2:
				for s := range r.shards[h] {
					o.Shard = uint8(s)
					r.store(o, chain, 0, to)
				}
			case 3:
				if rng.IntN(10) == 0 {
					r.both(o, func(w tree.Writer, o tree.Owner) { w.Clear(o.Holder) })
				}
			case 4:
				if rng.IntN(4) == 0 {
					r.both(o, func(w tree.Writer, o tree.Owner) { w.Hide(o.Holder) })
				} else {
					r.both(o, func(w tree.Writer, o tree.Owner) { w.Show(o.Holder) })
				}
			default:
				for s := range r.shards[h] {
					o.Shard = uint8(s)
					r.store(o, chain, from, to)
				}
			}
			for c := range uint64(4) {
				q := rangeQuery(c, length)
				for _, v := range []tree.View{tree.ViewHost, tree.ViewDeviceHost} {
					for at := 0; at < length; at += 3 {
						got, want := x.Ranges(nil, 0, q, v, at, r.of), m.Ranges(nil, 0, q, v, at, r.of)
						for i := range got {
							got[i].Holder = r.twin[got[i].Holder]
						}
						slices.SortFunc(got, func(a, b tree.Range) int { return int(a.Holder) - int(b.Holder) })
						if !slices.Equal(got, want) {
							t.Fatalf("seed %d, step %d, chain %d, view %d, at %d: %v, the model has %v", seed, step, c, v, at, got, want)
						}
						for _, h := range r.holders {
							a, an, aok := x.Range(nil, h, 0, q, v, at, r.shards[h])
							b, bn, bok := m.Range(nil, r.twin[h], 0, q, v, at, r.shards[h])
							a.Holder, b.Holder = h, h
							if aok != bok || aok && (a != b || !slices.Equal(an, bn)) {
								t.Fatalf("seed %d, step %d, chain %d, view %d, at %d, holder %d: %v %v %v, the model has %v %v %v", seed, step, c, v, at, h, a, an, aok, b, bn, bok)
							}
						}
					}
				}
			}
		}
	}
}

// TestRangesOfNothing: what is not there has no range, and other views have none.
func TestRangesOfNothing(t *testing.T) {
	r := newRangeRig(t, 1)
	o := tree.Owner{Holder: r.holders[0], Tier: tree.Host}
	r.store(o, 0, 0, 4)
	q := rangeQuery(0, 6)
	for i, g := range []tree.Ranger{r.x.NewRanger(), r.m.NewRanger()} {
		o := o
		if i == 1 {
			o.Holder = r.twin[o.Holder]
		}
		for name, got := range map[string][]tree.Range{
			"another root":      g.Ranges(nil, 1, q, tree.ViewHost, 1, r.of),
			"no root":           g.Ranges(nil, tree.MaxRoot+1, q, tree.ViewHost, 1, r.of),
			"behind the path":   g.Ranges(nil, 0, q, tree.ViewHost, 5, r.of),
			"behind the query":  g.Ranges(nil, 0, q, tree.ViewHost, 6, r.of),
			"before it":         g.Ranges(nil, 0, q, tree.ViewHost, -1, r.of),
			"another view":      g.Ranges(nil, 0, q, tree.ViewAny, 1, r.of),
			"nobody asked for":  g.Ranges(nil, 0, q, tree.ViewHost, 1, func(tree.Holder) int { return 0 }),
			"an empty question": g.Ranges(nil, 0, nil, tree.ViewHost, 0, r.of),
		} {
			if len(got) != 0 {
				t.Errorf("%T, %s: %v", g, name, got)
			}
		}
		if _, names, ok := g.Range([]uint64{7}, 99, 0, q, tree.ViewHost, 1, 1); ok || len(names) != 1 {
			t.Errorf("%T: a holder that is not: %v, %v", g, names, ok)
		}
		if found, names, ok := g.Range([]uint64{7}, o.Holder, 0, q, tree.ViewHost, 1, 1); !ok || found != (tree.Range{Holder: o.Holder, End: 4}) || len(names) != 5 {
			t.Errorf("%T: %v, %v, %v", g, found, names, ok)
		}
	}
}

// TestRangesAreHeldTogether: a holder that never holds positions 9 and 10 at
// once is never said to, however fast the writer is.
func TestRangesAreHeldTogether(t *testing.T) {
	x := tree.New(tree.Options{})
	h, err := x.AddHolder(tree.Set, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := tree.Owner{Holder: h, Tier: tree.Host}
	for _, tier := range []tree.Tier{tree.Disk, tree.Host} { // the path stays by the disk's
		s := &tree.Store{Span: 1}
		for i := range 20 {
			s.Pairs = append(s.Pairs, rangeName(0, i), rangeContent(0, i))
		}
		x.Store(tree.Owner{Holder: h, Tier: tier}, s)
	}
	x.Remove(o, []uint64{rangeName(0, 10)})
	var stop atomic.Bool
	var work sync.WaitGroup
	work.Go(func() {
		one := func(i int) *tree.Store {
			return &tree.Store{Span: 1, HasParent: true, Parent: rangeName(0, i-1), Pairs: []uint64{rangeName(0, i), rangeContent(0, i)}}
		}
		nine, ten := one(9), one(10)
		for !stop.Load() {
			x.Remove(o, []uint64{rangeName(0, 9)})
			x.Store(o, ten)
			x.Remove(o, []uint64{rangeName(0, 10)})
			x.Store(o, nine)
		}
	})
	seen := map[string]int{}
	g, q := x.NewRanger(), rangeQuery(0, 20)
	for range 20_000 {
		found, names, ok := g.Range(nil, h, 0, q, tree.ViewHost, 12, 1)
		switch {
		case !ok:
			seen["lost"]++
		case found.Start <= 9 || found.End != 20 || len(names) != 20-found.Start || names[0] != rangeName(0, found.Start):
			// 9 is held only while 10 is not.
			t.Errorf("range %v with %d names", found, len(names))
		default:
			seen[fmt.Sprint(found.Start)]++
		}
		if t.Failed() {
			break
		}
	}
	stop.Store(true)
	work.Wait()
	t.Logf("%v", seen)
	if seen["11"] == 0 && seen["10"] == 0 {
		t.Errorf("no range was seen: %v", seen)
	}
}

// TestRangesDoNotAllocate once their buffers have grown.
func TestRangesDoNotAllocate(t *testing.T) {
	r := newRangeRig(t, 1, 2)
	for _, h := range r.holders {
		for s := range r.shards[h] {
			r.store(tree.Owner{Holder: h, Tier: tree.Host, Shard: uint8(s)}, 0, 0, 64)
			r.remove(tree.Owner{Holder: h, Tier: tree.Host, Shard: uint8(s)}, 0, 0, 3)
		}
	}
	g, q := r.x.NewRanger(), rangeQuery(0, 64)
	ranges, names := make([]tree.Range, 0, 8), make([]uint64, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		ranges = g.Ranges(ranges[:0], 0, q, tree.ViewHost, 9, r.of)
		_, names, _ = g.Range(names[:0], r.holders[1], 0, q, tree.ViewHost, 9, 2)
	})
	if len(ranges) != 2 || len(names) != 61 || n != 0 && !raceDetector {
		t.Errorf("%d ranges, %d names, %v allocations", len(ranges), len(names), n)
	}
}
