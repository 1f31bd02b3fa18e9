package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// source is a source at work.
type source struct {
	engine  *Engine
	spec    Source
	shard   int
	role    hint.Role
	carrier hint.Carrier            // where it wants its hints
	owned   bool                    // has a cache owner; the worker is in state-agent mode
	feeds   []*feed                 // by rank and TP shard; replaced whole, under control: see streams
	shown   atomic.Pointer[[]*feed] // feeds of a source that gets more while it is in views
	listed  bool                    // ranks are known when they are met, not by number

	// Of what owners attach at run time; see plane.
	registered bool // the registry keeps it
	pool       bool // it is a cache owner, without streams of its own
	base       int  // the only rank it has

	// Guarded by Engine.control; read through views by queries.
	holders []*holder
	roots   map[unitKey]tree.Root
	started bool // in views
	gone    bool // being removed: streams get no more holders

	learned ingest.Learned // shared by the streams
	grow    sync.Mutex     // of holders that streams ask for; never held by control

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // streams
}

// holder is one name of an answer: a dp rank of a source in one domain.
type holder struct {
	id        tree.Holder
	src       *source
	rank      int
	domain    Domain
	feeds     []*feed        // the streams that feed it, one per TP shard
	candidate hint.Candidate // what decisions see of it; what a query finds is added
	peer      *peer          // what hints know of its place beside its blocks
	sizes     *blockSizes
	rest      *rest        // instead of what streams say; nil if they do
	cleared   *atomic.Bool // emptied by a call; nil if there is none
	upper     bool         // its depths are upper bounds
}

// blockSizes are the engine block sizes that a holder's events had.
type blockSizes struct {
	last atomic.Int64 // 0 before the first
	many atomic.Bool  // more than one was seen
}

func (b *blockSizes) note(n int) {
	if old := b.last.Load(); old != int64(n) {
		if old != 0 {
			b.many.Store(true)
		}
		b.last.Store(int64(n))
	}
}

// blockSize is the engine's block size in tokens; 0 while unknown.
func (h *holder) blockSize() int { return int(h.sizes.last.Load()) }

// uniform reports whether every block of the holder has that size.
func (h *holder) uniform() bool { return !h.sizes.many.Load() }

// hasRank reports whether a rank can be a hint's target.
func (s *source) hasRank(rank int) bool {
	if !s.listed {
		return rank >= s.base && rank < s.base+s.ranks()
	}
	return slices.ContainsFunc(s.streams(), func(f *feed) bool { return f.rank == rank })
}

func (s *source) ranks() int { return s.spec.ranks() }

// AddSource starts to follow a source: a stream per dp rank and TP shard. It
// returns as soon as the source has its place in the index; connections are
// made, and made again, in the background, and freshness tells how far they
// are. A *FieldError says what is wrong with s; ErrSourceExists is wrapped
// with the id. The engine keeps a copy of s.
func (e *Engine) AddSource(ctx context.Context, s Source) error {
	var dial func(*feed) dialFunc
	if err := s.validate(e.opt.MaxRanks); err != nil {
		return err
	}
	switch {
	case s.Push:
		dial = pushed
	case s.Discover != nil:
		var err error
		if dial, err = discovered(&s); err != nil {
			return err
		}
	}
	return e.addSource(ctx, s, nil, dial)
}

