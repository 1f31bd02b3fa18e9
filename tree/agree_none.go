//go:build !amd64 || purego || race

package tree

import (
	"sync/atomic"
	"unsafe"
)

// agreeEights is the twin of agree_amd64.s. Eight words are compared without a branch
// between them.
func agreeEights(first *atomic.Uint64, other *uint64, n int) int {
	a, b := unsafe.Slice(first, n), unsafe.Slice(other, n)
	m := 0
	for ; m+8 <= n; m += 8 {
		c, d := a[m:m+8:m+8], b[m:m+8:m+8]
		// Parentheses: in Go ^ binds no tighter than |.
		if (c[0].Load()^d[0])|(c[1].Load()^d[1])|(c[2].Load()^d[2])|(c[3].Load()^d[3])|
			(c[4].Load()^d[4])|(c[5].Load()^d[5])|(c[6].Load()^d[6])|(c[7].Load()^d[7]) != 0 {
			break
		}
	}
	return m
}
