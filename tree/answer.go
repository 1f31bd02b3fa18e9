package tree

import (
	"math/bits"
	"slices"
)

// answer is what a walk has found. Holders are written once, in the order in
// which they stop, those that stop together as a set if they are many; who stops
// later is deeper, so that levels are turned round in the end.
type answer struct {
	holders []Holder
	sets    []uint64 // a bit by lane id
	levels  []Level
	sorted  []Level
	order   []uint64
	flat    []Depths

	seats  []Holder // whose a lane id is, as of a version of the index's owners
	seated uint64   // that version
	widest int      // words of the longest set
}

func (a *answer) reset() {
	a.holders, a.sets, a.levels, a.widest = a.holders[:0], a.sets[:0], a.levels[:0], 0
}

// finish stops everyone who is still active, at p units.
func (r *reader) finish(p uint32) {
	for i := range r.mixed {
		r.mixed[i].stop(p)
		r.giveMixed(&r.mixed[i])
	}
	if r.crowded {
		r.giveSet(r.crowd[:r.words], p)
	}
	r.giveAll(r.pure, p)
}

// level makes n units, on the device alone, those of the holders that follow.
func (a *answer) level(n uint32) *Level {
	if k := len(a.levels); k > 0 {
		l := &a.levels[k-1]
		if u := &l.Units; u[ViewDevice] == n && u[ViewAny] == n && u[ViewHost] == 0 && u[ViewExtension] == n {
			return l
		}
	}
	l := a.another()
	l.Units[ViewDevice], l.Units[ViewHost], l.Units[ViewAny] = n, 0, n
	l.Units[ViewDeviceHost], l.Units[ViewExtension] = n, n
	return l
}

// another begins a level, in place: copied whole right after it was written in
// parts it would cost ten times as much.
func (a *answer) another() *Level {
	k := len(a.levels)
	if k == cap(a.levels) {
		a.levels = slices.Grow(a.levels, 1)
	}
	a.levels = a.levels[:k+1]
	l := &a.levels[k]
	if l.of == nil { // it is no other's ever after
		l.of = a
	}
	l.from, l.words = int32(len(a.holders)), 0
	return l
}

// give notes the depth of a holder that stopped, having been on the device
// alone.
func (r *reader) give(lane, n uint32) {
	if n > 0 && r.x.visible(lane) {
		r.level(n)
		r.holders = append(r.holders, Holder(r.x.owners[lane].Load()))
	}
}

// giveAll is give for many that stop at n units.
func (r *reader) giveAll(lanes []uint32, n uint32) {
	for _, id := range lanes {
		r.give(id, n)
	}
}

// giveSet is give for all of a set, a bit by lane id.
func (r *reader) giveSet(set []uint64, n uint32) {
	if n == 0 {
		return
	}
	from := len(r.sets)
	if cap(r.sets)-from < len(set) {
		r.sets = slices.Grow(r.sets, len(set))
	}
	to := r.sets[from : from+len(set)]
	many, words := 0, 0
	for w, b := range set {
		if b != 0 {
			if b &= r.x.shown[w].Load(); b != 0 {
				many += bits.OnesCount64(b)
				words = w + 1
			}
		}
		to[w] = b
	}
	if many == 0 {
		return
	}
	l := r.level(n)
	if many <= words { // a list is shorter
		for w, b := range to[:words] {
			for ; b != 0; b &= b - 1 {
				r.holders = append(r.holders, Holder(r.x.owners[w<<6+bits.TrailingZeros64(b)].Load()))
			}
		}
		return
	}
	if l.words > 0 { // it has one already
		k := len(r.levels)
		l = r.answer.another()
		l.Units = r.levels[k-1].Units
	}
	l.set, l.words = int32(from), int32(words)
	r.sets, r.widest = r.sets[:from+words], max(r.widest, words)
}

// seat notes whose the lane ids of the answer's sets are. The version is read
// first, and an owner is known before the id is shown: whoever was found shown
// has his seat, or the epoch has moved.
func (r *reader) seat() {
	version, n := r.x.seats.Load(), r.widest<<6
	if version == r.seated && n <= len(r.seats) {
		return
	}
	r.seats = slices.Grow(r.seats[:0], n)[:n]
	for i := range r.seats {
		r.seats[i] = Holder(r.x.owners[i].Load())
	}
	r.seated = version
}

func (r *reader) giveMixed(m *mixed) {
	if m.units[ViewAny] > 0 && r.x.visible(m.lane) {
		l := r.answer.another()
		//lint:ignore S1001 copied whole right after it was written in parts, it would wait
		for v := range m.units {
			l.Units[v] = m.units[v]
		}
		r.holders = append(r.holders, Holder(r.x.owners[m.lane].Load()))
	}
}

// arrange puts the levels in order, deepest first. Within one run holders stop in
// any order.
func (r *reader) arrange() {
	if r.widest > 0 {
		r.seat()
	}
	levels, ordered := r.levels, true
	end := int32(len(r.holders))
	for k := len(levels) - 1; k >= 0; k-- {
		levels[k].to, end = end, levels[k].from
		if k > 0 && levels[k].Units[ViewAny] < levels[k-1].Units[ViewAny] {
			ordered = false
		}
	}
	if ordered {
		slices.Reverse(levels)
		return
	}
	r.order, r.sorted = r.order[:0], slices.Grow(r.sorted[:0], len(levels))
	for k := range levels {
		r.order = append(r.order, uint64(levels[k].Units[ViewAny])<<32|uint64(k))
	}
	slices.Sort(r.order)
	for i := len(levels) - 1; i >= 0; i-- {
		r.sorted = append(r.sorted, levels[uint32(r.order[i])])
	}
	r.levels, r.sorted = r.sorted, levels
}

// flatten gives every holder its own depths.
func (a *answer) flatten(levels []Level) []Depths {
	n := 0
	for i := range levels {
		n += levels[i].Len()
	}
	a.flat = slices.Grow(a.flat[:0], n)[:n]
	at := 0
	for i := range levels {
		l := &levels[i]
		listed, set := l.parts()
		for _, h := range listed {
			a.flat[at].fill(h, &l.Units)
			at++
		}
		for w, b := range set {
			for ; b != 0; b &= b - 1 {
				a.flat[at].fill(a.seats[w<<6+bits.TrailingZeros64(b)], &l.Units)
				at++
			}
		}
	}
	return a.flat
}

// fill writes the depths of a holder, in place: see answer.another.
func (d *Depths) fill(h Holder, units *[NumViews]uint32) {
	d.Holder = h
	//lint:ignore S1001 copied whole right after it was written in parts, it would wait
	for v := range units {
		d.Units[v] = units[v]
	}
}
