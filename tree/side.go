package tree

import (
	"math/bits"
	"sync/atomic"
)

// A side record carries what one word cannot: a holder that lies on several
// tiers of a run, has holes in it, has TP shards, or several copies. Readers
// see the first two words, the names and the mark of positions without one; the
// rest is the writer's arithmetic.
//
//	s0  device 16, any 16, device∪host 16         leading blocks per view
//	s1  device 16, host 16, extension end 16
//	s2  names: the holder's own names of the run's positions, if it has them
//	s3  rows: one plane of bits per (tier, TP shard) that holds anything
//	s4  exceptional: positions whose residencies are in the support lists
//	s5  nameless: positions without one name that is true in every view
//	s6  residencies, kept for holders with TP shards
const (
	sView = iota
	sExt
	sNames
	sRows
	sExc
	sNameless
	sRes
	sideWords = 8 // a line
)

func (x *Index) side(ref uint32) []atomic.Uint64 { return x.sides.at(ref) }

// plane returns the bits of a plane of a run's class.
func (x *Index) plane(class, ref uint32) []atomic.Uint64 {
	return x.planes[planeOf(class)].at(ref)[1:]
}

// newPlane makes an empty plane; its head word is the caller's.
func (x *Index) newPlane(class uint32, head uint64) uint32 {
	ref := x.planes[planeOf(class)].alloc()
	w := x.planes[planeOf(class)].at(ref)
	w[0].Store(head)
	for i := range w[1:] {
		w[1+i].Store(0)
	}
	return ref
}

func (x *Index) freePlane(class, ref uint32) {
	if ref != 0 {
		x.planes[planeOf(class)].release(ref)
	}
}

// A row's head: next row 32, tier 8, shard 8.
func rowHead(next uint32, t Tier, shard uint8) uint64 {
	return uint64(next) | uint64(t)<<32 | uint64(shard)<<40
}

func rowTier(head uint64) Tier   { return Tier(head >> 32) }
func rowShard(head uint64) uint8 { return uint8(head >> 40) }

// row finds the bits of (tier, shard), making them if asked to; nil if none.
func (x *Index) row(s []atomic.Uint64, class uint32, t Tier, shard uint8, create bool) []atomic.Uint64 {
	pl := &x.planes[planeOf(class)]
	first := uint32(s[sRows].Load())
	for ref := first; ref != 0; {
		w := pl.at(ref)
		head := w[0].Load()
		if rowTier(head) == t && rowShard(head) == shard {
			return w[1:]
		}
		ref = uint32(head)
	}
	if !create {
		return nil
	}
	ref := x.newPlane(class, rowHead(first, t, shard))
	s[sRows].Store(uint64(ref))
	return pl.at(ref)[1:]
}

func (x *Index) freeRows(s []atomic.Uint64, class uint32) {
	pl := &x.planes[planeOf(class)]
	for ref := uint32(s[sRows].Load()); ref != 0; {
		next := uint32(pl.at(ref)[0].Load())
		pl.release(ref)
		ref = next
	}
	s[sRows].Store(0)
}

func (x *Index) rowsTop(ref, class uint32) int {
	pl, top := &x.planes[planeOf(class)], 0
	for ref := uint32(x.side(ref)[sRows].Load()); ref != 0; {
		w := pl.at(ref)
		for i := len(w) - 1; i > 0; i-- {
			if b := w[i].Load(); b != 0 {
				top = max(top, (i-1)<<6+bits.Len64(b))
				break
			}
		}
		ref = uint32(w[0].Load())
	}
	return top
}

func (x *Index) rowsClear(ref, class uint32, dead *bitmap) {
	pl := &x.planes[planeOf(class)]
	for ref := uint32(x.side(ref)[sRows].Load()); ref != 0; {
		w := pl.at(ref)
		for i := range w[1:] {
			dead[i] &^= w[1+i].Load()
		}
		ref = uint32(w[0].Load())
	}
}

// bit and setBit look at one position of a plane's bits.
func bit(w []atomic.Uint64, pos int) bool { return w[pos>>6].Load()>>(pos&63)&1 != 0 }

func setBit(w []atomic.Uint64, pos int, on bool) {
	p := &w[pos>>6]
	if on {
		p.Store(p.Load() | 1<<(pos&63))
	} else {
		p.Store(p.Load() &^ (1 << (pos & 63)))
	}
}

// anyBit reports whether any position of [lo, hi) is set.
func anyBit(w []atomic.Uint64, lo, hi int) bool {
	for p := lo; p < hi; {
		end := min(hi, (p|63)+1)
		if w[p>>6].Load()>>(p&63)<<(64-(end-p)) != 0 {
			return true
		}
		p = end
	}
	return false
}

// marked reports whether position pos is set in the plane that word k of the
// side record names, false without a plane.
func (x *Index) marked(s []atomic.Uint64, class uint32, k, pos int) bool {
	ref := uint32(s[k].Load())
	return ref != 0 && bit(x.plane(class, ref), pos)
}

// setMark sets or clears a position in the plane of word k, made if needed.
func (x *Index) setMark(s []atomic.Uint64, class uint32, k, pos int, on bool) {
	ref := uint32(s[k].Load())
	if ref == 0 {
		if !on {
			return
		}
		ref = x.newPlane(class, 0)
		s[k].Store(uint64(ref))
	}
	setBit(x.plane(class, ref), pos, on)
}

