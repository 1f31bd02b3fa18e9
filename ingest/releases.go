package ingest

import (
	"math/bits"

	"github.com/cairn-kv/cairn/ingest/wire"
)

// CauseUnsound: SGLang 0.5.1 to 0.5.5.post3, whose events do not say how blocks
// hang together. See Options.TakeUnsound.
const CauseUnsound Cause = "unsound_release"

// Old releases of SGLang name a page by Python's hash of its tokens. Up to 0.4.10
// the first page of all has a parent, hash(()), and every other the page before
// it, so what they say is sound. From 0.5.1 to 0.5.5.post3 the first page of
// every node of the engine's tree has none: pages in the middle of prompts look
// like beginnings, so prompts that go on from them are missed and others falsely
// found. Both are told by their hashes, which anyone can compute.
//
// 0.5.6 to 0.5.6.post2 announce removals, but no stores, when a node is split:
// too little is known of them, and nothing false. Nothing on the wire tells them
// from 0.5.7, which is sound.

// unsound reports whether a store is of a release whose events cannot be put
// together again.
func (s *Stream) unsound(ev *wire.Event) bool {
	return !s.opt.TakeUnsound && !ev.HasParent && !ev.HasMedium && !ev.KeysHaveSlot && selfNamed(ev)
}

// selfNamed reports whether the name of an event's first block is Python's hash
// of its tokens.
func selfNamed(ev *wire.Event) bool {
	size := int(ev.BlockSize)
	return ev.SelfNamed || size > 0 && len(ev.Hashes) > 0 && len(ev.Tokens) >= size && ev.Hashes[0] == pythonHash(ev.Tokens[:size])
}

// pythonHash is CPython's hash of a tuple of small integers, from 3.8 on.
func pythonHash(tokens []uint32) uint64 {
	const (
		prime1 = 11400714785074694791
		prime2 = 14029467366897019727
		prime5 = 2870177450012600261
	)
	h := uint64(prime5)
	for _, t := range tokens {
		h += uint64(t) * prime2 // an int below 2^61-1 is its own hash
		h = bits.RotateLeft64(h, 31) * prime1
	}
	if h += uint64(len(tokens)) ^ prime5 ^ 3527539; h == 1<<64-1 {
		return 1546275796 // -1 says that there is none
	}
	return h
}
