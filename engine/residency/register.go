package residency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/engine/identity"
)

// Register implements Control.
func (r *Registry) Register(ctx context.Context, reg Registration) (Lease, error) {
	if err := reg.check(); err != nil {
		return Lease{}, &RegisterError{ID: reg.ID, First: err}
	}
	reg = reg.ordered()
	for {
		if err := context.Cause(ctx); err != nil {
			return Lease{}, &RegisterError{ID: reg.ID, First: err}
		}
		r.mu.Lock()
		l, wait, err := r.admit(reg)
		known := l != nil && l.complete // a new one may be complete any moment
		r.mu.Unlock()
		switch {
		case err != nil:
			return Lease{}, &RegisterError{ID: reg.ID, First: err}
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
			}
			continue
		case known:
			return r.again(ctx, l)
		}
		return r.handOver(ctx, l)
	}
}

// maxRanks bounds global data-parallel ranks.
const maxRanks = 4096

// check refuses what contradicts itself. What fields must look like is package
// validate's.
func (reg *Registration) check() error {
	bad := func(field, value, want string) error { return &FieldError{Field: field, Value: value, Want: want} }
	switch {
	case reg.ID == "":
		return bad("id", "", "a name for this life of the worker")
	case len(reg.Intents) == 0:
		return bad("intents", "[]", "at least one global dp rank")
	}
	for i := range reg.Intents {
		n := &reg.Intents[i]
		at := fmt.Sprintf("intents[%d].", i)
		switch {
		case n.Owner == "":
			return bad(at+"cache_owner_id", "", "an owner")
		case !n.Protocol.Owned():
			return bad(at+"ingress_protocol", n.Protocol.String(), "a protocol with owned residency: one of "+strings.Join(identity.OwnedProtocols(), ", "))
		case n.Incarnation == 0 || n.Incarnation >= 1<<53:
			return bad(at+"intent_incarnation", strconv.FormatUint(n.Incarnation, 10), "1 … 2⁵³-1")
		case n.Worker.Rank >= maxRanks:
			return bad(at+"worker.rank", strconv.FormatUint(uint64(n.Worker.Rank), 10), fmt.Sprintf("0 … %d", maxRanks-1))
		case n.Model == "":
			return bad(at+"model", "", "the name that queries ask for")
		case n.BlockSize < 1:
			return bad(at+"kv_block_size", strconv.Itoa(n.BlockSize), "a number of tokens above 0")
		case len(n.Endpoints) == 0:
			return bad(at+"raw_zmq_endpoint", "", "tcp://host:port, one per TP shard")
		case len(n.Replays) != 0 && len(n.Replays) != len(n.Endpoints):
			return bad(at+"raw_replay_endpoint", strings.Join(n.Replays, ","), fmt.Sprintf("none, or one for each of the %d raw endpoints", len(n.Endpoints)))
		}
		for j := range i {
			o := &reg.Intents[j]
			switch {
			case o.Worker.Rank == n.Worker.Rank:
				return bad(at+"worker.rank", strconv.FormatUint(uint64(n.Worker.Rank), 10), fmt.Sprintf("another rank than intents[%d]", j))
			case o.Owner == n.Owner:
				return bad(at+"cache_owner_id", string(n.Owner), fmt.Sprintf("another owner than intents[%d]: one per rank", j))
			case o.Incarnation == n.Incarnation:
				return bad(at+"intent_incarnation", strconv.FormatUint(n.Incarnation, 10), fmt.Sprintf("another incarnation than intents[%d]", j))
			}
		}
	}
	return nil
}

// ordered returns a copy in the order of ranks.
func (reg Registration) ordered() Registration {
	own := make([]Intent, len(reg.Intents))
	for i := range own {
		own[i] = reg.Intents[i].clone()
	}
	slices.SortFunc(own, func(a, b Intent) int { return cmp.Compare(a.Worker.Rank, b.Worker.Rank) })
	reg.Intents = own
	return reg
}

