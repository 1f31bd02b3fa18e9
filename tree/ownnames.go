package tree

import "math/bits"

const (
	ownDouble   = 256  // lines that a segment has at most while it doubles
	ownKept     = 8    // lines that a table without names keeps at most
	ownWhole    = 8192 // lines that a table has at most before it is cut
	ownSegments = 64   // and what it is cut into
	ownCut      = 6    // the bits of a hash that say into which
)

// ownTable is the blocks that one holder calls by names of its own. Each such
// holder has a table for itself, small enough for the caches, so that an event,
// which is one holder's, finds in them what the events before it have left.
// See segment for how its entries lie.
//
// A table that has become large is cut into segments by the first bits of the
// hash, which grow one at a time: no growth makes anybody wait for long.
type ownTable struct {
	meter   *meter
	live    int
	whole   segment   // until it is cut
	cut     []segment // nil until then
	largest int       // lines of the largest segment
	crowded int       // segments that are hardly more than full
}

// names is how many names the table has; none of no table.
func (t *ownTable) names() int {
	if t == nil {
		return 0
	}
	return t.live
}

// segment is where entries of a hash are, and how many of its bits have told so.
func (t *ownTable) segment(hash uint64) (s *segment, told uint) {
	if t.cut == nil {
		return &t.whole, 0
	}
	return &t.cut[hash>>(64-ownCut)], ownCut
}

// first is the first entry that may be of the name with a hash, for the caller
// to compare, and where to look on for the next one; 0 if there is none.
func (t *ownTable) first(hash uint64) (e uint64, from int) {
	s, told := t.segment(hash)
	return s.first(hash, told)
}

// suspects is nameTable.suspects for at most maxHomes hashes.
func (t *ownTable) suspects(dst []uint8, hashes []uint64) (n int) {
	for j, h := range hashes {
		s, told := t.segment(h)
		if len(s.words) == 0 {
			continue
		}
		word := s.words[s.home(h, told)]
		dst[n] = uint8(j)
		n += int(-(passedBy(word, h) | lineMatch(word, h)) >> 63)
	}
	return n
}

// next is the first entry from a place on.
func (t *ownTable) next(hash uint64, from int) (e uint64, behind int) {
	s, told := t.segment(hash)
	return s.next(hash, from, told)
}

// line is where the search for a hash begins in memory, for fetchLines.
func (t *ownTable) line(hash uint64) uintptr {
	s, told := t.segment(hash)
	return s.line(hash, told)
}

// ask is nameTable.ask; seed is that of the hashes.
func (t *ownTable) ask(seed uint64, names []uint64, stride, n int) {
	switch {
	case n <= 0:
	case t.cut == nil:
		_ = names[(n-1)*stride]
		askOwn(&t.whole, seed, &names[0], stride, n)
	default:
		for i := range n {
			line := t.line(hashName(seed, names[i*stride]))
			fetchLines(&line, 1)
		}
	}
}

// add puts in one more block of a name.
func (t *ownTable) add(hash uint64, run uint32, pos int) {
	s, told := t.segment(hash)
	if s.full(3, 4) && (s.used+1 >= s.slots() || t.meter.room(moreLines(len(s.words)/lineWords)*lineWords*8)) {
		if t.cut == nil && len(s.words) >= ownWhole*lineWords {
			t.cutUp()
			s, told = t.segment(hash)
		} else {
			t.grow(s, told)
		}
	}
	s.put(makeEntry(hash, run, pos), told)
	t.crowded += nowCrowded(s.used, s.slots())
	t.live++
}

// addAll is add for blocks side by side, from a position of a run on.
func (t *ownTable) addAll(hashes []uint64, run uint32, pos int) {
	if s := &t.whole; t.cut == nil && (s.used+len(hashes))*4 <= s.slots()*3 {
		block := makeEntry(0, run, pos)
		for _, h := range hashes {
			if e := h&entryHash | block; putIn(line8(s.words, s.home(e, 0)), e) {
				s.used++
			} else {
				s.put(e, 0)
			}
			block++
		}
		t.live += len(hashes)
		return
	}
	for i, h := range hashes {
		t.add(h, run, pos+i)
	}
}

// addStrange is addAll for as many of the blocks, from the first on, as have
// names that are surely not in the table; returns how many those are.
func (t *ownTable) addStrange(hashes []uint64, run uint32, pos int) int {
	s := &t.whole
	if t.cut != nil || (s.used+len(hashes))*4 > s.slots()*3 {
		for j, h := range hashes {
			if e, _ := t.first(h); e != 0 {
				return j
			}
			t.add(h, run, pos+j)
		}
		return len(hashes)
	}
	block, n := makeEntry(0, run, pos), 0
	for n < len(hashes) {
		if n += putOwn(s, &hashes[n], len(hashes)-n, block+uint64(n)); n == len(hashes) {
			break
		}
		if !s.putStrange(hashes[n]&entryHash|(block+uint64(n)), 0) {
			break
		}
		n++
	}
	t.live += n
	return n
}

