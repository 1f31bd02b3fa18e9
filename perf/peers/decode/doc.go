// Package decode measures cairn's decoder beside others on one set of payloads,
// in one run:
//
//	cairn            ingest/wire, a Decoder that a stream keeps
//	msgp             tinylib/msgp by its Read…Bytes functions, by hand, into
//	                 slices that are kept: as fast as it goes
//	vmihailenco      vmihailenco/msgpack by its cursor functions, likewise
//	llm-d            the adapter of llm-d's cache indexer as it is, v0.9.0
//
// Each ends with hashes, parent, tokens and block size of every stored event;
// the first two of the others know one layout and check no more than types. That
// all four read the same is a test.
//
// It is a module of its own: what is measured here is no dependency of cairn.
//
//	cd perf/peers/decode && go test -bench .
package decode
