package engine

import (
	"slices"
	"time"
)

// survey is what a query has found when it looked at all holders of a model:
// those that the next ones must look at, too. While the count of changes is what
// it was, all others are visible, and empty where the walk does not meet them.
// So a query of a large fleet looks at the holders that have the prompt and at
// those that are in trouble. Immutable; replaced as a whole. Why that overlooks
// nothing stands at ingest.Changes.
type survey struct {
	changes   uint64
	unsettled []int32 // indices in modelView.holders
}

// withheld adds to the answer whose depths are withheld: of those that the walk
// has not met, these are not empty but unknown.
func (k *querier) withheld(e *Engine, m *modelView, now time.Time, a *Answer) {
	// Loaded behind the walk, and before a look at any stream.
	changes := e.changes.Load()
	known := k.survey != nil && k.survey.changes == changes
	k.unsettled = k.unsettled[:0]
	look := func(i int) {
		if k.settled(m, i) {
			return
		}
		k.unsettled = append(k.unsettled, int32(i))
		if k.slot[i] != 0 || k.visible(e, m, i, now) {
			return
		}
		k.noteAfter(m, i)
		k.freshen(e, m, i, now, a, &m.holders[i].answer(&a.Flagged).Freshness)
	}
	if known {
		for _, i := range k.survey.unsettled {
			look(int(i))
		}
	} else {
		for i := range m.holders {
			look(i)
		}
	}
	if !known || len(k.unsettled) < len(k.survey.unsettled) {
		m.survey.Store(&survey{changes, slices.Clone(k.unsettled)})
	}
}

// settled reports whether holder i of the model is visible, and stays so until
// the engine's count of changes moves.
func (k *querier) settled(m *modelView, i int) bool {
	h := m.holders[i]
	if h.rest != nil {
		return h.rest.state.answers()
	}
	for j, fd := range h.feeds {
		if !fd.settled(h.domain, k.before[int(m.first[i])+j]) {
			return false
		}
	}
	return true
}
