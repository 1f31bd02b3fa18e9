package tree

import (
	"math/bits"
	"sync/atomic"
)

// In a run a holder bears the run's names, or names of its own: an array of
// them, and an entry in its table of own names for each position it holds. It
// begins with the run's, unless it is private, and never goes back from its own:
// engines that name blocks in another way than those before them do so everywhere.

// namesRef says where a holder's own names of a run are, whose lane says that it
// has them: the size class of the array on top, as in the id of a run.
func (x *Index) namesRef(l lane) uint32 {
	if l.plain() {
		return l.ref()
	}
	return uint32(x.side(l.ref())[sNames].Load())
}

// ownNames are those names, as far as the holder holds blocks, and not always
// further. Any goroutine may ask; a reader that is late may find too few.
func (x *Index) ownNames(l lane) []atomic.Uint64 { return x.namesAt(x.namesRef(l)) }

func (x *Index) namesAt(ref uint32) []atomic.Uint64 {
	if ref == 0 {
		return nil
	}
	return x.nameArrays[ref>>28].at(ref & (1<<28 - 1))
}

// newNames makes an array for n names at least.
func (x *Index) newNames(n int) uint32 {
	class := namesClass(n)
	return class<<28 | x.nameArrays[class].alloc()
}

// namesClass is the class of an array that n names need.
func namesClass(n int) uint32 { return uint32(max(0, bits.Len(uint(n-1))-2)) }

func (x *Index) freeNames(ref uint32) { x.nameArrays[ref>>28].release(ref & (1<<28 - 1)) }

// makeOwn makes the names of a holder in a run its own, at first the same, with
// room for those up to a position, end, that come next.
func (x *Index) makeOwn(at spot, slot *atomic.Uint64, end int) lane {
	l, class := lane(slot.Load()), at.class()
	if l.own() {
		return x.roomForNames(at, slot, end)
	}
	held := l.reach()
	if !l.plain() {
		held = x.rowsTop(l.ref(), class)
	}
	ref := x.newNames(max(held, end))
	names := x.namesAt(ref)
	copyUnseen(names, sharedNames(at.hd, class)[:held])
	if l.plain() {
		l |= lane(ref) << 32
	} else {
		x.side(l.ref())[sNames].Store(uint64(ref))
	}
	l |= laneOwn
	slot.Store(uint64(l))
	x.mark(stepNames)
	x.lanes[l.id()].ownRuns++
	for p := range held {
		at.position = int32(p)
		switch {
		case x.exceptional(l, class, p):
			for i := x.supportsOf(l.id(), at.run, p); i != 0; i = x.listed(i).next {
				if v := x.listed(i); !v.inner && !x.supportsName(v.next, v.name, -1) {
					x.addOwnName(l.id(), v.name, at)
				}
			}
		case x.holds(l, class, p, -1):
			x.addOwnName(l.id(), names[p].Load(), at)
		}
	}
	return l
}

// roomForNames gives a holder that has its own names in a run a longer array, if
// they do not reach to a position, end. The old one is free when the version has
// moved.
func (x *Index) roomForNames(at spot, slot *atomic.Uint64, end int) lane {
	l := lane(slot.Load())
	old := x.ownNames(l)
	if end <= len(old) {
		return l
	}
	was, ref := x.namesRef(l), x.newNames(end)
	copyUnseen(x.namesAt(ref), old)
	if l.plain() {
		l = l&^laneRef | lane(ref)<<32
		slot.Store(uint64(l))
	} else {
		x.side(l.ref())[sNames].Store(uint64(ref))
	}
	x.mark(stepNames)
	at.hd[hVersion].Store(at.hd[hVersion].Load() + version1)
	x.mark(stepVersion)
	x.freeNames(was)
	return l
}

// expectOwn has the lines of the holder's table loaded that a store of n blocks
// will look at first, while it looks at other things.
func (x *Index) expectOwn(n int, hasParent bool, parent uint64) {
	own := x.lanes[x.op.lane].own
	if own.names() == 0 {
		return
	}
	if hasParent {
		own.ask(x.names.seed, []uint64{parent}, 1, 1)
	}
	x.expected = min(n, lead-1)
	own.ask(x.names.seed, x.op.pairs, x.op.stride, x.expected)
}

// ownBehind reports whether blocks that go on behind a place, and do not exist yet,
// will have names of the holder's own.
func (x *Index) ownBehind(at place) bool {
	ls := &x.lanes[x.op.lane]
	if ls.ownRuns == 0 || ls.private() || isRoot(at.run) {
		return ls.private()
	}
	hd := x.run(at.run)
	if at.off < count(hd[hVersion].Load()) || !open(hd, classOf(at.run)) {
		return false
	}
	return x.laneIn(hd, x.op.lane).own()
}

