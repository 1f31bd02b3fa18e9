package tree

import (
	"math/rand/v2"
	"testing"
)

// TestPassedAroundTheEnd has an entry lie behind the place where a search for
// another begins, that itself passed the last line: what the other one's removal
// says of the lines is that the entry still passes them.
func TestPassedAroundTheEnd(t *testing.T) {
	s := segment{words: make([]uint64, 4*lineWords)}
	n := uint64(0)
	in := func(line, kind uint64) uint64 { // the entry that belongs to a line
		n++
		e := line<<62 | kind<<entryKind | n
		s.put(e, 0)
		return e
	}
	var first [3]uint64
	for line := range uint64(3) {
		first[line] = in(line, 1)
		for range lineSlots - 1 {
			in(line, 1)
		}
	}
	e := in(0, 2) // passes lines 0, 1, 2
	for range lineSlots - 1 {
		in(3, 1)
	}
	if !s.take(first[1], 0) {
		t.Fatal("an entry of line 1 is not there")
	}
	o := in(2, 2) // passes lines 2, 3, 0 and lies in 1
	s.check(t, 0)
	if !s.take(e, 0) {
		t.Fatal("the entry in line 3 is not there")
	}
	s.check(t, 0)
	if got, _ := s.first(o, 0); got != o {
		t.Errorf("found %#x, want %#x", got, o)
	}
	if !s.take(o, 0) {
		t.Error("the entry in line 1 is not there")
	}
	s.check(t, 0)
}

// TestSegmentNearlyFull puts entries of few kinds in and takes them out of short
// segments that have hardly a place free, where searches go around the end.
func TestSegmentNearlyFull(t *testing.T) {
	for _, lines := range []int{1, 4, 5, 16} {
		for _, load := range []float64{.80, .88, .94, 1} {
			r := rand.New(rand.NewPCG(uint64(lines), uint64(load*100)))
			s := segment{words: make([]uint64, lines*lineWords)}
			there := []uint64(nil)
			most := min(int(load*float64(s.slots())), s.slots()-1)
			for step := range 20_000 {
				if len(there) < most && r.IntN(8) > 0 {
					e := r.Uint64()&^(7<<entryKind) | r.Uint64N(3)<<entryKind | 1
					s.put(e, 0)
					there = append(there, e)
				} else if len(there) > 0 {
					k := r.IntN(len(there))
					if !s.take(there[k], 0) {
						t.Fatalf("%d lines, load %.2f, step %d: %#x is not there", lines, load, step, there[k])
					}
					there[k] = there[len(there)-1]
					there = there[:len(there)-1]
				}
				if step%16 == 0 {
					s.check(t, 0)
				}
			}
			for _, e := range there {
				if !s.take(e, 0) {
					t.Fatalf("%d lines, load %.2f: %#x is not there", lines, load, e)
				}
			}
			s.check(t, 0)
		}
	}
}
