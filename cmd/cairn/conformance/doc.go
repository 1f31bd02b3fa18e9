// Package conformance plays files of inputs with right answers through cairn
// and reports every difference: the wire vectors, transport scripts and index
// traces of the project's cases, and event streams that were recorded from
// engines together with the engines' own answers. It is what `cairn check`
// runs, and works on files that users recorded themselves.
//
//	file ─► lines ─► player ─► publisher ══ socket ══ engine ─► Match
//	                   │                                          │
//	                   └──────────── expect ──────── compare ◄────┘
//
// # What it promises
//
//   - Messages go through real ZeroMQ sockets, unless Options.Direct asks for
//     connections inside the process; the code on both sides is the same.
//   - Answers are asked for once what was sent is applied, never after a pause.
//   - An unknown kind of line is an error. What is known but not played is
//     counted and named in the report. A file that checks nothing is an error.
//   - Integers are exact: sequences and hashes of 64 bits never pass through a
//     float64.
//
// A Report is complete when Run returns, whatever failed; Report.OK tells
// whether anything did.
package conformance
