package registry

import (
	"fmt"

	"github.com/cairn-kv/cairn/engine/residency"
)

// replaceable reports whether another life of a worker could be registered if
// the former one were released. It is asked before: a life that would be refused
// must not cost the one that serves.
func (r *Registrar) replaceable(w *Worker, h residency.Host) error {
	intents := w.intents(h)
	stays := map[residency.OwnerID]bool{} // owners that keep a place of the scope
	var slots int
	for _, s := range r.opt.Control.Slots() {
		if s.Scope != h.Scope {
			continue
		}
		own := s.Lease == w.ID || s.Lease == ""
		if own && s.Source.Protocol.EngineLocal() {
			continue // gone with its lease
		}
		slots++
		stays[s.Source.Owner] = true
		for i := range intents {
			n := &intents[i]
			if n.Owner != s.Source.Owner || s.Flags != 0 {
				continue
			}
			if err := s.Source.Accepts(n); err != nil {
				return &residency.RankError{Rank: n.Worker.Rank, Owner: n.Owner, Err: err}
			}
		}
	}
	for i := range intents {
		n := &intents[i]
		if stays[n.Owner] {
			continue
		}
		if slots++; slots > h.MaxSlots {
			err := &residency.CapacityError{Scope: h.Scope, MaxSlots: h.MaxSlots, Owner: n.Owner, Rank: n.Worker.Rank}
			return &residency.RankError{Rank: n.Worker.Rank, Owner: n.Owner, Err: fmt.Errorf("the former life of the worker stays: %w", err)}
		}
	}
	return nil
}
