package tree

import (
	"math/bits"
	"sync/atomic"
)

// laneOf finds the lane of a visible holder in a run, 0 if it has none. id is the
// holder's lane id if the caller has met it, else 0. Any goroutine.
func (x *Index) laneOf(hd []atomic.Uint64, h Holder, id uint32) lane {
	known := id != 0 && x.ownerOf(id) == h
	for i := hLane; i < hLane+inlineLanes; i++ {
		if l := lane(hd[i].Load()); x.isLaneOf(l, h, id, known) {
			return l
		}
	}
	ref := uint32(hd[hCell].Load())
	if ref == 0 {
		return 0
	}
	c := x.cell(ref)
	places := lanesIn(c, ref)
	switch {
	case !isDense(ref):
		for i := range places {
			if l := lane(places[i].Load()); x.isLaneOf(l, h, id, known) {
				return l
			}
		}
	case known:
		if int(id) < len(places) {
			return lane(places[id].Load())
		}
	default:
		for w := range denseWords(ref >> 28) {
			for b := c[denseSets+setStride*w+setPresent].Load(); b != 0; b &= b - 1 {
				if id := uint32(w<<6 + bits.TrailingZeros64(b)); x.ownerOf(id) == h {
					return lane(places[id].Load())
				}
			}
		}
	}
	return 0
}

// isLaneOf reports whether a lane is a holder's, whose lane id is id if known.
func (x *Index) isLaneOf(l lane, h Holder, id uint32, known bool) bool {
	if known {
		return l.id() == id
	}
	return l != 0 && x.ownerOf(l.id()) == h
}

// ownerOf is the visible holder that a lane id belongs to, 0 if none.
func (x *Index) ownerOf(id uint32) Holder {
	if !x.visible(id) {
		return 0
	}
	return Holder(x.owners[id].Load())
}
