// Package fuzz holds the fuzz targets of what reads bytes from outside and of
// the index, and their corpora.
//
//	corpus/decode/   payloads            FuzzDecode   ingest/wire
//	corpus/json/     the same as JSON    FuzzJSON     ingest/wire
//	corpus/frames/   bytes of a socket   FuzzFrames   ingest/zmtp
//	corpus/apply/    events, 4 bytes each   FuzzApply   tree, beside tree/model
//
// A corpus is a folder of raw files, one input each, with nothing around it, so
// that any fuzzer can start from it as it is: go test, go-fuzz, AFL. Every
// target seeds itself from its folder, so plain go test ./fuzz replays them all:
// a file in a corpus is a regression test.
//
// To fuzz:
//
//	go test ./fuzz -run '^$' -fuzz FuzzDecode -fuzztime 1m
//
// What go test finds it writes to testdata/fuzz/<target>/, in a text form of its
// own. To keep a find, mend the fault, write the bytes it quotes as a raw file
// into the corpus, under a name that says what is wrong with them, and delete
// the text form. Raw files that another fuzzer found go into the corpus as they
// are; file2fuzz of golang.org/x/tools turns them into the text form, where that
// is needed.
package fuzz
