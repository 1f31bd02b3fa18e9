package tree

import (
	"math/bits"
	"unsafe"
)

const (
	nameSegments = 256
	nameStart    = 8      // entries of a segment when new
	nameSegment  = 64 - 8 // a hash's bits from here on choose the segment
	nameTag      = 43
	nameTagMask  = 1<<(64-nameTag) - 1
	namePos      = 11
)

// nameTable is E: the blocks that are called by a name which all their holders
// share. It is the writer's own: no reader ever looks into it.
//
// An entry is one word; the name itself stands in the run, so that the table is
// half as large and a name nobody knows is told by one line of memory:
//
//	21 bits of the name's hash | run 32 | position 11
//
// The bits of the hash choose the place in the segment, so that nothing has to
// be hashed again when a segment grows or a gap is closed; what the place does
// not use of them tells other names apart before their runs are looked at. The
// hash's top bits choose the segment. Open addressing with linear probing; a
// deletion closes the gap behind it. An entry is never zero: a run's number is
// not.
type nameTable struct {
	seed uint64
	seg  [][]uint64
	used []int32
	live int
	// grown is how often a segment was made anew: what was learned of a place
	// before then is void.
	grown   int
	largest int // entries of the largest segment
	meter   *meter
}

func (t *nameTable) init(seed uint64, m *meter) {
	t.seed, t.meter = seed, m
	t.seg, t.used = make([][]uint64, nameSegments), make([]int32, nameSegments)
}

func (t *nameTable) hash(name uint64) uint64 {
	hi, lo := bits.Mul64(name^t.seed, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// nameEntry is the entry of a block whose name has a hash.
func nameEntry(hash uint64, run uint32, pos int) uint64 {
	return hash<<nameTag | uint64(run)<<namePos | uint64(pos)
}

func entryRun(e uint64) uint32 { return uint32(e >> namePos) }
func entryPos(e uint64) int    { return int(e & (1<<namePos - 1)) }

// home is where the search for a name of this hash begins.
func home(hash uint64) uint64 { return hash & nameTagMask }

// next goes on with the search for a hash at place i, and returns the first
// entry that may be of the name, for the caller to compare, and the place
// behind it; or 0, and the free place where the search ends. It returns two
// words, not a cursor: one would be written in parts and read whole, for which
// processors make the reader wait.
func (t *nameTable) next(hash, i uint64) (e, behind uint64) {
	s := t.seg[hash>>nameSegment]
	if len(s) == 0 {
		return 0, i
	}
	mask, tag := uint64(len(s))-1, hash&nameTagMask
	for {
		e := s[i&mask]
		if e == 0 {
			return 0, i
		}
		i++
		if e>>nameTag == tag {
			return e, i
		}
	}
}

// line is where the search for a hash begins in memory, for fetchLines; 0 if
// there is nothing to search.
func (t *nameTable) line(hash uint64) uintptr {
	s := t.seg[hash>>nameSegment]
	if len(s) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&s[home(hash)&(uint64(len(s))-1)]))
}

// add puts in one more block of a name.
func (t *nameTable) add(hash uint64, run uint32, pos int) {
	n := hash >> nameSegment
	s := t.seg[n]
	if (int(t.used[n])+1)*8 > len(s)*5 && t.meter.mayGrow(int(t.used[n]), len(s), 8) {
		s = t.grow(n)
	}
	putName(s, nameEntry(hash, run, pos))
	t.used[n]++
	t.live++
}

// addAt is add where the search for the name has ended at a free place, and no
// segment has grown since.
func (t *nameTable) addAt(hash, free uint64, run uint32, pos int) {
	n := hash >> nameSegment
	s := t.seg[n]
	if i := free & (uint64(len(s)) - 1); (int(t.used[n])+1)*8 <= len(s)*5 && s[i] == 0 {
		s[i] = nameEntry(hash, run, pos)
		t.used[n]++
		t.live++
		return
	}
	t.add(hash, run, pos)
}

func putName(s []uint64, e uint64) {
	mask := uint64(len(s)) - 1
	i := e >> nameTag
	for s[i&mask] != 0 {
		i++
	}
	s[i&mask] = e
}

func (t *nameTable) grow(n uint64) []uint64 { return t.resize(n, max(nameStart, 2*len(t.seg[n]))) }

// resize makes a segment anew with so many places.
func (t *nameTable) resize(n uint64, size int) []uint64 {
	old, s := t.seg[n], make([]uint64, size)
	t.meter.bytes += (size - len(old)) * 8
	for _, e := range old {
		if e != 0 {
			putName(s, e)
		}
	}
	t.seg[n] = s
	t.grown++
	t.largest = max(t.largest, len(s))
	return s
}

// remove takes a block's entry away.
func (t *nameTable) remove(hash uint64, run uint32, pos int) {
	n := hash >> nameSegment
	s := t.seg[n]
	mask := uint64(len(s)) - 1
	e := nameEntry(hash, run, pos)
	i := e >> nameTag
	for s[i&mask] != e {
		i++
	}
	hole := i & mask
	for i = hole; ; {
		i = (i + 1) & mask
		e := s[i]
		if e == 0 {
			break
		}
		home := e >> nameTag & mask
		if (i-home)&mask >= (i-hole)&mask { // the hole lies on this entry's way
			s[hole] = e
			hole = i
		}
	}
	s[hole] = 0
	t.used[n]--
	if t.live--; sparse(int(t.used[n]), len(s)) {
		t.resize(n, len(s)/2)
	}
}

func (t *nameTable) bytes() int {
	n := 0
	for i := range t.seg {
		n += cap(t.seg[i]) * 8
	}
	return n
}
