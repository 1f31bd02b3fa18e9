package engine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine/hint"
)

// sharedLog is a log that goroutines write while a test reads.
type sharedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *sharedLog) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *sharedLog) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// hinted is a source that takes part as a plain worker.
func hinted(set ...func(*HintConfig)) func(*Source) {
	return func(s *Source) {
		s.Hint = &HintConfig{WorkerType: "aggregated", Endpoint: "tcp://10.0.0.1:23280"}
		for _, f := range set {
			f(s.Hint)
		}
	}
}

// ask hints for the scenarios' prompt.
func ask(t testing.TB, e *Engine, target Target) *HintAnswer {
	t.Helper()
	h := &HintAnswer{}
	if err := e.Hint(prompt(), target, h); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestSpreadShares is the specification's: two equal sources, two fetches under
// way at one, 30,000 requests.
func TestSpreadShares(t *testing.T) {
	e := openEngine(t, Options{Hints: HintOptions{Spread: true}})
	for _, id := range []string{"a", "b"} {
		addWorker(t, e, id, "127.0.0.1", 1, dialects[1], hinted()).say(t, store(4, "GPU", ""))
	}
	addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], hinted())
	for range 2 {
		if err := e.FetchStarted("b", 0); err != nil {
			t.Fatal(err)
		}
	}
	const requests = 30_000
	shares := func() [2]float64 {
		var h HintAnswer
		count := map[string]float64{}
		for i := range requests {
			if err := e.Hint(prompt(), Target{Source: "t", MessageID: "req-" + strconv.Itoa(i)}, &h); err != nil {
				t.Fatal(err)
			}
			count[h.Best.Source]++
		}
		return [2]float64{count["a"] / requests, count["b"] / requests}
	}
	near := func(what string, got [2]float64, a float64) {
		t.Helper()
		if math.Abs(got[0]-a) > 0.01 || math.Abs(got[1]-(1-a)) > 0.01 {
			t.Errorf("%s: shares %.4f, want %.2f and %.2f within 0.01", what, got, a, 1-a)
		}
	}
	near("two fetches at b", shares(), 0.75)
	first := ask(t, e, Target{Source: "t", MessageID: "req-7"}).Best
	for range 20 {
		if again := ask(t, e, Target{Source: "t", MessageID: "req-7"}).Best; again != first {
			t.Fatalf("the same request is sent to %v, then to %v", first, again)
		}
	}
	if err := e.SetPeerLoad("b", 0, PeerLoad{Waiting: 0}); err != nil {
		t.Fatal(err)
	}
	near("an empty queue at b counts instead", shares(), 0.5)
	if err := e.SetPeerLoad("b", 0, PeerLoad{Waiting: -1}); err != nil {
		t.Fatal(err)
	}
	for range 3 { // one more than were started
		if err := e.FetchEnded("b", 0); err != nil {
			t.Fatal(err)
		}
	}
	near("all fetches ended", shares(), 0.5)
	both := map[string]bool{}
	for range 100 {
		both[ask(t, e, Target{Source: "t"}).Best.Source] = true
	}
	if len(both) != 2 {
		t.Errorf("requests without an id all go to %v", both)
	}
	st := e.HintStatus()
	var named uint64
	for _, p := range st.Peers {
		named += p.Hinted
	}
	if named != st.Outcomes[hint.Hinted] || st.Domains[hint.Worker] != named || st.Blocks != 4*named {
		t.Errorf("%d hints, %d by place, %v by domain, %d blocks", st.Outcomes[hint.Hinted], named, st.Domains, st.Blocks)
	}
}

