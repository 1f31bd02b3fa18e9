package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cairn-kv/cairn/ingest/bound"
	"github.com/cairn-kv/cairn/ingest/topic"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// listener is a Listener at work.
//
//	bound.Socket ── first message of a series ──▶ open ─┬─▶ source, made if need be
//	                                                    └─▶ feed of the rank, the same
//	             ◀───────────── its lane ───────────────────┘
//	forget ── every so often ──▶ sources that nobody speaks for
type listener struct {
	engine *Engine
	spec   Listener
	topic  *topic.Template
	socket *bound.Socket
	ended  chan struct{} // closed when the socket and forget have ended

	// Guarded by Engine.control.
	started bool
	leaving bool

	mu        sync.Mutex // held while a source or rank is made
	sources   map[string]*fed
	born      int // of them, those that came into being by themselves
	streams   int // that came into being
	forgotten uint64
}

// fed is a source that a listener feeds.
type fed struct {
	*source
	born bool
	met  int // streams that came into being
}

// laneBackoff is the delay between two links of a stream whose publisher
// connects: Lane.Dial waits for the next one anyway.
var laneBackoff = zmtp.Backoff{Min: 2 * time.Millisecond, Max: 200 * time.Millisecond}

// Why a listener refuses a message: see Stats.LastError.
var (
	errTooManySources = errors.New("engine: too many sources have come into being")
	errTooManyStreams = errors.New("engine: too many streams have come into being")
)

// Listen starts a listener: it binds at once, and serves until RemoveListener
// or Close. The error is of Listener.Validate, wraps ErrListenerExists or
// ErrSourceExists, or says why the address cannot be bound. ctx bounds the
// call.
func (e *Engine) Listen(ctx context.Context, spec Listener) (err error) {
	if err := spec.Validate(); err != nil {
		return err
	}
	tmpl, err := topic.Parse(spec.Topic)
	if err != nil {
		return err // Validate let it pass: the two disagree
	}
	if spec.MaxSources == 0 {
		spec.MaxSources = DefaultMaxSources
	}
	if spec.MaxStreams == 0 {
		spec.MaxStreams = DefaultMaxStreams
	}
	if spec.ForgetAfter == 0 {
		spec.ForgetAfter = DefaultForgetAfter
	}
	spec.Sources = slices.Clone(spec.Sources)
	l := &listener{engine: e, spec: spec, topic: tmpl, ended: make(chan struct{}), sources: map[string]*fed{}}
	e.control.Lock()
	switch {
	case e.closed:
		err = ErrClosed
	case e.listeners[spec.ID] != nil:
		err = fmt.Errorf("%w: %q", ErrListenerExists, spec.ID)
	default:
		if e.listeners == nil {
			e.listeners = map[string]*listener{}
		}
		e.listeners[spec.ID] = l
	}
	e.control.Unlock()
	if err != nil {
		return err
	}
	if err := l.start(ctx); err != nil {
		close(l.ended)
		if l.socket != nil {
			l.socket.Close()
		}
		return errors.Join(err, l.clear(ctx))
	}
	e.opt.Logger.Info("listening for publishers", "listener", spec.ID, "endpoint", l.socket.Addr(), "topic", spec.Topic, "sources", len(spec.Sources), "users", len(spec.Users))
	return nil
}

// start binds, makes the sources that are known beforehand, and serves.
func (l *listener) start(ctx context.Context) (err error) {
	s := &l.spec
	l.socket, err = bound.Listen(context.WithoutCancel(ctx), bound.Options{
		Bind: zmtp.BindOptions{
			Endpoint: s.Bind, Users: s.Users, MaxConns: s.MaxConns, MaxMessage: s.MaxMessage,
			MaxMemory: s.MaxMemory, HandshakeTimeout: s.HandshakeTimeout, Wrap: s.Wrap,
		},
		Connect: zmtp.Options{
			Endpoint: s.Connect, Plain: s.Plain, MaxMessage: s.MaxMessage,
			HandshakeTimeout: s.HandshakeTimeout, DialContext: l.engine.opt.DialContext,
		},
		Backoff:  l.engine.opt.Backoff,
		Template: l.topic,
		Source:   s.Source.ID,
		Model:    s.Source.Model,
		Open:     l.open,
		Logger:   l.engine.opt.Logger.With("listener", s.ID),
	})
	if err != nil {
		return fmt.Errorf("engine: listener %q: %w", s.ID, err)
	}
	for _, known := range s.Sources {
		ranks := make([]int, known.ranks())
		for r := range ranks {
			ranks[r] = r
		}
		if err := l.add(ctx, known, ranks, false); err != nil {
			return err
		}
	}
	e := l.engine
	e.control.Lock()
	defer e.control.Unlock()
	if e.closed {
		return ErrClosed
	}
	l.started = true
	go l.run()
	return nil
}

