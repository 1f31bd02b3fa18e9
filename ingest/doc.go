// Package ingest follows publishers: one [Stream] per source, dp rank and TP
// shard, each a goroutine that connects, reads, judges, decodes and hands over
// what one engine announces about its cache.
//
//	publisher                              Stream.Run (one goroutine)
//	─────────   ┌───────────────────────────────────────────────────────────────┐
//	 frames ───▶│ Link.Next          3 frames, 8-byte sequence, topic           │
//	            │      │                                    └─▶ dropped, counted│
//	            │ seq.Machine        apply │ gap │ restart │ duplicate │ refused │
//	            │      │             (1)      (2)    (3)       └─▶ dropped      │
//	            │ wire.Decoder       event by event                             │
//	            │      │                └─▶ skipped, rejected: counted          │
//	            │ rules              domain, rank, group, locality, geometry    │
//	            │      │                                                        │
//	            │ content.Append     hashes straight into the record            │
//	            │      ▼                                                        │
//	            │ shard.Port         Commit: the whole batch, by one store      │──▶ index
//	            └───────────────────────────────────────────────────────────────┘
//
//	(2) missing          asked for, if there is anybody to ask: see Repair. Else,
//	                     and if that fails, a loss for good: what the stream
//	                     taught is cleared, then the batch is applied: degraded.
//	                     An engine-local owner: fenced.
//	(3) new process      cleared, new incarnation, then the batch is applied:
//	                     exact if it begins at the beginning, else as (2).
//
// Clears travel through the port like everything else, so they act between the
// batch before and the batch behind them.
//
// Where the frames come from is a [Link]'s affair: a connection to a publisher
// that listens, one that a publisher made to us, a push, a recording. A link is
// an epoch: it never joins two processes, and its end is what tells a stream
// that something may have been missed.
//
// # What a stream decides
//
// The rank is the batch's if it states one, else the endpoint's. The domain
// follows from the event's ownership and the source's [Pool]:
//
//	ownership      pool none                pool engine-local or durable
//	─────────      ─────────                ────────────────────────────
//	absent         worker                   worker
//	kvcr           fault: fenced            cache owner; on the device tier
//	                                        rejected (owner_tier)
//	another, on a tier other than the device, or a remote copy:  skipped
//	another        fault: fenced            fault: fenced
//
// Remote copies are skipped. A clear that names a medium but no owner is
// skipped, for it cannot be told what it clears; any other empties one domain
// of one rank. Only dense groups give prefix residency, and of those only the
// main group: stores of others are skipped with a reason, and so are their
// removes. So a name means what the main group says: groups of other block sizes
// announce the same names for other blocks. Tokens that are text are not
// indexed. Nor is a block that is not full, which vLLM announces by the
// granularity of its hashes: the next full one has the same parent.
//
// Releases whose events cannot be put together again are fenced as soon as one
// of their stores shows which they are: see [CauseUnsound].
//
// A store on another tier than the device which does not say which extra keys
// its blocks have, though its layout could, never changes what a known name
// means; once the source has shown salts or images it does not introduce
// unknown names either.
//
// The adapter's name seeds every content hash. An adapter that has only a
// number is known to its own source alone: "id:7@source". The salt seeds the
// first block of a chain, and only that.
//
// A stream that is bound to an attachment of a cache owner's slot is judged more
// strictly: see [Attached].
//
// # Geometry
//
// The unit of a source, what the index steps by, is the block size of its first
// store with tokens, shared by its streams through [Learned]. Events that tell
// content hashes and no tokens are of the size that they, the options or other
// events state, and count only where that is the unit. A later block
// size that is a multiple of it spans several units. One that is not makes the
// unit their common divisor: every stream of the source then empties what it
// taught and goes on, degraded. Tries are per (unit, look-ahead).
//
// # What a stream's word is worth
//
//	           first at the start         loss for good
//	connecting ──────────────────▶ exact ──────────────▶ degraded
//	    │                          ▲ │ ▲                    │ ▲
//	    │                          │ │ └── restart, ────────┘ │
//	    │ first above the start    │ │     AllBlocksCleared   │ first above the
//	    │  ┌───────────────────────┘ │ restart                │ start, nobody to
//	    │  │ whole        missing ┌──┤                        │ ask
//	    ▼  │                      ▼  ▼                        │
//	  repairing ◀───────── exact, degraded ── fenced ─────────┘
//	       └─▶ degraded, fenced: some of it is lost for good
//
//	disconnected lies over exact and degraded, from the end of a connection to
//	the first message of the next, whose sequence decides what was missed; or to
//	the moment at which the publisher proves that nothing was.
//
// The first message of a new connection is judged against the last sequence
// heard. Lower or equal, it is another process's: a restart, and a late one
// unless it begins at the start. More than one higher, something is missing.
// Exactly one higher, it is taken for the same process going on, for neither
// ZMTP nor the batch names the process.
//
// # Repair
//
// A stream with a replay endpoint ([Repair]) asks it for what is missing:
//
//	gap, first above the start, late restart   from the first that is missing
//	a connection came back                     is there anything we have not?
//	the publisher is quiet                     the same: a lost tail shows at no
//	                                           later message
//	it has been quiet since we came            from the start
//	a sequence went on over a new connection   is it the process we know?
//
// From the first sign of a hole until everything through the newest live message
// is applied both domains say repairing: a hidden source answers nothing. Live
// messages are held meanwhile, bounded, and everything is applied in the order
// of its sequence, once, so that an older store never undoes a newer remove. The
// end marker of a replay proves nothing; two watermarks do: what was applied
// without a hole, and what was heard live. What the replay does not have, it
// says by beginning later: that is lost for good, what was taught is cleared,
// and what follows is applied, degraded. So it is when the replay brings nothing
// for long, takes too long, or more is held than may be. Then a [Snapshotter] is
// asked first, if there is one.
//
// What came over two connections is joined only if both are one process's: the
// request begins one batch early, and the bytes of that batch, which its
// publisher dated, must be those that were applied. A publisher with others is
// another process, one without that batch cannot prove itself: either way all of
// its own history is asked for instead. Where a sequence goes on by one over a
// new connection this is asked behind the back of the live messages; until the
// answer comes, or where nobody can be asked, another process that has come
// exactly as far is not told from the one before.
//
// Requests run on goroutines of their own, a few at a time over the process, and
// call the stream's goroutine away from its link ([Link.Wake]) when there is
// something; nothing of a repair costs a stream that misses nothing.
//
// A state is published before the batch that causes it, together with the
// position from which it holds: a reader passes [Stream.Status] the position it
// saw before its walk and learns what its answer is worth. So no answer counts
// as exact that may have seen an index in which something was missing. What the
// answer saw lies between that position, Port.Applied before the walk, and
// Port.Begun behind it, for batches in pieces as for others.
//
// Each domain has a state of its own: clearing one makes that one whole. A
// domain is exact when no rank of it has lost anything since it was last whole.
//
// # Concurrency
//
// Run is one goroutine and owns the connection, the decoder and the port; while
// something is asked for there is one more, which Run ends and waits for.
// Status and Counters may be called by any goroutine; they read atomics, take
// no lock and allocate nothing. The [Owner] is called on Run's goroutine,
// rarely: its answers are kept. Ending Run's context ends it; a stream that
// waits, for the network or for room in the ring, ends as well.
//
// From the socket's buffer to the ring nothing is allocated once the buffers
// have grown to the stream's events.
package ingest
