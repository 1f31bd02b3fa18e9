// Package corpus makes, writes, reads and judges corpora: what a fleet's engines
// announce and what is asked about them, in one order, in a file that programs
// in any language can read. Indexes that are to be compared play the same file.
//
//	trace (JSON lines) ─▶ simulated engines ─▶ operations ─▶ Truth ─▶ Writer ─▶ file
//	                      (a cache each,          in the order    │
//	                       Shape says which)      of their time   └ the right answer of
//	                                                                every query
//
// # File
//
// All is little-endian, in words of 64 bits; every part is a whole number of
// words. A file is a header, groups, and a trailer:
//
//	header   32 words
//	group    8 words, then its parts          at most GroupOps operations
//	…
//	trailer  16 words                         the rest of the file is empty
//
// Header, words by number:
//
//	0      magic: the bytes "CAIRNCRP"
//	1      version, 1
//	2      tokens of one block
//	3      holders: their numbers are 0 … holders-1
//	4      factors: bit 0 private names (each holder its own), 1 copies (a name
//	       may be stored again and is then removed as often), 2 holes (blocks
//	       may be missing in the middle), 3 tiers (operations on more than tier
//	       0), 4 equal contents in a row, 5 clears
//	5      engines; holder h does what engine h mod engines does
//	6      blocks an engine keeps        9   blocks one id of the trace stands for
//	7      replicas of an engine        10   disjoint copies of the trace
//	8      seed of all choices          11   blocks an engine keeps on its host tier
//	12–19  name of the shape, UTF-8, filled up with zero bytes
//	20–30  zero
//	31     checksum of the 31 words before
//
// Group:
//
//	0      magic: the bytes "CAIRNGRP"
//	1      q, words in the query part    4   a, answers
//	2      s, blocks in the store part   5   n, operations
//	3      r, words in the remove part   6   zero
//	7      checksum of the 7 words before and all that follows in the group
//	then   q words      contents of queries
//	       2s words     blocks stored: name, content, name, content, …
//	       r words      names removed
//	       3a words     answers, one a query of the group, in their order
//	       4n words     operations
//
// Operation:
//
//	word 0     time: nanoseconds from the start; never less than the one before
//	word 1     bits 0–31 holder (of a query: the one it went to afterwards),
//	           32–39 kind (0 query, 1 store, 2 remove, 3 clear), 40–47 tier
//	           (0 device, 1 host), 48–63 flags
//	word 2     name of the parent, if flag 0 is set
//	word 3     bits 0–31 where its blocks begin in their part, in blocks;
//	           32–63 how many blocks
//
// Flags: bit 0 the store has a parent, else it begins a chain. Bits 1–2, of
// stores: what the index as a whole knows of the blocks, 1 nothing, 2 all of
// them, 3 some.
//
// Answer:
//
//	word 0     digest of the depths on any tier
//	word 1     digest of the depths on tier 0
//	word 2     bits 0–31 holders with a depth above 0, 32–63 the deepest; any tier
//
// The depth of a holder is the number of leading blocks of the query that it
// holds, all of them, none missing; only operations before the query count. A
// digest is the sum, modulo 2^64, of mix(holder·2^32 + depth) over all holders
// with a depth above 0, where
//
//	mix(x): x += 0x9e3779b97f4a7c15
//	        x = (x xor x>>30) · 0xbf58476d1ce4e5b9
//	        x = (x xor x>>27) · 0x94d049bb133111eb
//	        x xor x>>31
//
// Trailer:
//
//	0      magic: the bytes "CAIRNEND"
//	1–4    queries, stores, removes, clears
//	5–7    blocks queried, stored, removed
//	8      time of the last operation
//	9      most memberships (holder, tier, name) at any time, 10 at the end
//	11     groups
//	12–13  zero
//	14     checksum of the checksums of header and groups, in order
//	15     checksum of the 15 words before
//
// A checksum starts with c = 0 and takes in words w: c = (c xor w) ·
// 0x9e3779b97f4a7c15, then c = c xor c>>32, all modulo 2^64.
//
// # What a corpus promises
//
// A holder names a block by one name at a time and a name means one block: a
// path from the root. Parents are blocks the holder knows, removes are of names
// it holds on that tier, copies counted. So every index that holds what it is
// told can answer exactly, and a wrong answer is the index's. Truth refuses a
// file that breaks a promise.
//
// # Concurrency
//
// A loaded Corpus is not changed by anybody and may be read by all. Everything
// else here belongs to one goroutine.
package corpus
