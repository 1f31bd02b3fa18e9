package tree

import (
	"math/bits"
	"sync/atomic"
)

// A run has room for three lanes in its header; further ones are in a cell. A
// small one is a list of places, searched. Where many holders hold a run, the
// cell is dense: a place for every lane id, and sets of ids for what many have
// in common, so that readers take and give them by the word of 64.
//
//	c0   reaches of three groups, 16 bits each; 0: no group
//	c1   writer's own: members of the groups 3 × 16, lanes outside since 16
//	     for each 64 ids: present, group 0, group 1, group 2
//	     for each id: its lane
//
// A group's bit says of its id: on the device alone, with exactly the group's
// reach. The lane says so too, at any time: a bit is taken away before the lane
// changes, and given when it has. So a reader may believe the bit or, where it
// finds none, the lane; and present only tells where it need not look.
const (
	listClasses = 6 // lists of 8 … 256 places
	cellClasses = 16
	numGroups   = 3

	denseReaches = 0
	denseMeta    = 1
	denseSets    = 2
	setPresent   = 0 // of four words for each 64 ids
	setGroup     = 1
	setStride    = setGroup + numGroups

	// minDense is how many lanes a list has at least before a dense cell takes
	// its place; in large fleets it is a sixteenth of all lane ids, for that is
	// what a dense cell has places for.
	minDense = 16
	// minGroup is how many lanes of one reach make a group, and minLoose how many
	// must have found none, beside a quarter of all, before others are looked for.
	minGroup = 4
	minLoose = 8
)

// denseWords is how many words of ids a dense cell of a class has.
func denseWords(class uint32) int { return 1 << (class - listClasses) }

func isDense(ref uint32) bool { return ref>>28 >= listClasses }

// cellStride is how many words a cell of a class takes.
func cellStride(class int) int {
	if class < listClasses {
		return 8 << class
	}
	return denseSets + (setStride+64)*denseWords(uint32(class))
}

// cell returns the words of a cell.
func (x *Index) cell(ref uint32) []atomic.Uint64 { return x.cells[ref>>28].at(ref & (1<<28 - 1)) }

func (x *Index) freeCell(ref uint32) { x.cells[ref>>28].release(ref & (1<<28 - 1)) }

// lanesIn is the part of a cell that holds lanes.
func lanesIn(c []atomic.Uint64, ref uint32) []atomic.Uint64 {
	if isDense(ref) {
		return c[denseSets+setStride*denseWords(ref>>28):]
	}
	return c
}

// outer is the lanes of a run that are not in its header, empty places among
// them. Any goroutine.
func (x *Index) outer(hd []atomic.Uint64) []atomic.Uint64 {
	ref := uint32(hd[hCell].Load())
	if ref == 0 {
		return nil
	}
	return lanesIn(x.cell(ref), ref)
}

// laneAt is the i-th lane of a run, the inline ones before those of outer: i
// runs from -inlineLanes.
func laneAt(hd, outer []atomic.Uint64, i int) lane {
	if i < 0 {
		return lane(hd[hLane+inlineLanes+i].Load())
	}
	return lane(outer[i].Load())
}

// findLane returns the word that holds lane id in a run, and the run's cell if it
// is a dense one that has it; or nil.
func (x *Index) findLane(hd []atomic.Uint64, id uint32) (slot *atomic.Uint64, dense uint32) {
	for i := hLane; i < hLane+inlineLanes; i++ {
		if lane(hd[i].Load()).id() == id {
			return &hd[i], 0
		}
	}
	ref := uint32(hd[hCell].Load())
	if ref == 0 {
		return nil, 0
	}
	c := lanesIn(x.cell(ref), ref)
	if isDense(ref) {
		if int(id) < len(c) && c[id].Load() != 0 {
			return &c[id], ref
		}
		return nil, 0
	}
	for i := range c {
		if lane(c[i].Load()).id() == id {
			return &c[i], 0
		}
	}
	return nil, 0
}

// laneIn is the lane of an id in a run, 0 if it has none. The writer's own.
func (x *Index) laneIn(hd []atomic.Uint64, id uint32) lane {
	if slot, _ := x.findLane(hd, id); slot != nil {
		return lane(slot.Load())
	}
	return 0
}

// slot finds the word that holds lane id in a run, to change it, or nil. The
// lane is in no group until the next call of the writer begins.
func (x *Index) slot(hd []atomic.Uint64, id uint32) *atomic.Uint64 {
	slot, dense := x.findLane(hd, id)
	if dense != 0 {
		x.ungroup(hd, dense, id)
	}
	return slot
}

// newSlot finds an empty place for one more lane, in a larger cell if need be.
// Lanes never move between places of one cell, so that a reader's scan meets
// each or rightly misses it; a larger cell is filled before it is published,
// and the version moves before the old one can be used again.
func (x *Index) newSlot(id uint32, hd []atomic.Uint64) *atomic.Uint64 {
	hd[hMeta].Store(hd[hMeta].Load() + metaHolder)
	for i := hLane; i < hLane+inlineLanes; i++ {
		if hd[i].Load() == 0 {
			return &hd[i]
		}
	}
	ref := uint32(hd[hCell].Load())
	class := x.cellFor(ref, metaOf(hd).holders()-inlineLanes, id)
	if ref == 0 || class != ref>>28 {
		ref = x.enlarge(hd, ref, class)
	}
	c := lanesIn(x.cell(ref), ref)
	if !isDense(ref) {
		for i := range c {
			if c[i].Load() == 0 {
				return &c[i]
			}
		}
	}
	x.ungroup(hd, ref, id)
	present := &x.cell(ref)[denseSets+setStride*int(id>>6)+setPresent]
	present.Store(present.Load() | 1<<(id&63))
	return &c[id]
}

// cellFor is the class of cell that n lanes take, that of id among them, where
// the cell so far is ref.
func (x *Index) cellFor(ref uint32, n int, id uint32) uint32 {
	class := ref >> 28
	switch {
	case ref == 0:
		if x.denseFrom > 0 {
			return 0
		}
	case isDense(ref):
		for int(id) >= 64*denseWords(class) {
			class++
		}
		return class
	case n <= 8<<class:
		return class
	case 8<<class < min(max(len(x.lanes)/16, x.denseFrom), 8<<(listClasses-1)):
		return class + 1
	}
	return listClasses + uint32(bits.Len(uint(max(len(x.lanes), int(id)+1)-1)>>6))
}

// enlarge gives a run a larger cell with the lanes it has.
func (x *Index) enlarge(hd []atomic.Uint64, old, class uint32) uint32 {
	ref := class<<28 | x.cells[class].alloc()
	c := x.cell(ref)
	for i := range c {
		c[i].Store(0)
	}
	if old != 0 {
		from, to := lanesIn(x.cell(old), old), lanesIn(c, ref)
		for i := range from {
			l := lane(from[i].Load())
			switch {
			case l == 0:
			case isDense(ref):
				to[l.id()].Store(uint64(l))
				set := &c[denseSets+setStride*int(l.id()>>6)+setPresent]
				set.Store(set.Load() | 1<<(l.id()&63))
			default:
				to[i].Store(uint64(l))
			}
		}
	}
	if isDense(ref) {
		x.formGroups(nil, c, denseWords(class))
	}
	setCell(hd, ref)
	x.mark(stepCell)
	if old != 0 {
		hd[hVersion].Store(hd[hVersion].Load() + version1)
		x.mark(stepCell)
		x.freeCell(old)
	}
	return ref
}
