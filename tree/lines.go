package tree

import (
	"math/bits"
	"unsafe"
)

const (
	lineWords  = 8                // words of a line
	lineSlots  = 7                // entries of a line
	lineOnes   = 0x01010101010101 // 1 in the byte of each slot
	lineTaken  = lineOnes << 7
	linePassed = 56 // the bit of the first of the kinds that found a line full

	entryTag   = 37 // an entry's bits from here on are the hash's
	entryKind  = 44 // and these three the kind, which its tag does not have
	entryHash  = ^uint64(1<<entryTag - 1)
	entryClass = 33
	entryBlock = 1<<entryClass - 1
)

// segment is a part of a table of names, or all of a small one. It is made of
// lines of memory, and all but few look-ups touch one: a word that says what is
// in the line's seven slots, and an entry in each.
//
//	line   passed 8 × 1 | seven times: taken 1, 7 bits of the name's hash
//	entry  27 bits of the name's hash | class of the run 4 | block 33
//
// The name itself stands in the run, or in the holder's names of it; a block is
// numbered in its class, index of the run × capacity + position. The first bits
// of the hash say the line, scaled to how many there are, so that entries lie
// about in the order of their hashes, a larger segment is written from front to
// back, and the number of lines need not be a power of two. Who finds a line full
// goes on to the next, and passed has a bit for each of eight kinds of hashes: it
// is set if an entry of that kind lies behind the line, for which it would have
// been the place or on the way. Where it is not, a search ends.
type segment struct {
	words []uint64
	used  int
}

// makeEntry is the entry of a block whose name has a hash.
func makeEntry(hash uint64, run uint32, pos int) uint64 {
	class := classOf(run)
	block := uint64(run&(1<<28-1))<<(class+2) | uint64(pos)
	return hash&entryHash | uint64(class)<<entryClass | block
}

func entryRun(e uint64) uint32 {
	class := uint32(e >> entryClass & 15)
	return class<<28 | uint32(e&entryBlock>>(class+2))
}

func entryPos(e uint64) int {
	class := uint32(e >> entryClass & 15)
	return int(e & (4<<class - 1))
}

// entryMark is the byte of a slot that is taken by an entry of a hash.
func entryMark(hash uint64) uint64 { return hash>>entryTag&0x7f | 0x80 }

// lineMatch finds the slots of a line that may hold an entry of a hash: bit 7 of
// the byte of each.
func lineMatch(word, hash uint64) uint64 {
	x := word ^ entryMark(hash)*lineOnes
	return ^(x&(lineTaken-lineOnes) + (lineTaken - lineOnes) | x) & lineTaken
}

// passedBy is, in the lowest bit, whether entries of a hash's kind have passed a
// line.
func passedBy(word, hash uint64) uint64 { return word >> linePassed >> (hash >> entryKind & 7) & 1 }

// passes is the bit of a hash's kind in the word of a line that it passes.
func passes(hash uint64) uint64 { return 1 << linePassed << (hash >> entryKind & 7) }

// slots is how many entries a segment has room for.
func (s *segment) slots() int { return len(s.words) / lineWords * lineSlots }

// full reports whether one more entry would make a segment fuller than so many
// parts of its places, and it should be made larger first.
func (s *segment) full(part, of int) bool {
	return (s.used+1)*lineWords*of > len(s.words)*lineSlots*part
}

// home is the first word of the line where the search for a hash, or for an
// entry, begins. told is how many of its bits have led to the segment.
func (s *segment) home(hash uint64, told uint) int {
	line, _ := bits.Mul64(hash&entryHash<<(told&63), uint64(len(s.words)/lineWords))
	return int(line) * lineWords
}

// after is the first word of the line behind the one that begins at i.
func (s *segment) after(i int) int {
	if i += lineWords; i < len(s.words) {
		return i
	}
	return 0
}

// line is where the search for a hash begins in memory, for fetchLines; 0 if
// there is nothing to search.
func (s *segment) line(hash uint64, told uint) uintptr {
	if len(s.words) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&s.words[s.home(hash, told)]))
}

// first is the first entry that may be of the name with a hash, for the caller
// to compare, and where to look on for the next one; 0 if there is none.
func (s *segment) first(hash uint64, told uint) (e uint64, from int) {
	if len(s.words) == 0 {
		return 0, 0
	}
	i := s.home(hash, told)
	if word := s.words[i]; passedBy(word, hash)|lineMatch(word, hash) == 0 {
		return 0, 0
	}
	return s.next(hash, i, told)
}

// next is the first entry from a place on.
func (s *segment) next(hash uint64, from int, told uint) (e uint64, behind int) {
	i, skip := from&^(lineWords-1), from&(lineWords-1)
	for {
		line := s.words[i : i+lineWords : i+lineWords]
		for m := lineMatch(line[0], hash) >> (8 * skip) << (8 * skip); m != 0; m &= m - 1 {
			k := bits.TrailingZeros64(m) >> 3
			if e := line[1+k&7]; e>>entryTag == hash>>entryTag {
				return e, i + k + 1
			}
		}
		if passedBy(line[0], hash) == 0 {
			return 0, 0
		}
		if i, skip = s.after(i), 0; i == s.home(hash, told) {
			return 0, 0
		}
	}
}

