package differ_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

// lists is a second model, made to share no idea with package model but the
// words of tree.Interface: every name carries its whole chain as a list, and
// nothing else exists. There are no places, no path that outlives its blocks, no
// index of what waits: what no name carries is forgotten. It is slower still.
// That two models made so differently agree is why either is believed.
type lists struct {
	holders map[tree.Holder]*listHolder
	last    tree.Holder
	clock   int
}

type listHolder struct {
	policy tree.Policy
	hidden bool
	shards []listShard
}

// listShard is what a TP shard knows: what names mean, and what they shall mean
// when the parent comes.
type listShard struct{ held, waits map[uint64]*listBlock }

type listBlock struct {
	root   tree.Root
	chain  []uint64 // to its end; while it waits, its own contents
	span   int
	copies [tree.NumTiers]int
	parent uint64 // while it waits
	since  int    // while it waits
}

func newLists() tree.Interface { return &lists{holders: map[tree.Holder]*listHolder{}} }

func (l *lists) AddHolder(p tree.Policy, shards int) (tree.Holder, error) {
	if shards < 1 || shards > tree.MaxShards {
		return 0, fmt.Errorf("lists: %d shards", shards)
	}
	l.last++
	h := &listHolder{policy: p, shards: make([]listShard, shards)}
	l.holders[l.last] = h
	l.Clear(l.last)
	return l.last, nil
}

func (l *lists) Drop(h tree.Holder) { delete(l.holders, h) }

func (l *lists) Clear(h tree.Holder) {
	for i := range tree.MaxShards {
		l.ClearShard(h, i)
	}
}

func (l *lists) ClearShard(h tree.Holder, shard int) {
	if x := l.holders[h]; x != nil && shard < len(x.shards) {
		x.shards[shard] = listShard{map[uint64]*listBlock{}, map[uint64]*listBlock{}}
	}
}

func (l *lists) Hide(h tree.Holder) { l.hide(h, true) }
func (l *lists) Show(h tree.Holder) { l.hide(h, false) }

func (l *lists) hide(h tree.Holder, hidden bool) {
	if x := l.holders[h]; x != nil {
		x.hidden = hidden
	}
}

func (l *lists) owner(o tree.Owner) (*listHolder, listShard, bool) {
	h := l.holders[o.Holder]
	if h == nil || o.Tier >= tree.NumTiers || int(o.Shard) >= len(h.shards) {
		return nil, listShard{}, false
	}
	return h, h.shards[o.Shard], true
}

func (l *lists) Store(o tree.Owner, s *tree.Store) (out tree.Outcome) {
	h, sh, ok := l.owner(o)
	switch {
	case !ok:
		out.Reason = tree.BadOwner
	case s.Span < 1 || len(s.Pairs)%(1+s.Span) != 0 || s.Root > tree.MaxRoot:
		out.Reason = tree.BadShape
	}
	if out.Reason != tree.Accepted {
		return out
	}
	type piece struct {
		name     uint64
		contents []uint64
	}
	var pieces []piece
	for rest := s.Pairs; len(rest) > 0; rest = rest[1+s.Span:] {
		p := piece{rest[0], rest[1 : 1+s.Span]}
		switch {
		case s.HasParent && p.name == s.Parent:
			out.Reason = tree.SelfParent
			return out
		case slices.ContainsFunc(pieces, func(q piece) bool { return q.name == p.name }):
			out.Reason = tree.DuplicateName
			return out
		}
		pieces = append(pieces, p)
	}
	behind, known := &listBlock{root: s.Root}, true
	parent := s.Parent
	if s.HasParent {
		b := sh.held[parent]
		switch {
		case b != nil && sh.waits[parent] == nil:
			behind = b
		case b == nil && parent == 0: // no parent
		default:
			known = false
		}
	}
	for _, p := range pieces {
		b := sh.held[p.name]
		switch w := sh.waits[p.name]; {
		case s.KeepMeaning && b != nil:
		case s.KeepMeaning && s.SkipUnknown:
			known, parent = false, p.name
			continue
		case s.KeepMeaning && w != nil:
			b = w
		case known:
			b = l.mean(sh, p.name, behind, p.contents)
			if w != nil {
				delete(sh.waits, p.name)
				b.take(h.policy, w.copies)
			}
		default:
			if b = w; b == nil {
				b = &listBlock{}
				sh.waits[p.name] = b
			}
			l.clock++
			b.chain, b.span, b.parent, b.since = slices.Clone(p.contents), len(p.contents), parent, l.clock
		}
		b.take(h.policy, one(o.Tier))
		known, parent, behind = sh.held[p.name] == b, p.name, b
	}
	var names []uint64
	for _, p := range pieces {
		if sh.held[p.name] != nil && sh.waits[p.name] == nil {
			names = append(names, p.name)
		}
	}
	l.attach(h.policy, sh, names)
	return out
}

