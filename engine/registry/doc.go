// Package registry lets workers register themselves: over HTTP, from a watched
// file, or from the program that embeds the engine. It judges what they say
// (package validate), opens the host of their control scope, and hands them on:
//
//	PUT /v1/workers/{id} ─┐            ┌─ owned residency ─▶ residency.Control
//	watched file ─────────┼─▶ Registrar┤    owners attach, all ranks or none
//	Go: Register ─────────┘            └─ framework_v1 ────▶ engine.AddSource
//	                                        a plain source under a lease
//
// # Invariants
//
//   - A registration is all or nothing. What failed is named by its path in
//     what was given: ranks[1].raw_zmq_endpoint.
//   - It is idempotent: the same worker again renews its lease; the same life of
//     it with other contents is refused and harms nothing; another life of it
//     takes its place.
//   - A lease ends by expiry or by a call. A watched file is a lease of its own:
//     what leaves the file leaves the registry, and a file that cannot be read
//     or is wrong changes nothing.
//   - Registered endpoints are never loopback; static configuration, which does
//     not pass here, may use it.
//
// # Concurrency
//
// All methods of Registrar may be called from any goroutine. One mutex guards
// the leases of plain sources and is held while nothing is waited for. Watch
// runs on its caller's goroutine; what it starts ends before it returns.
package registry
