package tree

import (
	"math/bits"
	"sync/atomic"
)

// The byte budget is hard: arenas and tables are charged before they exist,
// and what finds no room is not stored. What keeps a full index open for news is
// eviction, see evict.go: it makes room for more of the same kind at once, and for
// any other where it leaves a whole chunk free, see shelf.go, or a segment of a
// table nearly empty:
//
//	0 ─────────────── 7/8 ──────────── budget
//	nobody looks      tight: a store asks for room piece by piece. While less than
//	                  1/20 is free in the arenas, it has as much evicted as it
//	                  brings, and more where it finds none; what it then still
//	                  finds no room for is refused
//
// meter counts bytes of arenas and tables.
type meter struct {
	bytes int // charged
	limit int // what may be; 0: anything
	free  int // of these, cells of arenas that are not in use

	chunk    int             // words of a chunk of an arena, about
	nothing  []atomic.Uint64 // in place of chunks that arenas have given back,
	nothings int             // bytes of it, and of shorter ones that were
}

const (
	// pieceBlocks is how many blocks a tight index takes in one go.
	pieceBlocks = 16
	// minSlack is what small segments may take to grow.
	minSlack = 1 << 14
	// crowdedBelow is how many free places a segment of a table has at least
	// when a piece of work begins, or it counts as crowded.
	crowdedBelow = 4 * pieceBlocks
	// minBudget is what Options.Bytes is raised to.
	minBudget = 2 << 20
	// shareBytes is about what a block takes that only one holder has, and
	// runsOfShare how many of the largest runs a share holds.
	shareBytes  = 64
	runsOfShare = 64
	// waitingCost is about what a waiting block takes, its places in two tables
	// included.
	waitingCost = 256
)

// budget is the state of the byte budget. The zero value has none.
type budget struct {
	limit   int // bytes; 0: none
	soft    int // beyond it the index is tight
	evicted uint64
	refused uint64

	ranks ranking // of holders, by what counts for their shares

	// Of the event at hand.
	looks int  // runs it may still look at for something to evict
	loose bool // it goes on behind a block that its holder may not have
	needs int  // what the blocks at hand may need beside a lane,
	named int  // and up to where names of their run

	// behind counts, for a holder and a run, the runs that hang there in which
	// the holder is too: the holder's tails are where it is zero. Holders and
	// runs meet in it by their hash, so that it may be too large.
	behind []uint8
	seed   uint64
}

func (b *budget) init(limit int, seed uint64) {
	if limit > 0 {
		b.limit, b.seed = max(limit, minBudget), seed
		b.soft = b.limit / 8 * 7
		b.behind = make([]uint8, 1<<(bits.Len(uint(b.limit/64))-1))
	}
}

// chunkWords is how large chunks of arenas are: of some forty kinds each may
// have one that is nearly empty.
func (b *budget) chunkWords() int {
	if b.limit == 0 {
		return slabWords
	}
	return min(slabWords, 1<<(bits.Len(uint(b.limit/8/400))-1))
}

// largestRun is the class of the largest run that a holder with so many
// residencies shall begin: it is but a small part of its share, which is not
// known before the budget is full, for less than a run is given back in parts
// only. What others share costs less, so that more may be a share.
func (x *Index) largestRun(residencies int) uint32 {
	share := max(residencies, x.budget.limit/shareBytes/max(1, x.holdersLive))
	return uint32(min(classes-1, max(2, bits.Len(uint(share/runsOfShare))-3)))
}

// tight reports whether room must be asked for.
func (x *Index) tight() bool { return x.budget.limit > 0 && x.meter.bytes > x.budget.soft }

// room reports whether so many bytes may be charged.
func (m *meter) room(n int) bool { return n <= 0 || m.limit == 0 || m.bytes+n <= m.limit }

// mayGrow reports whether a segment of a table may be made twice as large: where
// room is scarce, when three quarters are used. One that must, being full, may:
// before a piece of work large ones are seen to.
func (m *meter) mayGrow(used, size, entry int) bool {
	return m.limit == 0 || used+1 >= size || (used*4 >= size*3 || m.bytes <= m.limit/8*7) && m.room(2*size*entry)
}