// line8 is the line that begins at a word.
func line8(words []uint64, i int) *[lineWords]uint64 { return (*[lineWords]uint64)(words[i:]) }

// putIn puts an entry into a line; false if it is full.
func putIn(line *[lineWords]uint64, e uint64) bool {
	free := ^line[0] & lineTaken
	if free == 0 {
		return false
	}
	b := bits.TrailingZeros64(free) &^ 7
	line[0] |= entryMark(e) << (b & 63)
	line[1+b>>3&7] = e
	return true
}

// put puts an entry into the first line that has room for it.
func (s *segment) put(e uint64, told uint) {
	i := s.home(e, told)
	for !putIn(line8(s.words, i), e) {
		s.words[i] |= passes(e)
		i = s.after(i)
	}
	s.used++
}

// putStrange is put for an entry whose name is surely not in the segment; false if it
// may be. Nearly all find room where the search begins.
func (s *segment) putStrange(e uint64, told uint) bool {
	i := s.home(e, told)
	line := line8(s.words, i)
	if passedBy(line[0], e)|lineMatch(line[0], e) != 0 {
		if other, _ := s.next(e, i, told); other != 0 {
			return false
		}
	}
	if putIn(line, e) {
		s.used++
	} else {
		s.put(e, told)
	}
	return true
}

// take takes an entry away; false if it is not there.
func (s *segment) take(e uint64, told uint) bool {
	if len(s.words) == 0 {
		return false
	}
	home := s.home(e, told)
	for i := home; ; {
		line := s.words[i : i+lineWords : i+lineWords]
		for m := lineMatch(line[0], e); m != 0; m &= m - 1 {
			b := bits.TrailingZeros64(m) &^ 7
			if line[1+b>>3&7] != e {
				continue
			}
			line[0] &^= 0xff << b
			if s.used--; i != home {
				s.unpass(e, home, i, told)
			}
			return true
		}
		if passedBy(line[0], e) == 0 {
			return false
		}
		if i = s.after(i); i == home {
			return false
		}
	}
}

// unpass notes that an entry that lay in the line at i passes those from home on
// no more: their bits go, but for lines that another entry of its kind has passed.
func (s *segment) unpass(e uint64, home, i int, told uint) {
	lines := len(s.words) / lineWords
	behind := func(from, i int) int { return ((i-from)/lineWords + lines) % lines }
	end, d := i, behind(home, i)
	passed := d // lines that the entry has
	for ; passedBy(s.words[end], e) != 0 && d < passed+lines; d++ {
		end = s.after(end) // perhaps once around, past home: those entries have come by, too
	}
	// From the last line that may have an entry of the kind back to home. first is
	// how far behind home, at the least, a search begins that ends in one of the
	// lines seen.
	for first := d; d > 0; d-- {
		line := line8(s.words, end)
		for m := line[0] & lineTaken; m != 0; m &= m - 1 {
			if o := line[1+bits.TrailingZeros64(m)>>3&7]; o>>entryKind&7 == e>>entryKind&7 {
				first = min(first, d-behind(s.home(o, told), end))
			}
		}
		if end -= lineWords; end < 0 {
			end += len(s.words)
		}
		if d <= passed && first >= d {
			s.words[end] &^= passes(e)
		}
	}
}

// replace puts another entry of the same hash into the place of one that is
// there.
func (s *segment) replace(old, e uint64, told uint) {
	for i := s.home(old, told); ; i = s.after(i) {
		line := line8(s.words, i)
		for m := lineMatch(line[0], old); m != 0; m &= m - 1 {
			if slot := &line[1+bits.TrailingZeros64(m)>>3&7]; *slot == old {
				*slot = e
				return
			}
		}
	}
}

// putAll puts all entries of some lines into an empty segment. They come about in
// the order of their places.
func (s *segment) putAll(old []uint64, told uint) {
	// No more at once than a few microseconds' work: nothing stops it meanwhile.
	for told == 0 && len(old) > 0 {
		k := min(len(old), 256*lineWords)
		n := spread(s, &old[0], k/lineWords)
		if n < 0 {
			break
		}
		s.used += n
		old = old[k:]
	}
	words, direct := s.words, 0
	for i := 0; i < len(old); i += lineWords {
		line := line8(old, i)
		for m := line[0] & lineTaken; m != 0; m &= m - 1 {
			e := line[1+bits.TrailingZeros64(m)>>3&7]
			if putIn(line8(words, s.home(e, told)), e) {
				direct++
			} else {
				s.put(e, told)
			}
		}
	}
	s.used += direct
}
