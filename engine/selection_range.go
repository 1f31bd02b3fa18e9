package engine

import (
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/tree"
)

// This file is about sources that offer a run of blocks which begins behind the
// root. What the target holds says where such a run must join it, the index says
// who holds that place, and the names of the chosen one are fetched last.

// rangeQuery is what a querier needs to ask for ranges. It is made once, so that
// asking costs no allocation.
type rangeQuery struct {
	rangers []tree.Ranger // per shard; nil where the index tells none
	found   []tree.Range
	spans   []span

	// Of the question at hand, for who.
	m      *modelView
	p      *part
	view   tree.View
	target hint.Target
	who    func(tree.Holder) int
}

// span is a range that a holder may offer.
type span struct {
	holder int32 // index in modelView.holders
	walk   int32
	at     int // unit that the range is around
}

// ranges adds to the candidates who holds a run of blocks that begins behind the
// root and joins what the target holds.
func (k *querier) ranges(e *Engine, m *modelView, call *hint.Call, held int) {
	r := &k.ranged
	r.spans = r.spans[:0]
	if r.who == nil {
		r.who = r.shards
		for _, s := range e.shards {
			var g tree.Ranger
			if ranged, ok := s.tree.(tree.Ranged); ok {
				g = ranged.NewRanger()
			}
			r.rangers = append(r.rangers, g)
		}
	}
	r.m, r.target = m, call.Target
	for w, wk := range m.walks {
		hashes, unit := k.hashes[wk.unit], m.units[wk.unit].unit
		at := held / unit
		g := r.rangers[wk.shard]
		if r.p = m.part(wk.shard); g == nil || r.p == nil || held == 0 || at >= len(hashes) {
			continue
		}
		for _, r.view = range [...]tree.View{tree.ViewHost, tree.ViewDeviceHost} {
			r.found = g.Ranges(r.found[:0], wk.root, hashes, r.view, at, r.who)
			for _, f := range r.found {
				if f.Start == 0 {
					continue // a prefix, which the walk has found
				}
				i := r.p.holder(f.Holder)
				k.at = append(k.at, ^int32(len(r.spans)))
				r.spans = append(r.spans, span{holder: int32(i), walk: int32(w), at: at})
				c := k.layOut(call, m.holders[i], f.End*unit)
				c.Start = f.Start * unit
			}
		}
	}
	r.m, r.p = nil, nil
}

// shards says how many TP shards a holder has, 0 if it may not serve whatever it
// holds.
func (r *rangeQuery) shards(id tree.Holder) int {
	i := r.p.holder(id)
	if i < 0 {
		return 0
	}
	h := r.m.holders[i]
	c := &h.candidate
	if h.hintView() != r.view || h.owns(r.target.Place) || c.Role != r.target.Role || c.Endpoint == "" || h.domain == hint.Worker && c.StateAgent {
		return 0
	}
	return h.tp()
}

// tp is how many TP shards a holder has in the index.
func (h *holder) tp() int {
	if n := len(h.feeds); n > 0 {
		return n
	}
	return max(h.candidate.Width, 1) // a detached owner
}

// nameRange fetches the names of the range that was chosen, as it is now.
func (k *querier) nameRange(m *modelView, s span, hd *holder, c *hint.Candidate, h *HintAnswer) {
	w := m.walks[s.walk]
	unit := m.units[w.unit].unit
	r, names, ok := k.ranged.rangers[w.shard].Range(h.Names[:0], hd.id, w.root, k.hashes[w.unit], hd.hintView(), s.at, hd.tp())
	h.Names = names
	if !ok {
		r, h.Names = tree.Range{}, names[:0]
	}
	c.Start = r.Start * unit
	h.Start = blocks(c.Start, h.Best.BlockSize)
	h.Best.Tokens = r.End * unit
	h.Best.Depth = blocks(h.Best.Tokens, h.Best.BlockSize)
}