// admit checks a registration against what is known, all its ranks before any
// counts, and gives each its place. It returns the lease, new or known; or what
// to wait for before trying again. mu is held.
func (r *Registry) admit(reg Registration) (l *lease, wait <-chan struct{}, err error) {
	if r.closed {
		return nil, nil, ErrClosed
	}
	if old := r.leases[reg.ID]; old != nil {
		if old.ending != nil { // what it was does not matter any more
			return nil, old.ended, nil
		}
		switch err := old.differs(&reg); {
		case err != nil:
			return nil, nil, err
		case !old.complete:
			return nil, old.started, nil
		}
		return old, nil, nil
	}
	s := r.scopes[reg.Scope]
	if s == nil || s.withdrawn != nil {
		return nil, nil, fmt.Errorf("%w: %q", ErrNoHost, reg.Scope)
	}
	fresh := 0 // owners without a place
	for i := range reg.Intents {
		n := &reg.Intents[i]
		wait, err := s.admits(n, reg.ID, &fresh)
		if err != nil {
			return nil, nil, &RankError{Rank: n.Worker.Rank, Owner: n.Owner, Err: err}
		}
		if wait != nil {
			return nil, wait, nil
		}
	}
	l = &lease{Registration: reg, scope: s, registered: time.Now(),
		started: make(chan struct{}), ended: make(chan struct{})}
	l.renewed = l.registered
	for _, n := range reg.Intents {
		k := s.keepers[n.Owner]
		if k == nil {
			k = &keeper{registry: r, scope: s, owner: n.Owner, kick: make(chan struct{}, 1),
				records: map[uint64]*record{}, ended: make(chan struct{})}
			s.keepers[n.Owner] = k
			defer r.work.Go(k.run) // once it has its record
		}
		rec := &record{Intent: n, lease: l, keeper: k, served: make(chan struct{}), gone: make(chan struct{})}
		k.records[n.Incarnation] = rec
		s.intents[n.Incarnation] = rec
		l.records = append(l.records, rec)
	}
	r.leases[reg.ID] = l
	s.leases++
	task, giveUp := context.WithCancelCause(r.life)
	l.giveUp = giveUp
	r.work.Go(func() { r.start(task, l) })
	return l, nil, nil
}

// admits checks one intent; fresh counts the places taken by those before it.
func (s *scope) admits(n *Intent, lease string, fresh *int) (wait <-chan struct{}, err error) {
	if n.TargetHost != s.host.Instance {
		return nil, &HostMismatchError{Scope: s.host.Scope, Have: s.host.Instance, Got: n.TargetHost}
	}
	if known := s.intents[n.Incarnation]; known != nil {
		field, have, got := changed(&known.Intent, n)
		switch {
		case field == "" && known.removed:
			return known.gone, nil
		case field == "":
			field, have, got = "registration", known.lease.ID, lease
		}
		return nil, &ChangedError{Owner: known.Owner, Incarnation: n.Incarnation, Field: field, Have: have, Got: got}
	}
	k := s.keepers[n.Owner]
	switch {
	case k == nil && len(s.keepers)+*fresh >= s.host.MaxSlots:
		s.rejected++
		return nil, &CapacityError{Scope: s.host.Scope, MaxSlots: s.host.MaxSlots, Owner: n.Owner, Rank: n.Worker.Rank}
	case k == nil:
		*fresh++
	case k.slot != nil && (k.slot.keeps() || len(k.live()) > 0) && k.slot.flags == 0:
		return nil, k.slot.source.Accepts(n)
	}
	return nil, nil
}

// differs says in what a registration differs from the one known by its id.
func (l *lease) differs(reg *Registration) error {
	if l.Scope != reg.Scope {
		return &FieldError{Field: "scope", Value: reg.Scope, Want: fmt.Sprintf("%q, where registration %q is", l.Scope, l.ID)}
	}
	for i := range min(len(l.Intents), len(reg.Intents)) {
		have, got := &l.Intents[i], &reg.Intents[i]
		if field, was, is := changed(have, got); field != "" {
			return &RankError{Rank: got.Worker.Rank, Owner: got.Owner,
				Err: &ChangedError{Owner: have.Owner, Incarnation: have.Incarnation, Field: field, Have: was, Got: is}}
		}
	}
	if len(l.Intents) != len(reg.Intents) {
		return &FieldError{Field: "intents", Value: strconv.Itoa(len(reg.Intents)) + " ranks",
			Want: fmt.Sprintf("the %d that registration %q has; another range needs another id", len(l.Intents), l.ID)}
	}
	return nil
}

// start attaches the ranks of a lease in their order. It runs apart from who
// asked for it, so that it always cleans up after itself.
func (r *Registry) start(ctx context.Context, l *lease) {
	defer l.giveUp(nil)
	var failed error
	for _, rec := range l.records {
		r.mu.Lock()
		rec.enabled = true
		if s := rec.keeper.slot; s != nil {
			r.touch(s) // it may have two claims now
		}
		rec.keeper.wake()
		r.mu.Unlock()
		if err := r.await(ctx, rec); err != nil {
			failed = &RankError{Rank: rec.Worker.Rank, Owner: rec.Owner, Err: err}
			break
		}
	}
	if failed == nil {
		if failed = r.completes(ctx, l); failed == nil {
			return
		}
	}
	e := &RegisterError{ID: l.ID, First: failed}
	if cause := context.Cause(ctx); cause != nil {
		// Cancelled first. What a step made of it is consumed; a failure of its
		// own that came late is told, but not in the first one's place.
		e.First = cause
		if !onlyEnded(failed) && !errors.Is(failed, cause) {
			e.Secondary = append(e.Secondary, failed)
		}
	}
	r.mu.Lock()
	if l.ending == nil {
		l.ending = e.First
	}
	r.mu.Unlock()
	e.Secondary = append(e.Secondary, r.undo(l)...)
	r.mu.Lock()
	l.err = e
	r.mu.Unlock()
	close(l.started)
}

