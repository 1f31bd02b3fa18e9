package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/perf/fleet"
)

// ErrFalse: at least one answer was false.
var ErrFalse = errors.New("demo: false answers")

// settling bounds how long the end waits for everything to be applied.
const settling = 30 * time.Second

// Run runs the demo and writes to out: a status while it runs, a summary at
// the end, or, with Options.JSON, the summary alone. It returns when all it
// started has ended. The error is ErrFalse, wrapped with the count, if an
// answer was false; a cancelled ctx ends the run early and is no error.
func Run(ctx context.Context, o Options, out io.Writer) (Summary, error) {
	o.fill()
	trace, err := fleet.Conversation(0)
	if err != nil {
		return Summary{}, err
	}
	f, err := fleet.New(fleet.Config{Engines: o.Engines, Seed: o.Seed, Break: o.Break, Loss: o.Loss, Replay: o.replay()})
	if err != nil {
		return Summary{}, err
	}
	// The fleet outlives ctx, so that the end can still be judged.
	sources, err := f.Start(context.WithoutCancel(ctx))
	if err != nil {
		return Summary{}, err
	}
	e, err := follow(ctx, sources, o.repair())
	if err != nil {
		if ctx.Err() != nil {
			return Summary{Interrupted: true}, f.Close()
		}
		return Summary{}, errors.Join(err, f.Close())
	}
	s, err := drive(ctx, o, out, trace, f, e)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
	defer cancel()
	err = errors.Join(err, e.Close(closing), f.Close())
	if err != nil {
		return s, err
	}
	return s, finish(&s, o, out)
}

// finish writes the summary and turns false answers into an error.
func finish(s *Summary, o Options, out io.Writer) error {
	var err error
	if o.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(s)
	} else {
		err = s.WriteText(out)
	}
	if s.False > 0 {
		err = errors.Join(fmt.Errorf("%w: %d; the first: %s", ErrFalse, s.False, s.Examples[0]), err)
	}
	return err
}

// follow opens an engine on the fleet's sources.
func follow(ctx context.Context, sources []fleet.Source, repair engine.RepairOptions) (*engine.Engine, error) {
	e, err := engine.Open(engine.Options{Repair: repair})
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		es := engine.Source{ID: s.ID, Model: s.Model, Ranks: s.Ranks, Protocol: s.Protocol}
		if len(s.Endpoints) == 1 {
			es.Endpoint = s.Endpoints[0]
			if s.Replays != nil {
				es.Replay = s.Replays[0]
			}
		} else {
			es.Shards, es.ShardReplays = s.Endpoints, s.Replays
		}
		if s.Role != "" {
			es.Hint = &engine.HintConfig{WorkerType: s.Role, Endpoint: s.HintEndpoint}
		}
		if err := e.AddSource(ctx, es); err != nil {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
			defer cancel()
			return nil, errors.Join(err, e.Close(closing))
		}
	}
	return e, nil
}

// drive runs the traffic, then brings everything to rest and judges it there.
func drive(ctx context.Context, o Options, out io.Writer, trace []fleet.Arrival, f *fleet.Fleet, e *engine.Engine) (Summary, error) {
	if err := f.WaitSubscribers(ctx); err != nil {
		if ctx.Err() != nil {
			return Summary{Interrupted: true}, nil
		}
		return Summary{}, err
	}
	t := &traffic{court: newCourt(f, &tally{}), engine: e, trace: trace, limit: uint64(max(o.Requests, 0)), recent: make([]asked, o.Rest)}
	t.lossy = o.lossy()
	begun := time.Now()
	running, stop := context.WithTimeout(ctx, o.Duration)
	defer stop()
	failed := make(chan error, o.Drivers)
	for i := range o.Drivers {
		go func() { failed <- t.driver(o.Seed, i).run(running) }()
	}
	st := newStatus(o, out, t, e)
	var err error
	for left := o.Drivers; left > 0; {
		select {
		case e := <-failed:
			left--
			if e != nil {
				err = errors.Join(err, e)
				stop()
			}
		case <-st.tick():
			st.write(begun)
		}
	}
	st.close()
	took := time.Since(begun)
	interrupted := ctx.Err() != nil
	if err == nil && !interrupted {
		err = t.settle(ctx, e)
		interrupted = ctx.Err() != nil
	}
	t.tally.missing()
	s := summarize(t.tally, f, e, took)
	s.Interrupted = interrupted
	s.Broken = map[fleet.Break]string{fleet.DropRemoves: "drop-removes", fleet.Reorder: "reorder"}[o.Break]
	if !interrupted {
		s.missing(f.Sources())
	}
	if interrupted {
		return s, nil
	}
	return s, err
}

// settle waits until all that was published is applied, and judges answers at
// rest.
func (t *traffic) settle(ctx context.Context, e *engine.Engine) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	if err := t.fleet.Quiesce(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		behind := t.behind(e)
		if behind == "" {
			return errors.Join(t.whole(e), t.rest(ctx))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("demo: not all was applied in the end: %s: %w", behind, ctx.Err())
		}
	}
}

// behind describes a stream that has not applied all that was published, ""
// if there is none.
func (t *traffic) behind(e *engine.Engine) string {
	for _, s := range e.Sources() {
		for _, st := range s.Streams {
			want := t.fleet.Published(nil, s.ID, st.Rank)[st.TPShard]
			if want > 0 && (!st.Visible || st.Applied+1 < want) {
				return fmt.Sprintf("%s rank %d shard %d: sequence %d of %d, %s %s", s.ID, st.Rank, st.TPShard, st.Applied, want-1, st.State, st.LastError)
			}
		}
	}
	return ""
}

// whole checks that no stream lost anything: nothing was lost on the way, so
// one that says so, and withholds its answers or thins them, is wrong.
func (t *traffic) whole(e *engine.Engine) error {
	for _, s := range e.Sources() {
		for _, st := range s.Streams {
			if st.Visible && st.State != engine.Exact {
				return fmt.Errorf("demo: %s rank %d shard %d is %s (%s) in the end, though nothing was lost", s.ID, st.Rank, st.TPShard, st.State, st.Cause)
			}
		}
	}
	return nil
}

func sortedKeys(m map[string]uint64) []string { return slices.Sorted(maps.Keys(m)) }
