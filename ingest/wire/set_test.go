package wire

import (
	"math/rand/v2"
	"testing"
)

func TestDuplicate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var s hashSet
	for _, n := range []int{0, 1, 2, fewHashes, fewHashes + 1, 32, filterHashes, filterHashes + 1, 3000} {
		for round := range 200 {
			hs := make([]uint64, n)
			for i := range hs {
				hs[i] = rng.Uint64()
			}
			want := false
			if n > 1 && round%2 == 0 {
				i, j := rng.IntN(n), rng.IntN(n)
				hs[i] = hs[j]
				want = i != j
			}
			if got := s.duplicate(hs); got != want {
				t.Fatalf("%d hashes: %v, want %v", n, got, want)
			}
		}
	}
	// Bits that are shared are no duplicates: some rounds of many have them.
	shared := 0
	for range 1000 {
		hs := make([]uint64, filterHashes)
		for i := range hs {
			hs[i] = rng.Uint64()
		}
		if s.shared(hs) {
			shared++
			if s.duplicate(hs) {
				t.Fatal("a duplicate among random hashes")
			}
		}
		if s.shared(hs[:0]) || *s.filter != [len(s.filter)]uint64{} {
			t.Fatal("the filter is not empty")
		}
	}
	if shared == 0 {
		t.Error("no bit was ever shared")
	}
}
