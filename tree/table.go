package tree

import "math/bits"

// A table is cut into segments that grow one at a time, so that growth never
// copies more than a small part of it at once.
const (
	fewSegments  = 32
	segmentStart = 8 // entries of a segment when new
	segmentKept  = 64
)

// sparse reports whether a segment of so many places has become much too large
// for what is used of them: it is given back by halves, each long before it
// would have to grow again. Small ones stay.
func sparse(used, size int) bool { return used*8 < size && size > segmentKept }

// entry is a key with one value. A value is never zero: zero marks a free place.
// Its top 15 bits are a tag that is hashed with the key.
type entry struct{ key, val uint64 }

const tagShift = 49

// table is a multimap of words, the writer's own: no reader ever looks into
// it. Open addressing with linear probing; a deletion closes the gap behind
// it, so that there are no tombstones and churn costs nothing later.
type table struct {
	seed    uint64
	seg     [][]entry
	used    []int32
	largest int // entries of the largest segment
	crowded int // segments that are hardly more than full
	meter   *meter
	shift   uint // a hash's bits from here on choose the segment
	live    int
}

func (t *table) init(seed uint64, segments int, m *meter) {
	t.seed, t.meter = seed, m
	t.seg, t.used = make([][]entry, segments), make([]int32, segments)
	t.shift = uint(64 - bits.Len(uint(segments-1)))
}

// mix spreads two words over 64 bits. The seed is drawn per process, so that
// nobody outside can aim at one bucket.
func mix(seed, a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^seed, 0x9e3779b97f4a7c15^bits.RotateLeft64(b*0xd6e8feb86659fd93, 32))
	return hi ^ lo ^ b
}

func (t *table) hash(key, tag uint64) uint64 { return mix(t.seed, key, tag) }

// next goes on with the search for a key and tag at place i, which begins at
// their hash, and returns the next value and the place behind it; 0 when there
// are no more.
func (t *table) next(hash, i, key, tag uint64) (val, behind uint64) {
	s := t.seg[hash>>t.shift]
	if len(s) == 0 {
		return 0, i
	}
	mask := uint64(len(s)) - 1
	for {
		e := &s[i&mask]
		if e.val == 0 {
			return 0, i
		}
		i++
		if e.key == key && e.val>>tagShift == tag {
			return e.val, i
		}
	}
}

// first is the first value of a key and tag, 0 if there is none.
func (t *table) first(key, tag uint64) uint64 {
	h := t.hash(key, tag)
	v, _ := t.next(h, h, key, tag)
	return v
}

// add puts in one more value of the key; the tag is the value's top bits.
func (t *table) add(key, val uint64) {
	h := t.hash(key, val>>tagShift)
	n := h >> t.shift
	if s := t.seg[n]; (int(t.used[n])+1)*4 > len(s)*3 && t.meter.mayGrow(int(t.used[n]), len(s), 16) {
		t.grow(n)
	}
	put(t.seg[n], h, key, val)
	t.used[n]++
	t.crowded += nowCrowded(int(t.used[n]), len(t.seg[n]))
	t.live++
}

func put(s []entry, h, key, val uint64) {
	mask := uint64(len(s)) - 1
	for s[h&mask].val != 0 {
		h++
	}
	s[h&mask] = entry{key, val}
}

func (t *table) grow(n uint64) {
	old := t.seg[n]
	t.crowded -= crowded(int(t.used[n]), len(old))
	t.resize(n, max(segmentStart, 2*len(old)))
}

// resize makes a segment anew with so many places.
func (t *table) resize(n uint64, size int) {
	old, s := t.seg[n], make([]entry, size)
	t.meter.bytes += (size - len(old)) * 16
	for _, e := range old {
		if e.val != 0 {
			put(s, t.hash(e.key, e.val>>tagShift), e.key, e.val)
		}
	}
	t.seg[n] = s
	if t.largest = max(t.largest, size); size < len(old) {
		t.largest = 0
		for i := range t.seg {
			t.largest = max(t.largest, len(t.seg[i]))
		}
	}
}

// remove takes away one entry with exactly this key and value.
func (t *table) remove(key, val uint64) bool {
	h := t.hash(key, val>>tagShift)
	n := h >> t.shift
	s := t.seg[n]
	if len(s) == 0 {
		return false
	}
	mask := uint64(len(s)) - 1
	for ; ; h++ {
		e := s[h&mask]
		if e.val == 0 {
			return false
		}
		if e.key == key && e.val == val {
			break
		}
	}
	hole := h & mask
	for i := hole; ; {
		i = (i + 1) & mask
		e := s[i]
		if e.val == 0 {
			break
		}
		home := t.hash(e.key, e.val>>tagShift) & mask
		if (i-home)&mask >= (i-hole)&mask { // the hole lies on this entry's way
			s[hole] = e
			hole = i
		}
	}
	s[hole] = entry{}
	t.crowded -= nowCrowded(int(t.used[n]), len(s))
	t.used[n]--
	t.live--
	if sparse(int(t.used[n]), len(s)) {
		t.resize(n, len(s)/2)
	}
	return true
}

// replace gives an entry another value with the same tag.
func (t *table) replace(key, old, val uint64) {
	h := t.hash(key, old>>tagShift)
	s := t.seg[h>>t.shift]
	mask := uint64(len(s)) - 1
	for ; ; h++ {
		e := &s[h&mask]
		if e.key == key && e.val == old {
			e.val = val
			return
		}
	}
}

func (t *table) bytes() int {
	n := 0
	for i := range t.seg {
		n += cap(t.seg[i]) * 16
	}
	return n
}
