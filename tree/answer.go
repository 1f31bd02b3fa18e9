package tree

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

// answer is what a walk has found. Holders are written once, in the order in
// which they stop; who stops later is deeper, so that the levels are read from
// the last one back.
type answer struct {
	holders []Holder
	bounds  []bound
	levels  []Level
	order   []uint64
	flat    []Depths
}

// bound is where a level begins in holders.
type bound struct {
	from  int
	units [NumViews]uint32
}

func (a *answer) reset() { a.holders, a.bounds = a.holders[:0], a.bounds[:0] }

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
	a.bounds[k].from = len(a.holders)
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
	for w, b := range set {
		if b &= r.x.shown[w].Load(); b == 0 {
			continue
		}
		at := len(r.holders)
		if cap(r.holders)-at < 64 {
			r.holders = slices.Grow(r.holders, 64*len(set))
		}
		to, owners := (*[64]Holder)(r.holders[at:at+64]), (*[64]atomic.Uint32)(r.x.owners[w<<6:])
		k := 0
		switch n := bits.OnesCount64(b); {
		case n == 64:
			for ; k < 64; k += 4 {
				to[k], to[k+1] = Holder(owners[k].Load()), Holder(owners[k+1].Load())
				to[k+2], to[k+3] = Holder(owners[k+2].Load()), Holder(owners[k+3].Load())
			}
		case n > 16: // all are written, those that are not meant over again
			for i := 0; i < 64; i += 4 {
				to[k&63] = Holder(owners[i].Load())
				k += int(b & 1)
				to[k&63] = Holder(owners[i+1].Load())
				k += int(b >> 1 & 1)
				to[k&63] = Holder(owners[i+2].Load())
				k += int(b >> 2 & 1)
				to[k&63] = Holder(owners[i+3].Load())
				k += int(b >> 3 & 1)
				b >>= 4
			}
		default:
			for ; b != 0; b &= b - 1 {
				to[k&63] = Holder(owners[bits.TrailingZeros64(b)&63].Load())
				k++
			}
		}
		r.holders = r.holders[:at+k]
	}
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
	if b.from == end {
		return
	}
	n := len(a.levels)
	a.levels = a.levels[:n+1]
	l := &a.levels[n]
	//lint:ignore S1001 copied whole right after it was written in parts, it would wait
	for v := range b.units {
		l.Units[v] = b.units[v]
	}
	l.Holders = a.holders[b.from:end:end]
}

// flatten gives every holder its own depths.
func (a *answer) flatten(levels []Level) []Depths {
	n := 0
	for i := range levels {
		n += len(levels[i].Holders)
	}
	a.flat = slices.Grow(a.flat[:0], n)[:n]
	at := 0
	for i := range levels {
		l := &levels[i]
		for _, h := range l.Holders {
			d := &a.flat[at]
			at++
			d.Holder = h
			//lint:ignore S1001 copied whole right after it was written in parts, it would wait
			for v := range l.Units {
				d.Units[v] = l.Units[v]
			}
		}
	}
	return a.flat
}
