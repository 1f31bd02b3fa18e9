package hint

import (
	"testing"
)

// fleet is the cast of the worked examples: S, T and U are workers in
// state-agent mode with owners OS, OT and OU, V is a legacy worker. Depths are
// blocks.
type fleet map[string]*Candidate

func newFleet() fleet {
	f := fleet{}
	for i, id := range []string{"S", "T", "U", "V"} {
		w := Place{Source: id}
		f[id] = &Candidate{Place: w, Role: Aggregated, Endpoint: "tcp://10.0.0.7:23280", StateAgent: id != "V"}
		if id != "V" {
			f["O"+id] = &Candidate{Place: w, Domain: CacheOwner, Role: Aggregated, Endpoint: "tcp://10.0.0.7:23280",
				Key: [16]byte{15: byte(i)}, Attached: true, AttachedTo: w, Projected: true, EngineLocal: true}
		}
	}
	return f
}

var order = []string{"T", "S", "U", "V", "OT", "OS", "OU"}

func (f fleet) call(target string) *Call {
	c := &Call{Admitted: true, Capable: true, Local: true, Length: 4,
		Target: Target{Place: Place{Source: target}, Role: f[target].Role}}
	for _, n := range order {
		c.Candidates = append(c.Candidates, *f[n])
	}
	return c
}

// leading counts the leading blocks of a set, as an index would.
func leading(blocks ...int) int {
	n := 0
	for _, b := range blocks {
		if b != n {
			break
		}
		n++
	}
	return n
}

