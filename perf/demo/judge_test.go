package demo

import (
	"slices"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/perf/fleet"
)

// bench is a fleet at rest, with one prompt of 8 blocks at engine w, in its
// own cache and in its pool, and its first 4 at engine r.
type bench struct {
	*judge
	prompt *fleet.Prompt
	other  *fleet.Prompt
}

func newBench(t *testing.T) *bench {
	t.Helper()
	f, err := fleet.New(fleet.Config{Engines: []fleet.Engine{
		{ID: "w", Model: "m", Dialect: fleet.VLLMMap, Protocol: fleet.Residency, BlockSize: 16, Device: 64, Pool: 64,
			Role: "aggregated", HintEndpoint: "tcp://127.0.0.1:7000"},
		{ID: "r", Model: "m", BlockSize: 16, Ranks: 2, Device: 64, Role: "aggregated", HintEndpoint: "tcp://127.0.0.1:8000"},
		{ID: "p", Model: "m", BlockSize: 16, Device: 64, Role: "prefill", HintEndpoint: "tcp://127.0.0.1:9000"},
		{ID: "n", Model: "m", BlockSize: 16, Device: 64},
		{ID: "z", Model: "other", BlockSize: 16, Device: 64},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{prompt: f.Prompt("", []uint32{1, 2, 3, 4}), other: f.Prompt("", []uint32{1, 2, 9, 9})}
	for _, s := range []struct {
		source string
		rank   int
		p      *fleet.Prompt
	}{{"w", 0, b.prompt}, {"r", 1, f.Prompt("", []uint32{1, 2})}, {"p", 0, f.Prompt("", []uint32{1})}, {"n", 0, b.prompt}} {
		if err := f.Submit(t.Context(), s.source, s.rank, s.p, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Quiesce(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.judge = newJudge(newCourt(f, &tally{}))
	return b
}

// at is the interval of a stream of which all is applied.
func (b *bench) at(source string, rank int) []engine.StreamPosition {
	n := b.fleet.Published(nil, source, rank)[0]
	if n == 0 {
		return []engine.StreamPosition{{}}
	}
	return []engine.StreamPosition{{Seq: n - 1, Applied: [2]uint64{n - 1, n - 1}, Any: [2]bool{true, true}}}
}

// honest is the right answer about the prompt.
func (b *bench) honest() *engine.Answer {
	a := &engine.Answer{Tokens: len(b.prompt.Tokens)}
	add := func(source string, rank int, d engine.Domain, device, host int) {
		at := b.at(source, rank)
		a.Holders = append(a.Holders, engine.HolderAnswer{Source: source, Rank: rank, Domain: d, BlockSize: 16,
			Tokens:    engine.Depths{Device: device, Host: host, Any: max(device, host), HostExtension: max(host-device, 0)},
			Freshness: engine.Freshness{State: engine.Exact, Seq: at[0].Seq, Applied: at[0].Applied, Streams: at}})
	}
	add("n", 0, hint.Worker, 128, 0)
	add("w", 0, hint.Worker, 128, 0)
	add("w", 0, hint.CacheOwner, 0, 128)
	add("r", 1, hint.Worker, 64, 0)
	add("p", 0, hint.Worker, 32, 0)
	return a
}

// judged judges an answer and returns what was false about it.
func (b *bench) judged(a *engine.Answer) []string {
	b.begin()
	b.end()
	b.answer("m", b.prompt, a)
	return b.tally.told()
}

func TestAnswersAreJudged(t *testing.T) {
	cases := []struct {
		name string
		lie  func(a *engine.Answer)
		want string // "": true after all
	}{
		{"the truth", func(*engine.Answer) {}, ""},
		{"one block more", func(a *engine.Answer) { a.Holders[3].Tokens.Device += 16 }, "80 tokens on device, true were 64 to 64"},
		{"one block less", func(a *engine.Answer) { a.Holders[3].Tokens.Any -= 16 }, "48 tokens on any"},
		{"part of a block", func(a *engine.Answer) { a.Holders[0].Tokens.Device -= 5 }, "123 tokens on device"},
		{"host instead of device", func(a *engine.Answer) { a.Holders[1].Tokens.Host = 128 }, "128 tokens on host"},
		{"the pool's blocks on the device", func(a *engine.Answer) { a.Holders[2].Tokens.Device = 128 }, "w/0/cache_owner: 128 tokens on device"},
		{"extension too long", func(a *engine.Answer) { a.Holders[3].Tokens.HostExtension = 16 }, "80 tokens on host_extension"},
		{"other block size", func(a *engine.Answer) { a.Holders[0].BlockSize = 32 }, "block size 32"},
		{"holder of another model", func(a *engine.Answer) { a.Holders[0].Source = "z" }, "no such holder"},
		{"rank that does not exist", func(a *engine.Answer) { a.Holders[0].Rank = 4 }, "no such holder"},
		{"pool that does not exist", func(a *engine.Answer) { a.Holders[0].Domain = hint.CacheOwner }, "no such holder"},
		{"twice", func(a *engine.Answer) { a.Holders = append(a.Holders, a.Holders[0]) }, "twice"},
		{"left out", func(a *engine.Answer) { a.Holders = a.Holders[1:] }, ""}, // nothing was seen of it: it may not have been applied
		{"nothing applied, and yet blocks", func(a *engine.Answer) {
			a.Holders[0].Freshness.Streams[0].Any = [2]bool{}
		}, "128 tokens on device, true were 0 to 0"},
		{"a sequence that was not published", func(a *engine.Answer) {
			f := &a.Holders[0].Freshness.Streams[0]
			f.Seq, f.Applied[1] = 999, 999
		}, "published"},
		{"a sequence that was not received", func(a *engine.Answer) { a.Holders[2].Freshness.Streams[0].Seq-- }, "received"},
		{"an interval turned round", func(a *engine.Answer) {
			a.Holders[0].Freshness.Streams[0].Any[1] = false
		}, "names batches"},
		{"a stream too few", func(a *engine.Answer) { a.Holders[0].Freshness.Streams = nil }, "0 intervals for 1 streams"},
		{"a restart", func(a *engine.Answer) { a.Holders[0].Freshness.Streams[0].Incarnation[1] = 1 }, "incarnations"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			a := b.honest()
			c.lie(a)
			expect(t, b.judged(a), c.want)
		})
	}
}

// expect wants one false answer that says something, or none.
func expect(t *testing.T, told []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(told) > 0:
		t.Errorf("the truth was refuted: %v", told)
	case want != "" && !strings.Contains(strings.Join(told, "\n"), want):
		t.Errorf("told %q, want it to say %q", told, want)
	}
}

// TestSeenIsNotUnseen shows that what one answer has seen binds all later
// ones.
func TestSeenIsNotUnseen(t *testing.T) {
	b := newBench(t)
	expect(t, b.judged(b.honest()), "")
	a := b.honest()
	a.Holders = a.Holders[1:]
	expect(t, b.judged(a), "n/0/worker: left out, though it held 128 tokens")

	b = newBench(t)
	expect(t, b.judged(b.honest()), "")
	a = b.honest()
	a.Holders[0].Freshness.Streams[0] = engine.StreamPosition{}
	expect(t, b.judged(a), "seen before were 1")
}

// TestWithheldIsNotAbsent: a holder whose depths are withheld need not have
// been empty.
func TestWithheldIsNotAbsent(t *testing.T) {
	b := newBench(t)
	expect(t, b.judged(b.honest()), "")
	a := b.honest()
	a.Flagged, a.Holders = a.Holders[:1], a.Holders[1:]
	expect(t, b.judged(a), "")
	if b.tally.withheld.Load() != 1 {
		t.Errorf("%d withheld", b.tally.withheld.Load())
	}
}

// fetchAnswer is the right hint about the prompt for a target that holds nothing.
func (b *bench) fetchAnswer(t *testing.T, target engine.Target) *engine.HintAnswer {
	t.Helper()
	h := &engine.HintAnswer{Endpoint: "tcp://127.0.0.1:7000", Streams: b.at("w", 0), TargetStreams: []engine.StreamPosition{{}},
		Best: engine.Place{Source: "w", Domain: hint.CacheOwner, Depth: 8, Tokens: 128, BlockSize: 16}}
	for i := range 8 {
		n, err := b.fleet.Name("w", b.prompt, i+1)
		if err != nil {
			t.Fatal(err)
		}
		h.Names = append(h.Names, n)
	}
	h.JSON = hint.AppendFetch(nil, "req-1", h.Endpoint, h.Names)
	if b.index(target.Source, target.Rank) >= 0 {
		h.TargetStreams = b.at(target.Source, target.Rank)
	}
	return h
}

func TestHintsAreJudged(t *testing.T) {
	rewrite := func(h *engine.HintAnswer) { h.JSON = hint.AppendFetch(nil, "req-1", h.Endpoint, h.Names) }
	none := func(r hint.Reason, d hint.Detail) func(b *bench, h *engine.HintAnswer) {
		return func(_ *bench, h *engine.HintAnswer) {
			at := h.TargetStreams
			if isCertain(r) {
				at = nil
			}
			*h = engine.HintAnswer{Reason: r, Detail: d, TargetStreams: at}
		}
	}
	ineligible := func(d hint.Detail, tokens int) func(b *bench, h *engine.HintAnswer) {
		return func(_ *bench, h *engine.HintAnswer) {
			*h = engine.HintAnswer{Reason: hint.Ineligible, Detail: d, ThresholdTokens: 32, Best: engine.Place{Source: "w", Tokens: tokens},
				Streams: h.Streams, TargetStreams: h.TargetStreams}
		}
	}
	to := func(source string, rank int) engine.Target {
		return engine.Target{Source: source, Rank: rank, MessageID: "req-1"}
	}
	r0 := to("r", 0)
	cases := []struct {
		name   string
		target engine.Target
		lie    func(b *bench, h *engine.HintAnswer)
		want   string
	}{
		{"the truth", r0, func(*bench, *engine.HintAnswer) {}, ""},
		{"fewer names than the depth", r0, func(_ *bench, h *engine.HintAnswer) {
			h.Names, h.Best.Depth, h.Best.Tokens = h.Names[:5], 5, 80
			rewrite(h)
		}, ""},
		{"a name of another engine", r0, func(b *bench, h *engine.HintAnswer) {
			h.Names[3], _ = b.fleet.Name("p", b.other, 8)
			rewrite(h)
		}, "names[3]"},
		{"names in another order", r0, func(_ *bench, h *engine.HintAnswer) { slices.Reverse(h.Names); rewrite(h) }, "names[0]"},
		{"a name more than there are", r0, func(_ *bench, h *engine.HintAnswer) {
			h.Names, h.Best.Depth, h.Best.Tokens = append(h.Names, 5), 9, 144
			rewrite(h)
		}, "names[8]"},
		{"depth without names", r0, func(_ *bench, h *engine.HintAnswer) { h.Names = h.Names[:7]; rewrite(h) }, "7 names"},
		{"the worker's blocks of a state agent", r0, func(_ *bench, h *engine.HintAnswer) { h.Best.Domain = hint.Worker }, "state_agent"},
		{"endpoint of another engine", r0, func(_ *bench, h *engine.HintAnswer) {
			h.Endpoint = "tcp://127.0.0.1:9000"
			rewrite(h)
		}, "endpoint"},
		{"message that says another thing", r0, func(_ *bench, h *engine.HintAnswer) { h.Names = slices.Clone(h.Names); h.Names[0]++ }, "does not list"},
		{"message of another request", engine.Target{Source: "r", MessageID: "req-2"}, func(*bench, *engine.HintAnswer) {}, "req-2"},
		{"no message", r0, func(_ *bench, h *engine.HintAnswer) { h.JSON = nil }, "message"},
		{"to itself", to("w", 0), func(_ *bench, h *engine.HintAnswer) { h.ThresholdTokens = 128 }, "may not serve: self"},
		{"wrong threshold", r0, func(_ *bench, h *engine.HintAnswer) { h.ThresholdTokens = 16 }, "threshold 16"},
		{"the target's pool is forgotten", to("w", 0), func(*bench, *engine.HintAnswer) {}, "threshold 0"},
		{"a sequence that was not published", r0, func(_ *bench, h *engine.HintAnswer) {
			h.Streams[0].Seq, h.Streams[0].Applied[1] = 99, 99
		}, "source w/0: stream 0: names batches"},
		{"the same of the target", r0, func(_ *bench, h *engine.HintAnswer) {
			h.TargetStreams[0] = engine.StreamPosition{Seq: 99, Applied: [2]uint64{0, 99}, Any: [2]bool{true, true}}
		}, "the target's stream 0: names batches"},
		{"no interval", r0, func(_ *bench, h *engine.HintAnswer) { h.Streams = nil }, "0 intervals for 1 streams"},
		{"no interval of the target", r0, func(_ *bench, h *engine.HintAnswer) { h.TargetStreams = nil }, "the target's 0 intervals"},
		{"names from before there were any", r0, func(_ *bench, h *engine.HintAnswer) { h.Streams[0] = engine.StreamPosition{} },
			"8 names of w/0/cache_owner, which held 0 tokens at the most"},
		{"a threshold from before there was any", to("p", 0), func(_ *bench, h *engine.HintAnswer) {
			ineligible(hint.DetailRole, 128)(nil, h)
			h.TargetStreams[0] = engine.StreamPosition{}
		}, "threshold 32 is not what the target held"},
		{"a depth from before there was any", to("p", 0), func(_ *bench, h *engine.HintAnswer) {
			ineligible(hint.DetailRole, 128)(nil, h)
			h.Streams[0] = engine.StreamPosition{}
		}, "with 128 tokens, true were 0 to 0"},
		{"nobody holds more, but here is who", r0, func(_ *bench, h *engine.HintAnswer) { h.Reason = hint.NoLongerSource }, "and yet it names w/0"},
		{"source that does not exist", r0, func(_ *bench, h *engine.HintAnswer) { h.Best.Source = "q" }, "does not exist"},
		{"pool that does not exist", r0, func(_ *bench, h *engine.HintAnswer) { h.Best.Source = "p" }, "no pool"},
		{"nobody holds more", r0, none(hint.NoLongerSource, 0), ""}, // nothing of them was seen yet
		{"not admitted", engine.Target{Source: "r", QueryOnly: true}, none(hint.NotAdmitted, 0), ""},
		{"not admitted, at some sequence", engine.Target{Source: "r", QueryOnly: true}, func(_ *bench, h *engine.HintAnswer) {
			*h = engine.HintAnswer{Reason: hint.NotAdmitted, TargetStreams: h.TargetStreams}
		}, "rests on no stream"},
		{"a hint for a question", engine.Target{Source: "r", QueryOnly: true}, func(*bench, *engine.HintAnswer) {}, "not_admitted"},
		{"not admitted, though it was", r0, none(hint.NotAdmitted, 0), "not_admitted"},
		{"no capable worker, though there are", r0, none(hint.NoCapableWorker, 0), "no_capable_worker"},
		{"index not local", r0, none(hint.IndexNotLocal, 0), "index_not_local"},
		{"incapable target", to("n", 0), none(hint.TargetIncapable, 0), ""},
		{"a hint for an incapable target", to("n", 0), func(*bench, *engine.HintAnswer) {}, "target_incapable"},
		{"ineligible without a holder", r0, none(hint.Ineligible, hint.DetailRole), "does not exist"},
		{"ineligible", to("p", 0), ineligible(hint.DetailRole, 128), ""},
		{"ineligible for another reason", to("p", 0), ineligible(hint.DetailStateAgent, 128), `want "role"`},
		{"ineligible with a wrong depth", to("p", 0), ineligible(hint.DetailRole, 144), "144 tokens"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			h := b.fetchAnswer(t, c.target)
			c.lie(b, h)
			b.begin()
			b.end()
			b.hint("m", b.prompt, c.target, h)
			expect(t, b.tally.told(), c.want)
			if cut := b.tally.cut.Load() == 1; cut != (c.name == "fewer names than the depth") {
				t.Errorf("counted as cut: %v", cut)
			}
		})
	}
}

// TestMissedHints: once the holders have been seen, saying that nobody may
// serve is false, and saying that nobody holds more is a miss, of which there
// may be few.
func TestMissedHints(t *testing.T) {
	target := engine.Target{Source: "r"}
	b := newBench(t)
	expect(t, b.judged(b.honest()), "")
	b.begin()
	b.end()
	none := &engine.HintAnswer{Reason: hint.NoLongerSource, TargetStreams: b.at("r", 0)}
	for range 5 {
		b.hint("m", b.prompt, target, none)
	}
	b.tally.missing()
	expect(t, b.tally.told(), "")
	b.hint("m", b.prompt, target, none)
	b.tally.missing()
	expect(t, b.tally.told(), "6 hints missed, 0 given")

	b = newBench(t)
	expect(t, b.judged(b.honest()), "")
	b.begin()
	b.end()
	b.hint("m", b.prompt, target, &engine.HintAnswer{Reason: hint.Ineligible, Detail: hint.DetailStateAgent,
		Best: engine.Place{Source: "w", Tokens: 128}, Streams: b.at("w", 0), TargetStreams: b.at("r", 0)})
	expect(t, b.tally.told(), "w/0/cache_owner held 128 tokens at the least")
}

// TestRest: at rest only the outcome of the plain rules is right.
func TestRest(t *testing.T) {
	b := newBench(t)
	for i, s := range b.streams {
		s.floor[0].Store(b.fleet.Published(nil, s.source.ID, s.rank)[0])
		b.around[i].to[0] = 0
	}
	b.begin()
	b.end()
	target := engine.Target{Source: "r", Rank: 1, MessageID: "req-1"}
	right := b.fetchAnswer(t, target)
	right.ThresholdTokens = 64
	if err := b.rest("m", b.prompt, target, right); err != nil {
		t.Errorf("the truth was refuted: %v", err)
	}
	for _, c := range []struct {
		name string
		lie  func(h *engine.HintAnswer)
	}{
		{"shorter than it could be", func(h *engine.HintAnswer) { h.Best.Tokens = 112 }},
		{"no hint", func(h *engine.HintAnswer) { h.Reason = hint.NoLongerSource }},
		{"wrong threshold", func(h *engine.HintAnswer) { h.ThresholdTokens = 48 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := *right
			c.lie(&h)
			if b.rest("m", b.prompt, target, &h) == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	for i := range 1000 {
		h.add(1000 * 1000) // 1 ms
		if i%50 == 0 {
			h.add(1000 * 1000 * 1000)
		}
	}
	if p := h.quantile(0.5); p < 1_000_000 || p > 1_130_000 {
		t.Errorf("p50 is %v", p)
	}
	if p := h.quantile(0.999); p < 1_000_000_000 || p > 1_130_000_000 {
		t.Errorf("p99.9 is %v", p)
	}
	if (&histogram{}).quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
}
