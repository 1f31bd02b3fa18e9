package hint

// Reason says why there is no hint. The zero value means there is one.
type Reason uint8

const (
	Hinted          Reason = iota // a hint was made
	NotAdmitted                   // the call asks, it does not route
	NoCapableWorker               // no worker of the model may take part
	IndexNotLocal                 // the index is not event driven and local
	TargetIncapable               // the target is unknown or declares no role
	NoLongerSource                // nobody beats the target's own depth
	Ineligible                    // somebody does, none may serve: see Detail
	PolicySkip                    // a policy hook declined
	Cost                          // recomputing is cheaper than the transfer
	NumReasons
)

var reasonNames = [NumReasons]string{"", "not_admitted", "no_capable_worker", "index_not_local",
	"target_incapable", "no_longer_source", "ineligible", "policy_skip", "cost"}

// String returns the reason as it stands in answers and metrics, "" for Hinted.
func (r Reason) String() string {
	if r < NumReasons {
		return reasonNames[r]
	}
	return "unknown"
}

// Detail says what kept the longest source of an Ineligible decision from
// serving. It is NoDetail for every other reason.
type Detail uint8

const (
	NoDetail         Detail = iota
	DetailRole              // another worker type than the target's
	DetailEndpoint          // no control endpoint
	DetailSelf              // it is the target, or the target's own cache owner
	DetailStateAgent        // a worker whose blocks the cache library does not hold
	NumDetails
)

var detailNames = [NumDetails]string{"", "role", "endpoint", "self", "state_agent"}

// String returns the detail as it stands in answers and metrics.
func (d Detail) String() string {
	if d < NumDetails {
		return detailNames[d]
	}
	return "unknown"
}

// Note is a remark on a decision that is not its reason.
type Note uint8

const (
	NoNote      Note = iota
	CostUnknown      // costs are on, but a source's coefficients are unknown: length decided
	NumNotes
)

var noteNames = [NumNotes]string{"", "cost_unknown"}

// String returns the note as it stands in answers and metrics.
func (n Note) String() string {
	if n < NumNotes {
		return noteNames[n]
	}
	return "unknown"
}
