package demo

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/perf/fleet"
)

// stream is one (source, rank) with the positions that queries have seen.
// Positions are counts of applied batches, one per TP shard.
type stream struct {
	source *fleet.Source
	rank   int
	// floor is the highest position that any answer says it had before its
	// walk. A query that begins later may see no less.
	floor []atomic.Uint64
}

// court is what all judges share.
type court struct {
	fleet   *fleet.Fleet
	streams []*stream
	tally   *tally
	// lossy: sources are withheld now and then, for something of them is
	// missing. What is withheld is not held: a target's threshold is 0 then,
	// and another may serve, or nobody.
	lossy bool
}

func newCourt(f *fleet.Fleet, t *tally) *court {
	c := &court{fleet: f, tally: t}
	sources := f.Sources()
	for i := range sources {
		s := &sources[i]
		for r := range s.Ranks {
			c.streams = append(c.streams, &stream{source: s, rank: r, floor: make([]atomic.Uint64, len(s.Endpoints))})
		}
	}
	t.named = make([]atomic.Uint64, len(c.streams))
	return c
}

// index returns the place of a (source, rank) among the streams, -1 if there
// is none.
func (c *court) index(source string, rank int) int {
	return slices.IndexFunc(c.streams, func(s *stream) bool { return s.source.ID == source && s.rank == rank })
}

// span is an interval of positions of one (source, rank).
type span struct{ from, to []uint64 }

// several reports whether the span covers several sequences of a stream.
func (s *span) several() bool {
	for t := range s.from {
		if s.to[t] > s.from[t] {
			return true
		}
	}
	return false
}

// judge judges what one goroutine asks. Around every query it is told when it
// began and when it ended.
type judge struct {
	*court
	truth *fleet.Judge
	// around is, per stream, what a query may have seen at the least and at
	// the most.
	around []span
	named  span // that an answer names itself
	target span // that a hint names of its target
	now    span // of a source when its fetch would come
	seen   []bool
}

func newJudge(c *court) *judge {
	j := &judge{court: c, truth: c.fleet.Judge(), seen: make([]bool, 2*len(c.streams))}
	for _, s := range c.streams {
		n := len(s.floor)
		j.around = append(j.around, span{make([]uint64, n), make([]uint64, n)})
	}
	return j
}

// begin is called before a query.
func (j *judge) begin() {
	for i, s := range j.streams {
		for t := range s.floor {
			j.around[i].from[t] = s.floor[t].Load()
		}
	}
}

// end is called when a query has returned.
func (j *judge) end() {
	for i, s := range j.streams {
		j.around[i].to = j.fleet.Published(j.around[i].to[:0], s.source.ID, s.rank)
	}
}

// answer judges an answer to a prompt of a model.
func (j *judge) answer(model string, p *fleet.Prompt, a *engine.Answer) {
	clear(j.seen)
	for i := range a.Holders {
		j.holder(model, p, &a.Holders[i])
	}
	for i := range a.Flagged {
		h := &a.Flagged[i]
		if k := j.index(h.Source, h.Rank); k >= 0 {
			j.seen[2*k+int(h.Domain)] = true
		}
		j.tally.withheld.Add(1)
	}
	for i, s := range j.streams {
		for d := fleet.Worker; d <= fleet.CacheOwner; d++ {
			if s.source.Model != model || j.seen[2*i+int(d)] || d == fleet.CacheOwner && !s.source.Pool {
				continue
			}
			j.absent(i, d, p)
		}
	}
}

