package tree

import "sync/atomic"

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
type links struct {
	seed    uint64
	seg     [linkSegments]linkSegment
	live    int
	largest int // entries of the largest segment
	crowded int // segments that are hardly more than full
	meter   *meter
}

type linkSegment struct {
	tab  atomic.Pointer[[]atomic.Uint64]
	used int // entries and tombstones
	live int
}

func (t *links) init(seed uint64, m *meter) {
	t.seed, t.meter, t.largest = seed, m, linkStart
	m.bytes += linkSegments * linkStart * 8
	for i := range t.seg {
		tab := make([]atomic.Uint64, linkStart)
		t.seg[i].tab.Store(&tab)
	}
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
	tab := *t.seg[h>>58].tab.Load()
	return address(&tab[h&(uint64(len(tab))-1)])
}

// guess is a run that the hash is perhaps about, or 0. Any goroutine.
func (t *links) guess(h uint64) uint32 {
	tab := *t.seg[h>>58].tab.Load()
	if w := tab[h&(uint64(len(tab))-1)].Load(); uint32(w>>32) == uint32(h) {
		return uint32(w)
	}
	return 0
}

// probe is find for a hash that is known; it returns the run's words as well.
func (x *Index) probe(h, link, content uint64) (uint32, []atomic.Uint64) {
	tab := *x.links.seg[h>>58].tab.Load()
	mask := uint64(len(tab)) - 1
	for i := h; ; i++ {
		w := tab[i&mask].Load()
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
	s := &t.seg[h>>58]
	tab := *s.tab.Load()
	if (s.used+1)*4 > len(tab)*3 && (s.used > s.live || t.meter.mayGrow(s.used, len(tab), 8)) {
		tab = t.rebuild(s)
	}
	mask := uint64(len(tab)) - 1
	i := h
	for w := tab[i&mask].Load(); w != 0 && uint32(w) != 0; w = tab[i&mask].Load() {
		i++
	}
	if tab[i&mask].Load() == 0 {
		s.used++
		t.crowded += nowCrowded(s.used, len(tab))
	}
	tab[i&mask].Store(h<<32 | uint64(id))
	s.live++
	t.live++
}

// rebuild makes a segment anew without its tombstones, with room for more, or
// for less where it is nearly empty. The low 32 bits of the hash, which place an
// entry, are stored in it. Late readers of the old one miss what came after, and
// what went they find without its link.
func (t *links) rebuild(s *linkSegment) []atomic.Uint64 {
	old := *s.tab.Load()
	size := len(old)
	for size < (s.live+1)*2 && t.meter.mayGrow(s.live, size, 8) {
		size *= 2
	}
	for sparse(s.live, size) {
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
	t.crowded += crowded(s.live, size) - crowded(s.used, len(old))
	t.meter.bytes += (size - len(old)) * 8
	s.used = s.live
	s.tab.Store(&tab)
	if t.largest = max(t.largest, size); size < len(old) {
		t.largest = 0
		for i := range t.seg {
			t.largest = max(t.largest, len(*t.seg[i].tab.Load()))
		}
	}
	return tab
}

func (t *links) remove(link, content uint64, id uint32) {
	h := mix(t.seed, link, content)
	s := &t.seg[h>>58]
	tab := *s.tab.Load()
	mask := uint64(len(tab)) - 1
	want := h<<32 | uint64(id)
	for i := h; ; i++ {
		if tab[i&mask].Load() == want {
			if tab[(i+1)&mask].Load() == 0 {
				tab[i&mask].Store(0)
				t.crowded -= nowCrowded(s.used, len(tab))
				s.used--
			} else {
				tab[i&mask].Store(linkTomb)
			}
			s.live--
			if t.live--; sparse(s.live, len(tab)) {
				t.rebuild(s)
			}
			return
		}
	}
}

// replace has an entry lead to another run, in one store.
func (t *links) replace(link, content uint64, old, id uint32) {
	h := mix(t.seed, link, content)
	tab := *t.seg[h>>58].tab.Load()
	mask := uint64(len(tab)) - 1
	i := h
	for tab[i&mask].Load() != h<<32|uint64(old) {
		i++
	}
	tab[i&mask].Store(h<<32 | uint64(id))
}

func (t *links) bytes() int {
	n := 0
	for i := range t.seg {
		n += len(*t.seg[i].tab.Load()) * 8
	}
	return n
}
