package residency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// keeper brings the slot of one owner in one scope to what the owner's intents
// say. Its goroutine alone does what takes time; everything else wakes it. It
// takes one place of its scope's capacity, with or without a slot, until it has
// neither intents nor a slot.
type keeper struct {
	registry *Registry
	scope    *scope
	owner    OwnerID
	kick     chan struct{} // one pending wake-up

	// Guarded by Registry.mu.
	records map[uint64]*record // by incarnation, those that are to go included
	slot    *slot
	forget  bool // the slot is to go though it might stay
	ended   chan struct{}
	attempt *record // being attached
	giveUp  context.CancelFunc
}

// record is an intent that is known.
type record struct {
	Intent
	lease  *lease
	keeper *keeper

	// Guarded by Registry.mu.
	enabled bool          // its turn has come
	removed bool          // it is to go
	failed  bool          // refused; not tried again unless registered again
	served  chan struct{} // closed once it was attached or refused
	err     error         // why it was refused
	trouble error         // what went wrong when it was detached
	gone    chan struct{} // closed when nothing of it is left
}

// live returns the intents that count, by incarnation. mu is held.
func (k *keeper) live() []*record {
	var live []*record
	for _, rec := range k.records {
		if rec.enabled && !rec.removed {
			live = append(live, rec)
		}
	}
	slices.SortFunc(live, func(a, b *record) int { return cmp.Compare(a.Incarnation, b.Incarnation) })
	return live
}

// wake makes the keeper look at what should be.
func (k *keeper) wake() {
	select {
	case k.kick <- struct{}{}:
	default: // one is pending, which will see everything
	}
}

// settled says how an intent fared. mu is held.
func (rec *record) settled(err error) {
	select {
	case <-rec.served:
	default:
		rec.err = err
		close(rec.served)
	}
	rec.failed = err != nil
}

// step is what a keeper does next.
type step uint8

const (
	stepIdle step = iota
	stepAttach
	stepClose  // withdraw the attachment and end its ingress, no more
	stepDetach // that, and clear
	stepRemove
	stepEnd
)

// run is the keeper's goroutine.
func (k *keeper) run() {
	r := k.registry
	for {
		r.mu.Lock()
		what, rec, why := k.next()
		r.mu.Unlock()
		switch what {
		case stepAttach:
			k.attach(rec)
		case stepClose:
			k.shut(why)
		case stepDetach:
			k.detach(why)
		case stepRemove:
			k.remove()
		case stepEnd:
			return
		case stepIdle:
			select {
			case <-k.kick:
			case <-r.life.Done():
				r.mu.Lock()
				k.abandon()
				r.mu.Unlock()
				return
			}
		}
	}
}

// next decides by the live intents what is to be done with the slot. mu is held.
func (k *keeper) next() (what step, rec *record, why string) {
	s, live := k.slot, k.live()
	ending := k.scope.withdrawn != nil
	if ending {
		live = nil
	}
	switch {
	case len(live) > 1:
		k.depart()
		if s != nil && s.state != Detached {
			return stepDetach, nil, (&AmbiguousError{Owner: k.owner, Incarnations: incarnations(live)}).Error()
		}
		return stepIdle, nil, ""
	case len(live) == 1:
		k.depart()
		return k.serve(s, live[0])
	case s != nil && s.state != Detached:
		return stepDetach, nil, "no intent"
	case s != nil && (ending || k.forget || !s.keeps()):
		return stepRemove, nil, ""
	}
	k.depart()
	if s == nil && len(k.records) == 0 {
		k.end()
		return stepEnd, nil, ""
	}
	return stepIdle, nil, ""
}

// serve decides for an intent that is the only one. mu is held.
func (k *keeper) serve(s *slot, rec *record) (what step, _ *record, why string) {
	switch {
	case s == nil:
	case s.serves(rec):
		rec.settled(nil)
		return stepIdle, nil, ""
	case s.flags != 0 && s.culprit == rec.Incarnation:
		// Out, as the flags say, until another incarnation comes.
		rec.settled(fmt.Errorf("%w: %s", ErrFenced, s.reason))
	case s.flags != 0 && s.state == Detached:
		return stepRemove, nil, "" // a restarted worker gets a new slot
	case s.state != Detached && (s.record != rec || !rec.failed):
		return stepDetach, nil, "to be attached anew"
	}
	switch {
	case s != nil && s.state != Detached && s.bound:
		return stepClose, nil, s.reason
	case rec.failed:
		return stepIdle, nil, ""
	}
	return stepAttach, rec, ""
}

// keeps reports whether a detached slot stays without intents: it may hold
// entries that outlive the engine.
func (s *slot) keeps() bool {
	return s.proven && s.flags == 0 && !s.source.Protocol.EngineLocal()
}

func incarnations(live []*record) []uint64 {
	all := make([]uint64, len(live))
	for i, rec := range live {
		all[i] = rec.Incarnation
	}
	return all
}