func TestHintOptions(t *testing.T) {
	table := CostCoefficients{PerToken: 25e-6, PerPosition: 0.6e-9, BytesPerToken: 114_688, BytesPerSecond: 12.5e9, Setup: 2 * time.Millisecond}
	slow := table
	slow.Link, slow.BytesPerSecond = "slow", 1e9
	other := table
	other.Model = "other"
	skip := func(*hint.Offer) hint.Choice { return hint.Skip() }
	cases := []struct {
		name    string
		options HintOptions
		links   map[string]string
		loads   map[string]int
		ids     []string // who holds all four blocks, but for t, which holds one
		want    string
		note    hint.Note
		gain    float64 // ms, 0: none
	}{
		{"min gain of 3 blocks", HintOptions{MinGainBlocks: 3}, nil, nil, []string{"a"}, "a/0 worker depth 4", 0, 0},
		{"min gain of 4 blocks", HintOptions{MinGainBlocks: 4}, nil, nil, []string{"a"}, "no_longer_source", 0, 0},
		// 64 → 192: 3.210 ms of prefill, 3.174 ms of transfer.
		{"a transfer that pays", HintOptions{Cost: CostOptions{Enabled: true, Coefficients: []CostCoefficients{table}}}, nil, nil, []string{"a"}, "a/0 worker depth 4", 0, 0.0354},
		{"a transfer that does not", HintOptions{Cost: CostOptions{Enabled: true, Coefficients: []CostCoefficients{table}}}, nil, map[string]int{"a": 1}, []string{"a"}, "cost", 0, -1.139},
		{"the faster link", HintOptions{Cost: CostOptions{Enabled: true, Coefficients: []CostCoefficients{table, slow}}}, map[string]string{"a": "slow"}, nil, []string{"a", "b"}, "b/0 worker depth 4", 0, 0.0354},
		{"more gain wanted", HintOptions{Cost: CostOptions{Enabled: true, MinGain: time.Millisecond, Coefficients: []CostCoefficients{table}}}, nil, nil, []string{"a"}, "cost", 0, 0.0354},
		{"nothing was observed", HintOptions{Cost: CostOptions{Enabled: true, MinConfidence: 0.1, Coefficients: []CostCoefficients{table}}}, nil, nil, []string{"a"}, "cost", 0, 0.0354},
		{"of another model", HintOptions{Cost: CostOptions{Enabled: true, Coefficients: []CostCoefficients{other}}}, nil, nil, []string{"a"}, "a/0 worker depth 4", hint.CostUnknown, 0},
		{"a policy that skips", HintOptions{Policy: skip}, nil, nil, []string{"a"}, "policy_skip", 0, 0},
		{"a policy that takes the second", HintOptions{Policy: func(o *hint.Offer) hint.Choice { return hint.FetchFrom(1) }}, nil, nil, []string{"a", "b"}, "b/0 worker depth 4", 0, 0},
		{"a policy that lets the default stand", HintOptions{Policy: func(o *hint.Offer) hint.Choice { return hint.Choice{} }}, nil, nil, []string{"a", "b"}, "a/0 worker depth 4", 0, 0},
		{"a policy that takes the third of two", HintOptions{Policy: func(o *hint.Offer) hint.Choice { return hint.FetchFrom(2) }}, nil, nil, []string{"a", "b"}, "policy_skip", 0, 0},
	}
	for _, tc := range cases {
		for _, ix := range indexes {
			t.Run(tc.name+"/"+ix.name, func(t *testing.T) {
				var log sharedLog
				e := openEngine(t, Options{NewIndex: ix.make, Hints: tc.options, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
				for _, id := range tc.ids {
					addWorker(t, e, id, "127.0.0.1", 1, dialects[1], hinted(func(h *HintConfig) { h.Link = tc.links[id] })).say(t, store(4, "GPU", ""))
					for range tc.loads[id] {
						if err := e.FetchStarted(id, 0); err != nil {
							t.Fatal(err)
						}
					}
				}
				addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], hinted()).say(t, store(1, "GPU", ""))
				for range 2 {
					h := ask(t, e, Target{Source: "t", MessageID: "m"})
					if got := outcome(h); got != tc.want || h.Note != tc.note {
						t.Errorf("%s, note %q; want %s, %q", got, h.Note, tc.want, tc.note)
					}
					if gain := 1e3 * h.Estimate.Gain(); math.Abs(gain-tc.gain) > 0.01*math.Abs(tc.gain)+1e-4 {
						t.Errorf("gain %.4f ms, want %.4f", gain, tc.gain)
					}
					if h.Eligible != len(tc.ids) && tc.want != "no_longer_source" {
						t.Errorf("%d sources might have served, want %d", h.Eligible, len(tc.ids))
					}
				}
				st := e.HintStatus()
				bad := strings.HasSuffix(tc.name, "third of two")
				if (st.BadChoices == 2) != bad || strings.Count(log.String(), "not offered") != btoi(bad) {
					t.Errorf("%d bad choices, log:\n%s", st.BadChoices, &log)
				}
				if st.Notes[hint.CostUnknown] != 2*uint64(tc.note) {
					t.Errorf("notes %v", st.Notes)
				}
			})
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestCostsAreLearnt: what was observed replaces what was configured, for every
// source on the link, and is trusted.
func TestCostsAreLearnt(t *testing.T) {
	e := openEngine(t, Options{Hints: HintOptions{Cost: CostOptions{Enabled: true, MinConfidence: 0.5}}})
	addWorker(t, e, "a", "127.0.0.1", 1, dialects[1], hinted()).say(t, store(4, "GPU", ""))
	addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], hinted()).say(t, event{clear: true})
	if h := ask(t, e, Target{Source: "t"}); outcome(h) != "a/0 worker depth 4" || h.Note != hint.CostUnknown {
		t.Fatalf("%s, note %q", outcome(h), h.Note)
	}
	learn := func(bytesPerSecond float64) {
		t.Helper()
		for i := range 60 {
			tokens := 64 * (1 + i%7)
			seconds := func(v float64) time.Duration { return time.Duration(v * 1e9) }
			if err := e.ObservePrefill("m", 0, tokens, 0, seconds(25e-6*float64(tokens))); err != nil {
				t.Fatal(err)
			}
			if err := e.ObserveTransfer("a", 0, tokens, int64(tokens)*100_000, 0, seconds(1e-3+float64(tokens)*100_000/bytesPerSecond)); err != nil {
				t.Fatal(err)
			}
		}
	}
	learn(12.5e9) // 192 tokens: 4.8 ms against 2.5
	if h := ask(t, e, Target{Source: "t"}); outcome(h) != "a/0 worker depth 4" || math.Abs(h.Estimate.Gain()-2.26e-3) > 2e-4 || h.Estimate.Confidence < 0.5 {
		t.Errorf("%s, estimate %+v", outcome(h), h.Estimate)
	}
	learn(1e9) // 20 ms
	if h := ask(t, e, Target{Source: "t"}); outcome(h) != "cost" || h.Best.Source != "a" || h.Estimate.Gain() > -0.01 {
		t.Errorf("%s of %+v, estimate %+v", outcome(h), h.Best, h.Estimate)
	}
	late := addWorker(t, e, "late", "127.0.0.1", 1, dialects[1], hinted())
	late.say(t, event{clear: true})
	for _, p := range e.HintStatus().Peers {
		if p.Source == "late" && (p.Cost.Bytes < 99_000 || p.Cost.Confidence < 0.5) {
			t.Errorf("a source that comes later knows %+v", p.Cost)
		}
	}
	for name, err := range map[string]error{
		"no model":       e.ObservePrefill("", 0, 1, 0, time.Second),
		"no tokens":      e.ObservePrefill("m", 1, 1, 0, time.Second),
		"no time":        e.ObserveTransfer("a", 0, 1, 1, 0, 0),
		"unknown source": e.ObserveTransfer("x", 0, 1, 1, 0, time.Second),
		"unknown rank":   e.FetchStarted("a", 9),
		"backlog":        e.SetPeerLoad("a", 0, PeerLoad{Backlog: math.NaN()}),
		"queue":          e.SetPeerLoad("a", 0, PeerLoad{Waiting: math.MaxInt}),
	} {
		if err == nil {
			t.Errorf("%s is taken in", name)
		}
	}
	if err := e.FetchEnded("x", 0); !errors.Is(err, ErrUnknownSource) {
		t.Errorf("%v", err)
	}
}

// TestBacklogOfTheTarget: a target that is busy gains more from a transfer.
func TestBacklogOfTheTarget(t *testing.T) {
	e := openEngine(t, Options{Hints: HintOptions{Cost: CostOptions{Enabled: true, Coefficients: []CostCoefficients{
		{PerToken: 10e-6, BytesPerToken: 100_000, BytesPerSecond: 10e9, Setup: time.Millisecond}}}}})
	addWorker(t, e, "a", "127.0.0.1", 1, dialects[1], hinted()).say(t, store(4, "GPU", ""))
	addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], hinted()).say(t, event{clear: true})
	if h := ask(t, e, Target{Source: "t"}); outcome(h) != "cost" { // 1.92 ms against 2.92
		t.Errorf("idle: %s", outcome(h))
	}
	if err := e.SetPeerLoad("t", 0, PeerLoad{Waiting: -1, Backlog: 1}); err != nil {
		t.Fatal(err)
	}
	if h := ask(t, e, Target{Source: "t"}); outcome(h) != "a/0 worker depth 4" {
		t.Errorf("busy: %s", outcome(h))
	}
}

