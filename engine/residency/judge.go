package residency

// Facts are what a verdict about one slot rests on: what the registry believes,
// and what the plane says.
type Facts struct {
	Certain bool // the scope's records are known to be current
	Sources int  // slots that claim the owner
	Intents int  // live intents of the owner

	Source     Source
	State      State
	Flags      Flags
	Ready      bool // the attachment's ingress is open and nothing went wrong
	Live       bool // its registration is complete and its lease runs
	Proven     bool // some registration was: the slot may hold entries from then
	Attachment *Attachment
	Hint       bool // where the owner serves fetches is known

	Plane PlaneStatus
}

// Verdict is what may be done with a slot.
type Verdict struct {
	Outcome Outcome
	// Schedulable: the owner's entries count as the attached worker's own.
	Schedulable bool
	// HintReady: the owner's entries may be offered to other workers. That
	// needs no attachment: a detached durable owner goes on serving.
	HintReady bool
	// CacheOwnerReady: the owner's entries may be shown at all.
	CacheOwnerReady bool
}

// Judge gives the verdict. The first doubt in the order of its cases decides
// the outcome.
func (f *Facts) Judge() Verdict {
	v := Verdict{Outcome: f.outcome()}
	durable := !f.Source.Protocol.EngineLocal()
	v.CacheOwnerReady = f.Flags&CacheOwnerFailed == 0 && (durable || f.State == Attached && f.Ready)
	v.Schedulable = v.Outcome == Ready
	v.HintReady = v.CacheOwnerReady && f.identified() && f.Hint && !f.Plane.Behind && !f.Plane.Repairing &&
		(f.Live || durable && f.Proven) &&
		(f.Attachment == nil || f.Plane.Applied >= f.Attachment.ReadyAt)
	return v
}

func (f *Facts) outcome() Outcome {
	a := f.Attachment
	switch {
	case !f.Certain:
		return WatchUncertain
	case f.Sources > 1:
		return AmbiguousSource
	case f.Intents > 1:
		return AmbiguousAttachment
	case a == nil || !f.Ready || !f.Live || f.State != Attached || f.Flags != 0:
		return Unavailable
	case f.Plane.Generation != a.Generation || f.Plane.Worker != a.Worker:
		return StatusMismatch
	case f.Plane.Owner != f.Source.Owner || f.Plane.Record != a.Record:
		return RecoveryIdentityMismatch
	case !f.Plane.Reachable:
		return EndpointUnreachable
	case f.Plane.Applied < a.ReadyAt || f.Plane.Behind || f.Plane.Repairing:
		return RecoveryBehindBarrier
	}
	return Ready
}

// identified reports whether it is known whose entries the plane has, and that
// nobody else claims them.
func (f *Facts) identified() bool {
	switch f.outcome() {
	case WatchUncertain, AmbiguousSource, AmbiguousAttachment, StatusMismatch, RecoveryIdentityMismatch:
		return false
	}
	return f.Plane.Owner == f.Source.Owner
}
