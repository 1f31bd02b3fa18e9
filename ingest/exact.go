package ingest

import (
	"sync/atomic"
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

// Vitals are what a stream notes of its link with every message, for any
// goroutine to read. They are one line of memory by themselves, that of the
// stream's goroutine: a fleet of streams is asked for them with every answer,
// and what else a stream is made of lies a page from one to the next.
type Vitals struct {
	connected atomic.Bool
	received  atomic.Bool
	receding  atomic.Bool // sequences may go back, and positions with them
	epoch     atomic.Uint32
	lastSeq   atomic.Uint64
	message   atomic.Int64 // unix ns
	heard     atomic.Int64 // unix ns
	lag       atomic.Int64 // ns
	down      atomic.Int64 // unix ns since when the link is down or unproven; 0: up
	_         uint64
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

// Pulse returns the figures that Stream.Status gives, where they are the same.
func (v *Vitals) Pulse() Pulse {
	p := Pulse{
		Received:  v.received.Load(),
		Connected: v.connected.Load(),
		Epoch:     v.epoch.Load(),
		Message:   v.message.Load(),
		Heard:     v.heard.Load(),
		Lag:       time.Duration(v.lag.Load()),
	}
	if p.Received {
		p.Seq = v.lastSeq.Load()
	}
	return p
}