// run serves until the socket is closed.
func (l *listener) run() {
	defer close(l.ended)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var forgetting sync.WaitGroup
	defer forgetting.Wait()
	defer cancel()
	if l.spec.ForgetAfter > 0 && l.spec.MaxSources > 0 {
		forgetting.Go(func() { l.forget(ctx) })
	}
	if err := l.socket.Run(); err != nil && !errors.Is(err, zmtp.ErrClosed) && !errors.Is(err, context.Canceled) {
		l.engine.opt.Logger.Error("a listener ended", "listener", l.spec.ID, "err", err)
	}
}

// add makes a source with streams for the ranks given. mu is held, or nobody
// else knows the listener yet.
func (l *listener) add(ctx context.Context, spec Source, ranks []int, born bool) error {
	e := l.engine
	if err := e.addSource(ctx, spec, ranks, l.feed); err != nil {
		return err
	}
	s, ok := e.sources.Load(spec.ID)
	if !ok {
		return ErrClosed // removed at once
	}
	f := &fed{source: s, born: born}
	l.sources[spec.ID] = f
	if born {
		l.born++
		l.made(f, len(ranks))
	}
	context.AfterFunc(s.ctx, func() { l.removed(s) })
	return nil
}

// made counts streams that came into being. mu is held.
func (l *listener) made(f *fed, n int) {
	f.met += n
	l.streams += n
}