// crowded is 1 for a large segment that is hardly more than full, else 0;
// nowCrowded is 1 for one that the last entry has made so.
func crowded(used, size int) int {
	if size >= 4*crowdedBelow && used+crowdedBelow > size {
		return 1
	}
	return 0
}

func nowCrowded(used, size int) int {
	if size >= 4*crowdedBelow && used+crowdedBelow == size+1 {
		return 1
	}
	return 0
}

// admit reports whether there is room for the next blocks of a chain behind a
// place, a piece of them: k lie at a spot already, or, if k is 0, they go on in
// the place's run or in a new one. plain says that new ones bear names nobody
// knows: the first does, and what is admitted with it ends where that is not so.
func (x *Index) admit(at place, here spot, k, i, fresh int, plain bool) bool {
	if !x.tight() {
		return true
	}
	if k > 0 {
		return x.admitKnown(here, i, k)
	}
	if !x.namesFit(i, fresh) {
		return false
	}
	b, l := &x.budget, lane(0)
	b.needs, b.named = 0, fresh
	if !isRoot(at.run) {
		here = spot{run: at.run, position: int32(at.off), hd: x.run(at.run)}
		if l = x.laneIn(here.hd, x.op.lane); l == 0 && !x.laneFits(at.run) {
			return false
		}
		if at.off == count(here.hd[hVersion].Load()) && open(here.hd, here.class()) {
			b.named += at.off
			if l == 0 {
				b.needs |= needRows // for a hole in front of them
			}
		} else {
			l = 0 // in the run to come
		}
	}
	if !x.goesOnPlain(l, at.off) {
		b.needs |= needRows
	}
	if !plain || l.own() {
		b.needs |= needNames
	}
	return x.laneFits(0) && (isRoot(at.run) || x.meter.room(x.sideNeed(here.class())))
}

// goesOnPlain reports whether a lane that gets what lies from a position on
// needs no rows for it.
func (x *Index) goesOnPlain(l lane, pos int) bool {
	return x.op.shards == 1 && (l == 0 || l.plain() && l.tier() == x.op.tier && l.reach() == pos)
}

// admitKnown is admit for k blocks that lie at a spot already.
func (x *Index) admitKnown(here spot, i, k int) bool {
	b, l := &x.budget, x.laneIn(here.hd, x.op.lane)
	if l == 0 && !x.laneFits(here.run) {
		return false
	}
	if x.staysPlain(here, i, k) || x.op.rule == Set && x.hasNamed(here, i, k) == k {
		return true
	}
	b.needs, b.named = 0, here.pos()+k
	if !x.goesOnPlain(l, here.pos()) || l == 0 && here.pos() > 0 {
		b.needs |= needRows
	}
	if l.own() || x.lanes[x.op.lane].own.names() > 0 || metaOf(here.hd).twin() || !x.sharable(here, i, k) {
		b.needs |= needNames
	}
	if l != 0 && x.untouched(l, here.class(), here.pos(), k) < k || b.needs&needNames != 0 && !x.holdsNone(l, here, k) {
		b.needs |= needLists
	}
	return x.meter.room(x.sideNeed(here.class()))
}

// holdsNone reports whether a holder has none of k blocks in any way.
func (x *Index) holdsNone(l lane, here spot, k int) bool {
	for p := here.pos(); l != 0 && p < here.pos()+k; p++ {
		if x.holds(l, here.class(), p, -1) {
			return false
		}
	}
	return true
}

// What a holder may need in a run beside its lane: rows of bits, names of its
// own, lists and all that goes with them.
const (
	needRows = 1 << iota
	needNames
	needLists
)

// sideNeed is how many bytes what the event's blocks need beside a lane may
// charge in a run of a class.
func (x *Index) sideNeed(class uint32) (need int) {
	b := &x.budget
	if b.needs&needLists != 0 {
		return x.sideRoom(class, 1)
	}
	if b.needs&needRows != 0 {
		need = x.sides.spare(1) + x.planes[planeOf(class)].spare(2)
	}
	if b.needs&needNames != 0 {
		need += x.nameArrays[namesClass(min(b.named, capOf(class)))].spare(1) + x.ownRoom(class, 1)
	}
	return need
}

