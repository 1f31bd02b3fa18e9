// Package tree is the residency index: which holder has how many leading
// blocks of a prompt, on which tier.
//
// It is a trie whose node is a run: consecutive blocks of one path, contents
// and names side by side, up to 2,048 of them. What a reader must know about a
// holder in a run is one number, its reach: how many leading blocks of the run
// it holds.
//
//	root ──▶ run ─ contents c0 c1 c2 c3 c4 c5   header: version, count, link
//	               names    n0 n1 n2 n3 n4 n5   lanes:  A:6  B:4  C:2  further: cell
//	               │  └─ child at offset 3 ──▶ run …        (divergence splits nothing)
//	               └─ child at offset 6 ──▶ run …           (the run goes on)
//
//	names table   hash of a name ──▶ run, position   writer only: parents, removals
//	own names     the same, a table a holder that has some
//	child table   run, offset, content ──▶ run  readers too
//	side record   rows of bits per tier and TP shard, own names, copies
//	cell          lanes past the third: a list, or where they are many a place
//	              for each holder, and sets of those whose reaches are the same
//
// Where hundreds hold the system prompt and nothing else, a walk takes them and
// gives them 64 at a time, by sets: see cell.go for how they are kept true, and
// Levels for an answer of that form. A set is of lane ids; whose they are a reader
// notes for itself, anew when that has changed.
//
// Readers see reaches only. Holes, tiers and their unions, TP shards, copies
// and second names are the writer's arithmetic, and each change becomes the
// store of one word: a lane, or one of the two words of a side record. A change
// is therefore true for a view at one instant, and a move between tiers is
// never seen half.
//
// A name table entry is one word: where the block lies and some bits of the
// name's hash; the name itself stands in the run. Seven lie in a line of memory
// with a word that tells of all of them, so that a new name costs one look: for the
// names of an event one after the other, without leaving the registers (names_*.s).
// Where a holder's names are its own (engines that hash differently, or anew after
// each start), its lane leads to an array of them beside the run's, all of that run,
// and their entries are in a table which that holder has for itself: its events
// come one after the other, and find in the caches what those before them have
// left. Who finds nearly all runs named otherwise, and meets nobody that calls blocks
// as it does, is private: it bears no run's names, and its table alone knows all it
// has.
//
// What events need of this is fetched ahead, by prefetch: an event's later names
// while its earlier ones are worked on, and later events' lines if the caller
// tells of them (Foreseer). See ahead.go.
//
// # Exactness
//
// A figure equals the truth at some instant between a Match's call and its
// return, for each holder and view. Nothing is ever counted that is not there;
// what is there is counted, except waiting blocks given up for their bound.
// Holes are exact: blocks behind a missing one do not count, and count again
// when it is filled.
//
// With a byte budget (Options.Bytes) blocks are given up as well: whoever has
// most loses some, tails first, the oldest of them first, so that holders that
// want more than there is have equally much and all others everything. What
// finds no room even so is refused; Stats counts both, Thinned names who was
// hit. Memory that one kind of thing does not need any more goes to what needs
// it. See budget.go, evict.go and shelf.go.
//
// # Concurrency
//
// One goroutine at a time writes. Any number read, without locks, without
// writing shared memory and without waiting for the writer. All shared words
// are atomic (words that nobody can see yet are filled by plain stores, in
// plain_*.s, and contents compared two a load, in agree_*.s, which sees each of
// them whole); memory is type-stable, so a late reader finds words of the right
// kind and learns from a version that they are not those it meant.
//
//   - Growing: content, count, then the lane; run, child table, child bit.
//   - Shrinking: the lane (the effect), then the run's version, but for a holder
//     that is told of no more, then anything else. Positions that are trimmed are
//     used again only after the version has moved. Child table, link, version,
//     then the free list.
//   - A walk remembers each run's version. If one it passed has moved, a holder
//     may have been whole here before and longer there after, which never was
//     true together, and the walk begins again.
//   - A walk may begin in a run that the reader remembers, if its link and first
//     content are what they were, though the child table leads elsewhere by now:
//     until link and version go, such a run says what the new one says.
//   - Where a run's count cut a match short, the count must not have grown
//     either: a lane may have come through the new end in one store.
//   - A lane leaves its group, a set of holders with one reach, before it
//     changes, and finds another when it has. A group gets another reach in the
//     order: members out, reach, version, members in.
//   - A run whose tail died moves to a smaller class: the new one, the child
//     table, the parent's version, then the old one's link and version.
//   - Runs of which each leads to nothing but the next become one where a prompt
//     goes on behind them, or by and by: the new one, the child table,
//     the parent's version, then the old ones.
//   - Clear gives a holder a new lane id: one store retires the old one in all
//     runs and tiers. The runs are cleaned in small steps later.
//   - Whose a lane id is, and whether it is seen, changes between two moves of
//     the epoch; a walk that ends under another epoch begins again. The owner is
//     noted, then the version of all owners moves, then the id is shown.
//
// A reader that loses against a writer at full speed 256 times asks the writer
// to answer between two events. Memory is pointer-free for the collector: a few
// hundred objects hold millions of blocks, and two more are a holder's that has
// names of its own.
package tree
