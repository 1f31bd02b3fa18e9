package demo

import (
	"bytes"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/perf/fleet"
)

// TestRunWithLosses loses messages, cuts connections and lets replays lose some
// of what they bring, under load: no answer is false while that is made up for,
// and in the end nothing is missing.
func TestRunWithLosses(t *testing.T) {
	var out bytes.Buffer
	s, err := Run(t.Context(), Options{Engines: small(), Requests: 1000, Duration: time.Minute, Rest: 100, Seed: 5,
		Loss: fleet.Loss{Gap: 0.01, GapMax: 5, Cut: 0.004, Replay: 0.3}}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	r := &s.Repairs
	for name, n := range map[string]uint64{"lost": r.Lost, "cut": r.Cuts, "whole": r.Whole, "replayed": r.Replayed,
		"judged": s.Answers.Judged, "withheld": s.Answers.Withheld, "at rest": s.Answers.AtRest, "hints": s.Hints.True} {
		if n == 0 {
			t.Errorf("%s is 0: the run shows too little", name)
		}
	}
	if r.Partial != 0 || r.Failed != 0 {
		t.Errorf("%d repairs were partial, %d failed, though everything could be had", r.Partial, r.Failed)
	}
	t.Logf("%+v\n%s", *r, &out)
}
