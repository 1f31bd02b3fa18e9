package tree

import (
	"math/bits"
	"sync/atomic"
)

// cut takes from a holder all it has in a run from a position on, and returns
// how much it was, at least 1. The figure goes first, then the names nobody
// needs, then the version, then memory, as in every removal.
func (x *Index) cut(at spot, id uint32, from int) int {
	ls := &x.lanes[id]
	before := ls.residencies
	x.cutSpans(at, id, from)
	if slot := x.slot(at.hd, id); slot != nil {
		l := lane(slot.Load())
		if ls.shards == 1 {
			ls.residencies -= x.residenciesFrom(at, l, from)
		}
		switch {
		case from == 0:
			x.dropLane(at, slot)
		case l.plain():
			at.position = int32(from)
			if n := l.reach() - from; n > 0 {
				x.lower(at, slot, n, l.tier(), 0)
			}
		default:
			x.cutRows(at, slot, l, from)
		}
	}
	took := before - ls.residencies
	x.budget.evicted += uint64(took)
	x.thin(id)
	return max(1, took)
}

// cutRows is cut for a holder that is more than a number in a run.
func (x *Index) cutRows(at spot, slot *atomic.Uint64, l lane, from int) {
	class, s := at.class(), x.side(l.ref())
	cnt := count(at.hd[hVersion].Load())
	for p := from; p < cnt; p++ {
		if at.position = int32(p); x.marked(s, class, sExc, p) {
			x.dropSupports(at, l)
		}
	}
	pl := &x.planes[planeOf(class)]
	for ref := uint32(s[sRows].Load()); ref != 0; {
		w := pl.at(ref)
		wipe(w[1:], from, capOf(class))
		ref = uint32(w[0].Load())
	}
	gone, one, reach := x.publish(at, l, s)
	if gone {
		slot.Store(0)
		at.hd[hMeta].Store(at.hd[hMeta].Load() - metaHolder)
		x.vacate(at.hd, l.id())
		x.leaveRun(l, at.hd)
	}
	x.mark(stepLower)
	if l.own() {
		x.forgetOwn(at, l, from, cnt)
	}
	at.position = int32(from)
	x.settle(at.run, l, x.bury(at, from, cnt))
	if gone {
		x.freeRefs(l, class)
		return
	}
	for p := from; p < cnt; p++ { // behind the version: readers look at the nameless
		for _, k := range []int{sExc, sNameless} {
			x.setMark(s, class, k, p, false)
		}
	}
	x.collapse(at, slot, one, reach)
}

// cutSpans takes from a holder the blocks of several units that have one of
// them in a run from a position on, wherever the others lie.
func (x *Index) cutSpans(at spot, id uint32, from int) {
	keep, ls := x.op, &x.lanes[id]
	x.op.lane, x.op.shards = id, int(ls.shards)
	for p := from; ; {
		l := x.laneIn(at.hd, id)
		if l == 0 || l.plain() || p >= capOf(at.class()) {
			break
		}
		if !x.exceptional(l, at.class(), p) {
			p++
			continue
		}
		k := x.supportsOf(id, at.run, p)
		for k != 0 && x.listed(k).span == 1 {
			k = x.listed(k).next
		}
		if k == 0 {
			p++
			continue
		}
		v := *x.listed(k)
		x.op.shard = v.shard
		end, ok := x.resolveOwn(v.name)
		if !ok || x.release(end, v.name, v.tier, true) == 0 {
			p++
		}
	}
	x.op = keep
}

// residenciesFrom counts what a holder has in a run from a position on. With TP
// shards it is about as many as the run's share of them.
func (x *Index) residenciesFrom(at spot, l lane, from int) int {
	if l.plain() {
		return max(0, l.reach()-from)
	}
	class := at.class()
	pl, s := &x.planes[planeOf(class)], x.side(l.ref())
	if x.lanes[l.id()].shards > 1 {
		top := x.rowsTop(l.ref(), class)
		return int(s[sRes].Load()) * (top - from) / top
	}
	var exc []atomic.Uint64
	if ref := uint32(s[sExc].Load()); ref != 0 {
		exc = x.plane(class, ref)
	}
	n, skip := 0, ^uint64(0)<<(from&63)
	for ref := uint32(s[sRows].Load()); ref != 0; {
		w := pl.at(ref)
		for i := from >> 6; i < len(w)-1; i++ {
			b := w[1+i].Load()
			if exc != nil {
				b &^= exc[i].Load()
			}
			if i == from>>6 {
				b &= skip
			}
			n += bits.OnesCount64(b)
		}
		ref = uint32(w[0].Load())
	}
	for p := from; exc != nil && p < capOf(class); p++ {
		if !bit(exc, p) {
			continue
		}
		for i := x.supportsOf(l.id(), at.run, p); i != 0; i = x.listed(i).next {
			if !x.listed(i).inner {
				n++
			}
		}
	}
	return n
}
