package model

import (
	"slices"

	"github.com/cairn-kv/cairn/tree"
)

var _ tree.Ranged = (*Model)(nil)

// ranger tells ranges from the definition, under the model's lock.
type ranger struct{ m *Model }

// NewRanger implements tree.Ranged.
func (m *Model) NewRanger() tree.Ranger { return ranger{m} }

// Ranges implements tree.Ranger.
func (r ranger) Ranges(dst []tree.Range, root tree.Root, contents []uint64, v tree.View, at int, shards func(tree.Holder) int) []tree.Range {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	path := r.m.path(root, contents)
	for i, h := range r.m.holders {
		id := tree.Holder(i + 1)
		if h == nil || h.hidden || shards(id) == 0 {
			continue
		}
		if found, _, ok := h.around(path, v, at); ok {
			found.Holder = id
			dst = append(dst, found)
		}
	}
	return dst
}

// Range implements tree.Ranger.
func (r ranger) Range(dst []uint64, id tree.Holder, root tree.Root, contents []uint64, v tree.View, at, shards int) (tree.Range, []uint64, bool) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	h := r.m.holder(id)
	if h == nil || h.hidden || shards < 1 {
		return tree.Range{}, dst, false
	}
	found, names, ok := h.around(r.m.path(root, contents), v, at)
	found.Holder = id
	if !ok {
		found = tree.Range{}
	}
	return found, append(dst, names...), ok
}

// around is the longest range of positions around at that every shard holds in a
// view under one name each.
func (h *holder) around(path []*place, v tree.View, at int) (r tree.Range, names []uint64, ok bool) {
	if v != tree.ViewHost && v != tree.ViewDeviceHost || at < 0 || at >= len(path) {
		return r, nil, false
	}
	name := func(i int) (uint64, bool) {
		if h.held(path[i])&want(v, i, [tree.NumViews]uint32{}) == 0 {
			return 0, false
		}
		var all []uint64
		for _, b := range h.shards[0].covers[path[i]] {
			if start, ok := h.named(b.name, path[i], i, want(v, i, [tree.NumViews]uint32{})); ok && start == i {
				all = append(all, b.name)
			}
		}
		if len(all) == 0 {
			return 0, false
		}
		return slices.Min(all), true
	}
	if _, ok = name(at); !ok {
		return r, nil, false
	}
	r.Start, r.End = at, at
	for r.Start > 0 {
		if _, ok := name(r.Start - 1); !ok {
			break
		}
		r.Start--
	}
	for i := r.Start; i < len(path); i++ {
		n, ok := name(i)
		if !ok {
			break
		}
		names, r.End = append(names, n), i+1
	}
	return r, names, true
}
