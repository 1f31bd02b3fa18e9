package tree

import (
	"math/bits"
	"sync/atomic"
)

// lane is one word: a holder's figures in one run. All that readers see of a
// holder here is in it, or, for holders on several tiers or with holes, in the
// two words of a side record it points at; so every change of a figure is the
// store of one word.
//
//	id 15 | shape 2 | own 1 | medium 2 | reach 12 | ref 32
//
// id 0 is an empty place. reach is how many leading blocks of the run the
// holder holds. own: names are in the side record's names, not in the run's.
// ref: side record, 0 if none.
type lane uint64

const (
	shapeDevice = iota // everything on the device: device = any = reach, host = 0
	shapeHost          // everything on the host
	shapeOther         // everything on one tier that only ViewAny sees
	shapeFull          // the side record's words say

	laneOwn  = 1 << 17
	laneRef  = 0xffffffff << 32
	maxLanes = 1 << 15
)

func (l lane) id() uint32  { return uint32(l & 0x7fff) }
func (l lane) shape() int  { return int(l >> 15 & 3) }
func (l lane) own() bool   { return l&laneOwn != 0 }
func (l lane) reach() int  { return int(l >> 20 & 0xfff) }
func (l lane) ref() uint32 { return uint32(l >> 32) }
func (l lane) plain() bool { return l.shape() != shapeFull }
func (l lane) withReach(n int) lane {
	return l&^(0xfff<<20) | lane(n)<<20
}

// tier of a plain lane.
func (l lane) tier() Tier {
	if s := l.shape(); s != shapeOther {
		return Tier(s)
	}
	return Disk + Tier(l>>18&3)
}

// plainLane is the lane of a holder that has the first n blocks on one tier.
func plainLane(id uint32, t Tier, n int) lane {
	l := lane(id) | lane(n)<<20
	if t < Disk {
		return l | lane(t)<<15
	}
	return l | shapeOther<<15 | lane(t-Disk)<<18
}

// fullLane is the lane of a holder whose figures are in side record ref.
func fullLane(id, ref uint32, own bool) lane {
	l := lane(id) | shapeFull<<15 | lane(ref)<<32
	if own {
		l |= laneOwn
	}
	return l
}

// slot finds the word that holds lane id in a run, or nil. The writer's own.
func (x *Index) slot(hd []atomic.Uint64, id uint32) *atomic.Uint64 {
	for i := hLane; i < hLane+inlineLanes; i++ {
		if lane(hd[i].Load()).id() == id {
			return &hd[i]
		}
	}
	if cell := uint32(hd[hCell].Load()); cell != 0 {
		c := x.cell(cell)
		for i := range c {
			if lane(c[i].Load()).id() == id {
				return &c[i]
			}
		}
	}
	return nil
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
	cell := uint32(hd[hCell].Load())
	if cell != 0 {
		c := x.cell(cell)
		if metaOf(hd).holders() <= inlineLanes+len(c) {
			for i := range c {
				if c[i].Load() == 0 {
					return &c[i]
				}
			}
		}
	}
	k := uint32(0)
	if cell != 0 {
		k = cell>>28 + 1
	}
	bigger := k<<28 | x.cells[k].alloc()
	c := x.cell(bigger)
	n := 0
	if cell != 0 {
		for old := x.cell(cell); n < len(old); n++ {
			c[n].Store(old[n].Load())
		}
	}
	for i := n; i < len(c); i++ {
		c[i].Store(0)
	}
	hd[hCell].Store(uint64(bigger))
	x.mark(stepCell)
	if cell != 0 {
		hd[hVersion].Store(hd[hVersion].Load() + version1)
		x.mark(stepCell)
		x.freeCell(cell)
	}
	return &c[n]
}

// cell returns the lanes of a cell: 8 << class of them.
func (x *Index) cell(ref uint32) []atomic.Uint64 { return x.cells[ref>>28].at(ref & (1<<28 - 1)) }

func (x *Index) freeCell(ref uint32) { x.cells[ref>>28].release(ref & (1<<28 - 1)) }

// covered is one past the last position of a run that some holder holds on
// some tier and shard.
func (x *Index) covered(id uint32, hd []atomic.Uint64) int {
	top, cell := 0, []atomic.Uint64(nil)
	if ref := uint32(hd[hCell].Load()); ref != 0 {
		cell = x.cell(ref)
	}
	class := classOf(id)
	for i := -inlineLanes; i < len(cell); i++ {
		l := x.laneAt(hd, cell, i)
		if l == 0 {
			continue
		}
		if l.plain() {
			top = max(top, l.reach())
		} else {
			top = max(top, x.rowsTop(l.ref(), class))
		}
	}
	return top
}

// laneAt is the i-th lane of a run, the inline ones before the cell's: i runs
// from -inlineLanes.
func (x *Index) laneAt(hd, cell []atomic.Uint64, i int) lane {
	if i < 0 {
		return lane(hd[hLane+inlineLanes+i].Load())
	}
	return lane(cell[i].Load())
}

// uncovered marks in dead the positions of [lo, hi) that no lane covers, and
// reports whether there is any.
func (x *Index) uncovered(id uint32, hd []atomic.Uint64, lo, hi int, dead *bitmap) bool {
	var cell []atomic.Uint64
	if ref := uint32(hd[hCell].Load()); ref != 0 {
		cell = x.cell(ref)
	}
	class, reach, sided := classOf(id), lo, false
	for i := -inlineLanes; i < len(cell); i++ {
		l := x.laneAt(hd, cell, i)
		switch {
		case l == 0:
		case l.plain():
			if reach = max(reach, l.reach()); reach >= hi {
				return false
			}
		default:
			sided = true
		}
	}
	n := wordsOf(class)
	clear(dead[:n])
	setBits(dead, reach, hi)
	if sided {
		for i := -inlineLanes; i < len(cell); i++ {
			if l := x.laneAt(hd, cell, i); l != 0 && !l.plain() {
				x.rowsClear(l.ref(), class, dead)
			}
		}
	}
	for i := 0; i < n; i++ {
		if dead[i] != 0 {
			return true
		}
	}
	return false
}

func setBits(b *bitmap, lo, hi int) {
	for p := lo; p < hi; {
		end := min(hi, (p|63)+1)
		b[p>>6] |= (^uint64(0) >> (64 - (end - p))) << (p & 63)
		p = end
	}
}

// leading is the number of leading ones from position from on, up to the end.
func leading(b *bitmap, words, from int) int {
	n := 0
	for i := from >> 6; i < words; i++ {
		w := b[i]
		s := 0
		if i == from>>6 {
			s = from & 63
		}
		ones := bits.TrailingZeros64(^(w >> s))
		n += min(ones, 64-s)
		if ones < 64-s {
			break
		}
	}
	return n
}
