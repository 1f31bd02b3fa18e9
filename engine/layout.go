package engine

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// This file makes the next view out of the present one. A source that comes or
// goes costs copies of the model's slices and no sort, so that a fleet of
// thousands is added in a second: what stands before and behind the source
// keeps its order. Callers hold the engine's control lock, which guards the
// sources' fields that are read here.

// with returns a view in which one model is replaced, or taken out if it has no
// sources any more.
func (v *view) with(m *modelView) *view {
	i, found := v.find(m.name)
	end := i
	if found {
		end++
	}
	n := &view{revision: v.revision + 1}
	if len(m.sources) == 0 {
		n.models = spliced(v.models, i, end)
	} else {
		n.models = spliced(v.models, i, end, m)
	}
	return n
}

// spliced returns a copy of s in which add stands instead of s[i:end].
func spliced[T any](s []T, i, end int, add ...T) []T {
	n := make([]T, 0, len(s)-(end-i)+len(add))
	n = append(n, s[:i]...)
	n = append(n, add...)
	return append(n, s[end:]...)
}

// replace returns a model in which the source has the holders given, in the
// order of answers; with none it is out of the model.
func (m *modelView) replace(s *source, holders []*holder) *modelView {
	n := *m
	n.survey = new(atomic.Pointer[survey])
	i, known := slices.BinarySearchFunc(m.sources, s, (*source).compare)
	role := 0
	if s.role != 0 {
		role = 1
	}
	switch {
	case !known && len(holders) > 0:
		n.sources = spliced(m.sources, i, i, s)
		n.capable += role
	case known && len(holders) == 0:
		n.sources = spliced(m.sources, i, i+1)
		n.capable -= role
	}
	from, _ := slices.BinarySearchFunc(m.holders, s, func(h *holder, s *source) int { return h.src.compare(s) })
	end := from
	for end < len(m.holders) && m.holders[end].src == s {
		end++
	}
	n.holders = spliced(m.holders, from, end, holders...)
	var streams []*shard.Progress
	var vitals []*ingest.Vitals
	for _, h := range holders {
		for _, f := range h.feeds {
			streams, vitals = append(streams, f.port.Progress()), append(vitals, f.stream.Vitals)
		}
	}
	first, past := m.streamsOf(from), m.streamsOf(end)
	n.streams = spliced(m.streams, first, past, streams...)
	n.vitals = spliced(m.vitals, first, past, vitals...)
	n.first = make([]int32, len(n.holders))
	copy(n.first, m.first[:from])
	for j := from; j < len(n.holders); j++ {
		n.first[j] = int32(first)
		first += len(n.holders[j].feeds)
	}
	n.parts = make([]part, 0, len(m.parts)+1)
	placed := false
	for _, p := range m.parts {
		var add []*holder
		if p.shard == s.shard {
			add, placed = holders, true
		}
		if p = p.replace(from, end, len(holders), add); len(p.ids) > 0 {
			n.parts = append(n.parts, p)
		}
	}
	if !placed && len(holders) > 0 {
		n.parts = append(n.parts, part{shard: s.shard}.replace(from, from, len(holders), holders))
	}
	return &n
}

// streamsOf is where the streams of holder i begin, or end those of all.
func (m *modelView) streamsOf(i int) int {
	if i == len(m.holders) {
		return len(m.streams)
	}
	return int(m.first[i])
}

// replace returns the part of a model in which wide holders stand instead of
// those from … end, and these are found here.
func (p part) replace(from, end, wide int, add []*holder) part {
	n := part{
		shard: p.shard,
		ids:   make([]tree.Holder, 0, len(p.ids)+len(add)),
		at:    make([]int32, 0, len(p.at)+len(add)),
	}
	order := make([]int32, len(add)) // those to add, by id
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(add[a].id, add[b].id) })
	next := func(below tree.Holder, all bool) {
		for len(order) > 0 && (all || add[order[0]].id < below) {
			n.ids = append(n.ids, add[order[0]].id)
			n.at = append(n.at, int32(from)+order[0])
			order = order[1:]
		}
	}
	shift := int32(wide - (end - from))
	for i, at := range p.at {
		if int(at) >= from && int(at) < end {
			continue
		}
		next(p.ids[i], false)
		if int(at) >= end {
			at += shift
		}
		n.ids, n.at = append(n.ids, p.ids[i]), append(n.at, at)
	}
	next(0, true)
	return n
}

// walked returns a model whose queries make the walks given, which are in any
// order.
func (m *modelView) walked(walks []placedRoot) *modelView {
	slices.SortFunc(walks, func(a, b placedRoot) int {
		return cmp.Or(cmp.Compare(a.unit, b.unit), cmp.Compare(a.lookahead, b.lookahead), cmp.Compare(a.shard, b.shard))
	})
	n := *m
	n.units, n.walks = nil, nil
	for _, r := range walks {
		if l := len(n.units); l == 0 || n.units[l-1] != r.unitKey {
			n.units = append(n.units, r.unitKey)
		}
		n.walks = append(n.walks, walk{unit: len(n.units) - 1, shard: r.shard, root: r.root})
	}
	return &n
}

// placedRoot is a trie on one shard.
type placedRoot struct {
	unitKey
	shard int
	root  tree.Root
}

// compare orders sources by id; those that the registry keeps, which are one
// rank each, by rank as well.
func (s *source) compare(o *source) int {
	return cmp.Or(strings.Compare(s.spec.ID, o.spec.ID), cmp.Compare(s.base, o.base))
}

// ordered returns the source's holders in the order of answers.
func (s *source) ordered() []*holder {
	all := slices.Clone(s.holders)
	slices.SortFunc(all, func(a, b *holder) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.domain, b.domain)) })
	return all
}

// show puts the source's holders, as they are now, into the view, or takes them
// out if it is gone.
func (e *Engine) show(s *source) {
	var holders []*holder
	if !s.gone {
		holders = s.ordered()
	}
	e.publish(e.modelOf(s).replace(s, holders))
}

// modelOf is the source's model as the view has it; an empty one if it has none.
func (e *Engine) modelOf(s *source) *modelView {
	if v := e.view.Load(); v != nil {
		if m := v.model(s.spec.Model); m != nil {
			return m
		}
	}
	return &modelView{name: s.spec.Model}
}

// share counts the sources that use the trie r of k on the shard of s, and has
// the model's queries walk it while there are any. by is 1 or -1.
func (e *Engine) share(s *source, k unitKey, r tree.Root, by int) {
	used := e.walks[s.spec.Model]
	if used == nil {
		used = map[placedRoot]int{}
		e.walks[s.spec.Model] = used
	}
	at := placedRoot{k, s.shard, r}
	had := used[at]
	used[at] = had + by
	if used[at] == 0 {
		delete(used, at)
		if len(used) == 0 {
			delete(e.walks, s.spec.Model)
		}
	} else if had > 0 {
		return // queries make the walk already
	}
	walks := make([]placedRoot, 0, len(used))
	for p := range used {
		walks = append(walks, p)
	}
	e.publish(e.modelOf(s).walked(walks))
}

// publish replaces a model's part of the view.
func (e *Engine) publish(m *modelView) {
	if !e.closed {
		e.view.Store(e.view.Load().with(m))
	}
}
