package hint

import "slices"

// ranked chooses among the sources that may serve, whose indices stand in the
// call's scratch, by cost, load and policy, in this order.
func ranked(c *Call, d *Decision) {
	c.ranges()
	if c.Options.Cost && !c.price(d) {
		return
	}
	order := c.Scratch.order
	slices.SortFunc(order, func(a, b int32) int { return c.compare(a, b, d.Note) })
	d.Best = int(order[0])
	if c.Options.Spread {
		d.Best = c.spread(order)
	}
	if c.Options.Policy != nil {
		c.ask(d)
	}
}

// ranges takes the ranges out of the order that end no further than the best
// prefix: a tie keeps the prefix form.
func (c *Call) ranges() {
	prefix := 0
	for _, i := range c.Scratch.order {
		if k := &c.Candidates[i]; k.Start == 0 {
			prefix = max(prefix, k.Depth)
		}
	}
	c.Scratch.order = slices.DeleteFunc(c.Scratch.order, func(i int32) bool {
		k := &c.Candidates[i]
		return k.Start > 0 && k.Depth <= prefix
	})
}

// price estimates every source and leaves those in the order that save enough.
// It is false if none does. Where one source's coefficients are unknown, savings
// cannot be compared, and length decides, which is noted.
func (c *Call) price(d *Decision) bool {
	order := c.Scratch.order
	for _, i := range order {
		if k := &c.Candidates[i]; k.Cost == nil || !k.Cost.Known() {
			d.Note = CostUnknown
			return true
		}
	}
	best := order[0]
	for _, i := range order {
		k := &c.Candidates[i]
		k.Estimate = c.estimate(k, d.Threshold)
		if c.compare(i, best, NoNote) < 0 {
			best = i
		}
	}
	order = slices.DeleteFunc(order, func(i int32) bool { return !c.Options.saves(c.Candidates[i].Estimate) })
	c.Scratch.order = order
	if len(order) == 0 {
		d.Reason, d.Best = Cost, int(best)
		return false
	}
	return true
}

// compare orders two sources: by what they save if that is known of all, else
// by length.
func (c *Call) compare(a, b int32, note Note) int {
	x, y := &c.Candidates[a], &c.Candidates[b]
	first := before(x, y)
	if c.Options.Cost && note != CostUnknown {
		switch gx, gy := x.Estimate.Gain(), y.Estimate.Gain(); {
		case gx > gy:
			return -1
		case gx < gy:
			return 1
		}
		first = tie(x, y)
	}
	if first {
		return -1
	}
	return 1
}

// spread chooses among the sources within the window of the first, by chances
// that fall with the load: 1 / (1 + load).
func (c *Call) spread(order []int32) int {
	best := &c.Candidates[order[0]]
	least := best.Depth - c.Options.Window*best.block()
	weight := func(i int32) float64 {
		k := &c.Candidates[i]
		if k.Depth < least {
			return 0
		}
		return 1 / (1 + float64(max(k.Load, 0)))
	}
	total := 0.0
	for _, i := range order {
		total += weight(i)
	}
	// The sample's high bits, as a number of [0, 1).
	at := float64(mix(c.Sample)>>11) / (1 << 53) * total
	for _, i := range order {
		w := weight(i)
		if at < w {
			return int(i)
		}
		at -= w
	}
	return int(order[0]) // rounding left a rest
}

// mix spreads the bits of a sample: callers may count instead of hashing.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
