package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/tree"
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
	capable bool      // some source declares a hint role
	units   []unitKey // what requests are hashed by, ascending
	walks   []walk    // by unit, then shard
	parts   []part    // by shard, only those with holders
	holders []*holder // by source, rank, domain
	sources []*source // by id
	first   []int32   // per holder: index of its first stream among all holders'
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

func (v *view) model(name string) *modelView {
	i, ok := slices.BinarySearchFunc(v.models, name, func(m *modelView, n string) int { return strings.Compare(m.name, n) })
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

// with returns a view in which one model is replaced, or taken out if m is nil.
func (v *view) with(name string, m *modelView) *view {
	n := &view{revision: v.revision + 1, models: make([]*modelView, 0, len(v.models)+1)}
	for _, o := range v.models {
		if o.name != name {
			n.models = append(n.models, o)
		}
	}
	if m != nil {
		i, _ := slices.BinarySearchFunc(n.models, name, func(m *modelView, s string) int { return strings.Compare(m.name, s) })
		n.models = slices.Insert(n.models, i, m)
	}
	return n
}

// newModelView lays out a model's sources. The caller holds the engine's
// control lock, which is what guards the sources' holders and roots.
func newModelView(name string, sources []*source) *modelView {
	if len(sources) == 0 {
		return nil
	}
	m := &modelView{name: name, sources: sources}
	slices.SortFunc(m.sources, func(a, b *source) int { return strings.Compare(a.spec.ID, b.spec.ID) })
	type shardRoot struct {
		unitKey
		shard int
		root  tree.Root
	}
	var roots []shardRoot
	for _, s := range m.sources {
		m.capable = m.capable || s.role != 0
		m.holders = append(m.holders, s.holders...)
		for k, r := range s.roots {
			roots = append(roots, shardRoot{k, s.shard, r})
		}
	}
	slices.SortFunc(m.holders, func(a, b *holder) int {
		return cmp.Or(strings.Compare(a.src.spec.ID, b.src.spec.ID), cmp.Compare(a.rank, b.rank), cmp.Compare(a.domain, b.domain))
	})
	slices.SortFunc(roots, func(a, b shardRoot) int {
		return cmp.Or(cmp.Compare(a.unit, b.unit), cmp.Compare(a.lookahead, b.lookahead), cmp.Compare(a.shard, b.shard))
	})
	for _, r := range slices.Compact(roots) {
		if n := len(m.units); n == 0 || m.units[n-1] != r.unitKey {
			m.units = append(m.units, r.unitKey)
		}
		m.walks = append(m.walks, walk{unit: len(m.units) - 1, shard: r.shard, root: r.root})
	}
	streams := int32(0)
	for i, h := range m.holders {
		p := m.part(h.src.shard)
		if p == nil {
			m.parts = append(m.parts, part{shard: h.src.shard})
			p = &m.parts[len(m.parts)-1]
		}
		p.ids, p.at = append(p.ids, h.id), append(p.at, int32(i))
		m.first = append(m.first, streams)
		streams += int32(len(h.feeds))
	}
	for i := range m.parts {
		m.parts[i].sort()
	}
	return m
}

func (p *part) sort() {
	order := make([]int, len(p.ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p.ids[a], p.ids[b]) })
	ids, at := make([]tree.Holder, len(order)), make([]int32, len(order))
	for i, o := range order {
		ids[i], at[i] = p.ids[o], p.at[o]
	}
	p.ids, p.at = ids, at
}
