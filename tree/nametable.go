package tree

import "math/bits"

const (
	nameSegments = 256
	nameCut      = 8   // the bits of a hash that choose the segment
	pageWords    = 512 // of memory as the system gives it
	shrinkWords  = 1 << 16
)

// nameTable is E: the blocks that are called by a name which all their holders
// share. It is the writer's own: no reader ever looks into it.
//
// The hash's top bits choose the segment, those behind them are what the segment
// knows of it: nothing has to be hashed again when one grows. An entry is one
// word, and the name itself stands in the run, so that a name nobody knows is
// told by one line of memory, and most often by one word of it.
type nameTable struct {
	seed  uint64
	seg   [nameSegments]segment
	live  int
	meter *meter
	// shrunk is the words of segments made smaller in this call of the writer.
	// All come to that at about the same time: the others wait for the next.
	shrunk int
}

func (t *nameTable) init(seed uint64, m *meter) {
	t.seed, t.meter = seed, m
	for i := range t.seg {
		t.resize(&t.seg[i], 1)
	}
}

func (t *nameTable) hash(name uint64) uint64 { return hashName(t.seed, name) }

// hashFactor spreads names, which may be numbers in a row, over 64 bits.
const hashFactor = 0x9e3779b97f4a7c15

func hashName(seed, name uint64) uint64 {
	hi, lo := bits.Mul64(name^seed, hashFactor)
	return hi ^ lo
}

// nameEntry is the entry of a block whose name has a hash.
func nameEntry(hash uint64, run uint32, pos int) uint64 {
	return makeEntry(hash<<nameCut, run, pos)
}

// segment is where entries of a hash are. None is ever without a line.
func (t *nameTable) segment(hash uint64) *segment { return &t.seg[hash>>(64-nameCut)] }

// first is the first entry that may be of the name with a hash, for the caller
// to compare, and where to look on for the next one; 0 if there is none.
func (t *nameTable) first(hash uint64) (e uint64, from int) {
	return t.segment(hash).first(hash<<nameCut, 0)
}

// next is the first entry from a place on.
func (t *nameTable) next(hash uint64, from int) (e uint64, behind int) {
	return t.segment(hash).next(hash<<nameCut, from, 0)
}

// suspects writes down which of at most maxHomes hashes, by their numbers, are perhaps
// of names in the table, for all others one word tells; returns how many there are.
// It has no branches, so that processors look at many of those words at a time.
func (t *nameTable) suspects(dst []uint8, hashes []uint64) (n int) {
	for j, h := range hashes {
		s := t.segment(h)
		word := s.words[s.home(h<<nameCut, 0)]
		dst[n] = uint8(j)
		n += int(-(passedBy(word, h<<nameCut) | lineMatch(word, h<<nameCut)) >> 63) // 1 if there is any
	}
	return n
}

// line is where the search for a hash begins in memory, for fetchLines.
func (t *nameTable) line(hash uint64) uintptr { return t.segment(hash).line(hash<<nameCut, 0) }

// ask asks for the lines where the searches for n names begin, each stride words of
// names behind the one before.
func (t *nameTable) ask(names []uint64, stride, n int) {
	if n > 0 {
		_ = names[(n-1)*stride]
		askNames(&t.seg[0], t.seed, &names[0], stride, n)
	}
}

// add puts in one more block of a name.
func (t *nameTable) add(hash uint64, run uint32, pos int) {
	s := t.segment(hash)
	if s.full(5, 7) {
		t.grow(s)
	}
	s.put(nameEntry(hash, run, pos), 0)
	t.live++
}

// addStrange is add for blocks side by side, from a position of a run on: as many,
// from the first on, as have names that are surely not in the table. It returns how
// many those are.
func (t *nameTable) addStrange(hashes []uint64, run uint32, pos int) (n int) {
	block := nameEntry(0, run, pos)
	for n < len(hashes) {
		k := putNames(&t.seg[0], &hashes[n], len(hashes)-n, block+uint64(n))
		if n += k; n == len(hashes) {
			break
		}
		s, hash := t.segment(hashes[n]), hashes[n]<<nameCut
		if s.full(5, 7) {
			t.grow(s)
		}
		if !s.putStrange(hash&entryHash|(block+uint64(n)), 0) {
			break
		}
		n++
	}
	t.live += n
	return n
}

// grow makes a full segment larger, if there is room for that.
func (t *nameTable) grow(s *segment) {
	if t.meter.mayGrow(s.used, s.slots(), 10) {
		t.resize(s, 2*len(s.words)/lineWords)
	}
}

// resize makes a segment anew with so many lines.
func (t *nameTable) resize(s *segment, lines int) {
	old := s.words
	s.words, s.used = make([]uint64, lines*lineWords), 0
	t.meter.bytes += (len(s.words) - len(old)) * 8
	for i := 0; i < len(s.words); i += pageWords {
		s.words[i] = 0 // a page that is read before it is written faults twice
	}
	s.putAll(old, 0)
}

// remove takes a block's entry away.
func (t *nameTable) remove(hash uint64, run uint32, pos int) {
	t.removeAll([]uint64{hash}, run, pos)
}

// removeAll takes away the entries of blocks side by side, from a position of a
// run on.
func (t *nameTable) removeAll(hashes []uint64, run uint32, pos int) {
	block := nameEntry(0, run, pos)
	for n := 0; n < len(hashes); n++ {
		if n += takeNames(&t.seg[0], &hashes[n], len(hashes)-n, block+uint64(n)); n == len(hashes) {
			break
		}
		s, e := t.segment(hashes[n]), hashes[n]<<nameCut&entryHash|(block+uint64(n))
		s.take(e, 0)
		if sparse(s.used, s.slots()) && t.shrunk < shrinkWords {
			t.shrunk += len(s.words)
			t.resize(s, len(s.words)/lineWords/2)
		}
	}
	t.live -= len(hashes)
}

// replace has a block's entry say that it lies elsewhere.
func (t *nameTable) replace(hash uint64, run uint32, pos int, to uint32, at int) {
	t.segment(hash).replace(nameEntry(hash, run, pos), nameEntry(hash, to, at), 0)
}

func (t *nameTable) bytes() int {
	n := 0
	for i := range t.seg {
		n += cap(t.seg[i].words) * 8
	}
	return n
}
