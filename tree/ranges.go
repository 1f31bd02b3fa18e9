package tree

import "sync/atomic"

// Range is a run of units of a query that one holder holds, wherever it begins.
type Range struct {
	Holder     Holder
	Start, End int // units, End behind the last
}

// Ranger tells ranges: what holders hold of a query that need not begin at its
// root. It is one goroutine's, as a Reader is, and as little in anyone's way.
type Ranger interface {
	// Ranges appends to dst, for every visible holder that holds unit at of the
	// query in the view and has a name for it, the longest range around it. shards
	// says how many TP shards a holder has, 0 to leave it out. Views are ViewHost
	// and ViewDeviceHost; of others there are no ranges.
	Ranges(dst []Range, root Root, contents []uint64, v View, at int, shards func(Holder) int) []Range
	// Range is the same for one holder, with the names of the range, one a unit,
	// appended to dst: all of it was held, under these names, at one instant
	// during the call. ok is false if the holder has none, or changed too often.
	Range(dst []uint64, h Holder, root Root, contents []uint64, v View, at, shards int) (r Range, names []uint64, ok bool)
}

// Ranged is an index that can tell ranges: *Index, and the reference model.
type Ranged interface{ NewRanger() Ranger }

var _ Ranged = (*Index)(nil)

// ranger walks a query's path whoever holds it, and looks at rows of bits
// instead of reaches. It trusts the versions of runs as a reader does: whatever
// a holder that is shown loses in a run is taken from the row first, then the run's version
// moves, and only then anything else is done. So if no version on the path and
// no owner of a lane has changed, all bits that were seen set were set together.
type ranger struct {
	x     *Index
	path  []stage
	held  bitmap // of the run at hand: positions held in the view, with a name
	tiers [2]bitmap
}

// stage is one run on the path.
type stage struct {
	run     uint32
	off, n  int // units before it, and matched in it
	hd      []atomic.Uint64
	version uint64
}

// rangeTries is how often a walk that a writer disturbed is made anew.
const rangeTries = 16

// maxRows bounds how many rows a side record has: a list that is longer belongs
// to several lives of its memory.
const maxRows = int(NumTiers) * MaxShards

// NewRanger makes a ranger of the index.
func (x *Index) NewRanger() Ranger { return &ranger{x: x} }

// Ranges implements Ranger.
func (r *ranger) Ranges(dst []Range, root Root, contents []uint64, v View, at int, shards func(Holder) int) []Range {
	was := len(dst)
	if !ranged(v) {
		return dst
	}
	for range rangeTries {
		dst = dst[:was]
		epoch := r.x.epoch.Load()
		here := r.descend(root, contents, at)
		r.lanes(here, func(l lane, h Holder) {
			if n := shards(h); n > 0 {
				if found, ok := r.around(l, h, here, v, at, n); ok {
					dst = append(dst, found)
				}
			}
		})
		if r.undisturbed(epoch) {
			return dst
		}
	}
	return dst[:was]
}

// Range implements Ranger.
func (r *ranger) Range(dst []uint64, h Holder, root Root, contents []uint64, v View, at, shards int) (found Range, names []uint64, ok bool) {
	was := len(dst)
	if !ranged(v) || shards < 1 {
		return Range{}, dst, false
	}
	for range rangeTries {
		dst = dst[:was]
		epoch := r.x.epoch.Load()
		here := r.descend(root, contents, at)
		has := false
		r.lanes(here, func(l lane, of Holder) {
			if of == h && !has {
				found, has = r.around(l, h, here, v, at, shards)
			}
		})
		if has {
			dst = r.names(dst, h, found)
		}
		if r.undisturbed(epoch) {
			return found, dst, has && len(dst)-was == found.End-found.Start
		}
	}
	return Range{}, dst[:was], false
}

func ranged(v View) bool { return v == ViewHost || v == ViewDeviceHost }

// descend walks the query's path as far as it goes, and returns the stage that
// has unit at, nil if it does not go so far.
func (r *ranger) descend(root Root, contents []uint64, at int) *stage {
	x := r.x
	r.path = r.path[:0]
	if root > MaxRoot || at < 0 || at >= len(contents) {
		return nil
	}
	var here *stage
	link, p := makeLink(rootRun(root), 0), 0
	for p < len(contents) {
		run, hd := x.probe(mix(x.links.seed, link, contents[p]), link, contents[p])
		if run == 0 {
			break
		}
		w0 := hd[hVersion].Load()
		body, rest := hd[hBody:hBody+count(w0)], contents[p:]
		body = body[:min(len(body), len(rest))]
		m := agree(body, rest[:len(body)])
		if m == 0 || hd[hLink].Load() != link {
			break
		}
		r.path = append(r.path, stage{run: run, off: p, n: m, hd: hd, version: version(w0)})
		p += m
		if p < len(contents) && !childBit(hd, classOf(run), m) {
			break
		}
		link = makeLink(run, m)
	}
	for i := range r.path {
		if s := &r.path[i]; s.off <= at && at < s.off+s.n {
			here = s
		}
	}
	return here
}

