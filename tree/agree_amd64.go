//go:build !purego && !race

package tree

import "sync/atomic"

// agreeEights is how many leading words of a and b are equal, n of each, in steps of
// eight: of the eight with the first that differ, and of what is left behind the last
// eight, it says nothing. a lies at a multiple of eight words.
//
//go:noescape
func agreeEights(a *atomic.Uint64, b *uint64, n int) int
