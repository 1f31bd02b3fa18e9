package residency

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
		return stepDetach, nil, s.left()
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

// left says why nobody wants the slot attached any more. mu is held.
func (s *slot) left() string {
	if s.record != nil && s.record.lease.ending != nil {
		return inner(s.record.lease.ending)
	}
	return "no intent"
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
