package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// Prompt is a request's prompt: its tokens, and what the truth knows it by.
// It is read-only once made.
type Prompt struct {
	Adapter string
	Tokens  []uint32
	path    []prefix // per chunk
}

// at appends the prefixes at the ends of blocks of the given size.
func (p *Prompt) at(dst []prefix, blockSize int) []prefix {
	step := blockSize / Chunk
	for i := step - 1; i < len(p.path); i += step {
		dst = append(dst, p.path[i])
	}
	return dst
}

// Source is what a subscriber has to know of one engine.
type Source struct {
	ID, Model    string
	Endpoints    []string // one per TP shard; rank r listens on port + r
	Replays      []string // the same of the replay endpoints; nil: there are none
	Ranks        int
	BlockSize    int
	Dialect      Dialect
	Protocol     string
	Pool         bool   // has a cache owner
	Adapters     bool   // its events name adapters
	Role         string // "": takes no part in hints
	HintEndpoint string // of rank 0; "": may only be a target
}

// Stats are counts since Start. Blocks are counted per TP shard.
type Stats struct {
	Requests uint64 // served, per TP shard
	Hits     uint64 // blocks of prompts found on the device
	Stored   uint64 // blocks stored by computing, writing through, keeping
	Evicted  uint64 // blocks removed
	Demoted  uint64 // blocks moved to a slower tier
	Copies   uint64 // second copies of the same block
	Holes    uint64 // evictions of a block with others behind it
	Cleared  uint64 // cache resets
	Events   uint64
	Batches  uint64
	Lost     uint64 // batches that were not sent
	Cuts     uint64 // times that connections were broken
	Asked    uint64 // replay requests served
	Resident int    // (block, tier, TP shard) held now
}

type counters struct {
	requests, hits, stored, evicted, demoted, copies, holes, cleared, events, batches atomic.Uint64
	lost, cuts, asked                                                                 atomic.Uint64
}

type place struct {
	source string
	rank   int
}

// rank is one dp rank of an engine.
type rank struct {
	engine *Engine
	shards []*shard
	// order keeps the shards' queues in the same order.
	order sync.Mutex
}

// Fleet is a set of simulated engines.
type Fleet struct {
	config   Config
	sources  []Source
	ranks    map[place]*rank
	all      []*shard
	prefixes *prefixes
	stats    counters

	ctx     context.Context
	stop    context.CancelCauseFunc
	running sync.WaitGroup
}

// New makes a fleet. Errors name the engine and the field.
func New(c Config) (*Fleet, error) {
	if c.Engines == nil {
		c.Engines = Default()
	}
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if c.Retention <= 0 {
		c.Retention = 4096
	}
	if c.Queue <= 0 {
		c.Queue = 32
	}
	f := &Fleet{config: c, ranks: make(map[place]*rank), prefixes: newPrefixes()}
	f.config.Engines = append([]Engine(nil), c.Engines...)
	for i := range f.config.Engines {
		e := &f.config.Engines[i]
		if err := e.complete(); err != nil {
			return nil, err
		}
		if f.ranks[place{e.ID, 0}] != nil {
			return nil, fmt.Errorf("fleet: engine %q stands twice; ids are unique", e.ID)
		}
		for r := range e.Ranks {
			k := &rank{engine: e}
			for t := range e.Shards {
				k.shards = append(k.shards, newShard(&f.config, e, r, t, &f.stats))
			}
			f.ranks[place{e.ID, r}] = k
			f.all = append(f.all, k.shards...)
		}
	}
	return f, nil
}

