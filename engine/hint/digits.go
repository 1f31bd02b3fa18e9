package hint

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// A hint of a long prompt lists hundreds of names of twenty digits, which are
// most of its time. Eight digits are made at once in the bytes of one word.

// maxDigits is what a name and the comma or quotes around it take at most.
const maxDigits = 24

// eight returns the eight decimal digits of x < 10^8, the first in the lowest
// byte, each as a number of 0 … 9.
func eight(x uint64) uint64 {
	const low, nibbles = 0x7f_0000_007f, 0x000f_000f_000f_000f
	fours := x/10_000 | x%10_000<<32            // two numbers of four digits
	hundreds := fours * 10_486 >> 20 & low      // their first two digits: /100
	twos := hundreds | (fours-100*hundreds)<<16 // four numbers of two digits
	tens := twos * 103 >> 10 & nibbles          // their first digit: /10
	return tens | (twos-10*tens)<<8
}

const zeros = 0x3030_3030_3030_3030 // '0' in every byte

// appendName appends v in plain decimal to dst, which has room for maxDigits.
func appendName(dst []byte, v uint64) []byte {
	switch {
	case v < 1e8:
		return appendHead(dst, v)
	case v < 1e16:
		dst = appendHead(dst, v/1e8)
		n := len(dst)
		dst = dst[:n+8]
		binary.LittleEndian.PutUint64(dst[n:], eight(v%1e8)|zeros)
		return dst
	}
	head, rest := v/1e16, v%1e16
	dst = appendHead(dst, head)
	n := len(dst)
	dst = dst[:n+16]
	binary.LittleEndian.PutUint64(dst[n:], eight(rest/1e8)|zeros)
	binary.LittleEndian.PutUint64(dst[n+8:], eight(rest%1e8)|zeros)
	return dst
}

// appendHead appends v < 10^8 without leading zeros.
func appendHead(dst []byte, v uint64) []byte {
	d := eight(v)
	skip := min(bits.TrailingZeros64(d)/8, 7) // of 0 one digit stays
	n := len(dst)
	binary.LittleEndian.PutUint64(dst[n:n+8], (d|zeros)>>(8*skip))
	return dst[:n+8-skip]
}

// AppendNames appends a JSON list of block names.
func AppendNames(dst []byte, names []uint64, form Form) []byte {
	dst = slices.Grow(dst, 2+maxDigits*len(names))
	dst = append(dst, '[')
	for i, n := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		if form == Numbers {
			dst = appendName(dst, n)
			continue
		}
		dst = append(appendName(append(dst, '"'), n), '"')
	}
	return append(dst, ']')
}
