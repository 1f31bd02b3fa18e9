package residency

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Control is what may be asked of a registry: what servers and declarative
// configuration work on, and what their tests fake. *Registry implements it.
type Control interface {
	// OpenHost begins to serve a scope. Errors: *FieldError; ErrHostExists,
	// wrapped, if the scope has a host.
	OpenHost(h Host) error
	// FindHost returns the host of a scope, waiting for one as long as wait;
	// 0 looks once. ErrNoHost if there is none by then, or ctx's error.
	FindHost(ctx context.Context, scope string, wait time.Duration) (Host, error)
	// Doubt says that the records of a scope may be out of date (its watch
	// ended), or with a nil reason that they are current again. Meanwhile
	// nothing of the scope is projected; everything stays attached.
	Doubt(scope string, reason error) error
	// WithdrawHost ends a scope: its slots stop, their sources are withdrawn,
	// its registrations end. It returns when that is done, or ctx's error; the
	// rest is done in the background.
	WithdrawHost(ctx context.Context, scope string, reason error) error

	// Register attaches all ranks of a worker, in rank order, or none, and
	// returns the lease that keeps them. It returns nil error only once every
	// rank is attached and routed. If ctx ends first everything is undone; the
	// error, a *RegisterError, begins with ctx's, or names the rank and step
	// that failed before. Registering the same again renews the lease and
	// attaches again what was quarantined; if that fails, the lease stays, and
	// Lease.Out says of whom nothing is known.
	Register(ctx context.Context, reg Registration) (Lease, error)
	// Renew extends a lease by its TTL. ErrUnknownLease if it is gone.
	Renew(id string) (Lease, error)
	// Release ends a registration; it returns when its owners are detached, with
	// what went wrong meanwhile. Releasing what is gone is ErrUnknownLease.
	Release(ctx context.Context, id string) error
	// Serve registers, runs serve, and releases; it returns the first error of
	// the three as the First of a *RegisterError, nil if there is none.
	Serve(ctx context.Context, reg Registration, serve func(context.Context) error) error

	// Clear empties domains of an owner's slot as a router-level cleared event
	// does: see ParseCleared. The publisher is not told, so what it has announced
	// is not all there until the owner is attached anew.
	Clear(ctx context.Context, scope string, owner OwnerID, d Domains) error
	// Forget removes a detached owner's slot and gives its place back. ErrInUse
	// if it has live intents, ErrUnknownOwner if there is no slot.
	Forget(ctx context.Context, scope string, owner OwnerID) error

	// Routing, Slots, Hosts and Leases describe what is; Routing takes no lock.
	Routing() *Routing
	Slots() []SlotStatus   // by owner, then slot
	Hosts() []HostStatus   // by scope
	Leases() []LeaseStatus // by id
}

// ParseCleared reads the domains of a router-level cleared event, a JSON object
// such as {"domain":"worker"}: one domain if it names one, both if it has no
// such key. A domain that is null, or no string, or another word is ErrDomain:
// taken for absent it would empty both.
func ParseCleared(event []byte) (Domains, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(event, &fields); err != nil {
		return 0, fmt.Errorf("residency: cleared event: want a JSON object: %w", err)
	}
	if fields == nil { // null
		return 0, ErrDomain
	}
	raw, stated := fields["domain"]
	if !stated {
		return BothDomains, nil
	}
	switch string(raw) {
	case `"worker"`:
		return WorkerDomain, nil
	case `"cache_owner"`:
		return CacheOwnerDomain, nil
	}
	return 0, ErrDomain
}