// removed notes that a source is no more, and neither are its lanes.
func (l *listener) removed(s *source) {
	for _, f := range s.streams() {
		f.lane.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.sources[s.spec.ID]; f != nil && f.source == s {
		delete(l.sources, s.spec.ID)
		if f.born {
			l.born--
		}
		l.made(f, -f.met)
	}
}

// feed gives a stream its lane, which ends with the source.
func (l *listener) feed(f *feed) dialFunc {
	f.endpoint = l.socket.Addr()
	f.lane = bound.NewLane()
	return f.lane.Dial
}

// open is bound.Options.Open.
func (l *listener) open(ctx context.Context, k bound.Key) (*bound.Lane, error) {
	if most := l.engine.opt.MaxRanks; k.Rank >= most {
		return nil, fmt.Errorf("engine: rank %d of source %q: wants 0 … %d", k.Rank, k.Source, most-1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sources[k.Source]
	if s == nil {
		switch {
		case l.born >= l.spec.MaxSources:
			return nil, fmt.Errorf("%w: %q would be one of more than %d", errTooManySources, k.Source, max(l.spec.MaxSources, 0))
		case l.streams >= l.spec.MaxStreams:
			return nil, l.crowded(k)
		}
		spec := l.spec.Source
		spec.ID, spec.Model = k.Source, k.Model
		if err := l.add(ctx, spec, []int{k.Rank}, true); err != nil {
			return nil, err
		}
		s = l.sources[k.Source]
	}
	if l.topic.NamesModel() && k.Model != s.spec.Model {
		return nil, fmt.Errorf("engine: source %q is of model %q; a topic says %q", k.Source, s.spec.Model, k.Model)
	}
	if f := s.rankMet(k.Rank); f != nil {
		return f.lane, nil
	}
	if l.streams >= l.spec.MaxStreams {
		return nil, l.crowded(k)
	}
	f, err := s.rankFeed(ctx, k.Rank, l.feed)
	if err != nil {
		return nil, err
	}
	l.made(s, 1)
	return f.lane, nil
}

func (l *listener) crowded(k bound.Key) error {
	return fmt.Errorf("%w: rank %d of %q would be one of more than %d", errTooManyStreams, k.Rank, k.Source, l.spec.MaxStreams)
}

// rankMet returns the stream of a rank, nil if there is none.
func (s *source) rankMet(rank int) *feed {
	for _, f := range s.streams() {
		if f.rank == rank {
			return f
		}
	}
	return nil
}

// rankFeed makes the stream of a rank that has none. The caller lets one in at a
// time.
func (s *source) rankFeed(ctx context.Context, rank int, dial func(*feed) dialFunc) (*feed, error) {
	f := &feed{src: s, rank: rank}
	f.dial = dial(f)
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	err := s.admit(ctx, f)
	if err != nil {
		f.port.Close() // its stream never runs, which is who closes it
		return nil, err
	}
	s.engine.opt.Logger.Info("rank met", "source", s.spec.ID, "rank", rank)
	return f, nil
}

// admit gives a stream its holders and sets it going.
func (s *source) admit(ctx context.Context, f *feed) error {
	s.grow.Lock()
	defer s.grow.Unlock()
	for _, d := range s.domains() {
		h, err := s.find(f.rank, d)
		if err == nil && h == nil {
			_, err = s.addHolder(ctx, f.rank, d, []*feed{f})
		}
		if err != nil {
			return err
		}
	}
	e := s.engine
	e.control.Lock()
	defer e.control.Unlock()
	if e.closed || s.gone {
		return ErrClosed
	}
	s.feeds = append(slices.Clone(s.feeds), f)
	s.show()
	s.work.Go(f.run)
	return nil
}

// forget removes sources that nobody has spoken for.
func (l *listener) forget(ctx context.Context) {
	tick := time.NewTicker(max(l.spec.ForgetAfter/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, s := range l.silent(time.Now().Add(-l.spec.ForgetAfter)) {
			// Whoever speaks for it meanwhile makes it anew.
			if err := l.engine.RemoveSource(ctx, s.spec.ID); err != nil {
				continue // somebody else did, or the listener ends
			}
			l.mu.Lock()
			l.forgotten++
			l.mu.Unlock()
			l.engine.opt.Logger.Info("source forgotten", "listener", l.spec.ID, "source", s.spec.ID, "after", l.spec.ForgetAfter)
		}
	}
}

// silent returns the sources that came into being and that no connection has
// spoken for since then.
func (l *listener) silent(then time.Time) (all []*source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sources {
		if !s.born {
			continue
		}
		quiet := true
		for _, f := range s.streams() {
			since, free := f.lane.Free()
			quiet = quiet && free && since.Before(then)
		}
		if quiet {
			all = append(all, s.source)
		}
	}
	return all
}

// stop ends the socket, bounded by ctx.
func (l *listener) stop(ctx context.Context) error {
	l.socket.Close()
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("engine: listener %q did not end: %w", l.spec.ID, ctx.Err())
	}
}

// clear removes the listener and its sources from the engine. The socket has
// ended.
func (l *listener) clear(ctx context.Context) error {
	l.mu.Lock()
	var ids []string
	for id := range l.sources {
		ids = append(ids, id)
	}
	l.mu.Unlock()
	var errs []error
	for _, id := range ids {
		if err := l.engine.RemoveSource(ctx, id); err != nil && !errors.Is(err, ErrUnknownSource) {
			errs = append(errs, err)
		}
	}
	e := l.engine
	e.control.Lock()
	defer e.control.Unlock()
	delete(e.listeners, l.spec.ID)
	return errors.Join(errs...)
}

// RemoveListener closes a listener and all its connections, and removes the
// sources it feeds, those of Listener.Sources too. ErrUnknownListener is
// wrapped with the id; ctx bounds the call.
func (e *Engine) RemoveListener(ctx context.Context, id string) error {
	e.control.Lock()
	l := e.listeners[id]
	if l == nil || e.closed || !l.started || l.leaving {
		e.control.Unlock()
		return fmt.Errorf("%w: %q", ErrUnknownListener, id)
	}
	l.leaving = true
	e.control.Unlock()
	return errors.Join(l.stop(ctx), l.clear(ctx))
}

// closeListeners ends all listeners, before their streams end.
func (e *Engine) closeListeners(ctx context.Context) error {
	e.control.Lock()
	all := make([]*listener, 0, len(e.listeners))
	for _, l := range e.listeners {
		if l.started { // else Listen finds the engine closed
			all = append(all, l)
		}
	}
	e.control.Unlock()
	var errs []error
	for _, l := range all {
		l.socket.Close()
	}
	for _, l := range all {
		errs = append(errs, l.stop(ctx))
	}
	return errors.Join(errs...)
}

// Listeners describes all listeners, by id.
func (e *Engine) Listeners() []ListenerStatus {
	e.control.Lock()
	all := make([]*listener, 0, len(e.listeners))
	for _, l := range e.listeners {
		if l.started {
			all = append(all, l)
		}
	}
	e.control.Unlock()
	list := make([]ListenerStatus, 0, len(all))
	for _, l := range all {
		list = append(list, l.status())
	}
	slices.SortFunc(list, func(a, b ListenerStatus) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func (l *listener) status() ListenerStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ListenerStatus{
		ID: l.spec.ID, Endpoint: l.socket.Addr(), Topic: l.spec.Topic, Model: l.spec.Source.Model,
		Sources: len(l.sources), Dynamic: l.born, MaxSources: max(l.spec.MaxSources, 0),
		Streams: l.streams, MaxStreams: l.spec.MaxStreams,
		Forgotten: l.forgotten, Stats: l.socket.Stats(),
	}
}
