package content

import "math/bits"

// The first 64 bytes of XXH3's secret, and what it begins and ends with.
const (
	secret0 = 0xbe4ba423396cfeb8
	secret1 = 0x1cad21f72c81017c
	secret2 = 0xdb979083e96dd4de
	secret3 = 0x1f67b3b7a4a44072
	secret4 = 0x78e5c0cc4ee679cb
	secret5 = 0x2172ffcc7dd05a82
	secret6 = 0x8e2443f7744608b8
	secret7 = 0x4c263a81e69035e0

	prime64  = 0x9e3779b185ebca87
	primeEnd = 0x165667919e3779f9
)

// appendSixteens is Append for units of 16 tokens without look-ahead and keys,
// all under one seed. Sixteen is what most engines have, so this is nearly all
// the hashing there is: XXH3 of exactly 64 bytes, with the seed worked into the
// secret once and nothing called for a unit.
func appendSixteens(dst []uint64, tokens []uint32, seed uint64) []uint64 {
	s0, s1, s2, s3 := secret0+seed, secret1-seed, secret2+seed, secret3-seed
	s4, s5, s6, s7 := secret4+seed, secret5-seed, secret6+seed, secret7-seed
	for len(tokens) >= 16 {
		w := (*[16]uint32)(tokens)
		tokens = tokens[16:]
		h := uint64(64 * prime64 & (1<<64 - 1))
		h += fold(pair(w[0], w[1])^s0, pair(w[2], w[3])^s1)
		h += fold(pair(w[12], w[13])^s2, pair(w[14], w[15])^s3)
		h += fold(pair(w[4], w[5])^s4, pair(w[6], w[7])^s5)
		h += fold(pair(w[8], w[9])^s6, pair(w[10], w[11])^s7)
		h ^= h >> 37
		h *= primeEnd
		dst = append(dst, h^h>>32)
	}
	return dst
}

// pair is two tokens as one little-endian word, by one load where that is the
// order of the machine.
func pair(a, b uint32) uint64 { return uint64(a) | uint64(b)<<32 }

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
