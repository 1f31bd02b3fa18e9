package demo

import (
	"fmt"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/perf/fleet"
)

// rest judges a decision when all is applied: what every holder has is known
// to the block, so the outcome of the plain rules is too. Only ties between
// cache owners are open, for their order rests on keys of the engine's own.
func (j *judge) rest(model string, p *fleet.Prompt, t engine.Target, h *engine.HintAnswer) error {
	if want, certain := j.certain(model, t); certain {
		if h.Reason != want {
			return fmt.Errorf("reason %q, want %q", h.Reason, want)
		}
		return nil
	}
	rs, err := j.reaches(model, p, -1)
	if err != nil {
		return err
	}
	target := j.index(t.Source, t.Rank)
	limit := 0
	for i := range rs {
		if rs[i].min != rs[i].max {
			return fmt.Errorf("%s/%d/%s is not at rest", j.streams[rs[i].stream].source.ID, j.streams[rs[i].stream].rank, rs[i].domain)
		}
		if rs[i].stream == target {
			limit = max(limit, rs[i].min)
		}
	}
	best, longest := -1, -1
	for i := range rs {
		at := &longest
		if j.bar(&rs[i], target) == hint.NoDetail {
			at = &best
		}
		if rs[i].min > limit && (*at < 0 || rs[i].min > rs[*at].min) {
			*at = i
		}
	}
	want, deepest := hint.NoLongerSource, 0
	switch {
	case best >= 0:
		want, deepest = hint.Hinted, rs[best].min
	case longest >= 0:
		want, deepest = hint.Ineligible, rs[longest].min
	}
	if h.Reason != want || h.Best.Tokens != deepest || h.ThresholdTokens != limit {
		return fmt.Errorf("reason %q with %d tokens over %d, want %q with %d over %d",
			h.Reason, h.Best.Tokens, h.ThresholdTokens, want, deepest, limit)
	}
	if want == hint.Hinted && h.Best.Domain == hint.CacheOwner {
		for i := range rs { // a worker comes before any pool of the same depth
			if r := &rs[i]; r.domain == fleet.Worker && r.min == deepest && j.bar(r, target) == hint.NoDetail {
				return fmt.Errorf("source is a pool, though worker %s holds as much", j.streams[r.stream].source.ID)
			}
		}
	}
	return nil
}
