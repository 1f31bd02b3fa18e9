package tree_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

// twin is an index that does everything on the reference model too, so that
// what the two hold can be compared block by block.
type twin struct {
	*tree.Index
	model *model.Model
	same  map[tree.Holder]tree.Holder // of the index, of the model
}

func newTwin(seed uint64) *twin {
	return &twin{Index: tree.New(tree.Options{Seed: seed}), model: model.New(), same: map[tree.Holder]tree.Holder{}}
}

func (w *twin) AddHolder(p tree.Policy, shards int) (tree.Holder, error) {
	h, err := w.Index.AddHolder(p, shards)
	if err == nil {
		w.same[h], err = w.model.AddHolder(p, shards)
	}
	return h, err
}

func (w *twin) Drop(h tree.Holder)  { w.Index.Drop(h); w.model.Drop(w.same[h]) }
func (w *twin) Clear(h tree.Holder) { w.Index.Clear(h); w.model.Clear(w.same[h]) }
func (w *twin) Hide(h tree.Holder)  { w.Index.Hide(h); w.model.Hide(w.same[h]) }
func (w *twin) Show(h tree.Holder)  { w.Index.Show(h); w.model.Show(w.same[h]) }

func (w *twin) ClearShard(h tree.Holder, shard int) {
	w.Index.ClearShard(h, shard)
	w.model.ClearShard(w.same[h], shard)
}

func (w *twin) owner(o tree.Owner) tree.Owner {
	o.Holder = w.same[o.Holder]
	return o
}

func (w *twin) Store(o tree.Owner, s *tree.Store) tree.Outcome {
	w.model.Store(w.owner(o), s)
	return w.Index.Store(o, s)
}

func (w *twin) Place(o tree.Owner, names []uint64) tree.Outcome {
	w.model.Place(w.owner(o), names)
	return w.Index.Place(o, names)
}

func (w *twin) Remove(o tree.Owner, names []uint64) tree.Outcome {
	w.model.Remove(w.owner(o), names)
	return w.Index.Remove(o, names)
}

// join is a chain rule that tells orders apart.
func join(parent, content uint64) uint64 { return parent*0x9e3779b97f4a7c15 + content + 1 }

func dumped(d tree.Dumper, same func(tree.Holder) tree.Holder) []tree.Block {
	var all []tree.Block
	d.Dump(join, func(b tree.Block) {
		if same != nil {
			b.Holder = same(b.Holder)
		}
		all = append(all, b)
	})
	slices.SortFunc(all, func(a, b tree.Block) int {
		return cmp.Or(cmp.Compare(a.Holder, b.Holder), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Tier, b.Tier),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Chain, b.Chain))
	})
	return all
}

// TestDumpDifferential compares every block that the index says it holds with
// what the reference model holds after the same events: names, chains, copies,
// waiting blocks.
func TestDumpDifferential(t *testing.T) {
	blocks, waiting := 0, 0
	for _, p := range differ.Profiles() {
		if p.Name == "long" && testing.Short() {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			ops := 1000
			if raceDetector || p.Name == "many" || p.Name == "long" {
				ops = 250
			}
			for seed := uint64(1); seed <= 2; seed++ {
				check := func(ix tree.Interface) error {
					w := ix.(*twin)
					got := dumped(w.Index, func(h tree.Holder) tree.Holder { return w.same[h] })
					want := dumped(w.model, nil)
					for _, b := range want {
						blocks++
						if b.Waiting {
							waiting++
						}
					}
					for i := range max(len(got), len(want)) {
						if i >= len(got) || i >= len(want) || got[i] != want[i] {
							return fmt.Errorf("dump line %d of %d differs:\n got %s\nwant %s (of %d)", i, len(got), lineOf(got, i), lineOf(want, i), len(want))
						}
					}
					return nil
				}
				ops := differ.Generate(p, seed, ops)
				if _, fail := differ.Replay(func() tree.Interface { return newTwin(seed) }, ops, differ.Options{Check: check, CheckEvery: 40}); fail != nil {
					t.Errorf("seed %d: %v", seed, fail)
				}
			}
		})
	}
	if blocks < 10000 || waiting < 100 {
		t.Errorf("%d blocks compared, %d of them waiting: the test shows little", blocks, waiting)
	}
}

func lineOf(all []tree.Block, i int) string {
	if i >= len(all) {
		return "nothing"
	}
	return fmt.Sprintf("%+v", all[i])
}
