// Package load plays a corpus on a contestant and says what it took: the index,
// the map tree, or a peer behind the Index interface. perf/run has contestants
// take turns on the same corpora; perf/peers holds drivers of other people's
// indexes, those in Go on this package, those in Rust on a twin of it.
//
//	corpus file ─▶ Drive ─▶ closed   one thread, mixed: what a block costs
//	                  │     beside   reader and writer side by side, both at full speed
//	                  │     open     every operation at its own time, whoever is late
//	                  │     memory   what the heap holds at the end
//	                  │     verify   every answer compared with the right one
//	                  ▼
//	               Result: one line of JSON, or of benchstat's input
//
// One process makes one run, so no run finds another's heap or warm tables.
//
// # Counting
//
// A block operation is a hash queried, stored or removed; a clear counts none.
// Whoever takes events at once and applies them later is waited for before the
// clock stops: the drain is in every figure.
//
// Closed. The first half of the operations warms the index up. In the second,
// stretches of at most 256 operations take turns. One is measured as a whole, in
// CPU time of all threads of the process, which a busy machine distorts less
// than the time of day and which hides nothing that helpers or the garbage
// collector do:
//
//	mixed-ns/block, mixed-Mblocks/s    queries, stores and removes as they come
//
// In the next every operation is timed by itself, by the time of day:
//
//	store-new, -known, -mixed-ns/block blocks nobody holds, all or some of which others hold
//	store-one-ns/block                 stores of one block, as while an answer is generated
//	remove-ns/block, match-ns/block    without the price of reading the clock
//	match-ns                           a query, the mean
//	match-p50, -p99, -p999, -max-ns    with it; nearest rank
//
// Operations that took more than 0.3 ms and 3 µs a block were interrupted; they
// are left out of ns/block alone. What operations are about was just made by
// whoever hands it over, so it is in the cache.
//
// With Options.Every above one, for contestants so slow that all queries would
// take hours, only some are asked, and the mix is put together from its parts.
//
// Beside. The writer goes in batches of 64 events, round and round; a reader
// draws from the 64 queries before the writer's place: match-…-ns,
// matches/s, written-Mblocks/s. It wants two processors to itself.
//
// Open. All deadlines are stretched or pressed into the window. The generator
// sleeps, then spins if there are processors to spare, and waits for nobody. A run counts only if it is valid:
// all was issued within 1.01 windows. The index kept up if all was done within
// 1.10. In an overload Mblocks/s is what it can do and latencies mean nothing:
// match-…-ns the call, answered-… from the deadline to the answer, visible-…
// from the deadline of an event until readers see it.
//
// # Concurrency
//
// A run owns its goroutines and waits for them. Nothing here is for concurrent
// use.
package load