// Start makes all engines listen and serve, and returns what subscribers have
// to know of them. It is called once. Cancelling ctx ends the fleet's work;
// Close must be called all the same.
func (f *Fleet) Start(ctx context.Context) ([]Source, error) {
	f.ctx, f.stop = context.WithCancelCause(ctx)
	for i := range f.config.Engines {
		e := &f.config.Engines[i]
		s := Source{ID: e.ID, Model: e.Model, Ranks: e.Ranks, BlockSize: e.BlockSize, Dialect: e.Dialect,
			Protocol: e.Protocol, Pool: e.Pool > 0, Adapters: e.Dialect.adapters(),
			Role: e.Role, HintEndpoint: e.HintEndpoint}
		for t := range e.Shards {
			sockets, err := f.listen(e.Ranks)
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			for r, p := range sockets {
				f.ranks[place{e.ID, r}].shards[t].socket = p
			}
			s.Endpoints = append(s.Endpoints, sockets[0].Addr())
			if f.config.Replay > 0 {
				replay, err := f.archive(e.ID, e.Ranks, t)
				if err != nil {
					return nil, errors.Join(err, f.Close())
				}
				s.Replays = append(s.Replays, replay)
			}
		}
		f.sources = append(f.sources, s)
	}
	for _, s := range f.all {
		f.running.Go(func() {
			if err := s.run(f.ctx); err != nil {
				f.stop(err)
			}
		})
	}
	return f.sources, nil
}

// listen binds publishers on n ports in a row.
func (f *Fleet) listen(n int) ([]*zmtp.Publisher, error) {
	return row(f, n, func(_ int, endpoint string) (*zmtp.Publisher, error) { return zmtp.Listen(f.ctx, endpoint) })
}

// archive gives the ranks of a TP shard replay endpoints on ports in a row, and
// returns that of rank 0.
func (f *Fleet) archive(id string, ranks, tp int) (string, error) {
	sockets, err := row(f, ranks, func(r int, endpoint string) (*zmtp.Router, error) {
		return zmtp.RouterConfig{Handle: f.ranks[place{id, r}].shards[tp].archive.serve}.Listen(f.ctx, endpoint)
	})
	if err != nil {
		return "", err
	}
	for r, k := range sockets {
		f.ranks[place{id, r}].shards[tp].router = k
	}
	return sockets[0].Addr(), nil
}

// socket is what can be bound to a port.
type socket interface {
	Addr() string
	Close() error
}

// row binds n sockets on ports in a row.
func row[S socket](f *Fleet, n int, bind func(i int, endpoint string) (S, error)) ([]S, error) {
	var last error
	for range 50 {
		first, err := bind(0, "tcp://"+net.JoinHostPort(f.config.Host, "0"))
		if err != nil {
			return nil, err
		}
		out := []S{first}
		at := strings.LastIndexByte(first.Addr(), ':')
		port, err := strconv.Atoi(first.Addr()[at+1:])
		for err == nil && len(out) < n {
			var s S
			if s, err = bind(len(out), first.Addr()[:at+1]+strconv.Itoa(port+len(out))); err == nil {
				out = append(out, s)
			}
		}
		if err == nil {
			return out, nil
		}
		last = err // another process has one of the ports: elsewhere again
		for _, s := range out {
			_ = s.Close()
		}
	}
	return nil, fmt.Errorf("fleet: no %d free ports in a row: %w", n, last)
}

// WaitSubscribers waits until every stream has a subscriber. What is published
// before is lost to it.
func (f *Fleet) WaitSubscribers(ctx context.Context) error {
	for _, s := range f.all {
		if err := s.socket.WaitSubscribers(ctx, 1); err != nil {
			return fmt.Errorf("fleet: engine %q has no subscriber: %w", s.engine.ID, err)
		}
	}
	return nil
}

// Sources returns what Start returned.
func (f *Fleet) Sources() []Source { return f.sources }

// Prompt makes the prompt of a list of trace ids.
func (f *Fleet) Prompt(adapter string, ids []uint32) *Prompt {
	p := &Prompt{Adapter: adapter, Tokens: make([]uint32, 0, len(ids)*TokensPerID)}
	for _, id := range ids {
		p.Tokens = AppendTokens(p.Tokens, id)
	}
	p.path = f.prefixes.intern(make([]prefix, 0, len(p.Tokens)/Chunk), f.prefixes.root(adapter), p.Tokens)
	return p
}

