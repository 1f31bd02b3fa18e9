package tree

import (
	"math/bits"
	"sync/atomic"
)

// op is the event being applied: one owner's, one call's.
type op struct {
	lane   uint32
	tier   Tier
	shard  uint8
	shards int
	rule   Policy
	span   int
	stride int // words of a block in pairs: 1 + span
	pairs  []uint64
	out    Outcome
}

func (o *op) name(i int) uint64    { return o.pairs[i*o.stride] }
func (o *op) content(i int) uint64 { return o.pairs[i*o.stride+1] }

// newLane gives the current holder a place in a run, with nothing held yet.
func (x *Index) newLane(at spot) *atomic.Uint64 {
	slot := x.newSlot(x.op.lane, at.hd)
	slot.Store(uint64(plainLane(x.op.lane, x.op.tier, 0)))
	x.logRun(x.op.lane, at.run)
	return slot
}

func (x *Index) laneHere(at spot) *atomic.Uint64 {
	if slot := x.slot(at.hd, x.op.lane); slot != nil {
		return slot
	}
	return x.newLane(at)
}

// claim sets the bits of the event's tier and shard at n positions from at on,
// none of them set before. One word's store makes it true for each view.
func (x *Index) claim(at spot, slot *atomic.Uint64, n int) {
	class := at.class()
	l := lane(slot.Load())
	if l.plain() && x.op.shards == 1 && at.pos() <= l.reach() && (l.reach() == 0 || l.tier() == x.op.tier) {
		keep := l & (laneOwn | laneRef)
		slot.Store(uint64(plainLane(l.id(), x.op.tier, at.pos()+n) | keep))
		x.mark(stepRaise)
		return
	}
	l, s := x.needRows(slot, class)
	fill(x.row(s, class, x.op.tier, x.op.shard, true), at.pos(), at.pos()+n)
	_, one, reach := x.publish(at, l, s)
	x.collapse(at, slot, one, reach)
}

// publish stores a holder's figures in a run after its rows have changed.
func (x *Index) publish(at spot, l lane, s []atomic.Uint64) (empty bool, one Tier, reach int) {
	shards := int(x.lanes[l.id()].shards)
	was, ext := int(s[sRes].Load()), s[sExt].Load()
	empty, one, reach = x.figures(s, at.class(), shards)
	if now := s[sExt].Load(); now&0xffff > ext&0xffff && now>>16&0xffff > 0 {
		// The extension of a reader that went on from the host here would go
		// on from the device now: no removal, but not the same walk either.
		at.hd[hVersion].Store(at.hd[hVersion].Load() + version1)
		x.mark(stepVersion)
	}
	if shards > 1 {
		if exc := uint32(s[sExc].Load()); exc != 0 {
			s[sRes].Store(uint64(int(s[sRes].Load()) + x.exceptionalResidencies(at, l, s, exc, shards)))
		}
		x.lanes[l.id()].residencies += int(s[sRes].Load()) - was
	}
	return empty, one, reach
}

// exceptionalResidencies corrects the number of residencies of a holder with
// TP shards, which figures counted by position, for positions with lists.
func (x *Index) exceptionalResidencies(at spot, l lane, s []atomic.Uint64, exc uint32, shards int) int {
	w, n := x.plane(at.class(), exc), 0
	for p := 0; p < capOf(at.class()); p++ {
		if !bit(w, p) {
			continue
		}
		for t := Device; t < NumTiers; t++ {
			all := true
			for sh := 0; sh < shards && all; sh++ {
				r := x.row(s, at.class(), t, uint8(sh), false)
				all = r != nil && bit(r, p)
			}
			if all {
				n--
			}
		}
		for i := x.supportsOf(l.id(), at.run, p); i != 0; i = x.listed(i).next {
			v := x.listed(i)
			if v.inner || v.shard != 0 {
				continue
			}
			head, all := x.supportsOf(l.id(), at.run, p), true
			for sh := 1; sh < shards && all; sh++ {
				o := x.findSupport(head, v.name, v.tier, uint8(sh))
				all = o != nil && !o.inner && o.span == v.span
			}
			if all {
				n++
			}
		}
	}
	return n
}

// collapse makes a lane plain again when its rows have become a prefix of one
// tier and no position is exceptional.
func (x *Index) collapse(at spot, slot *atomic.Uint64, one Tier, reach int) {
	if one == NumTiers {
		return
	}
	l, class := lane(slot.Load()), at.class()
	s := x.side(l.ref())
	if exc := uint32(s[sExc].Load()); exc != 0 {
		if anyBit(x.plane(class, exc), 0, capOf(class)) {
			return
		}
	}
	p := plainLane(l.id(), one, reach)
	if l.own() {
		p |= laneOwn | lane(s[sNames].Load())<<32
	}
	slot.Store(uint64(p))
	x.mark(stepRows)
	at.hd[hVersion].Store(at.hd[hVersion].Load() + version1)
	x.mark(stepVersion)
	x.freeSide(l.ref(), class)
}

