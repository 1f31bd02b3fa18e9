package engine

import (
	"slices"
	"time"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// Match finds what every holder of the query's model has of the prompt, and
// puts it into a, whose buffers are reused: a warm call allocates nothing. It
// takes no lock and waits for nobody, and may be called from any goroutine as
// long as each has an Answer of its own.
//
// The depths of a holder equal the truth at some sequence between
// Freshness.Applied[0] and [1]. Errors are ErrClosed, ErrUnknownModel and
// those of a query that contradicts itself.
func (e *Engine) Match(q *Query, a *Answer) error {
	a.Tokens, a.Holders, a.Flagged, a.positions = q.length(), a.Holders[:0], a.Flagged[:0], a.positions[:0]
	k, m, err := e.ask(q)
	if err != nil {
		return err
	}
	e.stats.matches.Add(1)
	k.answer(e, m, a)
	k.forget()
	e.queriers.put(k)
	return nil
}

// ask does what Match and Hint share: pin a view, hash, note positions, walk.
// The caller gives the querier back unless there is an error.
func (e *Engine) ask(q *Query) (*querier, *modelView, error) {
	v := e.view.Load()
	if v == nil {
		return nil, nil, ErrClosed
	}
	if err := q.check(); err != nil {
		return nil, nil, err
	}
	m := v.model(q.Model)
	if m == nil {
		return nil, nil, ErrUnknownModel
	}
	k := e.queriers.get()
	k.revision = v.revision
	if err := k.hash(m, q); err != nil {
		e.queriers.put(k)
		return nil, nil, err
	}
	k.note(m)
	k.walk(m)
	return k, m, nil
}

// answer turns findings into the caller's answer.
func (k *querier) answer(e *Engine, m *modelView, a *Answer) {
	k.sort()
	// Reserved in one piece, since answers point into it.
	a.positions = slices.Grow(a.positions, len(k.before))
	now := time.Now()
	for _, o := range k.order {
		f := &k.found[k.slot[uint32(o)]-1]
		h := m.holders[f.holder]
		ha := HolderAnswer{Source: h.src.spec.ID, Rank: h.rank, Domain: h.domain, BlockSize: h.blockSize()}
		ha.Freshness = k.freshness(e, m, int(f.holder), now, a)
		if !ha.Freshness.visible() {
			a.Flagged = append(a.Flagged, ha)
			continue
		}
		ha.Tokens = Depths{
			Device:        f.tokens[tree.ViewDevice],
			Host:          f.tokens[tree.ViewHost],
			Any:           f.tokens[tree.ViewAny],
			HostExtension: max(0, f.tokens[tree.ViewExtension]-f.tokens[tree.ViewDevice]),
		}
		a.Holders = append(a.Holders, ha)
	}
	// Those that were not met may be withheld instead of empty.
	for i, h := range m.holders {
		if k.slot[i] != 0 || k.visible(e, m, i, now) {
			continue
		}
		ha := HolderAnswer{Source: h.src.spec.ID, Rank: h.rank, Domain: h.domain, BlockSize: h.blockSize()}
		ha.Freshness = k.freshness(e, m, i, now, a)
		a.Flagged = append(a.Flagged, ha)
	}
}

// freshness describes holder i of the model. Its stream positions go into the
// answer's own memory.
func (k *querier) freshness(e *Engine, m *modelView, i int, now time.Time, a *Answer) Freshness {
	h := m.holders[i]
	var f Freshness
	start := len(a.positions)
	for j, fd := range h.feeds {
		before, after := k.before[int(m.first[i])+j], fd.applied()
		s := fd.status(h.domain, before)
		p := StreamPosition{
			Seq:         s.Seq,
			Applied:     [2]uint64{before.Seq, reach(after, &s)},
			Incarnation: [2]uint32{before.Incarnation, after.Incarnation},
			Any:         [2]bool{before.Any, after.Any || s.Received},
		}
		a.positions = append(a.positions, p)
		f.join(e, j == 0, &s, &p, now)
		if s.Received && (!after.Any || s.Seq > after.Seq) {
			f.Lag = max(f.Lag, max(0, s.Lag)+since(now, s.Message))
		}
	}
	f.Streams = a.positions[start:len(a.positions):len(a.positions)]
	return f
}

// reach is the last sequence of which a walk can have seen anything, given
// what was applied after it. A batch shows in after once it is wholly applied;
// the one behind it may have been under way. So it counts, if it was received:
// a stream notes what it receives before it hands it over.
func reach(after shard.Position, s *ingest.Status) uint64 {
	switch {
	case !after.Any:
		return s.Seq // the first batch of a history may have any sequence
	case s.Received && s.Seq != after.Seq:
		return after.Seq + 1
	}
	return after.Seq
}

// join adds one stream to a holder's freshness.
func (f *Freshness) join(e *Engine, first bool, s *ingest.Status, p *StreamPosition, now time.Time) {
	if state := State(s.State); first || worst(f.State, state) != f.State {
		f.State, f.Cause = state, string(s.Cause)
	}
	if first {
		f.Applied[0] = p.Applied[0]
	}
	f.Seq = max(f.Seq, s.Seq)
	f.Applied[0], f.Applied[1] = min(f.Applied[0], p.Applied[0]), max(f.Applied[1], p.Applied[1])
	f.Lag = max(f.Lag, s.Lag)
	f.Age = max(f.Age, since(now, s.Message))
	f.Epoch = max(f.Epoch, s.Epoch)
	f.Silent = f.Silent || e.silent(s, now)
	f.Hidden = f.Hidden || e.stale(s, now)
}

// visible reports whether depths may be shown.
func (f *Freshness) visible() bool { return f.State.answers() && !f.Hidden }

// visible is the same for holder i without building a Freshness.
func (k *querier) visible(e *Engine, m *modelView, i int, now time.Time) bool {
	h := m.holders[i]
	for j, fd := range h.feeds {
		s := fd.status(h.domain, k.before[int(m.first[i])+j])
		if !State(s.State).answers() || e.stale(&s, now) {
			return false
		}
	}
	return true
}
