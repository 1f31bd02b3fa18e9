package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/perf/fleet"
	"github.com/cairn-kv/cairn/perf/pair"
)

// Summary is what a run showed.
type Summary struct {
	Seconds     float64 `json:"seconds"`
	Interrupted bool    `json:"interrupted"`
	Broken      string  `json:"broken,omitempty"` // what the fleet was told to falsify

	Engines   int `json:"engines"`
	Streams   int `json:"streams"`
	Owners    int `json:"owners"`
	Resident  int `json:"resident_blocks"` // (holder, tier, block) in the index
	Bytes     int `json:"index_bytes"`
	Published struct {
		Batches uint64  `json:"batches"`
		Events  uint64  `json:"events"`
		Rate    float64 `json:"events_per_second"`
		Stored  uint64  `json:"blocks_stored"`
		Evicted uint64  `json:"blocks_evicted"`
		Demoted uint64  `json:"blocks_demoted"`
		Copies  uint64  `json:"second_copies"`
		Holes   uint64  `json:"holes"`
		Cleared uint64  `json:"cache_resets"`
	} `json:"published"`

	// Repairs are what came of messages that were lost on the way.
	Repairs struct {
		Lost     uint64 `json:"batches_lost"`
		Cuts     uint64 `json:"connections_cut"`
		Whole    uint64 `json:"whole"` // repairs that brought everything
		Partial  uint64 `json:"partial"`
		Failed   uint64 `json:"failed"`
		Replayed uint64 `json:"batches_replayed"`
		Requests uint64 `json:"requests"`
		Tails    uint64 `json:"tails"` // losses that no later message showed
	} `json:"repairs"`

	Requests uint64  `json:"requests"`
	Rate     float64 `json:"requests_per_second"`
	Hit      float64 `json:"deepest_share"` // tokens held by the deepest holder, of all
	MatchP50 float64 `json:"match_p50_us"`
	MatchP99 float64 `json:"match_p99_us"`

	Answers struct {
		Judged   uint64 `json:"judged"`   // holders' parts of answers
		Spanning uint64 `json:"spanning"` // of them: interval spans several sequences
		Whole    uint64 `json:"figures_at_a_sequence"`
		Inside   uint64 `json:"figures_inside_a_batch"`
		Absent   uint64 `json:"absent_judged"`
		Bounds   uint64 `json:"judged_by_bounds"`
		Unjudged uint64 `json:"unjudged"`
		Withheld uint64 `json:"withheld"`
		AtRest   uint64 `json:"at_rest"`
	} `json:"answers"`
	Hints struct {
		True     uint64            `json:"true"`
		Spanning uint64            `json:"spanning"` // of them: the source's interval spans several sequences
		Cut      uint64            `json:"cut"`      // of them: fewer names came than the source ever held
		Missed   uint64            `json:"missed"`   // too few names came for a hint, while things moved
		Blocks   uint64            `json:"blocks_named"`
		Reasons  map[string]uint64 `json:"reasons"`
		Domains  map[string]uint64 `json:"domains"` // of the sources
		Sources  []Named           `json:"sources"` // most named first
	} `json:"hints"`
	// Fetches are what carrying out the hints at once would have moved.
	Fetches struct {
		Tokens  uint64 `json:"tokens"`
		Refused uint64 `json:"refused_tokens"` // that had gone by then
		Bytes   uint64 `json:"bytes"`
	} `json:"fetches"`

	False    uint64   `json:"false"`
	Examples []string `json:"false_examples,omitempty"`
	// Missing lists what the run would have to show to prove something, and
	// did not.
	Missing []string `json:"missing,omitempty"`
}