func TestDecisionExamples(t *testing.T) {
	type want struct {
		best      string // chosen source
		depth     int
		reason    Reason
		detail    Detail
		threshold int
	}
	cases := []struct {
		name   string
		target string
		set    func(f fleet)
		call   func(c *Call)
		want   want
	}{
		{"E1 framework blocks alone are not offered", "T",
			func(f fleet) { f["S"].Depth = 4 }, nil,
			want{best: "S", depth: 4, reason: Ineligible, detail: DetailStateAgent}},
		{"E2 the owner's host blocks are", "T",
			func(f fleet) { f["OS"].Depth = 4 }, nil,
			want{best: "OS", depth: 4}},
		{"E3 not to the worker that has them", "S",
			func(f fleet) { f["OS"].Depth = 4 }, nil,
			want{reason: NoLongerSource, threshold: 4}},
		{"E3 not to the worker that has them, projection absent", "S",
			func(f fleet) { f["OS"].Depth, f["OS"].Projected = 4, false }, nil,
			want{best: "OS", depth: 4, reason: Ineligible, detail: DetailSelf}},
		{"E4 the whole prefix is named", "T",
			func(f fleet) { f["OS"].Depth, f["T"].Depth = 4, 3 }, nil,
			want{best: "OS", depth: 4, threshold: 3}},
		{"E5 device and host count together for the target", "T",
			func(f fleet) { f["OS"].Depth, f["T"].Depth = 4, 2+2 }, nil,
			want{reason: NoLongerSource, threshold: 4}},
		{"E6 a hole ends the prefix", "T",
			func(f fleet) { f["OS"].Depth = leading(0, 2, 3) }, nil,
			want{best: "OS", depth: 1}},
		{"E7 disk never counts", "T",
			func(f fleet) { f["OS"].Depth = leading(0) }, nil,
			want{best: "OS", depth: 1}},
		{"E8 the longest wins", "T",
			func(f fleet) { f["OS"].Depth, f["OU"].Depth = 3, 4 }, nil,
			want{best: "OU", depth: 4}},
		{"E9 a tie goes to the smaller owner key", "T",
			func(f fleet) { f["OS"].Depth, f["OU"].Depth, f["OS"].Key[0] = 4, 4, 9 }, nil,
			want{best: "OU", depth: 4}},
		{"E10 a tie goes to the worker", "T",
			func(f fleet) { f["V"].Depth, f["OS"].Depth = 1+3, 4 }, nil,
			want{best: "V", depth: 4}},
		{"E11 roles must be equal", "T",
			func(f fleet) { f["OS"].Depth, f["OS"].Role, f["T"].Role = 4, Prefill, Decode }, nil,
			want{best: "OS", depth: 4, reason: Ineligible, detail: DetailRole}},
		{"E12 a fenced slot is no source", "T",
			func(f fleet) { f["OS"].Depth, f["OS"].Hidden = 4, true }, nil,
			want{reason: NoLongerSource}},
		{"E13 detached, engine-local", "T",
			func(f fleet) { f["OS"].Depth, f["OS"].Attached, f["OS"].Projected = 4, false, false }, nil,
			want{reason: NoLongerSource}},
		{"E13 detached, durable", "T",
			func(f fleet) {
				f["OS"].Depth, f["OS"].Attached, f["OS"].Projected, f["OS"].EngineLocal = 4, false, false, false
			}, nil,
			want{best: "OS", depth: 4}},
		{"E14 a question gets none", "T",
			func(f fleet) { f["OS"].Depth = 4 },
			func(c *Call) { c.Admitted = false },
			want{reason: NotAdmitted}},

		{"nobody may take part", "T", func(f fleet) { f["OS"].Depth = 4 },
			func(c *Call) { c.Capable = false }, want{reason: NoCapableWorker}},
		{"the index is elsewhere", "T", func(f fleet) { f["OS"].Depth = 4 },
			func(c *Call) { c.Local = false }, want{reason: IndexNotLocal}},
		{"the target declares no role", "T", func(f fleet) { f["OS"].Depth, f["T"].Role = 4, NotCapable },
			nil, want{reason: TargetIncapable}},
		{"a source without endpoint", "T", func(f fleet) { f["OS"].Depth, f["OS"].Endpoint = 4, "" },
			nil, want{best: "OS", depth: 4, reason: Ineligible, detail: DetailEndpoint}},
		{"a shorter source that may serve beats a longer one that may not", "T",
			func(f fleet) { f["S"].Depth, f["OU"].Depth = 4, 2 }, nil, want{best: "OU", depth: 2}},
		{"the longest one's reason is told", "T",
			func(f fleet) { f["S"].Depth, f["V"].Depth, f["V"].Role = 3, 4, Prefill }, nil,
			want{best: "V", depth: 4, reason: Ineligible, detail: DetailRole}},
		{"equal depth is not longer", "T",
			func(f fleet) { f["OS"].Depth, f["T"].Depth = 3, 3 }, nil,
			want{reason: NoLongerSource, threshold: 3}},
		{"the target's own owner raises the threshold", "T",
			func(f fleet) { f["OS"].Depth, f["OT"].Depth = 3, 3 }, nil,
			want{reason: NoLongerSource, threshold: 3}},
		{"a depth beyond the prompt fails closed", "T",
			func(f fleet) { f["OS"].Depth, f["OU"].Depth = 5, 3 }, nil,
			want{reason: NoLongerSource}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			f := newFleet()
			tc.set(f)
			c := f.call(tc.target)
			if tc.call != nil {
				tc.call(c)
			}
			d := Decide(c)
			best := ""
			if d.Best >= 0 {
				best = order[d.Best]
			}
			got := want{best, d.Depth, d.Reason, d.Detail, d.Threshold}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestTiesAmongWorkers(t *testing.T) {
	cases := []struct {
		name string
		a, b Place
	}{
		{"numeric ids by value", Place{"9", 0}, Place{"10", 0}},
		{"numbers before words", Place{"10", 0}, Place{"w1", 0}},
		{"words by bytes", Place{"w1", 5}, Place{"w2", 0}},
		{"then by rank", Place{"w1", 0}, Place{"w1", 1}},
		{"a leading zero is no number", Place{"7", 0}, Place{"07", 0}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			for _, flip := range []bool{false, true} {
				k := []Candidate{
					{Place: tc.a, Role: Decode, Endpoint: "tcp://h:1", Depth: 2},
					{Place: tc.b, Role: Decode, Endpoint: "tcp://h:1", Depth: 2},
				}
				if flip {
					k[0], k[1] = k[1], k[0]
				}
				d := Decide(&Call{Admitted: true, Capable: true, Local: true, Length: 4,
					Target: Target{Place: Place{"t", 0}, Role: Decode}, Candidates: k})
				if d.Reason != Hinted || k[d.Best].Place != tc.a {
					t.Errorf("flip %v: %+v, want %v", flip, d, tc.a)
				}
			}
		})
	}
}

func TestDecideDoesNotAllocate(t *testing.T) {
	f := newFleet()
	f["OS"].Depth, f["OU"].Depth, f["S"].Depth = 4, 4, 4
	c := f.call("T")
	if n := testing.AllocsPerRun(100, func() { Decide(c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNames(t *testing.T) {
	reasons := map[string]bool{}
	for r := Hinted + 1; r < NumReasons; r++ {
		if s := r.String(); s == "" || reasons[s] {
			t.Errorf("reason %d: %q is empty or taken", r, s)
		}
		reasons[r.String()] = true
	}
	details := map[string]bool{}
	for d := NoDetail + 1; d < NumDetails; d++ {
		if s := d.String(); s == "" || details[s] {
			t.Errorf("detail %d: %q is empty or taken", d, s)
		}
		details[d.String()] = true
	}
	for _, s := range []string{"aggregated", "prefill", "decode", ""} {
		if r, ok := ParseRole(s); !ok || r.String() != s {
			t.Errorf("role %q: %v %v", s, r, ok)
		}
	}
	if r, ok := ParseRole("agg"); !ok || r != Aggregated {
		t.Errorf("agg is %v %v", r, ok)
	}
	if _, ok := ParseRole("Aggregated"); ok {
		t.Error("an unknown spelling is a role")
	}
}