// staysPlain reports whether a holder that is given k blocks of a run needs no
// side record for them.
func (x *Index) staysPlain(here spot, i, k int) bool {
	l := x.laneIn(here.hd, x.op.lane)
	return x.op.shards == 1 && l.plain() && !l.own() && (here.pos() == l.reach() || here.pos() < l.reach() && x.op.rule == Set) && (l == 0 || l.tier() == x.op.tier) &&
		x.lanes[x.op.lane].own.names() == 0 && !metaOf(here.hd).twin() && x.sharable(here, i, k)
}

// sharable reports whether k blocks bear the run's names, or names nobody knows
// where the run has none, its blocks there being nobody's.
func (x *Index) sharable(here spot, i, k int) bool {
	class := here.class()
	names := sharedNames(here.hd, class)[here.pos():]
	for j := range k {
		name := x.op.name(i + j)
		if named(here.hd, class, here.pos()+j) {
			if names[j].Load() != name {
				return false
			}
			continue
		}
		h := x.names.hash(name)
		if !x.nameFits(h) {
			return false
		}
		for e, at := x.names.first(h); e != 0; e, at = x.names.next(h, at) {
			if x.nameOf(e) == name {
				return false
			}
		}
	}
	return true
}

// laneFits reports whether there is room for one more lane in a run, or in a
// new one if it is 0.
func (x *Index) laneFits(run uint32) bool {
	need := x.logs.spare(1)
	if run != 0 {
		hd := x.run(run)
		ref := uint32(hd[hCell].Load())
		if n := metaOf(hd).holders() + 1 - inlineLanes; n > 0 {
			if class := x.cellFor(ref, n, x.op.lane); ref == 0 || class != ref>>28 {
				need += x.cells[class].spare(1)
			}
		}
	}
	return x.meter.room(need)
}

// sideFits reports whether there is room for what n runs of a class take where
// a holder is more than one number there.
func (x *Index) sideFits(class uint32, n int) bool { return x.meter.room(x.sideRoom(class, n)) }

// sideRoom is how many bytes that may charge.
func (x *Index) sideRoom(class uint32, n int) int {
	rows := 4 + x.op.shards*int(NumTiers)
	need := x.sides.spare(n) + x.planes[planeOf(class)].spare(n*rows) + x.ownRoom(class, n)
	for c := range class + 1 {
		need += x.nameArrays[c].spare(n)
	}
	need += x.supports.spare(pieceBlocks * int(NumTiers) * n)
	if t := &x.exceptions; t.crowded > 0 {
		need += 2 * t.largest * 16
	}
	return need
}

// ownRoom is how many bytes names of the event's holder's own may charge in its
// table, for n runs of a class.
func (x *Index) ownRoom(class uint32, n int) int {
	ls, names := &x.lanes[x.op.lane], pieceBlocks*n
	if ls.ownRuns < ls.runs { // in as many runs all names may become its own
		names += min(capOf(class)*n, ls.residencies)
	}
	return ls.own.spare(names)
}

// admitOne is admit for a block that exists, however the holder has it.
func (x *Index) admitOne(at spot) bool {
	return !x.tight() || x.laneFits(at.run) && x.sideFits(at.class(), x.op.span) && x.nameFits(x.names.hash(x.op.pairs[0]))
}

// admitMore is admitOne that evicts for it. The block stays where it is.
func (x *Index) admitMore(at spot) bool {
	if x.admitOne(at) || x.makeMore(at.run) && x.admitOne(at) {
		return true
	}
	x.thin(x.op.lane)
	return false
}

// namesFit reports whether the name table has room for the names of n blocks.
func (x *Index) namesFit(i, n int) bool {
	for j := i; j < i+n; j++ {
		if !x.nameFits(x.names.hash(x.op.name(j))) {
			return false
		}
	}
	return true
}

// nameFits reports whether the segment of a hash has room for a piece of work,
// though every name of it went there.
func (x *Index) nameFits(hash uint64) bool {
	s := x.names.segment(hash)
	return s.used+pieceBlocks < s.slots() || x.meter.room(2*len(s.words)*8+minSlack)
}

