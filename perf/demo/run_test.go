package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/perf/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is the default fleet with little room, so that few requests evict.
func small() []fleet.Engine {
	es := fleet.Default()
	for i := range es {
		e := &es[i]
		for _, n := range []*int{&e.Device, &e.Host, &e.Disk, &e.Pool, &e.PoolDisk} {
			*n /= 10
		}
		e.ResetEvery /= 20
	}
	return es
}

func TestRunFindsNothingFalse(t *testing.T) {
	var out bytes.Buffer
	s, err := Run(t.Context(), Options{Engines: small(), Requests: 1500, Duration: time.Minute, Rest: 100}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for name, n := range map[string]uint64{"requests": s.Requests, "judged": s.Answers.Judged, "spanning": s.Answers.Spanning,
		"absent": s.Answers.Absent, "at rest": s.Answers.AtRest, "hints": s.Hints.True, "evicted": s.Published.Evicted,
		"events": s.Published.Events, "resets": s.Published.Cleared, "resident": uint64(s.Resident), "owners": uint64(s.Owners)} {
		if n == 0 {
			t.Errorf("%s is 0: the run shows too little", name)
		}
	}
	if s.Answers.Unjudged > s.Answers.Judged/100 {
		t.Errorf("%d of %d could not be judged", s.Answers.Unjudged, s.Answers.Judged)
	}
	for _, w := range []string{"published", "judged", "hints", "false      0"} {
		if !strings.Contains(out.String(), w) {
			t.Errorf("the summary does not say %q:\n%s", w, &out)
		}
	}
	t.Logf("%s", &out)
}

func TestBreakageFails(t *testing.T) {
	for _, mode := range []fleet.Break{fleet.DropRemoves, fleet.Reorder} {
		t.Run([]string{"", "drop-removes", "reorder"}[mode], func(t *testing.T) {
			var out bytes.Buffer
			s, err := Run(t.Context(), Options{Engines: small(), Requests: 800, Duration: time.Minute, Break: mode, JSON: true}, &out)
			if !errors.Is(err, ErrFalse) || s.False == 0 || len(s.Examples) == 0 {
				t.Fatalf("%d false answers, error %v", s.False, err)
			}
			var read Summary
			if err := json.Unmarshal(out.Bytes(), &read); err != nil || read.False != s.False || read.Broken == "" {
				t.Errorf("JSON says %d false, broken %q: %v", read.False, read.Broken, err)
			}
		})
	}
}

// TestMissing: what a run has to show follows from its fleet.
func TestMissing(t *testing.T) {
	of := func(role, endpoint, protocol, model string) fleet.Source {
		return fleet.Source{ID: role + model, Model: model, Role: role, HintEndpoint: endpoint, Protocol: protocol}
	}
	everything := []fleet.Source{of("aggregated", "tcp://h:1", fleet.HiCache, "m"), of("aggregated", "", fleet.HiCache, "m"),
		of("prefill", "tcp://h:2", fleet.Framework, "m"), of("", "", fleet.Framework, "m"), of("", "", fleet.Framework, "plain")}
	for _, c := range []struct {
		name    string
		sources []fleet.Source
		want    []string
	}{
		{"all", everything, []string{"spans several", "evictions", "hints", "no_longer_source", "not_admitted",
			"target_incapable", "{role}", "{endpoint}", "{state_agent}", "no_capable_worker"}},
		{"no hints at all", everything[4:], []string{"spans several", "evictions", "not_admitted", "no_capable_worker"}},
		{"one role, no pool", []fleet.Source{of("decode", "tcp://h:1", fleet.Framework, "m")},
			[]string{"spans several", "evictions", "hints", "no_longer_source", "not_admitted"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Summary
			s.missing(c.sources)
			if len(s.Missing) != len(c.want) {
				t.Errorf("missing %q, want %q", s.Missing, c.want)
			}
			for _, w := range c.want {
				if !strings.Contains(strings.Join(s.Missing, "\n"), w) {
					t.Errorf("%q is not missing among %q", w, s.Missing)
				}
			}
			s = Summary{}
			s.Answers.Spanning, s.Published.Evicted, s.Hints.True = 1, 1, 1
			s.Hints.Reasons = map[string]uint64{"no_longer_source": 1, "not_admitted": 1, "target_incapable": 1, "no_capable_worker": 1,
				"ineligible{role}": 1, "ineligible{endpoint}": 1, "ineligible{state_agent}": 1}
			if s.missing(c.sources); len(s.Missing) > 0 {
				t.Errorf("a full run misses %q", s.Missing)
			}
		})
	}
}

// stopper is an output that interrupts the run at the first status.
type stopper struct {
	bytes.Buffer
	stop func()
}

func (s *stopper) Write(b []byte) (int, error) {
	s.stop()
	return s.Buffer.Write(b)
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &stopper{stop: cancel}
	s, err := Run(ctx, Options{Duration: time.Hour, Live: true}, out)
	if err != nil || !s.Interrupted || s.Requests == 0 {
		t.Errorf("%v, interrupted %v, %d requests", err, s.Interrupted, s.Requests)
	}
	if !strings.Contains(out.String(), "interrupted") || !strings.Contains(out.String(), "events/s") {
		t.Errorf("status or summary is missing:\n%s", out.String())
	}
	// The context is cancelled now: nothing gets going any more.
	if s, err = Run(ctx, Options{Duration: time.Hour}, &bytes.Buffer{}); err != nil || !s.Interrupted {
		t.Errorf("interrupted from the start: %v, %v", err, s.Interrupted)
	}
}

// liar answers like the engine, and now and then a little more.
type liar struct {
	*engine.Engine
	n, lies int
	hints   bool
}

func (l *liar) Match(q *engine.Query, a *engine.Answer) error {
	err := l.Engine.Match(q, a)
	if l.n++; !l.hints && l.n%10 == 0 && len(a.Holders) > 0 {
		l.lies++
		h := &a.Holders[len(a.Holders)-1]
		h.Tokens.Any += 4096 * h.BlockSize // deeper than any prompt
	}
	return err
}

func (l *liar) Hint(q *engine.Query, t engine.Target, h *engine.HintAnswer) error {
	err := l.Engine.Hint(q, t, h)
	if l.hints && h.Reason == hint.Hinted {
		l.lies++
		h.Names[0]++
	}
	return err
}

// TestLiesAreNotBelieved puts a liar between a sound engine and the judge.
func TestLiesAreNotBelieved(t *testing.T) {
	for _, hints := range []bool{false, true} {
		f, err := fleet.New(fleet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		sources, err := f.Start(ctx)
		if err != nil {
			t.Fatal(err)
		}
		e, err := follow(ctx, sources, engine.RepairOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.WaitSubscribers(ctx); err != nil {
			t.Fatal(err)
		}
		trace, err := fleet.Conversation(1000)
		if err != nil {
			t.Fatal(err)
		}
		l := &liar{Engine: e, hints: hints}
		tr := &traffic{court: newCourt(f, &tally{}), engine: l, trace: trace, limit: 400, recent: make([]asked, 1)}
		if err := tr.driver(1, 0).run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := tr.tally.falses.Load(); l.lies == 0 || n != uint64(l.lies) {
			t.Errorf("hints %v: %d lies, %d noticed: %v", hints, l.lies, n, tr.tally.told())
		}
		if err := errors.Join(e.Close(ctx), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
