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

// appendName appends v < 10^16 in plain decimal to dst, which has room for
// maxDigits.
func appendName(dst []byte, v uint64) []byte {
	if v < 1e8 {
		return appendHead(dst, v)
	}
	dst = appendHead(dst, v/1e8)
	n := len(dst)
	dst = dst[:n+8]
	binary.LittleEndian.PutUint64(dst[n:], eight(v%1e8)|zeros)
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

// putLong puts v ≥ 10^16, of 17 to 20 digits, at the beginning of b, and returns
// how many bytes it took. Nearly all names are of this kind.
func putLong(b *[maxDigits]byte, v uint64) int {
	head := v / 1e16 // of 1 … 4 digits
	rest := v - head*1e16
	hi := rest / 1e8
	twos := head/100 | head%100<<16
	tens := twos * 103 >> 10 & 0x000f_000f
	digits := tens | (twos-10*tens)<<8
	skip := bits.TrailingZeros64(digits) / 8
	n := 4 - skip
	binary.LittleEndian.PutUint32(b[:4], uint32(digits>>(8*skip))|zeros&0xffff_ffff)
	binary.LittleEndian.PutUint64(b[n:n+8], eight(hi)|zeros)
	binary.LittleEndian.PutUint64(b[n+8:n+16], eight(rest-hi*1e8)|zeros)
	return n + 16
}

// AppendNames appends a JSON list of block names.
func AppendNames(dst []byte, names []uint64, form Form) []byte {
	// Room for all, and for the last one's words to reach beyond its digits.
	dst = slices.Grow(dst, 2+maxDigits*(len(names)+1))
	n := len(dst)
	dst = dst[:cap(dst)]
	before := byte('[')
	for _, v := range names {
		dst[n] = before
		n++
		before = ','
		if form == Strings {
			dst[n] = '"'
			n++
		}
		if v >= 1e16 {
			n += putLong((*[maxDigits]byte)(dst[n:n+maxDigits]), v)
		} else {
			n = len(appendName(dst[:n], v))
		}
		if form == Strings {
			dst[n] = '"'
			n++
		}
	}
	if len(names) == 0 {
		dst[n] = before
		n++
	}
	dst[n] = ']'
	n++
	return dst[:n]
}
