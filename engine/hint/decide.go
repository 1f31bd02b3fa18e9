package hint

import "bytes"

// Decision is one outcome: Best is the index of the chosen candidate if Reason
// is Hinted. For Ineligible it is the longest source, for Cost the one that
// would save most, for every other reason -1.
type Decision struct {
	Reason    Reason
	Detail    Detail
	Note      Note
	Best      int
	Depth     int // of Best, 0 without one
	Threshold int // what the target holds itself
	// Eligible is how many sources might have served.
	Eligible int
	// BadChoice: the policy chose a source that was not offered.
	BadChoice bool
}

// Decide applies the rules: the longest source that is strictly longer than
// what the target (and the owner projected on it) holds itself, has its role,
// an endpoint, is not the target's own, and really holds what it offers. The
// options may name another of those that meet all of this.
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
		if own && k.Start == 0 {
			n = max(n, k.Depth)
		}
	}
	return n
}

// choose finds the best source, and the longest that may not serve.
func choose(c *Call, d *Decision) {
	longest := -1
	rank := c.Options.ranked()
	if rank {
		if c.Scratch == nil {
			c.Scratch = &Scratch{}
		}
		c.Scratch.order = c.Scratch.order[:0]
	}
	for i := range c.Candidates {
		k := &c.Candidates[i]
		if k.Hidden || k.EngineLocal && !k.Attached || !c.Options.ahead(k, d.Threshold) {
			continue
		}
		if k.Depth > c.Length {
			// More blocks than the prompt has: the picture is wrong, and a
			// hint must not be built on it.
			*d = Decision{Reason: NoLongerSource, Best: -1, Threshold: d.Threshold}
			return
		}
		best := &longest
		if bar(c, k) == NoDetail {
			best = &d.Best
			d.Eligible++
			if rank {
				c.Scratch.order = append(c.Scratch.order, int32(i))
			}
		}
		if *best < 0 || before(k, &c.Candidates[*best]) {
			*best = i
		}
	}
	switch {
	case d.Best >= 0:
		if rank {
			ranked(c, d)
		}
		if d.Best >= 0 {
			d.Depth = c.Candidates[d.Best].Depth
		}
	case longest >= 0:
		d.Reason, d.Best = Ineligible, longest
		d.Detail, d.Depth = bar(c, &c.Candidates[longest]), c.Candidates[longest].Depth
	default:
		d.Reason = NoLongerSource
	}
}

// ahead reports whether a candidate is far enough ahead of what the target
// holds. A range must also join it: a hole between the two would make the
// range useless.
func (o *Options) ahead(k *Candidate, threshold int) bool {
	if k.Start > 0 && (!o.Ranges || k.Start > threshold) {
		return false
	}
	return k.Depth-threshold > (max(o.MinGain, 1)-1)*k.block()
}

// Enough reports whether a source that turned out to hold less than it was
// chosen for still makes a hint. depth is the position it ends before.
func (c *Call) Enough(k *Candidate, depth, threshold int) bool {
	less := *k
	less.Depth = depth
	if !c.Options.ahead(&less, threshold) {
		return false
	}
	if !c.Options.Cost || k.Cost == nil || k.Estimate == (Estimate{}) {
		return true
	}
	return c.Options.saves(c.estimate(&less, threshold))
}

// bar returns what keeps k from serving the call's target.
func bar(c *Call, k *Candidate) Detail {
	switch {
	case k.Role != c.Target.Role:
		return DetailRole
	case k.Endpoint == "", k.Width != c.Target.Width && k.Width > 0 && c.Target.Width > 0:
		return DetailEndpoint
	case k.Domain == Worker && k.Place == c.Target.Place,
		k.Domain == CacheOwner && k.Attached && k.AttachedTo == c.Target.Place:
		return DetailSelf
	case k.Domain == Worker && k.StateAgent:
		return DetailStateAgent
	}
	return NoDetail
}

// before orders sources: longest first, prefixes before ranges, workers before
// cache owners, workers by (id, rank), owners by key.
func before(a, b *Candidate) bool {
	if a.Depth != b.Depth {
		return a.Depth > b.Depth
	}
	return tie(a, b)
}

// tie orders sources that are worth the same.
func tie(a, b *Candidate) bool {
	if (a.Start == 0) != (b.Start == 0) {
		return a.Start == 0
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