const (
	kinFirst = 16 // runs that a private holder looks for its like in, at first,
	kinEvery = 16 // and later only in one of so many
)

// meetsKin notes whether a private holder, which has come to a spot, shares the name
// that it calls it by with another: then there are engines like its own, and it had
// better share the names of runs with them. While a fleet is upgraded that is so: the
// first few engines of the new kind find nearly all runs named by those of the old.
func (x *Index) meetsKin(at spot, name uint64) bool {
	ls := &x.lanes[x.op.lane]
	if ls.met++; ls.met == 0 {
		ls.met = kinFirst // it has been round
	}
	if ls.met > kinFirst && ls.met%kinEvery != 0 {
		return false
	}
	for i := hLane; i < hLane+inlineLanes; i++ {
		l := lane(at.hd[i].Load())
		if l == 0 || x.lanes[l.id()].retired || !x.holds(l, at.class(), at.pos(), -1) || x.exceptional(l, at.class(), at.pos()) {
			continue
		}
		if x.nameAt(l, at.hd, at.class(), at.pos()) == name {
			ls.kin = true
			return true
		}
	}
	return false
}

// ownParent has a private holder's names be its own in a run behind one of whose
// blocks it goes on, where they are the run's: from before it was private, and
// perhaps for as long as it lives.
func (x *Index) ownParent(at spot) {
	ls := &x.lanes[x.op.lane]
	if ls.ownRuns == ls.runs || !ls.private() || x.tight() {
		return
	}
	if slot := x.slot(at.hd, x.op.lane); !lane(slot.Load()).own() {
		x.makeOwn(at, slot, 0)
	}
}

// nameOwn gives n positions from at on, which the holder does not hold yet, the
// names of the event's blocks from block on as its own.
func (x *Index) nameOwn(at spot, l lane, n, block int) {
	names, pairs := x.ownNames(l)[at.pos():at.pos()+n], x.op.pairs[block*x.op.stride:]
	fillUnseen(names, pairs, x.op.stride)
	own := x.ownTable(l.id())
	for i := 0; i < n; {
		homes := x.homes[:min(n-i, maxHomes)]
		for j := range homes {
			homes[j] = x.names.hash(pairs[(i+j)*x.op.stride])
		}
		own.addAll(homes, at.run, at.pos()+i)
		i += len(homes)
	}
	x.ownNamesLive += n
}

// holdOwn adds blocks that exist to a holder under names of its own, as many from
// the first on as it holds nothing of yet and whose names mean nothing to it;
// returns how many, 0 if a closer look is needed. One line of the holder's table
// tells that a name is strange, and has room for it.
func (x *Index) holdOwn(here spot, slot *atomic.Uint64, i, k int) int {
	ls, pos := &x.lanes[x.op.lane], here.pos()
	switch {
	case ls.ownRuns == 0:
		return 0
	case slot == nil:
		if !ls.private() || x.meetsKin(here, x.op.name(i)) {
			if !named(here.hd, here.class(), pos) || sharedNames(here.hd, here.class())[pos].Load() == x.op.name(i) {
				return 0 // perhaps the run's names are the holder's here
			}
		}
	default:
		if l := lane(slot.Load()); !l.plain() || !l.own() || l.reach() > pos {
			return 0
		}
	}
	pairs, stride := x.op.pairs[i*x.op.stride:], x.op.stride
	if ls.ownRuns < ls.runs {
		if k, _, _ = x.strangeShared(i, k); k == 0 {
			return 0
		}
	}
	homes := x.homes[:k]
	for j := range homes {
		homes[j] = x.names.hash(pairs[j*stride])
	}
	n := x.ownTable(x.op.lane).addStrange(homes, here.run, pos)
	if n == 0 {
		return 0
	}
	x.ownNamesLive += n
	if slot == nil {
		slot = x.newLane(here)
	}
	l := x.makeOwn(here, slot, pos+n)
	fillUnseen(x.ownNames(l)[pos:pos+n], pairs, stride)
	x.claim(here, slot, n)
	x.gained(n)
	return n
}

// unname takes the own names of positions that the holder does not hold any
// more, whatever it held of them before, out of its table.
func (x *Index) unname(at spot, l lane, gone bool, lo, hi int) {
	if gone || l.plain() && l.reach() <= lo {
		x.forgetOwn(at, l, lo, hi)
		return
	}
	class := at.class()
	for lo < hi {
		for ; lo < hi && x.holds(l, class, lo, -1); lo++ {
		}
		end := lo
		for ; end < hi && !x.holds(l, class, end, -1); end++ {
		}
		x.forgetOwn(at, l, lo, end)
		lo = end
	}
}

