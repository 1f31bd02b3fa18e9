package ingest

import (
	"context"
	"time"

	"github.com/cairn-kv/cairn/ingest/replay"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// Defaults and bounds of Repair.
const (
	DefaultHoldBatches = 4096
	DefaultHoldBytes   = 32 << 20
	DefaultCooldown    = 30 * time.Second
	DefaultProbeAfter  = 5 * time.Second
	// DefaultRepairs is how many repairs run at once over the whole process.
	DefaultRepairs = 8

	// maxProbeAfter is how rarely a publisher that stays quiet is asked.
	maxProbeAfter = time.Minute
	// repairsInHand is how many gaps in a row are repaired without a pause: a
	// publisher that drops does so in bursts.
	repairsInHand = 4
	// askAgainMin and askAgainMax bound the pause before a replay that did not
	// bring everything is asked for again.
	askAgainMin = 50 * time.Millisecond
	askAgainMax = time.Second
)

// Repair says how a stream makes up for what it missed. The zero value: not at
// all, what is missing is a loss for good at once. Zero fields mean the
// defaults.
type Repair struct {
	// Endpoint is the publisher's replay endpoint; empty: it has none.
	Endpoint string
	// Snapshot, if set, is asked where a replay could not help, or there is
	// none.
	Snapshot Snapshotter
	// Limit bounds how many repairs run at once; nil: DefaultRepairs over the
	// process.
	Limit *Limit
	// HoldBatches and HoldBytes bound the live messages that wait for a repair.
	// One more, and replay has failed; the oldest are given up for a snapshot, if
	// there is to be one.
	HoldBatches, HoldBytes int
	// Silence is how long a repair may bring nothing, Total how long it may
	// take, from when its turn has come.
	Silence, Total time.Duration
	// Cooldown is the time in which a stream earns one more repair: it begins
	// with a few in hand, and then waits, hidden, for the next. A repair that
	// failed costs all, and a gap in the cooldown behind it is a loss at once,
	// for nobody is there to be asked.
	Cooldown time.Duration
	// ProbeAfter is how long a publisher is quiet until it is asked whether
	// there is something that it did not say; then more and more rarely, down
	// to once a minute. Negative: never.
	ProbeAfter time.Duration
}

func (r *Repair) setDefaults() {
	if r.Limit == nil {
		r.Limit = processLimit
	}
	defaults := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	defaults(&r.Silence, replay.DefaultSilence)
	defaults(&r.Total, replay.DefaultTotal)
	defaults(&r.Cooldown, DefaultCooldown)
	defaults(&r.ProbeAfter, DefaultProbeAfter)
	if r.HoldBatches == 0 {
		r.HoldBatches = DefaultHoldBatches
	}
	if r.HoldBytes == 0 {
		r.HoldBytes = DefaultHoldBytes
	}
}

// possible reports whether there is anybody to ask.
func (r *Repair) possible() bool { return r.Endpoint != "" || r.Snapshot != nil }

// Limit bounds how many repairs run at once. Share one between streams.
type Limit struct {
	repairs chan struct{}
	// looks are the slots of requests that only ask whether there is something:
	// a replay endpoint that answers nobody must not keep repairs waiting.
	looks chan struct{}
}

// looksPerRepair is how many of them there are for one repair: they are short.
const looksPerRepair = 4

// NewLimit returns a limit of n repairs at once.
func NewLimit(n int) *Limit {
	return &Limit{make(chan struct{}, n), make(chan struct{}, looksPerRepair*n)}
}

var processLimit = NewLimit(DefaultRepairs)

// enter waits for a slot until ctx ends, and returns what gives it back.
func (l *Limit) enter(ctx context.Context, kind errandKind) (leave func(), err error) {
	slots := l.looks
	if kind == forRepair || kind == forSnapshot {
		slots = l.repairs
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// budget is how many repairs a stream has in hand.
type budget struct {
	cooldown time.Duration
	hand     float64
	at       time.Time // hand is as of then
	failed   bool      // the last repair failed, and nothing was earned since
}

func newBudget(cooldown time.Duration) budget {
	return budget{cooldown: cooldown, hand: repairsInHand}
}

// earn adds what was earned since.
func (b *budget) earn(now time.Time) {
	if !b.at.IsZero() && b.cooldown > 0 {
		b.hand = min(repairsInHand, b.hand+float64(now.Sub(b.at))/float64(b.cooldown))
	}
	if b.cooldown <= 0 {
		b.hand = repairsInHand
	}
	b.at = now
}

// refuses reports whether a repair has failed so lately that none may begin.
func (b *budget) refuses(now time.Time) bool {
	b.earn(now)
	return b.failed && b.hand < 1
}

// take takes one repair, or says how long there is none.
func (b *budget) take(now time.Time) (wait time.Duration, ok bool) {
	b.earn(now)
	if b.hand >= 1 {
		b.hand--
		b.failed = false
		return 0, true
	}
	return time.Duration((1 - b.hand) * float64(b.cooldown)), false
}

// fail takes all there is.
func (b *budget) fail(now time.Time) { b.hand, b.at, b.failed = 0, now, true }

// errand is something that runs for the stream on a goroutine of its own, and
// reports into an inbox.
type errand struct {
	kind   errandKind
	inbox  *replay.Inbox
	cancel context.CancelFunc
	// vouched: the publisher has the witness, so it is the process we know.
	vouched bool
	state   *Snapshot // what a snapshot errand brought
}

type errandKind uint8

const (
	forRepair   errandKind = iota // brings what is missing
	forCatchUp                    // after a reconnect: is anything missing?
	forTail                       // the publisher is quiet: is anything missing?
	forVouch                      // is it the process that we know?
	forSnapshot                   // brings everything
)

// send sets an errand going. It is dismissed when the link ends.
func (s *Stream) send(kind errandKind, run func(ctx context.Context, e *errand)) {
	s.dismiss()
	ctx, cancel := context.WithCancel(s.ctx)
	e := &errand{kind: kind, cancel: cancel, inbox: replay.NewInbox(s.opt.Repair.HoldBytes, s.wake)}
	s.errand = e
	s.work.Go(func() {
		defer cancel()
		leave, err := s.opt.Repair.Limit.enter(ctx, kind)
		if err != nil {
			return // dismissed while it waited for its turn
		}
		defer leave()
		run(ctx, e)
	})
}

// dismiss ends the errand, if there is one. What it has brought is forgotten.
func (s *Stream) dismiss() {
	if s.errand != nil {
		s.errand.cancel()
		s.errand = nil
	}
}

// wake calls the stream's goroutine away from its link. Any goroutine may.
func (s *Stream) wake() {
	if l := s.link.Load(); l != nil {
		(*l).Wake()
	}
}

// fetch asks the replay endpoint for everything from a sequence on.
func (s *Stream) fetch(kind errandKind, o replay.Options, from uint64) {
	s.send(kind, func(ctx context.Context, e *errand) { replay.Fetch(ctx, o, from, e.inbox) })
}

// replayOptions are those that all fetches have in common.
func (s *Stream) replayOptions() replay.Options {
	r, t := &s.opt.Repair, s.opt.Transport
	t.Endpoint, t.Heartbeat = r.Endpoint, nil
	if t.ReadBuffer == 0 {
		t.ReadBuffer = zmtp.DefaultReadBuffer
	}
	return replay.Options{Transport: t, Silence: r.Silence, Total: r.Total, Tally: &s.tallied}
}
