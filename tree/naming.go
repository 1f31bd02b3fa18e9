package tree

import "sync/atomic"

// naming is how blocks that do not exist yet will get their names.
type naming uint8

const (
	// lookedUp: each has been looked up, and means nothing. See nameSpan.
	lookedUp naming = iota
	// novel: the first is nobody's, and the run's from now on. See nameNovel.
	novel
	// strange: the first is none of the holder's, all of whose names are its own.
	// See nameStrange.
	strange
)

// naming finds out how n blocks of the event, from block i on, which do not exist
// yet and will lie behind a place, get their names, and how many of them do
// together. 0 are none: a name meant another block, and has been taken from there.
func (x *Index) naming(at place, i, n int) (naming, int) {
	if !x.ownBehind(at) {
		switch {
		case x.novel(i):
			return novel, x.strangeOwn(i, n)
		case x.renames(i, n):
			return lookedUp, 0
		}
		return lookedUp, n
	}
	x.warm(i, n)
	if ls := &x.lanes[x.op.lane]; ls.ownRuns == ls.runs {
		if e, _ := ls.own.first(x.names.hash(x.op.name(i))); e == 0 {
			return strange, n
		}
	}
	n, old, must := x.strange(i, n, spot{})
	if must {
		x.take(old, i)
	}
	return lookedUp, n
}

// name gives n positions that have just been added to a run the names of the
// event's blocks from block i on; returns how many of them are left.
func (x *Index) name(how naming, at spot, slot *atomic.Uint64, n, i int) int {
	switch how {
	case novel:
		return x.nameNovel(at, n, i)
	case strange:
		return x.nameStrange(at, slot, n, i)
	}
	x.nameSpan(at, slot, n, i)
	return n
}

// novel reports whether the name of the event's block i is no run's, and none of
// the holder's own, so that it cannot mean another block. Those behind it are most
// likely like it.
func (x *Index) novel(i int) bool {
	h := x.names.hash(x.op.name(i))
	if e, _ := x.names.first(h); e != 0 {
		return false // or only looks as if: renames will see
	}
	if own := x.lanes[x.op.lane].own; own.names() > 0 {
		e, _ := own.first(h)
		return e == 0
	}
	return true
}

// maxTwins is how many blocks may share one name in the name table. Beyond it
// a name becomes its holder's own, so that engines that number their blocks from
// 1 cannot make one long list of it.
const maxTwins = 4

// nameSpan gives n positions from at on, which the holder does not hold yet, the
// names of the event's blocks from block on. If it bears the run's names here,
// it goes on so as long as those are the same; else, and if it is private, all its
// names here become its own.
func (x *Index) nameSpan(at spot, slot *atomic.Uint64, n, block int) {
	if !lane(slot.Load()).own() && !x.lanes[x.op.lane].private() && x.shareNames(at, n, block) {
		return
	}
	x.nameOwn(at, x.makeOwn(at, slot, at.pos()+n), n, block)
}

// shareNames makes the run's names at n positions from at on those of the
// event's blocks from block on; false if they cannot be: another name stands
// there, or a name is borne by too many blocks already.
func (x *Index) shareNames(at spot, n, block int) bool {
	class, from := at.class(), at.pos()
	shared := sharedNames(at.hd, class)
	for i := 0; i < n; i++ {
		if named(at.hd, class, from+i) && shared[from+i].Load() != x.op.name(block+i) {
			return false
		}
	}
	for i := 0; i < n; i++ {
		p, name := from+i, x.op.name(block+i)
		if named(at.hd, class, p) {
			continue
		}
		twins := 0
		h := x.names.hash(name)
		for e, k := x.names.first(h); e != 0; e, k = x.names.next(h, k) {
			if x.nameOf(e) == name {
				twins++
				x.markTwin(entryRun(e))
			}
		}
		if twins >= maxTwins {
			return false
		}
		if twins > 0 {
			x.markTwin(at.run)
		}
		shared[p].Store(name)
		setNamed(at.hd, class, p, p+1)
		x.names.add(h, at.run, p)
	}
	return true
}

// nameNovel is shareNames for n positions that have just been added to a run, up to
// the first block whose name somebody knows: the look that tells so puts those that
// nobody knows into the table. It returns how many they are. The others are taken
// off the run again, for the holder may find no room for them in another way, and
// what nobody holds nobody would take away. The first name must be novel.
func (x *Index) nameNovel(at spot, n, block int) (k int) {
	class, pos := at.class(), at.pos()
	pairs, stride := x.op.pairs[block*x.op.stride:], x.op.stride
	fillUnseen(sharedNames(at.hd, class)[pos:pos+n], pairs, stride)
	for k < n {
		homes := x.homes[:min(n-k, fetchStep)]
		x.fetch(block, block+k+len(homes)+lead)
		for j := range homes {
			homes[j] = x.names.hash(pairs[(k+j)*stride])
		}
		m := x.names.addStrange(homes, at.run, pos+k)
		if k += m; m < len(homes) {
			break
		}
	}
	setNamed(at.hd, class, pos, pos+k)
	x.cutBack(at, k, n)
	return k
}

// nameStrange is nameNovel for a holder all of whose names are its own, and will be
// in a run that it may be new in.
func (x *Index) nameStrange(at spot, slot *atomic.Uint64, n, block int) (k int) {
	pos, pairs, stride := at.pos(), x.op.pairs[block*x.op.stride:], x.op.stride
	l := x.makeOwn(at, slot, pos+n)
	fillUnseen(x.ownNames(l)[pos:pos+n], pairs, stride)
	homes := x.homes[:n]
	for j := range homes {
		homes[j] = x.names.hash(pairs[j*stride])
	}
	k = x.ownTable(l.id()).addStrange(homes, at.run, pos)
	x.ownNamesLive += k
	x.cutBack(at, k, n)
	return k
}

// cutBack takes all but k of n positions that have just been added to a run off it
// again.
func (x *Index) cutBack(at spot, k, n int) {
	if k < n {
		at.hd[hVersion].Store((version(at.hd[hVersion].Load())+1)<<countBits | uint64(at.pos()+k))
		x.mark(stepVersion)
	}
}

// markTwin notes that some name in a run is borne by another block too, so that
// holders who share the run's names must look whether they mean that one.
func (x *Index) markTwin(run uint32) {
	hd := x.run(run)
	if m := metaOf(hd); !m.twin() {
		hd[hMeta].Store(uint64(m) | metaTwin)
	}
}