// mean makes a name mean the block of contents behind another.
func (l *lists) mean(sh listShard, name uint64, behind *listBlock, contents []uint64) *listBlock {
	b := &listBlock{root: behind.root, chain: slices.Concat(behind.chain, contents), span: len(contents)}
	if old := sh.held[name]; old != nil {
		b.copies = old.copies
	}
	sh.held[name] = b
	return b
}

// one is one copy, on a tier.
func one(t tree.Tier) (n [tree.NumTiers]int) {
	n[t] = 1
	return n
}

// take adds copies.
func (b *listBlock) take(p tree.Policy, n [tree.NumTiers]int) {
	for t := range n {
		if b.copies[t] += n[t]; p == tree.Set {
			b.copies[t] = min(b.copies[t], 1)
		}
	}
}

// attach brings what waits for a name that is held, and what waits for that,
// the nearest first.
func (l *lists) attach(p tree.Policy, sh listShard, work []uint64) {
	for ; len(work) > 0; work = work[1:] {
		parent := work[0]
		var names []uint64
		for n, w := range sh.waits {
			if w.parent == parent {
				names = append(names, n)
			}
		}
		slices.SortFunc(names, func(a, b uint64) int { return cmp.Compare(sh.waits[a].since, sh.waits[b].since) })
		for _, n := range names {
			behind, w := sh.held[parent], sh.waits[n]
			if behind == nil {
				break
			}
			delete(sh.waits, n)
			l.mean(sh, n, behind, w.chain).take(p, w.copies)
			work = append(work, n)
		}
	}
}

func (l *lists) Place(o tree.Owner, names []uint64) (out tree.Outcome) {
	h, sh, ok := l.owner(o)
	if !ok {
		out.Reason = tree.BadOwner
		return out
	}
	for _, n := range names {
		if b := sh.held[n]; b != nil {
			b.take(h.policy, one(o.Tier))
		}
	}
	return out
}

func (l *lists) Remove(o tree.Owner, names []uint64) (out tree.Outcome) {
	h, sh, ok := l.owner(o)
	if !ok {
		out.Reason = tree.BadOwner
		return out
	}
	for _, n := range names {
		for _, set := range []map[uint64]*listBlock{sh.held, sh.waits} {
			b := set[n]
			if b == nil || b.copies[o.Tier] == 0 {
				continue
			}
			if b.copies[o.Tier]--; h.policy == tree.Set {
				b.copies[o.Tier] = 0
			}
			if b.copies == ([tree.NumTiers]int{}) {
				delete(set, n)
			}
			break
		}
	}
	return out
}

func (l *lists) Step() bool { return false }

func (l *lists) Stats() (st tree.Stats) {
	st.Holders = len(l.holders)
	for _, h := range l.holders {
		for _, sh := range h.shards {
			st.Waiting += len(sh.waits)
			st.Names += len(sh.held) + len(sh.waits)
		}
		for n, b := range h.shards[0].held {
			for t := range tree.NumTiers {
				if h.everywhere(n, b, func(c *listBlock) bool { return c.copies[t] > 0 }) {
					st.Residencies++
				}
			}
		}
	}
	return st
}

// everywhere reports whether every shard holds the name as the same block as b,
// and all are ok.
func (h *listHolder) everywhere(name uint64, b *listBlock, ok func(*listBlock) bool) bool {
	for _, sh := range h.shards {
		c := sh.held[name]
		if c == nil || c.span != b.span || c.root != b.root || !slices.Equal(c.chain, b.chain) || !ok(c) {
			return false
		}
	}
	return true
}

