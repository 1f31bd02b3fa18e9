package tree

import "sync/atomic"

// place is where the next block of a chain goes: at offset off of a run, that
// is behind its first off blocks.
type place struct {
	run uint32
	off int
}

// move is a name that came to mean another block: its copies on each tier, to
// be added at the new block.
type move struct {
	block int
	n     [NumTiers]uint32
}

// Store applies one stored event. See Writer.
func (x *Index) Store(o Owner, s *Store) Outcome {
	if !x.begin(o) {
		return x.op.out
	}
	x.op.span, x.op.stride, x.op.pairs = s.Span, 1+s.Span, s.Pairs
	if s.Span < 1 || s.Span > maxCap || len(s.Pairs)%(1+s.Span) != 0 || s.Root > MaxRoot {
		x.op.out.Reason = BadShape
		return x.op.out
	}
	n := len(s.Pairs) / x.op.stride
	if n == 0 {
		return x.op.out
	}
	if r := x.duplicates(n, s.HasParent, s.Parent); r != Accepted {
		x.op.out.Reason = r
		return x.op.out
	}
	at := place{run: rootRun(s.Root)}
	known := true
	if s.HasParent {
		// A parent that waits under a newer meaning is not the block it was.
		if p, ok := x.resolve(s.Parent); ok && x.findWaiting(s.Parent) == 0 {
			at = place{p.run, p.pos + 1}
		} else if known = s.Parent == 0 && !ok; !known && !s.KeepMeaning {
			x.wait(0, n, s.Parent)
			return x.op.out
		}
	}
	if s.KeepMeaning {
		x.keepMeaning(at, known, n, s)
	} else {
		x.chain(at, 0, n)
	}
	if x.lanes[x.op.lane].waiting > 0 {
		if !s.KeepMeaning {
			x.unwait(n)
		}
		x.attach(n)
	}
	return x.op.out
}

// duplicates looks for a name twice in the event, or the parent in it.
func (x *Index) duplicates(n int, hasParent bool, parent uint64) Reason {
	if n == 1 {
		if hasParent && x.op.name(0) == parent {
			return SelfParent
		}
		return Accepted
	}
	if hasParent {
		for i := 0; i < n; i++ {
			if x.op.name(i) == parent {
				return SelfParent
			}
		}
	}
	if n <= 512 && x.surelyDistinct(n) {
		return Accepted
	}
	size := 16
	for size < 2*n {
		size *= 2
	}
	if len(x.seen) < size {
		x.seen = make([]seenName, size)
		x.seenStamp = 0
	}
	if x.seenStamp++; x.seenStamp == 0 {
		clear(x.seen)
		x.seenStamp = 1
	}
	mask := uint64(size - 1)
	for i := 0; i < n; i++ {
		name := x.op.name(i)
		for h := mix(x.names.seed, name, 0); ; h++ {
			e := &x.seen[h&mask]
			if e.stamp != x.seenStamp {
				*e = seenName{name, x.seenStamp}
				break
			}
			if e.name == name {
				return DuplicateName
			}
		}
	}
	return Accepted
}

// surelyDistinct sets a bit for each name; if no two meet at one bit, no two
// names are equal. For events of up to some dozen blocks that is nearly always
// so, and costs a nanosecond a name.
func (x *Index) surelyDistinct(n int) bool {
	if n <= 6 {
		for i := 1; i < n; i++ {
			for k := 0; k < i; k++ {
				if x.op.name(i) == x.op.name(k) {
					return false
				}
			}
		}
		return true
	}
	var filter [128]uint64
	for i := 0; i < n; i++ {
		h := x.op.name(i) * 0x9e3779b97f4a7c15 >> 51
		b := uint64(1) << (h & 63)
		if filter[h>>6]&b != 0 {
			return false
		}
		filter[h>>6] |= b
	}
	return true
}

type seenName struct {
	name  uint64
	stamp uint32
}

// chain stores blocks [i, n) of the event from a place on.
func (x *Index) chain(at place, i, n int) {
	x.moves = x.moves[:0]
	for i < n {
		if x.op.span > 1 {
			if !x.renameSpanned(i, at) {
				at = x.holdSpanned(at, i)
				i++
			}
			continue
		}
		here, k, fresh := x.locate(at, i, n)
		if k == 0 {
			want := fresh
			fresh = min(fresh, len(x.hashes))
			novel := x.novel(i, fresh)
			if !novel && x.renames(i, fresh) {
				continue
			}
			here, k = x.extend(at, i, fresh, want)
			slot := x.laneHere(here)
			if novel && !lane(slot.Load()).own() {
				x.nameNovel(here, k, i)
			} else {
				x.nameFresh(here, slot, k, i)
			}
			x.claim(here, slot, k)
			x.gained(k)
		} else if k = x.holdKnown(here, i, k); k == 0 {
			continue // a rename: look again
		}
		at = place{here.run, here.pos + k}
		i += k
	}
	x.settleMoves()
}

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
	here = spot{run: at.run, pos: at.off, hd: hd}
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
	if at.off == cnt && x.open(hd, class) {
		return spot{}, 0, min(n-i, capOf(class)-cnt)
	}
	return spot{}, 0, n - i
}