// TestWidths: hints do not pass between TP widths that are known to differ.
func TestWidths(t *testing.T) {
	for _, tc := range []struct {
		name           string
		source, target int // TP of the hint configuration
		want           string
	}{{"equal", 2, 2, "a/0 worker depth 4"}, {"unequal", 2, 4, "ineligible{endpoint}"}, {"unknown at the target", 2, 0, "a/0 worker depth 4"}, {"unknown at the source", 0, 2, "a/0 worker depth 4"}} {
		t.Run(tc.name, func(t *testing.T) {
			e := openEngine(t, Options{})
			addWorker(t, e, "a", "127.0.0.1", 1, dialects[1], hinted(func(h *HintConfig) { h.TP = tc.source })).say(t, store(4, "GPU", ""))
			addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], hinted(func(h *HintConfig) { h.TP = tc.target })).say(t, event{clear: true})
			if got := outcome(ask(t, e, Target{Source: "t"})); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
	e := openEngine(t, Options{})
	addWorker(t, e, "a", "127.0.0.1", 2, dialects[1], hinted()).say(t, store(4, "GPU", ""))
	addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], hinted(func(h *HintConfig) { h.TP = 4 })).say(t, event{clear: true})
	if got := outcome(ask(t, e, Target{Source: "t"})); got != "ineligible{endpoint}" {
		t.Errorf("two listed shards to a target of four: %s", got)
	}
}

