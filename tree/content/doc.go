// Package content names what a block of tokens is.
//
// An engine's own block hashes are opaque names: they depend on its seed, its
// algorithm and its version. What cairn compares, between workers and with a
// prompt, is content: XXH3-64 over the token ids of a block and the keys that
// belong to it (images, prompt embeddings), under a seed that holds the
// adapter.
//
//	tokens   | t0 t1 t2 t3 | t4 t5 t6 t7 | t8 …        unit 4, look-ahead 0
//	          \___ c0 ____/ \___ c1 ____/               seed First, then Rest
//
//	tokens   | t0 t1 t2 t3 | t4 t5 t6 t7 | t8 …        unit 4, look-ahead 1
//	          \______ c0 ______/                        a window sees the token
//	                        \______ c1 ______/          behind its block
//
// Invariants:
//
//   - The position in the prompt is not hashed. A structure that is keyed by
//     content must key by (parent, content).
//   - The adapter seeds every block, the salt only the first block of a
//     prompt: the path carries it from there ([Seeds]). The scheme has a name,
//     [Scheme], because hashes of another scheme match nothing.
//   - One function, [Append], serves events and requests. Both must agree to
//     the bit, on every byte order.
//
// All functions are pure and safe for concurrent use; none allocates, but for
// growing a destination that is too small.
package content
