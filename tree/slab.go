package tree

import (
	"sync/atomic"
	"unsafe"
)

const (
	// slabWords is how many words a chunk of a slab has at least, about.
	slabWords = 1 << 12
	// blockWords is how many words are allocated at once at most, about: a
	// quarter of what there is while that is less, so that what is not in use
	// stays small beside what is, and that even millions of blocks cost the
	// collector a few hundred objects.
	blockWords = 1 << 15
)

// slab is an arena of equal cells of atomic words. Its memory is type-stable:
// a cell once handed out stays a cell of this slab for ever, so a late reader
// finds words of the right shape and learns from a version that they are not
// the ones it was looking for. That holds too where a byte budget has chunks given
// back, see shelf.go. Cell 0 is reserved as nil.
//
// The writer allocates and frees; readers call at. A chunk is in the directory
// before the first id of it is published, so a reader that got an id from a
// shared word finds its chunk.
//
// The directory is no slice of slices: every step of every walk comes by here,
// and the lengths of slices would be two more loads, one behind the other, of
// lines that are often in no cache, to check what holds by the above anyhow.
//
//	dir ──▶ heads: first word of chunk 0, of chunk 1, …, as many as known says
type slab struct {
	stride uint32                         // words a cell
	shift  uint32                         // log2 of cells a chunk
	dir    atomic.Pointer[unsafe.Pointer] // &heads[0]
	*stock
}

// stock is the writer's part of a slab. It changes with every cell, and lies
// apart from what readers look at, who would wait for its line.
type stock struct {
	heads []unsafe.Pointer
	known atomic.Uint32 // how many there are, for readers that do not know it by an id
	next  uint32        // first cell never handed out
	free  pile          // cells given back, last in first out
	shelf *shelf        // instead of these two, where memory is counted
	live  int           // cells in use
	meter *meter
}

func (s *slab) init(stride, words int, m *meter) {
	s.stride, s.stock = uint32(stride), &stock{meter: m}
	s.shift = 1 // the first cell of the first chunk is nobody's
	for (stride << (s.shift + 1)) <= words {
		s.shift++
	}
	s.next = 1
	if m.limit > 0 {
		s.shelf = &shelf{}
	}
}

// at returns the words of a cell.
func (s *slab) at(id uint32) []atomic.Uint64 {
	shift := s.shift & 31 // which it is; the compiler asks otherwise
	head := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(s.dir.Load()), uintptr(id>>shift)*unsafe.Sizeof(s.dir)))
	first := unsafe.Add(head, uintptr(id&(1<<shift-1)*s.stride)*unsafe.Sizeof(atomic.Uint64{}))
	return (*[1 << 20]atomic.Uint64)(first)[:s.stride:s.stride]
}

// chunk returns the words of a chunk.
func (s *slab) chunk(i int) []atomic.Uint64 {
	return unsafe.Slice((*atomic.Uint64)(s.heads[i]), s.chunkWords())
}

// publish has readers see a directory. One that is the old one and more may lie in
// the same memory: nobody looks behind what he knows.
func (s *slab) publish(heads []unsafe.Pointer) {
	s.heads = heads
	s.dir.Store(&heads[0])
	s.known.Store(uint32(len(heads)))
}

// seen is at for a reader, whose id may be of a cell of another slab, where what
// it came from is used again: nil if there is no such cell.
func (s *slab) seen(id uint32) []atomic.Uint64 {
	if id>>s.shift >= s.known.Load() {
		return nil
	}
	return s.at(id)
}

// alloc hands out a cell; its words are those its last user left.
func (s *slab) alloc() uint32 {
	s.live++
	s.meter.free -= int(s.stride) * 8
	if s.shelf != nil {
		return s.takeLowest()
	}
	if s.free.n > 0 {
		return s.free.pop()
	}
	id := s.next
	s.next++
	if heads := s.heads; int(id>>s.shift) >= len(heads) {
		chunk := s.chunkWords()
		block := make([]atomic.Uint64, max(1, min(len(heads)/4, blockWords/chunk))*chunk)
		s.meter.bytes += len(block) * 8
		s.meter.free += len(block) * 8
		for ; len(block) > 0; block = block[chunk:] {
			heads = append(heads, unsafe.Pointer(&block[0]))
		}
		s.publish(heads)
	}
	return id
}

func (s *slab) release(id uint32) {
	s.live--
	s.meter.free += int(s.stride) * 8
	if s.shelf != nil {
		s.putBack(id)
		return
	}
	if s.free.push(id) {
		s.meter.bytes += pilePage * 4
	}
}

func (s *slab) chunkWords() int { return int(s.stride) << s.shift }

// chunks is how many chunks there is memory for.
func (s *slab) chunks() int {
	n := len(s.heads)
	if s.shelf != nil {
		n -= len(s.shelf.gone)
	}
	return n
}

// bytes is the memory of the slab's chunks, and of what says which cells are
// free.
func (s *slab) bytes() int {
	n := s.chunks()*s.chunkWords()*8 + len(s.free.pages)*pilePage*4
	if s.shelf != nil {
		n += s.shelf.bytes()
	}
	return n
}

// pile is ids, last in first out, in pages, so that one more never moves many.
type pile struct {
	pages []*[pilePage]uint32
	n     int
}

const pilePage = 1024

// push reports whether the pile has got one more page for it.
func (p *pile) push(id uint32) (grew bool) {
	if grew = p.n == len(p.pages)*pilePage; grew {
		p.pages = append(p.pages, new([pilePage]uint32))
	}
	p.pages[p.n/pilePage][p.n%pilePage] = id
	p.n++
	return grew
}

// pop takes the last one; there is one.
func (p *pile) pop() uint32 {
	p.n--
	return p.pages[p.n/pilePage][p.n%pilePage]
}
