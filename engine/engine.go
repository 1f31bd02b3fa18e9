package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// Defaults of Options.
const (
	DefaultRingBytes   = 128 << 10
	DefaultStaleAfter  = 30 * time.Second
	DefaultSilentAfter = 60 * time.Second
	DefaultMaxRanks    = 64
	MaxEngineShards    = 256
	MinIndexBytes      = 8 << 20
	MaxIndexBytes      = 1 << 40
)

// Options configure an Engine. The zero value is good.
type Options struct {
	// Shards is the number of indexes with a writer of their own that sources
	// are spread over. 0 means 1, which serves thousands of streams; more are
	// for fleets whose events one core cannot apply.
	Shards int
	// RingBytes is the size of the ring between a stream and its writer,
	// rounded up to a power of two. 0 means 128 KiB. It is most of what a
	// stream costs: 7,000 of them hold 0.9 GB at that size, and 7 KiB each
	// besides.
	RingBytes int
	// IndexBytes is the byte budget of the index, hard, shared by its shards; 0
	// is none. What exceeds it is not kept: whoever holds most loses blocks, so
	// that those who want more than there is hold equally many, and is Thinned.
	IndexBytes int
	// StaleAfter is how long the truth of a lost link is still shown, flagged.
	// 0 means 30 s.
	StaleAfter time.Duration
	// SilentAfter is after how long without even a heartbeat a connected stream
	// is marked silent. 0 means 60 s, negative never.
	SilentAfter time.Duration
	// MaxRanks is the number of dp ranks of one source; batches of ranks beyond
	// are rejected and counted. 0 means 64.
	MaxRanks int
	// AllowDegradedHints lets sources that lost something for good serve hints:
	// what they hold is true, but not all they hold is known.
	AllowDegradedHints bool
	// Hints change which source a hint names. The zero value is the plain rule.
	Hints HintOptions
	// Scope enters the order of cache owners of equal depth. Processes that
	// shall agree on it use the same.
	Scope string
	// Repair bounds how streams make up for what they missed.
	Repair RepairOptions
	// Backoff is the delay between two attempts to connect to a publisher. The
	// zero value grows, with jitter, from 50 ms to 5 s.
	Backoff zmtp.Backoff
	// DialContext, if set, connects to publishers instead of a net.Dialer: for
	// proxies, and for publishers inside the process.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Owners are the options of owners that attach at run time: see Residency.
	Owners OwnerOptions
	// Logger gets changes of sources. Nil: no log.
	Logger *slog.Logger
	// NewIndex makes the index of a shard. Nil: tree.New. Tests give the
	// reference model.
	NewIndex func() tree.Interface
}

// Engine is an index of what sources hold, fed by their event streams. Make
// one with Open. Match and Hint take no lock; all methods may be called from
// any goroutine.
type Engine struct {
	opt    Options
	shards []*index
	view   atomic.Pointer[view] // nil once closed
	stats  stats
	// changes counts what the streams' word is worth anew: see ingest.Changes.
	changes ingest.Changes

	selection *selection
	repairs   *ingest.Limit // nil: the process's

	owners   *plane
	queriers *pool
	sources  *xsync.MapOf[string, *source] // by id: for calls that are not queries

	// control guards what follows and the slow fields of sources. It is held
	// while tables are rebuilt, and never while anything is waited for.
	control sync.Mutex
	closed  bool
	walks   map[string]map[placedRoot]int // by model: what queries walk, and for how many sources
	// roots only grows: blocks of a dropped source leave the index later than
	// the source, and a number that was given again would show them to another
	// model. It is bounded by tree.MaxRoot (16 million) combinations, which
	// intern refuses to exceed; a model that comes back has its numbers back.
	roots map[rootKey]tree.Root

	listeners map[string]*listener // by id; guarded by control

	recording atomic.Pointer[Recording] // nil: nothing is recorded

	background sync.WaitGroup // removals under way
	cancel     context.CancelFunc
}

// index is one shard: an index and its writer.
type index struct {
	tree   tree.Interface
	writer *shard.Shard
	thin   thinner // nil: an index without a byte budget
}

// thinner is an index with a byte budget.
type thinner interface{ Thinned(tree.Holder) bool }

// rootKey is what chooses a trie.
type rootKey struct {
	model string
	unitKey
}

type stats struct {
	matches atomic.Uint64
	hints   [hint.NumReasons]atomic.Uint64
	details [hint.NumDetails]atomic.Uint64
}

