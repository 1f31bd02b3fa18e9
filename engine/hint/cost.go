package hint

// Coefficients say what recomputing and transferring cost, for one model on one
// link. They are immutable once in use.
type Coefficients struct {
	// PerToken is the seconds of prefill a token takes at the beginning of a
	// prompt, PerPosition how much that grows with each token before it.
	PerToken, PerPosition float64
	// Bytes is the size of a token's keys and values, all TP shards together.
	Bytes float64
	// Bandwidth is the link's bytes per second, all shard links together, Setup
	// the seconds before the first byte.
	Bandwidth, Setup float64
	// Confidence is how far they are trusted, 0 … 1. Configured ones have none
	// until something was observed.
	Confidence float64
}

// Known reports whether both sides of the comparison can be worked out.
func (k *Coefficients) Known() bool { return k.PerToken > 0 && k.Bytes > 0 && k.Bandwidth > 0 }

// Estimate compares recomputing a stretch of the prompt with transferring it.
type Estimate struct {
	Recompute  float64 // seconds
	Transfer   float64 // seconds
	Confidence float64
}

// Gain is what a transfer saves, in seconds; below 0 it costs more.
func (e Estimate) Gain() float64 { return e.Recompute - e.Transfer }

// Estimate works out what a target that holds a tokens saves by fetching up to
// b. target and source are load factors, ≥ 0.
func (k *Coefficients) Estimate(a, b int, target, source float64) Estimate {
	from, to := float64(a), float64(max(a, b))
	n := to - from
	return Estimate{
		Recompute:  (k.PerToken*n + k.PerPosition*(to*to-from*from)/2) * (1 + max(target, 0)),
		Transfer:   k.Setup + n*k.Bytes/k.Bandwidth*(1+max(source, 0)),
		Confidence: k.Confidence,
	}
}

// estimate is what a candidate saves the target, of what the engine may restore.
func (c *Call) estimate(k *Candidate, threshold int) Estimate {
	b := min(k.Depth, c.restorable(k.block()))
	return k.Cost.Estimate(threshold, b, c.Target.Backlog, float64(k.Load))
}

// saves reports whether an estimate is worth a hint.
func (o *Options) saves(e Estimate) bool {
	return e.Gain() >= o.MinSeconds && e.Confidence >= o.MinConfidence
}