// TestEndpointsByRank: a rank's own endpoint is named where no stride gives it.
func TestEndpointsByRank(t *testing.T) {
	e := openEngine(t, Options{})
	w := addWorker(t, e, "a", "127.0.0.1", 1, dialects[1], func(s *Source) {
		s.Hint = &HintConfig{WorkerType: "agg", Endpoints: map[int]string{0: "tcp://10.0.0.1:5003"}}
	})
	w.say(t, store(4, "GPU", ""))
	addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], hinted()).say(t, event{clear: true})
	if h := ask(t, e, Target{Source: "t"}); h.Endpoint != "tcp://10.0.0.1:5003" {
		t.Errorf("%s at %q", outcome(h), h.Endpoint)
	}
	w.sendAs(t, 1, store(4, "GPU", ""), remove("GPU", "", chainNames...))
	w.sendAs(t, 0, remove("GPU", "", chainNames...))
	w.sendAs(t, 1, store(4, "GPU", ""))
	if h := ask(t, e, Target{Source: "t"}); outcome(h) != "ineligible{endpoint}" {
		t.Errorf("a rank nobody told an endpoint of: %s at %q", outcome(h), h.Endpoint)
	}
}

// TestCarrierOfTheTarget: the request is written as the target declared.
func TestCarrierOfTheTarget(t *testing.T) {
	for c := range hint.NumCarriers {
		t.Run(c.String(), func(t *testing.T) {
			e := openEngine(t, Options{})
			addWorker(t, e, "a", "127.0.0.1", 1, dialects[1], hinted()).say(t, store(4, "GPU", ""))
			addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], hinted(func(h *HintConfig) { h.Carrier = c.String() })).say(t, event{clear: true})
			h := ask(t, e, Target{Source: "t", MessageID: "req-42"})
			want := c.AppendRequest(nil, "req-42", "tcp://10.0.0.1:23280", chainNames, hint.Numbers)
			if got := h.AppendRequest(nil, hint.Numbers); h.Carrier != c || !bytes.Equal(got, want) {
				t.Errorf("%v\n got %s\nwant %s", h.Carrier, got, want)
			}
			m, found, err := hint.Find(want)
			if err != nil || found != c {
				t.Fatalf("read from %v: %v", found, err)
			}
			if diff := cmp.Diff(chainNames, m.FirstFetch().Names); diff != "" {
				t.Error(diff)
			}
			if bare := ask(t, e, Target{Source: "t", MessageID: "req-42", Bare: true}); len(bare.JSON) != 0 || !bytes.Equal(bare.AppendRequest(nil, hint.Numbers), want) {
				t.Errorf("bare: %s", bare.JSON)
			}
			if none := ask(t, e, Target{Source: "a"}); len(none.AppendRequest(nil, hint.Numbers)) != 0 {
				t.Errorf("without a hint the request carries %s", none.AppendRequest(nil, hint.Numbers))
			}
		})
	}
}

