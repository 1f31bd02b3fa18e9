package engine

import (
	"slices"
	"time"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// Match finds what every holder of the query's model has of the prompt, and
// puts it into a, whose buffers are reused: a warm call allocates nothing. It
// takes no lock and waits for nobody, and may be called from any goroutine as
// long as each has an Answer of its own.
//
// The depths of a holder equal the truth at some sequence between
// Freshness.Applied[0] and [1], or at some moment inside the batches in
// between. Errors are ErrClosed, ErrUnknownModel and those of a query that
// contradicts itself.
func (e *Engine) Match(q *Query, a *Answer) error {
	a.Tokens, a.Holders, a.Flagged, a.positions = q.length(), a.Holders[:0], a.Flagged[:0], a.positions[:0]
	k, m, err := e.ask(q)
	if err != nil {
		return err
	}
	e.stats.matches.Add(1)
	k.answer(e, m, a)
	k.forget()
	e.queriers.put(k)
	return nil
}

// ask does what Match and Hint share: pin a view, hash, note positions, walk,
// note positions again. The caller gives the querier back unless there is an
// error.
func (e *Engine) ask(q *Query) (*querier, *modelView, error) {
	if err := q.check(); err != nil {
		return nil, nil, err
	}
	k := e.queriers.get()
	m, err := e.pin(k, q)
	if err != nil {
		e.queriers.put(k)
		return nil, nil, err
	}
	k.walk(m)
	for i := range k.found {
		k.noteAfter(m, int(k.found[i].holder))
	}
	return k, m, nil
}

// pin chooses the view that a query works on, hashes for it and notes positions.
func (e *Engine) pin(k *querier, q *Query) (*modelView, error) {
	for {
		v := e.view.Load()
		if v == nil {
			return nil, ErrClosed
		}
		m := v.model(q.Model)
		if m == nil {
			return nil, ErrUnknownModel
		}
		if err := k.hash(m, q); err != nil {
			return nil, err
		}
		k.note(m)
		// A batch that needs a new trie or holder is applied after the view has
		// it. So what is applied by now stands where this view looks, unless the
		// view has been replaced meanwhile, which is rare.
		if now := e.view.Load(); now == v || now != nil && now.model(q.Model) == m {
			k.revision = v.revision
			return m, nil
		}
	}
}

// answer turns findings into the caller's answer.
func (k *querier) answer(e *Engine, m *modelView, a *Answer) {
	s := k.surveyed(e, m)
	k.sort()
	// Reserved in one piece, since answers point into it.
	a.positions = slices.Grow(a.positions, len(k.before))
	now := time.Now()
	for _, o := range k.order {
		f := &k.found[k.slot[uint32(o)]-1]
		h := m.holders[f.holder]
		// Made in its place: with many holders copies are a good part of a match.
		ha := h.answer(&a.Holders)
		k.freshen(e, m, int(f.holder), now, a, &ha.Freshness, s.isExact(int(f.holder)))
		if !ha.Freshness.visible() {
			a.Flagged = append(a.Flagged, *ha)
			a.Holders = a.Holders[:len(a.Holders)-1]
			continue
		}
		ha.Tokens = Depths{
			Device:        f.tokens[tree.ViewDevice],
			Host:          f.tokens[tree.ViewHost],
			Any:           f.tokens[tree.ViewAny],
			HostExtension: max(0, f.tokens[tree.ViewExtension]-f.tokens[tree.ViewDevice]),
		}
	}
	k.withheld(e, m, s, now, a)
}

// freshness describes holder i of the model.
func (k *querier) freshness(e *Engine, m *modelView, i int, now time.Time, a *Answer) (f Freshness) {
	k.freshen(e, m, i, now, a, &f, false)
	return f
}

// freshen describes holder i of the model, of which positions were noted before
// and after. They go into the answer's own memory; f is zero. exact says that all
// its streams are known to be.
func (k *querier) freshen(e *Engine, m *modelView, i int, now time.Time, a *Answer, f *Freshness, exact bool) {
	h := m.holders[i]
	if h.rest != nil {
		*f = h.rest.freshness(a)
		return
	}
	start := len(a.positions)
	first := m.streamsOf(i)
	for j, end := first, m.streamsOf(i+1); j < end; j++ {
		if exact || h.feeds[j-first].exact(h.domain, k.before[j]) {
			u := m.vitals[j].Pulse()
			p := k.position(j, u.Seq)
			a.positions = append(a.positions, p)
			p.join(j == first, &f.Applied)
			f.joinExact(e, j == first, &u, m.streams[j], now)
			continue
		}
		s := h.feeds[j-first].status(h.domain, k.before[j])
		p := k.position(j, s.Seq)
		a.positions = append(a.positions, p)
		p.join(j == first, &f.Applied)
		f.join(e, j == first, &s, now)
		if at := m.streams[j].Applied(); s.Received && (!at.Any || s.Seq > at.Seq) {
			f.Lag = max(f.Lag, max(0, s.Lag)+since(now, s.Message))
		}
	}
	f.Streams = a.positions[start:len(a.positions):len(a.positions)]
	if thin := e.shards[h.src.shard].thin; thin != nil {
		f.Thinned = thin.Thinned(h.id)
	}
	if h.cleared != nil && f.State == Exact && h.cleared.Load() {
		f.State, f.Cause = Degraded, causeCleared
	}
}

// join adds one stream to a holder's freshness.
func (f *Freshness) join(e *Engine, first bool, s *ingest.Status, now time.Time) {
	if state := State(s.State); first || worst(f.State, state) != f.State {
		f.State, f.Cause = state, string(s.Cause)
	}
	f.Seq = max(f.Seq, s.Seq)
	f.Lag = max(f.Lag, s.Lag)
	f.Age = max(f.Age, since(now, s.Message))
	f.Epoch = max(f.Epoch, s.Epoch)
	f.Silent = f.Silent || e.silent(s, now)
	f.Advisory = f.Advisory || s.Advisory
	f.Hidden = f.Hidden || e.stale(s, now)
}

// joinExact is join for a stream that is exact, which most are: the same figures
// for less.
func (f *Freshness) joinExact(e *Engine, first bool, u *ingest.Pulse, of *shard.Progress, now time.Time) {
	if first || worst(f.State, Exact) != f.State {
		f.State, f.Cause = Exact, ""
	}
	at := now.UnixNano()
	age := func(then int64) time.Duration {
		if then == 0 {
			return 0
		}
		return time.Duration(max(0, at-then))
	}
	lag := u.Lag
	if to := of.Applied(); u.Received && (!to.Any || u.Seq > to.Seq) {
		lag = max(0, u.Lag) + age(u.Message)
	}
	f.Seq, f.Epoch = max(f.Seq, u.Seq), max(f.Epoch, u.Epoch)
	f.Lag, f.Age = max(f.Lag, lag), max(f.Age, age(u.Message))
	f.Silent = f.Silent || u.Connected && e.opt.SilentAfter > 0 && u.Heard != 0 && age(u.Heard) > e.opt.SilentAfter
}

// visible reports whether depths may be shown.
func (f *Freshness) visible() bool { return f.State.answers() && !f.Hidden }

// visible is the same for holder i without building a Freshness.
func (k *querier) visible(e *Engine, m *modelView, i int, now time.Time) bool {
	h := m.holders[i]
	if h.rest != nil {
		return h.rest.state.answers()
	}
	for j, fd := range h.feeds {
		at := k.before[int(m.first[i])+j]
		if fd.exact(h.domain, at) {
			continue
		}
		s := fd.status(h.domain, at)
		if !State(s.State).answers() || e.stale(&s, now) {
			return false
		}
	}
	return true
}
