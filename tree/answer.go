package tree

import (
	"math/bits"
	"slices"
)

// answer is what a walk has found. Holders are written once, in the order in
// which they stop; who stops later is deeper, so that the levels are read from
// the last one back. Those that stop together as a set are told as one.
type answer struct {
	holders []Holder
	sets    []uint64 // a bit by lane id
	bounds  []bound
	levels  []Level
	order   []uint64
	flat    []Depths

	seats  []Holder // whose a lane id is, as of a version of the index's owners
	seated uint64   // that version
	widest int      // words of the longest set
}

// bound is where a level begins in holders, and its set in sets.
type bound struct {
	from  int
	set   int
	words int // 0: no set
	units [NumViews]uint32
}

func (a *answer) reset() {
	a.holders, a.sets, a.bounds, a.widest = a.holders[:0], a.sets[:0], a.bounds[:0], 0
}

// finish stops everyone who is still active, at p units.
func (r *reader) finish(p uint32) {
	for i := range r.mixed {
		r.mixed[i].stop(p)
		r.giveMixed(&r.mixed[i])
	}
	if r.crowded {
		r.giveSet(r.crowd, p)
	}
	r.giveAll(r.pure, p)
}

// level makes n units, on the device alone, those of the holders that follow.
func (a *answer) level(n uint32) {
	if k := len(a.bounds); k > 0 {
		if u := &a.bounds[k-1].units; u[ViewDevice] == n && u[ViewAny] == n && u[ViewHost] == 0 && u[ViewExtension] == n {
			return
		}
	}
	b := a.another()
	b.units[ViewDevice], b.units[ViewHost], b.units[ViewAny] = n, 0, n
	b.units[ViewDeviceHost], b.units[ViewExtension] = n, n
}

// another begins a level, in place: see reader.another.
func (a *answer) another() *bound {
	k := len(a.bounds)
	if k == cap(a.bounds) {
		a.bounds = slices.Grow(a.bounds, 1)
	}
	a.bounds = a.bounds[:k+1]
	a.bounds[k].from, a.bounds[k].words = len(a.holders), 0
	return &a.bounds[k]
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
	if len(lanes) == 0 || n == 0 {
		return
	}
	r.level(n)
	x, holders := r.x, r.holders
	for _, id := range lanes {
		if x.visible(id) {
			holders = append(holders, Holder(x.owners[id].Load()))
		}
	}
	r.holders = holders
}

// giveSet is give for all of a set, a bit by lane id.
func (r *reader) giveSet(set []uint64, n uint32) {
	if n == 0 {
		return
	}
	r.level(n)
	from := len(r.sets)
	if cap(r.sets)-from < len(set) {
		r.sets = slices.Grow(r.sets, len(set))
	}
	to := r.sets[from : from+len(set)]
	many, words := 0, 0
	for w, b := range set {
		if b != 0 {
			b &= r.x.shown[w].Load()
			many += bits.OnesCount64(b)
			words = w + 1
		}
		to[w] = b
	}
	at := &r.bounds[len(r.bounds)-1]
	switch {
	case many == 0:
		return
	case many <= words: // few: a list is shorter
		for w, b := range to[:words] {
			for ; b != 0; b &= b - 1 {
				r.holders = append(r.holders, Holder(r.x.owners[w<<6+bits.TrailingZeros64(b)].Load()))
			}
		}
		return
	case at.words > 0: // has one already
		units := at.units
		at = r.answer.another()
		at.units = units
	}
	at.set, at.words = from, words
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
		b := r.answer.another()
		//lint:ignore S1001 copied whole right after it was written in parts, it would wait
		for v := range m.units {
			b.units[v] = m.units[v]
		}
		r.holders = append(r.holders, Holder(r.x.owners[m.lane].Load()))
	}
}

// arrange makes the levels, deepest first. Within one run holders stop in any
// order.
func (r *reader) arrange() {
	if r.widest > 0 {
		r.seat()
	}
	n, ordered := len(r.bounds), true
	for k := 1; k < n; k++ {
		if r.bounds[k].units[ViewAny] < r.bounds[k-1].units[ViewAny] {
			ordered = false
			break
		}
	}
	r.levels = slices.Grow(r.levels[:0], n)
	if ordered {
		for k := n - 1; k >= 0; k-- {
			r.put(k)
		}
		return
	}
	r.order = r.order[:0]
	for k := range r.bounds {
		r.order = append(r.order, uint64(r.bounds[k].units[ViewAny])<<32|uint64(k))
	}
	slices.Sort(r.order)
	for i := n - 1; i >= 0; i-- {
		r.put(int(uint32(r.order[i])))
	}
}

// put makes level k the next one, if it is not empty.
func (a *answer) put(k int) {
	b, end := &a.bounds[k], len(a.holders)
	if k+1 < len(a.bounds) {
		end = a.bounds[k+1].from
	}
	if b.from == end && b.words == 0 {
		return
	}
	n := len(a.levels)
	a.levels = a.levels[:n+1]
	l := &a.levels[n]
	//lint:ignore S1001 copied whole right after it was written in parts, it would wait
	for v := range b.units {
		l.Units[v] = b.units[v]
	}
	l.listed, l.set, l.seats = a.holders[b.from:end:end], a.sets[b.set:b.set+b.words], a.seats
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
		for _, h := range l.listed {
			a.flat[at].set(h, &l.Units)
			at++
		}
		for w, b := range l.set {
			for ; b != 0; b &= b - 1 {
				a.flat[at].set(l.seats[w<<6+bits.TrailingZeros64(b)], &l.Units)
				at++
			}
		}
	}
	return a.flat
}

// set writes the depths of a holder, in place: see reader.another.
func (d *Depths) set(h Holder, units *[NumViews]uint32) {
	d.Holder = h
	//lint:ignore S1001 copied whole right after it was written in parts, it would wait
	for v := range units {
		d.Units[v] = units[v]
	}
}
