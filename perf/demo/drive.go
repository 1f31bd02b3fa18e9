package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/perf/fleet"
)

// adapter is the name under which some conversations run.
const adapter = "tuned"

// asker is the part of the engine that is asked; tests put lies before it.
type asker interface {
	Match(*engine.Query, *engine.Answer) error
	Hint(*engine.Query, engine.Target, *engine.HintAnswer) error
}

// asked is a prompt that was asked about.
type asked struct {
	model  string
	prompt *fleet.Prompt
	target engine.Target
}

// traffic is what the drivers share.
type traffic struct {
	*court
	engine asker
	trace  []fleet.Arrival
	limit  uint64 // requests, 0: none
	next   atomic.Uint64

	mu     sync.Mutex
	recent []asked // the last requests, a ring
	at     int
}

// driver makes requests, one after the other.
type driver struct {
	*traffic
	judge  *judge
	rng    *rand.Rand
	query  engine.Query
	answer engine.Answer
	hint   engine.HintAnswer
}

func (t *traffic) driver(seed uint64, i int) *driver {
	return &driver{traffic: t, judge: newJudge(t.court), rng: rand.New(rand.NewPCG(seed, uint64(i)))}
}

// run makes requests until ctx ends or the limit is reached.
func (d *driver) run(ctx context.Context) error {
	for ctx.Err() == nil {
		n := d.next.Add(1) - 1
		if d.limit > 0 && n >= d.limit {
			return nil
		}
		if err := d.request(ctx, n); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	return nil
}

// request takes one request all the way: match, choose a target, hint, judge
// both, send it off.
func (d *driver) request(ctx context.Context, n uint64) error {
	ids := d.trace[n%uint64(len(d.trace))].IDs
	turn := d.streams[n%uint64(len(d.streams))]
	name := ""
	if turn.source.Adapters && ids[len(ids)/2]%8 == 3 {
		name = adapter
	}
	p := d.fleet.Prompt(name, ids)
	model := turn.source.Model
	d.query = engine.Query{Model: model, Tokens: p.Tokens, Adapter: name}

	d.judge.begin()
	begun := time.Now()
	if err := d.engine.Match(&d.query, &d.answer); err != nil {
		return fmt.Errorf("demo: match: %w", err)
	}
	d.tally.latency.add(time.Since(begun))
	d.judge.end()
	d.judge.answer(model, p, &d.answer)
	d.tally.matches.Add(1)
	d.tally.tokens.Add(uint64(len(p.Tokens)))
	if len(d.answer.Holders) > 0 {
		d.tally.deepest.Add(uint64(d.answer.Holders[0].Tokens.Any))
	}

	t := d.choose(turn, n)
	d.judge.begin()
	if err := d.engine.Hint(&d.query, t, &d.hint); err != nil {
		return fmt.Errorf("demo: hint: %w", err)
	}
	d.judge.end()
	d.judge.hint(model, p, t, &d.hint)

	d.remember(asked{model, p, t})
	d.tally.requests.Add(1)
	return d.fleet.Submit(ctx, t.Source, t.Rank, p, d.rng.IntN(4))
}

// choose picks the target: half of the requests go where most of the prompt
// is, the others round the fleet, as load would have it. So peers come to hold
// more than targets do.
func (d *driver) choose(turn *stream, n uint64) engine.Target {
	t := engine.Target{Source: turn.source.ID, Rank: turn.rank, MessageID: "req-" + strconv.FormatUint(n, 10), QueryOnly: n%50 == 49}
	if len(d.answer.Holders) > 0 && d.rng.IntN(2) == 0 {
		t.Source, t.Rank = d.answer.Holders[0].Source, d.answer.Holders[0].Rank
	}
	return t
}

func (t *traffic) remember(a asked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recent[t.at] = a
	t.at = (t.at + 1) % len(t.recent)
}

// rest asks again about the last prompts, with all applied and nothing under
// way, and demands answers that are right to the block.
func (t *traffic) rest(ctx context.Context) error {
	j := newJudge(t.court)
	var a engine.Answer
	var h engine.HintAnswer
	for _, r := range t.recent {
		if r.prompt == nil || ctx.Err() != nil {
			continue
		}
		q := engine.Query{Model: r.model, Tokens: r.prompt.Tokens, Adapter: r.prompt.Adapter}
		// The floor is where all came to rest, so each interval is one
		// position.
		j.end()
		for i, s := range j.streams {
			for k := range s.floor {
				raise(&s.floor[k], j.around[i].to[k])
			}
		}
		j.begin()
		if err := t.engine.Match(&q, &a); err != nil {
			return fmt.Errorf("demo: match at rest: %w", err)
		}
		told := t.tally.falses.Load()
		j.answer(r.model, r.prompt, &a)
		if err := t.engine.Hint(&q, r.target, &h); err != nil {
			return fmt.Errorf("demo: hint at rest: %w", err)
		}
		if err := j.rest(r.model, r.prompt, r.target, &h); err != nil {
			t.tally.refute("at rest, hint for %s/%d: %v", r.target.Source, r.target.Rank, err)
		} else {
			j.hint(r.model, r.prompt, r.target, &h)
		}
		if t.tally.falses.Load() == told {
			t.tally.rest.Add(1)
		}
	}
	return nil
}
