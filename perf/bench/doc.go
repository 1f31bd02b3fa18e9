// Package bench measures the index beside perf/maptree, the plain map tree
// behind the same interface.
//
//	conversation trace ─▶ simulated LRU engines ─▶ Corpus: one list of operations
//	                                                  │
//	                      round 1: map tree ◀─────────┼──▶ index, index again
//	                      round 2: index, index again ┴──▶ map tree      …
//	                               └─ medians, ratio/…, and index against itself
//
// Everything is prepared before a clock starts, and both trees play the same
// list through the same code. The first half of a list warms a tree up, the
// second is measured, so tables are as large as they stay and engines evict.
// What an operation is about is in the cache when it comes, as it is behind a
// decoder.
//
// # Figures
//
// Times are CPU time of the measuring thread, which a busy machine distorts
// less than the time of day; work that the garbage collector does on threads of
// its own is not in them, to the map tree's advantage. Shared machines change
// speed for tens of seconds, so a figure alone says little and a ratio within
// one run says much. Every benchmark reports
//
//	ratio/…     map tree ÷ index, the median over rounds: what gates are about
//	index-ns/…  and maptree-ns/…, medians as well
//	self-ratio  index ÷ index in the same rounds: how far to trust the others
//	allocs/op   of the index alone, in calls of it; growth of tables is in them
//
// A block is a hash queried, stored or removed.
//
// # Concurrency
//
// Nothing here is safe for concurrent use but a finished Corpus, which nobody
// changes.
package bench
