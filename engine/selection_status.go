package engine

import (
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
)

// HintStatus says who takes part in hints, who does not and why, and what the
// engine counted and learnt about them.
type HintStatus struct {
	// Options are those in force.
	Options HintOptions
	// Outcomes counts calls by reason, Outcomes[hint.Hinted] the hints made;
	// Ineligible divides that reason, Notes counts remarks.
	Outcomes   [hint.NumReasons]uint64
	Ineligible [hint.NumDetails]uint64
	Notes      [hint.NumNotes]uint64
	// Domains counts hints by the domain of their source, Blocks what they
	// named.
	Domains [2]uint64
	Blocks  uint64
	// BadChoices counts policies that chose what they were not offered.
	BadChoices uint64
	// Peers are the holders, in the order of Owners.
	Peers []HintPeer
}

// HintPeer is one holder's part in hints.
type HintPeer struct {
	Source     string
	Rank       int
	Domain     Domain
	Model      string
	WorkerType string // "" takes no part
	Endpoint   string
	TP         int // 0: unknown
	Carrier    hint.Carrier
	Link       string
	// Target: it may be sent hints. Only workers are targets.
	Target bool
	// Serves: it may be named in hints, as far as it stands by itself; else WhyNot
	// says why it is not: role, endpoint, state_agent, detached, not_ready (its
	// slot is behind its barrier), or the state that withholds it. Whether it may
	// serve a certain target, that target's reason says.
	Serves bool
	WhyNot string
	// Fetches and Waiting are the load that was told, Waiting -1 if unknown,
	// Backlog its load factor as a target.
	Fetches int
	Waiting int
	Backlog float64
	// Hinted counts the hints that named its place, either domain.
	Hinted uint64
	// Cost are the coefficients of its model and link as known by now; zero
	// fields are unknown.
	Cost hint.Coefficients
}

// HintStatus describes everything about hints as it is now. It is for people
// and metrics, not for every request.
func (e *Engine) HintStatus() HintStatus {
	s := e.selection
	st := HintStatus{Options: e.opt.Hints, Blocks: s.blocks.Load(), BadChoices: s.badChoices.Load()}
	for i := range st.Outcomes {
		st.Outcomes[i] = e.stats.hints[i].Load()
	}
	for i := 1; i < len(st.Ineligible); i++ {
		st.Ineligible[i] = e.stats.details[i].Load()
	}
	for i := range st.Notes {
		st.Notes[i] = s.notes[i].Load()
	}
	for i := range st.Domains {
		st.Domains[i] = s.domains[i].Load()
	}
	v := e.view.Load()
	if v == nil {
		return st
	}
	k, now := &querier{}, time.Now()
	for _, m := range v.models {
		k.note(m)
		for i := range m.holders {
			k.noteAfter(m, i)
			st.Peers = append(st.Peers, k.peerStatus(e, m, i, now))
		}
	}
	return st
}

func (k *querier) peerStatus(e *Engine, m *modelView, i int, now time.Time) HintPeer {
	h := m.holders[i]
	c, p := &h.candidate, h.peer
	hp := HintPeer{Source: h.src.spec.ID, Rank: h.rank, Domain: h.domain, Model: m.name, WorkerType: c.Role.String(),
		Endpoint: c.Endpoint, TP: c.Width, Carrier: h.src.carrier, Link: p.cost.link,
		Target:  h.domain == hint.Worker && c.Role != hint.NotCapable && h.src.hasRank(h.rank),
		Fetches: int(p.fetches.Load()), Waiting: int(p.waiting.Load()) - 1, Backlog: p.slowness(),
		Hinted: p.hinted.Load(), Cost: *p.cost.now.Load()}
	switch f := k.freshness(e, m, i, now, &Answer{}); {
	case c.Role == hint.NotCapable:
		hp.WhyNot = hint.DetailRole.String()
	case c.Endpoint == "":
		hp.WhyNot = hint.DetailEndpoint.String()
	case h.domain == hint.Worker && c.StateAgent:
		hp.WhyNot = hint.DetailStateAgent.String()
	case h.domain == hint.CacheOwner && c.EngineLocal && !c.Attached:
		hp.WhyNot = "detached"
	case c.Hidden && f.State.answers():
		hp.WhyNot = "not_ready"
	case !k.mayServe(e, m, i):
		hp.WhyNot = f.State.String()
	default:
		hp.Serves = true
	}
	return hp
}
