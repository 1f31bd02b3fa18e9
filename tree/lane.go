package tree

import "math/bits"

// lane is one word: a holder's figures in one run. All that readers see of a
// holder here is in it, or, for holders on several tiers or with holes, in the
// two words of a side record it points at; so every change of a figure is the
// store of one word.
//
//	id 15 | shape 2 | own 1 | medium 2 | reach 12 | ref 32
//
// id 0 is an empty place. reach is how many leading blocks of the run the
// holder holds. own: the holder's names here, all of them, are its own and not
// the run's. ref: the side record of a full lane, the names of any other that
// has its own.
type lane uint64

const (
	shapeDevice = iota // everything on the device: device = any = reach, host = 0
	shapeHost          // everything on the host
	shapeOther         // everything on one tier that only ViewAny sees
	shapeFull          // the side record's words say

	laneOwn  = 1 << 17
	laneRef  = 0xffffffff << 32
	maxLanes = 1 << 15
)

func (l lane) id() uint32  { return uint32(l & 0x7fff) }
func (l lane) shape() int  { return int(l >> 15 & 3) }
func (l lane) own() bool   { return l&laneOwn != 0 }
func (l lane) reach() int  { return int(l >> 20 & 0xfff) }
func (l lane) ref() uint32 { return uint32(l >> 32) }
func (l lane) plain() bool { return l.shape() != shapeFull }
func (l lane) withReach(n int) lane {
	return l&^(0xfff<<20) | lane(n)<<20
}

// tier of a plain lane.
func (l lane) tier() Tier {
	if s := l.shape(); s != shapeOther {
		return Tier(s)
	}
	return Disk + Tier(l>>18&3)
}

// plainLane is the lane of a holder that has the first n blocks on one tier.
func plainLane(id uint32, t Tier, n int) lane {
	l := lane(id) | lane(n)<<20
	if t < Disk {
		return l | lane(t)<<15
	}
	return l | shapeOther<<15 | lane(t-Disk)<<18
}

// fullLane is the lane of a holder whose figures are in side record ref.
func fullLane(id, ref uint32, own bool) lane {
	l := lane(id) | shapeFull<<15 | lane(ref)<<32
	if own {
		l |= laneOwn
	}
	return l
}

func setBits(b *bitmap, lo, hi int) {
	for p := lo; p < hi; {
		end := min(hi, (p|63)+1)
		b[p>>6] |= (^uint64(0) >> (64 - (end - p))) << (p & 63)
		p = end
	}
}

// leading is the number of leading ones from position from on, up to the end.
func leading(b *bitmap, words, from int) int {
	n := 0
	for i := from >> 6; i < words; i++ {
		w := b[i]
		s := 0
		if i == from>>6 {
			s = from & 63
		}
		ones := bits.TrailingZeros64(^(w >> s))
		n += min(ones, 64-s)
		if ones < 64-s {
			break
		}
	}
	return n
}
