package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
)

// TestFetchesAreCounted: a true hint counts for its source and domain, and its
// fetch for what the target lacks and an engine may restore.
func TestFetchesAreCounted(t *testing.T) {
	b := newBench(t)
	target := engine.Target{Source: "r", MessageID: "req-1"}
	b.begin()
	b.end()
	b.hint("m", b.prompt, target, b.fetchAnswer(t, target))
	expect(t, b.tally.told(), "")
	c := b.tally
	// 128 tokens in blocks of 16, of which the last is not restored.
	if c.domains[hint.CacheOwner].Load() != 1 || c.domains[hint.Worker].Load() != 0 || c.fetched.Load() != 112 || c.refused.Load() != 0 {
		t.Errorf("%d of workers, %d of owners, %d tokens fetched, %d refused", c.domains[0].Load(), c.domains[1].Load(), c.fetched.Load(), c.refused.Load())
	}
	if all := spread(c, b.fleet); len(all) != 1 || all[0] != (Named{Source: "w", Hints: 1, Share: 1}) {
		t.Errorf("named: %+v", all)
	}
	// A worker whose device is emptied holds nothing when the fetch comes.
	if err := b.fleet.Submit(t.Context(), "w", 0, b.other, 0); err != nil {
		t.Fatal(err)
	}
	lie := b.fetchAnswer(t, target)
	lie.Best.Tokens, lie.Names = 0, nil
	b.hint("m", b.prompt, target, lie)
	if len(b.tally.told()) == 0 || c.fetched.Load() != 112 {
		t.Error("a false hint counts as a fetch")
	}
}

// TestSummaryOfHints: the figures of a run's hints add up, and are printed.
func TestSummaryOfHints(t *testing.T) {
	var out bytes.Buffer
	s, err := Run(t.Context(), Options{Engines: small(), Requests: 700, Duration: time.Minute, Rest: 20}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	var named, domains uint64
	share := 0.0
	for i, n := range s.Hints.Sources {
		named, share = named+n.Hints, share+n.Share
		if i > 0 && n.Hints > s.Hints.Sources[i-1].Hints {
			t.Errorf("%+v stands behind %+v", n, s.Hints.Sources[i-1])
		}
	}
	for _, n := range s.Hints.Domains {
		domains += n
	}
	if named == 0 || named != s.Hints.True || domains != s.Hints.True || share < 0.999 || share > 1.001 {
		t.Errorf("%d hints, %d by source with shares of %.3f, %d by domain", s.Hints.True, named, share, domains)
	}
	if s.Fetches.Tokens == 0 || s.Fetches.Bytes != s.Fetches.Tokens*114_688 {
		t.Errorf("fetches: %+v", s.Fetches)
	}
	for _, want := range []string{"cache owners", "from ", "none: no_longer_source", "carried out at once: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary does not say %q:\n%s", want, &out)
		}
	}
}
