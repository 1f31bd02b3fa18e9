package content

import "github.com/zeebo/xxh3"

// Keys are the extra-key hashes of consecutive units: unit i owns
// Hashes[Ends[i-1]:Ends[i]] (from 0 for unit 0). Their order does not matter,
// duplicates do. Units behind the end of Ends own none, so the zero value means
// no keys at all.
type Keys struct {
	Hashes []uint64
	Ends   []int
}

// Reset empties k and keeps its buffers.
func (k *Keys) Reset() {
	k.Hashes = k.Hashes[:0]
	k.Ends = k.Ends[:0]
}

// of returns the hashes of unit i; never a run outside Hashes, whatever Ends
// says, because requests fill it too.
func (k *Keys) of(i int) []uint64 {
	if k == nil || i >= len(k.Ends) {
		return nil
	}
	from, to := 0, min(k.Ends[i], len(k.Hashes))
	if i > 0 {
		from = max(k.Ends[i-1], 0)
	}
	if from >= to {
		return nil
	}
	return k.Hashes[from:to]
}

// MultimodalID returns the key hash of a multimodal identifier: the first 16
// digits of one that is exactly 64 hexadecimal digits, XXH3-64 of any other. 64
// digits that begin with 16 zeros are a padded number, not a digest: their
// first digits would be the same for all images, so they count as any other.
// It returns false for the empty identifier, which is no key.
func MultimodalID(id []byte) (uint64, bool) {
	if len(id) == 0 {
		return 0, false
	}
	if v, ok := hexID(id); ok && v != 0 {
		return v, true
	}
	return xxh3.Hash(id), true
}

// MultimodalIDString is [MultimodalID] for a string.
func MultimodalIDString(id string) (uint64, bool) {
	if len(id) == 64 {
		var b [64]byte
		copy(b[:], id)
		if v, ok := hexID(b[:]); ok && v != 0 {
			return v, true
		}
	}
	return xxh3.HashString(id), id != ""
}

// IsHexID reports whether id is exactly 64 hexadecimal digits, the form in
// which some engines send a multimodal identifier as a bare string.
func IsHexID(id []byte) bool {
	_, ok := hexID(id)
	return ok
}

// hexID returns the number that the first 16 of 64 hexadecimal digits make.
func hexID(id []byte) (uint64, bool) {
	if len(id) != 64 {
		return 0, false
	}
	var v uint64
	for i, c := range id {
		switch {
		case c-'0' < 10:
			c -= '0'
		case c|0x20-'a' < 6:
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		if i < 16 {
			v = v<<4 | uint64(c)
		}
	}
	return v, true
}

// Opaque returns the key hash of a key whose meaning is not known, from its
// canonical MessagePack: every header and number in its shortest form, floats
// as float64, map entries in the order of their encoded keys.
func Opaque(canonicalMsgpack []byte) uint64 {
	return xxh3.HashSeed(canonicalMsgpack, opaqueSeed)
}

// Placeholder returns the token id that engines write in place of an image
// whose key hash is mm, where they rewrite placeholders before hashing.
func Placeholder(mm uint64) uint32 {
	const base, width = 1_000_000, 30
	return base + uint32(mm&(1<<width-1))
}
