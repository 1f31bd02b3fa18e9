// Package fleet simulates inference engines with prefix caches and publishes
// their KV-cache events on real sockets, in the dialects of the real ones.
//
// One simulator serves the demo, tests, benchmarks and fault runs. It is the
// independent truth beside the product: what an engine holds is known from
// plain token lists, and no hash, tree or decoding code is shared with the
// code under judgement (only the publishing half of ingest/zmtp is).
//
//	trace ──► Prompt ──► Submit ──► engine rank ──┬─► TP shard 0 ─► history ─► socket
//	                                              └─► TP shard 1 ─► history ─► socket
//	                                                                  │
//	          Truth(holder, prompt, applied before … after) ◄────────┘
//
// An engine has one simulation per (rank, TP shard): a device cache with
// capacity, LRU order, leaf-first eviction, pins of running requests and
// duplicate copies; a host and a disk tier behind it; and, where the protocol
// has owned residency, a pool of its own with memory and disk (ownership
// kvcr), filled and evicted independently. The shards of a rank see the same
// requests, but lag behind one another and evict at different moments.
//
// # Invariants
//
//   - Each shard is one stream: sequences from 0, one batch each, no holes.
//   - A batch is written to the history before its first byte is sent, so the
//     truth knows every sequence that a subscriber can have applied.
//   - The order of changes inside a batch is the order of its events, and
//     inside an event the order of its names.
//   - What is published is what happened. Only Config.Break makes the two
//     differ, so that a judge can be shown to notice.
//   - Memory is bounded: histories keep the last Config.Retention sequences,
//     queues are bounded, and Submit waits when an engine is behind.
//
// # Concurrency
//
// Submit, Truth, Prompt, Published, Stats may be called from any goroutine
// between Start and Close. A Judge belongs to one goroutine. Every goroutine
// the fleet starts ends with the context given to Start or with Close.
package fleet
