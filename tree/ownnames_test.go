package tree

import (
	"math/rand/v2"
	"testing"
)

// ownBlocks is what a table of own names should hold: how often each block is
// called by each hash.
type ownBlocks map[ownBlockName]int

type ownBlockName struct {
	hash uint64
	run  uint32
	pos  int
}

// check compares a table with what it should hold.
func (want ownBlocks) check(t *testing.T, o *ownTable) {
	t.Helper()
	total, crowdedNow, used := 0, 0, 0
	for b, n := range want {
		total += n
		got := 0
		for e, i := o.first(b.hash); e != 0; e, i = o.next(b.hash, i) {
			if e>>entryTag != b.hash>>entryTag {
				t.Fatalf("entry %#x found by hash %#x", e, b.hash)
			}
			if entryRun(e) == b.run && entryPos(e) == b.pos {
				got++
			}
		}
		if got != n {
			t.Fatalf("block %d of run %#x is there %d times by hash %#x, want %d", b.pos, b.run, got, b.hash, n)
		}
	}
	segments, told := o.cut, uint(ownCut)
	if segments == nil {
		segments, told = []segment{o.whole}, 0
	}
	for i := range segments {
		s := &segments[i]
		n := s.check(t, told)
		used += n
		crowdedNow += crowded(n, s.slots())
	}
	if o.live != total || used != total {
		t.Fatalf("%d names, counted %d, %d in segments", total, o.live, used)
	}
	if o.crowded != crowdedNow {
		t.Fatalf("%d segments are crowded, counted %d", crowdedNow, o.crowded)
	}
}

// check compares how many entries a segment has with what it has counted, and the
// kinds that have passed a line with those of the entries behind it.
func (s *segment) check(t *testing.T, told uint) (n int) {
	t.Helper()
	passed := make([]uint64, len(s.words))
	for i := 0; i < len(s.words); i += lineWords {
		for k := range lineSlots {
			if s.words[i]>>(8*k+7)&1 == 0 {
				continue
			}
			n++
			e := s.words[i+1+k]
			for l := s.home(e, told); l != i; l = s.after(l) {
				passed[l] |= passes(e)
			}
		}
	}
	if n != s.used {
		t.Fatalf("a segment has %d entries, counted %d", n, s.used)
	}
	for i := 0; i < len(s.words); i += lineWords {
		if got, want := s.words[i]>>linePassed, passed[i]>>linePassed; got != want {
			t.Fatalf("line %d of %d: kinds %08b have passed it, it says %08b", i/lineWords, len(s.words)/lineWords, want, got)
		}
	}
	return n
}

// TestOwnTable plays random names on a table and on a map: few hashes, that
// fill lines and pass them, and many, until the table is cut.
func TestOwnTable(t *testing.T) {
	for _, c := range []struct {
		name   string
		hashes int // distinct ones; 0: any
		blocks int
	}{
		{"one hash", 1, 200},
		{"few hashes", 5, 3000},
		{"many", 0, 3000},
		{"cut", 0, 60_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			m := meter{}
			o, want, all := &ownTable{meter: &m}, ownBlocks{}, []ownBlockName(nil)
			for round := range 3 {
				for len(all) < c.blocks {
					b := ownBlockName{r.Uint64(), uint32(r.IntN(classes))<<28 | uint32(1+r.IntN(1<<16)), 0}
					b.pos = r.IntN(capOf(classOf(b.run)))
					if c.hashes > 0 {
						b.hash = uint64(r.IntN(c.hashes)) * 0x9e3779b97f4a7c15
					}
					if want[b] > 0 {
						continue
					}
					o.add(b.hash, b.run, b.pos)
					want[b]++
					all = append(all, b)
					if r.IntN(4) == 0 {
						k := r.IntN(len(all))
						if b := all[k]; !o.remove(b.hash, b.run, b.pos) || o.remove(b.hash, b.run, b.pos) {
							t.Fatalf("removal of block %d of run %#x", b.pos, b.run)
						}
						delete(want, all[k])
						all[k] = all[len(all)-1]
						all = all[:len(all)-1]
					}
				}
				want.check(t, o)
				if m.bytes != o.bytes() {
					t.Fatalf("%d bytes charged, it has %d", m.bytes, o.bytes())
				}
				for keep := len(all) * (2 - round) / 3; len(all) > keep; all = all[:len(all)-1] {
					b := all[len(all)-1]
					if !o.remove(b.hash, b.run, b.pos) {
						t.Fatalf("removal of block %d of run %#x", b.pos, b.run)
					}
					delete(want, b)
				}
				want.check(t, o)
			}
			if o.live != 0 {
				t.Errorf("%d names are left", o.live)
			}
			if (o.cut != nil) != (c.blocks > ownWhole*lineSlots*3/4) {
				t.Errorf("of %d names, cut: %v", c.blocks, o.cut != nil)
			}
		})
	}
}

