package ingest

import (
	"time"

	"github.com/cairn-kv/cairn/tree/shard"
)

// Exact reports whether Status would say Exact of a domain, for who asks about
// many streams and wants the rest of the status only of those that are not.
func (s *Stream) Exact(d Domain, from shard.Position) bool {
	if s.down.Load() != 0 {
		return false
	}
	state, _ := s.standings[d].Load().at(from)
	return state == Exact
}

// Pulse is what changes of a stream with every message, without what explains a
// state: for answers about many streams that are exact. Times are Unix
// nanoseconds, 0 while there is none.
type Pulse struct {
	Seq            uint64
	Received       bool
	Connected      bool
	Epoch          uint32
	Message, Heard int64
	Lag            time.Duration
}

// Pulse returns the figures that Status gives, where they are the same.
func (s *Stream) Pulse() Pulse {
	p := Pulse{
		Received:  s.received.Load(),
		Connected: s.connected.Load(),
		Epoch:     s.epoch.Load(),
		Message:   s.message.Load(),
		Heard:     s.heard.Load(),
		Lag:       time.Duration(s.lag.Load()),
	}
	if p.Received {
		p.Seq = s.lastSeq.Load()
	}
	return p
}
