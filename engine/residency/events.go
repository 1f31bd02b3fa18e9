package residency

import (
	"cmp"
	"slices"
)

// Fault reports that the attachment of a generation must not go on. It acts
// before it returns: a source fault has fenced both domains, and nothing of the
// slot is routed any more. The plane calls it on the goroutine of the stream
// that found the fault, before that takes another message. What an older
// generation reports is counted and ignored; it returns false then.
func (r *Registry) Fault(id SlotID, generation uint64, f Fault, reason string) bool {
	r.mu.Lock()
	s := r.slots[id]
	if s == nil || !s.current(generation) {
		r.mu.Unlock()
		return false
	}
	s.fault(f, reason)
	s.record.failed = true
	if f == FaultSource {
		s.keeper.scope.fences++
	} else {
		s.keeper.scope.quarantines++
	}
	r.touch(s)
	r.mu.Unlock()
	r.opt.Logger.Error("fault", "owner", s.source.Owner, "generation", generation, "fault", f.String(), "reason", reason)
	if f == FaultSource {
		if err := r.plane.Fence(id, generation); err != nil {
			r.opt.Logger.Error("a fence could not be applied", "owner", s.source.Owner, "error", err)
		}
	}
	s.keeper.wake()
	return true
}

// Ended reports that a listener of a generation ended, and why. The slot is
// quarantined before it returns. An older generation is counted and ignored.
func (r *Registry) Ended(id SlotID, generation uint64, why error) bool {
	r.mu.Lock()
	s := r.slots[id]
	if s == nil || !s.current(generation) {
		r.mu.Unlock()
		return false
	}
	reason := "the listener ended"
	if why != nil {
		reason += ": " + why.Error()
	}
	s.quarantine(reason)
	s.record.failed = true
	s.keeper.scope.quarantines++
	r.touch(s)
	r.mu.Unlock()
	r.opt.Logger.Warn("quarantined", "owner", s.source.Owner, "generation", generation, "reason", reason)
	r.judge(s)
	s.keeper.wake()
	return true
}

// Changed reports that the plane's status of a slot may be another than before:
// a link came or went, a repair began or ended. The verdict is new before it
// returns, and none that rests on the old status comes behind it.
func (r *Registry) Changed(id SlotID) {
	r.mu.Lock()
	s := r.slots[id]
	if s != nil {
		s.changes++
	}
	r.mu.Unlock()
	if s != nil {
		r.judge(s)
	}
}

// facts gathers what is known of a slot but for the plane's part. mu is held.
func (r *Registry) facts(s *slot) Facts {
	f := Facts{
		Certain: s.keeper.scope.doubt == nil && s.keeper.scope.withdrawn == nil,
		Sources: len(r.claims[s.source.Owner]),
		Intents: len(s.keeper.live()),
		Source:  s.source, State: s.state, Flags: s.flags, Ready: s.ready,
		Proven: s.proven, Attachment: s.attachment,
		Hint: s.hint != nil && s.hint.ControlEndpoint != "",
	}
	f.Live = s.record != nil && s.record.lease.live()
	return f
}

// touch notes that something about slots has changed, and takes away at once
// what may not be so any more: verdicts under way are void, and until a new one
// nothing is schedulable or offered. mu is held.
func (r *Registry) touch(slots ...*slot) {
	changed := make([]Route, 0, len(slots))
	for _, s := range slots {
		if r.slots[s.source.Slot] != s {
			continue
		}
		s.changes++
		f := r.facts(s)
		v := f.Judge() // without a word of the plane nothing is schedulable or offered
		if v.Outcome > AmbiguousAttachment {
			v.Outcome = Unavailable
		}
		changed = append(changed, s.routed(&f, v))
	}
	r.publish(changed, nil)
}

// judge gives slots their verdicts, all in one snapshot. The plane is asked
// without the lock; what changed meanwhile makes it ask again.
func (r *Registry) judge(slots ...*slot) {
	for len(slots) > 0 {
		at := make([]uint64, len(slots))
		r.mu.Lock()
		for i, s := range slots {
			at[i] = s.changes
		}
		r.mu.Unlock()
		said := make([]PlaneStatus, len(slots))
		for i, s := range slots {
			said[i] = r.plane.Status(s.source.Slot)
		}
		r.mu.Lock()
		slots = r.commit(slots, at, said)
		r.mu.Unlock()
	}
}

// commit publishes verdicts that were reached under the changes at, and returns
// the slots that have changed since. mu is held.
func (r *Registry) commit(slots []*slot, at []uint64, said []PlaneStatus) (again []*slot) {
	var changed []Route
	for i, s := range slots {
		switch {
		case r.slots[s.source.Slot] != s: // removed
		case s.changes != at[i]:
			again = append(again, s)
		default:
			f := r.facts(s)
			f.Plane = said[i]
			changed = append(changed, s.routed(&f, f.Judge()))
		}
	}
	r.publish(changed, nil)
	return again
}

// routed makes the route of a verdict.
func (s *slot) routed(f *Facts, v Verdict) Route {
	rt := Route{
		Slot: s.source.Slot, Owner: s.source.Owner, Model: s.source.Model, Rank: s.source.Rank,
		State: s.state, Flags: s.flags, Live: f.Live, Attached: s.attachment != nil, Generation: s.generation,
		Outcome: v.Outcome, Schedulable: v.Schedulable, HintReady: v.HintReady, CacheOwnerReady: v.CacheOwnerReady,
		Hint: s.hint,
	}
	if s.record != nil {
		rt.Worker = s.record.Worker
	}
	return rt
}

// publish shows routes that differ from those shown, and takes away those of
// gone. mu is held.
func (r *Registry) publish(changed []Route, gone []*slot) {
	changed = slices.DeleteFunc(changed, func(n Route) bool {
		old := r.slots[n.Slot].route
		return old != nil && *old == n
	})
	if len(changed) == 0 && len(gone) == 0 {
		return
	}
	r.publishes++
	old := r.routing.Load().Routes
	next := &Routing{Revision: r.publishes, Routes: make([]*Route, 0, len(old)+len(changed))}
	var ids []SlotID
	for _, s := range gone {
		ids = append(ids, s.source.Slot)
	}
	for _, rt := range old {
		replaced := slices.ContainsFunc(changed, func(n Route) bool { return n.Slot == rt.Slot })
		if !replaced && !slices.Contains(ids, rt.Slot) {
			next.Routes = append(next.Routes, rt)
		}
	}
	for i := range changed {
		rt := &changed[i]
		r.slots[rt.Slot].route = rt
		at, _ := slices.BinarySearchFunc(next.Routes, rt, func(a, b *Route) int {
			return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Slot, b.Slot))
		})
		next.Routes = slices.Insert(next.Routes, at, rt)
	}
	// Queries before the account of them: who reads here that a slot is ready,
	// or that it is not, finds every answer from then on to be so.
	r.plane.Publish(r.publishes, changed, ids)
	r.routing.Store(next)
}

// unroute takes a slot out of everything that readers and the plane's reports
// can reach. mu is held.
func (r *Registry) unroute(s *slot) {
	delete(r.slots, s.source.Slot)
	claims := slices.DeleteFunc(slices.Clone(r.claims[s.source.Owner]), func(o *slot) bool { return o == s })
	if len(claims) == 0 {
		delete(r.claims, s.source.Owner)
	} else {
		r.claims[s.source.Owner] = claims
	}
	r.publish(nil, []*slot{s})
}
