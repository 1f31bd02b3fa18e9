package tree

import "slices"

// finish stops everyone who is still active, at p units.
func (r *reader) finish(p uint32) {
	for i := range r.mixed {
		r.mixed[i].stop(p)
		r.giveMixed(&r.mixed[i])
	}
	for _, a := range r.pure {
		if a.step >= 0 {
			r.give(a.holder, p)
		}
	}
}

// give notes the depth of a holder that stopped, having been on the device
// alone.
func (r *reader) give(h Holder, n uint32) {
	if n > 0 {
		// Field by field: a literal is built aside first, and copying it right
		// away costs ten times as much as writing it here.
		d := r.next(n)
		d.Holder = h
		d.Units[ViewDevice], d.Units[ViewHost], d.Units[ViewAny] = n, 0, n
		d.Units[ViewDeviceHost], d.Units[ViewExtension] = n, n
	}
}

func (r *reader) giveMixed(a *mixed) {
	if n := a.units[ViewAny]; n > 0 {
		*r.next(n) = Depths{Holder: a.holder, Units: a.units}
	}
}

// next is the place for one more holder, of depth n, in front of the answer.
func (r *reader) next(n uint32) *Depths {
	if r.done == 0 {
		more := max(16, len(r.room))
		r.room = append(make([]Depths, more, more+len(r.room)), r.room...)
		r.done = more
	}
	if r.done < len(r.room) && n < r.room[r.done].Units[ViewAny] {
		r.fall = true
	}
	r.done--
	return &r.room[r.done]
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