// open reports whether a run takes more blocks at its end. A run that many
// share is closed: who goes on begins a child, so full holders stay full.
func (x *Index) open(hd []atomic.Uint64, class uint32) bool {
	return count(hd[hVersion].Load()) < capOf(class) && metaOf(hd).holders() <= inlineLanes
}

// common is how many blocks from i on lie at a spot one after the other.
func (x *Index) common(at spot, i, n int) int {
	cnt := count(at.hd[hVersion].Load())
	have := at.hd[hBody+at.pos : hBody+cnt]
	k := 0
	for k < len(have) && i+k < n && have[k].Load() == x.op.content(i+k) {
		k++
	}
	return k
}

// growClass is how large a run may be that a chain which grows by little events
// goes on in: each is twice the one before, so no more than that one's size is
// wasted.
const growClass = 7

// extend makes room for at most n blocks from i on behind a place, in the run
// itself or in a new one, with their contents and without names; they are
// there for readers, held by nobody. want, at least n, is how many will come.
func (x *Index) extend(at place, i, n, want int) (here spot, k int) {
	class := classFor(want)
	if !isRoot(at.run) {
		hd, pc := x.run(at.run), classOf(at.run)
		w0 := hd[hVersion].Load()
		if cnt := count(w0); at.off == cnt {
			if x.open(hd, pc) {
				k = min(n, capOf(pc)-cnt)
				for j := 0; j < k; j++ {
					hd[hBody+cnt+j].Store(x.op.content(i + j))
				}
				x.mark(stepAppend)
				hd[hVersion].Store(w0 + uint64(k))
				x.mark(stepAppend)
				return spot{run: at.run, pos: cnt, hd: hd}, k
			}
			// The first to go on from a full run; who parts from it there
			// gets no more than it brings.
			if cnt == capOf(pc) && !childBit(hd, pc, at.off) {
				class = max(class, min(pc+1, growClass))
			}
		}
	}
	id := x.newRun(class)
	hd := x.run(id)
	k = min(n, capOf(class))
	for j := 0; j < k; j++ {
		hd[hBody+j].Store(x.op.content(i + j))
	}
	hd[hVersion].Store(hd[hVersion].Load() + uint64(k))
	x.linkRun(id, at.run, at.off)
	return spot{run: id, hd: hd}, k
}

// holdKnown adds k blocks that exist from here on to the holder; returns how
// many it did, 0 if a name that meant another block had to be moved first.
func (x *Index) holdKnown(here spot, i, k int) int {
	class, id := here.class(), x.op.lane
	slot := x.slot(here.hd, id)
	l := lane(0)
	if slot != nil {
		l = lane(slot.Load())
	}
	if !l.own() && x.lanes[id].own == 0 && !metaOf(here.hd).twin() {
		if n := x.sameNames(here, i, k); n > 0 {
			if n = x.untouched(l, class, here.pos, n); n > 0 {
				if slot == nil {
					slot = x.newLane(here)
				}
				x.claim(here, slot, n)
				x.gained(n)
				return n
			}
		}
	}
	return x.holdSlow(here, i, k)
}

// sameNames is how many blocks have the run's shared names.
func (x *Index) sameNames(here spot, i, k int) int {
	class := here.class()
	names := sharedNames(here.hd, class)[here.pos:]
	n := 0
	for n < k && names[n].Load() == x.op.name(i+n) {
		n++
	}
	for n > 0 && !allNamed(here.hd, class, here.pos, here.pos+n) {
		n = n / 2
	}
	return n
}

// untouched is how many of n positions the holder has neither on the event's
// tier and shard nor in a support list; where the first one is not, the answer
// is 0.
func (x *Index) untouched(l lane, class uint32, pos, n int) int {
	if l.plain() {
		switch r := l.reach(); {
		case l == 0 || r <= pos:
			return n
		case l.tier() == x.op.tier:
			return 0
		default:
			return n
		}
	}
	s := x.side(l.ref())
	row := x.row(s, class, x.op.tier, x.op.shard, false)
	var exc []atomic.Uint64
	if ref := uint32(s[sExc].Load()); ref != 0 {
		exc = x.plane(class, ref)
	}
	for k := 0; k < n; k++ {
		if row != nil && bit(row, pos+k) || exc != nil && bit(exc, pos+k) {
			return k
		}
	}
	return n
}

// holdSlow is holdKnown for everything that is not plain: own names, twins,
// copies. It claims stretches the holder does not have at once.
func (x *Index) holdSlow(here spot, i, k int) int {
	class, from := here.class(), here.pos
	for done := 0; done < k; {
		here.pos = from + done
		if x.rename(i+done, here, true) {
			return done
		}
		slot := x.laneHere(here)
		l := lane(slot.Load())
		if x.holds(l, class, here.pos, -1) {
			x.holdOne(here, i+done, 1)
			done++
			continue
		}
		x.nameKnown(here, slot, i+done)
		m := 1
		for done+m < k && !x.holds(lane(slot.Load()), class, from+done+m, -1) {
			at := spot{run: here.run, pos: from + done + m, hd: here.hd}
			if _, must := x.mustRename(i+done+m, at, true); must {
				break
			}
			x.nameKnown(at, slot, i+done+m)
			m++
		}
		x.claim(here, slot, m)
		x.gained(m)
		done += m
	}
	return k
}

