// Package soak strains an index for as long as one likes and never takes its
// word for anything. One goroutine writes at full speed from a seed, readers ask
// at full speed, and a truth kept in plain maps judges every answer.
//
//	seed ─► writer ──► index ◄── readers
//	          │                    │ each answer between a lower and an upper bound
//	          ▼                    ▼
//	        truth ── words: (event, absent │ changing │ present) per holder and block
//
// # What is judged
//
//   - While both run: a block counts as possibly there unless it was absent
//     during the whole call, and as surely there if it was present during the
//     whole call. A depth above the leading possible blocks is an over-count, one
//     below the leading sure blocks an under-count.
//   - Twice a second the writer stops, and what it asks then must be equal to the
//     truth: all views of all holders on a path, names, and the residencies in
//     all. Of an index with a byte budget: not above it.
//   - Each cycle ends in a drain, by removes, clears, drops or a mixture: then
//     nothing may be left, the index's own invariants hold, stores equal removes,
//     and memory is not above that of the cycles before.
//   - With a byte budget: the bytes after every event, and, before a drain, that
//     holders that all want more than there is have equally much, each within a
//     twentieth of the mean.
//
// # Concurrency
//
// Run is one call with its own goroutines, all ended when it returns. The words
// are atomic; everything else of the truth belongs to the writer.
package soak
