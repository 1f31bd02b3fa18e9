package shard

import (
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/cairn-kv/cairn/tree"
)

// generations says which generation of each holder counts. A holder that was
// never raised has generation 0 and no entry.
type generations struct {
	current *xsync.MapOf[tree.Holder, uint32]
	changes atomic.Uint64 // counts changes of current, after they were made
	// The writer's: the last answer, good while changes has not moved. A
	// stream's records come in rows of one holder.
	holder  tree.Holder
	answer  uint32
	changed uint64
}

func newGenerations() generations {
	return generations{current: xsync.NewMapOf[tree.Holder, uint32]()}
}

// Generation returns the generation records of h must carry to be applied: 0
// until the first Raise. Streams ask when they are told of a holder or a
// fence, and keep the answer.
func (s *Shard) Generation(h tree.Holder) uint32 {
	g, _ := s.gens.current.Load(h)
	return g
}

// Raise begins a new generation of h and returns it. Call it inside Do: then no
// record of an older generation is applied after it.
func (s *Shard) Raise(h tree.Holder) uint32 {
	g, _ := s.gens.current.Compute(h, func(old uint32, _ bool) (uint32, bool) { return old + 1, false })
	s.gens.changes.Add(1)
	return g
}

// Forget gives back the memory of h's generation. Call it inside Do for a
// holder that was dropped: what is still on its way is stale, or, if h was
// never raised, refused by the index as tree.BadOwner.
func (s *Shard) Forget(h tree.Holder) {
	s.gens.current.Delete(h)
	s.gens.changes.Add(1)
}

// of is Generation for the writer.
func (g *generations) of(h tree.Holder) uint32 {
	if n := g.changes.Load(); h != g.holder || n != g.changed {
		g.answer, _ = g.current.Load(h)
		g.holder, g.changed = h, n
	}
	return g.answer
}
