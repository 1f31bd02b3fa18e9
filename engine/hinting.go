package engine

import (
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// Hint decides, for a request that was routed to t, whether a peer holds more
// of its prompt, and puts the kv.fetch message or the reason for none into h,
// whose buffers are reused: a warm call allocates nothing. It takes no lock
// and may be called from any goroutine as long as each has a HintAnswer of its
// own.
//
// A hint is advice, not a promise: a source that is fenced or evicts after the
// decision is not retracted. Errors are those of Match; an unknown target is
// the reason target_incapable.
func (e *Engine) Hint(q *Query, t Target, h *HintAnswer) error {
	h.reset()
	k, m, err := e.ask(q)
	if err != nil {
		return err
	}
	k.tell(e, m, q, t, h)
	return nil
}

// Route is Match and Hint in one, for routers that choose inside the process:
// the prompt is hashed once and the index walked once, and the hint rests on the
// same view and the same depths as the answer that the choice was made from.
// pick is called with the answer, on the caller's goroutine, and returns where
// the request goes; it must not call the engine with a or h. Everything else is
// as with Match and Hint: a warm call allocates nothing and takes no lock.
func (e *Engine) Route(q *Query, pick func(*Answer) Target, a *Answer, h *HintAnswer) error {
	a.Tokens, a.Holders, a.Flagged, a.positions = q.length(), a.Holders[:0], a.Flagged[:0], a.positions[:0]
	h.reset()
	k, m, err := e.ask(q)
	if err != nil {
		return err
	}
	e.stats.matches.Add(1)
	k.answer(e, m, a)
	t := pick(a)
	k.tell(e, m, q, t, h)
	return nil
}

// tell gives the hint, and the querier back.
func (k *querier) tell(e *Engine, m *modelView, q *Query, t Target, h *HintAnswer) {
	h.Revision = k.revision
	bad := k.hint(e, m, q, t, h)
	k.forget()
	e.queriers.put(k)
	e.count(q.Model, h, bad)
}

func (h *HintAnswer) reset() {
	*h = HintAnswer{JSON: h.JSON[:0], Names: h.Names[:0], Streams: h.Streams[:0], TargetStreams: h.TargetStreams[:0]}
}

// hint lays the candidates out, decides, and fetches the names. Whatever it says
// of the source and the target it says with the sequences that it rests on. It
// reports whether a policy chose what it was not offered.
func (k *querier) hint(e *Engine, m *modelView, q *Query, t Target, h *HintAnswer) (badChoice bool) {
	call := hint.Call{
		Admitted: !t.QueryOnly,
		Capable:  m.capable > 0,
		Local:    true, // we hold the events ourselves; a replica would not
		Length:   q.length(),
		Target:   hint.Target{Place: hint.Place{Source: t.Source, Rank: t.Rank}},
		Options:  e.selection.rule,
		Scratch:  &k.choice,
	}
	target := m.worker(t.Source, t.Rank)
	if target >= 0 && m.holders[target].src.hasRank(t.Rank) {
		hd := m.holders[target]
		call.Target.Role, call.Target.Width = hd.src.role, hd.candidate.Width
		call.Target.Backlog = hd.peer.slowness()
		h.Carrier = hd.src.carrier
		// Noted also where it holds nothing, for that was so at some sequence,
		// too. Its cache owner has the same streams, noted before no earlier and
		// after no later.
		k.noteAfter(m, target)
	}
	if call.Options.Spread || call.Options.Policy != nil {
		call.MessageID, call.Sample = t.MessageID, e.selection.sample(t.MessageID)
	}
	size := 0 // the target's block size
	if call.Admitted && call.Target.Role != hint.NotCapable {
		size = k.candidates(e, m, &call)
	}
	d := k.decide(e, m, &call)
	h.Reason, h.Detail, h.Note, h.Eligible, h.ThresholdTokens = d.Reason, d.Detail, d.Note, d.Eligible, d.Threshold
	switch d.Reason {
	case hint.Hinted, hint.NoLongerSource, hint.Ineligible, hint.PolicySkip, hint.Cost:
		h.TargetApplied, h.TargetCause, h.TargetStreams = k.interval(m, target, h.TargetStreams)
	}
	if d.Best < 0 {
		h.Threshold = blocks(d.Threshold, size)
		return d.BadChoice
	}
	c := &call.Candidates[d.Best]
	source := k.holderOf(d.Best)
	hd := m.holders[source]
	size = hd.blockSize()
	h.Threshold, h.Estimate = blocks(d.Threshold, size), c.Estimate
	h.Best = Place{Source: hd.src.spec.ID, Rank: hd.rank, Domain: hd.domain,
		Depth: blocks(d.Depth, size), Tokens: d.Depth, BlockSize: size}
	if d.Reason != hint.Hinted {
		if k.at[d.Best] < 0 {
			k.noteAfter(m, source) // the walk did not meet it
		}
		h.Applied, h.Cause, h.Streams = k.interval(m, source, h.Streams)
		return false
	}
	enough := false
	for try := 0; try < nameTries && !enough; try++ {
		h.Best.Depth, h.Best.Tokens = blocks(d.Depth, size), d.Depth
		if at := k.at[d.Best]; at < 0 {
			k.nameRange(m, k.ranged.spans[^at], hd, c, h)
		} else {
			k.name(m, &k.found[at], hd, h)
		}
		enough = call.Enough(c, h.Best.Tokens, d.Threshold)
	}
	k.noteAfter(m, source) // the names were read after the walk
	if !enough || !k.mayServe(e, m, source) {
		// The index gave fewer names than the depth promised, and what is left
		// is no gain for the target; or they are those of a source that lost
		// something or was replaced behind the walk.
		h.Reason, h.Best, h.Start, h.Names, h.Estimate = hint.NoLongerSource, Place{}, 0, h.Names[:0], hint.Estimate{}
		return false
	}
	h.Applied, h.Cause, h.Streams = k.interval(m, source, h.Streams)
	h.Endpoint, h.MessageID = hd.candidate.Endpoint, t.MessageID
	if !t.Bare {
		h.JSON = hint.AppendFetch(h.JSON, t.MessageID, h.Endpoint, h.Names)
	}
	hd.peer.hinted.Add(1)
	return false
}

// nameTries is how often names are asked for when too few come for a hint: that
// a writer changed a neighbour's blocks in the same moment is no reason to miss
// one.
const nameTries = 4

// candidates lays out the holders that were found, as far as they can matter:
// what the target holds itself, and who holds more. Whether freshness lets these
// be sources is left to decide. It returns the target's block size, 0 if nothing
// of it was found.
func (k *querier) candidates(e *Engine, m *modelView, call *hint.Call) (size int) {
	now := time.Now()
	k.cands, k.at = k.cands[:0], k.at[:0]
	held := 0
	for i := range k.found {
		f := &k.found[i]
		hd := m.holders[f.holder]
		if !hd.owns(call.Target.Place) {
			continue
		}
		size = max(size, hd.blockSize())
		if !k.visible(e, m, int(f.holder), now) {
			continue // what is withheld is not held
		}
		depth := f.tokens[hd.hintView()]
		k.candidate(call, m, i, depth)
		if hd.domain == hint.Worker || hd.candidate.Projected {
			held = max(held, depth)
		}
	}
	for i := range k.found {
		f := &k.found[i]
		hd := m.holders[f.holder]
		if depth := f.tokens[hd.hintView()]; depth > held && !hd.owns(call.Target.Place) {
			k.candidate(call, m, i, depth)
		}
	}
	if call.Options.Ranges {
		k.ranges(e, m, call, held)
	}
	call.Candidates = k.cands
	return size
}

// owns reports whether what the holder has is a place's own: its worker's, or
// that of the cache owner that is attached to it.
func (h *holder) owns(at hint.Place) bool {
	if h.domain == hint.CacheOwner {
		return h.candidate.Attached && h.candidate.AttachedTo == at
	}
	return h.candidate.Place == at
}

// candidate lays out one finding.
func (k *querier) candidate(call *hint.Call, m *modelView, i, depth int) {
	k.at = append(k.at, int32(i))
	k.layOut(call, m.holders[k.found[i].holder], depth)
}

// layOut adds a holder to the candidates.
func (k *querier) layOut(call *hint.Call, hd *holder, depth int) *hint.Candidate {
	k.cands = append(k.cands, hd.candidate)
	c := &k.cands[len(k.cands)-1]
	c.Depth, c.BlockSize = depth, hd.blockSize()
	if call.Options.Spread || call.Options.Cost || call.Options.Policy != nil {
		c.Load = hd.peer.load()
		c.Cost = hd.peer.cost.coefficients()
	}
	return c
}

// holderOf is the holder of candidate i, as an index in the model's.
func (k *querier) holderOf(i int) int {
	if at := k.at[i]; at < 0 {
		return int(k.ranged.spans[^at].holder)
	}
	return int(k.found[k.at[i]].holder)
}

// eager is how many sources are judged by their freshness one after the other,
// before all are.
const eager = 4

// decide decides. By the plain rule one source matters, so freshness is asked
// of the one that is chosen, and again of the next if it may not serve. Where
// sources compete it is asked of all beforehand.
func (k *querier) decide(e *Engine, m *modelView, call *hint.Call) hint.Decision {
	if !call.Options.Spread && !call.Options.Cost && call.Options.Policy == nil {
		for range eager {
			d := hint.Decide(call)
			if d.Best < 0 {
				return d
			}
			c := &call.Candidates[d.Best]
			if c.Hidden = k.hidden(e, m, d.Best); !c.Hidden {
				return d
			}
		}
	}
	for i := range call.Candidates {
		call.Candidates[i].Hidden = k.hidden(e, m, i)
	}
	return hint.Decide(call)
}

// hidden reports whether freshness keeps candidate i from being a source.
func (k *querier) hidden(e *Engine, m *modelView, i int) bool {
	return !k.mayServe(e, m, k.holderOf(i))
}

// interval appends the positions of holder i's streams, and joins them; cause is
// that of the worst.
func (k *querier) interval(m *modelView, i int, to []StreamPosition) (applied [2]uint64, cause string, _ []StreamPosition) {
	h := m.holders[i]
	if h.rest != nil {
		return h.rest.interval(to)
	}
	var state State
	for j, fd := range h.feeds {
		at := m.streamsOf(i) + j
		s := fd.status(h.domain, k.before[at])
		p := k.position(at, s.Seq)
		p.join(j == 0, &applied)
		if of := State(s.State); j == 0 || worst(state, of) != state {
			state, cause = of, string(s.Cause)
		}
		to = append(to, p)
	}
	return applied, cause, to
}

// name fetches the source's block names, and cuts the depth to what came.
func (k *querier) name(m *modelView, f *finding, hd *holder, h *HintAnswer) {
	w := m.walks[f.walk]
	r := k.readers[w.shard]
	if k.last(m, w.shard) != int(f.walk) {
		r.Match(w.root, k.hashes[w.unit]) // names belong to a reader's last walk
	}
	unit := m.units[w.unit].unit
	h.Names = r.Names(h.Names[:0], hd.id, hd.hintView(), int(f.units))
	// A name covers a block of the source, which is at least one unit; of mixed
	// sizes only that much is certain.
	size := unit
	if hd.uniform() {
		size = max(unit, h.Best.BlockSize)
	}
	h.Best.Tokens = min(h.Best.Tokens, len(h.Names)*size)
	h.Best.Depth = blocks(h.Best.Tokens, h.Best.BlockSize)
}

// last returns the walk that a shard's reader made last in this query.
func (k *querier) last(m *modelView, shard int) int {
	last := -1
	for i, w := range m.walks {
		if w.shard == shard && len(k.hashes[w.unit]) > 0 {
			last = i
		}
	}
	return last
}

// hintView is the view that counts for hints: the framework's fast tiers for a
// worker; for a cache owner the host alone, and contiguous there.
func (h *holder) hintView() tree.View {
	if h.domain == hint.CacheOwner {
		return tree.ViewHost
	}
	return tree.ViewDeviceHost
}

// exact is whether status would say so, for less.
func (f *feed) exact(d Domain, from shard.Position) bool {
	return f.stream.Exact(ingest.Domain(d), from)
}

// mayServe reports whether the freshness of holder i lets it be a source.
func (k *querier) mayServe(e *Engine, m *modelView, i int) bool {
	h := m.holders[i]
	switch {
	case h.candidate.Hidden: // its route says no
		return false
	case h.rest != nil:
		return h.rest.serves() || e.opt.AllowDegradedHints && h.rest.state == Degraded
	case h.cleared != nil && h.cleared.Load() && !e.opt.AllowDegradedHints:
		return false
	}
	for j, fd := range h.feeds {
		at := k.before[int(m.first[i])+j]
		if fd.exact(h.domain, at) {
			continue
		}
		switch s := fd.status(h.domain, at); s.State {
		case ingest.Exact:
		case ingest.Degraded:
			if !e.opt.AllowDegradedHints && !s.Advisory {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func blocks(tokens, size int) int {
	if size < 1 {
		return 0
	}
	return tokens / size
}
