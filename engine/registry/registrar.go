package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/identity"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/engine/validate"
)

// Sources is the part of *engine.Engine that plain workers stand on.
type Sources interface {
	AddSource(ctx context.Context, s engine.Source) error
	RemoveSource(ctx context.Context, id string) error
}

// Options configure a Registrar. At least one of Control and Sources is
// required; workers that need the other are refused with ErrUnsupported.
type Options struct {
	// Control keeps the owners of workers with owned residency.
	Control residency.Control
	// Sources follows plain workers.
	Sources Sources
	// MaxSlots bounds the slots of a control scope that is opened here. 0 means
	// residency.DefaultMaxSlots.
	MaxSlots int
	// MaxScopes bounds the control scopes that have a host at a time. 0 means
	// DefaultMaxScopes. Beyond it, hosts without slots are withdrawn.
	MaxScopes int
	// MaxPlain bounds the plain workers registered at a time. 0 means
	// DefaultMaxPlain.
	MaxPlain int
	// Logger gets what no caller can be told. Nil: no log.
	Logger *slog.Logger
}

// Defaults of Options.
const (
	DefaultMaxScopes = 1024
	DefaultMaxPlain  = 4096
)

// cleanup bounds what is done behind a caller's back.
const cleanup = 30 * time.Second

// Errors of a Registrar, beside those of package residency.
var (
	// ErrUnsupported: this process follows no workers of that kind.
	ErrUnsupported = errors.New("registry: workers of this kind are not followed here")
	// ErrTaken: the id belongs to another worker.
	ErrTaken = errors.New("registry: the id belongs to another worker")
	// ErrFull: a limit on registrations is reached.
	ErrFull = errors.New("registry: no room for another")
)

// Registrar registers workers. Make one with New.
type Registrar struct {
	opt Options

	opening sync.Mutex // of hosts, one after the other; never held by anything else

	mu     sync.Mutex // guards what follows; held while nothing is waited for
	plain  map[string]*plainLease
	lives  map[string][]uint64 // incarnations that owned workers registered with last
	closed bool
	work   sync.WaitGroup // expiries

	counts [numOutcomes]atomic.Uint64
}

// Outcome is how a call to the registry ended, for counting.
type Outcome uint8

// The outcomes.
const (
	Registered Outcome = iota // registered, or registered again, which renews
	Refused                   // what was given cannot be right
	Conflicted                // it contradicts what is registered
	Failed                    // it could not be carried out
	Renewed
	Released
	Expired // leases of plain workers; those of owners are counted by their host
	numOutcomes
)

var outcomeNames = [numOutcomes]string{"registered", "refused", "conflicted", "failed", "renewed", "released", "expired"}

// String names the outcome as metrics do.
func (o Outcome) String() string { return outcomeNames[o] }