// mustRename reports whether the holder's shard calls another block by the name
// of the event's block i, and where that one ends. at is where the name shall
// lie, if it exists yet.
func (x *Index) mustRename(i int, at spot, exists bool) (spot, bool) {
	old, ok := x.resolve(x.op.name(i))
	if ok && exists && old.run == at.run && old.pos == at.pos {
		// The same place, but perhaps the end of a longer block till now.
		ok = x.lanes[x.op.lane].own > 0 && x.spanAt(old, x.op.name(i)) != 1
	}
	return old, ok
}

// rename looks whether block i's name means another block to the holder's
// shard, and if so takes all its copies from there: the last announcement
// decides. They are added at the new block when the event is done.
func (x *Index) rename(i int, at spot, exists bool) bool {
	old, ok := x.mustRename(i, at, exists)
	if ok {
		x.take(old, i)
	}
	return ok
}

// novel looks up the names of blocks [i, i+n), all at once, and reports whether
// none of them is in the name table, so that nothing can mean another block.
// Their hashes are left in x.hashes.
func (x *Index) novel(i, n int) bool {
	if x.lanes[x.op.lane].own > 0 {
		return false
	}
	hashes := x.hashes[:n]
	for j := range hashes {
		hashes[j] = x.names.hash(x.op.name(i+j), 0)
	}
	for j := range hashes {
		x.touched |= x.names.touch(hashes[j])
	}
	for j, h := range hashes {
		c := x.names.at(x.op.name(i+j), h)
		if c.next() != 0 {
			return false
		}
	}
	return true
}

// renames is rename for blocks [i, i+n) that do not exist yet.
func (x *Index) renames(i, n int) bool {
	any := false
	for j := i; j < i+n; j++ {
		if x.rename(j, spot{}, false) {
			any = true
		}
	}
	return any
}

// take removes every copy of block i's name from a spot, on all tiers of the
// event's shard, and notes them as a move.
func (x *Index) take(at spot, i int) {
	m := move{block: i}
	for t := Device; t < NumTiers; t++ {
		if slot := x.slot(at.hd, x.op.lane); slot == nil || linkOf(at) == 0 {
			break
		}
		m.n[t] = x.release(at, x.op.name(i), t, true)
	}
	x.op.out.Moved++
	x.moves = append(x.moves, m)
}

func linkOf(at spot) uint64 { return at.hd[hLink].Load() }

// settleMoves adds the copies of moved names at their new blocks.
func (x *Index) settleMoves() {
	if len(x.moves) == 0 {
		return
	}
	out := x.op.out
	for k := range x.moves {
		if at, ok := x.resolve(x.op.name(x.moves[k].block)); ok {
			x.addAll(at, x.moves[k].block, &x.moves[k].n)
		}
	}
	x.op.out = out
	x.moves = x.moves[:0]
}

// keepMeaning applies a store that states no extra keys: a name that is known,
// or waits, gains the tier and keeps what it means.
func (x *Index) keepMeaning(at place, known bool, n int, s *Store) {
	x.moves = x.moves[:0]
	parent := s.Parent
	for i := 0; i < n; i++ {
		name := x.op.name(i)
		if old, ok := x.resolve(name); ok {
			x.placeOne(old, i)
			at, known = place{old.run, old.pos + 1}, true
		} else if s.SkipUnknown {
			x.op.out.Unknown++
			known = false
		} else if k := x.findWaiting(name); k != 0 {
			x.addCopies(&x.waits[k].n, x.op.tier)
			x.op.out.Waiting++
			known = false
		} else if !known {
			x.wait(i, i+1, parent)
		} else if x.op.span > 1 {
			at = x.holdSpanned(at, i)
		} else {
			here, k, fresh := x.locate(at, i, i+1)
			if k == 0 {
				here, _ = x.extend(at, i, fresh, fresh)
			}
			x.holdOne(here, i, 1)
			at = place{here.run, here.pos + 1}
		}
		parent = name
	}
}

// Place adds a tier to names the owner knows. See Writer.
func (x *Index) Place(o Owner, names []uint64) Outcome {
	if !x.begin(o) {
		return x.op.out
	}
	x.op.span, x.op.stride, x.op.pairs = 1, 1, names
	for i := range names {
		if at, ok := x.resolve(names[i]); ok {
			x.placeOne(at, i)
		} else {
			x.op.out.Unknown++
		}
	}
	return x.op.out
}

// placeOne adds the event's tier to a block the holder has.
func (x *Index) placeOne(at spot, i int) {
	slot := x.slot(at.hd, x.op.lane)
	l := lane(slot.Load())
	if x.exceptional(l, at.class(), at.pos) {
		if n := x.spanAt(at, x.op.name(i)); n > 1 {
			x.op.span, n = n, x.op.span
			x.addSpanned(at, i, 1)
			x.op.span = n
			return
		}
	}
	x.holdOne(at, i, 1)
}