// on is on which tiers every shard holds each unit of a query.
func (h *listHolder) on(root tree.Root, query []uint64) [][tree.NumTiers]bool {
	all := make([][tree.NumTiers]bool, len(query))
	for s, sh := range h.shards {
		here := make([][tree.NumTiers]bool, len(query))
		for _, b := range sh.held {
			common := 0
			for b.root == root && common < min(len(query), len(b.chain)) && query[common] == b.chain[common] {
				common++
			}
			for i := len(b.chain) - b.span; i < common; i++ {
				for t, n := range b.copies {
					here[i][t] = here[i][t] || n > 0
				}
			}
		}
		for i := range all {
			for t := range all[i] {
				all[i][t] = here[i][t] && (s == 0 || all[i][t])
			}
		}
	}
	return all
}

func (h *listHolder) depths(root tree.Root, query []uint64) (d [tree.NumViews]uint32) {
	if h.hidden {
		return d
	}
	on := h.on(root, query)
	run := func(from uint32, ok func([tree.NumTiers]bool) bool) uint32 {
		for int(from) < len(on) && ok(on[from]) {
			from++
		}
		return from
	}
	d[tree.ViewDevice] = run(0, func(t [tree.NumTiers]bool) bool { return t[tree.Device] })
	d[tree.ViewHost] = run(0, func(t [tree.NumTiers]bool) bool { return t[tree.Host] })
	d[tree.ViewAny] = run(0, func(t [tree.NumTiers]bool) bool { return t != [tree.NumTiers]bool{} })
	d[tree.ViewDeviceHost] = run(0, func(t [tree.NumTiers]bool) bool { return t[tree.Device] || t[tree.Host] })
	d[tree.ViewExtension] = run(d[tree.ViewDevice], func(t [tree.NumTiers]bool) bool { return t[tree.Host] })
	return d
}

func (l *lists) NewReader() tree.Reader { return &listReader{l: l} }

type listReader struct {
	l     *lists
	root  tree.Root
	query []uint64
}

func (r *listReader) Match(root tree.Root, contents []uint64) (all []tree.Depths) {
	r.root, r.query = root, contents
	for _, id := range slices.Sorted(maps.Keys(r.l.holders)) {
		if d := r.l.holders[id].depths(root, contents); d[tree.ViewAny] > 0 {
			all = append(all, tree.Depths{Holder: id, Units: d})
		}
	}
	slices.SortStableFunc(all, func(a, b tree.Depths) int { return cmp.Compare(b.Units[tree.ViewAny], a.Units[tree.ViewAny]) })
	return all
}

// Names gives what ends at each unit, as long as blocks follow one another.
func (r *listReader) Names(dst []uint64, id tree.Holder, v tree.View, depth int) []uint64 {
	h := r.l.holders[id]
	if h == nil || v == tree.ViewExtension {
		return dst
	}
	wanted := map[tree.View][]tree.Tier{
		tree.ViewDevice: {tree.Device}, tree.ViewHost: {tree.Host}, tree.ViewDeviceHost: {tree.Device, tree.Host},
		tree.ViewAny: {tree.Device, tree.Host, tree.Disk, tree.External, tree.Unknown},
	}[v]
	depth = min(depth, int(h.depths(r.root, r.query)[v]))
	for end := 0; end < depth; {
		best, span := uint64(0), 0
		for n, b := range h.shards[0].held {
			e := len(b.chain)
			if b.root != r.root || e > depth || e-b.span != end || !slices.Equal(b.chain, r.query[:e]) || span > 0 && best <= n {
				continue
			}
			if h.everywhere(n, b, func(c *listBlock) bool {
				return slices.ContainsFunc(wanted, func(t tree.Tier) bool { return c.copies[t] > 0 })
			}) {
				best, span = n, b.span
			}
		}
		if span == 0 {
			break
		}
		dst, end = append(dst, best), end+span
	}
	return dst
}

// TestBothModelsAgree plays every profile on the two models.
func TestBothModelsAgree(t *testing.T) {
	for _, p := range differ.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			n := 300
			if p.Name == "many" || p.Name == "long" {
				n = 80
			}
			if f := differ.Run(t, newLists, p, 1, n, differ.Options{}); f.Queries < n/10 {
				t.Errorf("figures %+v", f)
			}
		})
	}
}
