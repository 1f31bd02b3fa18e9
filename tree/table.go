package tree

import "math/bits"

// A table is cut into segments that grow one at a time, and are cut once more
// when they are large, so that growth never copies more than a small part of it at
// once.
const (
	fewSegments  = 32
	segmentStart = 8 // places of a segment when new
	segmentKept  = 64
	segmentCut   = 4096 // places of one that is cut instead of doubled
	cutBits      = 6    // bits of a hash that say into which part
	cutParts     = 1 << cutBits
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
	seg     []tableSegment
	largest int // places of the largest segment
	crowded int // segments that are hardly more than full
	meter   *meter
	shift   uint // a hash's bits from here on choose the segment
	live    int
}

// tableSegment is a part of a table: entries, or segments.
type tableSegment struct {
	entries []entry
	used    int // entries here, or in those it is cut into
	cut     []tableSegment
}

const segmentBytes = 56

func (t *table) init(seed uint64, segments int, m *meter) {
	t.seed, t.meter = seed, m
	t.seg = make([]tableSegment, segments)
	t.shift = uint(64 - bits.Len(uint(segments-1)))
}

// part is the segment that entries of a hash are in, and the one it is cut from,
// nil if it is not.
func (t *table) part(hash uint64) (s, whole *tableSegment) {
	s = &t.seg[hash>>t.shift]
	if s.cut == nil {
		return s, nil
	}
	return &s.cut[hash>>(t.shift-cutBits)&(cutParts-1)], s
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
	p, _ := t.part(hash)
	s := p.entries
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
	p, whole := t.part(h)
	if n := len(p.entries); (p.used+1)*4 > n*3 && t.meter.mayGrow(p.used, n, 16) {
		if whole == nil && n >= segmentCut && t.meter.room(n*16+cutParts*segmentBytes) {
			t.cutUp(p)
			if p, whole = t.part(h); (p.used+1)*4 > len(p.entries)*3 { // equal keys are all in one
				t.resize(p, 2*len(p.entries))
			}
		} else {
			t.resize(p, max(segmentStart, 2*n))
		}
	}
	put(p.entries, h, key, val)
	p.used++
	if whole != nil {
		whole.used++
	}
	t.crowded += nowCrowded(p.used, len(p.entries))
	t.live++
}

func put(s []entry, h, key, val uint64) {
	mask := uint64(len(s)) - 1
	for s[h&mask].val != 0 {
		h++
	}
	s[h&mask] = entry{key, val}
}

// resize makes a segment anew with so many places.
func (t *table) resize(p *tableSegment, size int) {
	old, s := p.entries, make([]entry, size)
	t.meter.bytes += (size - len(old)) * 16
	for _, e := range old {
		if e.val != 0 {
			put(s, t.hash(e.key, e.val>>tagShift), e.key, e.val)
		}
	}
	t.crowded += crowded(p.used, size) - crowded(p.used, len(old))
	p.entries = s
	t.measure(size, len(old))
}

// cutUp cuts a segment into parts that have twice its places together.
func (t *table) cutUp(p *tableSegment) {
	old := p.entries
	t.meter.bytes += len(old)*16 + cutParts*segmentBytes
	t.crowded -= crowded(p.used, len(old))
	p.entries, p.cut = nil, make([]tableSegment, cutParts)
	for i := range p.cut {
		p.cut[i].entries = make([]entry, 2*len(old)/cutParts)
	}
	for _, e := range old {
		if e.val == 0 {
			continue
		}
		h := t.hash(e.key, e.val>>tagShift)
		q, _ := t.part(h)
		if q.used+1 == len(q.entries) {
			t.resize(q, 2*len(q.entries))
		}
		put(q.entries, h, e.key, e.val)
		q.used++
		t.crowded += nowCrowded(q.used, len(q.entries))
	}
	t.measure(2*len(old)/cutParts, len(old))
}

// rejoin makes one of the parts of a segment that has become nearly empty.
func (t *table) rejoin(p *tableSegment) {
	parts, size := p.cut, segmentCut/4
	t.meter.bytes += size*16 - cutParts*segmentBytes
	p.cut, p.entries = nil, make([]entry, size)
	for i := range parts {
		q := &parts[i]
		t.meter.bytes -= len(q.entries) * 16
		t.crowded -= crowded(q.used, len(q.entries))
		for _, e := range q.entries {
			if e.val != 0 {
				put(p.entries, t.hash(e.key, e.val>>tagShift), e.key, e.val)
			}
		}
	}
	t.measure(size, t.largest)
}

// measure notes that a segment of so many places has come for one that had old.
func (t *table) measure(size, old int) {
	if t.largest = max(t.largest, size); size >= old {
		return
	}
	t.largest = 0
	for i := range t.seg {
		t.largest = max(t.largest, len(t.seg[i].entries))
		for k := range t.seg[i].cut {
			t.largest = max(t.largest, len(t.seg[i].cut[k].entries))
		}
	}
}

// remove takes away one entry with exactly this key and value.
func (t *table) remove(key, val uint64) bool {
	h := t.hash(key, val>>tagShift)
	p, whole := t.part(h)
	s := p.entries
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
	t.crowded -= nowCrowded(p.used, len(s))
	p.used--
	t.live--
	if whole != nil {
		if whole.used--; whole.used < segmentCut/16 {
			t.rejoin(whole)
			return true
		}
	}
	if sparse(p.used, len(s)) {
		t.resize(p, len(s)/2)
	}
	return true
}

// replace gives an entry another value with the same tag.
func (t *table) replace(key, old, val uint64) {
	h := t.hash(key, old>>tagShift)
	p, _ := t.part(h)
	s := p.entries
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
		n += cap(t.seg[i].entries)*16 + len(t.seg[i].cut)*segmentBytes
		for k := range t.seg[i].cut {
			n += cap(t.seg[i].cut[k].entries) * 16
		}
	}
	return n
}
