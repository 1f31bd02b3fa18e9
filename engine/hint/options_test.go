package hint

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// tokens makes a call of two workers and a target, counted in tokens.
func tokens(length int, sources ...Candidate) *Call {
	c := &Call{Admitted: true, Capable: true, Local: true, Length: length, Target: Target{Place: Place{Source: "t"}, Role: Aggregated}}
	for _, k := range sources {
		if k.Source == "" {
			k.Source = fmt.Sprint(len(c.Candidates) + 1)
		}
		k.Role, k.Endpoint = Aggregated, "tcp://h:1"
		if k.Domain == CacheOwner {
			k.Key[15] = byte(len(c.Candidates))
		}
		c.Candidates = append(c.Candidates, k)
	}
	return c
}

// own makes the target hold so many tokens.
func (c *Call) own(n int) *Call {
	c.Candidates = append(c.Candidates, Candidate{Place: c.Target.Place, Role: Aggregated, Endpoint: "tcp://h:1", Depth: n})
	return c
}

func (d Decision) text(c *Call) string {
	switch {
	case d.Reason == Hinted:
		return "fetch from " + c.Candidates[d.Best].Source
	case d.Detail != NoDetail:
		return d.Reason.String() + "{" + d.Detail.String() + "}"
	}
	return d.Reason.String()
}

// TestEveryReason: each is reached, and by this name.
func TestEveryReason(t *testing.T) {
	full := func() *Call {
		return tokens(128, Candidate{Depth: 128, BlockSize: 64, Cost: &Coefficients{PerToken: 1e-9, Bytes: 1e6, Bandwidth: 1e9}})
	}
	at := func(set func(c *Call)) *Call { c := full(); set(c); return c }
	cases := map[string]*Call{
		"not_admitted":         at(func(c *Call) { c.Admitted = false }),
		"no_capable_worker":    at(func(c *Call) { c.Capable = false }),
		"index_not_local":      at(func(c *Call) { c.Local = false }),
		"target_incapable":     at(func(c *Call) { c.Target.Role = NotCapable }),
		"no_longer_source":     full().own(128),
		"ineligible{role}":     at(func(c *Call) { c.Target.Role = Decode }),
		"ineligible{endpoint}": at(func(c *Call) { c.Candidates[0].Endpoint = "" }),
		"ineligible{self}": at(func(c *Call) {
			k := &c.Candidates[0]
			k.Domain, k.Attached, k.AttachedTo = CacheOwner, true, c.Target.Place
		}),
		"ineligible{state_agent}": at(func(c *Call) { c.Candidates[0].StateAgent = true }),
		"policy_skip":             at(func(c *Call) { c.Options.Policy = func(*Offer) Choice { return Skip() } }),
		"cost":                    at(func(c *Call) { c.Options.Cost = true }),
		"fetch from 1":            full(),
	}
	reasons, details := map[Reason]bool{}, map[Detail]bool{}
	for want, c := range cases {
		d := Decide(c)
		if got := d.text(c); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		reasons[d.Reason], details[d.Detail] = true, true
	}
	for r := range NumReasons {
		if !reasons[r] {
			t.Errorf("reason %s is not reached", r)
		}
	}
	for d := range NumDetails {
		if !details[d] {
			t.Errorf("detail %s is not reached", d)
		}
	}
	unequal := at(func(c *Call) { c.Candidates[0].Width, c.Target.Width = 2, 4 })
	if got := Decide(unequal).text(unequal); got != "ineligible{endpoint}" {
		t.Errorf("unequal TP widths: %s", got)
	}
	unknown := at(func(c *Call) { c.Candidates[0].Width = 2 })
	if got := Decide(unknown).text(unknown); got != "fetch from 1" {
		t.Errorf("a target of unknown width: %s", got)
	}
}

