package engine

import (
	"context"

	"github.com/cairn-kv/cairn/ingest"
)

// Dial makes the next link to a publisher: see ingest.Options.Dial. Each link is
// one connection to one process.
type Dial = func(ctx context.Context, h ingest.Hooks) (ingest.Link, error)

// AddLinked is AddSource for a source that is reached by other means than this
// package has: dial is asked once for each rank, and what it returns is called
// whenever the rank's stream needs a link, with Options.Backoff between. The
// source has neither endpoint nor shards, discovery or replay. Recorded, it is
// like one whose events are pushed.
func (e *Engine) AddLinked(ctx context.Context, s Source, dial func(rank int) Dial) error {
	s.Push = true
	if err := s.validate(e.opt.MaxRanks); err != nil {
		return err
	}
	return e.addSource(ctx, s, nil, func(f *feed) dialFunc {
		f.endpoint, f.linked = linkedEndpoint, true
		return dial(f.rank)
	})
}

// linkedEndpoint is the endpoint of a stream whose links are an embedder's, in
// logs and in Sources.
const linkedEndpoint = "linked"