// grow gives a segment its next size: twice as large while small, then two steps
// to the double keep what nobody uses small.
func (t *ownTable) grow(s *segment, told uint) {
	t.crowded -= crowded(s.used, s.slots())
	t.resize(s, told, moreLines(len(s.words)/lineWords))
}

// moreLines is the next size of a segment.
func moreLines(lines int) int {
	switch {
	case lines == 0:
		return 1
	case lines < ownDouble:
		return 2 * lines
	case lines&(lines-1) == 0:
		return lines + lines/2
	}
	return lines + lines/3
}

// resize makes a segment anew with so many lines.
func (t *ownTable) resize(s *segment, told uint, lines int) {
	old := s.words
	s.words, s.used = make([]uint64, lines*lineWords), 0
	t.meter.bytes += (len(s.words) - len(old)) * 8
	t.largest = max(t.largest, lines)
	s.putAll(old, told)
}

// trim gives back places of segments that are used to less than a half, and
// reports whether there were any.
func (t *ownTable) trim() (any bool) {
	tight := func(s *segment, told uint) {
		if s.used*2 < s.slots() && len(s.words) > ownKept*lineWords {
			t.resize(s, told, max(ownKept, s.used*3/2/lineSlots+1))
			any = true
		}
	}
	tight(&t.whole, 0)
	for i := range t.cut {
		tight(&t.cut[i], ownCut)
	}
	return any
}

// cutUp cuts a table into segments, each as large as its part was.
func (t *ownTable) cutUp() {
	old := t.whole.words
	t.meter.bytes -= t.bytes()
	lines := (len(old)/lineWords + ownSegments - 1) / ownSegments // any number: see trim
	t.whole, t.crowded, t.largest = segment{}, 0, lines
	t.cut = make([]segment, ownSegments)
	for i := range t.cut {
		t.cut[i].words = make([]uint64, lines*lineWords)
	}
	t.meter.bytes += t.bytes()
	for i := 0; i < len(old); i += lineWords {
		for m := old[i] & lineTaken; m != 0; m &= m - 1 {
			e := old[i+1+bits.TrailingZeros64(m)>>3]
			s, told := t.segment(e)
			if s.used+1 == s.slots() {
				t.grow(s, told)
			}
			s.put(e, told)
		}
	}
	t.crowded = 0 // growing has counted segments that had not been
	for i := range t.cut {
		t.crowded += crowded(t.cut[i].used, t.cut[i].slots())
	}
}

// remove takes a block's entry away; false if there is none.
func (t *ownTable) remove(hash uint64, run uint32, pos int) bool {
	s, told := t.segment(hash)
	if !s.take(makeEntry(hash, run, pos), told) {
		return false
	}
	t.crowded -= nowCrowded(s.used+1, s.slots())
	if t.live--; sparse(s.used, s.slots()) {
		t.resize(s, told, len(s.words)/lineWords/2)
	}
	return true
}

// removeAll is remove for blocks side by side, from a position of a run on.
func (t *ownTable) removeAll(hashes []uint64, run uint32, pos int) {
	s := &t.whole
	if t.cut != nil || len(s.words) == 0 || sparse(s.used-len(hashes), s.slots()) {
		for i, h := range hashes {
			t.remove(h, run, pos+i)
		}
		return
	}
	block, was := makeEntry(0, run, pos), s.used
	for n := 0; n < len(hashes); n++ {
		if n += takeOwn(s, &hashes[n], len(hashes)-n, block+uint64(n)); n == len(hashes) {
			break
		}
		s.take(hashes[n]&entryHash|(block+uint64(n)), 0)
	}
	t.live -= was - s.used
	t.crowded -= crowded(was, s.slots()) - crowded(s.used, s.slots())
}

func (t *ownTable) bytes() int {
	n := cap(t.whole.words)
	for i := range t.cut {
		n += cap(t.cut[i].words)
	}
	return n*8 + cap(t.cut)*32
}

// spare is how many bytes n more names may charge, whatever their hashes: those
// of the lines that they are put into anew. A table that is fuller than seven
// eighths should grow, for its searches become long.
func (t *ownTable) spare(n int) int {
	lines := 0
	switch {
	case t == nil:
	case t.cut != nil:
		if t.crowded == 0 {
			return 0
		}
		return moreLines(t.largest) * lineWords * 8
	default:
		lines, n = len(t.whole.words)/lineWords, n+t.whole.used
		if n*8 < t.whole.slots()*7 {
			return 0
		}
	}
	for lines*lineSlots*7 <= n*8 {
		lines = moreLines(lines)
	}
	return lines * lineWords * 8
}
