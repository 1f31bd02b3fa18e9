package tree

import (
	"math/rand/v2"
	"testing"
)

// TestShelf plays random calls on a slab of a budget and on a set: the lowest
// cell is handed out, nothing twice, chunks that nobody uses are given back and
// come again, and every byte is charged, none before spare has said so.
func TestShelf(t *testing.T) {
	for _, c := range []struct{ stride, words int }{{1, 512}, {3, 512}, {16, 512}, {24, 64}, {300, 512}, {8, 4096}} {
		r := rand.New(rand.NewPCG(5, uint64(c.stride)))
		m := meter{limit: 1 << 30}
		var s slab
		s.init(c.stride, c.words, &m)
		used := map[uint32]bool{}
		low, gaveBack := uint32(1), 0 // no free cell is before low
		lowest := func() uint32 {
			id := low
			for used[id] || s.gone(id) {
				id++
			}
			low = id
			return id
		}
		for round := range 20 {
			for n := r.IntN(3000); n > 0; n-- {
				want, before, need := lowest(), m.bytes, s.spare(1)
				id := s.alloc()
				if need > 0 {
					low = 1
				} else if id != want {
					t.Fatalf("stride %d: cell %d, %d is the lowest free one", c.stride, id, want)
				}
				if used[id] || id == 0 {
					t.Fatalf("stride %d: cell %d is in use", c.stride, id)
				}
				if m.bytes-before > need {
					t.Fatalf("stride %d: %d bytes charged, %d asked for", c.stride, m.bytes-before, need)
				}
				used[id] = true
				s.at(id)[0].Store(uint64(round+1) << countBits)
			}
			for id := range used {
				if round%4 == 0 || r.IntN(8) > 0 {
					s.release(id)
					delete(used, id)
				}
			}
			if low = 1; round%3 == 0 && s.giveBack(true) {
				gaveBack++
			}
			if want := s.bytes() + m.nothings; m.bytes != want || m.free != (s.chunks()<<s.shift-s.live)*c.stride*8 || s.live != len(used) {
				t.Fatalf("stride %d: %d bytes charged, %d free, it has %d; %d of %d cells in use", c.stride, m.bytes, m.free, want, s.live, len(used))
			}
		}
		if gaveBack == 0 {
			t.Errorf("stride %d: nothing was given back", c.stride)
		}
		for id := range used {
			s.release(id)
		}
		s.giveBack(true)
		if s.chunks() > 2 {
			t.Errorf("stride %d: %d chunks are left of a slab without cells", c.stride, s.chunks())
		}
	}
}

// gone reports whether the chunk of a cell was given back.
func (s *slab) gone(id uint32) bool {
	chunk := int(id >> s.shift)
	return chunk < len(s.shelf.taken) && s.shelf.taken[chunk] == noMemory
}

// TestVersionsGoOn has a run's memory given back and a run under the same number
// in new memory: who remembers the first one's version finds nothing meanwhile,
// and another version then.
func TestVersionsGoOn(t *testing.T) {
	x := New(Options{Seed: 3, Bytes: minBudget})
	h, err := x.AddHolder(Copies, 1)
	if err != nil {
		t.Fatal(err)
	}
	names := func(k int) (all []uint64) {
		for i := range 4 {
			all = append(all, uint64(4*k+i+1))
		}
		return all
	}
	store := func(k int) {
		st := Store{Span: 1}
		for _, n := range names(k) {
			st.Pairs = append(st.Pairs, n, n)
		}
		x.Store(Owner{Holder: h}, &st)
	}
	const runs = 200
	was := map[uint32]uint64{}
	fill := func() {
		for k := range runs {
			store(k)
		}
		for i := range x.links.tab {
			tab := x.links.segment(uint64(i))
			for k := range tab {
				if id := uint32(tab[k].Load()); id != 0 {
					v := version(x.run(id)[hVersion].Load())
					if v <= was[id] {
						t.Errorf("run %#x has version %d, and had %d in memory that was given back", id, v, was[id])
					}
					was[id] = v
				}
			}
		}
	}
	for range 4 {
		fill()
		for k := range runs {
			x.Remove(Owner{Holder: h}, names(k))
		}
		if !x.giveBack() {
			t.Fatal("nothing was given back")
		}
		some := false
		for id := range was {
			if s := &x.runs[classOf(id)]; s.gone(id & (1<<28 - 1)) {
				some = true
				for i := range x.run(id) {
					if w := x.run(id)[i].Load(); w != 0 {
						t.Fatalf("run %#x: word %d is %#x where there is no memory", id, i, w)
					}
				}
			}
		}
		if !some {
			t.Fatal("no run's memory was given back")
		}
		if err := x.check(); err != nil {
			t.Fatal(err)
		}
	}
}
