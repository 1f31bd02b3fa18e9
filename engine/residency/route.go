package residency

// Outcome says whether an owner's attachment may be used.
type Outcome uint8

const (
	// Ready: the owner's entries are projected on its worker.
	Ready Outcome = iota
	// Unavailable: it is known that there is nothing to project.
	Unavailable
	// WatchUncertain: the scope's host does not know whether its records are
	// current.
	WatchUncertain
	// AmbiguousSource: two slots claim the owner.
	AmbiguousSource
	// AmbiguousAttachment: more than one live intent claims the owner.
	AmbiguousAttachment
	// EndpointUnreachable: there is no link to the raw stream.
	EndpointUnreachable
	// StatusMismatch: the plane serves another worker or generation than the
	// slot believes.
	StatusMismatch
	// RecoveryIdentityMismatch: the plane's entries are another owner's or
	// another attachment record's.
	RecoveryIdentityMismatch
	// RecoveryBehindBarrier: the barrier of the attachment is not applied, or a
	// repair hides both domains until its end is.
	RecoveryBehindBarrier
	// NumOutcomes is the number of outcomes.
	NumOutcomes
)

var outcomeNames = [NumOutcomes]string{"ready", "unavailable", "watch_uncertain", "ambiguous_source", "ambiguous_attachment",
	"endpoint_unreachable", "status_mismatch", "recovery_identity_mismatch", "recovery_behind_barrier"}

// String returns the outcome as it stands in answers and metrics.
func (o Outcome) String() string {
	if o < NumOutcomes {
		return outcomeNames[o]
	}
	return "unknown"
}

// Unknown reports whether the truth is not known. An unknown owner is not
// projected, but keeps its entries.
func (o Outcome) Unknown() bool { return o > Unavailable }

// Route is what readers may do with one slot. It is immutable.
type Route struct {
	Slot  SlotID
	Owner OwnerID
	Model string
	Rank  uint32
	State State
	Flags Flags
	// Live: the registration of the attached worker is complete and its lease
	// runs. Before, nothing of the attachment is in any answer.
	Live bool
	// Worker is who is attached, or was until the fault that ended it; zero if
	// nobody (Generation is then that of the last attachment).
	Worker     Worker
	Attached   bool
	Generation uint64
	// Outcome, Schedulable and HintReady are the verdict: Schedulable if the
	// owner's entries count as the worker's own, HintReady if they may be offered
	// to others.
	Outcome     Outcome
	Schedulable bool
	HintReady   bool
	// CacheOwnerReady: the owner's entries may be shown at all.
	CacheOwnerReady bool
	Hint            *HintSource
}

// Routing is a snapshot of all routes. It is immutable; one pointer is one
// consistent picture.
type Routing struct {
	Revision uint64
	Routes   []*Route // by owner, then slot
}
