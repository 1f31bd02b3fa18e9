// Package maptree is the yardstick: an index as one writes it in an afternoon,
// with the maps Go has. Benchmarks divide its figures by those of *tree.Index,
// so it must be honest: no tricks, and nothing slower than it has to be.
//
//	root ──▶ node ─ children  content ─▶ node …
//	           │ └─ holders   Holder  ─▶ block ─▶ twin …      one lock around it all,
//	           ▼                          ▲                   readers share it
//	         parent          holder ─ names  name ─▶ block
//	                                └ waiting name, parent ─▶ orphan
//
// A node is one block of one path. It maps the next block's content to a node,
// and each holder to what that holder has here. A holder maps its names to its
// blocks. A match walks down and asks every node for each holder it still
// follows.
//
// # What it does
//
// Everything tree.Interface says for holders with one TP shard and blocks of
// one unit: the five views, copies and sets, tiers, holes, second names, reused
// names, waiting blocks, placements, KeepMeaning, hide and show. It answers
// exactly, and is tested against the reference model by the same machinery as
// the index.
//
// What it does not: AddHolder refuses more than one TP shard with an error,
// and Store refuses blocks of several units with tree.BadShape. So it does not
// play the profiles tp, spans and mixed of tree/model/differ as they are.
//
// # Concurrency
//
// A sync.RWMutex guards the tree: writer methods take it alone, readers share
// it. Any goroutine may call any method of Tree; one Reader belongs to one
// goroutine.
package maptree
