package tree

import (
	"math/bits"
	"sync/atomic"
)

// A run is consecutive blocks of one path, contents and names side by side in
// two arrays. Its id says its size class, so that a reader finds header and
// body from the id alone.
//
//	word  header                                   who writes when
//	w0    version 48, count 16                     lowering, trim, unlink: version+1; see settle
//	w1    link: 1, offset 15, parent run 32        at birth and death
//	w2    children 32, cell 32                     lanes past the third; see merge.go
//	w3–5  three lanes                              any change of a holder here
//	w6    child bits 32, named bits 32             caps up to 32
//	      last child's offset 32, first one's 32   larger ones: bits lie behind the names
//	w7    writer's own: children, holders, twin, last
//	body  content[cap], name[cap], then for caps from 64 on
//	      child bits[cap/64], named bits[cap/64]
const (
	hVersion = 0
	hLink    = 1
	hCell    = 2
	hLane    = 3
	hBits    = 6
	hMeta    = 7
	hBody    = 8

	inlineLanes = 3
	classes     = 10
	maxCap      = 4 << (classes - 1) // 2,048: a reach fits 12 bits
	maxWords    = maxCap / 64

	rootClass = 15 // the id of a root is one of this class
	countBits = 16
	version1  = 1 << countBits // one version
)

// bitmap is a set of positions of one run.
type bitmap [maxWords]uint64

func classOf(id uint32) uint32  { return id >> 28 }
func capOf(class uint32) int    { return 4 << class }
func rootRun(r Root) uint32     { return rootClass<<28 | uint32(r) }
func isRoot(id uint32) bool     { return id>>28 == rootClass }
func wordsOf(class uint32) int  { return max(1, capOf(class)/64) }
func count(w0 uint64) int       { return int(w0 & (version1 - 1)) }
func version(w0 uint64) uint64  { return w0 >> countBits }
func planeOf(class uint32) int  { return max(0, int(class)-4) } // which plane slab
func strideOf(class uint32) int { return (hBody + 2*capOf(class) + extraWords(class) + 7) &^ 7 }

func extraWords(class uint32) int {
	if class <= 3 {
		return 0
	}
	return 2 * wordsOf(class)
}

// makeLink says where a run hangs: behind the first off positions of parent.
func makeLink(parent uint32, off int) uint64 {
	return 1<<63 | uint64(off)<<32 | uint64(parent)
}

func linkParent(link uint64) uint32 { return uint32(link) }
func linkOffset(link uint64) int    { return int(link >> 32 & 0x7fffffff) }

// run returns header and body of a run.
func (x *Index) run(id uint32) []atomic.Uint64 {
	return x.runs[id>>28].at(id & (1<<28 - 1))
}

// classFor picks the size of a run that shall take n more blocks: up while
// small or if more than three quarters would be used, else down.
func classFor(n int) uint32 {
	if n <= 4 {
		return 0
	}
	up := uint32(bits.Len(uint(n-1))) - 2
	if up >= classes {
		return classes - 1
	}
	if up > 2 && n*4 <= capOf(up)*3 {
		return up - 1
	}
	return up
}

// childBit reports whether some run hangs at offset off (1 … cap). In long runs the
// header mostly tells, so that nobody need look behind the names. Any goroutine.
func childBit(hd []atomic.Uint64, class uint32, off int) bool {
	w := hd[hBits].Load()
	if class <= 3 {
		return w>>(off-1)&1 != 0
	}
	switch first, last := int(uint32(w)), int(w>>32); {
	case off == first || off == last:
		return true
	case off < first || off > last:
		return false
	}
	return hd[hBody+2*capOf(class)+(off-1)>>6].Load()>>((off-1)&63)&1 != 0
}

// firstChild is the smallest offset at which a run hangs, or 0; lastChild the
// largest. Any goroutine.
func firstChild(hd []atomic.Uint64, class uint32) int {
	w := uint32(hd[hBits].Load())
	if class > 3 || w == 0 {
		return int(w)
	}
	return bits.TrailingZeros32(w) + 1
}

func lastChild(hd []atomic.Uint64, class uint32) int {
	w := hd[hBits].Load()
	if class > 3 {
		return int(w >> 32)
	}
	return bits.Len32(uint32(w))
}

