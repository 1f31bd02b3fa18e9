package load

import (
	"fmt"

	"github.com/cairn-kv/cairn/perf/corpus"
	"github.com/cairn-kv/cairn/perf/maptree"
	"github.com/cairn-kv/cairn/tree"
)

// everything is all factors there are.
const everything = corpus.Private | corpus.Copies | corpus.Holes | corpus.Tiers | corpus.Equal | corpus.Clears

// Cairn is the index of this module.
func Cairn() Contestant {
	return Contestant{
		Name: "cairn", About: "cairn, package tree, one shard", Concurrent: true, Factors: everything,
		New: func(h corpus.Header) (Index, error) { return newTree(h, tree.New(tree.Options{})) },
	}
}

// MapTree is the yardstick: see perf/maptree.
func MapTree() Contestant {
	return Contestant{
		Name: "maptree", About: "cairn, perf/maptree: maps per node, one RWMutex, a map of names per holder", Concurrent: true, Factors: everything,
		New: func(h corpus.Header) (Index, error) { return newTree(h, maptree.New()) },
	}
}

// adapter plays a corpus on a tree.Interface.
type adapter struct {
	index    tree.Interface
	foreseer tree.Foreseer // the index, if it is one
	holders  []tree.Holder
	numbers  map[tree.Holder]int
	stored   tree.Store
}

func newTree(h corpus.Header, index tree.Interface) (Index, error) {
	a := &adapter{index: index, numbers: map[tree.Holder]int{}, stored: tree.Store{Span: 1}}
	a.foreseer, _ = index.(tree.Foreseer)
	for i := range h.Holders {
		holder, err := index.AddHolder(tree.Copies, 1)
		if err != nil {
			return nil, fmt.Errorf("load: holder %d: %w", i, err)
		}
		a.holders = append(a.holders, holder)
		a.numbers[holder] = i
	}
	return a, nil
}

func (a *adapter) Apply(events []corpus.Op) {
	told := 0
	for i := range events {
		if a.foreseer != nil && len(events) > 1 {
			for ; told < len(events) && told <= i+tree.Foresight; told++ {
				a.tell(&events[told])
			}
		}
		o := &events[i]
		owner := tree.Owner{Holder: a.holders[o.Holder], Tier: tree.Tier(o.Tier)}
		switch o.Kind {
		case corpus.Store:
			a.stored.HasParent, a.stored.Parent, a.stored.Pairs = o.HasParent, o.Parent, o.Words
			a.index.Store(owner, &a.stored)
		case corpus.Remove:
			a.index.Remove(owner, o.Words)
		case corpus.Clear:
			a.index.Clear(owner.Holder)
			for a.index.Step() {
			}
		}
	}
}

// tell says that an event will come.
func (a *adapter) tell(o *corpus.Op) {
	owner := tree.Owner{Holder: a.holders[o.Holder], Tier: tree.Tier(o.Tier)}
	switch o.Kind {
	case corpus.Store:
		a.stored.HasParent, a.stored.Parent, a.stored.Pairs = o.HasParent, o.Parent, o.Words
		a.foreseer.Coming(owner, &a.stored)
	case corpus.Remove:
		a.foreseer.ComingRemove(owner, o.Words)
	}
}

func (a *adapter) Sync() {}

func (a *adapter) Bytes() int { return a.index.Stats().Bytes }

// Reader asks for levels where the index tells them: the map tree has no better
// answer than one for each holder.
func (a *adapter) Reader() Reader {
	r := a.index.NewReader()
	if l, ok := r.(tree.LevelReader); ok {
		return &levelReader{reader: l, numbers: a.numbers}
	}
	return &depthsReader{reader: r, numbers: a.numbers}
}

type levelReader struct {
	reader  tree.LevelReader
	numbers map[tree.Holder]int
	answer  []tree.Level
}

func (r *levelReader) Match(contents []uint64) int {
	r.answer = r.reader.Levels(0, contents)
	n := 0
	for i := range r.answer {
		n += r.answer[i].Len()
	}
	return n
}

func (r *levelReader) Digest() uint64 {
	var sum uint64
	for i := range r.answer {
		n := int(r.answer[i].Units[tree.ViewAny])
		for h := range r.answer[i].All() {
			sum += corpus.Digest(r.numbers[h], n)
		}
	}
	return sum
}

type depthsReader struct {
	reader  tree.Reader
	numbers map[tree.Holder]int
	answer  []tree.Depths
}

func (r *depthsReader) Match(contents []uint64) int {
	r.answer = r.reader.Match(0, contents)
	return len(r.answer)
}

func (r *depthsReader) Digest() uint64 {
	var sum uint64
	for _, d := range r.answer {
		if n := d.Units[tree.ViewAny]; n > 0 {
			sum += corpus.Digest(r.numbers[d.Holder], int(n))
		}
	}
	return sum
}