// undisturbed reports whether nothing was lost on the path, and no holder
// changed, since the walk.
func (r *ranger) undisturbed(epoch uint64) bool {
	for i := range r.path {
		if s := &r.path[i]; version(s.hd[hVersion].Load()) != s.version {
			return false
		}
	}
	return r.x.epoch.Load() == epoch
}

// lanes calls visit for every lane of a run with a visible holder, if there is a
// run.
func (r *ranger) lanes(s *stage, visit func(l lane, h Holder)) {
	if s == nil {
		return
	}
	look := func(w uint64) {
		if l := lane(w); l != 0 {
			if h := r.x.ownerOf(l.id()); h != 0 {
				visit(l, h)
			}
		}
	}
	for i := hLane; i < hLane+inlineLanes; i++ {
		look(s.hd[i].Load())
	}
	outer := r.x.outer(s.hd)
	for i := range outer {
		look(outer[i].Load())
	}
}

// around is the longest range around unit at, which is in the stage here, where
// the holder's lane is l.
func (r *ranger) around(l lane, h Holder, here *stage, v View, at, shards int) (Range, bool) {
	r.look(l, here, v, shards)
	if !has(&r.held, at-here.off) {
		return Range{}, false
	}
	first := 0
	for i := range r.path {
		if &r.path[i] == here {
			first = i
		}
	}
	found := Range{Holder: h}
	lo, hi := at-here.off, at-here.off+1
	for lo > 0 && has(&r.held, lo-1) {
		lo--
	}
	for hi < here.n && has(&r.held, hi) {
		hi++
	}
	found.Start, found.End = here.off+lo, here.off+hi
	for i := first - 1; i >= 0 && found.Start == r.path[i].off+r.path[i].n; i-- {
		s := &r.path[i]
		r.look(r.x.laneOf(s.hd, h, l.id()), s, v, shards)
		for lo = s.n; lo > 0 && has(&r.held, lo-1); {
			lo--
		}
		found.Start = s.off + lo
	}
	for i := first + 1; i < len(r.path) && found.End == r.path[i].off; i++ {
		s := &r.path[i]
		r.look(r.x.laneOf(s.hd, h, l.id()), s, v, shards)
		for hi = 0; hi < s.n && has(&r.held, hi); {
			hi++
		}
		found.End = s.off + hi
	}
	// Of one that has been dropped or cleared meanwhile not all was there.
	return found, r.x.ownerOf(l.id()) == h
}

func has(b *bitmap, pos int) bool { return b[pos>>6]>>(pos&63)&1 != 0 }

// look notes which of a run's matched positions a lane holds in a view, on every
// TP shard and under one name.
func (r *ranger) look(l lane, s *stage, v View, shards int) {
	words := (s.n + 63) >> 6
	clear(r.held[:words])
	if l == 0 {
		return
	}
	if l.plain() {
		n := 0
		if t := l.tier(); shards == 1 && (t == Host || t == Device && v == ViewDeviceHost) {
			n = min(l.reach(), s.n)
		}
		for i := range words {
			r.held[i] = ones(n - i<<6)
		}
		return
	}
	class := classOf(s.run)
	var seen [2]int // rows of Device and Host
	for k, ref := 0, uint32(r.x.side(l.ref())[sRows].Load()); ref != 0 && k < maxRows; k++ {
		w := r.x.planes[planeOf(class)].seen(ref)
		if w == nil {
			return // the record is another run's by now, and the version tells
		}
		head := w[0].Load()
		if t := rowTier(head); t == Host || t == Device && v == ViewDeviceHost {
			for i := range min(words, len(w)-1) {
				if bits := w[1+i].Load(); seen[t] == 0 {
					r.tiers[t][i] = bits
				} else {
					r.tiers[t][i] &= bits
				}
			}
			seen[t]++
		}
		ref = uint32(head)
	}
	for t := range seen {
		for i := 0; seen[t] == shards && i < words; i++ {
			r.held[i] |= r.tiers[t][i]
		}
	}
	if ref := uint32(r.x.side(l.ref())[sNameless].Load()); l.own() && ref != 0 {
		w := r.x.planes[planeOf(class)].seen(ref)
		for i := range min(words, len(w)-1) {
			r.held[i] &^= w[1+i].Load()
		}
	}
	r.held[words-1] &= ones(s.n - (words-1)<<6)
}

// ones is a word whose lowest n bits are set.
func ones(n int) uint64 {
	switch {
	case n <= 0:
		return 0
	case n >= 64:
		return ^uint64(0)
	}
	return 1<<n - 1
}

// names appends the names of a range.
func (r *ranger) names(dst []uint64, h Holder, of Range) []uint64 {
	for i := range r.path {
		s := &r.path[i]
		lo, hi := max(of.Start-s.off, 0), min(of.End-s.off, s.n)
		if lo >= hi {
			continue
		}
		l := r.x.laneOf(s.hd, h, 0)
		if l == 0 {
			return dst
		}
		class := classOf(s.run)
		names := sharedNames(s.hd, class)
		if l.own() {
			if names = r.x.ownNames(l); len(names) < hi {
				return dst // names of another time than the range
			}
		}
		for p := lo; p < hi; p++ {
			dst = append(dst, names[p].Load())
		}
	}
	return dst
}
