package tree

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

const (
	linkSegments = 64
	linkStart    = 16
	linkTomb     = 1 << 32 // a deleted entry: no run, but the probe goes on
)

// links is the child table T: (run, offset, first content) → run. Readers look
// into it while the writer changes it, so an entry is one atomic word, 32 bits
// of hash and the run's id; what an entry says is checked against the run's own
// link. A segment that grows is replaced as a whole: a late reader of the old
// one misses only what came after.
//
// Where a segment begins and how many places it has is one word, too, and no slice
// that readers would have to look at first: its size is a power of two, and what
// power is in the last bits of the address. The garbage collector takes that for
// a pointer into the segment, which it is.
type links struct {
	seed uint64
	tab  [linkSegments]atomic.Pointer[byte]
	*linkStock
}

// sizeBits is the bits of an address in which the size is: segments are as large as
// that at least, and lie at multiples of it, for memory is handed out in such pieces.
const sizeBits = 63

// linkStock is the writer's part of the table, apart for the same reason as a
// slab's.
type linkStock struct {
	used    [linkSegments]int // entries of a segment, and tombstones
	kept    [linkSegments]int // entries
	live    int               // entries of all
	largest int               // places of the largest segment
	crowded int               // segments that are hardly more than full
	meter   *meter
}

func (t *links) init(seed uint64, m *meter) {
	t.seed, t.linkStock = seed, &linkStock{meter: m, largest: linkStart}
	m.bytes += linkSegments * linkStart * 8
	for i := range t.tab {
		t.publish(uint64(i), make([]atomic.Uint64, linkStart))
	}
}

// publish has readers see a segment.
func (t *links) publish(n uint64, tab []atomic.Uint64) {
	first := unsafe.Pointer(&tab[0])
	if uintptr(first)&sizeBits != 0 {
		panic("tree: memory of a power of two of bytes lies across lines")
	}
	t.tab[n].Store((*byte)(unsafe.Add(first, bits.Len(uint(len(tab)))-1)))
}

// segment is the n-th segment.
func (t *links) segment(n uint64) []atomic.Uint64 {
	first, mask := t.places(n)
	return unsafe.Slice((*atomic.Uint64)(first), mask+1)
}

// places is where the n-th segment begins, and how many places it has, less one.
// Any goroutine.
func (t *links) places(n uint64) (first unsafe.Pointer, mask uint64) {
	p := unsafe.Pointer(t.tab[n].Load())
	size := uintptr(p) & sizeBits
	return unsafe.Add(p, -int(size)), 1<<size - 1
}

// placeOf is the place of a segment where the search for a hash begins, or goes on.
func placeOf(first unsafe.Pointer, mask, h uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(first, (h&mask)*uint64(unsafe.Sizeof(atomic.Uint64{}))))
}

// find returns the run that hangs at offset off of parent and begins with
// content, or 0. Any goroutine.
func (x *Index) find(parent uint32, off int, content uint64) uint32 {
	link := makeLink(parent, off)
	id, _ := x.probe(mix(x.links.seed, link, content), link, content)
	return id
}

// line is where the search for a hash begins in memory, for fetchLines.
func (t *links) line(h uint64) uintptr {
	first, mask := t.places(h >> 58)
	return address(placeOf(first, mask, h))
}

// guess is a run that the hash is perhaps about, or 0. Any goroutine.
func (t *links) guess(h uint64) uint32 {
	first, mask := t.places(h >> 58)
	if w := placeOf(first, mask, h).Load(); uint32(w>>32) == uint32(h) {
		return uint32(w)
	}
	return 0
}

// probe is find for a hash that is known; it returns the run's words as well.
func (x *Index) probe(h, link, content uint64) (uint32, []atomic.Uint64) {
	first, mask := x.links.places(h >> 58)
	for i := h; ; i++ {
		w := placeOf(first, mask, i).Load()
		if w == 0 {
			return 0, nil
		}
		if uint32(w>>32) != uint32(h) || uint32(w) == 0 {
			continue
		}
		id := uint32(w)
		hd := x.run(id)
		if hd[hLink].Load() == link && hd[hBody].Load() == content {
			return id, hd
		}
	}
}

func (t *links) add(link, content uint64, id uint32) {
	h := mix(t.seed, link, content)
	n := h >> 58
	tab, used := t.segment(n), t.used[n]
	if (used+1)*4 > len(tab)*3 && (used > t.kept[n] || t.meter.mayGrow(used, len(tab), 8)) {
		tab = t.rebuild(n)
	}
	mask := uint64(len(tab)) - 1
	i := h
	for w := tab[i&mask].Load(); w != 0 && uint32(w) != 0; w = tab[i&mask].Load() {
		i++
	}
	if tab[i&mask].Load() == 0 {
		t.used[n]++
		t.crowded += nowCrowded(t.used[n], len(tab))
	}
	tab[i&mask].Store(h<<32 | uint64(id))
	t.kept[n]++
	t.live++
}

// rebuild makes a segment anew without its tombstones, with room for more, or
// for less where it is nearly empty. The low 32 bits of the hash, which place an
// entry, are stored in it. Late readers of the old one miss what came after, and
// what went they find without its link.
func (t *links) rebuild(n uint64) []atomic.Uint64 {
	old, kept := t.segment(n), t.kept[n]
	size := len(old)
	for size < (kept+1)*2 && t.meter.mayGrow(kept, size, 8) {
		size *= 2
	}
	for sparse(kept, size) {
		size /= 2
	}
	tab := make([]atomic.Uint64, size)
	mask := uint64(size) - 1
	for k := range old {
		w := old[k].Load()
		if uint32(w) == 0 {
			continue
		}
		i := w >> 32
		for tab[i&mask].Load() != 0 {
			i++
		}
		tab[i&mask].Store(w)
	}
	t.crowded += crowded(kept, size) - crowded(t.used[n], len(old))
	t.meter.bytes += (size - len(old)) * 8
	t.used[n] = kept
	t.publish(n, tab)
	if t.largest = max(t.largest, size); size < len(old) {
		t.largest = 0
		for i := range t.tab {
			t.largest = max(t.largest, len(t.segment(uint64(i))))
		}
	}
	return tab
}

func (t *links) remove(link, content uint64, id uint32) {
	h := mix(t.seed, link, content)
	n := h >> 58
	tab := t.segment(n)
	mask := uint64(len(tab)) - 1
	want := h<<32 | uint64(id)
	for i := h; ; i++ {
		if tab[i&mask].Load() == want {
			if tab[(i+1)&mask].Load() == 0 {
				tab[i&mask].Store(0)
				t.crowded -= nowCrowded(t.used[n], len(tab))
				t.used[n]--
			} else {
				tab[i&mask].Store(linkTomb)
			}
			t.kept[n]--
			if t.live--; sparse(t.kept[n], len(tab)) {
				t.rebuild(n)
			}
			return
		}
	}
}

// replace has an entry lead to another run, in one store.
func (t *links) replace(link, content uint64, old, id uint32) {
	h := mix(t.seed, link, content)
	tab := t.segment(h >> 58)
	mask := uint64(len(tab)) - 1
	i := h
	for tab[i&mask].Load() != h<<32|uint64(old) {
		i++
	}
	tab[i&mask].Store(h<<32 | uint64(id))
}

func (t *links) bytes() int {
	n := 0
	for i := range t.tab {
		n += len(t.segment(uint64(i))) * 8
	}
	return n
}
