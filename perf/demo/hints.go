package demo

import (
	"encoding/json"
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
// a target.
func (j *judge) hint(model string, p *fleet.Prompt, t engine.Target, h *engine.HintAnswer) {
	j.tally.reasons[h.Reason].Add(1)
	j.tally.details[h.Detail].Add(1)
	want, certain := j.certain(model, t)
	if certain != isCertain(h.Reason) || certain && h.Reason != want {
		j.tally.refute("hint for %s/%d of model %s: reason %q is not what the configuration gives (%q)", t.Source, t.Rank, model, h.Reason, want)
		return
	}
	if certain {
		return
	}
	rs, ok := j.reaches(model, p)
	if !ok {
		return
	}
	if err := j.decision(rs, p, t, h); err != nil {
		j.tally.refute("hint for %s/%d: %v", t.Source, t.Rank, err)
		return
	}
	if h.Reason == hint.Hinted {
		j.tally.hints.Add(1)
		j.tally.blocks.Add(uint64(len(h.Names)))
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

// reaches works out what every holder of the model can have had.
func (j *judge) reaches(model string, p *fleet.Prompt) ([]reach, bool) {
	var out []reach
	for i, s := range j.streams {
		for d := fleet.Worker; d <= fleet.CacheOwner; d++ {
			if s.source.Model != model || d == fleet.CacheOwner && !s.source.Pool {
				continue
			}
			a, ok := j.allowed(fleet.Holder{Source: s.source.ID, Rank: s.rank, Domain: d}, p, j.around[i])
			if !ok {
				return nil, false
			}
			size, view := s.source.BlockSize, fleet.OnDeviceHost
			if d == fleet.CacheOwner {
				view = fleet.OnHost
			}
			v := &a[view]
			out = append(out, reach{i, d, v.Min() * size, v.Max() * size, v.Clone(), size})
		}
	}
	return out, true
}

// decision judges what rests on residency.
func (j *judge) decision(rs []reach, p *fleet.Prompt, t engine.Target, h *engine.HintAnswer) error {
	target := j.index(t.Source, t.Rank)
	if err := threshold(rs, target, h.ThresholdTokens); err != nil {
		return err
	}
	switch h.Reason {
	case hint.Hinted:
		return j.fetch(p, target, t, h)
	case hint.Ineligible:
		i := slices.IndexFunc(rs, func(r reach) bool { return j.is(&r, h.Best) })
		switch {
		case i < 0:
			return fmt.Errorf("ineligible: no holder %s/%d/%s", h.Best.Source, h.Best.Rank, h.Best.Domain)
		case h.Best.Tokens <= h.ThresholdTokens || !rs[i].has(h.Best.Tokens):
			return fmt.Errorf("ineligible: %s/%d/%s with %d tokens, true were %d to %d, threshold %d",
				h.Best.Source, h.Best.Rank, h.Best.Domain, h.Best.Tokens, rs[i].min, rs[i].max, h.ThresholdTokens)
		case h.Detail != j.bar(&rs[i], target):
			return fmt.Errorf("ineligible: %s/%d/%s because of %q, want %q",
				h.Best.Source, h.Best.Rank, h.Best.Domain, h.Detail, j.bar(&rs[i], target))
		}
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

// is reports whether the place is the holder.
func (j *judge) is(r *reach, at engine.Place) bool {
	s := j.streams[r.stream]
	return s.source.ID == at.Source && s.rank == at.Rank && r.domain == domain(at.Domain)
}

// fetch judges a hint itself.
func (j *judge) fetch(p *fleet.Prompt, target int, t engine.Target, h *engine.HintAnswer) error {
	i := j.index(h.Best.Source, h.Best.Rank)
	if i < 0 {
		return fmt.Errorf("source %s/%d does not exist", h.Best.Source, h.Best.Rank)
	}
	s := j.streams[i]
	d := domain(h.Best.Domain)
	r := reach{stream: i, domain: d}
	if d == fleet.CacheOwner && !s.source.Pool {
		return fmt.Errorf("source %s has no pool", s.source.ID)
	}
	if bar := j.bar(&r, target); bar != hint.NoDetail {
		return fmt.Errorf("source %s/%d/%s may not serve: %s", s.source.ID, s.rank, d, bar)
	}
	size := s.source.BlockSize
	if len(h.Names)*size <= h.ThresholdTokens || len(h.Names)*size != h.Best.Tokens || len(h.Names) != h.Best.Depth {
		return fmt.Errorf("%d names in blocks of %d, depth %d, %d tokens, threshold %d",
			len(h.Names), size, h.Best.Depth, h.Best.Tokens, h.ThresholdTokens)
	}
	if err := message(t, h, endpoint(s)); err != nil {
		return err
	}
	if around := &j.around[i]; h.Applied+1 < slices.Min(around.from) || h.Applied >= slices.Max(around.to) {
		return fmt.Errorf("names sequence %d, seen before were batches %v, published %v", h.Applied, around.from, around.to)
	}
	who := fleet.Holder{Source: s.source.ID, Rank: s.rank, Domain: d}
	for n, name := range h.Names {
		want, err := j.fleet.Name(s.source.ID, p, n+1)
		if err != nil || name != want {
			return fmt.Errorf("names[%d] is %d, %s calls that block %d (%v)", n, name, s.source.ID, want, err)
		}
		held, err := j.truth.Held(who, p, n, j.around[i].from, j.around[i].to)
		if err != nil {
			return err
		}
		if !held {
			return fmt.Errorf("names[%d] of %s was not there, batches %v to %v applied", n, who, j.around[i].from, j.around[i].to)
		}
	}
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
