package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-kv/cairn/ingest/replay"
)

// woken runs on the stream's goroutine when somebody called it away from its
// link: an errand brought something, or the timer is due.
func (s *Stream) woken(ctx context.Context) error {
	err := s.collect(ctx)
	if err == nil && s.due.Swap(false) {
		err = s.tick(ctx)
	}
	if err != nil {
		s.fatal = err
	}
	return err
}

// arm makes the stream look after itself in a while, wherever it waits then.
func (s *Stream) arm(d time.Duration) {
	if s.timer == nil {
		s.timer = time.AfterFunc(d, func() {
			s.due.Store(true)
			s.wake()
		})
		return
	}
	s.timer.Reset(d)
}

// tick does what is due.
func (s *Stream) tick(ctx context.Context) error {
	now := time.Now()
	if at := s.repair.askAt; s.repair.active {
		switch {
		case s.repair.idle:
			// Nobody could be asked, and nothing has come since. Perhaps now.
			s.repair.idle = false
			return s.schedule(ctx)
		case at.IsZero():
			return nil
		case now.Before(at):
			s.arm(at.Sub(now))
			return nil
		case s.repair.progress.IsZero(): // it waited for its turn
			return s.schedule(ctx)
		}
		return s.request(ctx)
	}
	s.probe()
	return nil
}

// linked begins a connection: what may have been missed before it is asked for
// at once, for the publisher may have nothing more to say for long.
func (s *Stream) linked(ctx context.Context) error {
	if !s.opt.Repair.possible() || s.fenced {
		return nil
	}
	s.quiet = 0
	if r := &s.repair; r.active {
		r.toEnd = true
		if r.idle {
			return nil
		}
		r.progress = time.Time{}
		return s.schedule(ctx)
	}
	s.armProbe()
	if _, applied := s.machine.Applied(); applied && s.opt.Repair.Endpoint != "" {
		o := s.replayOptions()
		o.Peek = true
		s.fetch(forCatchUp, o, s.machine.Next())
	}
	return nil
}

// unlinked ends a connection. A repair stays, hidden, and goes on with the next.
func (s *Stream) unlinked() {
	s.dismiss()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.machine.Disconnected()
	s.anchorAt()
	r := &s.repair
	if !r.active {
		return
	}
	r.askAt = time.Time{}
	if _, applied := s.machine.Applied(); !applied {
		// Nothing of this history is known but what is held, and who comes next
		// cannot prove that it belongs to it.
		r.held.reset()
		s.machine.Reset()
		s.proven = true
	}
}

// armProbe waits for the publisher to be quiet.
func (s *Stream) armProbe() {
	if r := &s.opt.Repair; r.Endpoint != "" && r.ProbeAfter > 0 {
		s.quiet = max(s.quiet, r.ProbeAfter)
		s.arm(s.quiet)
	}
}

// probe asks a publisher that has been quiet whether it has said something that
// did not come: what is lost at the end of a burst shows at no later message, and
// nor does what was said before we came.
func (s *Stream) probe() {
	o := &s.opt.Repair
	if o.Endpoint == "" || o.ProbeAfter <= 0 || !s.connected.Load() {
		return // the next connection begins again
	}
	if s.fenced || s.errand != nil {
		s.arm(max(s.quiet, o.ProbeAfter))
		return
	}
	if n := s.counters.counts[countMessages].Load(); n != s.probed {
		// It has spoken since: begin again. Counted, not timed, for the clock
		// of the day may jump.
		s.probed, s.quiet = n, o.ProbeAfter
		s.arm(s.quiet)
		return
	}
	s.counters.add(countProbes, 1)
	f, from := s.replayOptions(), s.machine.Next()
	f.Peek, f.Known = true, from
	if !s.proven && s.anchor.any {
		f.Witness, from = s.anchor.witness()
	}
	s.fetch(forTail, f, from)
	s.quiet = min(2*s.quiet, max(maxProbeAfter, o.ProbeAfter))
	s.arm(s.quiet)
}

// lookedUp deals with the answer to whether anything is missing.
func (s *Stream) lookedUp(ctx context.Context, e *errand, done *replay.Item) error {
	if s.repair.active || s.fenced {
		return nil // a live message was quicker
	}
	switch done.Outcome {
	case replay.Ended:
		if e.vouched && s.fresh {
			// The same process, and nothing behind what we have: the link is
			// proven though nothing has come over it.
			s.up()
		}
	case replay.Something:
		return s.behind(ctx, e)
	case replay.Stranger, replay.Unvouched:
		if done.Outcome == replay.Unvouched && s.opt.Attached != nil && e.kind == forVouch {
			break // its live sequence goes on, on a topic of its own
		}
		s.beginRepair(CauseGap)
		return s.anew(ctx)
	}
	if e.kind == forVouch {
		s.proven = true // as far as can be told
	}
	return nil
}

// behind begins a repair that no live message has shown to be needed.
func (s *Stream) behind(ctx context.Context, e *errand) error {
	cause := CauseGap
	switch _, applied := s.machine.Applied(); {
	case !applied:
		cause = CauseLateJoin
		s.awaits(Repairing)
	case e.kind == forTail:
		s.counters.add(countTails, 1)
	}
	s.beginRepair(cause)
	s.repair.toEnd = true
	return s.schedule(ctx)
}

// ownError tells the session that an error of a link was the stream's own.
func (s *Stream) ownError(err error) bool { return s.fatal != nil && errors.Is(err, s.fatal) }
