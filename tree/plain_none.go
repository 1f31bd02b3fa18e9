//go:build !(amd64 || arm64) || purego || race

package tree

import "sync/atomic"

// fetchLines does nothing: what it would fetch is fetched when it is used.
func fetchLines(*uintptr, int) {}

// copyUnseen copies src to the beginning of dst.
func copyUnseen(dst, src []atomic.Uint64) {
	for i := range src {
		dst[i].Store(src[i].Load())
	}
}

// fillUnseen fills dst from every stride-th word of src.
func fillUnseen(dst []atomic.Uint64, src []uint64, stride int) {
	for i := range dst {
		dst[i].Store(src[i*stride])
	}
}
