package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cairn-kv/cairn/tree"
)

// tiers is a set of tiers, bit t for tier t.
type tiers uint8

const (
	device = tiers(1) << tree.Device
	host   = tiers(1) << tree.Host
	all    = tiers(1)<<tree.NumTiers - 1
)

// Reader answers queries on a Model. It belongs to one goroutine.
type Reader struct {
	m        *Model
	root     tree.Root
	contents []uint64 // of the last Match
	answer   []tree.Depths
}

// NewReader implements tree.Interface.
func (m *Model) NewReader() tree.Reader { return &Reader{m: m} }

// Match implements tree.Reader.
func (r *Reader) Match(root tree.Root, contents []uint64) []tree.Depths {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.root, r.contents = root, append(r.contents[:0], contents...)
	r.answer = r.answer[:0]
	path := r.m.path(root, contents)
	for i, h := range r.m.holders {
		if h == nil {
			continue
		}
		if d := h.depths(path); d[tree.ViewAny] > 0 {
			r.answer = append(r.answer, tree.Depths{Holder: tree.Holder(i + 1), Units: d})
		}
	}
	slices.SortFunc(r.answer, func(a, b tree.Depths) int {
		return cmp.Or(-cmp.Compare(a.Units[tree.ViewAny], b.Units[tree.ViewAny]), cmp.Compare(a.Holder, b.Holder))
	})
	return r.answer
}

// Names implements tree.Reader. It answers from the present state, so that
// what it gives is true when it gives it.
func (r *Reader) Names(dst []uint64, h tree.Holder, v tree.View, depth int) []uint64 {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	hd := r.m.holder(h)
	if hd == nil || v >= tree.NumViews {
		return dst
	}
	path := r.m.path(r.root, r.contents)
	d := hd.depths(path)
	covered := 0
	for i := 0; i < min(depth, int(d[v])); i++ {
		var best *block
		for _, b := range hd.shards[0].covers[path[i]] {
			start, ok := hd.named(b.name, path[i], i, want(v, i, d))
			if ok && start <= covered && (best == nil || b.name < best.name) {
				best = b
			}
		}
		if best != nil {
			dst, covered = append(dst, best.name), i+1
		}
	}
	return dst
}

// NameOK checks a list of names that another index gave for the leading
// blocks of h in a view, at most depth units deep. It may be short, but each
// name must be one that every shard holds in that view, for a block that ends
// at most depth deep, and the blocks must follow each other from the root
// without a gap. The error says what is wrong.
func (m *Model) NameOK(h tree.Holder, v tree.View, root tree.Root, contents []uint64, depth int, names []uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	hd := m.holder(h)
	if hd == nil {
		return fmt.Errorf("%d names of holder %d, which does not exist", len(names), h)
	}
	path := m.path(root, contents)
	d := hd.depths(path)
	covered := 0
	for k, name := range names {
		b := hd.shards[0].resident(name)
		if b == nil {
			return fmt.Errorf("name %d (%#x) is not resident", k, name)
		}
		end := slices.Index(path, b.at) + 1
		if end == 0 {
			return fmt.Errorf("name %d (%#x) is not on the query's path", k, name)
		}
		if limit := min(depth, int(d[v])); end > limit {
			return fmt.Errorf("name %d (%#x) ends at unit %d, but at most %d are held in view %d", k, name, end, limit, v)
		}
		start, ok := hd.named(name, b.at, end-1, want(v, end-1, d))
		if !ok {
			return fmt.Errorf("name %d (%#x) at unit %d is not held by every shard in view %d", k, name, end, v)
		}
		if start > covered || end <= covered {
			return fmt.Errorf("name %d (%#x) covers units %d to %d, but the names before it end at %d", k, name, start, end, covered)
		}
		covered = end
	}
	return nil
}

// Block is one name of one owner, as Blocks reports it.
type Block struct {
	Owner   tree.Owner
	Name    uint64
	Copies  int
	Waiting bool
}

// Blocks lists every name with copies, sorted by holder, shard, tier and name.
func (m *Model) Blocks() (list []Block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, h := range m.holders {
		if h == nil {
			continue
		}
		for s, sh := range h.shards {
			for _, set := range []map[uint64]*block{sh.blocks, sh.aside} {
				for name, b := range set {
					for t, n := range b.copies {
						if n > 0 {
							o := tree.Owner{Holder: tree.Holder(i + 1), Tier: tree.Tier(t), Shard: uint8(s)}
							list = append(list, Block{o, name, n, b.at == nil})
						}
					}
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b Block) int {
		return cmp.Or(
			cmp.Compare(a.Owner.Holder, b.Owner.Holder), cmp.Compare(a.Owner.Shard, b.Owner.Shard),
			cmp.Compare(a.Owner.Tier, b.Owner.Tier), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// path returns the places of a query's leading contents, as far as they exist.
func (m *Model) path(root tree.Root, contents []uint64) (path []*place) {
	p := m.roots[root]
	for _, c := range contents {
		if p == nil {
			break
		}
		if p = p.next[c]; p != nil {
			path = append(path, p)
		}
	}
	return path
}

// depths counts the leading positions of path that the holder holds, per view.
func (h *holder) depths(path []*place) (d [tree.NumViews]uint32) {
	if h.hidden {
		return d
	}
	for i, p := range path {
		held := h.held(p)
		for v := range d {
			// A view goes on while it was whole up to here.
			if int(d[v]) == i && held&want(tree.View(v), i, d) != 0 {
				d[v]++
			}
		}
		if d[tree.ViewAny] == uint32(i) {
			break
		}
	}
	return d
}

// want says which tiers make position i count in a view. The device depth in
// d must be final as far as position i.
func want(v tree.View, i int, d [tree.NumViews]uint32) tiers {
	switch v {
	case tree.ViewDevice:
		return device
	case tree.ViewHost:
		return host
	case tree.ViewDeviceHost:
		return device | host
	case tree.ViewExtension:
		if i < int(d[tree.ViewDevice]) {
			return device
		}
		return host
	default:
		return all
	}
}

// held says on which tiers every shard has a block that covers p.
func (h *holder) held(p *place) tiers {
	held := all
	for _, sh := range h.shards {
		var here tiers
		for _, b := range sh.covers[p] {
			here |= b.tiers()
		}
		held &= here
	}
	return held
}

// named says whether every shard has name as a block that ends at p, position
// i, on one of the wanted tiers, and at which position the shortest starts.
func (h *holder) named(name uint64, p *place, i int, wanted tiers) (start int, ok bool) {
	for _, sh := range h.shards {
		b := sh.resident(name)
		if b == nil || b.at != p || b.tiers()&wanted == 0 {
			return 0, false
		}
		start = max(start, i+1-len(b.contents))
	}
	return start, true
}

// residencies counts the tiers on which every shard holds name for one block.
func (h *holder) residencies(name uint64) (n int) {
	first, held := h.shards[0].resident(name), all
	for _, sh := range h.shards {
		b := sh.resident(name)
		if b == nil || b.at != first.at || len(b.contents) != len(first.contents) {
			return 0
		}
		held &= b.tiers()
	}
	for t := range tree.NumTiers {
		n += int(held >> t & 1)
	}
	return n
}

func (b *block) tiers() (set tiers) {
	for t, n := range b.copies {
		if n > 0 {
			set |= 1 << t
		}
	}
	return set
}

// Depths is one holder's line of a Match, zeros if it holds nothing.
func (m *Model) Depths(h tree.Holder, root tree.Root, contents []uint64) (d [tree.NumViews]uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if hd := m.holder(h); hd != nil {
		return hd.depths(m.path(root, contents))
	}
	return d
}
