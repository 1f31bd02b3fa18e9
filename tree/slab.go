package tree

import "sync/atomic"

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
type slab struct {
	stride uint32 // words a cell
	shift  uint32 // log2 of cells a chunk
	dir    atomic.Pointer[[][]atomic.Uint64]
	*stock
}

// stock is the writer's part of a slab. It changes with every cell, and lies
// apart from what readers look at, who would wait for its line.
type stock struct {
	next  uint32 // first cell never handed out
	free  pile   // cells given back, last in first out
	shelf *shelf // instead of these two, where memory is counted
	live  int    // cells in use
	meter *meter
}

func (s *slab) init(stride, words int, m *meter) {
	s.stride, s.stock = uint32(stride), &stock{meter: m}
	s.shift = 1 // the first cell of the first chunk is nobody's
	for (stride << (s.shift + 1)) <= words {
		s.shift++
	}
	s.dir.Store(&[][]atomic.Uint64{})
	s.next = 1
	if m.limit > 0 {
		s.shelf = &shelf{}
	}
}

// at returns the words of a cell.
func (s *slab) at(id uint32) []atomic.Uint64 {
	c := (*s.dir.Load())[id>>s.shift]
	o := (id & (1<<s.shift - 1)) * s.stride
	return c[o : o+s.stride : o+s.stride]
}

// seen is at for a reader, whose id may be of a cell of another slab, where what
// it came from is used again: nil if there is no such cell.
func (s *slab) seen(id uint32) []atomic.Uint64 {
	if int(id>>s.shift) >= len(*s.dir.Load()) {
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
	old := *s.dir.Load()
	if int(id>>s.shift) >= len(old) {
		chunk := s.chunkWords()
		block := make([]atomic.Uint64, max(1, min(len(old)/4, blockWords/chunk))*chunk)
		s.meter.bytes += len(block) * 8
		s.meter.free += len(block) * 8
		dir := old
		for ; len(block) > 0; block = block[chunk:] {
			dir = append(dir, block[:chunk:chunk]) // readers of the old header see no more than it says
		}
		s.dir.Store(&dir)
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
	n := len(*s.dir.Load())
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
