package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-kv/cairn/engine/discover"
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/bound"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// feed is one stream of a source at work: one dp rank's publisher, or one TP
// shard of it. It is the stream's ingest.Owner.
type feed struct {
	src      *source
	rank, tp int
	endpoint string
	replay   string           // of an attachment's stream: its publisher's replay endpoint
	dial     dialFunc         // nil: connect to endpoint
	lane     *bound.Lane      // of a source whose publishers connect
	lister   *discover.Lister // of a source whose engine announces its publishers
	push     *pusher          // of a source whose batches are pushed
	linked   bool             // dial is an embedder's
	port     *shard.Port
	stream   *ingest.Stream
}

// dialFunc makes the links of a stream that has no endpoint to connect to.
type dialFunc = func(ctx context.Context, h ingest.Hooks) (ingest.Link, error)

// open gives the feed its port and its stream, which does not run yet.
func (f *feed) open(ctx context.Context) error {
	s, e := f.src, f.src.engine
	port, err := e.shards[s.shard].writer.OpenPort(ctx)
	if err != nil {
		return fmt.Errorf("engine: source %q: %w", s.spec.ID, err)
	}
	f.port = port
	pool := ingest.PoolNone
	switch protocol, _ := s.spec.protocol(); {
	case protocol.EngineLocal():
		pool = ingest.PoolEngineLocal
	case protocol.Owned():
		pool = ingest.PoolDurable
	}
	backoff := e.opt.Backoff
	switch {
	case f.lane != nil:
		backoff = laneBackoff
	case f.dial != nil && s.spec.Discover == nil && !f.linked:
		backoff = handBackoff
	}
	repair, err := f.repair()
	if err != nil {
		port.Close()
		return err
	}
	transport := zmtp.Options{DialContext: e.opt.DialContext, Plain: s.spec.Plain}
	if f.lister != nil {
		transport.DialContext = f.dialReplay // for nothing else: Dial makes the links
	}
	f.stream, err = ingest.NewStream(ingest.Tapped(ingest.Options{
		Source:         s.spec.ID,
		Endpoint:       f.endpoint,
		Dial:           f.dial,
		Topic:          s.spec.Topic,
		Rank:           f.rank,
		MaxRanks:       e.opt.MaxRanks,
		TPShard:        uint8(f.tp),
		Pool:           pool,
		MainGroup:      int64(s.spec.MainGroup),
		FirstSeq:       s.spec.FirstSeq,
		NoPythonRoot:   s.spec.NoPythonRoot,
		BareMultimodal: s.spec.BareMM,
		BlockSize:      s.spec.BlockSize,
		TakeUnsound:    s.spec.TakeUnsound,

		ZeroParentUnknown: s.spec.ZeroParentUnknown,

		Learned:   &s.learned,
		Changes:   &e.changes,
		Owner:     f,
		Port:      port,
		Transport: transport,
		Repair:    repair,
		Backoff:   backoff,
		Logger:    e.opt.Logger,
	}, &tap{feed: f}))
	if err != nil {
		port.Close()
		return fmt.Errorf("engine: source %q: %w", s.spec.ID, err)
	}
	return nil
}

// run follows the publisher until the source is removed.
func (f *feed) run() {
	err := f.stream.Run(f.src.ctx)
	switch {
	case f.src.ctx.Err() != nil:
	case errors.Is(err, ingest.ErrEnd):
		f.src.engine.opt.Logger.Info("a stream is at its end", "source", f.src.spec.ID, "rank", f.rank, "tp_shard", f.tp)
	default:
		f.src.engine.opt.Logger.Error("a stream ended", "source", f.src.spec.ID, "rank", f.rank, "tp_shard", f.tp, "err", err)
	}
}

// Holder implements ingest.Owner. Configured ranks have their holders from the
// start; a rank that a batch states beyond them gets one now, fed by the
// streams of this endpoint.
func (f *feed) Holder(rank int, d ingest.Domain) (tree.Holder, uint32, error) {
	s := f.src
	if rank < 0 || rank >= s.engine.opt.MaxRanks || d != ingest.Worker && !s.owned {
		return 0, 0, ingest.ErrRank
	}
	s.grow.Lock() // the TP shards of a rank may come at once
	defer s.grow.Unlock()
	h, err := s.find(rank, Domain(d))
	if err != nil {
		return 0, 0, err
	}
	if h == nil {
		if h, err = s.addHolder(s.ctx, rank, Domain(d), s.group(f.rank)); err != nil {
			return 0, 0, err
		}
		s.engine.opt.Logger.Info("rank met", "source", s.spec.ID, "rank", rank, "domain", Domain(d))
	}
	return h.id, s.engine.shards[s.shard].writer.Generation(h.id), nil
}

