package ingest

import (
	"testing"
	"unsafe"
)

// The vitals of a stream fill a line of memory: what is one stream's to write
// shares none with another's, and what is asked for with every answer is one
// line to fetch. The allocator lays out what has the size of a line by lines.
func TestVitalsAreALine(t *testing.T) {
	for range 1000 {
		v := new(Vitals)
		if unsafe.Sizeof(*v) != 64 || uintptr(unsafe.Pointer(v))%64 != 0 {
			t.Fatalf("%d bytes at %p", unsafe.Sizeof(*v), v)
		}
	}
}
