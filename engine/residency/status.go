package residency

import "time"

// State is where a slot is in its life.
type State uint8

const (
	// Detached: nobody is attached.
	Detached State = iota
	// Attached: a worker's stream is bound to the slot.
	Attached
	// Quarantined: the listener ended, or a clear could not be applied. Another
	// attach recovers it, unless a flag stuck.
	Quarantined
	// Fenced: out until the worker restarts.
	Fenced
	// NumStates is the number of states.
	NumStates
)

var stateNames = [NumStates]string{"detached", "attached", "quarantined", "fenced"}

// String returns the state as it stands in answers and metrics.
func (s State) String() string {
	if s < NumStates {
		return stateNames[s]
	}
	return "unknown"
}

// Flags are what sticks to a slot until it is built anew.
type Flags uint8

const (
	// WorkerFailed refuses every attach.
	WorkerFailed Flags = 1 << iota
	// CacheOwnerFailed: nothing of the owner is shown.
	CacheOwnerFailed
	// SourceFailed: the slot was fenced.
	SourceFailed
)

// String lists the flags, divided by commas: worker_failed,cache_owner_failed,source_failed.
func (f Flags) String() string {
	s := ""
	for _, n := range []struct {
		f    Flags
		name string
	}{{WorkerFailed, "worker_failed"}, {CacheOwnerFailed, "cache_owner_failed"}, {SourceFailed, "source_failed"}} {
		if f&n.f != 0 {
			if s != "" {
				s += ","
			}
			s += n.name
		}
	}
	return s
}

// SlotStatus describes a slot as it is now.
type SlotStatus struct {
	Source
	Route
	// Intents are the incarnations of the owner's live intents, ascending.
	Intents []uint64
	// Attachment is the present one; nil if there is none.
	Attachment *Attachment
	// Reason says why the slot is not attached and ready, with Since when.
	Reason string
	Since  time.Time
	// Failed: the live intents cannot be served (ambiguous, refused).
	Failed bool
	// Lease is that of the attached registration, "" if none; LeaseAge is the
	// time since its last renewal.
	Lease    string
	LeaseAge time.Duration
	// Attaches counts generations that became ready, StaleReports what older
	// generations reported.
	Attaches     uint64
	StaleReports uint64
}

// HostStatus describes the host of one scope.
type HostStatus struct {
	Host
	// Healthy: the host knows that its records are current; Error says why not.
	Healthy bool
	Error   string
	// Slots of the scope: all, and by condition. Failed ones are those whose
	// intents cannot be served, fenced and quarantined ones included.
	Total, Active, Detached, Failed int
	// Publishers are the sockets that slots are counted on.
	Publishers int
	// CapacityRejected counts owners that found no free slot.
	CapacityRejected uint64
	// Attaches counts generations that became ready, Fences and Quarantines what
	// ended them other than a detach.
	Attaches, Fences, Quarantines uint64
	// Expired counts leases that nobody renewed in time.
	Expired uint64
}

// LeaseStatus describes one registration.
type LeaseStatus struct {
	Lease
	// Complete: all ranks are attached and the registration was handed over.
	Complete bool
	// Age is the time since it was registered, Idle that since its last renewal.
	Age, Idle time.Duration
	Renewals  uint64
}
