package tree

import (
	"math/bits"
	"unsafe"
)

const (
	ownLine     = 8    // words of a line
	ownSlots    = 7    // entries of a line
	ownDouble   = 64   // lines that a segment has at most while it doubles
	ownKept     = 8    // lines that a table without names keeps at most
	ownWhole    = 8192 // lines that a table has at most before it is cut
	ownSegments = 64   // and what it is cut into
	ownCut      = 6    // the bits of a hash that say into which

	ownTag   = 37 // an entry's bits from here on are the hash's
	ownHash  = ^uint64(1<<ownTag - 1)
	ownClass = 33
	ownBlock = 1<<ownClass - 1

	ownOnes   = 0x01010101010101 // 1 in the byte of each slot
	ownTaken  = ownOnes << 7
	ownPassed = 1 << 56 // one entry that found a line full
	ownMany   = 255     // and so many that nobody counts them any more
)

// ownTable is the blocks that one holder calls by names of its own. Each such
// holder has a table for itself, small enough for the caches, so that an event,
// which is one holder's, finds in them what the events before it have left.
//
// It is made of lines of memory, and all but few look-ups touch one: a word
// that says what is in the line's seven slots, and an entry in each.
//
//	line   passed 8 | seven times: taken 1, 7 bits of the name's hash
//	entry  27 bits of the name's hash | class of the run 4 | block 33
//
// The name itself stands in the holder's names of the run; a block is numbered
// in its class, index of the run × capacity + position. The first bits of the
// hash say the line, scaled to how many there are, so that entries lie about in
// the order of their hashes, a larger table is written from front to back, and
// the number of lines need not be a power of two. Who finds a line full goes on
// to the next, and passed counts those who did: where it is zero, a search ends.
// Once it has come to 255 it stays there until the table grows, or goes with its
// last name.
//
// A table that has become large is cut into segments by the first bits of the
// hash, which grow one at a time: no growth makes anybody wait for long.
type ownTable struct {
	meter   *meter
	live    int
	whole   ownSegment   // until it is cut
	cut     []ownSegment // nil until then
	largest int          // lines of the largest segment
	crowded int          // segments that are hardly more than full
}

type ownSegment struct {
	words []uint64
	used  int
}

// ownEntry is the entry of a block whose name has a hash.
func ownEntry(hash uint64, run uint32, pos int) uint64 {
	class := classOf(run)
	block := uint64(run&(1<<28-1))<<(class+2) | uint64(pos)
	return hash&ownHash | uint64(class)<<ownClass | block
}

func ownRun(e uint64) uint32 {
	class := uint32(e >> ownClass & 15)
	return class<<28 | uint32(e&ownBlock>>(class+2))
}

func ownPos(e uint64) int {
	class := uint32(e >> ownClass & 15)
	return int(e & (4<<class - 1))
}

// ownMark is the byte of a slot that is taken by an entry of a hash.
func ownMark(hash uint64) uint64 { return hash>>ownTag&0x7f | 0x80 }

// ownMatch finds the slots of a line that may hold an entry of a hash: bit 7 of
// the byte of each.
func ownMatch(word, hash uint64) uint64 {
	x := word ^ ownMark(hash)*ownOnes
	return ^(x&(ownTaken-ownOnes) + (ownTaken - ownOnes) | x) & ownTaken
}

// slots is how many entries a segment has room for.
func (s *ownSegment) slots() int { return len(s.words) / ownLine * ownSlots }

// home is the first word of the line where the search for a hash, or for an
// entry, begins. told is how many of its bits have led to the segment.
func (s *ownSegment) home(hash uint64, told uint) int {
	line, _ := bits.Mul64(hash&ownHash<<told, uint64(len(s.words)/ownLine))
	return int(line) * ownLine
}

// after is the first word of the line behind the one that begins at i.
func (s *ownSegment) after(i int) int {
	if i += ownLine; i < len(s.words) {
		return i
	}
	return 0
}

// put puts an entry into the first line that has room for it.
func (s *ownSegment) put(e uint64, told uint) {
	for i := s.home(e, told); ; i = s.after(i) {
		line := s.words[i : i+ownLine : i+ownLine]
		if free := ^line[0] & ownTaken; free != 0 {
			b := bits.TrailingZeros64(free) &^ 7
			line[0] |= ownMark(e) << b
			line[1+b>>3&7] = e
			s.used++
			return
		}
		if line[0]>>56 < ownMany {
			line[0] += ownPassed
		}
	}
}

// take takes an entry away; false if it is not there.
func (s *ownSegment) take(e uint64, told uint) bool {
	if len(s.words) == 0 {
		return false
	}
	home := s.home(e, told)
	for i := home; ; {
		line := s.words[i : i+ownLine : i+ownLine]
		for m := ownMatch(line[0], e); m != 0; m &= m - 1 {
			b := bits.TrailingZeros64(m) &^ 7
			if line[1+b>>3&7] != e {
				continue
			}
			line[0] &^= 0xff << b
			s.used--
			for k := home; k != i; k = s.after(k) {
				if s.words[k]>>56 < ownMany {
					s.words[k] -= ownPassed
				}
			}
			return true
		}
		if line[0]>>56 == 0 {
			return false
		}
		if i = s.after(i); i == home {
			return false
		}
	}
}

// names is how many names the table has; none of no table.
func (t *ownTable) names() int {
	if t == nil {
		return 0
	}
	return t.live
}

// segment is where entries of a hash are, and how many of its bits have told so.
func (t *ownTable) segment(hash uint64) (s *ownSegment, told uint) {
	if t.cut == nil {
		return &t.whole, 0
	}
	return &t.cut[hash>>(64-ownCut)], ownCut
}

