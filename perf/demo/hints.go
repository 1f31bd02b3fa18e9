package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/perf/fleet"
)

// reach is how many tokens of a prompt one holder can have had for a hint.
type reach struct {
	stream   int
	domain   fleet.Domain
	min, max int
	allowed  fleet.Allowed // in blocks of size
	size     int
}

// has reports whether the holder had that many tokens at some instant.
func (r *reach) has(tokens int) bool {
	return tokens%r.size == 0 && r.allowed.Match(tokens/r.size) != fleet.False
}

// hint judges a hint, or the reason for none, for a request that was routed to
// a target. What it says of the target and of a source must have been true
// within the intervals that it names; what it does not say, that nobody else
// could serve, is held against what may have been seen at the least.
func (j *judge) hint(model string, p *fleet.Prompt, t engine.Target, h *engine.HintAnswer) {
	j.tally.reasons[h.Reason].Add(1)
	j.tally.details[h.Detail].Add(1)
	want, certain := j.certain(model, t)
	switch {
	case certain != isCertain(h.Reason) || certain && h.Reason != want:
		j.tally.refute("hint for %s/%d of model %s: reason %q is not what the configuration gives (%q)", t.Source, t.Rank, model, h.Reason, want)
		return
	case certain:
		if len(h.Streams)+len(h.TargetStreams) > 0 {
			j.tally.refute("hint for %s/%d: reason %q rests on no stream, and names some", t.Source, t.Rank, h.Reason)
		}
		return
	}
	switch err := j.decision(model, p, t, h); {
	case errors.Is(err, fleet.ErrForgotten):
		j.tally.unjudged.Add(1)
	case err != nil:
		j.tally.refute("hint for %s/%d: %v", t.Source, t.Rank, err)
	case h.Reason == hint.Hinted:
		j.tally.hints.Add(1)
		j.tally.blocks.Add(uint64(len(h.Names)))
		if j.named.several() {
			j.tally.hintSpanning.Add(1)
		}
	}
}

// isCertain tells the reasons that follow from the configuration alone.
func isCertain(r hint.Reason) bool {
	return r != hint.Hinted && r != hint.NoLongerSource && r != hint.Ineligible
}

// certain returns the reason that follows from the configuration alone.
func (j *judge) certain(model string, t engine.Target) (hint.Reason, bool) {
	capable := slices.ContainsFunc(j.streams, func(s *stream) bool { return s.source.Model == model && s.source.Role != "" })
	switch i := j.index(t.Source, t.Rank); {
	case t.QueryOnly:
		return hint.NotAdmitted, true
	case !capable:
		return hint.NoCapableWorker, true
	case i < 0 || j.streams[i].source.Role == "":
		return hint.TargetIncapable, true
	}
	return hint.Hinted, false
}

// reach works out what a holder can have had for a hint within a span.
func (j *judge) reach(i int, d fleet.Domain, p *fleet.Prompt, in *span) (reach, error) {
	s := j.streams[i]
	a, err := j.truth.Truth(fleet.Holder{Source: s.source.ID, Rank: s.rank, Domain: d}, p, in.from, in.to)
	if err != nil {
		return reach{}, err
	}
	size, view := s.source.BlockSize, fleet.OnDeviceHost
	if d == fleet.CacheOwner {
		view = fleet.OnHost
	}
	v := &a[view]
	return reach{i, d, v.Min() * size, v.Max() * size, v.Clone(), size}, nil
}

// domains are those of a stream's source.
func (s *stream) domains() []fleet.Domain {
	if s.source.Pool {
		return []fleet.Domain{fleet.Worker, fleet.CacheOwner}
	}
	return []fleet.Domain{fleet.Worker}
}

