package wire

import (
	"math/bits"
	"math/rand/v2"
)

// hashSet finds duplicates among the hashes of one event. Most events have none
// and are of a few dozen blocks: a filter of one bit per hash tells that at once,
// and without a branch that could not be foretold. Behind it is an
// open-addressing table that is emptied by counting up, not by clearing.
type hashSet struct {
	odd    uint64 // random multiplier, 0 before the first use: hashes come from outside
	filter *[1 << filterBits / 64]uint64

	slots []hashSlot
	epoch uint32 // slots of another epoch are empty
}

// The filter has 2^filterBits bits. It is asked about up to filterHashes hashes,
// of which in one case of four two share a bit; of 32, in one of 64.
const (
	filterBits   = 15
	filterHashes = 128
)

type hashSlot struct {
	hash  uint64
	epoch uint32
}

// fewHashes is up to where comparing all with all is cheaper than either.
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
	if s.odd == 0 {
		s.odd = rand.Uint64() | 1
		s.filter = new([1 << filterBits / 64]uint64)
	}
	return (len(hs) > filterHashes || s.shared(hs)) && s.exact(hs)
}

// shared reports whether two of hs have one bit of the filter, and leaves it
// empty.
func (s *hashSet) shared(hs []uint64) bool {
	filter := s.filter
	shared := uint64(0)
	for _, h := range hs {
		bit := h * s.odd >> (64 - filterBits)
		word := &filter[bit/64]
		shared |= *word >> (bit % 64)
		*word |= 1 << (bit % 64)
	}
	for _, h := range hs {
		filter[h*s.odd>>(64-filterBits)/64] = 0
	}
	return shared&1 != 0
}

func (s *hashSet) exact(hs []uint64) bool {
	width := bits.Len(uint(2*len(hs) - 1)) // at most half full
	if len(s.slots) < 1<<width {
		s.slots = make([]hashSlot, 1<<width)
		s.epoch = 0
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
