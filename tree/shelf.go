package tree

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"
)

// shelf says which cells of a slab are free where a byte budget counts memory.
// The lowest one is handed out first, so that the chunks behind come free as
// what is in them ends, and a chunk in which no cell is in use can be given back:
// memory of one kind, that another one is short of.
//
//	chunk   0        1        2        3
//	        ████████ ███·█··█ ········ ··█·····
//	            next cell ↑   └ can be given back
//
// A chunk that was given back keeps its place in the directory, where a late
// reader finds nothing: words that are all zero, which nobody ever writes. No
// run in use has version 0 there, no lane is 0. The place is the first to be
// used again, with new memory, in which runs go on from the highest version of
// any that the slab has given back: who remembers one finds another one.
type shelf struct {
	free  []uint64 // a bit a cell, some words for each chunk
	some  []uint64 // a bit a chunk: a cell is free
	taken []int32  // cells in use by chunk, noMemory for one given back
	gone  []uint32 // chunks given back
	low   int      // no chunk is free before this word of some
	idle  int      // chunks in which no cell is in use
	floor uint64   // the highest version of a run given back
}

const noMemory = -1

// wordsPerChunk is how many words of free a chunk has.
func (s *slab) wordsPerChunk() int { return max(1, 1<<s.shift>>6) }

func (f *shelf) bytes() int {
	return cap(f.free)*8 + cap(f.some)*8 + cap(f.taken)*4 + cap(f.gone)*4
}

// takeLowest is alloc where memory is counted.
func (s *slab) takeLowest() uint32 {
	f := s.shelf
	for f.low < len(f.some) && f.some[f.low] == 0 {
		f.low++
	}
	if f.low == len(f.some) {
		s.addChunk()
	}
	chunk := f.low<<6 + bits.TrailingZeros64(f.some[f.low])
	per := s.wordsPerChunk()
	words := f.free[chunk*per : (chunk+1)*per]
	i := 0
	for words[i] == 0 {
		i++
	}
	cell := i<<6 + bits.TrailingZeros64(words[i])
	words[i] &= words[i] - 1
	if f.taken[chunk] == 0 {
		f.idle--
	}
	if f.taken[chunk]++; f.taken[chunk] == 1<<s.shift {
		f.some[f.low] &= f.some[f.low] - 1
	}
	return uint32(chunk<<s.shift + cell)
}

// putBack is release where memory is counted.
func (s *slab) putBack(id uint32) {
	f, chunk, cell := s.shelf, int(id>>s.shift), int(id&(1<<s.shift-1))
	f.free[chunk*s.wordsPerChunk()+cell>>6] |= 1 << (cell & 63)
	f.some[chunk>>6] |= 1 << (chunk & 63)
	f.low = min(f.low, chunk>>6)
	if f.taken[chunk]--; f.taken[chunk] == 0 {
		f.idle++
	}
}

// addChunk gets memory for a chunk, in a place that has none or behind the last.
func (s *slab) addChunk() {
	f, words := s.shelf, s.chunkWords()
	block := make([]atomic.Uint64, words)
	s.meter.bytes += words * 8
	s.meter.free += words * 8
	chunk := len(s.heads)
	if n := len(f.gone); n > 0 {
		chunk = int(f.gone[n-1])
		f.gone = f.gone[:n-1]
		for i := 0; f.floor > 0 && i < words; i += int(s.stride) {
			block[i].Store(f.floor << countBits)
		}
		heads := slices.Clone(s.heads) // late readers look at the old one
		heads[chunk] = unsafe.Pointer(&block[0])
		s.publish(heads)
	} else {
		s.publish(append(s.heads, unsafe.Pointer(&block[0])))
		was := f.bytes()
		f.taken = longer(f.taken, chunk+1)
		f.free = longer(f.free, (chunk+1)*s.wordsPerChunk())
		f.some = longer(f.some, chunk>>6+1)
		s.meter.bytes += f.bytes() - was
	}
	f.idle++
	f.taken[chunk] = 0
	f.some[chunk>>6] |= 1 << (chunk & 63)
	f.low = min(f.low, chunk>>6)
	free := f.free[chunk*s.wordsPerChunk() : (chunk+1)*s.wordsPerChunk()]
	for i := range free {
		free[i] = ^uint64(0) >> max(0, 64-1<<s.shift)
	}
	if chunk == 0 { // the first cell is nobody's
		free[0]--
		f.taken[0], f.idle = 1, f.idle-1
	}
}

// longer makes a slice longer by zeros, in twice the memory if it must.
func longer[E any](s []E, n int) []E {
	if n > cap(s) {
		s = append(make([]E, 0, max(n, 2*cap(s))), s...)
	}
	return s[:n]
}

// spare is how many bytes n more cells may charge.
func (s *slab) spare(n int) int {
	if n -= s.chunks()<<s.shift - s.live - 1; n <= 0 { // of no cells one is nobody's
		return 0
	}
	chunks := (n + 1<<s.shift - 1) >> s.shift
	need := chunks * s.chunkWords() * 8
	if f := s.shelf; chunks > len(f.gone) {
		if more := len(f.taken) + chunks - len(f.gone); more > cap(f.taken) {
			need += max(more, 2*cap(f.taken)) * (4 + 8*s.wordsPerChunk())
			need += (max(more, 2*cap(f.taken))>>6 + 1) * 2 * 8
		}
	}
	return need
}

// makeNothing makes the words that late readers find where memory was given
// back, if they are fewer than that was. Shorter ones stay in use.
func (m *meter) makeNothing(words, gain int) bool {
	if words = max(words, m.chunk); words >= gain {
		return false
	}
	m.nothing = make([]atomic.Uint64, words)
	m.nothings += words * 8
	m.bytes += words * 8
	return true
}

// giveBack gives back the memory of chunks in which no cell is in use, and
// reports whether there were any. versions says that its cells begin with one.
func (s *slab) giveBack(versions bool) bool {
	f := s.shelf
	if f.idle == 0 {
		return false
	}
	words := s.chunkWords()
	if words > len(s.meter.nothing) && !s.meter.makeNothing(words, f.idle*words) {
		return false
	}
	heads := slices.Clone(s.heads)
	was := f.bytes()
	for chunk := len(f.taken) - 1; chunk >= 0; chunk-- { // the first is used again first
		if f.taken[chunk] != 0 {
			continue
		}
		for i, old := 0, s.chunk(chunk); versions && i < len(old); i += int(s.stride) {
			f.floor = max(f.floor, version(old[i].Load()))
		}
		heads[chunk], f.taken[chunk] = unsafe.Pointer(&s.meter.nothing[0]), noMemory
		f.some[chunk>>6] &^= 1 << (chunk & 63)
		f.gone = append(f.gone, uint32(chunk))
	}
	s.publish(heads)
	s.meter.free -= f.idle * words * 8
	s.meter.bytes += f.bytes() - was - f.idle*words*8
	f.idle = 0
	return true
}

// giveBack gives back what memory of arenas nobody uses, for other kinds, and
// reports whether there was any.
func (x *Index) giveBack() (any bool) {
	for c := range x.runs {
		any = x.runs[c].giveBack(true) || any
		any = x.nameArrays[c].giveBack(false) || any
	}
	for k := range x.cells {
		any = x.cells[k].giveBack(false) || any
	}
	for k := range x.planes {
		any = x.planes[k].giveBack(false) || any
	}
	any = x.sides.giveBack(false) || any
	any = x.supports.giveBack(false) || any
	any = x.waits.giveBack(false) || any
	return x.logs.giveBack(false) || any
}