// Submit hands a request to an engine's rank; decode is the number of blocks
// it generates behind the prompt. It waits while the engine's queue is full.
func (f *Fleet) Submit(ctx context.Context, source string, dpRank int, p *Prompt, decode int) error {
	r := f.ranks[place{source, dpRank}]
	if r == nil {
		return fmt.Errorf("%w: %s rank %d", ErrUnknown, source, dpRank)
	}
	if p.Adapter != "" && !r.engine.Dialect.adapters() {
		return fmt.Errorf("fleet: engine %q speaks %s, which names no adapter; send base prompts", source, r.engine.Dialect)
	}
	return f.enqueue(ctx, r, f.job(r.engine, p, decode))
}

func (f *Fleet) enqueue(ctx context.Context, r *rank, j job) error {
	r.order.Lock()
	defer r.order.Unlock()
	for _, s := range r.shards {
		select {
		case s.jobs <- j:
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// job cuts a prompt into an engine's blocks.
func (f *Fleet) job(e *Engine, p *Prompt, decode int) job {
	size := e.BlockSize
	n := len(p.Tokens) / size
	tokens, path := p.Tokens[:n*size], p.path
	if decode > 0 && n > 0 {
		tokens = appendDecoded(append([]uint32(nil), tokens...), tokens[len(tokens)-1], decode*size)
		path = f.prefixes.intern(nil, f.prefixes.root(p.Adapter), tokens)
	}
	j := job{blocks: make([]block, 0, len(tokens)/size), prompt: n}
	var parent prefix
	for at := size; at <= len(tokens); at += size {
		b := block{id: path[at/Chunk-1], parent: parent, tokens: tokens[at-size : at], adapter: p.Adapter}
		j.blocks = append(j.blocks, b)
		parent = b.id
	}
	return j
}

// Quiesce waits until everything submitted so far has been served and handed
// to the sockets.
func (f *Fleet) Quiesce(ctx context.Context) error {
	done := make(chan error, len(f.all))
	for _, s := range f.all {
		select {
		case s.jobs <- job{flush: done}:
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for range f.all {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Published returns, per TP shard, the number of batches a rank has published.
// The last sequence of a shard is one less.
func (f *Fleet) Published(dst []uint64, source string, dpRank int) []uint64 {
	r := f.ranks[place{source, dpRank}]
	if r == nil {
		return dst
	}
	for _, s := range r.shards {
		dst = append(dst, s.history.position())
	}
	return dst
}

// Name returns what an engine calls the block that ends a prefix of n blocks
// of the prompt.
func (f *Fleet) Name(source string, p *Prompt, n int) (uint64, error) {
	r := f.ranks[place{source, 0}]
	if r == nil {
		return 0, fmt.Errorf("%w: %s", ErrUnknown, source)
	}
	i := n*r.engine.BlockSize/Chunk - 1
	if n < 1 || i >= len(p.path) {
		return 0, fmt.Errorf("fleet: prompt has no block %d of %d tokens", n, r.engine.BlockSize)
	}
	return r.shards[0].encode.name(p.path[i]), nil
}

// Stats returns the counts so far.
func (f *Fleet) Stats() Stats {
	c := &f.stats
	s := Stats{Requests: c.requests.Load(), Hits: c.hits.Load(), Stored: c.stored.Load(),
		Evicted: c.evicted.Load(), Demoted: c.demoted.Load(), Copies: c.copies.Load(), Holes: c.holes.Load(),
		Cleared: c.cleared.Load(), Events: c.events.Load(), Batches: c.batches.Load(),
		Lost: c.lost.Load(), Cuts: c.cuts.Load(), Asked: c.asked.Load()}
	for _, sh := range f.all {
		s.Resident += sh.history.resident()
	}
	return s
}

// Close ends all engines and returns when every goroutine has ended. It
// reports the error that ended the fleet earlier, if one did.
func (f *Fleet) Close() error {
	if f.stop == nil {
		return nil
	}
	f.stop(context.Canceled)
	for _, s := range f.all {
		if s.socket != nil {
			_ = s.socket.Close() // its only error is a second Close
		}
		if s.router != nil {
			_ = s.router.Close()
		}
	}
	f.running.Wait()
	if err := context.Cause(f.ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
