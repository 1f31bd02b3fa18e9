package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/perf/pair"
)

// Intervals between two states of the status.
const (
	liveEvery  = 250 * time.Millisecond
	plainEvery = 5 * time.Second
)

// status writes how the run goes.
type status struct {
	out    io.Writer
	live   bool
	ticker *time.Ticker // nil: no status
	t      *traffic
	e      *engine.Engine
	events uint64
	at     time.Time
}

func newStatus(o Options, out io.Writer, t *traffic, e *engine.Engine) *status {
	s := &status{out: out, live: o.Live, t: t, e: e, at: time.Now()}
	switch {
	case o.JSON:
	case o.Live:
		s.ticker = time.NewTicker(liveEvery)
	default:
		s.ticker = time.NewTicker(plainEvery)
	}
	return s
}

// tick is nil, and so never fires, without a status.
func (s *status) tick() <-chan time.Time {
	if s.ticker == nil {
		return nil
	}
	return s.ticker.C
}

// write writes one line; on a terminal, over the last one.
func (s *status) write(begun time.Time) {
	now := time.Now()
	events := s.t.fleet.Stats().Events
	es := s.e.Stats()
	blocks := 0
	for _, sh := range es.Shards {
		blocks += sh.Residencies
	}
	depth := 0.0
	if n := s.t.tally.tokens.Load(); n > 0 {
		depth = 100 * float64(s.t.tally.deepest.Load()) / float64(n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%3.0fs  %d owners  %d blocks  %.0f events/s  %d requests  depth %.0f%%  %d hints (%d of owners, %.1f GB)",
		now.Sub(begun).Seconds(), es.Holders, blocks, float64(events-s.events)/now.Sub(s.at).Seconds(),
		s.t.tally.requests.Load(), depth, s.t.tally.hints.Load(), s.t.tally.domains[hint.CacheOwner].Load(),
		float64(s.t.tally.fetched.Load())*float64(pair.Default.TokenBytes())/1e9)
	for _, r := range []hint.Reason{hint.NoLongerSource, hint.Ineligible, hint.TargetIncapable, hint.NoCapableWorker, hint.NotAdmitted} {
		if n := s.t.tally.reasons[r].Load(); n > 0 {
			fmt.Fprintf(&b, "  %s %d", r, n)
		}
	}
	fmt.Fprintf(&b, "  false %d", s.t.tally.falses.Load())
	s.events, s.at = events, now
	if s.live {
		_, _ = fmt.Fprintf(s.out, "\r\x1b[K%s", b.String())
		return
	}
	_, _ = fmt.Fprintln(s.out, b.String())
}

func (s *status) close() {
	if s.ticker == nil {
		return
	}
	s.ticker.Stop()
	if s.live {
		_, _ = fmt.Fprint(s.out, "\r\x1b[K")
	}
}
