package ingest

import "github.com/cairn-kv/cairn/tree/shard"

// Exact reports whether Status would say Exact of a domain, for who asks about
// many streams and wants the rest of the status only of those that are not.
func (s *Stream) Exact(d Domain, from shard.Position) bool {
	if s.down.Load() != 0 {
		return false
	}
	state, _ := s.standings[d].Load().at(from)
	return state == Exact
}
