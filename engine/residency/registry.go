package residency

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Options.
const (
	DefaultMaxSlots          = 8
	DefaultLease             = 15 * time.Second // renewed every 5 s
	DefaultCleanupTimeout    = 30 * time.Second
	DefaultStopTimeout       = 2 * time.Second
	DefaultRetryMin          = 100 * time.Millisecond
	DefaultRetryMax          = 5 * time.Second
	DefaultAmbiguityWait     = 20 * time.Second
	DefaultSlotsPerPublisher = 1
)

// Options configure a Registry. The zero value is good.
type Options struct {
	// RecordID derives the id of an attachment record. Nil: the publisher's id
	// beside the generation, which is as unique but is nobody else's.
	RecordID func(publisher, generation uint64) uint64
	// CleanupTimeout bounds every clean-up: a detach, the undoing of a
	// registration. What has not ended then is logged and left behind. 0: 30 s.
	CleanupTimeout time.Duration
	// StopTimeout is how long a listener may take to end before it is cut off.
	// 0: 2 s.
	StopTimeout time.Duration
	// RetryMin and RetryMax bound the doubling delay between two attempts to
	// withdraw a record, which are given up in time to do the rest of a clean-up. 0: 100 ms and 5 s.
	RetryMin, RetryMax time.Duration
	// AmbiguityWait is how long a registration waits for its owner to be claimed
	// by it alone, such as a restarted worker for the lease of its former life.
	// 0: 20 s, negative: not at all.
	AmbiguityWait time.Duration
	// SlotsPerPublisher is how many slots share one publisher socket. What
	// upstream does is not known. 0: 1.
	SlotsPerPublisher int
	// Logger gets what happens to slots. Nil: no log.
	Logger *slog.Logger
}

// Registry is the control plane of all scopes of a process. See the package
// comment.
type Registry struct {
	plane   Plane
	opt     Options
	routing atomic.Pointer[Routing]

	mu        sync.Mutex // never held while anything is waited for
	closed    bool
	scopes    map[string]*scope
	opened    chan struct{} // closed and replaced when a host is opened
	leases    map[string]*lease
	slots     map[SlotID]*slot
	claims    map[OwnerID][]*slot // slots by owner: more than one is ambiguous
	lastSlot  SlotID
	lastPub   uint64
	publishes uint64 // revision of the routing

	// life ends when nothing may wait any more; attempts end with it, too, but
	// are given up before clean-ups are.
	life context.Context
	kill context.CancelFunc
	work sync.WaitGroup // keepers, registrations, expiries
}

var _ Control = (*Registry)(nil)

// scope is one control scope and its host.
type scope struct {
	host                          Host
	doubt                         error
	withdrawn                     error               // why it ended; nil while it serves
	keepers                       map[OwnerID]*keeper // each takes one slot
	intents                       map[uint64]*record  // by incarnation
	sockets                       publishers
	rejected, expired             uint64
	attaches, fences, quarantines uint64
	leases                        int
	empty                         chan struct{} // closed when it is withdrawn and nothing of it is left
}

// New makes a registry without scopes.
func New(p Plane, o Options) *Registry {
	for _, d := range []struct {
		v *time.Duration
		n time.Duration
	}{
		{&o.CleanupTimeout, DefaultCleanupTimeout}, {&o.StopTimeout, DefaultStopTimeout},
		{&o.RetryMin, DefaultRetryMin}, {&o.RetryMax, DefaultRetryMax}, {&o.AmbiguityWait, DefaultAmbiguityWait},
	} {
		if *d.v == 0 {
			*d.v = d.n
		}
	}
	if o.SlotsPerPublisher < 1 {
		o.SlotsPerPublisher = DefaultSlotsPerPublisher
	}
	if o.RecordID == nil {
		o.RecordID = func(publisher, generation uint64) uint64 { return publisher<<32 | generation&(1<<32-1) }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{
		plane: p, opt: o,
		scopes: map[string]*scope{}, leases: map[string]*lease{},
		slots: map[SlotID]*slot{}, claims: map[OwnerID][]*slot{},
		opened: make(chan struct{}),
	}
	r.life, r.kill = context.WithCancel(context.Background())
	r.routing.Store(&Routing{})
	return r
}

// OpenHost implements Control.
func (r *Registry) OpenHost(h Host) error {
	if h.MaxSlots == 0 {
		h.MaxSlots = DefaultMaxSlots
	}
	switch {
	case h.Scope == "":
		return &FieldError{Field: "scope", Value: "", Want: "a name"}
	case h.Instance == 0:
		return &FieldError{Field: "host_instance", Value: "0", Want: "a number above 0, another for every start"}
	case h.MaxSlots < 0:
		return &FieldError{Field: "max_slots", Value: strconv.Itoa(h.MaxSlots), Want: "at least 1"}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	if s := r.scopes[h.Scope]; s != nil {
		return fmt.Errorf("%w: scope %q is served by host %d, host %d cannot serve it too", ErrHostExists, h.Scope, s.host.Instance, h.Instance)
	}
	r.scopes[h.Scope] = &scope{
		host: h, keepers: map[OwnerID]*keeper{}, intents: map[uint64]*record{},
		sockets: publishers{perSocket: r.opt.SlotsPerPublisher}, empty: make(chan struct{}),
	}
	close(r.opened)
	r.opened = make(chan struct{})
	r.opt.Logger.Info("host opened", "scope", h.Scope, "instance", h.Instance, "max_slots", h.MaxSlots)
	return nil
}

// FindHost implements Control.
func (r *Registry) FindHost(ctx context.Context, name string, wait time.Duration) (Host, error) {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		s, opened, closed := r.scopes[name], r.opened, r.closed
		r.mu.Unlock()
		switch {
		case closed:
			return Host{}, ErrClosed
		case s != nil && s.withdrawn == nil:
			return s.host, nil
		case wait <= 0:
			return Host{}, fmt.Errorf("%w: %q", ErrNoHost, name)
		}
		select {
		case <-opened:
		case <-timeout.C:
			return Host{}, fmt.Errorf("%w: %q, waited %v", ErrNoHost, name, wait)
		case <-ctx.Done():
			return Host{}, context.Cause(ctx)
		}
	}
}

// Doubt implements Control.
func (r *Registry) Doubt(name string, reason error) error {
	r.mu.Lock()
	s := r.scopes[name]
	if s == nil || s.withdrawn != nil {
		r.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrNoHost, name)
	}
	s.doubt = reason
	touched := s.slots()
	r.touch(touched...)
	r.mu.Unlock()
	r.judge(touched...)
	return nil
}

