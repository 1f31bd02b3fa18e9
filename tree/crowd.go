package tree

import (
	"math/bits"
	"sync/atomic"
)

// nearWords is how many words the crowd has whatever cells a walk meets.
const nearWords = 4

// join takes in a holder that goes on on the device alone and has none of the
// first ids.
func (a *active) join(id uint32) {
	if w := int(id >> 6); w < a.words {
		a.crowd[w] |= 1 << (id & 63)
		a.crowded = true
	} else {
		a.pure = append(a.pure, id)
	}
}

// joinAll takes in holders with the first ids.
func (a *active) joinAll(near *[nearWords]uint64) {
	for w, b := range near {
		if b == 0 {
			continue
		}
		for ; a.words <= w; a.words++ {
			a.crowd[a.words] = 0
		}
		a.crowd[w] |= b
		a.crowded = true
	}
}

// crowdGoesOn is goOn where there is nobody but the crowd.
func (r *reader) crowdGoesOn(hd []atomic.Uint64, p, m uint32) {
	var near [nearWords]uint64
	r.stay(hd[hLane:hLane+inlineLanes], &near, p, m)
	ref, c := uint32(hd[hCell].Load()), []atomic.Uint64(nil)
	if ref != 0 {
		r.pause()
		if c = r.x.cell(ref); !isDense(ref) {
			r.stay(c, &near, p, m)
			ref = 0
		}
	}
	r.endCrowd(c, ref, &near, p, m)
}

// stay takes in lanes of a further run; whoever is whole there and has one of the
// first ids is noted in near, be he in the crowd or not.
func (r *reader) stay(lanes []atomic.Uint64, near *[nearWords]uint64, p, m uint32) {
	first := uint64(0) // near[0], in a register
	for i := range lanes {
		l := lane(lanes[i].Load())
		switch id := l.id(); {
		case id < 64 && l.whole(m):
			first |= 1 << id
		case id < 64*nearWords && l.whole(m):
			near[id>>6] |= 1 << (id & 63)
		case l != 0:
			r.leaveCrowd(l, p, m)
		}
	}
	near[0] |= first
}

// leaveCrowd takes the holder of a lane, who is not whole or has none of the first
// ids, out of the crowd, if he is in it.
func (r *reader) leaveCrowd(l lane, p, m uint32) {
	id := l.id()
	w, b := int(id>>6), uint64(1)<<(id&63)
	if w >= r.words || r.crowd[w]&b == 0 {
		return
	}
	r.crowd[w] &^= b
	if l.whole(m) {
		r.pure = append(r.pure, id)
	} else {
		r.goOnOther(l, p, m)
	}
}

// endCrowd makes the crowd those that go on: whoever of it is noted in near, or is in
// the run's dense cell, if it has one. The others stop at p.
func (r *reader) endCrowd(c []atomic.Uint64, dense uint32, near *[nearWords]uint64, p, m uint32) {
	words, rest := min(r.words, nearWords), r.words > nearWords
	for w := range r.crowd[:words] {
		near[w] &= r.crowd[w]
		r.crowd[w] &^= near[w]
		rest = rest || r.crowd[w] != 0
	}
	if dense != 0 {
		r.sift(c, dense, p, m, false)
		for ; r.words < words; r.words++ {
			r.crowd[r.words] = 0
		}
	} else {
		if rest {
			r.giveSet(r.crowd[:r.words], p)
			clear(r.crowd[:words])
		}
		r.words, r.crowded = words, false
	}
	for w, b := range near[:words] {
		r.crowd[w] |= b
		r.crowded = r.crowded || b != 0
	}
}

// sift takes in the lanes of a dense cell, of whose run m units match: those of
// the crowd, or if all arrive, in the first run, everyone's. Who goes on is the
// crowd then.
func (r *reader) sift(c []atomic.Uint64, ref, p, m uint32, all bool) {
	words := denseWords(ref >> 28)
	lanes, reaches := lanesIn(c, ref), c[denseReaches].Load()
	r.roomFor(words)
	r.pause()
	left, stopped, outside := 0, [numGroups]uint64{}, uint64(0)
	out := r.stops[numGroups]
	for w := range words {
		sets := c[denseSets+setStride*w : denseSets+setStride*(w+1)]
		a, stay := ^uint64(0), uint64(0)
		if !all {
			if a = r.crowd[w]; a == 0 {
				out[w] = 0
				for k := range numGroups {
					r.stops[k][w] = 0
				}
				continue
			}
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
		for w := words; w < r.words; w++ {
			out[w] = r.crowd[w]
			outside |= out[w]
		}
	}
	if outside != 0 {
		r.giveSet(out[:max(words, r.words)], p)
	}
	for k := range numGroups {
		if stopped[k] != 0 {
			r.giveSet(r.stops[k][:words], p+groupReach(reaches, k))
		}
	}
	r.words, r.crowded = words, left > 0
	if words > nearWords && left <= words { // few: a list is quicker
		r.disperse()
	}
}

// roomFor makes the crowd so many words long at least.
func (r *reader) roomFor(words int) {
	for len(r.crowd) < words {
		r.crowd = append(r.crowd, 0)
	}
	for ; r.words < words; r.words++ {
		r.crowd[r.words] = 0
	}
	for k := range r.stops {
		if n := len(r.crowd) - len(r.stops[k]); n > 0 {
			r.stops[k] = append(r.stops[k], make([]uint64, n)...)
		}
	}
}

// disperse makes a list of the crowd, but for the first ids.
func (r *reader) disperse() {
	r.crowded = false
	for w, b := range r.crowd[:r.words] {
		if w < nearWords {
			r.crowded = r.crowded || b != 0
			continue
		}
		for ; b != 0; b &= b - 1 {
			r.pure = append(r.pure, uint32(w<<6+bits.TrailingZeros64(b)))
		}
	}
	r.words = min(r.words, nearWords)
}