func TestMinGain(t *testing.T) {
	for _, tc := range []struct {
		name           string
		min, own, have int
		want           string
	}{
		{"0 is 1", 0, 64, 128, "fetch from 1"},
		{"1 is strictly longer", 1, 64, 128, "fetch from 1"},
		{"equal is not longer", 1, 128, 128, "no_longer_source"},
		{"2 blocks ahead", 2, 64, 192, "fetch from 1"},
		{"1 block ahead of 2", 2, 64, 128, "no_longer_source"},
		{"a part of a block is longer", 1, 96, 128, "fetch from 1"},
		{"a part of a block is not 2", 2, 96, 192, "fetch from 1"}, // 96 tokens: more than one block
		{"a block is not 2", 2, 128, 192, "no_longer_source"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := tokens(256, Candidate{Depth: tc.have, BlockSize: 64}).own(tc.own)
			c.Options.MinGain = tc.min
			if got := Decide(c).text(c); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestSpreadShares: two equal sources, two fetches under way at one of them.
func TestSpreadShares(t *testing.T) {
	c := tokens(256, Candidate{Depth: 256, BlockSize: 64}, Candidate{Depth: 256, BlockSize: 64, Load: 2})
	c.Options.Spread = true
	c.Scratch = &Scratch{}
	const requests = 30_000
	var share [2]float64
	for i := range uint64(requests) {
		c.Sample = i
		share[Decide(c).Best] += 1.0 / requests
	}
	if math.Abs(share[0]-0.75) > 0.01 || math.Abs(share[1]-0.25) > 0.01 {
		t.Errorf("shares %.4f, want 0.75 and 0.25 within 0.01", share)
	}
	c.Sample = 4711
	first := Decide(c)
	for range 100 {
		if Decide(c) != first {
			t.Fatal("the same request gets another source")
		}
	}
	c.Options.Spread = false
	for i := range uint64(1000) {
		if c.Sample = i; Decide(c).Best != 0 {
			t.Fatal("off, and yet it spreads")
		}
	}
}

func TestSpreadWindow(t *testing.T) {
	for _, tc := range []struct {
		window int
		want   string // sources that are met
	}{{0, "1"}, {1, "12"}, {2, "123"}, {9, "123"}} {
		t.Run(fmt.Sprint(tc.window), func(t *testing.T) {
			// The last one is no better than the target, whatever the window.
			c := tokens(256, Candidate{Depth: 256, BlockSize: 64}, Candidate{Depth: 192, BlockSize: 64}, Candidate{Depth: 128, BlockSize: 64}, Candidate{Depth: 64, BlockSize: 64}).own(64)
			c.Options.Spread, c.Options.Window = true, tc.window
			met := [5]bool{}
			for i := range uint64(1000) {
				c.Sample = i
				d := Decide(c)
				met[d.Best] = true
				if d.Depth != c.Candidates[d.Best].Depth {
					t.Fatalf("depth %d of source %d", d.Depth, d.Best)
				}
			}
			got := ""
			for i, m := range met {
				if m {
					got += fmt.Sprint(i + 1)
				}
			}
			if got != tc.want {
				t.Errorf("sources %s, want %s", got, tc.want)
			}
		})
	}
	c := tokens(256, Candidate{Depth: 256, BlockSize: 64}, Candidate{Depth: 192, BlockSize: 64}).own(128)
	c.Options = Options{Spread: true, Window: 3, MinGain: 2}
	for i := range uint64(1000) {
		if c.Sample = i; Decide(c).Best != 0 {
			t.Fatal("a source that does not gain enough competes")
		}
	}
}

// example are the coefficients of the specification's table.
var example = Coefficients{PerToken: 25e-6, PerPosition: 0.6e-9, Bytes: 114_688, Bandwidth: 12.5e9, Setup: 2e-3}

func TestCostTable(t *testing.T) {
	for _, tc := range []struct {
		a, b, load                int
		recompute, transfer, gain string // ms
		hint                      bool
	}{
		{0, 192, 0, "4.811", "3.762", "+1.049", true},
		{0, 192, 2, "4.811", "7.285", "-2.474", false},
		{128, 192, 0, "1.606", "2.587", "-0.981", false},
		{0, 8192, 0, "224.933", "77.162", "+147.771", true},
		{0, 8192, 3, "224.933", "302.648", "-77.715", false},
	} {
		t.Run(fmt.Sprintf("%d to %d, qS %d", tc.a, tc.b, tc.load), func(t *testing.T) {
			e := example.Estimate(tc.a, tc.b, 0, float64(tc.load))
			got := [3]string{fmt.Sprintf("%.3f", e.Recompute*1e3), fmt.Sprintf("%.3f", e.Transfer*1e3), fmt.Sprintf("%+.3f", e.Gain()*1e3)}
			if want := [3]string{tc.recompute, tc.transfer, tc.gain}; got != want {
				t.Errorf("%v, want %v", got, want)
			}
			// One token more than may be restored: the prompt's last is computed.
			c := tokens(tc.b+1, Candidate{Depth: tc.b, BlockSize: 64, Load: tc.load, Cost: &example}).own(tc.a)
			c.Options.Cost = true
			d := Decide(c)
			want := Cost
			if tc.hint {
				want = Hinted
			}
			if d.Reason != want || d.Best != 0 || c.Candidates[0].Estimate != e {
				t.Errorf("%s, estimate %+v; want %s", d.text(c), c.Candidates[0].Estimate, want)
			}
		})
	}
	if example.Estimate(0, 126, 0, 0).Gain() >= 0 || example.Estimate(0, 127, 0, 0).Gain() < 0 {
		t.Error("the break-even from an empty target is not at 127 tokens")
	}
	if e := example.Estimate(0, 192, 1, 0); math.Abs(e.Recompute-2*4.81105920e-3) > 1e-9 {
		t.Errorf("a target that is twice as slow recomputes for %v", e.Recompute)
	}
}

func TestCost(t *testing.T) {
	slow := example
	slow.Bandwidth = 1e9
	sure := example
	sure.Confidence = 0.8
	k := func(depth, load int, cost *Coefficients) Candidate {
		return Candidate{Depth: depth, BlockSize: 64, Load: load, Cost: cost}
	}
	cases := []struct {
		name    string
		length  int
		options Options
		sources []Candidate
		want    string
		note    Note
	}{
		{"gain instead of length", 8193, Options{}, []Candidate{k(8192, 3, &example), k(4096, 0, &example)}, "fetch from 2", NoNote},
		{"ties by the usual order", 8193, Options{}, []Candidate{{Depth: 4096, BlockSize: 64, Domain: CacheOwner, Cost: &example}, k(4096, 0, &example)}, "fetch from 2", NoNote},
		{"nobody saves anything", 8193, Options{}, []Candidate{k(8192, 3, &example), k(64, 0, &example)}, "cost", NoNote},
		{"not enough seconds", 8193, Options{MinSeconds: 0.2}, []Candidate{k(8192, 0, &example)}, "cost", NoNote},
		{"enough seconds", 8193, Options{MinSeconds: 0.1}, []Candidate{k(8192, 0, &example)}, "fetch from 1", NoNote},
		{"not trusted", 8193, Options{MinConfidence: 0.5}, []Candidate{k(8192, 0, &example)}, "cost", NoNote},
		{"trusted", 8193, Options{MinConfidence: 0.5}, []Candidate{k(8192, 0, &sure)}, "fetch from 1", NoNote},
		{"the trusted one of two", 8193, Options{MinConfidence: 0.5}, []Candidate{k(8192, 0, &example), k(4096, 0, &sure)}, "fetch from 2", NoNote},
		{"the faster link", 8193, Options{}, []Candidate{k(8192, 0, &slow), k(8192, 0, &example)}, "fetch from 2", NoNote},
		{"unknown coefficients: length", 8193, Options{}, []Candidate{k(4096, 0, nil), k(8192, 9, &example)}, "fetch from 2", CostUnknown},
		{"half known: length", 8193, Options{}, []Candidate{k(8192, 0, &Coefficients{PerToken: 1})}, "fetch from 1", CostUnknown},
		{"capped at what may be restored", 256, Options{}, []Candidate{k(256, 0, &example)}, "fetch from 1", NoNote},
		{"capped below the break-even", 128, Options{}, []Candidate{k(128, 0, &example)}, "cost", NoNote},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := tokens(tc.length, tc.sources...)
			c.Options = tc.options
			c.Options.Cost = true
			d := Decide(c)
			if got := d.text(c); got != tc.want || d.Note != tc.note {
				t.Errorf("%s, note %q; want %s, %q", got, d.Note, tc.want, tc.note)
			}
		})
	}
	c := tokens(256, k(256, 0, &example))
	c.Options.Cost = true
	if Decide(c); c.Candidates[0].Estimate != example.Estimate(0, 192, 0, 0) {
		t.Errorf("the estimate is not of 192 tokens: %+v", c.Candidates[0].Estimate)
	}
	if !c.Enough(&c.Candidates[0], 192, 0) || c.Enough(&c.Candidates[0], 64, 0) || c.Enough(&c.Candidates[0], 0, 0) {
		t.Error("what came is not judged by what it saves")
	}
	c.Options.Cost = false
	if !c.Enough(&c.Candidates[0], 64, 0) || c.Enough(&c.Candidates[0], 64, 64) {
		t.Error("what came is not judged by its length")
	}
}

func TestPolicy(t *testing.T) {
	sources := func() []Candidate {
		return []Candidate{{Depth: 128, BlockSize: 64, Load: 3}, {Depth: 256, BlockSize: 64}, {Depth: 192, BlockSize: 64, StateAgent: true}, {Depth: 256, BlockSize: 64, Domain: CacheOwner}}
	}
	var seen Offer
	cases := []struct {
		name   string
		policy func(*Offer) Choice
		want   string
		bad    bool
	}{
		{"default", func(*Offer) Choice { return Choice{} }, "fetch from 2", false},
		{"skip", func(*Offer) Choice { return Skip() }, "policy_skip", false},
		{"the second", func(*Offer) Choice { return FetchFrom(1) }, "fetch from 4", false},
		{"the last", func(o *Offer) Choice { return FetchFrom(len(o.Sources) - 1) }, "fetch from 1", false},
		{"one too far", func(o *Offer) Choice { return FetchFrom(len(o.Sources)) }, "policy_skip", true},
		{"a negative one", func(*Offer) Choice { return FetchFrom(-1) }, "policy_skip", true},
		{"what it sees", func(o *Offer) Choice {
			seen = *o
			seen.Sources = append([]Offered(nil), o.Sources...)
			return FetchFrom(o.Default)
		}, "fetch from 2", false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := tokens(256, sources()...).own(64)
			c.MessageID, c.Options.Policy = "req-42", tc.policy
			d := Decide(c)
			if got := d.text(c); got != tc.want || d.BadChoice != tc.bad {
				t.Errorf("%s, bad choice %v; want %s, %v", got, d.BadChoice, tc.want, tc.bad)
			}
		})
	}
	var order []string
	for _, s := range seen.Sources {
		order = append(order, fmt.Sprintf("%s %s %d/%d load %d", s.Source, s.Domain, s.Depth, s.BlockSize, s.Load))
	}
	want := "2 worker 256/64 load 0, 4 cache_owner 256/64 load 0, 1 worker 128/64 load 3"
	if got := strings.Join(order, ", "); got != want || seen.MessageID != "req-42" || seen.Threshold != 64 || seen.Length != 256 || seen.Target.Source != "t" {
		t.Errorf("the policy saw %s of %+v\nwant %s", got, seen, want)
	}
	asked := false
	c := tokens(256, Candidate{Depth: 128}).own(128)
	c.Options.Policy = func(*Offer) Choice { asked = true; return Choice{} }
	if Decide(c); asked {
		t.Error("the policy is asked about nothing")
	}
}