// addSource is AddSource of a source that was validated, with links made by
// dial, unless that is nil. Its streams are those of the ranks given; others
// are made when they are met. Nil ranks: those of the source, and no others.
func (e *Engine) addSource(ctx context.Context, s Source, ranks []int, dial func(*feed) dialFunc) error {
	s.Shards, s.ShardReplays = slices.Clone(s.Shards), slices.Clone(s.ShardReplays)
	s.Hint = e.hintOf(&s)
	s.Plain, s.Discover = cloned(s.Plain), cloned(s.Discover)
	if s.Protocol == "" {
		s.Protocol = FrameworkV1
	}
	src := &source{engine: e, spec: s, shard: placeOf(s.ID, len(e.shards)), roots: map[unitKey]tree.Root{}}
	protocol, _ := s.protocol()
	src.owned = protocol.Owned()
	if s.Hint != nil {
		src.role, _ = hint.ParseRole(s.Hint.WorkerType)
		src.carrier, _ = hint.ParseCarrier(s.Hint.Carrier)
	}
	src.ctx, src.cancel = context.WithCancel(context.Background())
	if _, taken := e.sources.LoadOrStore(s.ID, src); taken {
		src.cancel()
		return fmt.Errorf("%w: %q", ErrSourceExists, s.ID)
	}
	src.listed = ranks != nil
	for r := range src.ranks() {
		if !src.listed {
			ranks = append(ranks, r)
		}
	}
	if err := e.start(ctx, src, ranks, dial); err != nil {
		src.cancel()
		for _, f := range src.feeds {
			if f.port != nil {
				f.port.Close() // its stream never ran, which is who closes it
			}
		}
		e.forget(src)
		e.sources.Delete(s.ID)
		if errors.Is(err, shard.ErrClosed) {
			return ErrClosed
		}
		return err
	}
	e.recordAdded(src)
	e.opt.Logger.Info("source added", "source", s.ID, "model", s.Model, "protocol", s.Protocol, "streams", len(src.feeds), "shard", src.shard)
	return nil
}

// start gives a source its holders and sets its streams going.
func (e *Engine) start(ctx context.Context, s *source, ranks []int, dial func(*feed) dialFunc) error {
	for _, r := range ranks {
		for tp, base := range s.spec.endpoints() {
			f := &feed{src: s, rank: r, tp: tp, endpoint: pushEndpoint}
			if dial != nil {
				f.dial = dial(f)
			} else {
				var err error
				if f.endpoint, err = RankEndpoint(base, r); err != nil {
					return err // Validate let it pass: the two disagree
				}
			}
			s.feeds = append(s.feeds, f)
		}
	}
	if s.listed {
		s.show()
	}
	for _, r := range ranks {
		for _, d := range s.domains() {
			if _, err := s.addHolder(ctx, r, d, s.group(r)); err != nil {
				return err
			}
		}
	}
	for _, f := range s.feeds {
		if err := f.open(ctx); err != nil {
			return err
		}
	}
	e.control.Lock()
	defer e.control.Unlock()
	if e.closed {
		return ErrClosed
	}
	s.started = true
	e.show(s)
	for _, f := range s.feeds {
		s.work.Go(f.run)
	}
	return nil
}

func (s *source) tp() int { return len(s.spec.endpoints()) }

// group returns the streams of one endpoint rank, one per TP shard.
func (s *source) group(rank int) []*feed {
	all := s.streams()
	i := slices.IndexFunc(all, func(f *feed) bool { return f.rank == rank })
	return all[i : i+s.tp()]
}

// show lets streams see the feeds there are now. The caller is the only one who
// makes more.
func (s *source) show() {
	feeds := s.feeds
	s.shown.Store(&feeds)
}

// streams returns the source's streams, of which a listener may make more. It
// takes no lock: queries ask.
func (s *source) streams() []*feed {
	if s.listed {
		return *s.shown.Load()
	}
	return s.feeds
}

func (s *source) domains() []Domain {
	if s.owned {
		return []Domain{hint.Worker, hint.CacheOwner}
	}
	return []Domain{hint.Worker}
}