// TestHintStatus tells who takes part, and why others do not.
func TestHintStatus(t *testing.T) {
	e := openEngine(t, Options{})
	addWorker(t, e, "plain", "127.0.0.1", 1, dialects[1], hinted()).say(t, event{clear: true})
	addWorker(t, e, "mute", "127.0.0.1", 1, dialects[1], hinted(func(h *HintConfig) { h.Endpoint = "" })).say(t, event{clear: true})
	addWorker(t, e, "none", "127.0.0.1", 1, dialects[1], nil).say(t, event{clear: true})
	addWorker(t, e, "silent", "127.0.0.1", 1, dialects[1], hinted())
	addWorker(t, e, "agent", "127.0.0.1", 2, dialects[1], func(s *Source) { hinted()(s); s.Protocol = HiCacheV1 }).say(t, event{clear: true})
	var got []string
	for _, p := range e.HintStatus().Peers {
		got = append(got, fmt.Sprintf("%s %s target=%v serves=%v %s", p.Source, p.Domain, p.Target, p.Serves, p.WhyNot))
	}
	want := []string{
		"agent worker target=true serves=false state_agent",
		"agent cache_owner target=false serves=true ",
		"mute worker target=true serves=false endpoint",
		"none worker target=false serves=false role",
		"plain worker target=true serves=true ",
		"silent worker target=true serves=false connecting",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// TestNobodyIsSaidOnce: a model without hint-capable workers is one warning.
func TestNobodyIsSaidOnce(t *testing.T) {
	var log sharedLog
	e := openEngine(t, Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	addWorker(t, e, "a", "127.0.0.1", 1, dialects[1], nil).say(t, event{clear: true})
	for range 3 {
		if got := outcome(ask(t, e, Target{Source: "a"})); got != "no_capable_worker" {
			t.Errorf("%s", got)
		}
	}
	if n := strings.Count(log.String(), "no_capable_worker"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
}

func TestHintConfigIsChecked(t *testing.T) {
	base := func() Source {
		return Source{ID: "w", Model: "m", Endpoint: "tcp://10.0.0.1:5557", Ranks: 2, Hint: &HintConfig{WorkerType: "agg"}}
	}
	for _, tc := range []struct {
		name  string
		set   func(s *Source)
		field string
		want  string
	}{
		{"carrier", func(s *Source) { s.Hint.Carrier = "header" }, "hint.carrier", "kv_transfer_params.router_hint"},
		{"tp below 0", func(s *Source) { s.Hint.TP = -1 }, "hint.tp", "TP shards"},
		{"tp beside shards", func(s *Source) {
			s.Endpoint, s.Shards, s.Ranks, s.Hint.TP = "", []string{"tcp://h:1", "tcp://h:9"}, 1, 4
		}, "hint.tp", "2 of which"},
		{"a block of ports beyond the last", func(s *Source) { s.Hint.Endpoint, s.Hint.TP = "tcp://h:65530", 8 }, "hint.endpoint", "65538"},
		{"two ways to say it", func(s *Source) {
			s.Hint.Endpoint, s.Hint.Endpoints = "tcp://h:1", map[int]string{0: "tcp://h:1", 1: "tcp://h:2"}
		}, "hint.endpoint", "one endpoint, or one per dp rank"},
		{"a rank is missing", func(s *Source) { s.Hint.Endpoints = map[int]string{0: "tcp://h:1"} }, "hint.endpoints", "missing: 1"},
		{"a rank too many", func(s *Source) {
			s.Hint.Endpoints = map[int]string{0: "tcp://h:1", 1: "tcp://h:2", 2: "tcp://h:3"}
		}, "hint.endpoints[2]", "which has 2"},
		{"an endpoint nobody dials", func(s *Source) {
			s.Hint.Endpoints = map[int]string{0: "tcp://h:1", 1: "tcp://0.0.0.0:2"}
		}, "hint.endpoints[1]", "bind-only"},
		{"metadata beside a type", func(s *Source) { s.Hint.Metadata = `{"router_hint":true}` }, "hint.metadata", "stands beside worker_type"},
		{"metadata of one rank", func(s *Source) {
			s.Hint = &HintConfig{Metadata: `{"router_hint":true,"router_hint_worker_type":"decode","router_hint_source_control_endpoints":{"0":"tcp://h:1"}}`}
		}, "hint.metadata", "missing 1"},
		{"ports beside an endpoint", func(s *Source) { s.Hint.Endpoint, s.Hint.Ports = "tcp://h:1", &hint.Ports{Host: "h", Port: 1} }, "hint.ports", "stands beside endpoint"},
		{"ports beyond the last", func(s *Source) {
			s.Hint.Ports = &hint.Ports{SGLang: true, Host: "h", Port: 65534, TP: 8, DP: 2, DPAttention: true}
		}, "hint.ports", "dp rank 1: control port would be 65538"},
		{"ports of no engine that takes hints", func(s *Source) { s.Hint.Ports = &hint.Ports{Host: "h", Port: 1, PP: 2} }, "hint.ports", "pp_size 2"},
		{"a long link", func(s *Source) { s.Hint.Link = strings.Repeat("x", 300) }, "hint.link", "256"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := base()
			tc.set(&s)
			var f *FieldError
			if err := s.Validate(); !errors.As(err, &f) || f.Field != tc.field || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v does not say %s … %q", err, tc.field, tc.want)
			}
		})
	}
	s := base()
	s.Hint.Endpoints = map[int]string{0: "tcp://h:1", 1: "tcp://h:2"}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

// TestHintPartsFollow: what a worker publishes, and what an engine is set to,
// become endpoints and widths.
func TestHintPartsFollow(t *testing.T) {
	var log sharedLog
	e := openEngine(t, Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	add := func(id string, ranks int, h HintConfig) {
		t.Helper()
		s := Source{ID: id, Model: "m", Ranks: ranks, Endpoint: listen(t, "127.0.0.1", dialects[1]).pub.Addr(), Hint: &h}
		if ranks > 1 {
			s.Endpoint = "tcp://127.0.0.1:1"
		}
		if err := e.AddSource(patience(t), s); err != nil {
			t.Fatal(err)
		}
	}
	add("absent", 1, HintConfig{Metadata: `{"kv_cache_block_size":64}`})
	add("early", 1, HintConfig{Metadata: `{"router_hint":true}`})
	add("meta", 1, HintConfig{Metadata: `{"kv_hint.transfer.v1":true,"kv_hint_transfer_worker_type":"agg","kv_hint_transfer_source_control_endpoints":{"0":"tcp://10.0.0.7:23280"}}`})
	add("ports", 2, HintConfig{WorkerType: "decode", Ports: &hint.Ports{SGLang: true, Host: "10.0.0.7", Port: 23280, TP: 8, DP: 2, DPAttention: true}})
	var got []string
	for _, p := range e.HintStatus().Peers {
		got = append(got, fmt.Sprintf("%s/%d %s %s tp %d", p.Source, p.Rank, p.WorkerType, p.Endpoint, p.TP))
	}
	want := []string{
		"absent/0   tp 0",
		"early/0   tp 0",
		"meta/0 aggregated tcp://10.0.0.7:23280 tp 0",
		"ports/0 decode tcp://10.0.0.7:23280 tp 4",
		"ports/1 decode tcp://10.0.0.7:23284 tp 4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if n := strings.Count(log.String(), "declares no router_hint_worker_type"); n != 1 {
		t.Errorf("%d warnings about a worker without a type:\n%s", n, &log)
	}
}

func TestHintOptionsAreChecked(t *testing.T) {
	c := func(k ...CostCoefficients) HintOptions { return HintOptions{Cost: CostOptions{Coefficients: k}} }
	for name, o := range map[string]HintOptions{
		"hints.min_gain_blocks":                       {MinGainBlocks: -1},
		"hints.spread_window_blocks":                  {SpreadWindowBlocks: 2},
		"hints.cost.min_gain_seconds":                 {Cost: CostOptions{MinGain: -1}},
		"hints.cost.min_confidence":                   {Cost: CostOptions{MinConfidence: 1.5}},
		"hints.cost.coefficients[0].per_token":        c(CostCoefficients{PerToken: -1}),
		"hints.cost.coefficients[1].bytes_per_second": c(CostCoefficients{Model: "m"}, CostCoefficients{BytesPerSecond: math.Inf(1)}),
		"hints.cost.coefficients[1]":                  c(CostCoefficients{Model: "m"}, CostCoefficients{Model: "m"}),
		"hints.cost.coefficients[0].setup_seconds":    c(CostCoefficients{Setup: -1}),
		"hints.cost.coefficients[0].bytes_per_token":  c(CostCoefficients{BytesPerToken: math.NaN()}),
		"hints.cost.coefficients[0].per_position":     c(CostCoefficients{PerPosition: -1}),
	} {
		var f *FieldError
		if e, err := Open(Options{Hints: o}); !errors.As(err, &f) || f.Field != name {
			t.Errorf("%s: %v", name, err)
			if e != nil {
				e.Close(patience(t))
			}
		}
	}
}

// TestRoute: one call gives the answer and the hint that two would, from one
// view, and the choice is made from that answer.
func TestRoute(t *testing.T) {
	for _, ix := range indexes {
		t.Run(ix.name, func(t *testing.T) {
			e := openEngine(t, Options{NewIndex: ix.make})
			addWorker(t, e, "a", "127.0.0.1", 1, dialects[1], hinted()).say(t, store(4, "GPU", ""))
			addWorker(t, e, "b", "127.0.0.1", 1, dialects[1], hinted()).say(t, store(2, "GPU", ""))
			var a, want Answer
			var h HintAnswer
			last := func(a *Answer) Target {
				return Target{Source: a.Holders[len(a.Holders)-1].Source, MessageID: "req-42"}
			}
			if err := e.Route(prompt(), last, &a, &h); err != nil {
				t.Fatal(err)
			}
			two := ask(t, e, Target{Source: "b", MessageID: "req-42"})
			if err := e.Match(prompt(), &want); err != nil {
				t.Fatal(err)
			}
			for i := range want.Holders { // ages differ
				want.Holders[i].Freshness.Age, a.Holders[i].Freshness.Age = 0, 0
				want.Holders[i].Freshness.Lag, a.Holders[i].Freshness.Lag = 0, 0
			}
			if diff := cmp.Diff(want.Holders, a.Holders); diff != "" || len(a.Holders) != 2 || a.Tokens != 256 {
				t.Errorf("the answer, want -, got +:\n%s", diff)
			}
			if diff := cmp.Diff(*two, h); diff != "" || outcome(&h) != "a/0 worker depth 4" {
				t.Errorf("the hint, want -, got +:\n%s", diff)
			}
			if err := e.Route(&Query{Model: "x", Tokens: count(1, 9)}, last, &a, &h); !errors.Is(err, ErrUnknownModel) || h.Best != (Place{}) || len(a.Holders) != 0 {
				t.Errorf("an unknown model: %v, %+v", err, h)
			}
			st := e.Stats()
			if st.Matches != 2 || st.Hints[hint.Hinted] != 2 {
				t.Errorf("%d matches, %v hints are counted", st.Matches, st.Hints)
			}
		})
	}
}