// affordable is the class of which a run can be had instead of the given one,
// and whether there is any: that class, one that is free and not much too large,
// a smaller one, one that is free at all.
func (x *Index) affordable(class uint32) (uint32, bool) {
	if !x.tight() {
		return class, true
	}
	if x.links.crowded > 0 && !x.meter.room(2*x.links.largest*8) {
		return 0, false
	}
	fits := func(c uint32) bool { return x.meter.room(x.runs[c].spare(1) + x.sideNeed(c)) }
	if fits(class) {
		return class, true
	}
	for c := class + 1; c < classes && c <= class+2; c++ {
		if x.runs[c].spare(1) == 0 && fits(c) {
			return c, true
		}
	}
	for c := int(class) - 1; c >= 0; c-- {
		if fits(uint32(c)) {
			return uint32(c), true
		}
	}
	for c := class + 3; c < classes; c++ {
		if x.runs[c].spare(1) == 0 && fits(c) {
			return c, true
		}
	}
	return 0, false
}

// admitSpanned is admit for a block of several units, wherever they come to
// lie.
func (x *Index) admitSpanned() bool {
	if !x.tight() {
		return true
	}
	need := 0
	for c := range uint32(classes) {
		need += x.runs[c].spare(2)
	}
	return x.meter.room(need) && x.laneFits(0) && x.sideFits(classes-1, x.op.span)
}

// refuse gives up n blocks of the event for want of room.
func (x *Index) refuse(n int) {
	x.op.out.Refused += n
	x.budget.refused += uint64(n)
	x.thin(x.op.lane)
}

// loseCopies gives up further copies of n blocks of the event that their owner
// has: blocks that are there need no room, but each goes with its first removal.
func (x *Index) loseCopies(n int) {
	x.op.out.Known += n
	x.thin(x.op.lane)
}

// hasNamed is how many of k blocks from here on the event's owner has under the
// event's names.
func (x *Index) hasNamed(here spot, i, k int) (n int) {
	l, class, has := x.laneIn(here.hd, x.op.lane), here.class(), false
	if l == 0 {
		return 0
	}
	for ; n < k; n++ {
		p, name := here.pos()+n, x.op.name(i+n)
		if x.exceptional(l, class, p) {
			has = x.findSupport(x.supportsOf(l.id(), here.run, p), name, x.op.tier, x.op.shard) != nil
		} else {
			has = x.holdsOn(l, class, p, x.op.tier, x.op.shard) && x.nameAt(l, here.hd, class, p) == name
		}
		if !has {
			break
		}
	}
	return n
}

// thin notes that the holder of a lane has lost blocks.
func (x *Index) thin(id uint32) {
	h := Holder(x.owners[id].Load())
	w, b := &x.thinned[h&0xffff>>6], uint64(1)<<(h&63)
	if w.Load()&b == 0 {
		w.Or(b)
	}
}

// whole takes the note back: the holder begins anew.
func (x *Index) whole(h Holder) { x.thinned[h&0xffff>>6].And(^(uint64(1) << (h & 63))) }

// Thinned reports whether a holder has lost blocks for the byte budget since it
// was made, or cleared last: its depths may be too low, and what they say is
// true all the same. Any goroutine may ask.
func (x *Index) Thinned(h Holder) bool {
	return x.thinned[h&0xffff>>6].Load()>>(h&63)&1 != 0
}

// holeFits reports whether there is room for what a hole in a plain lane takes.
func (x *Index) holeFits(class uint32) bool {
	return !x.tight() || x.meter.room(x.sides.spare(1)+x.planes[planeOf(class)].spare(1))
}

// waitFits reports whether there is room for one more block of the event that
// waits.
func (x *Index) waitFits() bool {
	if !x.tight() {
		return true
	}
	need := x.waits.spare(x.op.span)
	for _, t := range []*table{&x.waitNames, &x.waitParents} {
		if t.crowded > 0 {
			need += 2 * t.largest * 16
		}
	}
	return x.meter.room(need)
}