func TestRanges(t *testing.T) {
	cases := []struct {
		name    string
		off     bool
		own     int
		sources []Candidate
		want    string
	}{
		{"a range that joins the target", false, 2, []Candidate{{Start: 1, Depth: 4}}, "fetch from 1"},
		{"and begins where it ends", false, 2, []Candidate{{Start: 2, Depth: 4}}, "fetch from 1"},
		{"a hole between the two", false, 2, []Candidate{{Start: 3, Depth: 4}}, "no_longer_source"},
		{"no further than the target", false, 2, []Candidate{{Start: 1, Depth: 2}}, "no_longer_source"},
		{"beyond the best prefix", false, 2, []Candidate{{Depth: 3}, {Start: 1, Depth: 4}}, "fetch from 2"},
		{"a tie keeps the prefix form", false, 2, []Candidate{{Start: 1, Depth: 4}, {Depth: 4}}, "fetch from 2"},
		{"the longest of two", false, 2, []Candidate{{Start: 1, Depth: 3}, {Start: 2, Depth: 4}}, "fetch from 2"},
		{"off", true, 2, []Candidate{{Start: 1, Depth: 4}}, "no_longer_source"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			for _, spread := range []bool{false, true} {
				c := tokens(4, tc.sources...).own(tc.own)
				c.Options = Options{Ranges: !tc.off, Spread: spread}
				if got := Decide(c).text(c); got != tc.want {
					t.Errorf("spread %v: %s, want %s", spread, got, tc.want)
				}
			}
		})
	}
	c := tokens(4, Candidate{Depth: 3}, Candidate{Start: 1, Depth: 3}).own(1)
	c.Options = Options{Ranges: true, Spread: true, Window: 4}
	for i := range uint64(100) {
		if c.Sample = i; Decide(c).Best != 0 {
			t.Fatal("a range that ends where the best prefix does competes with it")
		}
	}
	c = tokens(4, Candidate{Start: 1, Depth: 4, Domain: CacheOwner})
	c.Candidates[0].Attached, c.Candidates[0].Projected, c.Candidates[0].AttachedTo = true, true, c.Target.Place
	c.Options.Ranges = true
	if d := Decide(c); d.Threshold != 0 {
		t.Errorf("a range of the target's own is its prefix: threshold %d", d.Threshold)
	}
}

func TestOptionsDoNotAllocate(t *testing.T) {
	c := tokens(8192, Candidate{Depth: 4096, BlockSize: 64, Cost: &example}, Candidate{Depth: 8128, BlockSize: 64, Cost: &example}, Candidate{Start: 64, Depth: 8192, BlockSize: 64, Cost: &example}).own(64)
	c.Options = Options{MinGain: 2, Spread: true, Window: 3, Cost: true, Ranges: true, Policy: func(o *Offer) Choice { return FetchFrom(len(o.Sources) - 1) }}
	c.Scratch = &Scratch{}
	if d := Decide(c); d.Reason != Hinted {
		t.Fatalf("%s", d.text(c))
	}
	if n := testing.AllocsPerRun(100, func() { Decide(c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
