package residency

import (
	"context"
	"fmt"
)

// attach makes the slot, if there is none, and binds the intent to it.
func (k *keeper) attach(rec *record) {
	r := k.registry
	ctx, cancel := context.WithCancel(r.life)
	defer cancel()
	r.mu.Lock()
	if rec.removed {
		r.mu.Unlock()
		return
	}
	k.attempt, k.giveUp = rec, cancel
	r.mu.Unlock()
	err := k.bind(ctx, rec)
	r.mu.Lock()
	k.attempt, k.giveUp = nil, nil
	if err == nil {
		rec.settled(nil)
		r.mu.Unlock()
		return
	}
	r.opt.Logger.Warn("attach failed", "scope", k.scope.host.Scope, "owner", k.owner, "rank", rec.Worker.Rank, "error", err)
	rec.settled(err)
	undo := k.slot != nil && k.slot.state != Detached
	if k.slot != nil {
		k.slot.note("attach failed: " + err.Error())
	}
	r.mu.Unlock()
	if undo {
		k.detach("attach failed: " + err.Error())
	}
}

// bind runs the steps of an attach. What it began is undone by a detach.
func (k *keeper) bind(ctx context.Context, rec *record) error {
	r := k.registry
	s, err := k.build(ctx, rec)
	if err != nil {
		return &AttachError{Owner: k.owner, Generation: 1, Step: "build", Err: err}
	}
	r.mu.Lock()
	a, err := s.attach(rec, r.opt.RecordID)
	if err == nil {
		r.touch(s)
	}
	r.mu.Unlock()
	fail := func(step string, err error) error {
		return &AttachError{Owner: k.owner, Generation: a.Generation, Step: step, Err: err}
	}
	if err != nil {
		return fail("accept", err)
	}
	cleared := WorkerDomain
	if s.source.Protocol.EngineLocal() {
		cleared = BothDomains
	}
	at, err := k.barriers(ctx, a.Generation, cleared)
	if err != nil {
		return fail("barrier", err)
	}
	r.mu.Lock()
	a.ReadyAt = at
	if s.attachment != nil {
		s.attachment.ReadyAt = at
	}
	r.mu.Unlock()
	if err := r.plane.Open(ctx, a); err != nil {
		return fail("open", err)
	}
	r.mu.Lock()
	s.ready = s.state == Attached
	r.mu.Unlock()
	if err := r.plane.Start(ctx, a); err != nil {
		return fail("start", err)
	}
	if err := r.plane.Advertise(ctx, a); err != nil {
		return fail("advertise", err)
	}
	r.mu.Lock()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case !s.serves(rec): // a fault came first, or the listener ended
		err = errEnded
		if s.flags != 0 {
			err = fmt.Errorf("%w: %s", ErrFenced, s.reason)
		} else if s.reason != "" {
			err = fmt.Errorf("%w: %s", errEnded, s.reason)
		}
	default:
		s.attaches++
		k.scope.attaches++
		s.note("")
		r.touch(s)
	}
	r.mu.Unlock()
	if err != nil {
		return fail("ready", err)
	}
	r.judge(s)
	r.opt.Logger.Info("attached", "scope", k.scope.host.Scope, "owner", k.owner, "rank", rec.Worker.Rank,
		"worker", rec.Worker.ID, "generation", a.Generation, "incarnation", rec.Incarnation)
	return nil
}

// build returns the slot, made if need be.
func (k *keeper) build(ctx context.Context, rec *record) (*slot, error) {
	r := k.registry
	r.mu.Lock()
	if k.slot != nil {
		defer r.mu.Unlock()
		return k.slot, nil
	}
	r.lastSlot++
	s := &slot{keeper: k, source: Source{
		Slot: r.lastSlot, Scope: k.scope.host.Scope, Owner: k.owner, Rank: rec.Worker.Rank, Model: rec.Model,
		KVStateEndpoint: rec.KVStateEndpoint, Domain: rec.Domain, BlockSize: rec.BlockSize,
		Protocol: rec.Protocol, Shards: len(rec.Endpoints),
	}}
	s.source.Publisher = k.scope.sockets.take(func() uint64 { r.lastPub++; return r.lastPub })
	r.mu.Unlock()
	err := r.plane.Build(ctx, s.source)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		k.scope.sockets.give(s.source.Publisher)
		return nil, err
	}
	k.slot = s
	r.slots[s.source.Slot] = s
	r.claims[k.owner] = append(r.claims[k.owner], s)
	r.touch(r.claims[k.owner]...) // a second claim puts the first in doubt
	return s, nil
}

// clearOrder is the order of the two clears of a barrier; the last one is what
// an attachment waits for. Which HiCache builds expect is not certain.
var clearOrder = [...]Domains{WorkerDomain, CacheOwnerDomain}

// barriers clears domains one after the other and returns the last cursor. A
// clear that cannot be applied fails its domain.
func (k *keeper) barriers(ctx context.Context, generation uint64, d Domains) (at Cursor, err error) {
	r := k.registry
	for _, one := range clearOrder {
		if d&one == 0 {
			continue
		}
		at, err = r.plane.Barrier(ctx, k.slot.source.Slot, generation, one)
		if err == nil {
			continue
		}
		if ctx.Err() == nil {
			f := FaultWorker
			if one == CacheOwnerDomain {
				f = FaultCacheOwner
			}
			r.mu.Lock()
			if s := k.slot; s.record != nil {
				s.fault(f, fmt.Sprintf("%s clear: %v", one, err))
				r.touch(s)
			}
			r.mu.Unlock()
		}
		return 0, fmt.Errorf("%s clear: %w", one, err)
	}
	return at, nil
}
