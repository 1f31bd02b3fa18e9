package engine

import (
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
)

// rest is what the word of a holder without streams is worth: it does not change
// any more.
type rest struct {
	state    State
	cause    string
	advisory bool
	seq      uint64
	epoch    uint32
	streams  []StreamPosition
}

// serves reports whether such a holder may be named in hints.
func (r *rest) serves() bool { return r.state == Exact || r.state == Degraded && r.advisory }

// freshness is what such a holder's answer says of itself. Positions go into the
// answer's own memory.
func (r *rest) freshness(a *Answer) Freshness {
	f := Freshness{State: r.state, Cause: r.cause, Advisory: r.advisory, Seq: r.seq, Epoch: r.epoch}
	f.Applied, _, a.positions = r.interval(a.positions)
	f.Streams = a.positions[len(a.positions)-len(r.streams) : len(a.positions) : len(a.positions)]
	return f
}

// interval appends the positions of the streams that were, and joins them.
func (r *rest) interval(to []StreamPosition) (applied [2]uint64, cause string, _ []StreamPosition) {
	for j := range r.streams {
		r.streams[j].join(j == 0, &applied)
	}
	return applied, r.cause, append(to, r.streams...)
}

// Causes of holders without streams.
const (
	causeDetached    = "detached"           // nobody is attached, the pool lives on
	causeQuarantined = "quarantined"        // the listener ended
	causeOwnerFailed = "cache_owner_failed" // the pool said what cannot be true
	causeCleared     = "cleared"            // emptied by a call, not by its publisher
)

// rests notes what a domain is worth when its streams have ended. before is what
// it rested on when they began.
func (a *attachment) rests(d Domain, before *rest) *rest {
	r := &rest{state: Connecting}
	received := false
	for _, f := range a.source.feeds {
		at := f.applied()
		st := f.status(d, at)
		received = received || st.Received
		if state := State(st.State); state == Fenced {
			r.state, r.cause = Fenced, string(st.Cause)
		}
		r.seq, r.epoch = max(r.seq, st.Seq), max(r.epoch, st.Epoch)
		r.streams = append(r.streams, StreamPosition{Seq: st.Seq, Applied: [2]uint64{at.Seq, at.Seq},
			Incarnation: [2]uint32{at.Incarnation, at.Incarnation}, Any: [2]bool{at.Any, at.Any}})
	}
	switch {
	case r.state == Fenced || d == hint.Worker:
	case received:
		r.state, r.cause, r.advisory = Degraded, causeDetached, true
	case before != nil:
		return before
	}
	return r
}

// Publish implements residency.Plane: the routes go into the view that queries
// pin, all of them by one store.
func (p *plane) Publish(_ uint64, changed []residency.Route, gone []residency.SlotID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.engine
	e.control.Lock()
	defer e.control.Unlock()
	v := e.view.Load()
	if v == nil || e.closed {
		return
	}
	for i := range changed {
		if s := p.slots[changed[i].Slot]; s != nil {
			v = s.routed(v, &changed[i])
		}
	}
	for _, id := range gone {
		if s := p.slots[id]; s != nil {
			v = s.routed(v, &residency.Route{})
		}
	}
	e.view.Store(v)
}

// routed returns a view in which the slot's holders stand as the route has
// them. plane.mu and control are held.
func (s *attachedSlot) routed(v *view, rt *residency.Route) *view {
	n := v.model(s.Model)
	if n == nil {
		n = s.pool.engine.begun(s.Model)
	}
	worker := s.workerHolder(rt)
	if s.shown != nil && (worker == nil || worker.src != s.shown) {
		n = n.replace(s.shown, nil)
		s.shown = nil
	}
	if worker != nil {
		n, s.shown = n.replace(worker.src, []*holder{worker}), worker.src
	}
	s.seen = s.seen || rt.Live
	pool := s.poolHolder(rt)
	s.pool.holders = nil
	if pool != nil {
		s.pool.holders = []*holder{pool}
	}
	n = n.replace(s.pool, s.pool.holders)
	if len(n.sources) == 0 && v.model(s.Model) == nil {
		return v // there is nothing, and there was
	}
	return v.with(n)
}

