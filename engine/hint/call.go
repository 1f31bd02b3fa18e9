package hint

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
	// counts tokens). For a range it is the position it ends before.
	Depth int
	// Start is 0 for a prefix. Above 0 the candidate is a range: it holds the
	// positions Start … Depth-1 and not what stands before them.
	Start int
	// BlockSize is the candidate's block in positions, 0 counts as 1. Options
	// that speak of blocks speak of these.
	BlockSize int
	// Width is the number of TP shards that peers dial, 0 if unknown. Shards
	// fetch from the peer of their own index, so widths must agree.
	Width int
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

	// Load is how much is under way at the source: fetches in flight, or its
	// waiting queue if that is known.
	Load int
	// Cost are the coefficients of its link and model, nil if none are known.
	Cost *Coefficients
	// Estimate is what Decide made of Cost; zero without.
	Estimate Estimate
}

// block is the candidate's block size.
func (k *Candidate) block() int { return max(k.BlockSize, 1) }

// Target is where the request goes.
type Target struct {
	Place
	Role Role
	// Width is the number of its TP shards, 0 if unknown.
	Width int
	// Backlog is its load factor, ≥ 0: how much longer its prefill takes than
	// on an idle engine.
	Backlog float64
}

// Options change which of the sources that may serve is named. The zero value
// is the plain rule: the longest wins.
type Options struct {
	// MinGain is how many blocks of its own a source must be ahead of the
	// target; 0 and 1 mean strictly longer.
	MinGain int
	// Spread lets sources within Window blocks of the best compete by load. A
	// window of 0 spreads ties alone.
	Spread bool
	Window int
	// Cost ranks by seconds saved instead of by length, and makes no hint that
	// saves less than MinSeconds, or whose coefficients are trusted less than
	// MinConfidence.
	Cost          bool
	MinSeconds    float64
	MinConfidence float64
	// Ranges lets sources offer a run that begins behind the root, if it joins
	// what the target holds.
	Ranges bool
	// Policy, if set, has the last word. See Policy.
	Policy Policy
}

// ranked reports whether a decision needs the sources in their order, and not
// the first of them alone.
func (o *Options) ranked() bool { return o.Spread || o.Cost || o.Policy != nil }

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

	Options Options
	// Sample chooses among sources that compete: the same value, the same
	// choice.
	Sample uint64
	// MessageID is for the policy alone.
	MessageID string
	// Scratch is room that decisions use again; it may be nil.
	Scratch *Scratch
}

// Scratch is what a decision with options needs beside its Call, kept by the
// caller so that a warm decision allocates nothing. One call at a time may use
// it.
type Scratch struct {
	order []int32
	offer Offer
}

// restorable is how many positions of the prompt an engine with blocks of that
// size may restore: it must compute at least the last one itself.
func (c *Call) restorable(block int) int {
	if c.Length < 1 {
		return 0
	}
	return (c.Length - 1) / block * block
}
