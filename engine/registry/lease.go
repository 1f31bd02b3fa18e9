package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/identity"
	"github.com/cairn-kv/cairn/engine/residency"
)

// plainLease keeps one plain worker's source. Guarded by Registrar.mu.
type plainLease struct {
	worker     Worker
	added      chan struct{} // closed once AddSource has returned
	failed     error         // what it returned
	ending     bool          // being released: the id is taken until it is gone
	registered time.Time
	renewed    time.Time
	renewals   uint64
	timer      *time.Timer // nil without an end
}

// follow registers a plain worker.
func (r *Registrar) follow(ctx context.Context, w Worker) (Lease, error) {
	if r.opt.Sources == nil {
		return Lease{}, fmt.Errorf("%w: %s", ErrUnsupported, w.Protocol)
	}
	src, err := w.source()
	if err != nil {
		return Lease{}, err
	}
	if r.ownsLease(w.ID) {
		return Lease{}, fmt.Errorf("%w: %q is a worker with owned residency", ErrTaken, w.ID)
	}
	lease := Lease{ID: w.ID, TTL: w.TTL}
	l, mine, err := r.claim(w)
	if err != nil {
		return Lease{}, err
	}
	if !mine {
		select { // the first of two equal calls does the work for both
		case <-l.added:
		case <-ctx.Done():
			return Lease{}, context.Cause(ctx)
		}
		if l.failed != nil {
			return Lease{}, l.failed
		}
		r.renewPlain(w.ID)
		return lease, nil
	}
	err = r.opt.Sources.AddSource(ctx, src)
	r.mu.Lock()
	defer r.mu.Unlock()
	l.failed = err
	close(l.added)
	if err != nil {
		delete(r.plain, w.ID)
		return Lease{}, err
	}
	r.extend(l)
	return lease, nil
}

// claim takes an id for a plain worker; mine is false if it is registered
// already, as the same worker.
func (r *Registrar) claim(w Worker) (l *plainLease, mine bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch l = r.plain[w.ID]; {
	case r.closed:
		return nil, false, residency.ErrClosed
	case l != nil && l.ending:
		return nil, false, fmt.Errorf("%w: %q is being released", ErrTaken, w.ID)
	case l != nil && !l.worker.equal(&w):
		return nil, false, fmt.Errorf("%w: %q is registered with other contents; release it, or register under another id", ErrTaken, w.ID)
	case l != nil:
		l.worker.TTL = w.TTL
		return l, false, nil
	case len(r.plain) >= r.opt.MaxPlain:
		return nil, false, fmt.Errorf("%w plain worker: all %d places are taken", ErrFull, r.opt.MaxPlain)
	}
	now := time.Now()
	l = &plainLease{worker: w, added: make(chan struct{}), registered: now, renewed: now}
	r.plain[w.ID] = l
	return l, true, nil
}

// ownsLease reports whether an id is a lease of owned residency.
func (r *Registrar) ownsLease(id string) bool {
	if r.opt.Control == nil {
		return false
	}
	for _, l := range r.opt.Control.Leases() {
		if l.ID == id {
			return true
		}
	}
	return false
}

// extend begins the lease's time anew. mu is held.
func (r *Registrar) extend(l *plainLease) {
	l.renewed = time.Now()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.worker.TTL > 0 && !r.closed {
		l.timer = time.AfterFunc(l.worker.TTL, func() { r.expire(l) })
	}
}

// expire ends a lease whose time is over, unless it was renewed meanwhile.
func (r *Registrar) expire(l *plainLease) {
	r.mu.Lock()
	id := l.worker.ID
	if r.closed || l.ending || r.plain[id] != l || time.Since(l.renewed) < l.worker.TTL {
		r.mu.Unlock()
		return
	}
	l.ending = true
	ttl := l.worker.TTL
	r.work.Add(1) // under mu, so that Close sees it
	r.mu.Unlock()
	defer r.work.Done()
	ctx, cancel := context.WithTimeout(context.Background(), cleanup)
	defer cancel()
	err := r.remove(ctx, l)
	r.counts[Expired].Add(1)
	r.opt.Logger.Warn("lease expired", "worker", id, "after", ttl, "error", err)
}

// remove takes the source of a lease that is ending out of the engine. The id
// is free once it returns, but for one whose source is still being removed in
// the background: the engine refuses that itself.
func (r *Registrar) remove(ctx context.Context, l *plainLease) error {
	err := r.opt.Sources.RemoveSource(ctx, l.worker.ID)
	if errors.Is(err, engine.ErrUnknownSource) {
		err = nil // somebody else removed it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.plain, l.worker.ID)
	return err
}

// renewPlain renews the lease of a plain worker, if there is such a one.
func (r *Registrar) renewPlain(id string) (ttl time.Duration, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.plain[id]
	if l == nil || l.ending || r.closed {
		return 0, false
	}
	select {
	case <-l.added:
		l.renewals++
		r.extend(l)
	default: // its time begins when it is added
	}
	return l.worker.TTL, true
}

// unfollow releases a plain worker, if there is such a one.
func (r *Registrar) unfollow(ctx context.Context, id string) (found bool, err error) {
	r.mu.Lock()
	l := r.plain[id]
	if l == nil || l.ending {
		r.mu.Unlock()
		return false, nil
	}
	r.mu.Unlock()
	select {
	case <-l.added:
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
	r.mu.Lock()
	if r.plain[id] != l || l.ending {
		r.mu.Unlock()
		return false, nil
	}
	l.ending = true
	if l.timer != nil {
		l.timer.Stop()
	}
	r.mu.Unlock()
	return true, r.remove(ctx, l)
}

// plainRegistrations lists the plain workers in no order.
func (r *Registrar) plainRegistrations() (all []Registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for id, l := range r.plain {
		reg := Registration{ID: id, Protocol: identity.Framework.String(), Age: now.Sub(l.registered), Idle: now.Sub(l.renewed), Renewals: l.renewals}
		select {
		case <-l.added:
			reg.Complete = !l.ending
		default:
		}
		if l.timer != nil {
			reg.Left = max(l.worker.TTL-reg.Idle, 0)
		}
		all = append(all, reg)
	}
	return all
}
