package ingest

import (
	"context"
	"time"

	"github.com/cairn-kv/cairn/ingest/replay"
	"github.com/cairn-kv/cairn/ingest/seq"
)

// repair is a repair under way. Run's goroutine alone.
//
//	live n: gap ─▶ begin ──▶ ask ──▶ batches from Next on, in order ──▶ apply
//	                │         ▲              │
//	                │         └── ended, and more was heard live
//	               hold ◀─ live messages     ├── lost before F: emptied, degraded
//	                │                        ▼
//	                └──── merge by sequence ───▶ applied = last live ─▶ done
//
// From begin to done both domains say Repairing, whatever is applied: nothing
// is answered from what is not whole. Everything is applied in the order of its
// sequence, so an older store never comes behind a newer remove.
type repair struct {
	active bool
	cause  Cause
	// causes say per domain why it will be degraded when the repair is done.
	causes [NumDomains]Cause
	held   held

	// toEnd: no live message says how far to go; the end of the replay does.
	toEnd bool
	// idle: nobody can be asked (any more), and no live message is held at which
	// the loss could be dealt with. The next one decides.
	idle bool
	// tried: the snapshot was asked for; late: because the replay begins too
	// late, so what it has is second best.
	tried, late bool
	// alien: an attached stream's publisher is not the process we know. Only a
	// snapshot can help.
	alien bool

	left     time.Duration // of Repair.Total
	progress time.Time     // when something was brought last
	pause    time.Duration // before the next request
	askAt    time.Time     // zero: no request waits
}

// failure says why a repair failed.
type failure = count

// beginRepair hides both domains until a repair is done.
func (s *Stream) beginRepair(cause Cause) {
	r := &s.repair
	*r = repair{active: true, cause: cause, left: s.opt.Repair.Total}
	for d := range NumDomains {
		if old := s.standings[d].Load(); old.state == Degraded {
			r.causes[d] = old.cause
		}
		s.set(d, &standing{state: Repairing, cause: cause})
	}
	s.hides(true, 0)
}

// schedule asks for what is missing as soon as the stream may.
func (s *Stream) schedule(ctx context.Context) error {
	now := time.Now()
	wait, ok := s.budget.take(now)
	switch {
	case ok:
		s.counters.add(repairsBegun, 1)
		s.repair.progress = now
		return s.request(ctx)
	case s.budget.failed:
		s.counters.add(failCooldown, 1)
		return s.surrender(ctx)
	}
	s.log.Info("a repair waits for its cooldown", "for", wait)
	s.askLater(now, wait)
	return nil
}

func (s *Stream) askLater(now time.Time, wait time.Duration) {
	s.repair.askAt = now.Add(wait)
	s.arm(wait)
}

// request sends for what is missing.
func (s *Stream) request(ctx context.Context) error {
	r := &s.repair
	r.askAt = time.Time{}
	if s.opt.Repair.Endpoint == "" {
		return s.askSnapshot(ctx, failNoReplay)
	}
	if r.left <= 0 {
		return s.failRepair(ctx, failTimeout)
	}
	o := s.replayOptions()
	o.Total = r.left
	from := s.machine.Next()
	if !s.proven {
		// What was applied came over an older connection than what is asked for:
		// whoever answers has to prove that it is the same process.
		if !s.anchor.any {
			return s.anew(ctx)
		}
		o.Witness, from = s.anchor.witness()
	}
	s.fetch(forRepair, o, from)
	return nil
}

// missed deals with a live message while a repair is under way, or before which
// one must begin. The machine has judged it.
func (s *Stream) missed(ctx context.Context, now time.Time, v seq.Verdict, n uint64, payload []byte) error {
	r := &s.repair
	s.fresh = false
	r.toEnd = false
	if v.Kind == seq.Apply {
		s.seq = n
		s.remember(n, payload)
		err := s.apply(ctx, now, payload)
		if err == nil && !r.active {
			s.vouch()
		}
		return err
	}
	h, o := &r.held, &s.opt.Repair
	full := len(h.batches) >= o.HoldBatches || len(h.batches) > 0 && h.bytes+len(payload) > o.HoldBytes
	h.add(n, s.epoch.Load(), payload)
	s.tapHeld()
	s.counters.add(countHeld, 1)
	switch {
	case full && s.awaitsSnapshot():
		// What it brings is newer than what is the oldest here.
		for len(h.batches) > o.HoldBatches || len(h.batches) > 1 && h.bytes > o.HoldBytes {
			h.pop()
		}
		return nil
	case full:
		return s.failRepair(ctx, failHold)
	case r.idle:
		r.idle = false
		return s.schedule(ctx)
	}
	return nil
}

