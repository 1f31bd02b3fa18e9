package engine

import (
	"context"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// statsAfter bounds how long Stats waits for a busy writer.
const statsAfter = time.Second

// Stats gives the engine's own figures. The index figures come from its writers,
// between two batches; a writer that does not answer within a second, or a
// closed engine, leaves its entry zero.
func (e *Engine) Stats() Stats {
	st := Stats{Matches: e.stats.matches.Load(), Shards: make([]tree.Stats, len(e.shards))}
	for i := range st.Hints {
		st.Hints[i] = e.stats.hints[i].Load()
	}
	for i := 1; i < len(st.Ineligible); i++ {
		st.Ineligible[i] = e.stats.details[i].Load()
	}
	if v := e.view.Load(); v != nil {
		st.Revision = v.revision
		for _, m := range v.models {
			st.Holders += len(m.holders)
			for _, s := range m.sources {
				if !s.pool {
					st.Sources++
				}
				feeds := s.streams()
				st.Streams += len(feeds)
				for _, f := range feeds {
					stalls, stale := f.ringCounters()
					st.QueueStalls += stalls
					st.StaleDrops += stale
				}
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsAfter)
	defer cancel()
	for i, s := range e.shards {
		var got tree.Stats
		if s.writer.Do(ctx, func(w tree.Writer) { got = w.Stats() }) == nil {
			st.Shards[i] = got
		}
	}
	return st
}
