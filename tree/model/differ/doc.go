// Package differ finds differences between an index and the reference model.
// It is test support: an index's own tests, and those of its users, import it.
//
//	Generate(profile, seed) ──► ops ──► Replay ──► model  ┐ compare after
//	                              ▲        └─────► index  ┘ every query
//	                              │          │ differs
//	                              └─ Shrink ◄┘ ──► Go text, JSON trace
//
// Ops name holders by labels, so a list can be cut anywhere and stays legal:
// an op whose holder was never added does nothing. Generators are seeded: a
// profile and a seed are enough to see a failure again.
//
// Race runs an index at full speed against readers. The truth of every query
// after every op is computed beforehand on the model, so each answer can be
// judged by the ops that overlapped its call.
//
// # Concurrency
//
// Functions here may run in parallel tests: nothing is shared between calls.
package differ