// forgetOwn takes what names there are at positions [lo, hi) out of the
// holder's table; those of a position with a list have gone with the list.
func (x *Index) forgetOwn(at spot, l lane, lo, hi int) {
	own := x.lanes[l.id()].own
	if own == nil || lo == hi {
		return // the holder's id is retired, and its table gone
	}
	names, was := x.ownNames(l), own.live
	for hi = min(hi, len(names)); lo < hi; {
		homes := x.homes[:min(hi-lo, maxHomes)]
		for i := range homes {
			homes[i] = x.names.hash(names[lo+i].Load())
		}
		own.removeAll(homes, at.run, lo)
		lo += len(homes)
	}
	x.ownNamesLive += own.live - was
	x.tidyOwn(l.id())
}

// strange is how many blocks from i on have names that mean nothing to the
// holder's shard. If the first has one that means another block than the one at
// a spot, must is true and old is where that one ends.
func (x *Index) strange(i, n int, at spot) (k int, old spot, must bool) {
	ls := &x.lanes[x.op.lane]
	if k = n; ls.ownRuns > 0 {
		k = x.strangeOwn(i, n)
	}
	if ls.ownRuns < ls.runs {
		k, old, must = x.strangeShared(i, k)
	}
	if k > 0 {
		return k, spot{}, false
	}
	if !must {
		if old, must = x.resolve(x.op.name(i)); !must {
			return 1, old, false
		}
	}
	if old.run == at.run && old.pos() == at.pos() {
		// The same place, but perhaps the end of a longer block till now.
		must = ls.ownRuns > 0 && x.spanAt(old, x.op.name(i)) != 1
	}
	return 0, old, must
}

// strangeOwn is how many names of blocks [i, i+n), at most maxHomes, are surely
// not in the holder's table of own names.
func (x *Index) strangeOwn(i, n int) int {
	own, pairs, stride := x.lanes[x.op.lane].own, x.op.pairs[i*x.op.stride:], x.op.stride
	if own == nil {
		return n
	}
	homes := x.homes[:n]
	for j := range homes {
		homes[j] = x.names.hash(pairs[j*stride])
	}
	for _, j := range x.suspects[:own.suspects(x.suspects[:], homes)] {
		if e, _ := own.first(homes[j]); e != 0 {
			return int(j)
		}
	}
	return n
}

// strangeShared is how many of blocks [i, i+n), at most maxHomes, have names by
// which the holder's shard calls no block in runs whose names it shares. Where the
// first is one, old is the block that has it.
func (x *Index) strangeShared(i, n int) (k int, old spot, first bool) {
	homes, pairs, stride := x.homes[:n], x.op.pairs[i*x.op.stride:], x.op.stride
	for j := range homes {
		homes[j] = x.names.hash(pairs[j*stride])
	}
	for _, j := range x.suspects[:x.names.suspects(x.suspects[:], homes)] {
		if e, _ := x.names.first(homes[j]); e == 0 {
			continue
		}
		if at, ok := x.resolveShared(x.op.name(i + int(j))); ok {
			return int(j), at, j == 0
		}
	}
	return n, spot{}, false
}

// addOwnName notes that a holder calls a block by a name of its own.
func (x *Index) addOwnName(id uint32, name uint64, at spot) {
	x.ownTable(id).add(x.names.hash(name), at.run, at.pos())
	x.ownNamesLive++
}

// dropOwnName takes that back.
func (x *Index) dropOwnName(id uint32, name uint64, at spot) {
	if own := x.lanes[id].own; own != nil && own.remove(x.names.hash(name), at.run, at.pos()) {
		x.ownNamesLive--
		x.tidyOwn(id)
	}
}

// ownTable is the table of a holder's own names, made if needed.
func (x *Index) ownTable(id uint32) *ownTable {
	ls := &x.lanes[id]
	if ls.own == nil {
		ls.own = &ownTable{meter: &x.meter}
	}
	return ls.own
}

// tidyOwn gives a table without names back, if it is more than a small one that
// the next event may want again.
func (x *Index) tidyOwn(id uint32) {
	if t := x.lanes[id].own; t.live == 0 && (t.cut != nil || len(t.whole.words) > ownKept*lineWords) {
		x.dropOwnNames(id)
	}
}

// dropOwnNames forgets all that a holder calls by names of its own: nobody asks
// for them any more.
func (x *Index) dropOwnNames(id uint32) {
	if t := x.lanes[id].own; t != nil {
		x.ownNamesLive -= t.live
		x.meter.bytes -= t.bytes()
		x.lanes[id].own = nil
	}
}
