package tree

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNamesAhead puts names into two tables and takes them out again, into one as the
// index does and into the other name by name, by what the first falls back on: the
// tables are the same word for word, whatever the processor has done ahead. Hashes
// come close to each other, so that lines are full and passed, the last ones too, and
// marks are equal.
func TestNamesAhead(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 17))
		var m meter
		var a, b nameTable
		a.init(1, &m)
		b.init(1, &m)
		oa, ob := &ownTable{meter: &m}, &ownTable{meter: &m}
		spread := uint64(1)<<(entryTag+r.IntN(64-entryTag)) - 1 // how much hashes differ above
		hash := func() uint64 {
			h := r.Uint64()
			if r.IntN(4) > 0 {
				h = h&spread | ^uint64(0)&^spread
			}
			return h
		}
		take := func(h uint64, run uint32, pos int) {
			s := b.segment(h)
			s.take(nameEntry(h, run, pos), 0)
			if sparse(s.used, s.slots()) && b.shrunk < shrinkWords {
				b.shrunk += len(s.words)
				b.resize(s, len(s.words)/lineWords/2)
			}
		}
		type named struct {
			hashes []uint64
			run    uint32
			pos    int
		}
		var in []named
		for op := range 400 {
			if len(in) > 0 && (r.IntN(5) < 2 || op > 300) {
				k := r.IntN(len(in))
				g := in[k]
				lo := r.IntN(len(g.hashes))
				hi := lo + 1 + r.IntN(len(g.hashes)-lo)
				a.removeAll(g.hashes[lo:hi], g.run, g.pos+lo)
				oa.removeAll(g.hashes[lo:hi], g.run, g.pos+lo)
				for i := lo; i < hi; i++ {
					take(g.hashes[i], g.run, g.pos+i)
					ob.remove(g.hashes[i], g.run, g.pos+i)
				}
				a.shrunk, b.shrunk = 0, 0
				in = slices.Delete(in, k, k+1)
				if lo > 0 {
					in = append(in, named{g.hashes[:lo], g.run, g.pos})
				}
				if hi < len(g.hashes) {
					in = append(in, named{g.hashes[hi:], g.run, g.pos + hi})
				}
			} else {
				g := named{run: uint32(8<<28) + uint32(op), pos: r.IntN(900)}
				for range 1 + r.IntN(64) {
					g.hashes = append(g.hashes, hash())
				}
				n := a.addStrange(g.hashes, g.run, g.pos)
				k := 0
				for ; k < len(g.hashes); k++ {
					s := b.segment(g.hashes[k])
					if s.full(5, 7) {
						b.grow(s)
					}
					if !s.putStrange(nameEntry(g.hashes[k], g.run, g.pos+k), 0) {
						break
					}
				}
				if n != k {
					t.Fatalf("seed %d, op %d: %d of %d names are strange, want %d", seed, op, n, len(g.hashes), k)
				}
				g.hashes = g.hashes[:n]
				if n == 0 {
					continue
				}
				// The same names, few enough to be no others' in a table of their own.
				n = oa.addStrange(g.hashes, g.run, g.pos)
				for k = 0; k < n; k++ {
					if s := &ob.whole; (s.used+len(g.hashes)-k)*4 > s.slots()*3 {
						ob.add(g.hashes[k], g.run, g.pos+k)
					} else if !s.putStrange(makeEntry(g.hashes[k], g.run, g.pos+k), 0) {
						t.Fatalf("seed %d, op %d: name %d of %d is known", seed, op, k, n)
					} else {
						ob.live++
					}
				}
				if n < len(g.hashes) { // all or nothing, for the sake of what is taken out
					oa.removeAll(g.hashes[:n], g.run, g.pos)
					a.removeAll(g.hashes, g.run, g.pos)
					for i, h := range g.hashes {
						take(h, g.run, g.pos+i)
						if i < n {
							ob.remove(h, g.run, g.pos+i)
						}
					}
					continue
				}
				in = append(in, g)
			}
			for i := range a.seg {
				if !slices.Equal(a.seg[i].words, b.seg[i].words) || a.seg[i].used != b.seg[i].used {
					t.Fatalf("seed %d, op %d: segment %d: %d and %d entries", seed, op, i, a.seg[i].used, b.seg[i].used)
				}
			}
			if !slices.Equal(oa.whole.words, ob.whole.words) || oa.whole.used != ob.whole.used || oa.live != ob.live {
				t.Fatalf("seed %d, op %d: own names: %d and %d entries", seed, op, oa.whole.used, ob.whole.used)
			}
		}
	}
}

// TestNamesSpread gives entries to a segment with more lines, one with fewer, and one of
// which the first line is the last one's neighbour, all at once and one by one.
func TestNamesSpread(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 19))
		from := &segment{words: make([]uint64, lineWords*(1+r.IntN(40)))}
		near := r.IntN(3) > 0
		for range r.IntN(from.slots() + 1) {
			h := r.Uint64()
			if near {
				h |= ^uint64(0) << (40 + r.IntN(24))
			}
			from.put(makeEntry(h, 8<<28|uint32(r.IntN(1000)), r.IntN(1024)), 0)
		}
		lines := max(1, from.used/lineSlots+1) + r.IntN(50)
		all, each := &segment{words: make([]uint64, lineWords*lines)}, &segment{words: make([]uint64, lineWords*lines)}
		all.putAll(from.words, 0)
		for i := 0; i < len(from.words); i += lineWords {
			for k := range lineSlots {
				if from.words[i]>>(8*k+7)&1 != 0 {
					each.put(from.words[i+1+k], 0)
				}
			}
		}
		if !slices.Equal(all.words, each.words) || all.used != each.used || all.used != from.used {
			t.Fatalf("seed %d: %d entries, %d and %d in %d lines", seed, from.used, all.used, each.used, lines)
		}
	}
}