// WithdrawHost implements Control.
func (r *Registry) WithdrawHost(ctx context.Context, name string, reason error) error {
	r.mu.Lock()
	s := r.scopes[name]
	if s == nil {
		r.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrNoHost, name)
	}
	r.withdraw(s, reason)
	r.mu.Unlock()
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("residency: scope %q has not ended: %w", name, context.Cause(ctx))
	}
}

// withdraw begins the end of a scope: nothing of it is routed from here on. mu
// is held.
func (r *Registry) withdraw(s *scope, reason error) {
	if s.withdrawn != nil {
		return
	}
	s.withdrawn = ErrHostWithdrawn
	if reason != nil {
		s.withdrawn = fmt.Errorf("%w: %w", ErrHostWithdrawn, reason)
	}
	r.opt.Logger.Info("host withdrawn", "scope", s.host.Scope, "instance", s.host.Instance, "reason", reason)
	r.touch(s.slots()...)
	for _, l := range r.leases {
		if l.scope == s {
			r.endLater(l, s.withdrawn)
		}
	}
	for _, k := range s.keepers {
		k.wake()
	}
	r.settleScope(s)
}

// settleScope forgets a withdrawn scope of which nothing is left. mu is held.
func (r *Registry) settleScope(s *scope) {
	if s.withdrawn != nil && len(s.keepers) == 0 && s.leases == 0 && r.scopes[s.host.Scope] == s {
		delete(r.scopes, s.host.Scope)
		close(s.empty)
	}
}

// slots returns the scope's slots in no order. mu is held.
func (s *scope) slots() []*slot {
	var all []*slot
	for _, k := range s.keepers {
		if k.slot != nil {
			all = append(all, k.slot)
		}
	}
	return all
}

// Close ends all scopes as WithdrawHost does and stops every goroutine. It is
// idempotent and bounded by ctx: what has not ended by then is cut off, and the
// error says so.
func (r *Registry) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	for _, s := range r.scopes {
		r.withdraw(s, ErrClosed)
	}
	close(r.opened)
	r.opened = make(chan struct{})
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		r.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		r.kill()
		return nil
	case <-ctx.Done():
	}
	r.kill()
	select {
	case <-done: // clean-ups end with life
	case <-time.After(r.opt.StopTimeout):
	}
	return fmt.Errorf("residency: slots were cut off: %w", context.Cause(ctx))
}

// Routing implements Control.
func (r *Registry) Routing() *Routing { return r.routing.Load() }

// Slots implements Control.
func (r *Registry) Slots() []SlotStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	all := make([]SlotStatus, 0, len(r.slots))
	for _, s := range r.slots {
		st := SlotStatus{Source: s.source, Reason: s.reason, Since: s.since, Attachment: copied(s.attachment),
			Failed: s.failed(), Attaches: s.attaches, StaleReports: s.stale}
		if s.route != nil {
			st.Route = *s.route
		}
		for _, rec := range s.keeper.live() {
			st.Intents = append(st.Intents, rec.Incarnation)
		}
		if s.record != nil {
			st.Lease, st.LeaseAge = s.record.lease.ID, now.Sub(s.record.lease.renewed)
		}
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b SlotStatus) int {
		return cmp.Or(cmp.Compare(a.Source.Owner, b.Source.Owner), cmp.Compare(a.Source.Slot, b.Source.Slot))
	})
	return all
}

// failed reports whether there are live intents that the slot cannot serve. mu
// is held.
func (s *slot) failed() bool {
	live := s.keeper.live()
	return len(live) > 1 || s.flags != 0 || s.state == Quarantined || len(live) == 1 && live[0].failed
}

// Hosts implements Control.
func (r *Registry) Hosts() []HostStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []HostStatus
	for _, name := range slices.Sorted(maps.Keys(r.scopes)) {
		s := r.scopes[name]
		st := HostStatus{Host: s.host, Healthy: s.doubt == nil && s.withdrawn == nil,
			Publishers: s.sockets.open(), CapacityRejected: s.rejected,
			Attaches: s.attaches, Fences: s.fences, Quarantines: s.quarantines, Expired: s.expired}
		for _, err := range []error{s.doubt, s.withdrawn} {
			if err != nil {
				st.Error = err.Error()
			}
		}
		for _, sl := range s.slots() {
			st.Total++
			switch {
			case sl.failed():
				st.Failed++
			case sl.state == Attached:
				st.Active++
			default:
				st.Detached++
			}
		}
		all = append(all, st)
	}
	return all
}

// Leases implements Control.
func (r *Registry) Leases() []LeaseStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	var all []LeaseStatus
	for _, id := range slices.Sorted(maps.Keys(r.leases)) {
		l := r.leases[id]
		all = append(all, LeaseStatus{Lease: l.public(), Complete: l.complete,
			Age: now.Sub(l.registered), Idle: now.Sub(l.renewed), Renewals: l.renewals})
	}
	return all
}