// TestOwnTableFull lets a table grow no more: it is filled to the last place
// before it must, and searches end.
func TestOwnTableFull(t *testing.T) {
	m := meter{limit: 1}
	o, want := &ownTable{meter: &m}, ownBlocks{}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		b := ownBlockName{r.Uint64(), 1, i & 3}
		o.add(b.hash, b.run, b.pos)
		want[b]++
		if e, _ := o.first(r.Uint64()); e != 0 {
			t.Logf("found %#x by chance", e)
		}
	}
	want.check(t, o)
	for b := range want {
		if !o.remove(b.hash, b.run, b.pos) {
			t.Fatalf("removal of block %d", b.pos)
		}
	}
	if o.live != 0 {
		t.Errorf("%d names are left", o.live)
	}
}

// TestOwnTableAll plays blocks side by side on a table and on a map, whole and cut,
// of few hashes and of many.
func TestOwnTableAll(t *testing.T) {
	for _, c := range []struct {
		name   string
		hashes int // distinct ones; 0: any
		blocks int
		limit  int // of bytes; 1: no segment grows before it must
	}{
		{"few hashes", 5, 3000, 0},
		{"many", 0, 20_000, 0},
		{"cut", 0, 60_000, 0},
		{"full", 0, 20_000, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 8))
			m := meter{limit: c.limit}
			o, want := &ownTable{meter: &m}, ownBlocks{}
			type stretch struct {
				hashes []uint64
				run    uint32
				pos    int
			}
			var all []stretch
			drop := func(k int) {
				s := all[k]
				o.removeAll(s.hashes, s.run, s.pos)
				for i, h := range s.hashes {
					delete(want, ownBlockName{h, s.run, s.pos + i})
				}
				all[k] = all[len(all)-1]
				all = all[:len(all)-1]
			}
			for round, run := 0, uint32(0); round < 3; round++ {
				for len(want) < c.blocks {
					run++
					class := uint32(r.IntN(5))
					s := stretch{make([]uint64, 1+r.IntN(capOf(class))), class<<28 | run, 0}
					s.pos = r.IntN(capOf(class) - len(s.hashes) + 1)
					for i := range s.hashes {
						if s.hashes[i] = r.Uint64(); c.hashes > 0 {
							s.hashes[i] = (1 + s.hashes[i]%uint64(c.hashes)) * 0x9e3779b97f4a7c15
						}
						want[ownBlockName{s.hashes[i], s.run, s.pos + i}]++
					}
					if all = append(all, s); run%2 == 0 {
						o.addAll(s.hashes, s.run, s.pos)
					} else {
						for i := 0; i < len(s.hashes); i++ {
							if i += o.addStrange(s.hashes[i:], s.run, s.pos+i); i < len(s.hashes) {
								o.add(s.hashes[i], s.run, s.pos+i) // one that is there already
							}
						}
					}
					if r.IntN(4) == 0 {
						drop(r.IntN(len(all)))
					}
				}
				want.check(t, o)
				for keep := len(all) * (2 - round) / 3; len(all) > keep; {
					drop(len(all) - 1)
				}
				want.check(t, o)
				if m.bytes != o.bytes() {
					t.Fatalf("%d bytes charged, it has %d", m.bytes, o.bytes())
				}
			}
		})
	}
}

// TestOwnTableTrimmed trims a table, so that its lines are no round number, and has
// it grow until it is cut.
func TestOwnTableTrimmed(t *testing.T) {
	m := meter{}
	o, want := &ownTable{meter: &m}, ownBlocks{}
	r := rand.New(rand.NewPCG(9, 10))
	add := func() {
		b := ownBlockName{r.Uint64(), 1<<28 | uint32(1+r.IntN(1<<16)), r.IntN(8)}
		o.add(b.hash, b.run, b.pos)
		want[b]++
	}
	for len(o.whole.words) < 6144*lineWords {
		add()
	}
	for b := range want {
		if o.live*2 < o.whole.slots()-500 {
			break
		}
		o.remove(b.hash, b.run, b.pos)
		delete(want, b)
	}
	if !o.trim() || len(o.whole.words)/lineWords%ownSegments == 0 {
		t.Fatalf("trimmed to %d lines", len(o.whole.words)/lineWords)
	}
	for o.cut == nil {
		add()
	}
	want.check(t, o)
	if m.bytes != o.bytes() {
		t.Errorf("%d bytes charged, it has %d", m.bytes, o.bytes())
	}
	for b := range want {
		if !o.remove(b.hash, b.run, b.pos) {
			t.Fatalf("block %d of run %#x is not there", b.pos, b.run)
		}
	}
}