// depart lets go of removed intents that the slot does not use. mu is held.
func (k *keeper) depart() {
	for n, rec := range k.records {
		if rec.removed && (k.slot == nil || k.slot.record != rec) {
			delete(k.records, n)
			if k.scope.intents[n] == rec {
				delete(k.scope.intents, n)
			}
			rec.settled(ErrReleased)
			close(rec.gone)
		}
	}
}

// end gives the keeper's place back. mu is held.
func (k *keeper) end() {
	delete(k.scope.keepers, k.owner)
	k.registry.settleScope(k.scope)
	close(k.ended)
}

// abandon forgets everything without asking the plane: it, too, is at its end.
// mu is held.
func (k *keeper) abandon() {
	if s := k.slot; s != nil {
		k.registry.unroute(s)
		k.slot = nil
	}
	for _, rec := range k.records {
		rec.removed = true
	}
	k.depart()
	k.end()
}

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

// shut withdraws the attachment and ends its ingress; what the cache owner had
// still to say is heard if the pool outlives the engine. The state stays, or is
// quarantined.
func (k *keeper) shut(why string) {
	r := k.registry
	ctx, cancel := context.WithTimeout(r.life, r.opt.CleanupTimeout)
	defer cancel()
	k.trouble(k.shutIn(ctx, why))
}

func (k *keeper) shutIn(ctx context.Context, why string) error {
	r := k.registry
	r.mu.Lock()
	s := k.slot
	s.quarantine(why)
	generation, a, bound := s.generation, s.attachment, s.bound
	drain := CacheOwnerDomain
	if s.source.Protocol.EngineLocal() || s.flags&CacheOwnerFailed != 0 {
		drain = 0
	}
	r.touch(s)
	r.mu.Unlock()
	var failed []error
	if a != nil {
		// Not all of the time: the rest must be done, too.
		most, end := context.WithTimeout(ctx, r.opt.CleanupTimeout-min(2*r.opt.StopTimeout, r.opt.CleanupTimeout/2))
		err := r.retry(most, func() error { return r.plane.Withdraw(most, *a) })
		if end(); err != nil {
			failed = append(failed, fmt.Errorf("withdraw: %w", err))
		}
	}
	if bound {
		stop, end := context.WithTimeout(ctx, r.opt.StopTimeout)
		if err := r.plane.Stop(stop, s.source.Slot, generation, drain); err != nil {
			failed = append(failed, fmt.Errorf("stop: %w", err))
		}
		end()
	}
	r.mu.Lock()
	s.attachment, s.bound = nil, false
	r.touch(s)
	r.mu.Unlock()
	r.judge(s)
	return errors.Join(failed...)
}

// detach ends the present attachment: unready, withdrawn, stopped, cleared. It
// is bounded by the clean-up time and ends in state Detached whatever fails.
func (k *keeper) detach(why string) {
	r := k.registry
	ctx, cancel := context.WithTimeout(r.life, r.opt.CleanupTimeout)
	defer cancel()
	err := k.shutIn(ctx, why)
	r.mu.Lock()
	s := k.slot
	generation := s.generation
	cleared := WorkerDomain
	if s.source.Protocol.EngineLocal() || s.state == Fenced {
		cleared = BothDomains
	}
	r.mu.Unlock()
	_, unclear := k.barriers(ctx, generation, cleared)
	err = errors.Join(err, unclear)
	k.trouble(err)
	r.mu.Lock()
	if s.record != nil {
		s.record.trouble = errors.Join(s.record.trouble, err)
	}
	s.detached(why)
	r.touch(s)
	r.mu.Unlock()
	r.judge(s)
	r.opt.Logger.Info("detached", "scope", k.scope.host.Scope, "owner", k.owner, "generation", generation, "reason", why)
}

// trouble logs what went wrong where going on is all that can be done.
func (k *keeper) trouble(err error) {
	if err != nil {
		k.registry.opt.Logger.Warn("clean-up with trouble", "scope", k.scope.host.Scope, "owner", k.owner, "error", err)
	}
}

// remove takes the slot away; its entries go with it.
func (k *keeper) remove() {
	r := k.registry
	ctx, cancel := context.WithTimeout(r.life, r.opt.CleanupTimeout)
	defer cancel()
	r.mu.Lock()
	s := k.slot
	r.unroute(s)
	r.mu.Unlock()
	if err := r.plane.Remove(ctx, s.source.Slot); err != nil {
		r.opt.Logger.Warn("a slot was removed with trouble", "owner", k.owner, "error", err)
	}
	r.mu.Lock()
	k.scope.sockets.give(s.source.Publisher)
	k.slot, k.forget = nil, false
	others := r.claims[k.owner]
	r.touch(others...)
	r.mu.Unlock()
	r.judge(others...)
}

// retry repeats what must succeed, with a growing delay, until ctx ends.
func (r *Registry) retry(ctx context.Context, do func() error) error {
	wait := r.opt.RetryMin
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, r.opt.RetryMax)
		case <-ctx.Done():
			return fmt.Errorf("%w (given up: %w)", err, context.Cause(ctx))
		}
	}
}
