// Package server is the HTTP surface, version 1, over the embeddable engine.
//
//	POST /v1/match    how much of a prompt every holder has
//	POST /v1/hint     the kv.fetch hint for a routed request, or the reason for none
//	GET  /v1/hints    who takes part in hints, why others do not, what was learnt
//	POST /v1/hints/…  load, fetch, prefill: what a router tells for options of hints
//	GET  /v1/owners   what answers can name, with freshness; slots and leases
//	     /v1/workers  where workers register; see registryRoutes
//	GET  /v1/sources  what was configured, stream by stream
//	POST /v1/events   a batch of a source whose events are pushed, in any dialect
//	POST /events      events in Mooncake's envelope, each for the source it names
//	GET  /v1/dump     who holds what, as canonical text (role admin)
//	GET  /health      the process is alive (open without a token)
//	GET  /ready       queries are answered from at least one connected stream
//	GET  /metrics     Prometheus text
//
// The admin handler, for a listener of its own, adds /debug/pprof.
//
//	request ─► token ─► method, content type ─► body ≤ 8 MiB ─► strict JSON
//	        ─► engine.Match / engine.Hint ─► exact integers, no float64 between
//
// # Rules
//
//   - Integers are exact both ways: no number passes through float64.
//   - Requests are strict. An unknown or repeated field, a wrong type, a number
//     out of range is an error that names the path, the value and what would
//     be right: {"error": text, "code": slug, "field": path}.
//   - Prompt tokens stand in no log, metric or error, but for the one value
//     that is no token id.
//   - A listener that other machines can reach needs a token and TLS, or
//     Insecure, which is logged at every start.
//
// # Concurrency
//
// A Server's handlers may be called from any goroutine. Buffers of requests
// and answers are pooled; the queries themselves take no lock.
package server
