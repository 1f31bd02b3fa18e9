package tree

import "sync/atomic"

// spot is a position of a run. It is of the size that the compiler keeps in
// registers; a word more, and it would be copied through memory everywhere.
type spot struct {
	run      uint32
	position int32
	hd       []atomic.Uint64
}

func (s spot) pos() int { return int(s.position) }

// spotOf is the spot of a value of a table; spotAt that of an entry of the name
// table.
func (x *Index) spotOf(val uint64) spot {
	run := uint32(val >> 16)
	return spot{run: run, position: int32(int(val & 0xffff)), hd: x.run(run)}
}

func (x *Index) spotAt(e uint64) spot {
	run := entryRun(e)
	return spot{run: run, position: int32(entryPos(e)), hd: x.run(run)}
}

// nameOf is the shared name of the block an entry of the name table is about.
func (x *Index) nameOf(e uint64) uint64 {
	run := entryRun(e)
	return x.run(run)[hBody+capOf(classOf(run))+entryPos(e)].Load()
}

func (s spot) class() uint32 { return classOf(s.run) }

// val is the spot as a value of a table.
func (s spot) val() uint64 { return plainVal | uint64(s.run)<<16 | uint64(s.pos()) }

// before is the position in front of s, in the parent run if s is a first one;
// false at a root.
func (x *Index) before(s spot) (spot, bool) {
	if s.pos() > 0 {
		s.position--
		return s, true
	}
	link := s.hd[hLink].Load()
	parent := linkParent(link)
	if isRoot(parent) {
		return spot{}, false
	}
	return spot{run: parent, position: int32(linkOffset(link) - 1), hd: x.run(parent)}, true
}

// resolve finds the one block that the current holder's shard holds and calls
// name. Of all blocks with that name it must be one the holder has: another
// holder's equal name proves nothing. Where the name is looked up first is
// where most of the holder's names are.
func (x *Index) resolve(name uint64) (spot, bool) {
	ls := &x.lanes[x.op.lane]
	if ls.own == 0 {
		return x.resolveShared(name)
	}
	if 2*ls.own > ls.residencies {
		if at, ok := x.resolveOwn(name); ok {
			return at, true
		}
		return x.resolveShared(name)
	}
	if at, ok := x.resolveShared(name); ok {
		return at, true
	}
	return x.resolveOwn(name)
}

func (x *Index) resolveShared(name uint64) (spot, bool) {
	hash := x.names.hash(name)
	for e, i := x.names.next(hash, home(hash)); e != 0; e, i = x.names.next(hash, i) {
		if at, ok := x.means(e, name); ok {
			return at, true
		}
	}
	return spot{}, false
}

// means reports whether the current holder's shard holds the block of an entry,
// and calls it name as the run does.
func (x *Index) means(e, name uint64) (spot, bool) {
	at := x.spotAt(e)
	if sharedNames(at.hd, at.class())[at.pos()].Load() != name {
		return at, false
	}
	l := x.laneIn(at.hd, x.op.lane)
	if l == 0 {
		return at, false
	}
	return at, x.holds(l, at.class(), at.pos(), int(x.op.shard)) && !x.isOwn(l, at.class(), at.pos())
}

// resolveParent is resolve for a name that is perhaps the last of an event not
// long ago.
func (x *Index) resolveParent(name uint64) (spot, bool) {
	if e := x.recent(x.names.hash(name)); e != 0 {
		if at, ok := x.means(e, name); ok {
			return at, true
		}
	}
	return x.resolve(name)
}

func (x *Index) resolveOwn(name uint64) (spot, bool) {
	id, shard := x.op.lane, int(x.op.shard)
	tag := uint64(id)
	h := x.own.hash(name, tag)
	for v, i := x.own.next(h, h, name, tag); v != 0; v, i = x.own.next(h, i, name, tag) {
		at := x.spotOf(v & (1<<tagShift - 1))
		l := x.laneIn(at.hd, id)
		if x.exceptional(l, at.class(), at.pos()) {
			if x.supportsName(x.supportsOf(id, at.run, at.pos()), name, shard) {
				return at, true
			}
		} else if x.holds(l, at.class(), at.pos(), shard) {
			return at, true
		}
	}
	return spot{}, false
}

