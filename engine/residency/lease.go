package residency

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lease is a registration: what it wants, how far it is, and when it ends.
type lease struct {
	Registration // intents in the order of ranks
	scope        *scope
	records      []*record

	// Guarded by Registry.mu.
	registered, renewed, expires time.Time
	renewals                     uint64
	complete                     bool  // all ranks are attached and routed
	ending                       error // why it ends; nil while it does not
	err                          *RegisterError
	timer                        *time.Timer

	giveUp  context.CancelCauseFunc // of the task that registers
	started chan struct{}           // closed when that task has ended
	ended   chan struct{}           // closed when nothing is left of the lease
	undone  error                   // what went wrong by then
}

// live reports whether the worker of the lease counts. mu is held.
func (l *lease) live() bool { return l.complete && l.ending == nil }

// public is what callers see of it. mu is held.
func (l *lease) public() Lease {
	p := Lease{ID: l.ID, Scope: l.Scope, Host: l.scope.host.Instance, TTL: l.TTL, Expires: l.expires}
	for _, rec := range l.records {
		p.Owners = append(p.Owners, rec.Owner)
		if s := rec.keeper.slot; s == nil || !s.serves(rec) {
			p.Out = append(p.Out, rec.Owner)
		}
	}
	return p
}

// renew starts the lease's time anew. mu is held.
func (r *Registry) renew(l *lease) {
	l.renewed = time.Now()
	if l.TTL <= 0 {
		return
	}
	l.expires = l.renewed.Add(l.TTL)
	if l.timer != nil {
		l.timer.Reset(l.TTL)
		return
	}
	l.timer = time.AfterFunc(l.TTL, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if wait := time.Until(l.expires); wait > 0 && l.ending == nil {
			l.timer.Reset(wait) // renewed while this was on its way
			return
		}
		if l.ending == nil {
			l.scope.expired++
		}
		r.endLater(l, fmt.Errorf("%w: the lease expired", ErrReleased))
	})
}

// Renew implements Control.
func (r *Registry) Renew(id string) (Lease, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.leases[id]
	if l == nil || !l.live() {
		return Lease{}, fmt.Errorf("%w: %q", ErrUnknownLease, id)
	}
	l.renewals++
	r.renew(l)
	return l.public(), nil
}

// Release implements Control.
func (r *Registry) Release(ctx context.Context, id string) error {
	r.mu.Lock()
	l := r.leases[id]
	if l == nil {
		r.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrUnknownLease, id)
	}
	r.endLater(l, ErrReleased)
	r.mu.Unlock()
	select {
	case <-l.ended:
		return l.undone
	case <-ctx.Done():
		return fmt.Errorf("residency: lease %q has not ended: %w", id, context.Cause(ctx))
	}
}

// endLater begins the end of a lease: its slots are routed no more from here
// on, the rest is done in the background. mu is held.
func (r *Registry) endLater(l *lease, why error) {
	if l.ending != nil {
		return
	}
	l.ending = why
	if l.timer != nil {
		l.timer.Stop()
	}
	select {
	case <-l.started:
	default:
		l.giveUp(why) // the task that registers undoes what it did
		return
	}
	for _, rec := range l.records {
		if s := rec.keeper.slot; s != nil && s.record == rec {
			r.touch(s)
		}
	}
	r.opt.Logger.Info("lease ends", "lease", l.ID, "reason", why)
	r.work.Go(func() { r.undo(l) })
}

// undo takes the intents of a lease away, the last one first, and forgets the
// lease. It returns what did not end in time.
func (r *Registry) undo(l *lease) []error {
	ctx, cancel := context.WithTimeout(r.life, r.opt.CleanupTimeout)
	defer cancel()
	var failed []error
	for i := len(l.records) - 1; i >= 0; i-- {
		rec := l.records[i]
		r.mu.Lock()
		rec.removed = true
		if k := rec.keeper; k.attempt == rec {
			k.giveUp()
		} else if k.slot != nil {
			r.touch(k.slot)
		}
		rec.keeper.wake()
		r.mu.Unlock()
		select {
		case <-rec.gone:
			if rec.trouble != nil { // its keeper has let go of it
				failed = append(failed, &RankError{Rank: rec.Worker.Rank, Owner: rec.Owner, Err: rec.trouble})
			}
		case <-ctx.Done():
			err := &RankError{Rank: rec.Worker.Rank, Owner: rec.Owner, Err: fmt.Errorf("was not detached: %w", context.Cause(ctx))}
			r.opt.Logger.Warn("an intent is left behind", "lease", l.ID, "error", err)
			failed = append(failed, err)
		}
	}
	r.mu.Lock()
	l.undone = errors.Join(failed...)
	delete(r.leases, l.ID)
	l.scope.leases--
	r.settleScope(l.scope)
	close(l.ended)
	r.mu.Unlock()
	return failed
}

// Serve implements Control.
func (r *Registry) Serve(ctx context.Context, reg Registration, serve func(context.Context) error) error {
	if _, err := r.Register(ctx, reg); err != nil {
		return err
	}
	serving, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	if reg.TTL > 0 {
		renewed := make(chan struct{})
		defer func() { <-renewed }()
		defer lost(nil)
		go func() {
			defer close(renewed)
			r.keep(serving, lost, reg)
		}()
	}
	first := serve(serving)
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opt.CleanupTimeout)
	defer cancel()
	err := r.Release(cleanup, reg.ID)
	switch {
	case first != nil && err != nil:
		return &RegisterError{ID: reg.ID, First: first, Secondary: []error{err}}
	case first != nil:
		return &RegisterError{ID: reg.ID, First: first}
	case err != nil:
		return &RegisterError{ID: reg.ID, First: err}
	}
	return nil
}

// keep renews a lease three times as often as it must, until ctx ends; if it is
// gone, lost tells who serves under it.
func (r *Registry) keep(ctx context.Context, lost context.CancelCauseFunc, reg Registration) {
	t := time.NewTicker(max(reg.TTL/3, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if _, err := r.Renew(reg.ID); err != nil {
				lost(err)
				return
			}
		}
	}
}

// Clear implements Control.
func (r *Registry) Clear(ctx context.Context, scope string, owner OwnerID, d Domains) error {
	if d == 0 || d&^BothDomains != 0 {
		return ErrDomain
	}
	_, s, err := r.find(scope, owner)
	if err != nil {
		return err
	}
	return r.plane.Clear(ctx, s.source.Slot, d)
}

// Forget implements Control.
func (r *Registry) Forget(ctx context.Context, scope string, owner OwnerID) error {
	k, _, err := r.find(scope, owner)
	if err != nil {
		return err
	}
	r.mu.Lock()
	if len(k.records) > 0 {
		r.mu.Unlock()
		return fmt.Errorf("%w: %q in scope %q", ErrInUse, owner, scope)
	}
	k.forget = true
	k.wake()
	r.mu.Unlock()
	select {
	case <-k.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Registry) find(scope string, owner OwnerID) (*keeper, *slot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.scopes[scope]
	if s == nil {
		return nil, nil, fmt.Errorf("%w: %q", ErrNoHost, scope)
	}
	k := s.keepers[owner]
	if k == nil || k.slot == nil {
		return nil, nil, fmt.Errorf("%w: %q in scope %q", ErrUnknownOwner, owner, scope)
	}
	return k, k.slot, nil
}

// onlyEnded reports whether an error says no more than that a context ended.
func onlyEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
