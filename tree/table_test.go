package tree

import (
	"math/rand/v2"
	"testing"
)

// TestTable compares a table with a list of its entries while it grows until its
// segments are cut, shrinks until they are whole again, and is emptied.
func TestTable(t *testing.T) {
	for _, limit := range []int{0, 40 << 20} {
		r := rand.New(rand.NewPCG(1, uint64(limit)))
		m := &meter{limit: limit}
		var x table
		x.init(7, 4, m)
		var all []entry
		has := map[entry]bool{}
		add := func() {
			// Few keys have several values, and values of several tags.
			e := entry{r.Uint64N(40_000), (r.Uint64N(3)+1)<<tagShift | r.Uint64N(1<<20) + 1}
			if !has[e] {
				has[e] = true
				all = append(all, e)
				x.add(e.key, e.val)
			}
		}
		take := func() {
			i := r.IntN(len(all))
			e := all[i]
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
			delete(has, e)
			if !x.remove(e.key, e.val) || x.remove(e.key, e.val) {
				t.Fatalf("an entry is not there, or there twice: %v", e)
			}
		}
		check := func() {
			cuts := 0
			crowdedNow, largest, bytes := 0, 0, 0
			var look func(s *tableSegment)
			look = func(s *tableSegment) {
				crowdedNow += crowded(s.used, len(s.entries)) * min(1, len(s.entries))
				largest = max(largest, len(s.entries))
				bytes += len(s.entries)*16 + len(s.cut)*segmentBytes
				n := 0
				for i := range s.cut {
					look(&s.cut[i])
					n += s.cut[i].used
					cuts++
				}
				if s.cut != nil && n != s.used {
					t.Fatalf("a segment of %d entries in parts of %d", s.used, n)
				}
			}
			for i := range x.seg {
				look(&x.seg[i])
			}
			if x.live != len(all) || x.crowded != crowdedNow || x.largest < largest || bytes != x.bytes() || bytes != m.bytes {
				t.Fatalf("%d entries, want %d; %d crowded, want %d; the largest has %d, at least %d; %d bytes, charged %d, want %d",
					x.live, len(all), x.crowded, crowdedNow, x.largest, largest, x.bytes(), m.bytes, bytes)
			}
			for _, e := range all {
				tag, found := e.val>>tagShift, false
				h := x.hash(e.key, tag)
				for v, i := x.next(h, h, e.key, tag); v != 0; v, i = x.next(h, i, e.key, tag) {
					found = found || v == e.val
				}
				if !found {
					t.Fatalf("an entry is missing: %v", e)
				}
			}
			if (len(all) > 4*segmentCut) != (cuts > 0) {
				t.Fatalf("%d entries in %d parts", len(all), cuts)
			}
		}
		for _, n := range []int{100, 3000, 50_000, 70_000, 50_000, 500, 60_000, 0} {
			for len(all) < n {
				add()
			}
			for len(all) > n {
				take()
			}
			check()
		}
		if most := 4 * segmentCut / 4 * 16; m.bytes > most {
			t.Errorf("an empty table takes %d bytes, want %d at most", m.bytes, most)
		}
	}
}

// Values of one key are all in one place, however a table is cut: when it is full
// as well, and there is room for parts but not for twice as much, a search for
// what is not there must end all the same.
func TestTableOfOneKey(t *testing.T) {
	m := &meter{}
	var x table
	x.init(7, 4, m)
	for i := range uint64(5000) {
		if i == 3000 {
			m.limit = m.bytes + segmentCut*16 + cutParts*segmentBytes
		}
		x.add(1, 1<<tagShift|i+1)
		for k := range x.seg {
			for j := range x.seg[k].cut {
				if s := &x.seg[k].cut[j]; s.used > 0 && s.used == len(s.entries) {
					t.Fatalf("after %d values a part is full", i+1)
				}
			}
			if s := &x.seg[k]; s.cut == nil && s.used > 0 && s.used == len(s.entries) {
				t.Fatalf("after %d values a segment is full", i+1)
			}
		}
	}
}
