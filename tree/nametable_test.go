package tree

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// check compares the name table with what it should hold, and what one look
// tells of names with what is there.
func (want ownBlocks) checkShared(t *testing.T, n *nameTable) {
	t.Helper()
	used, there := 0, map[uint64]int{}
	for b := range want {
		there[b.hash]++
		got := 0
		for e, i := n.first(b.hash); e != 0; e, i = n.next(b.hash, i) {
			if entryRun(e) == b.run && entryPos(e) == b.pos {
				got++
			}
		}
		if got != 1 {
			t.Fatalf("block %d of run %#x is there %d times by hash %#x", b.pos, b.run, got, b.hash)
		}
	}
	var suspects [1]uint8
	for h := range there {
		if n.suspects(suspects[:], []uint64{h}) != 1 || suspects[0] != 0 {
			t.Fatalf("hash %#x is not suspected", h)
		}
	}
	for i := range n.seg {
		used += n.seg[i].check(t, 0)
	}
	if n.live != len(want) || used != len(want) {
		t.Fatalf("%d names, counted %d, %d in segments", len(want), n.live, used)
	}
	if n.meter.bytes != n.bytes() {
		t.Fatalf("%d bytes charged, it has %d", n.meter.bytes, n.bytes())
	}
}

// TestNameTable plays random names on the table of shared names and on a map, by
// one and by neighbours: few hashes, that fill lines and pass them, and many.
func TestNameTable(t *testing.T) {
	for _, c := range []struct {
		name   string
		hashes int // distinct ones; 0: any
		blocks int
		limit  int // of bytes; 1: no segment grows before it must
	}{
		{"one hash", 1, 200, 0},
		{"few hashes", 5, 3000, 0},
		{"many", 0, 60_000, 0},
		{"full", 0, 20_000, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 6))
			m := meter{limit: c.limit}
			n, want, all := &nameTable{}, ownBlocks{}, []ownBlockName(nil)
			n.init(1, &m)
			drop := func(k int) {
				b := all[k]
				n.remove(b.hash, b.run, b.pos)
				delete(want, b)
				all = slices.Delete(all, k, k+1)
			}
			for round, run := 0, uint32(0); round < 3; round++ {
				for len(all) < c.blocks {
					run++
					class := uint32(r.IntN(5))
					hashes := make([]uint64, 1+r.IntN(capOf(class)))
					pos := r.IntN(capOf(class) - len(hashes) + 1)
					for i := range hashes {
						if hashes[i] = r.Uint64(); c.hashes > 0 {
							hashes[i] = (1 + hashes[i]%uint64(c.hashes)) * 0x9e3779b97f4a7c15
						}
						b := ownBlockName{hashes[i], class<<28 | run, pos + i}
						want[b]++
						all = append(all, b)
					}
					if len(hashes) == 1 {
						n.add(hashes[0], class<<28|run, pos)
					} else {
						for i := 0; i < len(hashes); i++ {
							if i += n.addStrange(hashes[i:], class<<28|run, pos+i); i < len(hashes) {
								n.add(hashes[i], class<<28|run, pos+i) // one that is there already
							}
						}
					}
					if r.IntN(4) == 0 {
						drop(len(all) - 1 - r.IntN(min(len(all), 50)))
					}
				}
				want.checkShared(t, n)
				for keep := len(all) * (2 - round) / 3; len(all) > keep; {
					drop(len(all) - 1)
				}
				want.checkShared(t, n)
			}
		})
	}
}
