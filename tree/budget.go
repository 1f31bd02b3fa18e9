package tree

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// The byte budget is hard: arenas and tables are charged before they exist,
// and what finds no room is not stored. Memory once charged is not given back,
// it is used again, so an index at its budget stays there; what keeps it open
// for news is eviction:
//
//	0 ─────────────── 7/8 ──────────── budget
//	nobody looks      tight: every store first evicts if less than 1/20 is free
//	                  in the arenas, and asks for room run by run; where there
//	                  is none, the rest of the event is refused
//
// Evicted is whole lanes, of the holder that holds most, those it was given
// first first, and of them those that nothing hangs behind; only when no such
// is left the others. Both only take away: no answer becomes too large.

// meter counts bytes of arenas and tables.
type meter struct {
	bytes int // charged
	limit int // what may be; 0: anything
	free  int // of these, cells of arenas that are not in use
}

const (
	// pieceBlocks is how many blocks a tight index takes in one go.
	pieceBlocks = 16
	// evictSteady and evictPressed are how many lanes go before a store, while
	// little is free and after something was refused.
	evictSteady  = 8
	evictPressed = 256
	// evictRound is how many lanes go before another holder is looked for.
	evictRound = 64
	// maxVictims is about how many runs of a holder are looked through together.
	maxVictims = 4096
	// minSlack is what small segments may take to grow.
	minSlack = 1 << 14
	// crowdedBelow is how many free places a segment of a table has at least
	// when a piece of work begins, or it counts as crowded.
	crowdedBelow = 4 * pieceBlocks
	// minBudget is what Options.Bytes is raised to.
	minBudget = 2 << 20
	// waitingCost is about what a waiting block takes, its places in two tables
	// included.
	waitingCost = 256
)

// budget is the state of the byte budget. The zero value has none.
type budget struct {
	limit   int // bytes; 0: none
	soft    int // beyond it the index is tight
	pressed bool
	evicted uint64
	refused uint64

	victim  uint32   // lane id
	victims []uint32 // runs it may have lanes in, oldest last
	again   []uint32 // those passed over, with something behind
	desper  bool     // and now they go too
	round   int
}