// summarize reads all counts.
func summarize(t *tally, f *fleet.Fleet, e *engine.Engine, took time.Duration) Summary {
	var s Summary
	s.Seconds = took.Seconds()
	s.Engines = len(f.Sources())
	es := e.Stats()
	s.Streams, s.Owners = es.Streams, es.Holders
	for _, sh := range es.Shards {
		s.Resident += sh.Residencies
		s.Bytes += sh.Bytes
	}
	fs := f.Stats()
	p := &s.Published
	p.Batches, p.Events, p.Rate = fs.Batches, fs.Events, float64(fs.Events)/took.Seconds()
	p.Stored, p.Evicted, p.Demoted = fs.Stored, fs.Evicted, fs.Demoted
	p.Copies, p.Holes, p.Cleared = fs.Copies, fs.Holes, fs.Cleared
	s.Repairs.Lost, s.Repairs.Cuts = fs.Lost, fs.Cuts
	s.repairs(e)
	s.Requests = t.requests.Load()
	s.Rate = float64(s.Requests) / took.Seconds()
	if n := t.tokens.Load(); n > 0 {
		s.Hit = float64(t.deepest.Load()) / float64(n)
	}
	s.MatchP50 = float64(t.latency.quantile(0.5)) / 1e3
	s.MatchP99 = float64(t.latency.quantile(0.99)) / 1e3
	a := &s.Answers
	a.Judged, a.Spanning, a.Absent, a.Bounds = t.answers.Load(), t.spanning.Load(), t.absent.Load(), t.bounds.Load()
	a.Whole, a.Inside = t.figures[fleet.Whole].Load(), t.figures[fleet.Inside].Load()
	a.Unjudged, a.Withheld, a.AtRest = t.unjudged.Load(), t.withheld.Load(), t.rest.Load()
	h := &s.Hints
	h.True, h.Spanning, h.Cut, h.Missed = t.hints.Load(), t.hintSpanning.Load(), t.cut.Load(), t.missed.Load()
	h.Blocks, h.Reasons = t.blocks.Load(), reasons(t)
	h.Domains = map[string]uint64{}
	for d := range t.domains {
		h.Domains[engine.Domain(d).String()] = t.domains[d].Load()
	}
	h.Sources = spread(t, f)
	s.Fetches.Tokens, s.Fetches.Refused = t.fetched.Load(), t.refused.Load()
	s.Fetches.Bytes = s.Fetches.Tokens * uint64(pair.Default.TokenBytes())
	s.False, s.Examples = t.falses.Load(), t.told()
	return s
}

// repairs adds up what the streams counted.
func (s *Summary) repairs(e *engine.Engine) {
	r := &s.Repairs
	for _, src := range e.Sources() {
		for _, st := range src.Streams {
			for _, c := range st.Counters {
				switch {
				case c.Name == "repairs" && c.Reason == "whole":
					r.Whole += c.Value
				case c.Name == "repairs" && c.Reason == "partial":
					r.Partial += c.Value
				case c.Name == "repairs_failed":
					r.Failed += c.Value
				case c.Name == "replayed_batches":
					r.Replayed += c.Value
				case c.Name == "replay_requests":
					r.Requests += c.Value
				case c.Name == "tails_lost":
					r.Tails += c.Value
				}
			}
		}
	}
}

// reasons lists the outcomes that were met.
func reasons(t *tally) map[string]uint64 {
	m := map[string]uint64{}
	for r := range hint.NumReasons {
		if n := t.reasons[r].Load(); n > 0 && r != hint.Hinted && r != hint.Ineligible {
			m[r.String()] = n
		}
	}
	for d := range hint.NumDetails {
		if n := t.details[d].Load(); n > 0 && d != hint.NoDetail {
			m["ineligible{"+d.String()+"}"] = n
		}
	}
	return m
}