// holder judges one holder's part of an answer.
func (j *judge) holder(model string, p *fleet.Prompt, h *engine.HolderAnswer) {
	i := j.index(h.Source, h.Rank)
	if i < 0 || j.streams[i].source.Model != model || h.Domain == hint.CacheOwner && !j.streams[i].source.Pool {
		j.tally.refute("%s/%d/%s: no such holder of model %s", h.Source, h.Rank, h.Domain, model)
		return
	}
	s := j.streams[i]
	if j.seen[2*i+int(h.Domain)] {
		j.tally.refute("%s/%d/%s: stands twice in one answer", h.Source, h.Rank, h.Domain)
		return
	}
	j.seen[2*i+int(h.Domain)] = true
	if err := j.positions(i, h.Freshness.Streams, &j.named); err != nil {
		j.tally.refute("%s/%d/%s: %v", h.Source, h.Rank, h.Domain, err)
		return
	}
	size := s.source.BlockSize
	if h.BlockSize != size {
		j.tally.refute("%s/%d/%s: block size %d, announced are %d", h.Source, h.Rank, h.Domain, h.BlockSize, size)
		return
	}
	who := fleet.Holder{Source: h.Source, Rank: h.Rank, Domain: domain(h.Domain)}
	allowed, ok := j.allowed(who, p, j.named)
	if !ok {
		return
	}
	j.tally.answers.Add(1)
	if j.named.several() {
		j.tally.spanning.Add(1)
	}
	if allowed[fleet.OnAny].Bounds {
		j.tally.bounds.Add(1)
	}
	extension := h.Tokens.Device + h.Tokens.HostExtension
	if h.Tokens.HostExtension == 0 {
		// Nothing is added to the device's prefix: the two views are worked
		// out by themselves, so the extension may have been less a moment
		// earlier or later.
		extension = min(extension, allowed[fleet.Extension].Min()*size)
	}
	for _, v := range []struct {
		view   fleet.View
		tokens int
	}{{fleet.OnDevice, h.Tokens.Device}, {fleet.OnHost, h.Tokens.Host}, {fleet.OnAny, h.Tokens.Any}, {fleet.Extension, extension}} {
		m := fleet.False
		if v.tokens%size == 0 {
			m = allowed[v.view].Match(v.tokens / size)
		}
		j.tally.figures[m].Add(1)
		if m == fleet.False {
			j.tally.refute("%s: %d tokens on %s, true were %d to %d in blocks of %d, batches %v to %v applied",
				who, v.tokens, v.view, allowed[v.view].Min()*size, allowed[v.view].Max()*size, size, j.named.from, j.named.to)
		}
	}
}

// positions reads the positions that an answer names of stream i, and checks
// them against what can be.
func (j *judge) positions(i int, named []engine.StreamPosition, to *span) error {
	s, around := j.streams[i], &j.around[i]
	to.from, to.to = to.from[:0], to.to[:0]
	if len(named) != len(s.floor) {
		return fmt.Errorf("%d intervals for %d streams", len(named), len(s.floor))
	}
	for t, f := range named {
		first, last := position(f, 0), position(f, 1)
		if first < around.from[t] || last < first || last > around.to[t] || f.Incarnation[0] != f.Incarnation[1] {
			return fmt.Errorf("stream %d: names batches %d to %d of incarnations %v, seen before were %d, published %d",
				t, first, last, f.Incarnation, around.from[t], around.to[t])
		}
		if last > 0 && f.Seq < f.Applied[1] {
			return fmt.Errorf("stream %d: names sequence %d, of which %d were received", t, f.Applied[1], f.Seq)
		}
		to.from, to.to = append(to.from, first), append(to.to, last)
		raise(&s.floor[t], first)
	}
	return nil
}

// absent judges that a holder was left out of an answer.
func (j *judge) absent(i int, d fleet.Domain, p *fleet.Prompt) {
	s := j.streams[i]
	who := fleet.Holder{Source: s.source.ID, Rank: s.rank, Domain: d}
	allowed, ok := j.allowed(who, p, j.around[i])
	if !ok {
		return
	}
	j.tally.absent.Add(1)
	if allowed[fleet.OnAny].Match(0) == fleet.False {
		j.tally.refute("%s: left out, though it held %d tokens at the least, batches %v to %v applied",
			who, allowed[fleet.OnAny].Min()*s.source.BlockSize, j.around[i].from, j.around[i].to)
	}
}

// allowed works out what was true, and counts what cannot be.
func (j *judge) allowed(h fleet.Holder, p *fleet.Prompt, s span) (*[fleet.NumViews]fleet.Allowed, bool) {
	a, err := j.truth.Truth(h, p, s.from, s.to)
	switch {
	case errors.Is(err, fleet.ErrForgotten):
		j.tally.unjudged.Add(1)
	case err != nil:
		j.tally.refute("%v", err)
	}
	return a, err == nil
}

// position turns a sequence into a count of batches.
func position(s engine.StreamPosition, at int) uint64 {
	if !s.Any[at] {
		return 0
	}
	return s.Applied[at] + 1
}

// raise sets v to at least n.
func raise(v *atomic.Uint64, n uint64) {
	for {
		old := v.Load()
		if old >= n || v.CompareAndSwap(old, n) {
			return
		}
	}
}

func domain(d engine.Domain) fleet.Domain {
	if d == hint.CacheOwner {
		return fleet.CacheOwner
	}
	return fleet.Worker
}
