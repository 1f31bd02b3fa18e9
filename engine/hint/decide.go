package hint

import "bytes"

// Domain is the residency domain of a candidate.
type Domain uint8

const (
	// Worker is the framework's own cache: device blocks and host copies.
	Worker Domain = iota
	// CacheOwner is the pool of the in-engine cache library, which outlives
	// the worker's copies and is evicted independently of them.
	CacheOwner
)

// String returns the name used on every surface: worker or cache_owner.
func (d Domain) String() string {
	if d == CacheOwner {
		return "cache_owner"
	}
	return "worker"
}

// Role is the worker type that a hint-capable source declares. Hints are only
// exchanged between equal roles.
type Role uint8

const (
	NotCapable Role = iota // declares no type: neither target nor source
	Aggregated
	Prefill
	Decode
)

// Roles are the accepted spellings, for error texts.
const Roles = "aggregated (or agg), prefill, decode"

// ParseRole reads a declared worker type. The empty string is NotCapable; ok
// is false for a word that is none of Roles.
func ParseRole(s string) (r Role, ok bool) {
	switch s {
	case "":
		return NotCapable, true
	case "aggregated", "agg":
		return Aggregated, true
	case "prefill":
		return Prefill, true
	case "decode":
		return Decode, true
	}
	return NotCapable, false
}

// String returns the canonical spelling, "" for NotCapable.
func (r Role) String() string {
	return [...]string{"", "aggregated", "prefill", "decode"}[r&3]
}

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

// Place names a (source, dp rank).
type Place struct {
	Source string
	Rank   int
}

// Candidate is one holder that may know a longer prefix than the target.
type Candidate struct {
	Place
	Domain Domain
	// Role is the declared worker type; a cache owner's comes from its own
	// hint metadata.
	Role Role
	// Endpoint is the control endpoint to fetch from, empty if none is known.
	Endpoint string
	// StateAgent marks a worker whose residency is owned by a cache library:
	// its framework blocks cannot be fetched.
	StateAgent bool
	// Depth is the number of leading positions held, contiguous from the root:
	// on device or host for a worker, on the host alone for a cache owner.
	// Positions are whatever is common to all candidates of a call (the engine
	// counts tokens).
	Depth int
	// Key orders cache owners of equal depth.
	Key [16]byte

	// Attached and AttachedTo tell which worker a cache owner belongs to now.
	Attached   bool
	AttachedTo Place
	// Projected: the attached worker's scheduling overlap includes this owner.
	Projected bool
	// EngineLocal: the owner's blocks die with its attachment, so a detached
	// one has nothing to offer.
	EngineLocal bool
	// Hidden: its freshness does not allow it to be a source (fenced,
	// repairing, stale, degraded without permission). It still counts for the
	// target's own depth, which a caller who hides it from matches sets to 0.
	Hidden bool
}

// Target is where the request goes.
type Target struct {
	Place
	Role Role
}

// Call is everything one decision rests on: one routing snapshot, plain data.
type Call struct {
	// Admitted: the request is being routed. A question is not.
	Admitted bool
	// Capable: some worker of the model's partition declares a role.
	Capable bool
	// Local: the index is event driven and local.
	Local bool
	// Length is the number of positions of the prompt's chain.
	Length     int
	Target     Target
	Candidates []Candidate
}

// Decision is one outcome: Best is the index of the chosen candidate if Reason
// is Hinted. For Ineligible it is the longest source, for every other reason -1.
type Decision struct {
	Reason    Reason
	Detail    Detail
	Best      int
	Depth     int // of Best, 0 without one
	Threshold int // what the target holds itself
}

// Decide applies the rules: the longest source that is strictly longer than
// what the target (and the owner projected on it) holds itself, has its role,
// an endpoint, is not the target's own, and really holds what it offers.
func Decide(c *Call) Decision {
	d := Decision{Best: -1}
	switch {
	case !c.Admitted:
		d.Reason = NotAdmitted
	case !c.Capable:
		d.Reason = NoCapableWorker
	case !c.Local:
		d.Reason = IndexNotLocal
	case c.Target.Role == NotCapable:
		d.Reason = TargetIncapable
	default:
		d.Threshold = threshold(c)
		choose(c, &d)
	}
	return d
}

// threshold is what the target holds: its own depth, its projected owner's
// included.
func threshold(c *Call) int {
	n := 0
	for i := range c.Candidates {
		k := &c.Candidates[i]
		own := k.Domain == Worker && k.Place == c.Target.Place ||
			k.Domain == CacheOwner && k.Attached && k.Projected && k.AttachedTo == c.Target.Place
		if own {
			n = max(n, k.Depth)
		}
	}
	return n
}

func choose(c *Call, d *Decision) {
	longest := -1 // the longest that may not serve
	for i := range c.Candidates {
		k := &c.Candidates[i]
		if k.Hidden || k.Depth <= d.Threshold || k.EngineLocal && !k.Attached {
			continue
		}
		if k.Depth > c.Length {
			// More blocks than the prompt has: the picture is wrong, and a
			// hint must not be built on it.
			d.Reason, d.Detail, d.Best, d.Depth = NoLongerSource, NoDetail, -1, 0
			return
		}
		best := &longest
		if bar(c, k) == NoDetail {
			best = &d.Best
		}
		if *best < 0 || before(k, &c.Candidates[*best]) {
			*best = i
		}
	}
	switch {
	case d.Best >= 0:
		d.Depth = c.Candidates[d.Best].Depth
	case longest >= 0:
		d.Reason, d.Best = Ineligible, longest
		d.Detail, d.Depth = bar(c, &c.Candidates[longest]), c.Candidates[longest].Depth
	default:
		d.Reason = NoLongerSource
	}
}

// bar returns what keeps k from serving the call's target.
func bar(c *Call, k *Candidate) Detail {
	switch {
	case k.Role != c.Target.Role:
		return DetailRole
	case k.Endpoint == "":
		return DetailEndpoint
	case k.Domain == Worker && k.Place == c.Target.Place,
		k.Domain == CacheOwner && k.Attached && k.AttachedTo == c.Target.Place:
		return DetailSelf
	case k.Domain == Worker && k.StateAgent:
		return DetailStateAgent
	}
	return NoDetail
}

// before orders sources: longest first, workers before cache owners, workers
// by (id, rank), owners by key.
func before(a, b *Candidate) bool {
	if a.Depth != b.Depth {
		return a.Depth > b.Depth
	}
	if a.Domain != b.Domain {
		return a.Domain == Worker
	}
	if a.Domain == CacheOwner {
		return bytes.Compare(a.Key[:], b.Key[:]) < 0
	}
	if a.Source != b.Source {
		return lessID(a.Source, b.Source)
	}
	return a.Rank < b.Rank
}

// lessID orders worker ids: numbers by value and before words, so that "9"
// comes before "10" as it does where ids are integers; words by their bytes.
func lessID(a, b string) bool {
	na, nb := number(a), number(b)
	if na != nb {
		return na
	}
	if na && len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

// number reports whether s is a canonical unsigned decimal.
func number(s string) bool {
	if s == "" || s[0] == '0' && len(s) > 1 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