// Root implements ingest.Owner.
func (f *feed) Root(unit, lookahead int) (tree.Root, error) {
	return f.src.engine.intern(f.src, unitKey{unit, lookahead})
}

// Learned implements ingest.Owner.
func (f *feed) Learned(rank int, d ingest.Domain, blockSize, _ int) {
	if h, err := f.src.find(rank, Domain(d)); err == nil && h != nil {
		h.sizes.note(blockSize)
	}
}

// applied is how far the stream's batches are wholly visible.
func (f *feed) applied() shard.Position { return f.port.Applied() }

// wait waits until the stream's present history is applied through seq.
func (f *feed) wait(ctx context.Context, seq uint64) error {
	for {
		at := f.port.Applied()
		err := f.port.WaitApplied(ctx, shard.Position{Incarnation: at.Incarnation, Seq: seq, Any: true})
		switch {
		case errors.Is(err, shard.ErrRestarted):
			continue // the history that counts is the new one
		case errors.Is(err, shard.ErrClosed):
			return ErrClosed
		}
		return err
	}
}

// status is what the stream's word is worth in a domain, for an answer whose
// walk began at from.
func (f *feed) status(d Domain, from shard.Position) ingest.Status {
	return f.stream.Status(ingest.Domain(d), from)
}

// settled is whether the stream answers in a domain, and in which state, for an
// answer whose walk began at from or later, until the engine's changes are
// counted up.
func (f *feed) settled(d Domain, from shard.Position) (State, bool) {
	state, ok := f.stream.Settled(ingest.Domain(d), from)
	return State(state), ok
}

// describe gives the stream's full status.
func (f *feed) describe(now time.Time) StreamStatus {
	at := f.port.Applied()
	in := f.status(hint.Worker, at)
	st := StreamStatus{
		Rank: f.rank, TPShard: f.tp, Endpoint: f.endpoint,
		State: State(in.State), Cause: string(in.Cause), Connected: in.Connected,
		Silent: f.src.engine.silent(&in, now),
		Seq:    in.Seq, Received: in.Received,
		Applied: at.Seq, Visible: at.Any,
		Incarnation: at.Incarnation, Epoch: in.Epoch,
		Age: since(now, in.Message), LastError: in.LastError,
	}
	if f.src.owned {
		if own := f.status(hint.CacheOwner, at); worst(st.State, State(own.State)) != st.State {
			st.State, st.Cause = State(own.State), string(own.Cause)
		}
	}
	for l, v := range f.stream.Counters() {
		st.Counters = append(st.Counters, Counter{Name: l.Name, Reason: l.Reason, Value: v})
	}
	return f.appendPort(st)
}

// appendPort adds what the writer counted for the stream.
func (f *feed) appendPort(st StreamStatus) StreamStatus {
	c := f.port.Counters()
	add := func(name, reason string, v uint64) {
		st.Counters = append(st.Counters, Counter{Name: name, Reason: reason, Value: v})
	}
	add("index_batches", "", c.Batches)
	add("index_records", "", c.Records)
	add("index_records_dropped", "stale_generation", c.Stale)
	add("ring_stalls", "", c.Stalls)
	for r, v := range c.Reasons {
		if r != int(tree.Accepted) {
			add("index_records_dropped", indexReasons[r], v)
		}
	}
	b := c.Blocks
	add("index_blocks", "new", b.New)
	add("index_blocks", "known", b.Known)
	add("index_blocks", "waiting", b.Waiting)
	add("index_blocks", "dropped", b.Dropped)
	add("index_blocks", "removed", b.Removed)
	add("index_blocks", "unknown", b.Unknown)
	add("index_blocks", "moved", b.Moved)
	return st
}

// indexReasons are the words for tree.Reason.
var indexReasons = [shard.NumReasons]string{
	tree.Accepted:      "accepted",
	tree.SelfParent:    "self_parent",
	tree.DuplicateName: "duplicate_name",
	tree.BadOwner:      "bad_owner",
	tree.BadShape:      "bad_shape",
	tree.Full:          "full",
}

func (f *feed) ringCounters() (stalls, stale uint64) {
	c := f.port.Counters()
	return c.Stalls, c.Stale
}

// since is the time since t, 0 if t has not come.
func since(now, t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(0, now.Sub(t))
}

// silent reports whether a connected stream gave not even a heartbeat for too
// long.
func (e *Engine) silent(s *ingest.Status, now time.Time) bool {
	return s.Connected && e.opt.SilentAfter > 0 && !s.Heard.IsZero() && now.Sub(s.Heard) > e.opt.SilentAfter
}

// stale reports whether a lost link's truth of then is too old to be shown.
func (e *Engine) stale(s *ingest.Status, now time.Time) bool {
	return s.State == ingest.Disconnected && now.Sub(s.Down) > e.opt.StaleAfter
}
