package tree

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// TestAgree compares what agree says with where words were made to differ: contents of
// every length, queries at odd addresses that go on with what would agree, and words
// that differ in one bit, any of them.
func TestAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	a := make([]atomic.Uint64, 200)
	query := make([]uint64, len(a)+1)
	for n := range len(a) + 1 {
		for try := range 100 {
			b := query[try%2:][:len(a)]
			for i := range a {
				b[i] = r.Uint64()
				a[i].Store(b[i])
			}
			want := n
			for range r.IntN(3) {
				if i := r.IntN(len(a)); b[i] == a[i].Load() {
					b[i] ^= 1 << r.IntN(64)
					want = min(want, i)
				}
			}
			if got := agree(a[:n], b[:n]); got != want {
				t.Fatalf("of %d words %d agree, not %d", n, want, got)
			}
		}
	}
}