// collect deals with what the errand has brought.
func (s *Stream) collect(ctx context.Context) error {
	e := s.errand
	if e == nil {
		return nil
	}
	items := e.inbox.Take(s.items)
	for i := range items {
		if s.errand != e {
			break // dismissed: what it brought is not wanted any more
		}
		if err := s.arrived(ctx, e, &items[i]); err != nil {
			return err
		}
	}
	clear(items)
	s.items = items[:0]
	if cap(s.items) > 1024 {
		s.items = nil
	}
	return nil
}

func (s *Stream) arrived(ctx context.Context, e *errand, i *replay.Item) error {
	switch i.Kind {
	case replay.Vouched:
		e.vouched = true
		s.proven = true
	case replay.Lost:
		return s.gone(ctx, i.Seq)
	case replay.Batch:
		return s.replayed(ctx, i)
	case replay.Done:
		s.dismiss()
		switch e.kind {
		case forRepair:
			return s.asked(ctx, i)
		case forSnapshot:
			return s.restored(ctx, e.state, i)
		}
		return s.lookedUp(ctx, e, i)
	}
	return nil
}

// replayed applies a batch of a replay, and what it made room for.
func (s *Stream) replayed(ctx context.Context, i *replay.Item) error {
	if i.Topic != nil && !s.wanted(i.Topic) {
		s.counters.add(dropTopic, 1)
		return s.failRepair(ctx, failTopic)
	}
	v := s.machine.Replayed(i.Seq)
	if v.Kind == seq.Gap { // behind what was held
		if err := s.giveUp(ctx, i.Seq-1); err != nil || !s.repair.active {
			return err
		}
		v = s.machine.Replayed(i.Seq)
	}
	if v.Kind != seq.Apply {
		s.counters.add(dropReplayed, 1)
		return nil
	}
	now := time.Now()
	s.repair.progress, s.repair.pause = now, 0
	s.repair.held.drop(i.Seq)
	s.heardOf(i.Seq) // before it becomes visible
	s.received.Store(true)
	s.seq = i.Seq
	s.remember(i.Seq, i.Payload)
	s.counters.add(countReplayed, 1)
	s.tapReplayed(i.Seq, i.Payload)
	if err := s.apply(ctx, now, i.Payload); err != nil || !s.repair.active {
		return err
	}
	return s.merge(ctx)
}

// heardOf notes a sequence that did not come over the link. Of this history only
// what came live can be higher: what an older process said last is no measure.
func (s *Stream) heardOf(n uint64) {
	if live, any := s.machine.Live(); !any || n > live {
		s.lastSeq.Store(n)
	}
}

// merge applies what is held, as far as nothing before it is missing.
func (s *Stream) merge(ctx context.Context) error {
	r := &s.repair
	for r.active {
		n, ok := r.held.first()
		if !ok || n > s.machine.Next() {
			return nil
		}
		b := r.held.pop()
		if s.machine.Replayed(b.seq).Kind != seq.Apply {
			continue // the replay has brought it as well
		}
		s.seq = b.seq
		s.remember(b.seq, b.payload)
		s.tapMerged(b.seq)
		if err := s.apply(ctx, time.Now(), b.payload); err != nil {
			return err
		}
	}
	return nil
}

// gone notes that the replay has nothing before sequence first.
func (s *Stream) gone(ctx context.Context, first uint64) error {
	if r := &s.repair; s.opt.Repair.Snapshot != nil && !r.tried {
		r.late = true
		s.dismiss()
		return s.askSnapshot(ctx, failHistory)
	}
	if n, ok := s.repair.held.first(); ok && n < first {
		first = n // what is held is there
	}
	if err := s.giveUp(ctx, first-1); err != nil || !s.repair.active {
		return err
	}
	return s.merge(ctx)
}

// giveUp takes everything through a sequence for lost.
func (s *Stream) giveUp(ctx context.Context, through uint64) error {
	r := &s.repair
	next := s.machine.Next()
	if through+1 <= next {
		return nil
	}
	_, applied := s.machine.Applied()
	s.machine.Skip(through)
	s.counters.add(countUnrecovered, through-next+1)
	s.log.Log(ctx, s.lossLevel(), "batches are lost for good", "from", next, "through", through)
	if !applied && r.cause == CauseLateJoin {
		// Nothing was taught of this history: what is known of it is true, but
		// not all.
		s.counters.add(countLosses, 1)
		for d := range NumDomains {
			s.spoil(d, true)
			r.causes[d] = CauseLateJoin
		}
		return nil
	}
	if s.lose(CauseGap) {
		return s.fence(ctx, CauseGap)
	}
	return nil
}

