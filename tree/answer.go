package tree

import "slices"

// finish stops everyone who is still active, at p units.
func (r *reader) finish(p uint32) {
	for i := range r.mixed {
		r.mixed[i].stop(p)
		r.giveMixed(&r.mixed[i])
	}
	if len(r.pure) > 0 {
		r.giveAll(p)
	}
}

// giveAll notes that all holders on the device alone stop at n units.
func (r *reader) giveAll(n uint32) {
	if r.done < len(r.pure) {
		r.grow(len(r.pure))
	}
	if r.done < len(r.room) && n < r.room[r.done].Units[ViewAny] {
		r.fall = true
	}
	room, at, owners := r.room, r.done, r.x.owners
	d := onDevice(n)
	for _, id := range r.pure {
		if w := owners[id].Load(); visible(w) {
			at--
			room[at] = d
			room[at].Holder = Holder(w >> 1)
		}
	}
	r.done = at
}

// onDevice are the figures of n units that are on the device alone.
func onDevice(n uint32) Depths {
	return Depths{Units: [NumViews]uint32{ViewDevice: n, ViewAny: n, ViewDeviceHost: n, ViewExtension: n}}
}

// visible reports whether a lane's owner word is of a holder that may be shown.
func visible(w uint64) bool { return w != 0 && w&1 == 0 }

// give notes the depth of a holder that stopped, having been on the device
// alone.
func (r *reader) give(lane, n uint32) {
	if w := r.x.owners[lane].Load(); n > 0 && visible(w) {
		// Field by field: a literal is built aside first, and copying it right
		// away costs ten times as much as writing it here.
		d := r.next(n)
		d.Holder = Holder(w >> 1)
		d.Units[ViewDevice], d.Units[ViewHost], d.Units[ViewAny] = n, 0, n
		d.Units[ViewDeviceHost], d.Units[ViewExtension] = n, n
	}
}

func (r *reader) giveMixed(a *mixed) {
	if w, n := r.x.owners[a.lane].Load(), a.units[ViewAny]; n > 0 && visible(w) {
		d := r.next(n)
		d.Holder = Holder(w >> 1)
		//lint:ignore S1001 copied whole right after it was written in parts, it would wait
		for v := range a.units {
			d.Units[v] = a.units[v]
		}
	}
}

// next is the place for one more holder, of depth n, in front of the answer.
func (r *reader) next(n uint32) *Depths {
	if r.done == 0 {
		r.grow(1)
	}
	if r.done < len(r.room) && n < r.room[r.done].Units[ViewAny] {
		r.fall = true
	}
	r.done--
	return &r.room[r.done]
}

// grow makes room for n more in front of the answer.
func (r *reader) grow(n int) {
	more := max(16, len(r.room), n)
	r.room = append(make([]Depths, more, more+len(r.room)), r.room...)
	r.done += more
}

// arrange puts the answer deepest first. Within one run holders stop in any
// order; figures are small numbers, so counting sorts them.
func (r *reader) arrange() {
	if !r.fall {
		return
	}
	d := r.room[r.done:]
	top := uint32(0)
	for i := range d {
		top = max(top, d[i].Units[ViewAny])
	}
	if int(top) > 8*len(d)+64 {
		slices.SortFunc(d, func(a, b Depths) int { return int(b.Units[ViewAny]) - int(a.Units[ViewAny]) })
		return
	}
	r.ranks = slices.Grow(r.ranks[:0], int(top)+2)[:top+2]
	clear(r.ranks)
	for i := range d {
		r.ranks[top-d[i].Units[ViewAny]+1]++ // one place on: before it stand the deeper ones
	}
	for i := 1; i < len(r.ranks); i++ {
		r.ranks[i] += r.ranks[i-1]
	}
	r.spare = append(r.spare[:0], d...)
	for i := range r.spare {
		at := &r.ranks[top-r.spare[i].Units[ViewAny]]
		d[*at] = r.spare[i]
		*at++
	}
}