// Open starts an engine without sources. The error is a *FieldError.
func Open(o Options) (*Engine, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &Engine{
		opt:     o,
		cancel:  cancel,
		sources: xsync.NewMapOf[string, *source](),
		walks:   map[string]map[placedRoot]int{},
		roots:   map[rootKey]tree.Root{},

		selection: newSelection(&o.Hints),
		repairs:   o.Repair.limit(),
	}
	for range o.Shards {
		t := o.NewIndex()
		s := shard.New(shard.Options{Index: t, RingBytes: o.RingBytes})
		s.Start(ctx)
		thin, _ := t.(thinner)
		e.shards = append(e.shards, &index{tree: t, writer: s, thin: thin})
	}
	e.queriers = newPool(4*runtime.GOMAXPROCS(0), func() *querier {
		k := &querier{}
		for _, s := range e.shards {
			k.readers = append(k.readers, s.tree.NewReader())
		}
		return k
	})
	e.view.Store(&view{})
	e.openOwners()
	return e, nil
}

func (o *Options) fill() error {
	bad := func(field string, value any, want string) error {
		return &FieldError{Field: field, Value: fmt.Sprint(value), Want: want}
	}
	for _, d := range []struct {
		v *int
		n int
	}{{&o.Shards, 1}, {&o.RingBytes, DefaultRingBytes}, {&o.MaxRanks, DefaultMaxRanks}} {
		if *d.v == 0 {
			*d.v = d.n
		}
	}
	if o.StaleAfter == 0 {
		o.StaleAfter = DefaultStaleAfter
	}
	if o.SilentAfter == 0 {
		o.SilentAfter = DefaultSilentAfter
	}
	if o.NewIndex == nil {
		bytes := o.IndexBytes / max(o.Shards, 1)
		o.NewIndex = func() tree.Interface { return tree.New(tree.Options{Bytes: bytes}) }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Shards < 1 || o.Shards > MaxEngineShards:
		return bad("shards", o.Shards, fmt.Sprintf("wants 1 … %d", MaxEngineShards))
	case o.RingBytes < 4<<10 || o.RingBytes > 64<<20:
		return bad("ring_bytes", o.RingBytes, "wants 4 KiB … 64 MiB")
	case o.IndexBytes != 0 && (o.IndexBytes < MinIndexBytes || o.IndexBytes > MaxIndexBytes):
		return bad("index_bytes", o.IndexBytes, "wants 0 for no budget, or 8 MiB … 1 TiB")
	case o.MaxRanks < 1 || o.MaxRanks > 4096:
		return bad("max_ranks", o.MaxRanks, "wants 1 … 4096")
	case o.StaleAfter < 0:
		return bad("stale_after", o.StaleAfter, "wants a duration above 0")
	}
	if err := o.Repair.check(bad); err != nil {
		return err
	}
	return o.Hints.check(bad)
}

// Close ends all streams and writers. Queries get ErrClosed from here on;
// those under way end undisturbed. It is idempotent, and bounded by ctx: its
// error then says what did not end in time.
func (e *Engine) Close(ctx context.Context) error {
	detached := e.closeOwners(ctx)
	e.control.Lock()
	first := !e.closed
	e.closed = true
	var all []*source
	if v := e.view.Swap(nil); v != nil {
		for _, m := range v.models {
			all = append(all, m.sources...)
		}
	}
	e.control.Unlock()
	if !first {
		return nil
	}
	errs := []error{detached}
	// Who connects first: a socket makes sources.
	if err := e.closeListeners(ctx); err != nil {
		errs = append(errs, err)
	}
	for _, s := range all {
		s.cancel() // all at once, then wait for each
	}
	for _, s := range all {
		if err := s.wait(ctx); err != nil {
			errs = append(errs, err)
		}
		e.sources.Delete(s.spec.ID)
	}
	if err := within(ctx, &e.background); err != nil {
		errs = append(errs, fmt.Errorf("engine: a removal did not end: %w", err))
	}
	// Streams first: a writer that ended under a stream would let it wait for
	// room that never comes.
	e.cancel()
	for i, s := range e.shards {
		done := make(chan error, 1)
		go func() { done <- s.writer.Close() }()
		select {
		case err := <-done:
			if err != nil {
				errs = append(errs, fmt.Errorf("engine: shard %d: %w", i, err))
			}
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("engine: shard %d did not end: %w", i, ctx.Err()))
		}
	}
	return errors.Join(errs...)
}
