package model

import (
	"fmt"
	"slices"
	"sync"

	"github.com/cairn-kv/cairn/tree"
)

// DefaultWaiting is how many waiting blocks a holder may have under New.
const DefaultWaiting = 65536

// Model is the reference implementation of tree.Interface. See the package
// comment. The zero Model is not usable: use New or NewBounded.
type Model struct {
	mu         sync.Mutex
	holders    []*holder // by Holder-1; nil after Drop, so ids are never used again
	roots      map[tree.Root]*place
	places     int // interned places, roots not counted
	maxWaiting int
	clock      uint64 // announcements so far: the age of waiting blocks
}

type holder struct {
	policy tree.Policy
	hidden bool
	shards []*shard
}

// shard is what one TP shard of a holder knows.
type shard struct {
	blocks  map[uint64]*block   // every resident name
	aside   map[uint64]*block   // every waiting name; it may be resident too, as another block
	covers  map[*place][]*block // resident blocks by each position they cover
	waiting map[uint64][]*block // waiting blocks by parent name, in order
}

// block is the meaning of a name in one shard, and its copies.
type block struct {
	name     uint64
	contents []uint64 // one per position it covers
	copies   [tree.NumTiers]int
	at       *place // its last position; nil while it waits
	parent   uint64 // while it waits: the name it waits for
	since    uint64 // while it waits: when it was announced
}

// place is one position of one chain.
type place struct {
	parent  *place // nil at a root, which is no position itself
	content uint64
	next    map[uint64]*place
	ends    int // blocks, of any holder, that end here
}

var _ tree.Interface = (*Model)(nil)

// New returns an empty Model that keeps up to DefaultWaiting waiting blocks
// per holder.
func New() *Model { return NewBounded(DefaultWaiting) }

// NewBounded returns an empty Model that keeps up to maxWaiting (≥ 0) waiting
// blocks per holder; the oldest are given up first.
func NewBounded(maxWaiting int) *Model {
	return &Model{roots: map[tree.Root]*place{}, maxWaiting: maxWaiting}
}

// AddHolder implements tree.Writer. The error says what shards may be.
func (m *Model) AddHolder(p tree.Policy, shards int) (tree.Holder, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if shards < 1 || shards > tree.MaxShards {
		return 0, fmt.Errorf("model: shards is %d, must be 1 to %d", shards, tree.MaxShards)
	}
	h := &holder{policy: p}
	for range shards {
		h.shards = append(h.shards, newShard())
	}
	m.holders = append(m.holders, h)
	return tree.Holder(len(m.holders)), nil
}

// Drop implements tree.Writer.
func (m *Model) Drop(h tree.Holder) {
	m.Clear(h)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holder(h) != nil {
		m.holders[h-1] = nil
	}
}

// Clear implements tree.Writer.
func (m *Model) Clear(h tree.Holder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if hd := m.holder(h); hd != nil {
		for i := range hd.shards {
			m.clear(hd, i)
		}
	}
}

// ClearShard implements tree.Writer.
func (m *Model) ClearShard(h tree.Holder, shard int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if hd := m.holder(h); hd != nil && shard >= 0 && shard < len(hd.shards) {
		m.clear(hd, shard)
	}
}

// Hide implements tree.Writer.
func (m *Model) Hide(h tree.Holder) { m.setHidden(h, true) }

// Show implements tree.Writer.
func (m *Model) Show(h tree.Holder) { m.setHidden(h, false) }

// Store implements tree.Writer.
func (m *Model) Store(o tree.Owner, s *tree.Store) (out tree.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, sh := m.owner(o)
	if out.Reason = judge(sh, s); out.Reason != tree.Accepted {
		return out
	}
	// at is where the next block goes; nil: it waits for the name parent.
	at, parent := m.root(s.Root), s.Parent
	if s.HasParent && (s.Parent != 0 || sh.resident(0) != nil) {
		at = nil
		// A parent that waits under a newer meaning is not the block it was.
		if p := sh.resident(s.Parent); p != nil && sh.aside[s.Parent] == nil {
			at = p.at
		}
	}
	var stored []uint64
	for i := 0; i < len(s.Pairs); i += 1 + s.Span {
		name, contents := s.Pairs[i], s.Pairs[i+1:i+1+s.Span]
		b, keep := sh.blocks[name], s.KeepMeaning
		switch {
		case keep && b != nil:
		case keep && s.SkipUnknown:
			out.Unknown++
			at, parent = nil, name
			continue
		case keep && sh.aside[name] != nil:
			b = sh.aside[name]
		case at == nil: // kept aside; what the name means now stays till its parent comes
			b = sh.aside[name]
			if b == nil {
				b = &block{name: name}
			}
			m.setAside(sh, b, parent, contents)
		default:
			b = m.announce(sh, name, m.extend(at, contents), contents, &out)
			if w := sh.aside[name]; w != nil { // older: its copies mean this block too
				m.forget(sh, w)
				b.gain(h.policy, &w.copies)
			}
		}
		b.add(h.policy, o.Tier, &out)
		at, parent = b.at, name
		if b.at != nil {
			stored = append(stored, name)
		}
	}
	m.settle(h.policy, sh, stored, &out)
	for m.waiting(h) > m.maxWaiting {
		m.dropOldest(h)
		out.Dropped++
	}
	return out
}

