package engine

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// view is the routing snapshot that one query works on: which models there
// are, where to walk for them, and which holder an index id means. It is
// immutable and replaced as a whole, so that a query loads one pointer and
// needs no lock, map or channel. What changes with every batch (positions,
// states, block sizes) is reached through it, in atomics.
//
//	view ─► modelView ─► walks   (unit, look-ahead) × (shard, root)
//	                 ├─► holders in the order of answers
//	                 └─► parts   per shard: index id → holder
type view struct {
	revision uint64
	models   []*modelView // by name
}

// modelView is one model's part of a view.
type modelView struct {
	name    string
	capable int       // sources that declare a hint role
	units   []unitKey // what requests are hashed by, ascending
	walks   []walk    // by unit, then shard
	parts   []part    // by shard, only those with holders
	holders []*holder // by source, rank, domain
	sources []*source // by id
	first   []int32   // per holder: index of its first stream in streams
	// streams says how far each stream of each holder is: what every query asks
	// of all of them, without the way through holders and feeds.
	streams []*shard.Progress
	vitals  []*ingest.Vitals // of the same
	// survey is the last one of these holders, nil if there is none: the one
	// thing that queries leave behind for others, once per change.
	survey *atomic.Pointer[survey]
}

// unitKey is a way to cut and hash a prompt.
type unitKey struct{ unit, lookahead int }

// walk is one walk of a query: the trie of one unit on one shard.
type walk struct {
	unit  int // index in units
	shard int
	root  tree.Root
}

// part finds the holders of one shard by the ids the index gives.
type part struct {
	shard int
	ids   []tree.Holder // ascending
	at    []int32       // index in modelView.holders
}

// find returns where a model stands in models, or would.
func (v *view) find(name string) (int, bool) {
	return slices.BinarySearchFunc(v.models, name, func(m *modelView, n string) int { return strings.Compare(m.name, n) })
}

func (v *view) model(name string) *modelView {
	i, ok := v.find(name)
	if !ok {
		return nil
	}
	return v.models[i]
}

func (m *modelView) part(shard int) *part {
	for i := range m.parts {
		if m.parts[i].shard == shard {
			return &m.parts[i]
		}
	}
	return nil
}

// holder returns the index in modelView.holders of an index id, -1 if the
// holder is younger than the view, or gone from it.
func (p *part) holder(id tree.Holder) int {
	i, ok := slices.BinarySearch(p.ids, id)
	if !ok {
		return -1
	}
	return int(p.at[i])
}

// worker returns the index in holders of a (source, rank) in the worker domain,
// -1 if there is none.
func (m *modelView) worker(source string, rank int) int {
	i, ok := slices.BinarySearchFunc(m.holders, rank, func(h *holder, rank int) int {
		return cmp.Or(strings.Compare(h.src.spec.ID, source), cmp.Compare(h.rank, rank), cmp.Compare(h.domain, hint.Worker))
	})
	if !ok {
		return -1
	}
	return i
}
