package tree

import (
	"iter"
	"math/bits"
)

// Len is how many holders a level has, at least 1.
func (l *Level) Len() int {
	n := len(l.listed)
	for _, b := range l.set {
		n += bits.OnesCount64(b)
	}
	return n
}

// Append appends the holders of a level to dst, in no order.
func (l *Level) Append(dst []Holder) []Holder {
	dst = append(dst, l.listed...)
	for w, b := range l.set {
		for ; b != 0; b &= b - 1 {
			dst = append(dst, l.seats[w<<6+bits.TrailingZeros64(b)])
		}
	}
	return dst
}

// All goes through the holders of a level, in no order.
func (l *Level) All() iter.Seq[Holder] {
	return func(yield func(Holder) bool) {
		for _, h := range l.listed {
			if !yield(h) {
				return
			}
		}
		for w, b := range l.set {
			for ; b != 0; b &= b - 1 {
				if !yield(l.seats[w<<6+bits.TrailingZeros64(b)]) {
					return
				}
			}
		}
	}
}
