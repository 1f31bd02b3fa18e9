package tree

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

// active is who has held everything so far, in three forms: a crowd and a list
// of those that hold it on the device alone, and those with more to tell. A
// holder is in one of them at most.
type active struct {
	crowd   []uint64 // a bit by lane id; of no meaning unless crowded
	crowded bool
	pure    []uint32 // lane ids
	mixed   []mixed

	here  []lane   // of the run at hand, those in a dense cell excepted
	mark  []uint64 // by lane id: stamp of the run that met it last, and where it is in here
	stamp uint32
	far   []atomic.Uint64 // lanes of the dense cell at hand, by id
	out   []uint32        // lane ids of those that have nothing of the run at hand
	stops [numGroups + 1][]uint64
}

// mixed is a holder that has held everything so far in some view, but not all
// of it on the device.
type mixed struct {
	lane  uint32
	alive uint8 // views that held everything so far
	host  bool  // the extension has left the device
	units [NumViews]uint32
}

const allViews = 1<<NumViews - 1

func (a *active) begin() {
	a.crowded, a.pure, a.mixed = false, a.pure[:0], a.mixed[:0]
}

// nobody reports whether no holder is left.
func (a *active) nobody() bool { return !a.crowded && len(a.pure)+len(a.mixed) == 0 }

// enter takes in the lanes of the first run, of which m units match.
func (r *reader) enter(hd []atomic.Uint64, m uint32) {
	for i := hLane; i < hLane+inlineLanes; i++ {
		if l := lane(hd[i].Load()); l != 0 {
			r.arrive(l, m)
		}
	}
	ref := uint32(hd[hCell].Load())
	if ref == 0 {
		return
	}
	r.pause()
	c := r.x.cell(ref)
	if isDense(ref) {
		r.sift(c, ref, 0, m, true)
		return
	}
	pure := r.pure
	for i := range c {
		if l := lane(c[i].Load()); l.whole(m) {
			pure = append(pure, l.id())
		} else if l != 0 {
			r.enterOther(l, m)
		}
	}
	r.pure = pure
}

// whole reports whether a lane is of a holder that holds the first m units, and
// m is not 0, on the device and nowhere else.
func (l lane) whole(m uint32) bool {
	return l.shape() == shapeDevice && uint32(l.reach()) >= m
}

// arrive takes in a lane of the first run.
func (r *reader) arrive(l lane, m uint32) {
	if l.whole(m) {
		r.pure = append(r.pure, l.id())
	} else {
		r.enterOther(l, m)
	}
}

// enterOther takes in a lane of the first run that is not whole.
func (r *reader) enterOther(l lane, m uint32) {
	if l.shape() == shapeDevice {
		r.give(l.id(), uint32(l.reach()))
		return
	}
	a := r.another(l.id(), allViews)
	r.apply(a, l, 0, m)
	r.dropStopped(a)
}

// another makes one more mixed holder, in place: copied whole right after it
// was written in parts it would cost ten times as much.
func (r *reader) another(lane uint32, alive uint8) *mixed {
	n := len(r.mixed)
	if n == cap(r.mixed) {
		r.mixed = slices.Grow(r.mixed, 1)
	}
	r.mixed = r.mixed[:n+1]
	a := &r.mixed[n]
	a.lane, a.alive, a.host = lane, alive, false
	a.units = [NumViews]uint32{}
	return a
}

// dropStopped gives and forgets a, the last mixed holder, if no view of it
// goes on.
func (r *reader) dropStopped(a *mixed) {
	if a.alive == 0 {
		r.giveMixed(a)
		r.mixed = r.mixed[:len(r.mixed)-1]
	}
}

