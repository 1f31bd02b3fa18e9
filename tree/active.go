package tree

import "sync/atomic"

// active is who has held everything so far: those that hold it on the device
// alone as a set and a list, and those with more to tell. A holder is in one of
// them at most. The set, the crowd, is of the lane ids of the first nearWords words,
// for which it costs next to nothing, or of all, behind a run whose lanes are in a
// dense cell; then it becomes a list again when few are left.
type active struct {
	crowd   []uint64 // a bit by lane id, of so many words:
	words   int
	crowded bool     // it is not empty
	pure    []uint32 // lane ids
	mixed   []mixed

	here  []lane   // of the run at hand, those in a dense cell excepted
	mark  []uint64 // by lane id: stamp of the run that met it last, and where it is in here
	stamp uint32
	far   []atomic.Uint64 // lanes of the dense cell at hand, by id
	out   []uint32        // lane ids of those that have nothing of the run at hand
	stops [numGroups + 1][]uint64
}

func (a *active) begin() {
	a.words, a.crowded, a.pure, a.mixed = 0, false, a.pure[:0], a.mixed[:0]
}

// nobody reports whether no holder is left.
func (a *active) nobody() bool { return !a.crowded && len(a.pure)+len(a.mixed) == 0 }

// enter takes in the lanes of the first run, of which m units match.
func (r *reader) enter(hd []atomic.Uint64, m uint32) {
	var near [nearWords]uint64
	if ref := uint32(hd[hCell].Load()); ref != 0 {
		r.pause()
		if c := r.x.cell(ref); isDense(ref) {
			r.sift(c, ref, 0, m, true)
		} else {
			r.arrive(c, &near, m)
		}
	}
	r.arrive(hd[hLane:hLane+inlineLanes], &near, m)
	r.joinAll(&near)
}

// whole reports whether a lane is of a holder that holds the first m units, and
// m is not 0, on the device and nowhere else.
func (l lane) whole(m uint32) bool {
	return l.shape() == shapeDevice && uint32(l.reach()) >= m
}

// arrive takes in lanes of the first run; whoever goes on and has one of the first
// ids is noted in near.
func (r *reader) arrive(lanes []atomic.Uint64, near *[nearWords]uint64, m uint32) {
	first := uint64(0) // near[0], in a register
	for i := range lanes {
		switch l := lane(lanes[i].Load()); {
		case !l.whole(m):
			if l != 0 {
				r.enterOther(l, m)
			}
		case l.id() < 64:
			first |= 1 << l.id()
		case l.id() < 64*nearWords:
			near[l.id()>>6] |= 1 << (l & 63)
		default:
			r.join(l.id())
		}
	}
	near[0] |= first
}

// goOn takes in the lanes of a further run of which m units match, p units
// having been matched before it. Who is still active and has a lane here may go
// on; the others stop at p.
func (r *reader) goOn(hd []atomic.Uint64, p, m uint32) {
	if len(r.pure)+len(r.mixed) == 0 {
		r.crowdGoesOn(hd, p, m)
		return
	}
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
		var near [nearWords]uint64
		for _, l := range r.here {
			if id := l.id(); id < 64*nearWords && l.whole(m) {
				near[id>>6] |= 1 << (id & 63)
			} else {
				r.leaveCrowd(l, p, m)
			}
		}
		r.endCrowd(c, dense, &near, p, m)
	}
	r.giveAll(r.out, p)
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
