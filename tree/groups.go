package tree

import (
	"math/bits"
	"sync/atomic"
)

// lifted is a lane that was taken out of its group, to be changed.
type lifted struct {
	hd  []atomic.Uint64
	ref uint32 // the cell
	id  uint32
}

// groupReach is the reach of group k, 0 if there is none.
func groupReach(reaches uint64, k int) uint32 { return uint32(reaches >> (16 * k) & 0xffff) }

// loosened counts a lane that has found no group.
const loosened = 1 << (16 * numGroups)

// ungroup takes a lane out of its group. It goes back when the next call of the
// writer begins, by what it is then.
func (x *Index) ungroup(hd []atomic.Uint64, ref, id uint32) {
	c := x.cell(ref)
	sets, b := c[denseSets+setStride*int(id>>6):], uint64(1)<<(id&63)
	for k := range numGroups {
		if g := &sets[setGroup+k]; g.Load()&b != 0 {
			g.Store(g.Load() &^ b)
			c[denseMeta].Store(c[denseMeta].Load() - 1<<(16*k))
		}
	}
	x.mark(stepGroup)
	if n := len(x.lifted); n == 0 || x.lifted[n-1].id != id || x.lifted[n-1].ref != ref {
		x.lifted = append(x.lifted, lifted{hd, ref, id})
	}
}

// regroup finds groups for the lanes that the last call of the writer changed.
func (x *Index) regroup() {
	for i := range x.lifted {
		l := &x.lifted[i]
		if uint32(l.hd[hCell].Load()) == l.ref { // else the run is gone, or its cell
			x.settleLane(l.hd, l.ref, l.id)
		}
	}
	clear(x.lifted)
	x.lifted = x.lifted[:0]
}

// vacate forgets a lane of a dense cell that is empty now, at once: a call may
// drop any number.
func (x *Index) vacate(hd []atomic.Uint64, id uint32) {
	n := len(x.lifted) - 1
	if n < 0 || x.lifted[n].id != id || x.lifted[n].ref != uint32(hd[hCell].Load()) {
		return
	}
	x.settleLane(hd, x.lifted[n].ref, id)
	x.lifted[n] = lifted{}
	x.lifted = x.lifted[:n]
}

// settleLane says in the sets of a dense cell what a lane has become.
func (x *Index) settleLane(hd []atomic.Uint64, ref, id uint32) {
	c := x.cell(ref)
	sets, b := c[denseSets+setStride*int(id>>6):], uint64(1)<<(id&63)
	l := lane(lanesIn(c, ref)[id].Load())
	if l == 0 {
		sets[setPresent].Store(sets[setPresent].Load() &^ b)
		return
	}
	if reach := uint32(l.reach()); l.shape() == shapeDevice && reach > 0 {
		reaches := c[denseReaches].Load()
		for k := range numGroups {
			if groupReach(reaches, k) != reach {
				continue
			}
			if g := &sets[setGroup+k]; g.Load()&b == 0 {
				g.Store(g.Load() | b)
				c[denseMeta].Store(c[denseMeta].Load() + 1<<(16*k))
				x.mark(stepGroup)
			}
			return
		}
	}
	m := c[denseMeta].Load() + loosened
	c[denseMeta].Store(m)
	if int(m/loosened) > x.looseFrom+metaOf(hd).holders()/4 {
		x.formGroups(hd, c, denseWords(ref>>28))
	}
}

// formGroups chooses the reaches that most lanes of a dense cell have. hd is
// the run's header, nil if no reader knows the cell yet. A group changes its
// meaning between the bits that go and those that come, and the version moves
// behind the new meaning: a reader that takes new bits for the old reach has
// seen the version before.
func (x *Index) formGroups(hd, c []atomic.Uint64, words int) {
	meta := c[denseMeta].Load() % loosened
	sets, lanes := c[denseSets:denseSets+setStride*words], c[denseSets+setStride*words:]
	tally, top := &x.tally, 0
	for w := range words {
		for b := sets[setStride*w+setPresent].Load(); b != 0; b &= b - 1 {
			l := lane(lanes[w<<6+bits.TrailingZeros64(b)].Load())
			if l.shape() == shapeDevice && l.reach() > 0 {
				tally[l.reach()]++
				top = max(top, l.reach())
			}
		}
	}
	was := c[denseReaches].Load()
	now, changed := x.chooseReaches(was, top)
	clear(tally[:top+1])
	if len(changed) > 0 {
		for _, k := range changed {
			for w := range words {
				sets[setStride*w+setGroup+k].Store(0)
			}
			meta &^= 0xffff << (16 * k)
		}
		x.mark(stepGroup)
		c[denseReaches].Store(now)
		x.mark(stepGroup)
		if hd != nil {
			hd[hVersion].Store(hd[hVersion].Load() + version1)
			x.mark(stepVersion)
		}
		for w := range words {
			for b := sets[setStride*w+setPresent].Load(); b != 0; b &= b - 1 {
				l := lane(lanes[w<<6+bits.TrailingZeros64(b)].Load())
				for _, k := range changed {
					if l.shape() == shapeDevice && uint32(l.reach()) == groupReach(now, k) {
						g := &sets[setStride*w+setGroup+k]
						g.Store(g.Load() | b&-b)
						meta += 1 << (16 * k)
					}
				}
			}
		}
		x.mark(stepGroup)
	}
	c[denseMeta].Store(meta)
}

