// Package cairn is the root of the module and holds no code of its own: it is
// the place of the tests that hold the architecture together (which package
// may import which, which library does which work, which atomics are used)
// and of the test that compiles the README's example.
//
// Embedders start at [github.com/cairn-kv/cairn/engine]. The command is in
// cmd/cairn. How bytes become answers:
//
//	publisher ── ingest/zmtp ── ingest/wire ── ring ── tree/shard ── tree
//	 (engine)     frames         events      in place   one writer    │
//	                                                                   │ lock-free
//	caller ◄──────────── engine.Match / engine.Hint ◄──────────────────┘
package cairn