// reaches works out what every holder of the model can have had while the
// query was under way, and the target's within what the answer names of it. A
// target of -1 is none.
func (j *judge) reaches(model string, p *fleet.Prompt, target int) ([]reach, error) {
	var out []reach
	for i, s := range j.streams {
		if s.source.Model != model {
			continue
		}
		in := &j.around[i]
		if i == target {
			in = &j.target
		}
		for _, d := range s.domains() {
			r, err := j.reach(i, d, p, in)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// decision judges what rests on residency.
func (j *judge) decision(model string, p *fleet.Prompt, t engine.Target, h *engine.HintAnswer) error {
	target := j.index(t.Source, t.Rank)
	if err := j.positions(target, h.TargetStreams, &j.target); err != nil {
		return fmt.Errorf("the target's %w", err)
	}
	rs, err := j.reaches(model, p, target)
	if err != nil {
		return err
	}
	if err := threshold(rs, target, h.ThresholdTokens); err != nil && !(j.lossy && h.ThresholdTokens == 0) {
		return fmt.Errorf("%w, batches %v to %v applied", err, j.target.from, j.target.to)
	}
	var best reach
	if h.Reason == hint.NoLongerSource {
		if h.Best != (engine.Place{}) || len(h.Streams) > 0 {
			return fmt.Errorf("%s, and yet it names %s/%d", h.Reason, h.Best.Source, h.Best.Rank)
		}
	} else if best, err = j.best(model, p, h); err != nil {
		return err
	}
	switch h.Reason {
	case hint.Hinted:
		return j.fetch(p, target, t, h, &best)
	case hint.Ineligible:
		switch bar := j.bar(&best, target); {
		case h.Best.Tokens <= h.ThresholdTokens || !best.has(h.Best.Tokens):
			return fmt.Errorf("ineligible: %s/%d/%s with %d tokens, true were %d to %d, threshold %d, batches %v to %v applied", h.Best.Source,
				h.Best.Rank, h.Best.Domain, h.Best.Tokens, best.min, best.max, h.ThresholdTokens, j.named.from, j.named.to)
		case h.Detail != bar:
			return fmt.Errorf("ineligible: %s/%d/%s because of %q, want %q", h.Best.Source, h.Best.Rank, h.Best.Domain, h.Detail, bar)
		}
	}
	if j.lossy {
		return nil // who could have served may be withheld, for what is missing
	}
	// No hint: nobody may have been able to serve all the time.
	for i := range rs {
		r := &rs[i]
		bar := j.bar(r, target)
		switch {
		case r.min <= h.ThresholdTokens:
		case h.Reason == hint.NoLongerSource:
			// So it is if a source was chosen, and the index then gave too few
			// of its names, which it may while things move. It is advice that
			// was not given, not a false one; how often is limited in the end.
			j.tally.missed.Add(1)
			return nil
		case bar == hint.NoDetail:
			return fmt.Errorf("%s, though %s/%d/%s held %d tokens at the least, threshold %d", h.Reason,
				j.streams[r.stream].source.ID, j.streams[r.stream].rank, r.domain, r.min, h.ThresholdTokens)
		}
	}
	return nil
}

// best works out what the place that an answer names can have had, within the
// interval that it names with it.
func (j *judge) best(model string, p *fleet.Prompt, h *engine.HintAnswer) (reach, error) {
	i, d := j.index(h.Best.Source, h.Best.Rank), domain(h.Best.Domain)
	if i < 0 || j.streams[i].source.Model != model {
		return reach{}, fmt.Errorf("source %s/%d does not exist", h.Best.Source, h.Best.Rank)
	}
	if !slices.Contains(j.streams[i].domains(), d) {
		return reach{}, fmt.Errorf("source %s has no pool", h.Best.Source)
	}
	if err := j.positions(i, h.Streams, &j.named); err != nil {
		return reach{}, fmt.Errorf("source %s/%d: %w", h.Best.Source, h.Best.Rank, err)
	}
	return j.reach(i, d, p, &j.named)
}

// missedShare is the largest share of missed hints among those that were due.
const missedShare = 0.02

// missing refutes a run that misses hints as a habit. A few may always be.
func (t *tally) missing() {
	missed, given := t.missed.Load(), t.hints.Load()
	if missed > 5 && float64(missed) > missedShare*float64(missed+given) {
		t.refute("%d hints missed, %d given: somebody held more all the time, and no source was named", missed, given)
	}
}

// threshold judges what the target is said to hold itself: the longer of its
// own and its pool's, each at some instant.
func threshold(rs []reach, target int, tokens int) error {
	least, hit := 0, false
	for i := range rs {
		if r := &rs[i]; r.stream == target {
			least, hit = max(least, r.min), hit || r.has(tokens)
		}
	}
	if tokens < least || !hit {
		return fmt.Errorf("threshold %d is not what the target held, %d tokens at the least", tokens, least)
	}
	return nil
}

// bar is what keeps a holder from serving a target, by the configuration.
func (j *judge) bar(r *reach, target int) hint.Detail {
	s, t := j.streams[r.stream], j.streams[target]
	switch {
	case s.source.Role != t.source.Role:
		return hint.DetailRole
	case s.source.HintEndpoint == "":
		return hint.DetailEndpoint
	case r.stream == target:
		return hint.DetailSelf
	case r.domain == fleet.Worker && s.source.Protocol != fleet.Framework:
		return hint.DetailStateAgent
	}
	return hint.NoDetail
}

// fetch judges a hint itself.
func (j *judge) fetch(p *fleet.Prompt, target int, t engine.Target, h *engine.HintAnswer, best *reach) error {
	s := j.streams[best.stream]
	if bar := j.bar(best, target); bar != hint.NoDetail {
		return fmt.Errorf("source %s/%d/%s may not serve: %s", s.source.ID, s.rank, best.domain, bar)
	}
	n := len(h.Names)
	if n*best.size <= h.ThresholdTokens || n*best.size != h.Best.Tokens || n != h.Best.Depth {
		return fmt.Errorf("%d names in blocks of %d, depth %d, %d tokens, threshold %d",
			n, best.size, h.Best.Depth, h.Best.Tokens, h.ThresholdTokens)
	}
	if err := message(t, h, endpoint(s)); err != nil {
		return err
	}
	for i, name := range h.Names {
		want, err := j.fleet.Name(s.source.ID, p, i+1)
		if err != nil || name != want {
			return fmt.Errorf("names[%d] is %d, %s calls that block %d (%v)", i, name, s.source.ID, want, err)
		}
	}
	// The names may be fewer than the depth was, but the blocks were all there
	// together, when the depth was taken.
	if n*best.size > best.max {
		return fmt.Errorf("%d names of %s/%d/%s, which held %d tokens at the most, batches %v to %v applied",
			n, s.source.ID, s.rank, best.domain, best.max, j.named.from, j.named.to)
	}
	if !best.has(n * best.size) {
		j.tally.cut.Add(1)
	}
	j.tally.domains[h.Best.Domain].Add(1)
	j.tally.named[best.stream].Add(1)
	return j.carry(p, h, best)
}

// carry works out what the fetch of a hint would have moved: what the source
// really holds now, of what the hint names, the target lacks, and an engine may
// restore, which must compute at least the last token itself.
func (j *judge) carry(p *fleet.Prompt, h *engine.HintAnswer, best *reach) error {
	restorable := (len(p.Tokens) - 1) / best.size * best.size
	want := min(h.Best.Tokens, restorable) - h.ThresholdTokens
	if want <= 0 {
		return nil
	}
	s := j.streams[best.stream]
	j.now.from = j.fleet.Published(j.now.from[:0], s.source.ID, s.rank)
	j.now.to = append(j.now.to[:0], j.now.from...)
	now, err := j.reach(best.stream, best.domain, p, &j.now)
	if err != nil {
		return err
	}
	served := max(0, min(want, now.min-h.ThresholdTokens))
	j.tally.fetched.Add(uint64(served))
	j.tally.refused.Add(uint64(want - served))
	return nil
}

// message checks that the JSON says what the answer says, read by the
// standard library.
func message(t engine.Target, h *engine.HintAnswer, endpoint string) error {
	var m struct {
		Version string `json:"protocol_version"`
		ID      string `json:"message_id"`
		Actions []struct {
			Type    string `json:"action_type"`
			Payload struct {
				Endpoint string   `json:"source_control_endpoint"`
				Names    []uint64 `json:"block_hashes"`
			} `json:"payload"`
		} `json:"actions"`
	}
	switch err := json.Unmarshal(h.JSON, &m); {
	case err != nil:
		return fmt.Errorf("message %q: %w", h.JSON, err)
	case m.Version != "0.1" || m.ID != t.MessageID || len(m.Actions) != 1 || m.Actions[0].Type != "kv.fetch":
		return fmt.Errorf("message %q is not the kv.fetch of %q", h.JSON, t.MessageID)
	case m.Actions[0].Payload.Endpoint != endpoint || h.Endpoint != endpoint:
		return fmt.Errorf("endpoint %q, want %q", h.Endpoint, endpoint)
	case !slices.Equal(m.Actions[0].Payload.Names, h.Names):
		return fmt.Errorf("message %q does not list the names %v", h.JSON, h.Names)
	}
	return nil
}

// endpoint is the control endpoint of a rank: one port each.
func endpoint(s *stream) string {
	base, port, _ := splitPort(s.source.HintEndpoint)
	return fmt.Sprintf("%s:%d", base, port+s.rank)
}

// splitPort cuts the port off an endpoint.
func splitPort(e string) (base string, port int, err error) {
	i := strings.LastIndexByte(e, ':')
	if i < 0 {
		return "", 0, fmt.Errorf("%q has no port", e)
	}
	port, err = strconv.Atoi(e[i+1:])
	return e[:i], port, err
}
