package registry

import (
	"fmt"
	"strings"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/validate"
)

// checkReplays judges the replay endpoints of all ranks: of every stream or of
// none, and a plain worker's on consecutive ports as its publishers are.
func (w *Worker) checkReplays() error {
	var p problems
	for i := range w.Ranks {
		r := &w.Ranks[i]
		at := fmt.Sprintf("ranks[%d].raw_replay_endpoint", i)
		if len(r.Replays) == 0 && (w.Protocol.Owned() || len(w.Ranks[0].Replays) == 0) {
			continue
		}
		if len(r.Replays) != len(r.Endpoints) {
			p.add(validate.DescriptorEndpoint, at, strings.Join(r.Replays, " "), fmt.Sprintf("rank %d has %d of them and %d raw endpoints", r.Rank, len(r.Replays), len(r.Endpoints)), "one for every raw endpoint, or none")
			continue
		}
		for s, ep := range r.Replays {
			field := at
			if len(r.Replays) > 1 {
				field = fmt.Sprintf("%ss[%d]", at, s)
			}
			if _, err := validate.Endpoint(field, ep); err != nil {
				p.note(err)
				continue
			}
			if w.Protocol.Owned() || s >= len(w.Ranks[0].Replays) {
				continue
			}
			if want, err := engine.RankEndpoint(w.Ranks[0].Replays[s], i); err == nil && want != ep {
				p.add(validate.EndpointPort, field, ep, fmt.Sprintf("rank %d of a plain worker answers %d ports above rank 0, which is %s", i, i, w.Ranks[0].Replays[s]), want)
			}
		}
	}
	return p.err()
}
