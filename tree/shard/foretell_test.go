package shard_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// foreseer is an index that writes down what it is told ahead.
type foreseer struct {
	recorder
	told    []string
	applied []string
	early   int // most events told of and not applied yet
	late    int // events applied before they were told of
}

func (f *foreseer) Coming(_ tree.Owner, s *tree.Store) { f.tell("store", s.Pairs) }

func (f *foreseer) ComingRemove(_ tree.Owner, names []uint64) { f.tell("remove", names) }

func (f *foreseer) tell(what string, words []uint64) {
	f.told = append(f.told, fmt.Sprint(what, words))
	f.early = max(f.early, len(f.told)-len(f.applied))
}

func (f *foreseer) Store(_ tree.Owner, s *tree.Store) tree.Outcome { return f.apply("store", s.Pairs) }

func (f *foreseer) Remove(_ tree.Owner, names []uint64) tree.Outcome { return f.apply("remove", names) }

func (f *foreseer) apply(what string, words []uint64) tree.Outcome {
	f.applied = append(f.applied, fmt.Sprint(what, words))
	if len(f.told) < len(f.applied) {
		f.late++
	}
	return tree.Outcome{}
}

// TestForetold checks that an index is told of what comes, all of it, in order
// and in time, beginnings, ends and other kinds of records between or not.
func TestForetold(t *testing.T) {
	f := &foreseer{}
	g := &rig{t: t, index: &f.recorder}
	g.Shard = shard.New(shard.Options{Index: f, RingBytes: 4096})
	g.Start(within(t))
	t.Cleanup(func() { must(t, g.Close()) })
	p := g.port()
	for seq := range uint64(40) {
		for i := range seq % 23 {
			store(t, p, h1, shard.StoreHead{Span: 1}, seq, i)
			if i%3 == 0 {
				names, err := p.Remove(within(t), h1, 1)
				must(t, err)
				names[0] = seq
			}
			if i%5 == 0 {
				names, err := p.Place(within(t), h1, 1)
				must(t, err)
				names[0] = seq
			}
		}
		must(t, p.Commit(seq))
	}
	waitSeq(t, p, 39)
	g.do(func(tree.Writer) {
		if !slices.Equal(f.told, f.applied) {
			t.Errorf("told of %d events, applied %d, others", len(f.told), len(f.applied))
		}
		if f.late > 0 || f.early > tree.Foresight || f.early < 2 {
			t.Errorf("%d events were told too late, up to %d at a time ahead", f.late, f.early)
		}
	})
}