func (b *budget) init(limit int) {
	if limit > 0 {
		b.limit = max(limit, minBudget)
		b.soft = b.limit / 8 * 7
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

// tight reports whether room must be asked for.
func (x *Index) tight() bool { return x.budget.limit > 0 && x.meter.bytes > x.budget.soft }

// room reports whether so many bytes may be charged.
func (m *meter) room(n int) bool { return n <= 0 || m.limit == 0 || m.bytes+n <= m.limit }

// mayGrow reports whether a segment of a table may be made twice as large. One
// that must, being full, may: before a piece of work large ones are seen to.
func (m *meter) mayGrow(used, size, entry int) bool {
	return m.limit == 0 || used+1 >= size || m.room(2*size*entry)
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
// knows.
func (x *Index) admit(at place, here spot, k, i, fresh int, plain bool) bool {
	if !x.tight() {
		return true
	}
	switch {
	case k == 0 && !x.namesFit(i, fresh):
		return false
	case k > 0:
		if !x.staysPlain(here, i, k) && !x.sideFits(here.class(), 1) {
			return false
		}
		return x.laneIn(here.hd, x.op.lane) != 0 || x.laneFits(here.run)
	}
	plain = plain && x.op.shards == 1
	if isRoot(at.run) {
		return x.laneFits(0) && (plain || x.sideFits(classFor(x.left(i)), 1))
	}
	here = spot{run: at.run, hd: x.run(at.run)}
	if l := x.laneIn(here.hd, x.op.lane); l != 0 {
		plain = plain && l.plain() && !l.own() && l.tier() == x.op.tier && l.reach() == at.off
	}
	return x.laneFits(at.run) && (plain || x.sideFits(max(classFor(x.left(i)), min(here.class()+1, growClass)), 1) && x.sideFits(here.class(), 1))
}

// left is how many blocks of the event there are from i on.
func (x *Index) left(i int) int { return len(x.op.pairs)/x.op.stride - i }

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
		for e, at := x.names.next(h, home(h)); e != 0; e, at = x.names.next(h, at) {
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

// makeLane takes a lane of a run from the holder there that holds most, for the
// event's holder, which has none there and finds no room
// for one; true if it has, and the run may be shorter than it was.
func (x *Index) makeLane(at spot, i, k int) bool {
	if metaOf(at.hd).holders() < 2 || x.laneIn(at.hd, x.op.lane) != 0 || x.laneFits(at.run) ||
		!x.staysPlain(at, i, k) && !x.sideFits(at.class(), 1) {
		return false
	}
	outer := x.outer(at.hd)
	most, victim := 0, uint32(0)
	for i := -inlineLanes; i < len(outer); i++ {
		if l := laneAt(at.hd, outer, i); l != 0 && !x.lanes[l.id()].retired && x.lanes[l.id()].residencies > most {
			most, victim = x.lanes[l.id()].residencies, l.id()
		}
	}
	if victim == 0 {
		return false
	}
	x.evictLane(spot{run: at.run, hd: at.hd}, x.slot(at.hd, victim))
	return true
}

// sideFits reports whether there is room for what n runs of a class take where
// a holder is more than one number there.
func (x *Index) sideFits(class uint32, n int) bool {
	rows := 4 + x.op.shards*int(NumTiers)
	need := x.sides.spare(n) + x.planes[planeOf(class)].spare(n*rows)
	for c := range class + 1 {
		need += x.nameArrays[c].spare(n)
	}
	if free := len(x.supports) - 1 - x.supportsLive; free < pieceBlocks*int(NumTiers)*n {
		need += growth(len(x.supports), cap(x.supports), pieceBlocks*int(NumTiers)*n) * int(unsafe.Sizeof(support{}))
	}
	if t := &x.exceptions; t.crowded > 0 {
		need += 2 * t.largest * 16
	}
	ls, names := &x.lanes[x.op.lane], pieceBlocks*n
	if ls.ownRuns < ls.runs { // in as many runs all names may become its own
		names += min(capOf(class)*n, ls.residencies)
	}
	return x.meter.room(need + ls.own.spare(names))
}

// admitOne is admit for a block that exists, however the holder has it.
func (x *Index) admitOne(at spot) bool {
	return !x.tight() || x.laneFits(at.run) && x.sideFits(at.class(), x.op.span) && x.nameFits(x.names.hash(x.op.pairs[0]))
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
	n := hash >> nameSegment
	size := len(x.names.seg[n])
	return int(x.names.used[n])+pieceBlocks < size || x.meter.room(max(nameStart, 2*size)*8+minSlack)
}

// growth is how many elements append may add to a slice that takes n more.
func growth(length, capacity, n int) int {
	if length+n <= capacity {
		return 0
	}
	return 2*capacity + n
}

// affordable is the largest class up to the given one of which a run can be
// had, and whether there is any.
func (x *Index) affordable(class uint32) (uint32, bool) {
	if !x.tight() {
		return class, true
	}
	if x.links.crowded > 0 && !x.meter.room(2*x.links.largest*8) {
		return 0, false
	}
	for c := int(class); c >= 0; c-- {
		if x.meter.room(x.runs[c].spare(1)) {
			return uint32(c), true
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
	x.budget.pressed = true
	x.thin(x.op.lane)
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

// makeRoom evicts what a tight index must before it takes a store. It is called
// before anything of the event is looked up.
func (x *Index) makeRoom() {
	b := &x.budget
	if b.pressed && x.tight() && !x.meter.room(x.logs.spare(1)) {
		x.compactLogs()
	}
	switch {
	case !x.tight():
		return
	case b.pressed && x.meter.free < b.limit/8:
		x.evict(evictPressed)
	case x.meter.free < b.limit/20:
		x.evict(evictSteady)
	}
	b.pressed = false
}

// compactLogs takes stale entries out of all logs, for want of room for others;
// where there are too few of them, lanes go first.
func (x *Index) compactLogs() {
	for i := range x.holders {
		if id := x.holders[i].lane; id != 0 && x.lanes[id].logged > x.lanes[id].runs+logRuns {
			x.compactLog(id)
		}
	}
	if !x.meter.room(x.logs.spare(1)) {
		x.evict(evictPressed)
	}
}

// evict takes up to n lanes away.
func (x *Index) evict(n int) {
	b := &x.budget
	for n > 0 {
		if b.round >= evictRound || len(b.victims) == 0 {
			if !x.chooseVictim() {
				return
			}
		}
		for n > 0 && len(b.victims) > 0 && b.round < evictRound {
			run := b.victims[len(b.victims)-1]
			b.victims = b.victims[:len(b.victims)-1]
			at := spot{run: run, hd: x.run(run)}
			slot := x.slot(at.hd, b.victim)
			if slot == nil {
				continue
			}
			if !b.desper && metaOf(at.hd).children() > 0 {
				b.again = append(b.again, run)
				continue
			}
			x.evictLane(at, slot)
			b.round++
			n--
		}
	}
}

// chooseVictim finds the holder that holds most, and where; false if nobody
// holds anything. A holder that is still the one goes on where it was.
func (x *Index) chooseVictim() bool {
	b := &x.budget
	b.round = 0
	most, id := 0, uint32(0)
	for i := range x.holders {
		if l := x.holders[i].lane; l != 0 && x.lanes[l].runs > 0 {
			if r := max(1, x.lanes[l].residencies); r > most {
				most, id = r, l
			}
		}
	}
	if id == 0 {
		return false
	}
	if id == b.victim && len(b.victims) > 0 {
		return true
	}
	if id == b.victim && len(b.again) > 0 && !b.desper {
		b.victims, b.again, b.desper = b.again, b.victims[:0], true
		return true
	}
	b.victim, b.desper = id, false
	b.victims, b.again = b.victims[:0], b.again[:0]
	ls := &x.lanes[id]
	left := ls.logged
	for ref := ls.logHead; ref != 0 && left > 0; {
		w := x.logs.at(ref)
		for at := (left - 1) % logRuns; at >= 0; at-- {
			if len(b.victims) == 2*maxVictims { // the older half stays
				b.victims = append(b.victims[:0], b.victims[maxVictims:]...)
			}
			b.victims = append(b.victims, uint32(w[1+at/2].Load()>>(32*(at%2))))
			left--
		}
		ref = uint32(w[0].Load())
	}
	return true
}

// evictLane takes all that a holder has in a run.
func (x *Index) evictLane(at spot, slot *atomic.Uint64) {
	l := lane(slot.Load())
	ls := &x.lanes[l.id()]
	before := ls.residencies
	if ls.shards == 1 {
		ls.residencies -= x.residenciesIn(at, l)
	}
	x.dropLane(at, slot)
	x.budget.evicted += uint64(before - ls.residencies)
	x.thin(l.id())
}

// residenciesIn counts what a holder with one TP shard has in a run.
func (x *Index) residenciesIn(at spot, l lane) int {
	if l.plain() {
		return l.reach()
	}
	n, class := 0, at.class()
	pl := &x.planes[planeOf(class)]
	s := x.side(l.ref())
	var exc []atomic.Uint64
	if ref := uint32(s[sExc].Load()); ref != 0 {
		exc = x.plane(class, ref)
	}
	for ref := uint32(s[sRows].Load()); ref != 0; {
		w := pl.at(ref)
		for i := range w[1:] {
			b := w[1+i].Load()
			if exc != nil {
				b &^= exc[i].Load()
			}
			n += bits.OnesCount64(b)
		}
		ref = uint32(w[0].Load())
	}
	for p := 0; exc != nil && p < capOf(class); p++ {
		if !bit(exc, p) {
			continue
		}
		for i := x.supportsOf(l.id(), at.run, p); i != 0; i = x.supports[i].next {
			if !x.supports[i].inner {
				n++
			}
		}
	}
	return n
}

// holeFits reports whether there is room for what a hole in a plain lane takes.
func (x *Index) holeFits(class uint32) bool {
	return !x.tight() || x.meter.room(x.sides.spare(1)+x.planes[planeOf(class)].spare(1))
}

// waitFits reports whether there is room for one more block of the event that
// waits.
func (x *Index) waitFits() bool {
	if !x.tight() || x.waitFree != 0 && x.op.span == 1 {
		return true
	}
	need := growth(len(x.waits), cap(x.waits), x.op.span) * int(unsafe.Sizeof(waiting{}))
	for _, t := range []*table{&x.waitNames, &x.waitParents} {
		if t.crowded > 0 {
			need += 2 * t.largest * 16
		}
	}
	return x.meter.room(need)
}
