package tree

import (
	"slices"
	"sync/atomic"
)

// Who gives way when memory is short, and with what.
//
// A holder's share is counted in residencies. Whoever has most gives way, a
// little at a time, so there is a level that sinks no further than it must: who
// wants less keeps everything, the others meet at it. News of a holder that has
// most costs what is oldest of its own; news of one that has less costs others.
//
//	residencies   █ █
//	              █ █   █   ── ── ── ── ── level
//	              █ █ ▃ █
//	              █ █ █ █ ▂
//	              A B C D E
//
// A holder loses tails: of the runs it is in, oldest first, one in which nothing
// of the holder's own hangs behind; then, if that made a tail of the run before
// it, that one. A run that holds more than the holder has to lose is cut.
//
// All of it only takes away, by the same stores that removals make: no answer
// becomes too large.

const (
	// maxLooks bounds how many runs one event looks at for something to evict.
	maxLooks = 2048
	// evictAhead is how many more residencies go than blocks come, while little is
	// free.
	evictAhead = 32
	// evictAgain is how many residencies go before a store that found no room
	// looks again, evictTries how often it does.
	evictAgain = 64
	evictTries = 8
	// minCut is what is cut from a run at least.
	minCut = 8
)

// tolerance is how much a holder with so many residencies loses at a time, less
// than one in a hundred, so that it is about that by which shares differ.
func tolerance(residencies int) int { return max(minCut, residencies/128) }

// startEvent lets the event at hand evict anew.
func (b *budget) startEvent() { b.looks, b.loose = maxLooks, false }

// behindOf is the counter of what a holder has behind a run.
func (x *Index) behindOf(id, run uint32) *uint8 {
	b := &x.budget
	return &b.behind[mix(b.seed, uint64(id), uint64(run))&uint64(len(b.behind)-1)]
}

// manyBehind is a counter that does not count any more: it stays.
const manyBehind = 1<<8 - 1

// came and went keep count of what a holder has behind the runs it is in.
func (x *Index) came(id, run uint32) {
	if x.budget.limit == 0 {
		return
	}
	if parent := linkParent(x.run(run)[hLink].Load()); !isRoot(parent) {
		if c := x.behindOf(id, parent); *c < manyBehind {
			*c++
		}
	}
}

func (x *Index) went(id uint32, hd []atomic.Uint64) {
	if x.budget.limit == 0 {
		return
	}
	if parent := linkParent(hd[hLink].Load()); !isRoot(parent) {
		if c := x.behindOf(id, parent); *c < manyBehind {
			*c--
		}
	}
}

// weight is what counts for a holder's share: at least 1 while it is anywhere,
// for holders with TP shards may have blocks that are nobody's residency.
func (x *Index) weight(holder uint32) int {
	ls := &x.lanes[x.holders[holder].lane] // the lane id of a dropped one has no runs
	if ls.runs == 0 {
		return 0
	}
	return max(1, ls.residencies)
}

// noteWeight says that a holder's weight may change.
func (x *Index) noteWeight(h Holder) {
	if x.budget.limit > 0 {
		x.budget.ranks.note(uint32(h) & 0xffff)
	}
}

// makeRoom evicts what a tight index must before it takes n new blocks, and
// reports whether it took any. guard is the run that they go on from: there the
// event's holder loses nothing, so that the place stays.
func (x *Index) makeRoom(guard uint32, n int) bool {
	b := &x.budget
	switch {
	case !x.tight() || b.loose:
		return false
	case x.meter.free >= b.limit/20:
		return false
	}
	return x.evict(guard, 2*n+evictAhead)
}

// makeMore is makeRoom for an event that found none. What lies unused goes first,
// of arenas, logs and tables, for memory of one kind may be what another is short
// of; then residencies, until what they were in comes free as a whole.
func (x *Index) makeMore(guard uint32) bool {
	if x.budget.loose {
		return false
	}
	took := x.giveBack()
	if !x.meter.room(x.logs.spare(1)) {
		took = x.compactLogs() || took
	}
	if !x.meter.room(x.lanes[x.op.lane].own.spare(pieceBlocks)) {
		took = x.trimOwn() || took
	}
	return took || x.evict(guard, evictAgain)
}

// trimOwn gives back what tables of own names have too many places, for want of
// room for others, and reports whether there were any.
func (x *Index) trimOwn() (any bool) {
	for i := range x.lanes {
		if t := x.lanes[i].own; t != nil && t.trim() {
			any = true
		}
	}
	return any
}

// compactLogs takes stale entries out of all logs, and reports whether that
// made room for others.
func (x *Index) compactLogs() bool {
	for i := range x.holders {
		if id := x.holders[i].lane; id != 0 && x.lanes[id].logged > x.lanes[id].runs+logRuns {
			x.compactLog(id)
		}
	}
	return x.meter.room(x.logs.spare(1))
}

// evict takes about n residencies from those who have most, and reports whether
// it took any. What cleared holders have left behind goes first.
func (x *Index) evict(guard uint32, n int) bool {
	b := &x.budget
	if len(x.retired) > 0 {
		// Of a large run nothing comes free before the last of it goes.
		for free := x.meter.free; x.reclaim(max(n, maxCap)) && x.meter.free <= free && b.looks > 0; b.looks-- {
		}
		return true
	}
	own := x.owners[x.op.lane].Load() & 0xffff
	b.ranks.note(own)
	b.ranks.refresh(len(x.holders), x.weight)
	b.ranks.note(own) // the event goes on
	took := 0
	for took < n && b.looks > 0 {
		h, most := b.ranks.first()
		if most == 0 {
			break
		}
		got := x.giveWay(h, guard, most-tolerance(most), n-took)
		if took += got; got > 0 {
			b.ranks.set(h, x.weight(h))
			continue
		}
		if h == own {
			break // it has most, and nothing that it could lose for more
		}
		b.ranks.set(h, 0) // nothing of it may go
		b.ranks.note(h)
	}
	return took > 0
}

