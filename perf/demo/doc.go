// Package demo is what `cairn demo` runs: a simulated fleet publishes on real
// sockets, an embedded engine follows it, and every request of a real
// conversation trace is matched, hinted, judged and sent to an engine.
//
//	trace ─► drivers ──► engine.Match, engine.Hint ──► judge ──► Summary
//	            │                  ▲                     ▲
//	            └─► fleet.Submit ──┴── events, sockets   └── fleet.Truth
//
// # What is judged
//
//   - Every figure of every answer must be true at some instant of the
//     interval of applied sequences that the answer itself names, and that
//     interval must lie between what earlier answers had seen and what had
//     been published when the answer came.
//   - A holder that an answer leaves out must have held nothing at some
//     instant since then.
//   - The blocks that a hint names must have been in the source's right domain,
//     all at once and on every TP shard, within the interval that the hint
//     names; and so must be true what it says of the target within the target's.
//     The source's endpoint and the blocks' names must be right.
//   - A reason for no hint must be the right one. A holder that held more all
//     the time may go unnamed now and then, since an index may give fewer names
//     than blocks while they move; that is counted, and may not be a habit.
//   - At the end, when all is applied, answers must be exact to the block,
//     and every decision the one that the plain rules give.
//
// What a fetch of each hint would have moved is worked out as well, from what the
// source really holds when the fetch would come.
//
// The publishers are never slowed down for the judge: they stop for nothing
// but a full socket. Config.Break of the fleet falsifies the stream and must
// make the run fail.
//
// # Concurrency
//
// Run owns everything it starts and has ended all of it when it returns.
package demo