// missing names what a run has to show and this one did not. What can occur
// follows from the fleet.
func (s *Summary) missing(sources []fleet.Source) {
	want := func(n uint64, what string) {
		if n == 0 {
			s.Missing = append(s.Missing, what)
		}
	}
	want(s.Answers.Spanning, "answers whose interval spans several sequences")
	want(s.Published.Evicted, "evictions")
	roles, plain, incapable, owned := map[string]bool{}, map[string]bool{}, false, false
	noEndpoint := false
	for _, src := range sources {
		plain[src.Model] = plain[src.Model] || src.Role != ""
	}
	for _, src := range sources {
		if src.Role != "" {
			roles[src.Role] = true
			noEndpoint = noEndpoint || src.HintEndpoint == ""
			owned = owned || src.Protocol != fleet.Framework
		} else if plain[src.Model] {
			incapable = true
		}
	}
	got := s.Hints.Reasons
	if len(roles) > 0 {
		want(s.Hints.True, "hints")
		want(got["no_longer_source"], "reason no_longer_source")
	}
	want(got["not_admitted"], "reason not_admitted")
	for _, c := range []struct {
		can    bool
		reason string
	}{{incapable, "target_incapable"}, {len(roles) > 1, "ineligible{role}"}, {noEndpoint, "ineligible{endpoint}"},
		{owned, "ineligible{state_agent}"}} {
		if c.can {
			want(got[c.reason], "reason "+c.reason)
		}
	}
	for _, capable := range plain {
		if !capable {
			want(got["no_capable_worker"], "reason no_capable_worker")
			break
		}
	}
}

// WriteText writes the summary for people.
func (s *Summary) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s "+format+"\n", append([]any{label}, args...)...)
	}
	fmt.Fprintf(&b, "\n%d engines, %d streams, %d owners; %.1f s", s.Engines, s.Streams, s.Owners, s.Seconds)
	if s.Interrupted {
		b.WriteString(", interrupted")
	}
	if s.Broken != "" {
		fmt.Fprintf(&b, ", broken on purpose: %s", s.Broken)
	}
	b.WriteString("\n")
	p, a := &s.Published, &s.Answers
	line("published", "%d events in %d batches, %.0f events/s", p.Events, p.Batches, p.Rate)
	line("", "%d blocks stored, %d evicted, %d demoted, %d second copies, %d holes, %d resets",
		p.Stored, p.Evicted, p.Demoted, p.Copies, p.Holes, p.Cleared)
	line("index", "%d residencies, %.1f MiB", s.Resident, float64(s.Bytes)/(1<<20))
	line("requests", "%d (%.0f/s), deepest holder has %.0f %% of the prompt", s.Requests, s.Rate, 100*s.Hit)
	line("match", "p50 %.1f µs, p99 %.1f µs, with all of this on the same cores", s.MatchP50, s.MatchP99)
	line("judged", "%d holders' answers, %d of them over several sequences, %d absent ones", a.Judged, a.Spanning, a.Absent)
	line("", "%d figures true at a sequence, %d inside a batch, %d prompts exact at rest", a.Whole, a.Inside, a.AtRest)
	if a.Unjudged+a.Bounds+a.Withheld > 0 {
		line("", "%d too old to judge, %d judged by bounds, %d withheld by their freshness", a.Unjudged, a.Bounds, a.Withheld)
	}
	if r := &s.Repairs; r.Lost+r.Cuts > 0 {
		line("repairs", "%d batches lost on the way, %d connections cut", r.Lost, r.Cuts)
		line("", "%d repairs brought everything, %d not; %d batches replayed in %d requests, %d lost tails found",
			r.Whole, r.Partial+r.Failed, r.Replayed, r.Requests, r.Tails)
	}
	h := &s.Hints
	line("hints", "%d true, naming %d blocks, %d of them over several sequences", h.True, h.Blocks, h.Spanning)
	line("", "names came short: %d hints cut, %d missed", h.Cut, h.Missed)
	line("", "sources: %d workers, %d cache owners", h.Domains["worker"], h.Domains["cache_owner"])
	for _, n := range h.Sources {
		line("", "%-28s %-8d %.0f %%", fmt.Sprintf("from %s/%d", n.Source, n.Rank), n.Hints, 100*n.Share)
	}
	for _, name := range sortedKeys(s.Hints.Reasons) {
		line("", "none: %-22s %d", name, s.Hints.Reasons[name])
	}
	line("fetches", "carried out at once: %.1f GB, %d tokens not computed again; %d tokens had gone",
		float64(s.Fetches.Bytes)/1e9, s.Fetches.Tokens, s.Fetches.Refused)
	line("false", "%d", s.False)
	for _, e := range s.Examples {
		line("", "%s", e)
	}
	for _, m := range s.Missing {
		line("missing", "%s: the run was too short to prove this", m)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
