//go:build amd64 && unix && !purego && !race

package wire

import "unsafe"

// wordsOf views bytes as words, to give groups places that end where memory
// does.
func wordsOf(b []byte) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
