package engine

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// ownerKey is the 16-byte key by which cache owners of equal depth are
// ordered: XXH64 of two differently marked texts of scope, source and rank,
// big endian. It is ours and deterministic, so every process orders alike;
// owners that are registered with an identity of their own will bring the key
// that goes with it. No other place makes such keys.
func ownerKey(scope, source string, rank int) (key [16]byte) {
	for i, mark := range []string{"cairn/owner-key/v1/high\x00", "cairn/owner-key/v1/low\x00"} {
		var d xxhash.Digest
		d.Reset()
		d.WriteString(mark)
		d.WriteString(scope)
		d.WriteString("\x00")
		d.WriteString(source)
		var b [9]byte
		binary.BigEndian.PutUint64(b[1:], uint64(rank))
		d.Write(b[:])
		binary.BigEndian.PutUint64(key[8*i:], d.Sum64())
	}
	return key
}

// placeOf says on which shard a source lives. All of a source stays together:
// its ranks, tiers and its cache owner are fenced as one.
func placeOf(source string, shards int) int {
	return int(xxhash.Sum64String(source) % uint64(shards))
}
