package content

import "github.com/zeebo/xxh3"

// Scheme names the rule by which seeds are made. It goes wherever content
// hashes leave the process: a peer on another scheme matches nothing, and must
// be able to see why.
const Scheme = "additive-v1-salt0"

const (
	baseSeed    = 1337 // seed of a block without adapter and salt, and of every chain hash
	adapterSeed = 0    // inner seeds differ, so that adapter x and salt x do
	saltSeed    = 1
	opaqueSeed  = 2
)

// Seeds are the seeds of one namespace (adapter and cache salt). The zero
// value is not a namespace; make one with [MakeSeeds].
type Seeds struct {
	First uint64 // of the first unit of a prompt, or of a chain without parent
	Rest  uint64 // of every other unit
}

// MakeSeeds returns the seeds of an adapter name and a cache salt. The empty
// string means none.
func MakeSeeds(adapter, salt string) Seeds {
	s := Seeds{First: baseSeed, Rest: baseSeed}
	if adapter != "" {
		s.add(xxh3.HashStringSeed(adapter, adapterSeed))
	}
	if salt != "" {
		s.First += xxh3.HashStringSeed(salt, saltSeed)
	}
	return s
}

// MakeSeedsBytes is [MakeSeeds] for names that still lie in a receive buffer.
// It keeps neither slice.
func MakeSeedsBytes(adapter, salt []byte) Seeds {
	s := Seeds{First: baseSeed, Rest: baseSeed}
	if len(adapter) != 0 {
		s.add(xxh3.HashSeed(adapter, adapterSeed))
	}
	if len(salt) != 0 {
		s.First += xxh3.HashSeed(salt, saltSeed)
	}
	return s
}

// add wraps: seeds are sums modulo 2^64.
func (s *Seeds) add(h uint64) {
	s.First += h
	s.Rest += h
}
