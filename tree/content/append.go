package content

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"
)

// Append hashes every full unit of tokens and appends the hashes to dst.
//
// A unit is unit tokens; the window that is hashed also holds the lookahead
// tokens behind it, so len(tokens) yields (len(tokens)-lookahead)/unit hashes
// and the tail none. The first unit of tokens is hashed under the seed first,
// every other under rest: a caller whose tokens begin behind block 0 passes the
// seed of the rest twice. keys may be nil.
//
// A unit below 1 or a negative lookahead yields nothing. Append keeps neither
// tokens nor keys, and allocates only where dst is too small.
func Append(dst []uint64, tokens []uint32, unit, lookahead int, first, rest uint64, keys *Keys) []uint64 {
	n := Count(len(tokens), unit, lookahead)
	if n == 0 {
		return dst
	}
	dst = slices.Grow(dst, n)
	keyed := 0 // units that may own keys
	if keys != nil {
		keyed = min(n, len(keys.Ends))
	}
	if unit == 16 && lookahead == 0 && keyed == 0 {
		dst = append(dst, hashPlain(tokens[:16], first))
		return appendSixteens(dst, tokens[16:], rest)
	}
	seed := first
	for i := range n {
		window := tokens[i*unit : i*unit+unit+lookahead]
		if i < keyed {
			if k := keys.of(i); len(k) > 0 {
				dst = append(dst, hashKeyed(window, k, seed))
				seed = rest
				continue
			}
		}
		dst = append(dst, hashPlain(window, seed))
		seed = rest
	}
	return dst
}

// Count returns how many hashes [Append] makes of so many tokens.
func Count(tokens, unit, lookahead int) int {
	if unit < 1 || lookahead < 0 || tokens-lookahead < unit {
		return 0
	}
	return (tokens - lookahead) / unit
}

// Chain returns the chain hash of a block from that of the block before it and
// from its own content hash. The chain hash of a first block is its content
// hash. Adapter and salt act through content; the seed stays the same.
func Chain(prev, content uint64) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], prev)
	binary.LittleEndian.PutUint64(b[8:], content)
	return xxh3.HashSeed(b[:], baseSeed)
}

// scratch holds one window and its keys as bytes, where they cannot be hashed
// in place.
type scratch struct {
	bytes []byte
	keys  []uint64
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// hashKeyed hashes a window followed by its keys, ascending. The keys are
// sorted in a copy: the caller's may be shared.
func hashKeyed(window []uint32, keys []uint64, seed uint64) uint64 {
	s := scratches.Get().(*scratch)
	s.keys = append(s.keys[:0], keys...)
	slices.Sort(s.keys)
	s.bytes = appendTokens(s.bytes[:0], window)
	for _, k := range s.keys {
		s.bytes = binary.LittleEndian.AppendUint64(s.bytes, k)
	}
	h := xxh3.HashSeed(s.bytes, seed)
	scratches.Put(s)
	return h
}

// hashPortable hashes a window on a machine of any byte order.
func hashPortable(window []uint32, seed uint64) uint64 {
	s := scratches.Get().(*scratch)
	s.bytes = appendTokens(s.bytes[:0], window)
	h := xxh3.HashSeed(s.bytes, seed)
	scratches.Put(s)
	return h
}

// appendTokens appends token ids as little-endian words.
func appendTokens(dst []byte, tokens []uint32) []byte {
	dst = slices.Grow(dst, 4*len(tokens))
	for _, t := range tokens {
		dst = binary.LittleEndian.AppendUint32(dst, t)
	}
	return dst
}
