package hint

// Policy has the last word on a hint: it is shown the sources that may serve,
// in the order in which they would be taken, and lets the default stand, takes
// another, or skips the hint. It never sees sources that may not serve, and is
// not asked where there are none.
//
// It runs on the caller's goroutine inside the decision and delays it; it must
// not keep the offer, and may be called from many goroutines at once.
type Policy func(*Offer) Choice

// Offer is what a Policy is shown. It is valid during the call.
type Offer struct {
	MessageID string
	Target    Target
	Length    int // positions of the prompt (the engine counts tokens)
	Threshold int // what the target holds itself
	// Default is the index in Sources of the one that would be taken.
	Default int
	Sources []Offered
}

// Offered is one source of an offer.
type Offered struct {
	Place
	Domain    Domain
	Endpoint  string
	Start     int // 0 for a prefix, else where a range begins
	Depth     int // leading positions held; of a range, where it ends
	BlockSize int
	Load      int
	Estimate  Estimate // zero unless costs are on and known
}

// Choice is a policy's answer. The zero value lets the default stand.
type Choice struct {
	kind  uint8
	index int
}

const (
	choiceDefault uint8 = iota
	choiceSkip
	choiceFetch
)

// Skip makes no hint.
func Skip() Choice { return Choice{kind: choiceSkip} }

// FetchFrom takes source i of the offer. One that is not there makes no hint
// and a warning.
func FetchFrom(i int) Choice { return Choice{kind: choiceFetch, index: i} }

// ask lets the policy choose.
func (c *Call) ask(d *Decision) {
	o := &c.Scratch.offer
	*o = Offer{MessageID: c.MessageID, Target: c.Target, Length: c.Length, Threshold: d.Threshold, Sources: o.Sources[:0]}
	for n, i := range c.Scratch.order {
		k := &c.Candidates[i]
		if int(i) == d.Best {
			o.Default = n
		}
		o.Sources = append(o.Sources, Offered{Place: k.Place, Domain: k.Domain, Endpoint: k.Endpoint,
			Start: k.Start, Depth: k.Depth, BlockSize: k.BlockSize, Load: k.Load, Estimate: k.Estimate})
	}
	switch choice := c.Options.Policy(o); {
	case choice.kind == choiceDefault:
	case choice.kind == choiceFetch && choice.index >= 0 && choice.index < len(c.Scratch.order):
		d.Best = int(c.Scratch.order[choice.index])
	default:
		d.Reason, d.Best, d.BadChoice = PolicySkip, -1, choice.kind == choiceFetch
	}
}
