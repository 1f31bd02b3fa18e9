// Package hint decides whether a peer-fetch hint is due, writes it down, and
// reads what others wrote.
//
// A hint tells the worker that was chosen for a request (the target) which
// peer holds more of the prompt's prefix than the target does itself. The
// package is pure: it knows no index, no clock and no goroutine, and imports
// nothing of ours. The engine lays plain candidates before it:
//
//	index depths ─┐            ┌─ Options: gain, load, cost, policy
//	roles, ends  ─┼─► Call ────┴─► Decide ──► Decision{Best} ──► Carrier.AppendRequest
//	routing      ─┘                  └──────► Decision{Reason, Detail}
//
//	worker's metadata ─► ParseCapability ─► roles and ends    Find ◄── a request
//	engine's settings ─► Ports.Endpoints ─► ends
//
// # Invariants
//
//   - A decision is exactly one of a source and an enumerated reason.
//   - A decision never changes the target and never looks at another call.
//   - Blocks of a worker in state-agent mode raise its scheduling overlap, and
//     can never be offered: only a cache owner's host blocks can.
//   - Options choose among sources that may serve by the plain rule; none makes
//     a source of one that may not.
//   - Block names travel as unsigned 64-bit integers in plain decimal; no
//     float64 is on their way in either direction.
//
// # What is uncertain
//
// Names of carriers, of capability keys and of engines' settings are constants
// or table entries (carrier.go, capability.go, ports.go). Of what versions of
// the consumer disagree about (mode, no_retain, a source of null) nothing is
// ever written.
//
// # Concurrency
//
// All functions are pure and may be called from any goroutine, but for the fits
// of learn.go and a Call with its Scratch, which are one goroutine's at a time.
// Decide and everything that appends allocate nothing once their buffers have
// grown.
package hint