// lower clears the bits of (tier, shard) at n positions from at on, all of them
// set and none exceptional any more: the figure first, then the names nobody
// needs, then the version.
func (x *Index) lower(at spot, slot *atomic.Uint64, n int, t Tier, shard uint8) {
	class, lo, hi := at.class(), at.pos(), at.pos()+n
	l := lane(slot.Load())
	gone := false
	if l.plain() && hi < l.reach() && !x.holeFits(class) {
		// No room for a hole: what lies behind it goes as well.
		x.lanes[l.id()].residencies -= l.reach() - hi
		x.budget.evicted += uint64(l.reach() - hi)
		x.thin(l.id())
		hi = l.reach()
	}
	if l.plain() && hi >= l.reach() {
		if gone = lo == 0; !gone {
			slot.Store(uint64(l.withReach(lo)))
		}
	} else {
		var s []atomic.Uint64
		l, s = x.needRows(slot, class)
		wipe(x.row(s, class, t, shard, false), lo, hi)
		empty, one, reach := x.publish(at, l, s)
		if gone = empty; !gone {
			x.collapse(at, slot, one, reach)
		}
	}
	if gone {
		slot.Store(0)
		at.hd[hMeta].Store(at.hd[hMeta].Load() - metaHolder)
		x.leaveRun(l, at.hd)
	} else {
		l = lane(slot.Load())
	}
	x.mark(stepLower)
	if l.own() {
		x.unname(at, l, gone, lo, hi)
	}
	x.settle(at.run, l, x.bury(at, lo, hi))
	if gone {
		x.freeRefs(l, class)
	}
}

// death is which positions nobody holds any more.
type death uint8

const (
	noneDied death = iota
	someDied
	endDied // the run's last one among them
)

// bury takes the shared names of positions that nobody holds any more out of
// the name table. Their contents stay while blocks behind them need the path.
func (x *Index) bury(at spot, lo, hi int) death {
	dead := &x.dead
	if x.coveredTo(at.hd, hi) || !x.uncovered(at.run, at.hd, lo, hi, dead) {
		return noneDied
	}
	class := at.class()
	names := sharedNames(at.hd, class)
	for w := lo >> 6; w <= (hi-1)>>6; w++ {
		gone := dead[w] & namedWord(at.hd, class, w)
		if gone == 0 {
			continue
		}
		for b := gone; b != 0; {
			from := bits.TrailingZeros64(b)
			n := bits.TrailingZeros64(^(b >> from))
			homes := x.homes[:n]
			for i := range homes {
				homes[i] = x.names.hash(names[w<<6+from+i].Load())
			}
			x.names.removeAll(homes, at.run, w<<6+from)
			b &^= (1<<n - 1) << from
		}
		clearNamed(at.hd, class, w, gone)
	}
	if last := count(at.hd[hVersion].Load()) - 1; hi > last && dead[last>>6]>>(last&63)&1 != 0 {
		return endDied
	}
	return someDied
}

// holdOne adds n copies of a block of one unit to the holder at a position that
// exists. Whatever the position was to the holder before, this is right; the
// span functions are the same for many plain positions at once.
func (x *Index) holdOne(at spot, block int, n uint32) {
	name, class := x.op.name(block), at.class()
	slot := x.laneHere(at)
	l := lane(slot.Load())
	v := support{name: name, n: n, tier: x.op.tier, shard: x.op.shard, span: 1}
	switch {
	case !x.holds(l, class, at.pos(), -1):
		x.nameSpan(at, slot, 1, block)
		x.claim(at, slot, 1)
		x.gained(1)
		if v.n--; v.n > 0 && x.op.rule == Copies {
			x.support(at, slot, v)
		}
	case !x.exceptional(l, class, at.pos()) && x.nameAt(l, at.hd, class, at.pos()) == name:
		if !x.holdsOn(l, class, at.pos(), x.op.tier, x.op.shard) {
			x.claim(at, slot, 1)
			x.gained(1)
			v.n--
		} else {
			x.op.out.Known++
		}
		if v.n > 0 && x.op.rule == Copies {
			x.support(at, slot, v)
		}
	default:
		x.list(at, slot, v)
	}
}

// list adds copies to a position through its support list, and its bit.
func (x *Index) list(at spot, slot *atomic.Uint64, v support) {
	id := lane(slot.Load()).id()
	known := false
	if head := x.supportsOf(id, at.run, at.pos()); head != 0 {
		known = x.findSupport(head, v.name, v.tier, v.shard) != nil
	} else if l := lane(slot.Load()); x.holds(l, at.class(), at.pos(), -1) {
		known = x.nameAt(l, at.hd, at.class(), at.pos()) == v.name && x.holdsOn(l, at.class(), at.pos(), v.tier, v.shard)
	}
	x.support(at, slot, v)
	switch {
	case v.inner:
	case known:
		x.op.out.Known++
	default:
		x.gained(1)
	}
	l := lane(slot.Load())
	s := x.side(l.ref())
	row := x.row(s, at.class(), v.tier, v.shard, true)
	if !bit(row, at.pos()) {
		setBit(row, at.pos(), true)
	}
	x.publish(at, l, s)
}

// gained and lost count residencies; holders with TP shards count in publish.
func (x *Index) gained(n int) {
	x.op.out.New += n
	if x.op.shards == 1 {
		x.lanes[x.op.lane].residencies += n
	}
}

func (x *Index) lost(n int) {
	x.op.out.Removed += n
	if x.op.shards == 1 {
		x.lanes[x.op.lane].residencies -= n
	}
}
