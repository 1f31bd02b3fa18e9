package tree

import "sync/atomic"

// Names gives the names of a holder's leading blocks. See Reader.
func (r *reader) Names(dst []uint64, h Holder, v View, depth int) []uint64 {
	if v >= ViewExtension {
		return dst
	}
	r.known = 0
	for i := range r.steps {
		st := &r.steps[i]
		if int(st.off) >= depth {
			break
		}
		n := min(int(st.n), depth-int(st.off))
		var k int
		var ok bool
		dst, k, ok = r.names(dst, st, h, v, n)
		if !ok || k < int(st.n) {
			break
		}
	}
	return dst
}

// names appends what one run gives of the first n positions; k is how many
// positions the holder has there, ok that nothing has changed and a block has
// not been left out.
func (r *reader) names(dst []uint64, st *step, h Holder, v View, n int) (out []uint64, k int, ok bool) {
	x, was := r.x, len(dst)
	hd, class := x.run(st.run), classOf(st.run)
	w0 := hd[hVersion].Load()
	if hd[hLink].Load() != st.link {
		return dst, 0, false
	}
	n = min(n, count(w0)) // an end that nobody holds any more is gone
	if version(w0) != st.version {
		for i := 0; i < n; i++ {
			if hd[hBody+i].Load() != r.query[int(st.off)+i] {
				return dst, 0, false
			}
		}
	}
	l := x.laneOf(hd, h, r.known)
	if l == 0 {
		return dst, 0, false
	}
	r.known = l.id()
	k = min(n, r.reachIn(l, v))
	names := sharedNames(hd, class)
	var nameless []atomic.Uint64
	if l.own() {
		if names = x.ownNames(l); len(names) < k {
			return dst, 0, false // names of another time than the reach
		}
	}
	if !l.plain() {
		if ref := uint32(x.side(l.ref())[sNameless].Load()); ref != 0 {
			if nameless = x.planes[planeOf(class)].seen(ref); nameless == nil {
				return dst, 0, false
			}
			nameless = nameless[1:]
		}
	}
	r.pause()
	whole := true
	for i := 0; i < k && whole; i++ {
		if whole = nameless == nil || !bit(nameless, i); whole {
			dst = append(dst, names[i].Load())
		}
	}
	r.pause()
	if version(hd[hVersion].Load()) != version(w0) || x.ownerOf(l.id()) != h {
		return dst[:was], 0, false
	}
	return dst, k, whole
}

// reachIn is how many leading units of a run a lane holds in a view.
func (r *reader) reachIn(l lane, v View) int {
	reach := l.reach()
	switch l.shape() {
	case shapeDevice:
		if v == ViewHost {
			return 0
		}
		return reach
	case shapeHost:
		if v == ViewDevice {
			return 0
		}
		return reach
	case shapeOther:
		if v != ViewAny {
			return 0
		}
		return reach
	}
	s := r.x.side(l.ref())
	switch w := s[sView].Load(); v {
	case ViewDevice:
		return int(w & 0xffff)
	case ViewAny:
		return int(w >> 16 & 0xffff)
	case ViewDeviceHost:
		return int(w >> 32 & 0xffff)
	}
	return int(s[sExt].Load() >> 16 & 0xffff)
}
