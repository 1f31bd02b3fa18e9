// Package replay asks a publisher for batches again.
//
// Engines keep their last batches (vLLM 10,000) and serve them on a ROUTER
// socket beside the live one. What they do not do is promise anything: the
// socket drops at its high-water mark without a word and sends its end marker
// all the same, an answer may take as long as the engine is busy, and what is
// older than the buffer is simply not there. So [Fetch] believes what it can
// check, and nothing else:
//
//	Fetch (its own goroutine)                         the stream's goroutine
//	┌──────────────────────────────────────────┐
//	│ DEALER ── "", start ──▶ ROUTER           │
//	│   ▲                                      │
//	│   └─ "", seq, payload        (≤ 0.25)    │
//	│      "", topic, seq, payload (≥ 0.26)    │
//	│      either end marker                   │
//	│        │                                 │
//	│ next ──┼── seq = next   deliver ─────────┼─▶ Inbox ─▶ Take
//	│        ├── seq < next   late: dropped    │  bounded
//	│        └── seq > next   window           │
//	│ end, or window full, with a hole:        │
//	│   something came for this request ▶ ask again from next
//	│   nothing did                     ▶ lost: the buffer begins later
//	└──────────────────────────────────────────┘
//
// Replies are read at full speed whatever the stream does, into an Inbox that
// is bounded in bytes; only when that is full does Fetch wait, and then its
// silence is not the publisher's. What comes out of an Inbox is in order and
// without holes but for those that are said ([Lost]).
//
// The end marker ends a request, it proves nothing: whether everything has come
// is for the caller to say, who knows a second watermark, the newest sequence
// of the live socket.
//
// # Whose history is it?
//
// Neither ZMTP nor a batch names the process. Who merges a replay into a history
// that began on another connection must know that both are of one process, for a
// restarted engine counts from the start and may have come further than the one
// before. A [Witness] proves it: the request begins one batch early, and the
// bytes of that batch, which hold the wall clock of its publisher, are compared
// with those that were applied.
package replay
