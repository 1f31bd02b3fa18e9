package shard

import (
	"sync"

	"github.com/cairn-kv/cairn/tree"
)

// generations says which generation of each holder counts. A holder that was
// never raised has generation 0 and no entry. Only the writer changes it, in
// control; so it reads its own map as it is, and everybody else a copy that
// can be read without a lock.
type generations struct {
	current map[tree.Holder]uint32 // the writer's
	shown   sync.Map               // of tree.Holder to uint32
}

// Generation returns the generation records of h must carry to be applied: 0
// until the first Raise. Streams ask when they are told of a holder or a
// fence, and keep the answer. Any goroutine may call it.
func (s *Shard) Generation(h tree.Holder) uint32 {
	g, _ := s.gens.shown.Load(h)
	n, _ := g.(uint32)
	return n
}

// Raise begins a new generation of h and returns it: no record of an older one
// is applied after it. It belongs inside a function given to Do and panics if
// none is running.
func (s *Shard) Raise(h tree.Holder) uint32 {
	s.mustControl("Raise")
	g := s.gens.current[h] + 1
	s.gens.current[h] = g
	s.gens.shown.Store(h, g)
	return g
}

// Forget gives back the memory of h's generation, for a holder that was
// dropped. What is still on its way is stale, or, if h was never raised,
// refused by the index as tree.BadOwner. It belongs inside a function given to
// Do and panics if none is running.
func (s *Shard) Forget(h tree.Holder) {
	s.mustControl("Forget")
	delete(s.gens.current, h)
	s.gens.shown.Delete(h)
}

func (s *Shard) mustControl(what string) {
	if !s.controlling.Load() {
		panic("shard: " + what + " outside a function given to Do")
	}
}