// asked deals with the end of a replay that did not bring everything.
func (s *Stream) asked(ctx context.Context, done *replay.Item) error {
	r := &s.repair
	if !r.active {
		return nil
	}
	r.left -= done.Took
	switch done.Outcome {
	case replay.Ended, replay.Nothing:
		_, holding := r.held.first()
		_, applied := s.machine.Applied()
		switch {
		case r.toEnd && !holding && applied && done.Outcome == replay.Ended:
			s.finishRepair()
			s.linkProven()
			return nil
		case r.toEnd && !holding:
			s.idle() // nothing to go by
			return nil
		case time.Since(r.progress) > s.opt.Repair.Silence:
			return s.failRepair(ctx, failSilence)
		}
		// More than this was heard live, so there is more to be had.
		r.pause = min(max(2*r.pause, askAgainMin), askAgainMax)
		s.askLater(time.Now(), r.pause)
		return nil
	case replay.Silent:
		return s.failRepair(ctx, failSilence)
	case replay.TimedOut:
		return s.failRepair(ctx, failTimeout)
	case replay.Stranger, replay.Unvouched:
		return s.anew(ctx)
	}
	return nil
}

// anew gives up the history that cannot be gone on with, since who answers has
// another or cannot prove to have the same, and asks for all of the publisher's.
func (s *Stream) anew(ctx context.Context) error {
	r := &s.repair
	s.dismiss()
	if s.opt.Attached != nil {
		r.alien = true
		return s.failRepair(ctx, failStranger)
	}
	s.log.Info("the publisher is another process, or cannot be told from one", "seq", s.seq)
	s.tapRestarted()
	h := r.held
	h.keep(s.epoch.Load())
	s.machine.Reset()
	if n := len(h.batches); n > 0 {
		s.machine.Heard(h.batches[n-1].seq)
	}
	left, tried := r.left, r.tried
	if err := s.restart(ctx, true, true); err != nil {
		return err
	}
	r.held, r.toEnd, r.left, r.tried = h, len(h.batches) == 0, left, tried
	r.progress = time.Now()
	if err := s.merge(ctx); err != nil || !r.active {
		return err
	}
	return s.request(ctx)
}

// failRepair deals with a repair that replay could not bring about.
func (s *Stream) failRepair(ctx context.Context, why failure) error {
	if !s.repair.active {
		return nil
	}
	s.dismiss()
	s.repair.askAt = time.Time{}
	if s.opt.Repair.Snapshot != nil && !s.repair.tried {
		return s.askSnapshot(ctx, why)
	}
	s.counters.add(why, 1)
	if s.repair.late && why == failSnapshot {
		s.repair.late = false
		return s.request(ctx)
	}
	s.budget.fail(time.Now())
	s.log.Log(ctx, s.lossLevel(), "a repair failed", "reason", countNames[why].Reason, "next", s.machine.Next())
	return s.surrender(ctx)
}

// surrender applies the rule of a loss for good to everything that is missing
// before and between what is held.
func (s *Stream) surrender(ctx context.Context) error {
	r := &s.repair
	if r.alien {
		return s.foreign(ctx)
	}
	for r.active {
		n, ok := r.held.first()
		if !ok {
			s.idle()
			return nil
		}
		if n > s.machine.Next() {
			if err := s.giveUp(ctx, n-1); err != nil || !r.active {
				return err
			}
		}
		if err := s.merge(ctx); err != nil {
			return err
		}
	}
	return nil
}

// idle leaves a repair, hidden, to the next live message, or to another attempt
// if there is none for long.
func (s *Stream) idle() {
	s.repair.idle = true
	wait := maxProbeAfter
	if c := s.opt.Repair.Cooldown; c > 0 {
		wait = c
	}
	s.arm(wait)
}

// completes reports whether the batch at hand is the last that a repair waits
// for.
func (s *Stream) completes() bool {
	live, any := s.machine.Live()
	return s.repair.active && !s.repair.toEnd && any && s.seq >= live
}

// finishRepair publishes what the domains are worth from the batch at hand on.
func (s *Stream) finishRepair() {
	r := &s.repair
	whole := true
	for d := range NumDomains {
		next := standing{state: Exact, from: s.here(), before: Repairing}
		if !s.entire(d) {
			whole = false
			next.state, next.cause = Degraded, r.causes[d]
			if next.cause == "" {
				next.cause = r.cause
			}
			next.advisory = s.keeps(d, next.cause) || s.retains(d)
			next.advised = next.advisory
		}
		s.set(d, &next)
	}
	if whole {
		s.counters.add(repairsWhole, 1)
	} else {
		s.counters.add(repairsPartial, 1)
	}
	s.endRepair()
	s.hides(false, s.seq)
}

// entire reports whether nothing is missing in a domain since it was last made
// whole.
func (s *Stream) entire(d Domain) bool {
	if d == CacheOwner && s.opt.Pool == PoolNone || !s.losses[d] {
		return true
	}
	any := false
	for i := range s.slots[d] {
		if at := &s.slots[d][i]; at.known {
			if at.lossy {
				return false
			}
			any = true
		}
	}
	return any
}

// endRepair forgets a repair, whatever became of it. From here on the publisher
// may be quiet for as long as it likes: the timer was the repair's.
func (s *Stream) endRepair() {
	s.dismiss()
	s.repair = repair{}
	s.quiet = 0
	s.armProbe()
}
