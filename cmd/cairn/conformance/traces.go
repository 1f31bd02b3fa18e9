package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/tree"
)

// playTraces plays index traces: each alone, in every dialect that has words
// for it, twice with a clear between and a drop behind, after which the tables
// must be as they were; then all of them interleaved on one index, where no
// answer may change.
func playTraces(ctx context.Context, f *File, lines []line, o Options) error {
	var all []*trace
	for _, l := range lines {
		t, err := parseTrace(l)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	for d := range numDialects {
		if err := playAlone(ctx, f, all, d, o); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	if err := playTogether(ctx, f, all, o); err != nil {
		return fmt.Errorf("interleaved: %w", err)
	}
	return nil
}

// playing is one trace on its way through a rig.
type playing struct {
	*trace
	rig     *rig
	file    *File
	dialect dialect
	phase   string // for reports
	prefix  string // in front of its sources' names
	sources map[string]traceSource
	base    uint64 // bad events counted before this round
	alone   bool   // nobody else is on the index
	next    int    // step
}

func newPlaying(f *File, r *rig, t *trace, d dialect, prefix string) (*playing, error) {
	p := &playing{trace: t, rig: r, file: f, dialect: d, prefix: prefix, sources: map[string]traceSource{}}
	list, err := t.sources()
	for _, s := range list {
		p.sources[s.id] = s
	}
	return p, err
}

func playAlone(ctx context.Context, f *File, all []*trace, d dialect, o Options) (err error) {
	r, err := newRig(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for _, t := range all {
		if !t.speaks(d) {
			continue
		}
		p, err := newPlaying(f, r, t, d, "")
		if err != nil {
			return err
		}
		p.alone = true
		empty := r.total()
		for _, phase := range []string{"first round", "second round"} {
			p.phase = fmt.Sprintf("%s, %s", d, phase)
			if err := p.round(ctx); err != nil {
				return fmt.Errorf("%s, %s: %w", t.ID, phase, err)
			}
			if err := p.clear(ctx); err != nil {
				return fmt.Errorf("%s, clear: %w", t.ID, err)
			}
			p.baseline(ctx, "tables after the clear", empty, false)
		}
		for id := range p.sources {
			if err := r.drop(ctx, id); err != nil {
				return fmt.Errorf("%s, drop: %w", t.ID, err)
			}
		}
		p.baseline(ctx, "tables after the drop", empty, true)
	}
	return nil
}

func playTogether(ctx context.Context, f *File, all []*trace, o Options) (err error) {
	r, err := newRig(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	var players []*playing
	for i, t := range all {
		d := dialect(i) % numDialects
		if !t.speaks(d) {
			d = dialect(i) % sglangArray // both of vLLM's say everything
		}
		p, err := newPlaying(f, r, t, d, t.ID+"-")
		if err != nil {
			return err
		}
		p.phase = fmt.Sprintf("%s, interleaved", d)
		if err := p.begin(ctx); err != nil {
			return err
		}
		players = append(players, p)
	}
	for busy := true; busy; {
		busy = false
		for _, p := range players {
			if p.next == len(p.steps) {
				continue
			}
			busy = true
			if err := p.step(ctx); err != nil {
				return fmt.Errorf("%s: %w", p.ID, err)
			}
		}
	}
	return nil
}

// round plays all steps.
func (p *playing) round(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	for p.next < len(p.steps) {
		if err := p.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *playing) begin(ctx context.Context) error {
	p.next = 0
	for id := range p.sources {
		if err := p.attach(ctx, id); err != nil {
			return err
		}
	}
	p.base = p.rejected()
	return nil
}

// attach adds a source that is not there: a new one, or one that was dropped.
func (p *playing) attach(ctx context.Context, id string) error {
	if p.rig.sources[p.prefix+id] != nil {
		return nil
	}
	s := p.sources[id]
	policy := tree.Copies
	if p.Policy == "set" {
		policy = tree.Set
	}
	return p.rig.add(ctx, engine.Source{ID: p.prefix + id, Model: s.model, Ranks: s.ranks, Policy: policy, BlockSize: traceBlock})
}

// step plays the next operation.
func (p *playing) step(ctx context.Context) error {
	i := p.next
	p.next++
	s := &p.steps[i]
	p.file.Played++
	where := func(what string) string { return fmt.Sprintf("op %d %s (%s)", i, what, p.phase) }
	switch s.op {
	case "store", "remove", "clear":
		if err := p.attach(ctx, s.source); err != nil {
			return err
		}
		return p.rig.next(p.prefix+s.source, s.rank, p.dialect.batch(s.rank, s.event))
	case "drop":
		// Only what was sent before belongs to the source that goes.
		if err := p.settle(ctx); err != nil {
			return err
		}
		return p.rig.drop(ctx, p.prefix+s.source)
	case "query":
		if err := p.settle(ctx); err != nil {
			return err
		}
		got, err := p.ask(&s.query)
		if err != nil {
			return err
		}
		compare(p.file, s.line, p.ID, where("query"), renderDepths(s.expect), renderDepths(got))
	case "rejected":
		if err := p.settle(ctx); err != nil {
			return err
		}
		compare(p.file, s.line, p.ID, where("rejected"), uint64(s.n), p.rejected()-p.base)
	case "count":
		if !p.alone {
			p.file.skip("count while interleaved", "the index counts residencies of all sources together")
			return nil
		}
		if err := p.settle(ctx); err != nil {
			return err
		}
		compare(p.file, s.line, p.ID, where("count"), s.n, p.rig.total().Residencies)
	}
	return nil
}

// settle waits for the streams of the trace's own sources.
func (p *playing) settle(ctx context.Context) error {
	for id := range p.sources {
		src := p.rig.sources[p.prefix+id]
		if src == nil {
			continue // dropped
		}
		for rank := range src.feeds {
			if err := p.rig.settle(ctx, p.prefix+id, rank); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask returns the depths of the trace's sources, in index blocks.
func (p *playing) ask(q *prompt) (map[string][2]int, error) {
	a, err := p.rig.match(q.query(p.Block))
	if err != nil {
		return nil, err
	}
	got := map[string][2]int{}
	for _, h := range a.Holders {
		id, ours := strings.CutPrefix(h.Source, p.prefix)
		if !ours || h.Domain != hint.Worker {
			continue
		}
		depths := [2]int{h.Tokens.Device / p.Block, h.Tokens.Any / p.Block}
		if depths != [2]int{} {
			got[fmt.Sprintf("%s/%d", id, h.Rank)] = depths
		}
	}
	return got, nil
}

// query makes the engine's question of a prompt whose keys stand per block of
// the given size.
func (q *prompt) query(block int) *engine.Query {
	e := &engine.Query{Model: q.model, Tokens: q.tokens, Adapter: q.adapter, Salt: q.salt}
	for i, id := range q.keys {
		if id == nil {
			continue
		}
		if hash, ok := engine.MultimodalKey(*id); ok {
			e.Keys = append(e.Keys, engine.Key{Hash: hash, Offset: i * block, Length: block})
		}
	}
	return e
}

// rejected sums the bad events of the trace's sources.
func (p *playing) rejected() uint64 {
	n := uint64(0)
	for id := range p.sources {
		n += rejectedEvents(p.rig.status(p.prefix + id))
	}
	return n
}

// clear empties every source with an event on every rank.
func (p *playing) clear(ctx context.Context) error {
	for id, s := range p.sources {
		if p.rig.sources[p.prefix+id] == nil {
			continue
		}
		for rank := range s.ranks {
			if err := p.rig.next(p.prefix+id, rank, p.dialect.batch(rank, event{op: "clear"})); err != nil {
				return err
			}
		}
	}
	return p.settle(ctx)
}

// figures are what must be as before: everything that grows with blocks.
type figures struct{ Holders, Residencies, Waiting, Runs, Names, Links int }

// baseline checks that the tables are as they were. Memory of cleared holders
// comes back in steps of the writer, so it waits for the last of them.
func (p *playing) baseline(ctx context.Context, what string, empty tree.Stats, holders bool) {
	pick := func(s tree.Stats) figures {
		f := figures{s.Holders, s.Residencies, s.Waiting, s.Runs, s.Names, s.Links}
		if !holders {
			f.Holders = 0
		}
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, p.rig.options.patience)
	defer cancel()
	// If the time runs out, the comparison shows what is left.
	_ = p.rig.until(ctx, func() bool {
		now := p.rig.total()
		return now.Deferred == 0 && pick(now) == pick(empty)
	}, func() string { return what })
	compare(p.file, p.line, p.ID, fmt.Sprintf("%s (%s)", what, p.phase), pick(empty), pick(p.rig.total()))
}