// Outcomes lists all outcomes.
func Outcomes() []Outcome {
	all := make([]Outcome, numOutcomes)
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// Count is how often calls ended so.
func (r *Registrar) Count(o Outcome) uint64 { return r.counts[o].Load() }

// New makes a Registrar without registrations.
func New(o Options) (*Registrar, error) {
	if o.Control == nil && o.Sources == nil {
		return nil, errors.New("registry: Options has neither Control nor Sources")
	}
	if o.MaxScopes == 0 {
		o.MaxScopes = DefaultMaxScopes
	}
	if o.MaxPlain == 0 {
		o.MaxPlain = DefaultMaxPlain
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Registrar{opt: o, plain: map[string]*plainLease{}, lives: map[string][]uint64{}}, nil
}

// Lease is what a registration holds.
type Lease struct {
	ID  string
	TTL time.Duration // 0: until it is released
	// Scope and Host are the control scope, 32 hex digits, and the incarnation of
	// its host; "" and 0 for plain workers.
	Scope string
	Host  uint64
	// Owners are the worker's cache owners in the order of ranks.
	Owners []residency.OwnerID
	// Out are those of them that are not attached and ready now. Registering the
	// same again attaches a quarantined one anew; a fenced one comes back with
	// another life of the worker.
	Out []residency.OwnerID
}

// Register registers a worker, all of its ranks or none; the same worker again
// renews its lease. An owned worker that comes with other incarnations for all
// of its ranks is another life of the engine: if both are under leases that end,
// it takes the place of the former one, whose lease may have some time left
// after a crash. It returns once every rank is attached; if ctx ends before,
// everything is undone and the error begins with ctx's. Errors: validate.Errors
// for what cannot be right; ErrUnsupported; ErrTaken, ErrFull,
// engine.ErrSourceExists; for owned workers those of residency.Control.Register.
// The registrar keeps a copy of w.
func (r *Registrar) Register(ctx context.Context, w Worker) (Lease, error) {
	l, err := r.register(ctx, w.clone(), &w)
	r.counts[outcomeOf(err)].Add(1)
	return l, err
}

func (r *Registrar) register(ctx context.Context, w Worker, given *Worker) (Lease, error) {
	if err := given.check(); err != nil {
		return Lease{}, err
	}
	if !w.Protocol.Owned() {
		return r.follow(ctx, w)
	}
	if r.opt.Control == nil {
		return Lease{}, fmt.Errorf("%w: %s", ErrUnsupported, w.Protocol)
	}
	r.mu.Lock()
	_, taken := r.plain[w.ID]
	r.mu.Unlock()
	if taken {
		return Lease{}, fmt.Errorf("%w: %q is a plain worker", ErrTaken, w.ID)
	}
	scope := w.Ranks[0].Owner.Scope
	h, err := r.host(ctx, fmt.Sprintf("%x", scope))
	if err != nil {
		return Lease{}, err
	}
	if err := w.admit(h, scope); err != nil {
		return Lease{}, err
	}
	if r.another(&w) && w.TTL > 0 && r.leased(w.ID) {
		if err := r.replaceable(&w, h); err != nil {
			return Lease{}, err
		}
	}
	if r.begin(&w) && w.TTL > 0 && r.leased(w.ID) {
		r.opt.Logger.Warn("another life of a worker takes its place", "worker", w.ID)
		if err := r.opt.Control.Release(ctx, w.ID); err != nil && !errors.Is(err, residency.ErrUnknownLease) {
			return Lease{}, err
		}
	}
	l, err := r.opt.Control.Register(ctx, residency.Registration{ID: w.ID, Scope: h.Scope, TTL: w.TTL, Intents: w.intents(h)})
	if err != nil {
		return Lease{}, err
	}
	return Lease{ID: w.ID, TTL: w.TTL, Scope: h.Scope, Host: h.Instance, Owners: l.Owners, Out: l.Out}, nil
}

// another reports whether an owned worker comes with incarnations that are all
// new to a worker of that id. Else it is the same life, and what else has changed
// is for the registry to judge.
func (r *Registrar) another(w *Worker) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.lives[w.ID]
	return known && !slices.ContainsFunc(w.Ranks, func(n Rank) bool { return slices.Contains(old, n.Incarnation) })
}

// begin notes the incarnations of another life of an owned worker, and reports
// whether it is one: of several equal calls, the first is told so.
func (r *Registrar) begin(w *Worker) (another bool) {
	now := make([]uint64, len(w.Ranks))
	for i := range w.Ranks {
		now[i] = w.Ranks[i].Incarnation
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.lives[w.ID]
	if slices.ContainsFunc(now, func(n uint64) bool { return slices.Contains(old, n) }) {
		return false
	}
	if len(r.lives) >= maxLives {
		r.prune()
	}
	r.lives[w.ID] = now
	return known
}

// leased reports whether an owned worker is registered under a lease that ends.
// Registrations without an end belong to a file or a program, which take them
// back themselves.
func (r *Registrar) leased(id string) bool {
	for _, l := range r.opt.Control.Leases() {
		if l.ID == id {
			return !l.Expires.IsZero()
		}
	}
	return false
}

// maxLives is how many lives are noted before those that are over are forgotten.
const maxLives = 1024

// prune forgets the lives of workers that are registered no more. mu is held.
func (r *Registrar) prune() {
	held := map[string]bool{}
	for _, l := range r.opt.Control.Leases() {
		held[l.ID] = true
	}
	maps.DeleteFunc(r.lives, func(id string, _ []uint64) bool { return !held[id] })
}

// outcomeOf sorts an error for the counters.
func outcomeOf(err error) Outcome {
	var bad validate.Errors
	switch {
	case err == nil:
		return Registered
	case errors.As(err, &bad), errors.Is(err, ErrUnsupported):
		return Refused
	case Conflict(err):
		return Conflicted
	}
	return Failed
}

// Conflict reports whether an error says that what was asked contradicts what
// is registered, so that the same call may succeed once that is gone.
func Conflict(err error) bool {
	var (
		capacity  *residency.CapacityError
		changed   *residency.ChangedError
		immutable *residency.ImmutableError
		ambiguous *residency.AmbiguousError
		host      *residency.HostMismatchError
		field     *residency.FieldError // of what is registered: ours were found before
	)
	for _, target := range []any{&capacity, &changed, &immutable, &ambiguous, &host, &field} {
		if errors.As(err, target) {
			return true
		}
	}
	for _, target := range []error{ErrTaken, ErrFull, engine.ErrSourceExists, residency.ErrFenced, residency.ErrInUse, residency.ErrReleased} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// host finds the host of a scope, and opens one if there is none.
func (r *Registrar) host(ctx context.Context, scope string) (residency.Host, error) {
	c := r.opt.Control
	h, err := c.FindHost(ctx, scope, 0)
	if !errors.Is(err, residency.ErrNoHost) {
		return h, err
	}
	r.opening.Lock()
	defer r.opening.Unlock()
	if h, err = c.FindHost(ctx, scope, 0); !errors.Is(err, residency.ErrNoHost) {
		return h, err
	}
	if err := r.makeRoom(ctx); err != nil {
		return residency.Host{}, err
	}
	err = c.OpenHost(residency.Host{Scope: scope, Instance: identity.NewIncarnation(), MaxSlots: r.opt.MaxSlots})
	if err != nil && !errors.Is(err, residency.ErrHostExists) {
		return residency.Host{}, err
	}
	return c.FindHost(ctx, scope, 0)
}

// makeRoom withdraws the hosts that supervise nothing once there are too many.
func (r *Registrar) makeRoom(ctx context.Context) error {
	hosts := r.opt.Control.Hosts()
	if len(hosts) < r.opt.MaxScopes {
		return nil
	}
	held := map[string]bool{}
	for _, l := range r.opt.Control.Leases() {
		held[l.Scope] = true
	}
	room := false
	for i := range hosts {
		if h := &hosts[i]; h.Total == 0 && !held[h.Scope] {
			err := r.opt.Control.WithdrawHost(ctx, h.Scope, errors.New("its room is needed for another scope"))
			room = room || err == nil
		}
	}
	if !room {
		return fmt.Errorf("%w control scope: all %d have slots", ErrFull, len(hosts))
	}
	return nil
}

// Renew extends a lease by its TTL, and says which of its owners are out:
// residency.ErrUnknownLease if it is gone. It attaches nothing; Register does.
func (r *Registrar) Renew(id string) (Lease, error) {
	l, err := r.renew(id)
	if err == nil {
		r.counts[Renewed].Add(1)
	}
	return l, err
}

func (r *Registrar) renew(id string) (Lease, error) {
	if ttl, found := r.renewPlain(id); found {
		return Lease{ID: id, TTL: ttl}, nil
	}
	if r.opt.Control == nil {
		return Lease{}, fmt.Errorf("%w: %q", residency.ErrUnknownLease, id)
	}
	l, err := r.opt.Control.Renew(id)
	if err != nil {
		return Lease{}, err
	}
	return Lease{ID: id, TTL: l.TTL, Scope: l.Scope, Host: l.Host, Owners: l.Owners, Out: l.Out}, nil
}

// Release ends a registration and returns when its owners are detached and its
// streams have ended, or with ctx's error. residency.ErrUnknownLease if it is
// gone.
func (r *Registrar) Release(ctx context.Context, id string) error {
	found, err := r.unfollow(ctx, id)
	switch {
	case found:
	case r.opt.Control == nil:
		err = fmt.Errorf("%w: %q", residency.ErrUnknownLease, id)
	default:
		err = r.opt.Control.Release(ctx, id)
	}
	if err == nil {
		r.counts[Released].Add(1)
	}
	return err
}

// Registration describes one worker that is registered now.
type Registration struct {
	ID       string
	Protocol string // "" while the first rank of an owned worker is being attached
	Scope    string // "" for plain workers
	Owners   []residency.OwnerID
	Out      []residency.OwnerID // of these, not attached and ready now
	// Complete: every rank is attached. Plain workers always are.
	Complete bool
	// Left is what is left of the lease; 0 without an end.
	Left time.Duration
	// Age is the time since it registered, Idle since its last renewal.
	Age, Idle time.Duration
	Renewals  uint64
}

// Registrations lists everything that is registered, by id.
func (r *Registrar) Registrations() []Registration {
	all := r.plainRegistrations()
	if r.opt.Control != nil {
		now := time.Now()
		protocols := map[string]string{}
		for _, s := range r.opt.Control.Slots() {
			protocols[s.Lease] = s.Protocol.String()
		}
		for _, l := range r.opt.Control.Leases() {
			reg := Registration{ID: l.ID, Protocol: protocols[l.ID], Scope: l.Scope, Owners: l.Owners, Out: l.Out, Complete: l.Complete, Age: l.Age, Idle: l.Idle, Renewals: l.Renewals}
			if !l.Expires.IsZero() {
				reg.Left = max(l.Expires.Sub(now), 0)
			}
			all = append(all, reg)
		}
	}
	slices.SortFunc(all, func(a, b Registration) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Control is what keeps the owners; nil if there is none.
func (r *Registrar) Control() residency.Control { return r.opt.Control }

// Close forgets the leases of plain workers, whose sources stay, and waits for
// expiries under way. It is idempotent and bounded by ctx.
func (r *Registrar) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	for _, l := range r.plain {
		if l.timer != nil {
			l.timer.Stop()
		}
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		r.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("registry: expiries under way: %w", context.Cause(ctx))
	}
}
