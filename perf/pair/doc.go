// Package pair is a fake pair of cache libraries: what stands behind a
// peer-fetch hint, for tests and figures.
//
//	router's request ─► Read ─► Target.Fetch ─┬─ shard 0 ─ socket ─► Library shard 0
//	(any carrier)               (set of names)└─ shard 1 ─ socket ─► Library shard 1
//	                                 │                                    │
//	                         tokens restored                   what it really holds:
//	                                                           served or refused, counted
//
// A Library is the source's half. It holds block names per TP shard, as the
// engine beside it stores and evicts, and serves a name or refuses it by what
// it holds at that moment. A Target is the other half: it reads the hint as
// the real consumer does, dials the same-index peer of each of its shards,
// and restores what every shard got.
//
// The package shares no code with what it judges: requests are read with the
// standard library, and what is held is what it was told.
//
// # Invariants
//
//   - What is served was held on that shard when it was asked for.
//   - Names are a set: their order carries no offset. The target walks its own
//     prompt, from behind what it holds, to the last block that may be
//     restored, and ends at the first that is not hinted.
//   - Nothing moves but counts: blocks, spans (keys and values are one each)
//     and bytes follow from the Geometry.
//   - A dead peer, a refusal, a hint that cannot be read are counted, and mean
//     that the target recomputes.
//
// # Concurrency
//
// All methods may be called from any goroutine. A Network owns its libraries'
// goroutines: Close ends and waits for all of them.
package pair
