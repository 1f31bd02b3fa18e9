package residency

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
