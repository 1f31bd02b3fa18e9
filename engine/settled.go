package engine

import "time"

// survey is what a query has found when it looked at all holders of a model.
// While the count of changes is what it was, all but the unsettled are visible,
// and empty where a walk does not meet them. So a query of a large fleet looks
// at the holders that have the prompt and at those that are in trouble.
// Immutable; replaced as a whole. Why that overlooks nothing stands at
// ingest.Changes.
type survey struct {
	changes   uint64
	unsettled []int32  // indices in modelView.holders
	exact     []uint64 // a bit for each: it is settled, and all its streams are exact
}

// isExact reports whether holder i was found exact.
func (s *survey) isExact(i int) bool { return s.exact[i>>6]>>(i&63)&1 != 0 }

// surveyed returns what is known of the holders of a model: what was when
// positions were noted, or else what the query finds itself, and leaves for the
// next ones. It is called behind the walk.
func (k *querier) surveyed(e *Engine, m *modelView) *survey {
	changes := e.changes.Load()
	if s := k.survey; s != nil && s.changes == changes {
		return s
	}
	return k.look(m, changes)
}

// look looks at all holders of a model. The count of changes was loaded before.
func (k *querier) look(m *modelView, changes uint64) *survey {
	s := &survey{changes: changes, exact: make([]uint64, (len(m.holders)+63)/64)}
	for i, h := range m.holders {
		settled, exact := k.settled(h, int(m.first[i]))
		if !settled {
			s.unsettled = append(s.unsettled, int32(i))
		}
		if exact {
			s.exact[i>>6] |= 1 << (i & 63)
		}
	}
	m.survey.Store(s)
	return s
}

// settled reports whether a holder is visible, and stays so until the engine's
// count of changes moves; exact whether all its streams are exact, too. Its
// streams' positions were noted from first on.
func (k *querier) settled(h *holder, first int) (settled, exact bool) {
	if h.rest != nil {
		return h.rest.state.answers(), false
	}
	exact = true
	for j, fd := range h.feeds {
		state, ok := fd.settled(h.domain, k.before[first+j])
		if !ok {
			return false, false
		}
		exact = exact && state == Exact
	}
	return true, exact
}

// withheld adds to the answer whose depths are withheld: of those that the walk
// has not met, these are not empty but unknown.
func (k *querier) withheld(e *Engine, m *modelView, s *survey, now time.Time, a *Answer) {
	better := false
	for _, i := range s.unsettled {
		i := int(i)
		if settled, _ := k.settled(m.holders[i], int(m.first[i])); settled {
			better = true // it has gone on to where it is
			continue
		}
		if k.slot[i] != 0 || k.visible(e, m, i, now) {
			continue
		}
		k.noteAfter(m, i)
		k.freshen(e, m, i, now, a, &m.holders[i].answer(&a.Flagged).Freshness, false)
	}
	if better {
		k.look(m, s.changes)
	}
}
