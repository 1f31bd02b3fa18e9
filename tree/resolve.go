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

// spotAt is the spot of an entry of the name table, or of a holder's own.
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
// holder's equal name proves nothing. In a run a holder bears the run's names or
// its own, so where it is only in runs of one kind, one look is enough; else
// the name is looked up first where most of the holder's names are.
func (x *Index) resolve(name uint64) (spot, bool) {
	ls := &x.lanes[x.op.lane]
	switch ls.ownRuns {
	case 0:
		return x.resolveShared(name)
	case ls.runs:
		return x.resolveOwn(name)
	}
	if 2*ls.own.names() > ls.residencies {
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
	for e, i := x.names.first(hash); e != 0; e, i = x.names.next(hash, i) {
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
	return at, x.holds(l, at.class(), at.pos(), int(x.op.shard)) && !l.own()
}

// resolveParent is resolve for a name that is perhaps the last of an event not
// long ago.
func (x *Index) resolveParent(name uint64) (spot, bool) {
	if e := x.recent(x.names.hash(name)); e != 0 {
		if at, ok := x.means(e, name); ok {
			return at, true
		}
		if x.lanes[x.op.lane].ownRuns > 0 {
			if at, ok := x.meansOwn(e, name); ok {
				return at, true
			}
		}
	}
	return x.resolve(name)
}

func (x *Index) resolveOwn(name uint64) (spot, bool) {
	own := x.lanes[x.op.lane].own
	if own.names() == 0 {
		return spot{}, false
	}
	h := x.names.hash(name)
	for e, i := own.first(h); e != 0; e, i = own.next(h, i) {
		if at, ok := x.meansOwn(e, name); ok {
			return at, true
		}
	}
	return spot{}, false
}

// meansOwn reports whether the current holder's shard holds the block of an entry,
// which may be out of date, and calls it by a name.
func (x *Index) meansOwn(e, name uint64) (spot, bool) {
	at, id, shard := x.spotAt(e), x.op.lane, int(x.op.shard)
	l := x.laneIn(at.hd, id)
	if x.exceptional(l, at.class(), at.pos()) {
		return at, x.supportsName(x.supportsOf(id, at.run, at.pos()), name, shard)
	}
	names := x.namesOf(l, at.hd, at.class())
	return at, at.pos() < len(names) && names[at.pos()].Load() == name && x.holds(l, at.class(), at.pos(), shard)
}

// warm fetches the places of names of blocks [i, i+n) of the event ahead of their
// use, in those tables that a look-up for the holder would ask.
func (x *Index) warm(i, n int) {
	ls := &x.lanes[x.op.lane]
	pairs, stride := x.op.pairs, x.op.stride
	if ls.ownRuns < ls.runs {
		x.names.ask(pairs[i*stride:], stride, n)
	}
	if first := max(i, x.expected); ls.own != nil && first < i+n {
		ls.own.ask(x.names.seed, pairs[first*stride:], stride, i+n-first)
	}
}