// addHolder makes a holder in the index and lays out what decisions see of it.
// The source is not in a view yet, or the caller publishes afterwards.
func (s *source) addHolder(ctx context.Context, rank int, d Domain, feeds []*feed) (*holder, error) {
	policy := s.spec.Policy
	if d == hint.CacheOwner {
		policy = tree.Set // a pool announces again without a matching remove
	}
	var id tree.Holder
	var failed error
	err := s.engine.shards[s.shard].writer.Do(ctx, func(w tree.Writer) {
		id, failed = w.AddHolder(policy, s.tp())
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, fmt.Errorf("engine: source %q rank %d %s: the index has no place: %w", s.spec.ID, rank, d, err)
	}
	h := &holder{id: id, src: s, rank: rank, domain: d, feeds: feeds, sizes: &blockSizes{},
		upper: d == hint.Worker && (s.spec.Hybrid || s.spec.InvisibleKeys)}
	h.candidate = s.candidate(rank, d)
	s.engine.control.Lock()
	defer s.engine.control.Unlock()
	h.peer = s.peer(rank)
	s.holders = append(s.holders, h)
	if s.started {
		s.engine.show(s)
	}
	return h, nil
}

// find returns the holder of a rank in a domain, nil if there is none yet, and
// an error once the source is being removed.
func (s *source) find(rank int, d Domain) (*holder, error) {
	s.engine.control.Lock()
	defer s.engine.control.Unlock()
	if s.gone || s.engine.closed {
		return nil, shard.ErrClosed
	}
	for _, h := range s.holders {
		if h.rank == rank && h.domain == d {
			return h, nil
		}
	}
	return nil, nil
}

// intern returns the trie of a model, unit and look-ahead, one number on all
// shards, and has the source's queries walk it from now on.
func (e *Engine) intern(s *source, k unitKey) (tree.Root, error) {
	e.control.Lock()
	defer e.control.Unlock()
	if s.gone || e.closed {
		return 0, shard.ErrClosed
	}
	if r, ok := s.roots[k]; ok {
		return r, nil
	}
	key := rootKey{s.spec.Model, k}
	r, ok := e.roots[key]
	if !ok {
		if len(e.roots) > int(tree.MaxRoot) {
			return 0, fmt.Errorf("engine: more than %d combinations of model, unit and look-ahead", tree.MaxRoot)
		}
		r = tree.Root(len(e.roots))
		e.roots[key] = r
	}
	s.roots[k] = r
	e.share(s, k, r, 1)
	return r, nil
}

// RemoveSource stops following a source and takes all it held out of the
// index. Its blocks are out of all answers when the call begins to wait for
// the streams to end, which ctx bounds; where that is too short, the error is
// ctx's, the rest is done in the background, and the id is free again once it
// is. ErrUnknownSource is wrapped with the id.
func (e *Engine) RemoveSource(ctx context.Context, id string) error {
	s, ok := e.sources.Load(id)
	if !ok {
		return fmt.Errorf("%w: %q", ErrUnknownSource, id)
	}
	e.control.Lock()
	if s.gone || !s.started || s.registered || e.closed {
		e.control.Unlock()
		return fmt.Errorf("%w: %q", ErrUnknownSource, id)
	}
	s.gone = true
	e.show(s)
	for k, r := range s.roots {
		e.share(s, k, r, -1)
	}
	e.background.Add(1) // under control, so that Close sees it
	e.control.Unlock()
	defer e.background.Done()

	s.cancel()
	err := s.wait(ctx)
	if err == nil {
		err = e.drop(ctx, s)
	}
	if err != nil {
		// The caller's patience ended, not the work: it is finished behind its
		// back, and Close waits for it.
		e.background.Go(func() {
			s.work.Wait()
			e.forget(s)
			e.recordRemoved(s)
			e.sources.Delete(id)
		})
		return err
	}
	e.recordRemoved(s)
	e.sources.Delete(id)
	e.opt.Logger.Info("source removed", "source", id)
	return nil
}

// wait waits for the source's streams to end.
func (s *source) wait(ctx context.Context) error {
	if err := within(ctx, &s.work); err != nil {
		return fmt.Errorf("engine: the streams of source %q did not end: %w", s.spec.ID, err)
	}
	return nil
}

// within waits for a group until ctx ends. The goroutine ends with the group.
func within(ctx context.Context, g *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		g.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drop takes the source's holders out of the index.
func (e *Engine) drop(ctx context.Context, s *source) error {
	e.control.Lock()
	holders := s.holders
	s.holders = nil
	e.control.Unlock()
	if len(holders) == 0 {
		return nil
	}
	sh := e.shards[s.shard].writer
	return sh.Do(ctx, func(w tree.Writer) {
		for _, h := range holders {
			w.Drop(h.id)
			sh.Forget(h.id)
		}
	})
}

// forgetAfter bounds the clean-up that no caller waits for.
const forgetAfter = 30 * time.Second

// forget is drop without a caller to wait for it.
func (e *Engine) forget(s *source) {
	ctx, cancel := context.WithTimeout(context.Background(), forgetAfter)
	defer cancel()
	if err := e.drop(ctx, s); err != nil {
		e.opt.Logger.Debug("holders of a removed source stay until the engine closes", "source", s.spec.ID, "err", err)
	}
}

// WaitApplied waits until everything that a source's rank published through
// sequence seq is visible to queries, on all its TP shards. The sequence is
// one of the publisher's present history: after a restart it counts anew.
// Errors: ErrUnknownSource, ErrUnknownRank, the context's, or ErrClosed if the
// source was removed meanwhile.
func (e *Engine) WaitApplied(ctx context.Context, id string, rank int, seq uint64) error {
	s, ok := e.sources.Load(id)
	if !ok {
		return ErrUnknownSource
	}
	feeds, err := s.feedsOf(rank)
	if err != nil {
		return err
	}
	for _, f := range feeds {
		if err := f.wait(ctx, seq); err != nil {
			return err
		}
	}
	return nil
}

// feedsOf returns the streams that feed a rank.
func (s *source) feedsOf(rank int) ([]*feed, error) {
	s.engine.control.Lock()
	defer s.engine.control.Unlock()
	for _, h := range s.holders {
		if h.rank == rank && s.started && !s.gone {
			return h.feeds, nil
		}
	}
	return nil, s.absent()
}

// absent says why a rank was not found: a source that comes or goes has no
// ranks, but is there by its id until it is all gone. control is held.
func (s *source) absent() error {
	if s.gone || !s.started {
		return ErrUnknownSource
	}
	return ErrUnknownRank
}

// Sources describes all sources, by id. It is a look at running counters: the
// figures of one stream may be a batch apart.
func (e *Engine) Sources() []SourceStatus {
	v := e.view.Load()
	if v == nil {
		return nil
	}
	var started []*source
	for _, m := range v.models {
		for _, s := range m.sources {
			if !s.pool {
				started = append(started, s)
			}
		}
	}
	now := time.Now()
	all := make([]SourceStatus, 0, len(started))
	for _, s := range started {
		all = append(all, s.status(now))
	}
	slices.SortFunc(all, func(a, b SourceStatus) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func (s *source) status(now time.Time) SourceStatus {
	st := SourceStatus{ID: s.spec.ID, Model: s.spec.Model, Protocol: s.spec.Protocol,
		Policy: "copies", Shard: s.shard, WorkerType: s.role.String()}
	if s.spec.Policy == tree.Set {
		st.Policy = "set"
	}
	s.engine.control.Lock()
	for k := range s.roots {
		st.Lookahead = append(st.Lookahead, k.lookahead)
		st.BlockSizes = append(st.BlockSizes, k.unit)
	}
	s.engine.control.Unlock()
	slices.Sort(st.Lookahead)
	slices.Sort(st.BlockSizes)
	st.Lookahead, st.BlockSizes = slices.Compact(st.Lookahead), slices.Compact(st.BlockSizes)
	for i, f := range s.streams() {
		ss := f.describe(now)
		if i == 0 {
			st.State = ss.State
		}
		st.State = worst(st.State, ss.State)
		st.Streams = append(st.Streams, ss)
	}
	return st
}

// Owners describes all holders, by model, source, rank, domain: everything
// that an answer can name.
func (e *Engine) Owners() []OwnerStatus {
	v := e.view.Load()
	if v == nil {
		return nil
	}
	var all []OwnerStatus
	k := &querier{}
	now := time.Now()
	for _, m := range v.models {
		k.note(m)
		for i, h := range m.holders {
			k.noteAfter(m, i)
			o := OwnerStatus{Source: h.src.spec.ID, Rank: h.rank, Domain: h.domain, Model: m.name,
				BlockSize: h.blockSize(), WorkerType: h.candidate.Role.String(), Endpoint: h.candidate.Endpoint,
				StateAgent: h.candidate.StateAgent, Freshness: k.freshness(e, m, i, now, &Answer{})}
			if h.candidate.Attached {
				o.AttachedTo = h.candidate.AttachedTo.Source
			}
			all = append(all, o)
		}
	}
	return all
}
