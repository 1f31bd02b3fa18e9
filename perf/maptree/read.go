package maptree

import (
	"slices"

	"github.com/cairn-kv/cairn/tree"
)

// reader answers queries. Its buffers are used again.
type reader struct {
	t        *Tree
	root     tree.Root
	contents []uint64
	walking  []walking
	answer   []tree.Depths
}

// walking is a holder that has held every block so far in some view.
type walking struct {
	holder tree.Holder
	alive  uint8 // views, bit v for view v
	host   bool  // the extension has left the device
	units  [tree.NumViews]uint32
}

const allViews = 1<<tree.NumViews - 1

// NewReader implements tree.Interface.
func (t *Tree) NewReader() tree.Reader { return &reader{t: t} }

// Match implements tree.Reader.
func (r *reader) Match(root tree.Root, contents []uint64) []tree.Depths {
	r.root, r.contents = root, contents
	r.walking, r.answer = r.walking[:0], r.answer[:0]
	r.t.mu.RLock()
	defer r.t.mu.RUnlock()
	n := r.t.roots[root]
	for i, c := range contents {
		if n == nil {
			break
		}
		if n = n.children[c]; n == nil {
			break
		}
		if i == 0 {
			for id := range n.holders {
				if !r.t.holders[id].hidden {
					r.walking = append(r.walking, walking{holder: id, alive: allViews})
				}
			}
		}
		for k := 0; k < len(r.walking); {
			w := &r.walking[k]
			w.step(n.holders[w.holder])
			if w.alive != 0 {
				k++
				continue
			}
			r.give(w)
			last := len(r.walking) - 1
			r.walking[k] = r.walking[last]
			r.walking = r.walking[:last]
		}
		if len(r.walking) == 0 {
			break
		}
	}
	for k := range r.walking {
		r.give(&r.walking[k])
	}
	slices.SortFunc(r.answer, func(a, b tree.Depths) int {
		return int(b.Units[tree.ViewAny]) - int(a.Units[tree.ViewAny])
	})
	return r.answer
}

func (r *reader) give(w *walking) {
	if w.units[tree.ViewAny] > 0 {
		r.answer = append(r.answer, tree.Depths{Holder: w.holder, Units: w.units})
	}
}

// step goes on to a block: each view in which the holder has it is one deeper,
// the others end.
func (w *walking) step(b *block) {
	held := held(b)
	w.host = w.host || held>>tree.Device&1 == 0
	w.alive &= w.views(held)
	for v := range w.units {
		w.units[v] += uint32(w.alive >> v & 1)
	}
}

// views says in which views a block on the given tiers counts.
func (w *walking) views(held uint8) (views uint8) {
	device, host := held>>tree.Device&1, held>>tree.Host&1
	if held != 0 {
		views = 1 << tree.ViewAny
	}
	views |= device<<tree.ViewDevice | host<<tree.ViewHost | (device|host)<<tree.ViewDeviceHost
	if w.host {
		return views | host<<tree.ViewExtension
	}
	return views | device<<tree.ViewExtension
}

// held is the set of tiers on which a holder has a block under some name.
func held(b *block) (set uint8) {
	for ; b != nil; b = b.twin {
		set |= b.tiers()
	}
	return set
}

func (b *block) tiers() (set uint8) {
	for t, n := range b.copies {
		if n > 0 {
			set |= 1 << t
		}
	}
	return set
}

// Names implements tree.Reader. It answers from the present state.
func (r *reader) Names(dst []uint64, h tree.Holder, v tree.View, depth int) []uint64 {
	r.t.mu.RLock()
	defer r.t.mu.RUnlock()
	hd, n := r.t.holders[h], r.t.roots[r.root]
	if hd == nil || hd.hidden || n == nil || v >= tree.NumViews {
		return dst
	}
	w := walking{alive: 1 << v}
	for i := 0; i < len(r.contents) && i < depth; i++ {
		if n = n.children[r.contents[i]]; n == nil {
			break
		}
		first := n.holders[h]
		if w.step(first); w.alive == 0 {
			break
		}
		for b := first; b != nil; b = b.twin {
			if w.views(b.tiers())>>v&1 != 0 {
				dst = append(dst, b.name)
				break
			}
		}
	}
	return dst
}
