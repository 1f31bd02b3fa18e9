package wire

import (
	"math/bits"
	"math/rand/v2"
)

// hashSet finds duplicates among the hashes of one event: an open-addressing
// table that is emptied by counting up, not by clearing.
type hashSet struct {
	slots []hashSlot
	epoch uint32 // slots of another epoch are empty
	odd   uint64 // random multiplier: hashes come from outside
}

type hashSlot struct {
	hash  uint64
	epoch uint32
}

// fewHashes is up to where comparing all with all is cheaper than the table.
const fewHashes = 8

// duplicate reports whether a hash occurs twice in hs.
func (s *hashSet) duplicate(hs []uint64) bool {
	if len(hs) <= fewHashes {
		for i, h := range hs {
			for _, g := range hs[:i] {
				if g == h {
					return true
				}
			}
		}
		return false
	}
	width := bits.Len(uint(2*len(hs) - 1)) // at most half full
	if len(s.slots) < 1<<width {
		s.slots = make([]hashSlot, 1<<width)
		s.epoch = 0
		s.odd = rand.Uint64() | 1
	}
	if s.epoch++; s.epoch == 0 {
		clear(s.slots)
		s.epoch = 1
	}
	slots := s.slots[:1<<width]
	mask := uint64(len(slots) - 1)
	for _, h := range hs {
		for i := h * s.odd >> (64 - width); ; i++ {
			slot := &slots[i&mask]
			if slot.epoch != s.epoch {
				*slot = hashSlot{h, s.epoch}
				break
			}
			if slot.hash == h {
				return true
			}
		}
	}
	return false
}
