// Command run has contestants take turns on the same corpora and prints what came out:
//
//	go run ./perf/run                           cairn, cairn again, the map tree
//	go run ./perf/run -contestants all          and every peer that can be built
//	go run ./perf/run -shapes agent -rounds 7 -modes closed
//
//	           round 1: cairn ─ peer ─ … ─ cairn again
//	corpus ──▶ round 2: cairn again ─ … ─ peer ─ cairn      a process each
//	           …
//	           medians, ratios within rounds, cairn against itself
//
// Corpora are made once and kept. Peers are built from perf/peers on first use:
// those in Rust want cargo, those in Go fetch their modules; neither is needed
// for anything else. In the output folder are
//
//	results.jsonl   every run: load.Result, one a line
//	bench.txt       the same for benchstat
//	summary.md      tables of medians and ratios, machine and command with them
//	plot.svg        throughput, and latencies of matches, by corpus
//
// A machine that others use too changes speed by half for tens of seconds: only
// ratios within a round say much, and only beside what cairn against itself
// gives.
package main