// Place implements tree.Writer.
func (m *Model) Place(o tree.Owner, names []uint64) (out tree.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, sh := m.owner(o)
	if sh == nil {
		return tree.Outcome{Reason: tree.BadOwner}
	}
	for _, name := range names {
		if b := sh.resident(name); b != nil {
			b.add(h.policy, o.Tier, &out)
		} else {
			out.Unknown++
		}
	}
	return out
}

// Remove implements tree.Writer. It also withdraws waiting blocks.
func (m *Model) Remove(o tree.Owner, names []uint64) (out tree.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, sh := m.owner(o)
	if sh == nil {
		return tree.Outcome{Reason: tree.BadOwner}
	}
	for _, name := range names {
		b := sh.blocks[name]
		if b == nil || b.copies[o.Tier] == 0 {
			b = sh.aside[name]
		}
		if b == nil || b.copies[o.Tier] == 0 {
			out.Unknown++
			continue
		}
		b.copies[o.Tier]--
		if h.policy == tree.Set {
			b.copies[o.Tier] = 0
		}
		if b.copies[o.Tier] == 0 && b.at != nil {
			out.Removed++
		}
		if b.copies == ([tree.NumTiers]int{}) {
			m.forget(sh, b)
		}
	}
	return out
}

// Step implements tree.Writer: a Model defers nothing.
func (m *Model) Step() bool { return false }

// Stats implements tree.Writer. Names counts the names of all shards, waiting
// ones included, and Links the interned places.
func (m *Model) Stats() (st tree.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st.Links = m.places
	for _, h := range m.holders {
		if h == nil {
			continue
		}
		st.Holders++
		st.Waiting += m.waiting(h)
		for _, sh := range h.shards {
			st.Names += len(sh.blocks) + len(sh.aside)
		}
		for name := range h.shards[0].blocks {
			st.Residencies += h.residencies(name)
		}
	}
	return st
}

// judge says whether the event as a whole is acceptable.
func judge(sh *shard, s *tree.Store) tree.Reason {
	if sh == nil {
		return tree.BadOwner
	}
	if s.Span < 1 || len(s.Pairs)%(1+s.Span) != 0 || s.Root > tree.MaxRoot {
		return tree.BadShape
	}
	seen := map[uint64]bool{}
	for i := 0; i < len(s.Pairs); i += 1 + s.Span {
		if s.HasParent && s.Pairs[i] == s.Parent {
			return tree.SelfParent
		}
		if seen[s.Pairs[i]] {
			return tree.DuplicateName
		}
		seen[s.Pairs[i]] = true
	}
	return tree.Accepted
}

// announce makes a name mean the block that ends at end. Its copies, if it is
// resident already, go with it.
func (m *Model) announce(sh *shard, name uint64, end *place, contents []uint64, out *tree.Outcome) *block {
	b := sh.blocks[name]
	if b == nil {
		b = &block{name: name}
		sh.blocks[name] = b
	} else if end == b.at && len(contents) == len(b.contents) {
		return b
	} else {
		out.Moved++
	}
	end.ends++ // before the old place goes: they may share a path
	m.unplace(sh, b)
	b.contents = slices.Clone(contents)
	sh.cover(b, end)
	return b
}

// setAside makes a name wait for the name parent as a block of these contents.
func (m *Model) setAside(sh *shard, b *block, parent uint64, contents []uint64) {
	m.unplace(sh, b)
	b.contents = slices.Clone(contents)
	m.clock++
	b.parent, b.since = parent, m.clock
	sh.aside[b.name] = b
	sh.waiting[parent] = append(sh.waiting[parent], b)
}

// gain adds copies on all tiers.
func (b *block) gain(p tree.Policy, n *[tree.NumTiers]int) {
	for t := range n {
		b.copies[t] += n[t]
		if p == tree.Set {
			b.copies[t] = min(b.copies[t], 1)
		}
	}
}