// begun is a model without sources, whose queries make the walks that its
// streams have asked for. control is held.
func (e *Engine) begun(model string) *modelView {
	m := &modelView{name: model}
	walks := make([]placedRoot, 0, len(e.walks[model]))
	for p := range e.walks[model] {
		walks = append(walks, p)
	}
	return m.walked(walks)
}

// workerHolder is the worker's entry, nil if it has none: it stands from the
// completion of its registration until it is detached.
func (s *attachedSlot) workerHolder(rt *residency.Route) *holder {
	if !rt.Live || rt.State == residency.Detached || s.worker == nil {
		return nil
	}
	h := s.holder(hint.Worker, s.worker)
	h.candidate = s.worker.candidate(int(s.Rank), hint.Worker)
	switch rt.State {
	case residency.Attached:
	case residency.Fenced:
		h.rest = s.outRest(hint.Worker, "fenced")
	default:
		h.rest = s.outRest(hint.Worker, causeQuarantined)
	}
	return h
}

// poolHolder is the owner's entry, nil if it has none: it stands once a
// registration was complete, for as long as the slot and its entries last.
func (s *attachedSlot) poolHolder(rt *residency.Route) *holder {
	if rt.Slot == 0 || !rt.Live && (s.Protocol.EngineLocal() || !s.seen) {
		return nil
	}
	h := s.holder(hint.CacheOwner, s.pool)
	c := &h.candidate
	c.Place, c.Domain = hint.Place{Source: string(s.Owner), Rank: int(s.Rank)}, hint.CacheOwner
	c.Key, c.EngineLocal = s.pool.engine.cacheOwnerKey(&s.Source), s.Protocol.EngineLocal()
	if rt.Hint != nil { // the route's, which is the last intent's
		c.Role, _ = hint.ParseRole(rt.Hint.WorkerType)
		c.Endpoint, c.Width = rt.Hint.ControlEndpoint, rt.Hint.TP
	}
	if s.Shards > 1 {
		c.Width = s.Shards
	}
	if rt.State != residency.Detached {
		c.Attached, c.AttachedTo = true, hint.Place{Source: workerName(rt.Worker.ID), Rank: int(s.Rank)}
	}
	c.Projected, c.Hidden = rt.Schedulable, !rt.HintReady
	switch {
	case !rt.CacheOwnerReady && rt.State == residency.Fenced:
		h.rest = s.outRest(hint.CacheOwner, "fenced")
	case !rt.CacheOwnerReady && rt.Flags&residency.CacheOwnerFailed != 0:
		h.rest = s.outRest(hint.CacheOwner, causeOwnerFailed)
	case !rt.CacheOwnerReady:
		h.rest = s.outRest(hint.CacheOwner, causeQuarantined)
	case len(h.feeds) == 0:
		if h.rest = s.rest[hint.CacheOwner]; h.rest == nil {
			h.rest = &rest{state: Connecting}
		}
	}
	return h
}

// holder makes an entry with what both domains have in common.
func (s *attachedSlot) holder(d Domain, src *source) *holder {
	h := &holder{id: s.holders[d], src: src, rank: int(s.Rank), domain: d, peer: s.peer, sizes: &s.sizes[d], cleared: &s.cleared[d]}
	if s.attached != nil {
		h.feeds = s.attached.source.feeds
	}
	return h
}

// answer appends a holder's answer without depths and freshness, to be filled
// in where it is.
func (h *holder) answer(to *[]HolderAnswer) *HolderAnswer {
	*to = append(*to, HolderAnswer{})
	ha := &(*to)[len(*to)-1]
	ha.Source, ha.Rank, ha.Domain, ha.BlockSize, ha.UpperBound = h.src.spec.ID, h.rank, h.domain, h.blockSize(), h.upper
	if c := &h.candidate; c.Attached && c.Projected {
		ha.AttachedTo = c.AttachedTo.Source
	}
	return ha
}

// outRest is what a domain that was taken out is worth: nothing, for the reason
// its streams gave, or else why.
func (s *attachedSlot) outRest(d Domain, why string) *rest {
	r := rest{state: Fenced, cause: why}
	old := s.rest[d]
	if s.attached != nil {
		old = s.attached.rests(d, nil)
	}
	if old != nil {
		r.seq, r.epoch, r.streams = old.seq, old.epoch, old.streams
		if old.state == Fenced && old.cause != "" {
			r.cause = old.cause
		}
	}
	return &r
}