func setChildBit(hd []atomic.Uint64, class uint32, off int, on bool) {
	w, b := &hd[hBits], uint64(1)<<(off-1)
	if class > 3 {
		w, b = &hd[hBody+2*capOf(class)+(off-1)>>6], 1<<((off-1)&63)
	}
	if on {
		w.Store(w.Load() | b)
	} else {
		w.Store(w.Load() &^ b)
	}
	if class > 3 {
		noteChildren(hd, class, off, on)
	}
}

// noteChildren brings up to date what the header of a long run says of its children,
// of which the first at an offset has come or the last there has gone.
func noteChildren(hd []atomic.Uint64, class uint32, off int, on bool) {
	w := hd[hBits].Load()
	first, last := int(uint32(w)), int(w>>32)
	switch {
	case on && first == 0:
		first, last = off, off
	case on:
		first, last = min(first, off), max(last, off)
	case first == last:
		first, last = 0, 0
	default:
		all := hd[hBody+2*capOf(class) : hBody+2*capOf(class)+wordsOf(class)]
		if off == first {
			i := (off - 1) >> 6
			for all[i].Load() == 0 {
				i++
			}
			first = i<<6 + bits.TrailingZeros64(all[i].Load()) + 1
		}
		if off == last {
			i := (off - 1) >> 6
			for all[i].Load() == 0 {
				i--
			}
			last = i<<6 + bits.Len64(all[i].Load())
		}
	}
	hd[hBits].Store(uint64(last)<<32 | uint64(first))
}

// named reports whether the name at a position is a shared one, that is valid
// and in the name table. The writer's own.
func named(hd []atomic.Uint64, class uint32, pos int) bool {
	if class <= 3 {
		return hd[hBits].Load()>>(32+pos)&1 != 0
	}
	return hd[hBody+2*capOf(class)+wordsOf(class)+pos>>6].Load()>>(pos&63)&1 != 0
}

// namedWord is the named bits of positions 64w and on; clearNamed clears some.
func namedWord(hd []atomic.Uint64, class uint32, w int) uint64 {
	if class <= 3 {
		return hd[hBits].Load() >> 32
	}
	return hd[hBody+2*capOf(class)+wordsOf(class)+w].Load()
}

func clearNamed(hd []atomic.Uint64, class uint32, w int, gone uint64) {
	p := &hd[hBits]
	if class <= 3 {
		gone <<= 32
	} else {
		p = &hd[hBody+2*capOf(class)+wordsOf(class)+w]
	}
	p.Store(p.Load() &^ gone)
}

func setNamed(hd []atomic.Uint64, class uint32, lo, hi int) {
	for p := lo; p < hi; {
		w, at, end := &hd[hBits], 32+p, min(hi, 32)
		if class > 3 {
			w, at, end = &hd[hBody+2*capOf(class)+wordsOf(class)+p>>6], p&63, min(hi, (p|63)+1)
		}
		w.Store(w.Load() | (^uint64(0)>>(64-(end-p)))<<at)
		p = end
	}
}

// allNamed reports whether every position of [lo, hi) has a shared name.
func allNamed(hd []atomic.Uint64, class uint32, lo, hi int) bool {
	for p := lo; p < hi; {
		w, at, end := hd[hBits].Load(), 32+p, min(hi, 32)
		if class > 3 {
			w, at, end = hd[hBody+2*capOf(class)+wordsOf(class)+p>>6].Load(), p&63, min(hi, (p|63)+1)
		}
		m := (^uint64(0) >> (64 - (end - p))) << at
		if w&m != m {
			return false
		}
		p = end
	}
	return true
}

// meta is the writer's word of a run.
type meta uint64

func (m meta) children() int { return int(m & 0xffffff) }
func (m meta) holders() int  { return int(m >> 24 & 0xffff) }
func (m meta) twin() bool    { return m&metaTwin != 0 }

// last: the run hangs where the one before it ends, or did so once. What does not
// hang there never has, so that need not be looked at to know that.
func (m meta) last() bool { return m&metaLast != 0 }

const (
	metaChild  = 1
	metaHolder = 1 << 24
	metaTwin   = 1 << 40
	metaLast   = 1 << 41
)

func metaOf(hd []atomic.Uint64) meta { return meta(hd[hMeta].Load()) }

// sharedNames is the second array of a run.
func sharedNames(hd []atomic.Uint64, class uint32) []atomic.Uint64 {
	c := capOf(class)
	return hd[hBody+c : hBody+2*c]
}

// nothing is what a new run's header and bits are.
var nothing [max(hBody, 2*maxWords)]uint64

