// Package validate judges what workers, hosts and routers say of themselves
// before any of it takes effect.
//
//	worker ──▶ Descriptors ─┐                       A1 – A7
//	host   ──▶ Intent ──────┼─▶ Endpoint ─▶ Host    B1 – B7, E, D1 – D7
//	router ──▶ Source ──────┘                       C1 – C7
//	       ──▶ Attachment
//	start  ──▶ VLLM, HiCache ──▶ Host, RankOwners, HintEndpoints
//
// Where host, router and publisher are one process, as in cairn, no record of a
// source or an attachment comes from outside: C is for programs that read those
// of others. That an intent leaves alone what a slot keeps for its life is judged
// where slots are, by residency.Source.Accepts.
//
// # Invariants
//
//   - A registered endpoint is never loopback, unspecified or a wildcard,
//     however it is spelt: a separate host that is told to dial such an address
//     subscribes to itself, receives nothing and still reports ready. Names
//     are judged by what they say, without asking a resolver.
//   - Every refusal is an [Error] that names the rule, the field, the value in
//     quotes, why it cannot be, and what would be right. Tests branch on the
//     [Rule]: errors.Is(err, validate.DuplicateRank).
//   - A function reports all that is wrong, as [Errors], in a fixed order.
//   - What is absent is no default. Where a setting must be stated, a missing
//     one is an error: a getter with a default passes silently after a rename.
//
// # Concurrency
//
// All functions are pure and may be called from any goroutine.
package validate
