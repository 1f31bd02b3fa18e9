package tree

import (
	"iter"
	"math/bits"
)

// parts are the holders of a level that are listed, and its set.
func (l *Level) parts() (listed []Holder, set []uint64) {
	return l.of.holders[l.from:l.to], l.of.sets[l.set : l.set+l.words]
}

// Len is how many holders a level has, at least 1.
func (l *Level) Len() int {
	n := int(l.to - l.from)
	if l.words > 0 {
		for _, b := range l.of.sets[l.set : l.set+l.words] {
			n += bits.OnesCount64(b)
		}
	}
	return n
}

// Append appends the holders of a level to dst, in no order.
func (l *Level) Append(dst []Holder) []Holder {
	listed, set := l.parts()
	dst = append(dst, listed...)
	for w, b := range set {
		for ; b != 0; b &= b - 1 {
			dst = append(dst, l.of.seats[w<<6+bits.TrailingZeros64(b)])
		}
	}
	return dst
}

// All goes through the holders of a level, in no order.
func (l *Level) All() iter.Seq[Holder] {
	return func(yield func(Holder) bool) {
		listed, set := l.parts()
		for _, h := range listed {
			if !yield(h) {
				return
			}
		}
		for w, b := range set {
			for ; b != 0; b &= b - 1 {
				if !yield(l.of.seats[w<<6+bits.TrailingZeros64(b)]) {
					return
				}
			}
		}
	}
}