// giveWay takes about n residencies from a holder, down to a level, and returns
// how many went, 0 if it has nothing that may go.
func (x *Index) giveWay(holder, guard uint32, level, n int) (took int) {
	b, id := &x.budget, x.holders[holder].lane
	ls, keep := &x.lanes[id], uint32(0)
	if id == x.op.lane {
		keep = guard
	}
	c := cutting{holder: holder, keep: keep, level: level}
	for passed := 0; took < n && ls.logged > 0 && x.weight(holder) > level && b.looks > 0; b.looks-- {
		c.n = n - took
		if run := ls.tail; run != 0 {
			ls.tail = 0
			if at := (spot{run: run, hd: x.run(run)}); x.laneIn(at.hd, id) != 0 && *x.behindOf(id, run) == 0 {
				got, _ := x.shorten(at, id, false, c)
				took += got
			}
			continue
		}
		run := x.atHand(ls)
		if run == 0 {
			x.strike(ls)
			continue
		}
		at := spot{run: run, hd: x.run(run)}
		if x.laneIn(at.hd, id) == 0 {
			x.strike(ls)
			continue
		}
		got, gone := x.shorten(at, id, *x.behindOf(id, run) > 0, c)
		if took += got; got > 0 {
			passed = 0
		}
		switch {
		case gone:
			x.strike(ls)
		case got > 0: // there may be more to lose here
		default:
			x.passHand(ls)
			passed++
		}
		if passed <= ls.logged {
			continue
		}
		if keep != 0 {
			break // all that is left is what the event goes on from
		}
		// The counts are too large: look which run it is.
		ok := false
		if at, ok = x.findTail(id); !ok {
			break
		}
		got, _ = x.shorten(at, id, false, c)
		took, passed = took+got, 0
	}
	return took
}

// cutting is what a holder is to lose.
type cutting struct {
	holder uint32
	keep   uint32 // a run that it stays in
	level  int
	n      int
}

// shorten takes from a holder above the level what it has in a run, all of it
// or as much as is above, and what it has in the run before if that is a tail
// then, and so on until n have gone; behind says that something of its own hangs
// here. It returns how much went, and whether all of it did here. A tail that
// it leaves is what goes next.
func (x *Index) shorten(at spot, id uint32, behind bool, c cutting) (took int, gone bool) {
	for at.run != c.keep {
		l, floor := x.laneIn(at.hd, id), 0
		if behind {
			floor = lastChild(at.hd, at.class())
		}
		top := l.reach()
		if !l.plain() {
			top = x.rowsTop(l.ref(), at.class())
		}
		over := x.weight(c.holder) - c.level
		if floor >= top {
			break
		}
		if over <= 0 || took >= c.n {
			x.lanes[id].tail = at.run
			break
		}
		from := floor
		if here := x.residenciesFrom(at, l, floor); here > over+tolerance(c.level) {
			from = max(floor, top-max(minCut, (top-floor)*over/here))
		}
		parent := linkParent(at.hd[hLink].Load())
		if took += x.cut(at, id, from); from > 0 {
			if !behind {
				x.lanes[id].tail = at.run
			}
			break
		}
		if gone = true; isRoot(parent) {
			break
		}
		at = spot{run: parent, hd: x.run(parent)}
		if x.laneIn(at.hd, id) == 0 || *x.behindOf(id, parent) > 0 {
			break
		}
	}
	return took, gone
}

// findTail finds the oldest run of a holder in which nothing of its own hangs
// behind, by looking at all.
func (x *Index) findTail(id uint32) (at spot, ok bool) {
	x.compactLog(id)
	x.budget.looks = max(1, x.budget.looks-len(x.logScratch)) // the caller takes one
	runs, inner := x.logScratch, x.logAges[:0]
	for _, run := range runs {
		inner = append(inner, uint64(linkParent(x.run(run)[hLink].Load())))
	}
	slices.Sort(inner)
	x.logAges = inner
	for _, run := range runs {
		if _, ok := slices.BinarySearch(inner, uint64(run)); !ok {
			return spot{run: run, hd: x.run(run)}, true
		}
	}
	return spot{}, false
}

// makeLane makes room for the event's holder in a run where it has none, by
// taking it from who has most of those there, if that is more than the holder
// has; it reports whether it did, and the run may be shorter than it was.
func (x *Index) makeLane(at spot, i, k int) bool {
	if metaOf(at.hd).holders() < 2 || x.laneIn(at.hd, x.op.lane) != 0 || x.laneFits(at.run) ||
		!x.staysPlain(at, i, k) && !x.sideFits(at.class(), 1) {
		return false
	}
	outer := x.outer(at.hd)
	most, victim := x.lanes[x.op.lane].residencies, uint32(0)
	for i := -inlineLanes; i < len(outer); i++ {
		if l := laneAt(at.hd, outer, i); l != 0 && !x.lanes[l.id()].retired && x.lanes[l.id()].residencies > most {
			most, victim = x.lanes[l.id()].residencies, l.id()
		}
	}
	if victim == 0 {
		return false
	}
	x.cut(spot{run: at.run, hd: at.hd}, victim, 0)
	x.noteWeight(Holder(x.owners[victim].Load()))
	return true
}