// newRun makes an unlinked, empty run. Readers cannot reach it yet, but one
// that remembers the id from an earlier life sees another version.
func (x *Index) newRun(class uint32) uint32 {
	s := &x.runs[class]
	idx := s.alloc()
	hd := s.at(idx)
	hd[hVersion].Store((version(hd[hVersion].Load()) + 1) << countBits)
	fillUnseen(hd[hVersion+1:hBody], nothing[:], 1)
	if n := extraWords(class); n > 0 {
		fillUnseen(hd[hBody+2*capOf(class):hBody+2*capOf(class)+n], nothing[:], 1)
	}
	return class<<28 | idx
}

// linkRun hangs run id, which has its first blocks, behind the first off
// positions of parent: run, then child table, then child bit, so that who sees
// the later sees the earlier.
func (x *Index) linkRun(id, parent uint32, off int) {
	hd := x.run(id)
	link := makeLink(parent, off)
	hd[hLink].Store(link)
	x.mark(stepLink)
	x.links.add(link, hd[hBody].Load(), id)
	x.mark(stepLink)
	if isRoot(parent) {
		return
	}
	ph, class := x.run(parent), classOf(parent)
	m := metaOf(ph) + metaChild
	ph[hMeta].Store(uint64(m))
	joinChild(ph, id)
	if off == count(ph[hVersion].Load()) {
		hd[hMeta].Store(hd[hMeta].Load() | metaLast)
	}
	if childBit(ph, class, off) {
		key := uint64(parent)<<16 | uint64(off)
		if v := x.siblings.first(key, 0); v != 0 {
			x.siblings.replace(key, v, v+1)
		} else {
			x.siblings.add(key, plainVal|1)
		}
	} else {
		setChildBit(ph, class, off, true)
	}
	x.mark(stepLink)
}

// unlinkRun takes a run without holders and children out of the trie and frees
// it; returns the parent, which may have lost its reason to be. Child table,
// link, version, free list: a reader is stopped at one of them.
func (x *Index) unlinkRun(id uint32) uint32 {
	hd := x.run(id)
	link := hd[hLink].Load()
	parent, off := linkParent(link), linkOffset(link)
	x.links.remove(link, hd[hBody].Load(), id)
	x.mark(stepUnlink)
	if !isRoot(parent) {
		ph, class := x.run(parent), classOf(parent)
		key := uint64(parent)<<16 | uint64(off)
		switch v := x.siblings.first(key, 0); {
		case v == 0:
			setChildBit(ph, class, off, false)
		case v == plainVal|1:
			x.siblings.remove(key, v)
		default:
			x.siblings.replace(key, v, v-1)
		}
		ph[hMeta].Store(uint64(metaOf(ph) - metaChild))
		joinChild(ph, id)
	}
	hd[hLink].Store(0)
	x.mark(stepUnlink)
	hd[hVersion].Store((version(hd[hVersion].Load()) + 1) << countBits)
	x.mark(stepUnlink)
	if cell := uint32(hd[hCell].Load()); cell != 0 {
		hd[hCell].Store(0) // stale entries of logs still lead here
		x.freeCell(cell)
	}
	x.runs[classOf(id)].release(id & (1<<28 - 1))
	return parent
}

// settle tells readers of the lowering of a lane before it, by the version of its
// run, and brings the run's count down to what still has a reason if its end has
// lost one: blocks held by someone, or children behind them. Runs without any
// reason are freed, and their parents looked at, whose versions need not move for
// that: a child that is gone tells of it by its own.
//
// What a cleared holder loses is no news to readers, who are not told of it any
// more, unless a place comes free that they may be looking at.
func (x *Index) settle(id uint32, l lane, d death) {
	if d == noneDied && l.plain() && !l.own() && x.lanes[l.id()].retired {
		return
	}
	for lowered := true; !isRoot(id); lowered = false {
		hd := x.run(id)
		w0 := hd[hVersion].Load()
		n := count(w0)
		if d == endDied {
			n = min(n, max(lastChild(hd, classOf(id)), x.covered(id, hd)))
		}
		if lowered || n < count(w0) {
			hd[hVersion].Store((version(w0)+1)<<countBits | uint64(n))
			x.mark(stepVersion)
		}
		m := metaOf(hd)
		if d == endDied && n > 0 {
			switch m.children() {
			case 0:
				x.noteShrunk(id, n)
			case 1:
				x.noteLonely(id, hd)
			}
		}
		if n > 0 || m.children() > 0 || m.holders() > 0 || hd[hLink].Load() == 0 {
			return
		}
		id, d = x.unlinkRun(id), endDied
	}
}