// maxTwins is how many blocks may share one name in the name table. Beyond it
// a name is kept under its holder, so that engines that number their blocks
// from 1 cannot make one long list of it.
const maxTwins = 4

// nameFresh gives n positions from at on, unnamed so far and held by nobody
// under a shared name, the names of the event's blocks from block on; a name
// that too many blocks bear becomes the holder's own.
func (x *Index) nameFresh(at spot, slot *atomic.Uint64, n, block int) {
	class := at.class()
	shared := sharedNames(at.hd, class)
	var own []atomic.Uint64
	if l := lane(slot.Load()); l.own() {
		own = x.ownNames(l.ref(), class)
	}
	from := at.pos()
	for i := 0; i < n; i++ {
		p, name := from+i, x.op.name(block+i)
		at.position = int32(p)
		twins := 0
		h := x.names.hash(name)
		for e, k := x.names.next(h, home(h)); e != 0; e, k = x.names.next(h, k) {
			if x.nameOf(e) == name {
				twins++
				x.markTwin(entryRun(e))
			}
		}
		if own != nil {
			own[p].Store(name)
		}
		if twins >= maxTwins {
			var l lane
			l, own = x.needNames(slot, at.hd, class)
			own[p].Store(name)
			x.setMark(x.side(l.ref()), class, sOwn, p, true)
			x.addOwnName(l.id(), name, at)
			continue
		}
		if twins > 0 {
			x.markTwin(at.run)
		}
		shared[p].Store(name)
		setNamed(at.hd, class, p, p+1)
		x.names.add(h, at.run, p)
	}
}

// nameNovel is nameFresh for names that novel found in no block.
func (x *Index) nameNovel(at spot, n, block int) {
	shared := sharedNames(at.hd, at.class())[at.pos() : at.pos()+n]
	fillUnseen(shared, x.op.pairs[block*x.op.stride:], x.op.stride)
	for i := range shared {
		if u := &x.homes[i]; x.grown == x.names.grown {
			x.names.addAt(u.hash, u.free, at.run, at.pos()+i)
		} else {
			x.names.add(u.hash, at.run, at.pos()+i)
		}
	}
	setNamed(at.hd, at.class(), at.pos(), at.pos()+n)
}

// warm fetches the places of names of blocks [i, i+n) of the event in both
// tables of names ahead of their use.
func (x *Index) warm(i, n int) {
	for end := i + n; i < end; i += maxHomes {
		m := min(end-i, maxHomes)
		for j := range m {
			x.lines[j] = x.names.line(x.names.hash(x.op.name(i + j)))
		}
		fetchLines(&x.lines[0], m)
		if x.lanes[x.op.lane].own == 0 {
			continue
		}
		touched, tag := uint64(0), uint64(x.op.lane)
		for j := range m {
			touched |= x.own.touch(x.own.hash(x.op.name(i+j), tag))
		}
		x.touched = touched
	}
}

// nameKnown gives the holder a name for a position it does not hold yet but
// that exists: the run's if it is the same, the first one if the run has none,
// else one of the holder's own.
func (x *Index) nameKnown(at spot, slot *atomic.Uint64, block int) {
	class, name := at.class(), x.op.name(block)
	if !named(at.hd, class, at.pos()) {
		x.nameFresh(at, slot, 1, block)
		return
	}
	l := lane(slot.Load())
	if sharedNames(at.hd, class)[at.pos()].Load() == name {
		if l.own() {
			x.ownNames(l.ref(), class)[at.pos()].Store(name)
		}
		return
	}
	l, own := x.needNames(slot, at.hd, class)
	own[at.pos()].Store(name)
	x.setMark(x.side(l.ref()), class, sOwn, at.pos(), true)
	x.addOwnName(l.id(), name, at)
}

// markTwin notes that some name in a run is borne by another block too, so that
// holders who share the run's names must look whether they mean that one.
func (x *Index) markTwin(run uint32) {
	hd := x.run(run)
	if m := metaOf(hd); !m.twin() {
		hd[hMeta].Store(uint64(m) | metaTwin)
	}
}
