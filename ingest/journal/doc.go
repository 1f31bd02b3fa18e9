// Package journal keeps what streams received in a file: crash-safe, seekable,
// and readable by any zstd tool.
//
//	file   │ header │ chunk │ chunk │ chunk │ … │ index │
//	                 ╱       ╲
//	         descriptor   one zstd frame: records, one after the other
//
// Header, descriptors and index are skippable zstd frames, so the whole file is
// a zstd file whose content is the records. A descriptor says how long its
// chunk is, which records it has and when they were made, and carries an XXH64
// of itself and the packed records. The index repeats all descriptors; it is
// written by Close, and a file without one is read by hopping from descriptor
// to descriptor.
//
// # What a crash costs
//
// Chunks are appended whole, in one write, and synced. A file that ends in the
// middle of a chunk, or in one whose checksum does not hold, is read up to
// there: [Info] says how many bytes were left out. What is lost is what was not
// flushed, at most [Options.FlushEvery] of time. A chunk that is damaged with
// sound ones behind it is an error where it stands, and reading goes on behind
// it if the caller calls Next again.
//
// # Records
//
// A [Record] is a kind, a time, a stream, a number and a list of byte strings.
// What a stream is, a Define record says in bytes that only the writer's owner
// understands; the package knows no engine, no message and no hash. Definitions
// are found again without reading what lies between: see [Reader.Definitions].
//
// # Concurrency and bounds
//
// Any goroutine may append. Append copies the record into one buffer under a
// lock that is held for the copy alone; one goroutine packs and writes the
// other buffer meanwhile. What does not fit into either waits, or is left out
// and counted, and then a Lost record stands in its place: a journal is whole,
// or says where it is not. A Reader belongs to one goroutine.
package journal
