package engine

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
)

// peer is what hints know of a (source, rank) beside its blocks: how much is
// under way there, and what its link costs. Both domains of the rank share it,
// for they share the link.
type peer struct {
	fetches atomic.Int64  // in flight
	waiting atomic.Int64  // its waiting queue plus 1; 0 while unknown
	backlog atomic.Uint64 // bits of a float64
	hinted  atomic.Uint64 // hints that named it
	cost    *costCell
}

// load is what counts for chances and costs: the waiting queue if it is known,
// else the fetches in flight.
func (p *peer) load() int {
	if w := p.waiting.Load(); w > 0 {
		return int(w - 1)
	}
	return int(max(p.fetches.Load(), 0))
}

func (p *peer) slowness() float64 { return math.Float64frombits(p.backlog.Load()) }

// peer returns what hints know of a rank's place. Callers hold control.
func (s *source) peer(rank int) *peer {
	for _, h := range s.holders {
		if h.rank == rank {
			return h.peer
		}
	}
	link := ""
	if s.spec.Hint != nil {
		link = s.spec.Hint.Link
	}
	return &peer{cost: s.engine.selection.costs.cell(s.spec.Model, link)}
}

// PeerLoad is what a router knows of the load at a (source, rank).
type PeerLoad struct {
	// Waiting is its waiting queue, which then counts instead of the fetches in
	// flight. Below 0: unknown.
	Waiting int
	// Backlog is how much longer a prefill takes there than on an idle engine:
	// 0 is not at all, 1 is twice as long.
	Backlog float64
}

// SetPeerLoad tells the load at a (source, rank), which spreading and costs go
// by. It replaces what was told before. Errors: ErrUnknownSource,
// ErrUnknownRank, or a *FieldError.
func (e *Engine) SetPeerLoad(source string, rank int, l PeerLoad) error {
	if !(l.Backlog >= 0) || math.IsInf(l.Backlog, 0) {
		return &FieldError{Source: source, Field: "backlog", Value: strconv.FormatFloat(l.Backlog, 'g', -1, 64), Want: "wants a factor of 0 or more"}
	}
	if l.Waiting > math.MaxInt32 {
		return &FieldError{Source: source, Field: "waiting", Value: strconv.Itoa(l.Waiting), Want: fmt.Sprintf("wants a queue of at most %d, or below 0 for unknown", math.MaxInt32)}
	}
	p, err := e.peerOf(source, rank)
	if err != nil {
		return err
	}
	p.waiting.Store(int64(max(l.Waiting, -1) + 1))
	p.backlog.Store(math.Float64bits(l.Backlog))
	return nil
}

// FetchStarted tells that a hint naming a (source, rank) went out and its fetch
// is under way; FetchEnded that it came to its end, well or not. What is not
// told is not known: spreading and costs then take a source for idle. Errors:
// ErrUnknownSource, ErrUnknownRank.
func (e *Engine) FetchStarted(source string, rank int) error { return e.fetch(source, rank, 1) }

// FetchEnded is the other half of FetchStarted. One too many is ignored.
func (e *Engine) FetchEnded(source string, rank int) error { return e.fetch(source, rank, -1) }

func (e *Engine) fetch(source string, rank int, by int64) error {
	p, err := e.peerOf(source, rank)
	if err != nil {
		return err
	}
	for {
		n := p.fetches.Load()
		if n+by < 0 || p.fetches.CompareAndSwap(n, n+by) {
			return nil
		}
	}
}

// peerOf finds what hints know of a place: of a source that was added, of a
// worker that registered, or of a cache owner.
func (e *Engine) peerOf(id string, rank int) (*peer, error) {
	s, ok := e.sources.Load(id)
	if !ok {
		return nil, ErrUnknownSource
	}
	v := e.view.Load()
	if v == nil {
		return nil, ErrClosed
	}
	if m := v.model(s.spec.Model); m != nil {
		for _, h := range m.holders {
			if h.rank == rank && h.src.spec.ID == id {
				return h.peer, nil
			}
		}
	}
	e.control.Lock()
	defer e.control.Unlock()
	return nil, s.absent()
}
