package ingest

import (
	"context"
	"log/slog"
	"time"

	"github.com/cairn-kv/cairn/tree/shard"
)

// set publishes what a domain's word is worth now, before anything that follows
// from it is committed: see Changes.
func (s *Stream) set(d Domain, n *standing) {
	if d == CacheOwner && s.opt.Pool == PoolNone {
		return
	}
	old := s.standings[d].Load()
	n.since, n.begin, n.short = time.Now(), s.begin, s.short
	if s.retains(d) && n.state != Fenced {
		n.short, n.retained = Degraded, true // what was there before the first batch
	}
	s.standings[d].Store(n)
	s.changes.made()
	if old.state != n.state || old.cause != n.cause {
		s.log.Info("state", "domain", d.String(), "state", n.state.String(), "was", old.state.String(), "cause", string(n.cause), "seq", s.seq)
	}
}

// begins notes that the batch at hand is the first of a history. Answers short
// of it are worth short, whatever happens.
func (s *Stream) begins(short State) {
	s.begin, s.short = s.here(), short
}

// awaits notes that a history begins whose first batches are still to come, by
// replay.
func (s *Stream) awaits(short State) {
	s.begin, s.short = shard.Position{Incarnation: s.incarnation, Seq: s.opt.FirstSeq, Any: true}, short
}

// here is the position of the batch at hand.
func (s *Stream) here() shard.Position {
	return shard.Position{Incarnation: s.incarnation, Seq: s.seq, Any: true}
}

// lose deals with a loss for good, in front of the batch at hand: what the
// stream taught is not to be trusted, so it is cleared, and nothing is exact
// until it was cleared by the publisher. It reports whether the source must be
// fenced instead.
func (s *Stream) lose(cause Cause) (fence bool) {
	s.counters.add(countLosses, 1)
	if s.opt.Pool == PoolEngineLocal && cause != CauseGeometry {
		return true
	}
	for d := range NumDomains {
		s.spoil(d, true)
		if s.repair.active {
			s.repair.causes[d] = cause // it is hidden already
			continue
		}
		// At once: whoever walks the index without what was lost must see it.
		s.set(d, &standing{state: Degraded, cause: cause, advisory: s.keeps(d, cause)})
	}
	s.clearing = true
	return false
}

// lossLevel is how loud a loss is: one that follows others changes nothing and
// must not flood the log.
func (s *Stream) lossLevel() slog.Level {
	if s.standings[Worker].Load().state == Degraded {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// lateJoin begins a history whose beginning is unknown. Nothing was taught of
// it, so nothing is wrong; but it is not all.
func (s *Stream) lateJoin() {
	s.counters.add(countLosses, 1)
	for d := range NumDomains {
		s.spoil(d, true)
		s.set(d, &standing{state: Degraded, cause: CauseLateJoin, advisory: s.retains(d)})
	}
}

// spoil marks everything a domain may hold as incomplete, or as whole.
func (s *Stream) spoil(d Domain, lossy bool) {
	s.losses[d] = lossy
	s.whole[d] = false
	for i := range s.slots[d] {
		s.slots[d][i].lossy = lossy
	}
}

// restart begins the history of a new process with the batch at hand. late says
// that it is not the first of it; awaiting, that what came before is asked for,
// so that it is no loss yet.
func (s *Stream) restart(ctx context.Context, late, awaiting bool) error {
	s.counters.add(countRestarts, 1)
	if late && !awaiting {
		s.counters.add(countLosses, 1)
	}
	s.log.Info("publisher restarted", "seq", s.lastSeq.Load())
	short := Connecting
	if s.fenced {
		short = Fenced
	}
	s.fenced = false
	s.clearing = true
	s.proven = true // there is no history that it would have to be the process of
	s.incarnation++
	if awaiting {
		if short == Connecting {
			short = Repairing // it was heard of; it is what it missed that it waits for
		}
		s.awaits(short)
		s.beginRepair(CauseLateJoin)
		s.repair.causes = [NumDomains]Cause{}
	} else {
		s.begins(short)
	}
	// First the state, then the incarnation: whoever has seen the new one must
	// not take what is left of the old for it.
	for d := range NumDomains {
		next := standing{state: Exact}
		switch {
		case late && !awaiting:
			next.state, next.cause = Degraded, CauseLateJoin
		case d == CacheOwner && s.opt.Pool == PoolDurable:
			// The pool lives on: it still has what its clearing takes away here.
			next.state, next.cause = Degraded, CauseRestart
		}
		s.spoil(d, next.state == Degraded)
		if awaiting {
			s.repair.causes[d] = next.cause
			continue
		}
		s.set(d, &next)
	}
	s.port.Restart()
	// A fence may have raised the generations.
	for d := range NumDomains {
		for rank := range s.slots[d] {
			if s.slots[d][rank].known {
				if err := s.ask(ctx, rank, d); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fence takes the source out: nothing of the batch at hand is applied, nothing
// of what came before stays, and nothing that follows counts until the
// publisher restarts.
func (s *Stream) fence(ctx context.Context, cause Cause) error {
	s.counters.add(countFences, 1)
	s.port.Rollback()
	s.fenced = true
	if s.repair.active {
		// What is held will never count.
		if live, any := s.machine.Live(); any {
			s.machine.Skip(live)
			s.seq = max(s.seq, live)
		}
		s.endRepair()
	}
	for d := range NumDomains {
		s.spoil(d, true)
		s.set(d, &standing{state: Fenced, cause: cause})
	}
	s.linkProven()
	if s.opt.Attached != nil {
		return s.faulted(FaultSource, cause)
	}
	if err := s.clearAll(ctx); err != nil {
		return err
	}
	s.endBatch()
	return s.port.Commit(s.seq)
}

// settleStates publishes which domains the batch at hand makes exact. It comes
// before the commit: who has waited for the batch finds its state.
func (s *Stream) settleStates() {
	if s.repair.active {
		if s.completes() {
			s.finishRepair()
			s.linkProven()
		}
		return
	}
	for d := range NumDomains {
		if !s.whole[d] {
			continue
		}
		s.whole[d] = false
		if old := s.standings[d].Load(); old.state != Exact {
			s.set(d, &standing{state: Exact, from: s.here(), before: old.state, advised: old.advisory})
		}
	}
}

// mend marks one rank of a domain as whole: the publisher cleared it. The
// domain is exact again once no rank is lossy.
func (s *Stream) mend(d Domain, rank int) {
	s.slots[d][rank].lossy = false
	for i := range s.slots[d] {
		if s.slots[d][i].known && s.slots[d][i].lossy {
			return
		}
	}
	if s.standings[d].Load().state == Degraded {
		s.whole[d] = true
	}
}