// await waits until an intent is served, and bounds how long it may be one of
// several.
func (r *Registry) await(ctx context.Context, rec *record) error {
	r.mu.Lock()
	served := rec.served
	r.mu.Unlock()
	patience := time.NewTimer(max(r.opt.AmbiguityWait, 0))
	defer patience.Stop()
	for {
		select {
		case <-served:
			r.mu.Lock()
			defer r.mu.Unlock()
			return rec.err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience.C:
			r.mu.Lock()
			live := rec.keeper.live()
			r.mu.Unlock()
			if len(live) > 1 {
				return &AmbiguousError{Owner: rec.Owner, Incarnations: incarnations(live)}
			}
			patience.Reset(max(r.opt.AmbiguityWait, r.opt.RetryMin))
		}
	}
}

// completes makes a lease count: all its slots become routed in one snapshot.
func (r *Registry) completes(ctx context.Context, l *lease) error {
	at := make([]uint64, len(l.records))
	slots := make([]*slot, len(l.records))
	said := make([]PlaneStatus, len(l.records))
	r.mu.Lock()
	for i, rec := range l.records {
		if slots[i] = rec.keeper.slot; slots[i] != nil {
			at[i] = slots[i].changes
		}
	}
	r.mu.Unlock()
	for i, s := range slots {
		if s != nil {
			said[i] = r.plane.Status(s.source.Slot)
		}
	}
	r.mu.Lock()
	if err := context.Cause(ctx); err != nil {
		r.mu.Unlock()
		return err
	}
	for i, rec := range l.records {
		if s := slots[i]; s == nil || rec.keeper.slot != s || !s.serves(rec) {
			err := &RankError{Rank: rec.Worker.Rank, Owner: rec.Owner, Err: errEnded}
			if s != nil {
				err.Err = fmt.Errorf("%w: %s", errEnded, s.reason)
			}
			r.mu.Unlock()
			return err
		}
	}
	l.complete = true
	again := r.commit(slots, at, said)
	r.renew(l)
	close(l.started)
	r.mu.Unlock()
	r.judge(again...)
	r.opt.Logger.Info("registered", "lease", l.ID, "scope", l.Scope, "ranks", len(l.records))
	return nil
}

// handOver waits for a registration on behalf of its caller. If the caller goes
// away, even at the last moment, nothing is left behind.
func (r *Registry) handOver(ctx context.Context, l *lease) (Lease, error) {
	late := make(<-chan time.Time) // never, unless the caller goes away
	select {
	case <-l.started:
	case <-ctx.Done():
		r.mu.Lock()
		r.endLater(l, context.Cause(ctx))
		r.mu.Unlock()
		late = time.After(r.opt.CleanupTimeout)
	}
	// What was begun ends first: the task, then what it has made.
	select {
	case <-l.started:
	case <-late:
		return Lease{}, &RegisterError{ID: l.ID, First: context.Cause(ctx), Secondary: []error{errLate}}
	}
	r.mu.Lock()
	if l.err == nil && ctx.Err() != nil {
		r.endLater(l, context.Cause(ctx))
	}
	failed, why, public := l.err, l.ending, l.public()
	if failed == nil && why == nil {
		for _, rec := range l.records {
			if s := rec.keeper.slot; s != nil && s.record == rec {
				s.proven = true
			}
		}
	}
	r.mu.Unlock()
	switch {
	case failed != nil:
		return Lease{}, failed
	case why == nil:
		return public, nil
	}
	e := &RegisterError{ID: l.ID, First: why}
	select {
	case <-l.ended:
	case <-time.After(r.opt.CleanupTimeout):
		e.Secondary = append(e.Secondary, errLate)
	}
	return Lease{}, e
}

var errLate = errors.New("residency: not all of it was undone in time")

// again renews a lease that was registered once more, and waits until those of
// its owners that are out are attached anew. If one is not, the lease is held
// all the same.
func (r *Registry) again(ctx context.Context, l *lease) (Lease, error) {
	r.mu.Lock()
	if !l.live() {
		r.mu.Unlock()
		return Lease{}, &RegisterError{ID: l.ID, First: ErrReleased}
	}
	l.renewals++
	r.renew(l)
	for _, rec := range l.records {
		if s := rec.keeper.slot; rec.failed || s == nil || !s.serves(rec) {
			rec.failed = false
			select {
			case <-rec.served:
				rec.err, rec.served = nil, make(chan struct{})
			default: // somebody waits for it already
			}
			rec.keeper.wake()
		}
	}
	r.mu.Unlock()
	var failed error
	for _, rec := range l.records {
		if err := r.await(ctx, rec); err != nil {
			failed = &RegisterError{ID: l.ID, First: &RankError{Rank: rec.Worker.Rank, Owner: rec.Owner, Err: err}}
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return l.public(), failed
}
