// Package hint decides whether a peer-fetch hint is due and writes it down.
//
// A hint tells the worker that was chosen for a request (the target) which
// peer holds more of the prompt's prefix than the target does itself. The
// package is pure: it knows no index, no clock and no goroutine, and imports
// nothing of ours. The engine lays plain candidates before it:
//
//	index depths ─┐
//	roles, ends  ─┼─► Call ──► Decide ──► Decision{Best} ──► Append ──► kv.fetch JSON
//	routing      ─┘                  └──► Decision{Reason, Detail}
//
// # Invariants
//
//   - A decision is exactly one of a source and an enumerated reason.
//   - A decision never changes the target and never looks at another call.
//   - Blocks of a worker in state-agent mode raise its scheduling overlap, and
//     can never be offered: only a cache owner's host blocks can.
//   - Block names travel as unsigned 64-bit integers in plain decimal; no
//     float64 is on their way in either direction.
//
// # Concurrency
//
// All functions are pure and may be called from any goroutine. Decide and
// Append allocate nothing; Append writes into the caller's buffer.
package hint
