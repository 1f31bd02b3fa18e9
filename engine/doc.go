// Package engine is cairn as a library: it follows the event streams of LLM
// servers, knows which server holds which leading blocks of a prompt, and says
// so without a lock.
//
//	e, err := engine.Open(engine.Options{})
//	if err != nil {
//		return err
//	}
//	defer e.Close(context.Background())
//	err = e.AddSource(ctx, engine.Source{ID: "w1", Model: "m", Endpoint: "tcp://10.0.0.1:5557"})
//	if err != nil {
//		return err
//	}
//	var a engine.Answer // reused: a warm Match allocates nothing
//	if err := e.Match(&engine.Query{Model: "m", Tokens: prompt}, &a); err != nil {
//		return err
//	}
//	for _, h := range a.Holders { // deepest first
//		fmt.Println(h.Source, h.Rank, h.Domain, h.Tokens.Any, h.Freshness.State)
//	}
//
// A router that chooses inside the process asks once for both, and gets the
// answer and the hint from one walk of the index:
//
//	err = e.Route(&q, func(a *engine.Answer) engine.Target { return choose(a) }, &a, &h)
//	if err == nil && h.Reason == hint.Hinted {
//		extra = h.AppendRequest(extra[:0], hint.Numbers) // as the target wants it
//	}
//
// # The way of the data
//
//	publishers            streams                shards                     callers
//	──────────            ───────                ──────                     ───────
//	w1 rank 0  ──tcp──▶ ingest.Stream ─ ring ─┐
//	w1 rank 1  ──tcp──▶ ingest.Stream ─ ring ─┼▶ writer ─▶ index ◀── reader ── Match
//	w2 TP 0    ──tcp──▶ ingest.Stream ─ ring ─┤    ▲          ▲                Hint
//	w2 TP 1    ──tcp──▶ ingest.Stream ─ ring ─┘    │          │                 │
//	                                            control     view ◀── pinned ────┘
//	AddSource, RemoveSource ───────────────────────┘          ▲
//	      └── publish: models, tries, holders ────────────────┘
//
// A stream decodes one publisher's batches and hashes their content; the
// shard's writer applies them; a query hashes the prompt once per way its
// model's sources cut it, and walks the index. What a query needs beside the
// index stands in one immutable view, replaced as a whole.
//
// Before its walk a query notes how far every stream of the model is, which they
// keep side by side; behind it, how far those are whose blocks it met. Of the
// others it looks at those alone that an earlier query did not find in order
// since the last change of any stream's state. So what few workers of many have
// in common costs what the few do, and a nanosecond or two for each other.
//
// # Words
//
// A source is what is configured: a worker with all its dp ranks and TP
// shards. A holder is what an answer names: a dp rank of a source in the worker
// domain (the framework's own cache) or in the cache-owner domain (the pool of
// the cache library beside it, for protocols with owned residency). The two
// evict independently and are never mixed. Depths are leading tokens; a block
// behind a hole does not count.
//
// # Who connects to whom
//
// A source says where its publishers listen (Source.Endpoint, one port per rank;
// Shards), or where they announce themselves (Source.Discover). Publishers that
// connect are met by a [Listener], whose topics make sources and whose sources'
// ranks are those that are met. Whichever way, a stream keeps its history over
// connections, and is judged by the numbers it hears.
//
// # Owners that attach
//
// Engines with a cache library register at run time ([Engine.Residency]): their
// owners attach to slots, all ranks of a worker or none, and are sources from
// then on. The worker is named by its id in decimal, as long as it is attached;
// its owner by the owner id, as long as there is something to say of it. An
// engine-local owner dies with its attachment, a durable one goes on serving,
// marked Advisory. Their streams are judged more strictly than configured ones:
// an engine-local owner that lost a batch is fenced, both domains and at once.
//
// # What an answer is worth
//
// Every holder's answer has a Freshness: the state, the sequence that was wholly
// visible before the walk, and the last of which anything was visible after it.
// The depths equal the truth at some sequence in between, or inside a batch in
// between; mostly the two are one. A hint names the same two for its source,
// names included, and for its target. Holders whose depths are withheld stand
// in Answer.Flagged with the reason. See State.
//
// # Concurrency
//
// All methods may be called from any goroutine. Match and Hint take no lock,
// touch no map and no channel, never wait for a writer, and allocate nothing
// once their buffers have grown; they choose their view anew if the sources of
// the model change at that very moment. The first Match behind a change of some
// stream's state leaves what it found for the next ones, which is the one thing
// that queries write where others read. An Answer or HintAnswer serves one
// goroutine at a time. AddSource, RemoveSource and Close wait for writers or
// streams and are bounded by their context. Every goroutine the engine starts
// ends with RemoveSource or Close.
package engine
