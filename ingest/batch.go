package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/tree/shard"
)

// errFault says that the batch at hand fences the source; fault says why.
var errFault = errors.New("ingest: source fault")

// apply decodes the batch at hand into the port and commits it. An error ends
// the stream.
func (s *Stream) apply(ctx context.Context, now time.Time, payload []byte) error {
	cause, err := s.fill(ctx, now, payload)
	if errors.Is(err, shard.ErrBatchTooLong) && !s.pieces {
		// Longer than the ring. What is published in pieces cannot be taken
		// back, so it is looked through first.
		s.port.Rollback()
		s.tally.reset()
		if err = wire.Check(payload); err == nil {
			s.pieces = true
			s.tally.count(notePieces)
			if cause, err = s.inspect(payload); err == nil {
				cause, err = s.fill(ctx, now, payload)
			}
		}
	}
	if err != nil {
		return s.fail(ctx, cause, err)
	}
	s.tapApplies() // now that it is known what it means, and before it is seen
	s.counters.settle(&s.tally)
	s.settleStates()
	s.endBatch()
	return s.port.Commit(s.seq)
}

// fail deals with a batch that could not be filled in.
func (s *Stream) fail(ctx context.Context, cause Cause, err error) error {
	if ctx.Err() == nil {
		s.tapApplies()
	}
	if err == errFault {
		s.log.Error("source fault", "cause", string(cause), "seq", s.seq)
		return s.fence(ctx, cause)
	}
	switch err {
	case errMalformed:
		return s.end(cause, nil)
	case errOwnerFault:
		s.log.Error("cache-owner fault", "cause", string(cause), "seq", s.seq)
		return s.ownerFault(cause)
	}
	if bad, ok := errors.AsType[*wire.Error](err); ok {
		return s.undecodable(ctx, bad)
	}
	return err
}

// fill writes the records of the whole batch.
func (s *Stream) fill(ctx context.Context, now time.Time, payload []byte) (Cause, error) {
	if s.clearing {
		if err := s.clearLost(ctx); err != nil {
			return "", err
		}
	}
	b, err := s.decoder.Reset(payload)
	if err != nil {
		return "", err
	}
	if !s.repair.active { // what a replay brings is old by nature
		s.setLag(now, &b)
	}
	rank := s.opt.Rank
	if b.HasRank {
		if b.Rank < 0 || b.Rank >= int64(s.maxRanks) {
			rank = -1
			s.tally.count(dropRank)
		} else {
			rank = int(b.Rank)
		}
		if rank != s.opt.Rank && s.opt.Attached != nil {
			return CauseRank, errMalformed
		}
	}
	for {
		ev := &s.event
		more, err := s.decoder.Next(ev)
		if err != nil || !more {
			return "", err
		}
		s.tally.events++
		if rank < 0 {
			continue
		}
		if cause, err := s.handle(ctx, rank, ev); err != nil {
			return cause, err
		}
	}
}

// undecodable deals with a batch whose content is lost: its sequence is used
// up, nothing of it is visible, and what it would have removed is unknown.
func (s *Stream) undecodable(ctx context.Context, bad *wire.Error) error {
	s.port.Rollback()
	s.tally.reset()
	s.counters.wire[bad.Reason].Add(1)
	s.log.Log(ctx, s.lossLevel(), "batch cannot be decoded", "seq", s.seq, "error", bad)
	if s.opt.Attached != nil {
		return s.end(CauseUndecodable, bad)
	}
	if s.lose(CauseUndecodable) {
		return s.fence(ctx, CauseUndecodable)
	}
	if err := s.clearAll(ctx); err != nil {
		return err
	}
	if s.repair.active {
		s.settleStates()
	}
	s.endBatch()
	return s.port.Commit(s.seq)
}

// endBatch forgets what belonged to the batch at hand.
func (s *Stream) endBatch() {
	s.clearing, s.pieces = false, false
	for d := range s.whole {
		s.whole[d] = false
	}
	s.tally.reset()
}

// setLag notes how old the batch is.
func (s *Stream) setLag(now time.Time, b *wire.Batch) {
	var lag int64
	if !b.IsMillis && b.Seconds > 0 {
		// A clock that is ahead of ours, or absurd, gives no lag.
		if d := float64(now.UnixNano()) - b.Seconds*1e9; d > 0 && d < float64(now.UnixNano())/2 {
			lag = int64(d)
		}
	}
	s.lag.Store(lag)
}

// clearLost is clearAll but for what is kept over a loss.
func (s *Stream) clearLost(ctx context.Context) error {
	return s.clearBut(ctx, func(d Domain) bool { return s.keeps(d, CauseGap) })
}

// clearAll writes a clear for everything the stream taught.
func (s *Stream) clearAll(ctx context.Context) error {
	return s.clearBut(ctx, func(Domain) bool { return false })
}

func (s *Stream) clearBut(ctx context.Context, keep func(Domain) bool) error {
	for d := range NumDomains {
		if keep(d) {
			continue
		}
		for rank := range s.slots[d] {
			if s.slots[d][rank].known {
				if err := s.clear(ctx, &s.slots[d][rank]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *Stream) clear(ctx context.Context, at *slot) error {
	err := s.port.Clear(ctx, at.Head)
	if s.room(err) {
		err = s.port.Clear(ctx, at.Head)
	}
	return err
}

// room publishes what is reserved if that is what makes room for the record
// that did not fit, and reports whether to try again.
func (s *Stream) room(err error) bool {
	return err != nil && s.pieces && errors.Is(err, shard.ErrBatchTooLong) && s.port.Flush(s.seq) == nil
}

// slot returns what is known of a rank in a domain; nil if there is none, which
// is counted.
func (s *Stream) slot(ctx context.Context, rank int, d Domain) (*slot, error) {
	if rank >= len(s.slots[d]) || !s.slots[d][rank].known {
		for rank >= len(s.slots[d]) {
			s.slots[d] = append(s.slots[d], slot{})
		}
		if err := s.ask(ctx, rank, d); err != nil {
			return nil, err
		}
	}
	at := &s.slots[d][rank]
	if !at.known {
		s.tally.count(skipRefused)
		return nil, nil
	}
	return at, nil
}

// ask asks the owner for a rank's holder. It leaves the slot unknown if the
// owner refuses; an error ends the stream.
func (s *Stream) ask(ctx context.Context, rank int, d Domain) error {
	at := &s.slots[d][rank]
	h, generation, err := s.opt.Owner.Holder(rank, d)
	if err != nil {
		if !refused(ctx, err) {
			return err
		}
		at.known = false
		s.setError(err)
		return nil
	}
	at.Head = shard.Head{Holder: h, Generation: generation, Shard: s.opt.TPShard}
	if !at.known {
		at.known = true
		at.size, at.look = 0, 0
		if at.lossy = s.losses[d]; at.lossy {
			s.newRank(d)
		}
	}
	return nil
}

// newRank notes that a rank appears of which earlier batches were lost.
func (s *Stream) newRank(d Domain) {
	s.whole[d] = false
	if s.standings[d].Load().state == Exact {
		s.set(d, &standing{state: Degraded, cause: CauseNewRank})
	}
}