// goOn takes in the lanes of a further run of which m units match, p units
// having been matched before it. Who is still active and has a lane here may go
// on; the others stop at p.
func (r *reader) goOn(hd []atomic.Uint64, p, m uint32) {
	c, dense := r.gather(hd)
	r.out = r.out[:0]
	kept := 0
	for i := range r.mixed {
		a := &r.mixed[i]
		if l := r.laneOfActive(a.lane); l != 0 {
			r.apply(a, l, p, m)
		} else {
			a.stop(p)
		}
		if a.alive == 0 {
			r.giveMixed(a)
			continue
		}
		if kept != i {
			r.mixed[kept] = *a
		}
		kept++
	}
	r.mixed = r.mixed[:kept]
	stay := r.pure[:0]
	for _, id := range r.pure {
		switch l := r.laneOfActive(id); {
		case l == 0:
			r.out = append(r.out, id)
		case l.whole(m):
			stay = append(stay, id)
		default:
			r.goOnOther(l, p, m)
		}
	}
	r.pure = stay
	if r.crowded {
		for _, l := range r.here {
			id := l.id()
			w, b := id>>6, uint64(1)<<(id&63)
			if int(w) >= len(r.crowd) || r.crowd[w]&b == 0 {
				continue
			}
			r.crowd[w] &^= b
			if l.whole(m) {
				r.pure = append(r.pure, id)
			} else {
				r.goOnOther(l, p, m)
			}
		}
		if dense != 0 {
			r.sift(c, dense, p, m, false)
		} else {
			r.giveSet(r.crowd, p)
			r.crowded = false
		}
	}
	r.giveAll(r.out, p)
}

// goOnOther takes in a further lane, that is not whole, of a holder that has
// held everything so far on the device alone.
func (r *reader) goOnOther(l lane, p, m uint32) {
	if l.shape() == shapeDevice {
		r.give(l.id(), p+uint32(l.reach()))
		return
	}
	a := r.another(l.id(), allViews&^(1<<ViewHost))
	r.apply(a, l, p, m)
	r.dropStopped(a)
}

// gather notes the lanes of a run, and who has which; the cell is returned if
// it is dense, for there they need no noting.
func (r *reader) gather(hd []atomic.Uint64) (c []atomic.Uint64, dense uint32) {
	if r.stamp++; r.stamp == 0 {
		clear(r.mark)
		r.stamp = 1
	}
	r.here, r.far = r.here[:0], nil
	for i := hLane; i < hLane+inlineLanes; i++ {
		if l := lane(hd[i].Load()); l != 0 {
			r.note(l)
		}
	}
	ref := uint32(hd[hCell].Load())
	if ref == 0 {
		return nil, 0
	}
	r.pause()
	c = r.x.cell(ref)
	if isDense(ref) {
		r.far = lanesIn(c, ref)
		return c, ref
	}
	for i := range c {
		if l := lane(c[i].Load()); l != 0 {
			r.note(l)
		}
	}
	return nil, 0
}

func (r *reader) note(l lane) {
	id := l.id()
	if int(id) >= len(r.mark) {
		n := max(64, 2*len(r.mark))
		for n <= int(id) {
			n *= 2
		}
		r.mark = append(make([]uint64, 0, n), r.mark...)[:n]
	}
	r.mark[id] = uint64(r.stamp)<<32 | uint64(len(r.here))
	r.here = append(r.here, l)
}

// laneOfActive is a holder's lane in the run at hand, 0 if it has none.
func (r *reader) laneOfActive(id uint32) lane {
	if int(id) < len(r.mark) {
		if w := r.mark[id]; uint32(w>>32) == r.stamp {
			return r.here[uint32(w)]
		}
	}
	if int(id) < len(r.far) {
		return lane(r.far[id].Load())
	}
	return 0
}

