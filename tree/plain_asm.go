//go:build (amd64 || arm64) && !purego && !race

package tree

import (
	"sync/atomic"
	"unsafe"
)

// fillPlain stores n words, each stride words of src behind the one before,
// into words that no reader looks at yet: those behind a run's count, or names
// behind everybody's reach. They are plain stores, a third of what exchanges
// cost. What publishes them is an atomic store behind them, a release on every
// processor we know, so who sees that one sees them. The race detector and
// other processors get atomic stores.
//
//go:noescape
func fillPlain(dst *atomic.Uint64, src *uint64, n, stride int)

// fetchLines asks for the lines of memory at n addresses and waits for none of
// them. Loads would do the same, but only as many at a time as the processor
// can look ahead, a handful; of these it has dozens under way.
//
//go:noescape
func fetchLines(at *uintptr, n int)

// copyUnseen copies src to the beginning of dst.
func copyUnseen(dst, src []atomic.Uint64) {
	if n := len(src); n > 0 {
		dst = dst[:n]
		fillPlain(&dst[0], (*uint64)(unsafe.Pointer(&src[0])), n, 1)
	}
}

// fillUnseen fills dst from every stride-th word of src.
func fillUnseen(dst []atomic.Uint64, src []uint64, stride int) {
	if n := len(dst); n > 0 {
		_ = src[(n-1)*stride]
		fillPlain(&dst[0], &src[0], n, stride)
	}
}
