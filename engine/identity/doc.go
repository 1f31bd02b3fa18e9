// Package identity holds the names by which cache owners, workers and their
// records are known, and the rules that derive one from another.
//
//	owner id   semantics : scope / dc / slot      32:32/16/32 hex digits
//	           └──── domain ──┘                   whose blocks can be compared
//	           └─────── pool ────┘                domain and data centre
//
//	(publisher, generation) ─ BLAKE3 ─▶ attachment record id   53 bits, ≥ 1
//	(connection)            ─ BLAKE3 ─▶ host discovery id      53 bits, ≥ 1
//	(worker id, dp rank)    ─ BLAKE3 ─▶ worker owner key       16 bytes
//	(owner id)              ─ BLAKE3 ─▶ cache owner key        16 bytes
//
// # Invariants
//
//   - An owner id has one text: lower case, full width. Whatever parses prints
//     as the very text it was parsed from.
//   - Derived ids are the same in every process and fit a JSON number that
//     passed through a float64.
//   - What other programs may spell differently than we believe of owners and
//     their records stands in one table, [Spelling], and nowhere else.
//
// # Concurrency
//
// Everything here is a value or a pure function, for any goroutine.
package identity
