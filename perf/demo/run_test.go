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

func TestRunFindsNothingFalse(t *testing.T) {
	var out bytes.Buffer
	s, err := Run(t.Context(), Options{Duration: 3 * time.Second, Rest: 100}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for name, n := range map[string]uint64{"requests": s.Requests, "judged": s.Answers.Judged, "spanning": s.Answers.Spanning,
		"absent": s.Answers.Absent, "at rest": s.Answers.AtRest, "hints": s.Hints.True, "evicted": s.Published.Evicted,
		"events": s.Published.Events, "resident": uint64(s.Resident), "owners": uint64(s.Owners)} {
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
			s, err := Run(t.Context(), Options{Duration: 2 * time.Second, Break: mode, JSON: true}, &out)
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

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-time.After(300 * time.Millisecond)
		cancel()
	}()
	var out bytes.Buffer
	s, err := Run(ctx, Options{Duration: time.Hour}, &out)
	if err != nil || !s.Interrupted || s.Seconds > 30 {
		t.Errorf("%v, interrupted %v after %.1f s", err, s.Interrupted, s.Seconds)
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
		e, err := follow(ctx, sources)
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
