package ring

import (
	"testing"
	"unsafe"
)

// TestLayout holds what each side writes apart from what the other reads: two
// fields on one cache line would make each store of one side a miss of the
// other.
func TestLayout(t *testing.T) {
	var r Ring[uint64]
	var d Doorbell
	var w word
	type field struct {
		name string
		at   uintptr
		end  uintptr
	}
	for _, group := range [][]field{
		{ // of a ring, in order: one entry per group that may share lines
			{"set once", unsafe.Offsetof(r.buf), unsafe.Offsetof(r.bit) + 8},
			{"head", unsafe.Offsetof(r.head), unsafe.Offsetof(r.head) + 8},
			{"producer", unsafe.Offsetof(r.next), unsafe.Offsetof(r.stalls) + 8},
			{"tail", unsafe.Offsetof(r.tail), unsafe.Offsetof(r.tail) + 8},
			{"consumer", unsafe.Offsetof(r.read), unsafe.Offsetof(r.seenHead) + 8},
			{"want", unsafe.Offsetof(r.want), unsafe.Offsetof(r.want) + 8},
			{"next object", unsafe.Sizeof(r), 0},
		},
		{
			{"consumer", unsafe.Offsetof(d.words), unsafe.Offsetof(d.wake) + 8},
			{"parked", unsafe.Offsetof(d.parked), unsafe.Offsetof(d.parked) + 4},
			{"called", unsafe.Offsetof(d.called), unsafe.Offsetof(d.called) + 4},
			{"next object", unsafe.Sizeof(d), 0},
		},
		{
			{"bits", unsafe.Offsetof(w.bits), unsafe.Offsetof(w.bits) + 8},
			{"next object", unsafe.Sizeof(w), 0},
		},
	} {
		for i, f := range group[1:] {
			if gap := f.at - group[i].end; gap < unsafe.Sizeof(pad{}) {
				t.Errorf("%s starts %d bytes behind %s, want %d", f.name, gap, group[i].name, unsafe.Sizeof(pad{}))
			}
		}
	}
}