// settle attaches what waits for the given names, and what waits for that.
func (m *Model) settle(p tree.Policy, sh *shard, work []uint64, out *tree.Outcome) {
	for ; len(work) > 0; work = work[1:] {
		parent := work[0]
		for _, w := range slices.Clone(sh.waiting[parent]) {
			at := sh.blocks[parent]
			if at == nil {
				break
			}
			end := m.extend(at.at, w.contents)
			m.forget(sh, w)
			b := m.announce(sh, w.name, end, w.contents, out)
			b.gain(p, &w.copies)
			for _, n := range w.copies {
				if n > 0 {
					out.New++
				}
			}
			work = append(work, b.name)
		}
	}
}

// add adds one copy on a tier.
func (b *block) add(p tree.Policy, t tree.Tier, out *tree.Outcome) {
	switch {
	case b.at == nil:
		out.Waiting++
	case b.copies[t] == 0:
		out.New++
	default:
		out.Known++
	}
	b.copies[t]++
	if p == tree.Set {
		b.copies[t] = 1
	}
}

// unplace takes b from its place or from the waiting blocks.
func (m *Model) unplace(sh *shard, b *block) {
	if b.at == nil {
		list := slices.DeleteFunc(sh.waiting[b.parent], func(x *block) bool { return x == b })
		if sh.waiting[b.parent] = list; len(list) == 0 {
			delete(sh.waiting, b.parent)
		}
		return
	}
	for p, n := b.at, len(b.contents); n > 0; p, n = p.parent, n-1 {
		list := slices.DeleteFunc(sh.covers[p], func(x *block) bool { return x == b })
		if sh.covers[p] = list; len(list) == 0 {
			delete(sh.covers, p)
		}
	}
	b.at.ends--
	for p := b.at; p.parent != nil && p.ends == 0 && len(p.next) == 0; p = p.parent {
		delete(p.parent.next, p.content)
		m.places--
	}
	b.at = nil
}

func (m *Model) forget(sh *shard, b *block) {
	m.unplace(sh, b)
	if b.at == nil && sh.aside[b.name] == b {
		delete(sh.aside, b.name)
		return
	}
	delete(sh.blocks, b.name)
}

func (m *Model) clear(h *holder, i int) {
	for _, b := range h.shards[i].blocks {
		m.forget(h.shards[i], b)
	}
	for _, b := range h.shards[i].aside {
		m.forget(h.shards[i], b)
	}
}

// waiting counts the waiting blocks of a holder.
func (m *Model) waiting(h *holder) (n int) {
	for _, sh := range h.shards {
		for _, list := range sh.waiting {
			n += len(list)
		}
	}
	return n
}

func (m *Model) dropOldest(h *holder) {
	var oldest *block
	var from *shard
	for _, sh := range h.shards {
		for _, list := range sh.waiting {
			for _, b := range list {
				if oldest == nil || b.since < oldest.since {
					oldest, from = b, sh
				}
			}
		}
	}
	m.forget(from, oldest)
}

// extend returns the place that lies contents behind p.
func (m *Model) extend(p *place, contents []uint64) *place {
	for _, c := range contents {
		q := p.next[c]
		if q == nil {
			q = &place{parent: p, content: c, next: map[uint64]*place{}}
			p.next[c] = q
			m.places++
		}
		p = q
	}
	return p
}

func (m *Model) root(r tree.Root) *place {
	if m.roots[r] == nil {
		m.roots[r] = &place{next: map[uint64]*place{}}
	}
	return m.roots[r]
}

func (m *Model) holder(h tree.Holder) *holder {
	if h == 0 || int(h) > len(m.holders) {
		return nil
	}
	return m.holders[h-1]
}

func (m *Model) setHidden(h tree.Holder, hidden bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if hd := m.holder(h); hd != nil {
		hd.hidden = hidden
	}
}

// owner finds the shard an owner writes to; nil if there is none.
func (m *Model) owner(o tree.Owner) (*holder, *shard) {
	h := m.holder(o.Holder)
	if h == nil || o.Tier >= tree.NumTiers || int(o.Shard) >= len(h.shards) {
		return nil, nil
	}
	return h, h.shards[o.Shard]
}

func newShard() *shard {
	return &shard{
		blocks:  map[uint64]*block{},
		aside:   map[uint64]*block{},
		covers:  map[*place][]*block{},
		waiting: map[uint64][]*block{},
	}
}

// cover makes b resident, ending at end.
func (sh *shard) cover(b *block, end *place) {
	b.at = end
	for p, n := end, len(b.contents); n > 0; p, n = p.parent, n-1 {
		sh.covers[p] = append(sh.covers[p], b)
	}
}

// resident returns the block of a name, nil unless it is resident.
func (sh *shard) resident(name uint64) *block {
	return sh.blocks[name]
}
