package tree

import "sync/atomic"

// locate finds the blocks from i on at a place: k of them lie from here on; or
// none, k = 0, and fresh says how many may be put there at once.
func (x *Index) locate(at place, i, n int) (here spot, k, fresh int) {
	c := x.op.content(i)
	if isRoot(at.run) {
		if id := x.find(at.run, 0, c); id != 0 {
			here = spot{run: id, hd: x.run(id)}
			return here, x.common(here, i, n), 0
		}
		return spot{}, 0, n - i
	}
	hd, class := x.run(at.run), classOf(at.run)
	cnt := count(hd[hVersion].Load())
	here = spot{run: at.run, position: int32(at.off), hd: hd}
	if at.off < cnt {
		if k = x.common(here, i, n); k > 0 {
			return here, k, 0
		}
	}
	if childBit(hd, class, at.off) {
		if id := x.find(at.run, at.off, c); id != 0 {
			here = spot{run: id, hd: x.run(id)}
			return here, x.common(here, i, n), 0
		}
	}
	if at.off == cnt && open(hd, class) {
		return spot{}, 0, min(n-i, capOf(class)-cnt)
	}
	return spot{}, 0, n - i
}

// open reports whether a run takes more blocks at its end. Who shares it does
// not matter: engines that bring one long prompt in turns fill the same runs.
func open(hd []atomic.Uint64, class uint32) bool {
	return count(hd[hVersion].Load()) < capOf(class)
}

// common is how many blocks from i on lie at a spot one after the other.
func (x *Index) common(at spot, i, n int) int {
	cnt := count(at.hd[hVersion].Load())
	have := at.hd[hBody+at.pos() : hBody+cnt]
	k := 0
	for k < len(have) && i+k < n && have[k].Load() == x.op.content(i+k) {
		k++
	}
	return k
}

// growClass is how large a run may be that a chain which grows by little events
// goes on in: two of each size, then two that are twice as large, so that a long
// chain has few runs and the last one wastes no more than a part of the others.
const growClass = 7

// growsTo is the class of the run in which a chain goes on behind a full one.
func growsTo(hd []atomic.Uint64, class uint32) uint32 {
	if p := linkParent(hd[hLink].Load()); !isRoot(p) && classOf(p) >= class {
		class++
	}
	return min(class, growClass)
}

// extend makes room for at most n blocks from i on behind a place, in the run
// itself or in a new one, with their contents and without names; they are
// there for readers, held by nobody. want, at least n, is how many will come.
// k is 0 if there is no room for a run.
func (x *Index) extend(at place, i, n, want int) (here spot, k int) {
	class := classFor(want)
	if !isRoot(at.run) {
		hd, pc := x.run(at.run), classOf(at.run)
		w0 := hd[hVersion].Load()
		if cnt := count(w0); at.off == cnt {
			if open(hd, pc) {
				k = min(n, capOf(pc)-cnt)
				fillUnseen(hd[hBody+cnt:hBody+cnt+k], x.op.pairs[i*x.op.stride+1:], x.op.stride)
				x.mark(stepAppend)
				hd[hVersion].Store(w0 + uint64(k))
				x.mark(stepAppend)
				return spot{run: at.run, position: int32(cnt), hd: hd}, k
			}
			// The first to go on from a full run; who parts from it there
			// gets no more than it brings.
			if cnt == capOf(pc) && !childBit(hd, pc, at.off) {
				class = max(class, growsTo(hd, pc))
			}
		}
	}
	if x.budget.limit > 0 {
		class = min(class, x.largestRun(x.lanes[x.op.lane].residencies))
	}
	class, ok := x.affordable(class)
	if !ok {
		return spot{}, 0
	}
	id := x.newRun(class)
	hd := x.run(id)
	k = min(n, capOf(class))
	fillUnseen(hd[hBody:hBody+k], x.op.pairs[i*x.op.stride+1:], x.op.stride)
	hd[hVersion].Store(hd[hVersion].Load() + uint64(k))
	x.linkRun(id, at.run, at.off)
	return spot{run: id, hd: hd}, k
}

// appendOne stores an event of one block, behind a parent that its owner holds,
// if that is as plain as decoding nearly always is: the parent is the last of
// its run and of all the owner has there, the run has room, nothing goes on from
// there yet, and the name is new. It is what chain would do; false, and nothing
// done, if chain must look.
func (x *Index) appendOne(parent spot) bool {
	hd, class, pos := parent.hd, parent.class(), parent.pos()+1
	w0, ls := hd[hVersion].Load(), &x.lanes[x.op.lane]
	if count(w0) != pos || pos == capOf(class) || x.op.span > 1 || x.op.shards > 1 || ls.waiting > 0 || x.tight() {
		return false
	}
	slot, dense := x.findLane(hd, x.op.lane)
	l := lane(slot.Load())
	if !l.plain() || l.reach() != pos || l.tier() != x.op.tier || childBit(hd, class, pos) {
		return false
	}
	name := x.op.name(0)
	h := x.names.hash(name)
	switch {
	case ls.own.names() == 0:
		if !x.unknown(h, name) {
			return false
		}
	case l.own() && ls.ownRuns == ls.runs:
		if e, _ := ls.own.first(h); e != 0 {
			return false
		}
	default:
		return false
	}
	if dense != 0 {
		x.ungroup(hd, dense, x.op.lane)
	}
	if l.own() {
		l = x.roomForNames(parent, slot, pos+1)
	}
	fillUnseen(hd[hBody+pos:hBody+pos+1], x.op.pairs[1:], 1)
	x.mark(stepAppend)
	hd[hVersion].Store(hd[hVersion].Load() + 1)
	x.mark(stepAppend)
	if l.own() {
		fillUnseen(x.ownNames(l)[pos:pos+1], x.op.pairs, 1)
		ls.own.add(h, parent.run, pos)
		x.ownNamesLive++
	} else {
		fillUnseen(sharedNames(hd, class)[pos:pos+1], x.op.pairs, 1)
		setNamed(hd, class, pos, pos+1)
		x.names.add(h, parent.run, pos)
	}
	slot.Store(uint64(l.withReach(pos + 1)))
	x.mark(stepRaise)
	x.gained(1)
	x.remember(name, parent.run, pos)
	return true
}

// unknown reports whether no block's shared name is the one with a hash.
func (x *Index) unknown(h, name uint64) bool {
	for e, i := x.names.first(h); e != 0; e, i = x.names.next(h, i) {
		if x.nameOf(e) == name {
			return false
		}
	}
	return true
}