// sift takes in the lanes of a dense cell, of whose run m units match: those of
// the crowd, or if all arrive, in the first run, everyone's. Who goes on is the
// crowd then.
func (r *reader) sift(c []atomic.Uint64, ref, p, m uint32, all bool) {
	words := denseWords(ref >> 28)
	lanes, reaches := lanesIn(c, ref), c[denseReaches].Load()
	if all {
		r.crowd = r.crowd[:0]
	}
	r.roomFor(words)
	r.pause()
	left, stopped, outside := 0, [numGroups]uint64{}, uint64(0)
	out := r.stops[numGroups]
	for w := range words {
		sets := c[denseSets+setStride*w : denseSets+setStride*(w+1)]
		a, stay := ^uint64(0), uint64(0)
		if !all {
			a = r.crowd[w]
		}
		for k := range numGroups {
			reach := groupReach(reaches, k)
			if reach == 0 {
				continue
			}
			b := sets[setGroup+k].Load() & a
			a &^= b
			if reach >= m {
				stay |= b
			} else {
				r.stops[k][w] = b
				stopped[k] |= b
			}
		}
		for b := a & sets[setPresent].Load(); b != 0; b &= b - 1 {
			id := uint32(w<<6 + bits.TrailingZeros64(b))
			switch l := lane(lanes[id].Load()); {
			case l == 0:
				continue
			case l.whole(m):
				stay |= b & -b
			case all:
				r.enterOther(l, m)
			default:
				r.goOnOther(l, p, m)
			}
			a &^= b & -b
		}
		if !all {
			out[w] = a
			outside |= a
		}
		r.crowd[w] = stay
		left += bits.OnesCount64(stay)
	}
	if !all {
		for w := words; w < len(r.crowd); w++ {
			out[w] = r.crowd[w]
			outside |= out[w]
			r.crowd[w] = 0
		}
	}
	if outside != 0 {
		r.giveSet(out[:len(r.crowd)], p)
	}
	for k := range numGroups {
		if stopped[k] != 0 {
			r.giveSet(r.stops[k][:words], p+groupReach(reaches, k))
		}
	}
	r.crowded = left > 0
	if left <= words { // few: a list is quicker
		r.disperse()
	}
}

// roomFor makes the crowd so many words long at least.
func (r *reader) roomFor(words int) {
	for len(r.crowd) < words {
		r.crowd = append(r.crowd, 0)
	}
	for k := range r.stops {
		if n := len(r.crowd) - len(r.stops[k]); n > 0 {
			r.stops[k] = append(r.stops[k], make([]uint64, n)...)
		}
	}
}

// disperse makes a list of the crowd.
func (r *reader) disperse() {
	for w, b := range r.crowd {
		for ; b != 0; b &= b - 1 {
			r.pure = append(r.pure, uint32(w<<6+bits.TrailingZeros64(b)))
		}
	}
	r.crowded = false
}

// apply takes in what a lane says of a mixed holder.
func (r *reader) apply(a *mixed, l lane, p, m uint32) {
	reach := uint32(l.reach())
	switch l.shape() {
	case shapeDevice:
		a.limit(ViewHost, 0, p, m)
		a.limit(ViewDevice, reach, p, m)
		a.limit(ViewAny, reach, p, m)
		a.limit(ViewDeviceHost, reach, p, m)
		a.extend(reach, 0, reach, p, m)
	case shapeHost:
		a.limit(ViewDevice, 0, p, m)
		a.limit(ViewHost, reach, p, m)
		a.limit(ViewAny, reach, p, m)
		a.limit(ViewDeviceHost, reach, p, m)
		a.extend(0, reach, reach, p, m)
	case shapeOther:
		a.limit(ViewDevice, 0, p, m)
		a.limit(ViewHost, 0, p, m)
		a.limit(ViewAny, reach, p, m)
		a.limit(ViewDeviceHost, 0, p, m)
		a.extend(0, 0, 0, p, m)
	default:
		s := r.x.side(l.ref())
		v := s[sView].Load()
		r.pause()
		e := s[sExt].Load()
		a.limit(ViewDevice, uint32(v&0xffff), p, m)
		a.limit(ViewAny, uint32(v>>16&0xffff), p, m)
		a.limit(ViewDeviceHost, uint32(v>>32&0xffff), p, m)
		a.limit(ViewHost, uint32(e>>16&0xffff), p, m)
		a.extend(uint32(e&0xffff), uint32(e>>16&0xffff), uint32(e>>32&0xffff), p, m)
	}
}

// limit ends a view that has only k of m units here.
func (a *mixed) limit(v View, k, p, m uint32) {
	if k < m && a.alive>>v&1 != 0 {
		a.alive &^= 1 << v
		a.units[v] = p + k
	}
}

// extend is limit for the extension: on the device while that is whole, then
// on the host.
func (a *mixed) extend(dev, host, end, p, m uint32) {
	switch {
	case a.host:
		a.limit(ViewExtension, host, p, m)
	case dev >= m:
	default:
		a.host = true
		a.limit(ViewExtension, end, p, m)
	}
}

// stop ends all views of a holder at p units.
func (a *mixed) stop(p uint32) {
	for v := range a.units {
		if a.alive>>v&1 != 0 {
			a.units[v] = p
		}
	}
	a.alive = 0
}
