package tree_test

import (
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

// shards is an index of several shards as an engine has it: a holder lives on
// one, every query walks all, and the answers are put together.
type shards struct {
	parts []*tree.Index
	next  int
	part  map[tree.Holder]int         // by the holder given out
	own   map[tree.Holder]tree.Holder // what its shard calls it
	out   []map[tree.Holder]tree.Holder
}

func newShards() tree.Interface {
	s := &shards{part: map[tree.Holder]int{}, own: map[tree.Holder]tree.Holder{}}
	for i := range 3 {
		s.parts = append(s.parts, tree.New(tree.Options{Seed: uint64(i + 1)}))
		s.out = append(s.out, map[tree.Holder]tree.Holder{})
	}
	return s
}

func (s *shards) AddHolder(p tree.Policy, tp int) (tree.Holder, error) {
	s.next++
	h, i := tree.Holder(s.next), s.next%len(s.parts)
	own, err := s.parts[i].AddHolder(p, tp)
	if err != nil {
		return 0, err
	}
	s.part[h], s.own[h], s.out[i][own] = i, own, h
	return h, nil
}

func (s *shards) of(h tree.Holder) *tree.Index    { return s.parts[s.part[h]] }
func (s *shards) Drop(h tree.Holder)              { s.of(h).Drop(s.own[h]) }
func (s *shards) Clear(h tree.Holder)             { s.of(h).Clear(s.own[h]) }
func (s *shards) ClearShard(h tree.Holder, i int) { s.of(h).ClearShard(s.own[h], i) }
func (s *shards) Hide(h tree.Holder)              { s.of(h).Hide(s.own[h]) }
func (s *shards) Show(h tree.Holder)              { s.of(h).Show(s.own[h]) }

func (s *shards) owner(o tree.Owner) (*tree.Index, tree.Owner) {
	x := s.of(o.Holder)
	o.Holder = s.own[o.Holder]
	return x, o
}

func (s *shards) Store(o tree.Owner, e *tree.Store) tree.Outcome {
	x, own := s.owner(o)
	return x.Store(own, e)
}

func (s *shards) Place(o tree.Owner, names []uint64) tree.Outcome {
	x, own := s.owner(o)
	return x.Place(own, names)
}

func (s *shards) Remove(o tree.Owner, names []uint64) tree.Outcome {
	x, own := s.owner(o)
	return x.Remove(own, names)
}

func (s *shards) Step() (left bool) {
	for _, x := range s.parts {
		left = x.Step() || left
	}
	return left
}

func (s *shards) Stats() (sum tree.Stats) {
	for _, x := range s.parts {
		st := x.Stats()
		sum.Holders += st.Holders
		sum.Residencies += st.Residencies
		sum.Waiting += st.Waiting
		sum.Runs += st.Runs
		sum.Names += st.Names
		sum.Links += st.Links
		sum.Deferred += st.Deferred
	}
	return sum
}

func (s *shards) NewReader() tree.Reader {
	r := &shardsReader{s: s}
	for _, x := range s.parts {
		r.parts = append(r.parts, x.NewReader())
	}
	return r
}

type shardsReader struct {
	s      *shards
	parts  []tree.Reader
	answer []tree.Depths
}

func (r *shardsReader) Match(root tree.Root, contents []uint64) []tree.Depths {
	r.answer = r.answer[:0]
	for i, p := range r.parts {
		for _, d := range p.Match(root, contents) {
			d.Holder = r.s.out[i][d.Holder]
			r.answer = append(r.answer, d)
		}
	}
	slices.SortStableFunc(r.answer, func(a, b tree.Depths) int {
		return int(b.Units[tree.ViewAny]) - int(a.Units[tree.ViewAny])
	})
	return r.answer
}

func (r *shardsReader) Names(dst []uint64, h tree.Holder, v tree.View, depth int) []uint64 {
	if h == 0 || r.s.own[h] == 0 {
		return dst
	}
	return r.parts[r.s.part[h]].Names(dst, r.s.own[h], v, depth)
}

// TestThreeShards is the differential test on an index of three shards.
func TestThreeShards(t *testing.T) {
	ops := 1500
	if raceDetector || testing.Short() {
		ops = 300
	}
	check := func(ix tree.Interface) error {
		for _, x := range ix.(*shards).parts {
			if err := x.Check(); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range []string{"holes", "tiers", "private", "tp", "mixed"} {
		p, ok := differ.ProfileNamed(name)
		if !ok {
			t.Fatalf("no profile %s", name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			differ.Run(t, newShards, p, 11, ops, differ.Options{Check: check, CheckEvery: 100})
		})
	}
}