// first is the first entry that may be of the name with a hash, for the caller
// to compare, and where to look on for the next one; 0 if there is none.
func (t *ownTable) first(hash uint64) (e uint64, from int) {
	s, told := t.segment(hash)
	if len(s.words) == 0 {
		return 0, 0
	}
	i := s.home(hash, told)
	if word := s.words[i]; word>>56|ownMatch(word, hash) == 0 {
		return 0, 0
	}
	return t.next(hash, i)
}

// next is the first entry from a place on.
func (t *ownTable) next(hash uint64, from int) (e uint64, behind int) {
	s, told := t.segment(hash)
	i, skip := from&^(ownLine-1), from&(ownLine-1)
	for {
		line := s.words[i : i+ownLine : i+ownLine]
		for m := ownMatch(line[0], hash) >> (8 * skip) << (8 * skip); m != 0; m &= m - 1 {
			k := bits.TrailingZeros64(m) >> 3
			if e := line[1+k&7]; e>>ownTag == hash>>ownTag {
				return e, i + k + 1
			}
		}
		if line[0]>>56 == 0 {
			return 0, 0
		}
		if i, skip = s.after(i), 0; i == s.home(hash, told) {
			return 0, 0
		}
	}
}

// line is where the search for a hash begins in memory, for fetchLines.
func (t *ownTable) line(hash uint64) uintptr {
	s, told := t.segment(hash)
	if len(s.words) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&s.words[s.home(hash, told)]))
}

// add puts in one more block of a name.
func (t *ownTable) add(hash uint64, run uint32, pos int) {
	s, told := t.segment(hash)
	if n := s.slots(); (s.used+1)*4 > n*3 && t.meter.mayGrow(s.used, n, 10) {
		if t.cut == nil && len(s.words) >= ownWhole*ownLine {
			t.cutUp()
			s, told = t.segment(hash)
		} else {
			t.grow(s, told)
		}
	}
	s.put(ownEntry(hash, run, pos), told)
	t.crowded += nowCrowded(s.used, s.slots())
	t.live++
}

// grow gives a segment its next size: twice as large while small, then two steps
// to the double keep what nobody uses small.
func (t *ownTable) grow(s *ownSegment, told uint) {
	lines := len(s.words) / ownLine
	t.crowded -= crowded(s.used, s.slots())
	switch {
	case lines == 0:
		lines = 1
	case lines < ownDouble:
		lines *= 2
	case lines&(lines-1) == 0:
		lines += lines / 2
	default:
		lines += lines / 3
	}
	t.resize(s, told, lines)
}

// resize makes a segment anew with so many lines.
func (t *ownTable) resize(s *ownSegment, told uint, lines int) {
	old := s.words
	s.words, s.used = make([]uint64, lines*ownLine), 0
	t.meter.bytes += (len(s.words) - len(old)) * 8
	t.largest = max(t.largest, lines)
	s.putAll(old, told)
}

// trim gives back places of segments that are used to less than a half, and
// reports whether there were any.
func (t *ownTable) trim() (any bool) {
	tight := func(s *ownSegment, told uint) {
		if s.used*2 < s.slots() && len(s.words) > ownKept*ownLine {
			t.resize(s, told, max(ownKept, s.used*3/2/ownSlots+1))
			any = true
		}
	}
	tight(&t.whole, 0)
	for i := range t.cut {
		tight(&t.cut[i], ownCut)
	}
	return any
}

// putAll puts all entries of some lines into a segment.
func (s *ownSegment) putAll(words []uint64, told uint) {
	for i := 0; i < len(words); i += ownLine {
		for m := words[i] & ownTaken; m != 0; m &= m - 1 {
			s.put(words[i+1+bits.TrailingZeros64(m)>>3], told)
		}
	}
}

// cutUp cuts a table into segments, each as large as its part was.
func (t *ownTable) cutUp() {
	old := t.whole.words
	t.meter.bytes -= t.bytes()
	t.whole, t.crowded, t.largest = ownSegment{}, 0, ownWhole/ownSegments
	t.cut = make([]ownSegment, ownSegments)
	for i := range t.cut {
		t.cut[i].words = make([]uint64, len(old)/ownSegments)
	}
	t.meter.bytes += t.bytes()
	for i := 0; i < len(old); i += ownLine {
		for m := old[i] & ownTaken; m != 0; m &= m - 1 {
			e := old[i+1+bits.TrailingZeros64(m)>>3]
			s, told := t.segment(e)
			if s.used+1 == s.slots() {
				t.grow(s, told)
			}
			s.put(e, told)
		}
	}
	for i := range t.cut {
		t.crowded += crowded(t.cut[i].used, t.cut[i].slots())
	}
}

// remove takes a block's entry away; false if there is none.
func (t *ownTable) remove(hash uint64, run uint32, pos int) bool {
	s, told := t.segment(hash)
	if !s.take(ownEntry(hash, run, pos), told) {
		return false
	}
	t.crowded -= nowCrowded(s.used+1, s.slots())
	if t.live--; sparse(s.used, s.slots()) {
		t.resize(s, told, len(s.words)/ownLine/2)
	}
	return true
}

func (t *ownTable) bytes() int {
	n := cap(t.whole.words)
	for i := range t.cut {
		n += cap(t.cut[i].words)
	}
	return n*8 + cap(t.cut)*32
}

// spare is how many bytes n more names may charge, whatever their hashes.
func (t *ownTable) spare(n int) int {
	const each = 26 // bytes a place: no table has more, nor asks for more when it grows
	switch {
	case t == nil:
		return each * (ownSlots + n)
	case t.cut == nil && t.whole.used+n < t.whole.slots():
		return 0
	case t.cut == nil:
		return each * (t.whole.slots() + n)
	case t.crowded > 0:
		return each * t.largest * ownSlots
	}
	return 0
}
