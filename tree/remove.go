package tree

import "sync/atomic"

// Remove applies one removed event. See Writer.
func (x *Index) Remove(o Owner, names []uint64) Outcome {
	if !x.begin(o) {
		return x.op.out
	}
	if x.removals++; x.removals%mergeEvery == 0 {
		x.mergeLonely()
	}
	x.op.span, x.op.stride, x.op.pairs = 1, 1, names
	if len(names) > 1 {
		x.warm(0, len(names))
	}
	for i := 0; i < len(names); {
		at, ok := x.resolve(names[i])
		if !ok {
			if !x.withdraw(names[i]) {
				x.op.out.Unknown++
			}
			i++
			continue
		}
		slot := x.slot(at.hd, x.op.lane)
		l := lane(slot.Load())
		if lo, hi, n := x.stretch(at, l, i, len(names)); n > 0 {
			if i+n < len(names) {
				x.expect(names[i+n])
			}
			at.position = int32(lo)
			x.lower(at, slot, hi-lo, x.op.tier, x.op.shard)
			x.lost(n)
			i += n
			continue
		}
		if x.release(at, names[i], x.op.tier, false) == 0 && !x.withdraw(names[i]) {
			x.op.out.Unknown++
		}
		i++
	}
	return x.op.out
}

// expect has the place loaded where a name of the holder stands most likely, while
// what comes before it is worked on.
func (x *Index) expect(name uint64) {
	ls, h := &x.lanes[x.op.lane], x.names.hash(name)
	if ls.ownRuns == 0 || 2*ls.own.names() <= ls.residencies {
		if e, _ := x.names.first(h); e != 0 {
			run, pos := entryRun(e), entryPos(e)
			hd := x.run(run)
			x.lines[0], x.lines[1] = address(&hd[hVersion]), address(&hd[hBody+capOf(classOf(run))+pos])
			fetchLines(&x.lines[0], 2)
		}
		return
	}
	if e, _ := ls.own.first(h); e != 0 {
		l := x.laneIn(x.run(entryRun(e)), x.op.lane)
		if names := x.ownNames(l); l.own() && entryPos(e) < len(names) {
			x.lines[0] = address(&names[entryPos(e)])
			fetchLines(&x.lines[0], 1)
		}
	}
}

// stretch is how many names from i on are neighbours of a spot in its run, on
// either side, each held plainly by the holder on the event's tier and shard:
// they go by one change. n is 0 if not even the first is plain.
func (x *Index) stretch(at spot, l lane, i, end int) (lo, hi, n int) {
	class := at.class()
	if !x.plainHere(l, class, at.pos()) {
		return 0, 0, 0
	}
	lo, hi, n = at.pos(), at.pos()+1, 1
	// A name that stands beside the last one may mean a twin elsewhere; a run
	// without twins and a holder without own names leave no doubt, nor do names
	// that are the holder's own.
	if !l.own() && (metaOf(at.hd).twin() || x.lanes[x.op.lane].ownRuns > 0) {
		return lo, hi, n
	}
	cnt, names := count(at.hd[hVersion].Load()), x.namesOf(l, at.hd, class)
	switch {
	case i+1 >= end:
	case l.plain():
		return x.plainStretch(at, l, names, i, end)
	case lo > 0 && names[lo-1].Load() == x.op.name(i+1):
		for i+n < end && lo > 0 && names[lo-1].Load() == x.op.name(i+n) && x.plainHere(l, class, lo-1) && x.namedHere(at.hd, l, class, lo-1, lo) {
			lo--
			n++
		}
	default:
		for i+n < end && hi < min(cnt, len(names)) && names[hi].Load() == x.op.name(i+n) && x.plainHere(l, class, hi) && x.namedHere(at.hd, l, class, hi, hi+1) {
			hi++
			n++
		}
	}
	return lo, hi, n
}

// plainStretch is stretch for a holder that is one number here: all positions
// below its reach are alike.
func (x *Index) plainStretch(at spot, l lane, names []atomic.Uint64, i, end int) (lo, hi, n int) {
	class, pairs, stride := at.class(), x.op.pairs, x.op.stride
	lo, hi, n = at.pos(), at.pos()+1, 1
	if lo > 0 && names[lo-1].Load() == pairs[(i+1)*stride] {
		for i+n < end && lo > 0 && names[lo-1].Load() == pairs[(i+n)*stride] {
			lo--
			n++
		}
		if x.namedHere(at.hd, l, class, lo, at.pos()) {
			return lo, hi, n
		}
		return at.pos(), hi, 1
	}
	for i+n < end && hi < l.reach() && names[hi].Load() == pairs[(i+n)*stride] {
		hi++
		n++
	}
	if x.namedHere(at.hd, l, class, at.pos()+1, hi) {
		return lo, hi, n
	}
	return lo, at.pos() + 1, 1
}

// plainHere reports whether the holder has a position on the event's tier and
// shard, outside the support lists.
func (x *Index) plainHere(l lane, class uint32, pos int) bool {
	return x.holdsOn(l, class, pos, x.op.tier, x.op.shard) && !x.exceptional(l, class, pos)
}

// namedHere reports whether the names at held positions [lo, hi) are such that
// resolve would find there.
func (x *Index) namedHere(hd []atomic.Uint64, l lane, class uint32, lo, hi int) bool {
	return l.own() || allNamed(hd, class, lo, hi)
}

// release takes one copy of a name from a spot, or all of them, on tier t of
// the event's shard; returns how many it took.
func (x *Index) release(at spot, name uint64, t Tier, all bool) uint32 {
	class := at.class()
	slot := x.slot(at.hd, x.op.lane)
	l := lane(slot.Load())
	if !x.exceptional(l, class, at.pos()) {
		if !x.holdsOn(l, class, at.pos(), t, x.op.shard) || x.nameAt(l, at.hd, class, at.pos()) != name {
			return 0
		}
		x.lower(at, slot, 1, t, x.op.shard)
		x.lost(1)
		return 1
	}
	v := x.findSupport(x.supportsOf(x.op.lane, at.run, at.pos()), name, t, x.op.shard)
	if v == nil {
		return 0
	}
	n := uint32(1)
	if all || x.op.rule == Set {
		n = 0
	}
	span, last, took := int(v.span), true, uint32(0)
	for k := 0; k < span; k++ {
		prev, _ := x.before(at)
		slot := x.slot(at.hd, x.op.lane)
		l := lane(slot.Load())
		got, ended, bare := x.unsupport(at, l, name, t, x.op.shard, n)
		if last {
			took = got
			if ended {
				x.lost(1)
			}
			last = false
		}
		if bare {
			x.lower(at, slot, 1, t, x.op.shard)
		} else {
			x.republish(at, slot)
		}
		at = prev
	}
	return took
}

// republish stores the figures of a holder in a run anew after its lists have
// changed without a bit changing: the number of residencies may be another.
func (x *Index) republish(at spot, slot *atomic.Uint64) {
	l := lane(slot.Load())
	if x.op.shards > 1 && !l.plain() {
		x.publish(at, l, x.side(l.ref()))
	}
}