// holds reports whether lane l holds a position on any tier, on shard, or on
// any shard if shard is negative.
func (x *Index) holds(l lane, class uint32, pos, shard int) bool {
	if l.plain() {
		return pos < l.reach() && shard <= 0
	}
	pl := &x.planes[planeOf(class)]
	for ref := uint32(x.side(l.ref())[sRows].Load()); ref != 0; {
		w := pl.at(ref)
		head := w[0].Load()
		if (shard < 0 || int(rowShard(head)) == shard) && bit(w[1:], pos) {
			return true
		}
		ref = uint32(head)
	}
	return false
}

// holdsOn is holds for one tier and shard.
func (x *Index) holdsOn(l lane, class uint32, pos int, t Tier, shard uint8) bool {
	if l.plain() {
		return pos < l.reach() && l.tier() == t && shard == 0
	}
	w := x.row(x.side(l.ref()), class, t, shard, false)
	return w != nil && bit(w, pos)
}

// exceptional reports whether a position's residencies are in a support list.
func (x *Index) exceptional(l lane, class uint32, pos int) bool {
	return !l.plain() && x.marked(x.side(l.ref()), class, sExc, pos)
}

// nameAt is the name the holder gives a position it holds.
func (x *Index) nameAt(l lane, hd []atomic.Uint64, class uint32, pos int) uint64 {
	return x.namesOf(l, hd, class)[pos].Load()
}

// namesOf are the names a holder bears in a run.
func (x *Index) namesOf(l lane, hd []atomic.Uint64, class uint32) []atomic.Uint64 {
	if l.own() {
		return x.ownNames(l)
	}
	return sharedNames(hd, class)
}

// needRows turns a plain lane into one with rows; its figures stay the same.
func (x *Index) needRows(slot *atomic.Uint64, class uint32) (lane, []atomic.Uint64) {
	l := lane(slot.Load())
	if !l.plain() {
		return l, x.side(l.ref())
	}
	ref := x.sides.alloc()
	s := x.side(ref)
	for i := range s {
		s[i].Store(0)
	}
	if l.own() {
		s[sNames].Store(uint64(l.ref()))
	}
	if n := l.reach(); n > 0 {
		fill(x.row(s, class, l.tier(), 0, true), 0, n)
	}
	x.figures(s, class, 1)
	l = fullLane(l.id(), ref, l.own())
	slot.Store(uint64(l))
	x.mark(stepRows)
	return l, s
}

func fill(w []atomic.Uint64, lo, hi int) {
	for p := lo; p < hi; {
		end := min(hi, (p|63)+1)
		w[p>>6].Store(w[p>>6].Load() | (^uint64(0)>>(64-(end-p)))<<(p&63))
		p = end
	}
}

func wipe(w []atomic.Uint64, lo, hi int) {
	for p := lo; p < hi; {
		end := min(hi, (p|63)+1)
		w[p>>6].Store(w[p>>6].Load() &^ ((^uint64(0) >> (64 - (end - p))) << (p & 63)))
		p = end
	}
}

// figures computes what readers see from the rows and stores it, view by view;
// reports whether anything is held at all and, for a holder with one shard
// that lies on one tier without holes, that tier and reach.
func (x *Index) figures(s []atomic.Uint64, class uint32, shards int) (empty bool, one Tier, reach int) {
	var tiers [NumTiers]bitmap
	var rows [NumTiers]int
	n, pl := wordsOf(class), &x.planes[planeOf(class)]
	empty, one, reach = true, NumTiers, 0
	total, used := 0, 0
	for ref := uint32(s[sRows].Load()); ref != 0; {
		w := pl.at(ref)
		head := w[0].Load()
		t := rowTier(head)
		held := 0
		for i := 0; i < n; i++ {
			b := w[1+i].Load()
			held += bits.OnesCount64(b)
			if rows[t] == 0 {
				tiers[t][i] = b
			} else {
				tiers[t][i] &= b
			}
		}
		rows[t]++
		if held > 0 {
			empty, one, total, used = false, t, held, used+1
		}
		ref = uint32(head)
	}
	var dh, all bitmap
	res := 0
	for t := range tiers {
		if rows[t] < shards {
			tiers[t] = bitmap{}
			continue
		}
		for i := 0; i < n; i++ {
			all[i] |= tiers[t][i]
			if Tier(t) <= Host {
				dh[i] |= tiers[t][i]
			}
			res += bits.OnesCount64(tiers[t][i])
		}
	}
	dev := leading(&tiers[Device], n, 0)
	host := leading(&tiers[Host], n, 0)
	ext := dev
	if dev < n*64 {
		ext += leading(&tiers[Host], n, dev)
	}
	s[sView].Store(uint64(dev) | uint64(leading(&all, n, 0))<<16 | uint64(leading(&dh, n, 0))<<32)
	x.mark(stepView)
	s[sExt].Store(uint64(dev) | uint64(host)<<16 | uint64(ext)<<32)
	x.mark(stepView)
	if shards > 1 {
		s[sRes].Store(uint64(res))
	}
	if used == 1 && shards == 1 && leading(&tiers[one], n, 0) == total {
		return empty, one, total
	}
	return empty, NumTiers, 0
}

// freeRefs gives back what a lane that is gone referred to, after the version
// has moved.
func (x *Index) freeRefs(l lane, class uint32) {
	if l.own() {
		x.freeNames(x.namesRef(l))
	}
	if !l.plain() {
		x.freeSide(l.ref(), class)
	}
}

// freeSide gives back a side record and all that hangs on it but the names,
// after the version has moved.
func (x *Index) freeSide(ref, class uint32) {
	s := x.side(ref)
	x.freeRows(s, class)
	x.freePlane(class, uint32(s[sExc].Load()))
	x.freePlane(class, uint32(s[sNameless].Load()))
	x.sides.release(ref)
}