// chooseReaches finds reaches that many lanes have, by the tally, and puts them
// in place of those that few have.
func (x *Index) chooseReaches(was uint64, top int) (now uint64, changed []int) {
	now, changed = was, x.changed[:0]
	for {
		best := 0
		for r := 1; r <= top; r++ {
			if x.tally[r] > x.tally[best] && !grouped(now, uint32(r)) {
				best = r
			}
		}
		if best == 0 || x.tally[best] < x.groupFrom {
			return now, changed
		}
		least := 0
		for k := range numGroups {
			if x.tally[groupReach(now, k)] < x.tally[groupReach(now, least)] {
				least = k
			}
		}
		if 2*x.tally[best] <= 3*x.tally[groupReach(now, least)] {
			return now, changed
		}
		now = now&^(0xffff<<(16*least)) | uint64(best)<<(16*least)
		changed = append(changed, least)
	}
}

// grouped reports whether some group has a reach.
func grouped(reaches uint64, reach uint32) bool {
	for k := range numGroups {
		if groupReach(reaches, k) == reach {
			return true
		}
	}
	return false
}

// lanesOf gives the lanes of a run, those in groups excepted: of them it tells
// the largest reach. The slice is the index's own, valid until the next use.
func (x *Index) lanesOf(hd []atomic.Uint64) (lanes []lane, grouped int) {
	lanes = x.laneScratch[:0]
	for i := hLane; i < hLane+inlineLanes; i++ {
		if l := lane(hd[i].Load()); l != 0 {
			lanes = append(lanes, l)
		}
	}
	ref := uint32(hd[hCell].Load())
	if ref == 0 {
		x.laneScratch = lanes
		return lanes, 0
	}
	c := x.cell(ref)
	places := lanesIn(c, ref)
	if !isDense(ref) {
		for i := range places {
			if l := lane(places[i].Load()); l != 0 {
				lanes = append(lanes, l)
			}
		}
	} else {
		reaches, meta := c[denseReaches].Load(), c[denseMeta].Load()
		for k := range numGroups {
			if meta>>(16*k)&0xffff > 0 {
				grouped = max(grouped, int(groupReach(reaches, k)))
			}
		}
		for w := range denseWords(ref >> 28) {
			sets := c[denseSets+setStride*w:]
			b := sets[setPresent].Load() &^ (sets[setGroup].Load() | sets[setGroup+1].Load() | sets[setGroup+2].Load())
			for ; b != 0; b &= b - 1 {
				if l := lane(places[w<<6+bits.TrailingZeros64(b)].Load()); l != 0 {
					lanes = append(lanes, l)
				}
			}
		}
	}
	x.laneScratch = lanes
	return lanes, grouped
}

// covered is one past the last position of a run that some holder holds on
// some tier and shard.
func (x *Index) covered(id uint32, hd []atomic.Uint64) int {
	lanes, top := x.lanesOf(hd)
	for _, l := range lanes {
		if l.plain() {
			top = max(top, l.reach())
		} else {
			top = max(top, x.rowsTop(l.ref(), classOf(id)))
		}
	}
	return top
}

// coveredTo reports whether it is plain to see that some lane covers a run up to a
// position. It is, as a rule, where anybody else holds it.
func (x *Index) coveredTo(hd []atomic.Uint64, hi int) bool {
	for i := hLane; i < hLane+inlineLanes; i++ {
		if l := lane(hd[i].Load()); l.plain() && l.reach() >= hi {
			return true
		}
	}
	ref := uint32(hd[hCell].Load())
	if ref == 0 || isDense(ref) {
		return false
	}
	c := x.cell(ref)
	for i := range c {
		if l := lane(c[i].Load()); l.plain() && l.reach() >= hi {
			return true
		}
	}
	return false
}

// uncovered marks in dead the positions of [lo, hi) that no lane covers, and
// reports whether there is any.
func (x *Index) uncovered(id uint32, hd []atomic.Uint64, lo, hi int, dead *bitmap) bool {
	lanes, grouped := x.lanesOf(hd)
	reach, sided := max(lo, grouped), false
	for _, l := range lanes {
		if l.plain() {
			reach = max(reach, l.reach())
		} else {
			sided = true
		}
	}
	if reach >= hi {
		return false
	}
	class := classOf(id)
	n := wordsOf(class)
	clear(dead[:n])
	setBits(dead, reach, hi)
	if sided {
		for _, l := range lanes {
			if !l.plain() {
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
