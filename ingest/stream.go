package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/ingest/replay"
	"github.com/cairn-kv/cairn/ingest/seq"
	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree/content"
	"github.com/cairn-kv/cairn/tree/shard"
)

// Stream follows one publisher. See the package comment.
type Stream struct {
	opt      Options
	log      *slog.Logger
	port     *shard.Port
	learned  *Learned
	maxRanks int
	dial     dialFunc
	changes  *Changes

	// What any goroutine may read.
	standings [NumDomains]atomic.Pointer[standing]
	*Vitals
	lastError atomic.Pointer[string]
	counters  counters

	// Run's goroutine alone: the sequence.
	machine     seq.Machine
	mark        mark // of the last batch applied
	anchor      mark // of the last one over an older connection
	proven      bool // the publisher of this connection is the process we know
	incarnation uint32
	fresh       bool   // no message of this connection was judged yet
	warned      string // the kind of failure to connect that was logged last, "" since connected

	// The same goroutine: what is missing. link, due and tallied are shared with
	// the errands, which work waits for.
	ctx     context.Context // Run's
	link    atomic.Pointer[Link]
	repair  repair
	errand  *errand
	items   []replay.Item // given back by collect
	budget  budget
	fatal   error // that Woken returned
	work    sync.WaitGroup
	tallied replay.Tally
	timer   *time.Timer
	due     atomic.Bool   // the timer is
	quiet   time.Duration // how long the publisher may be quiet until it is asked
	probed  uint64        // messages when the timer was due last

	// What the stream taught.
	slots  [NumDomains][]slot
	losses [NumDomains]bool // something was lost since the domain was last begun anew
	begin  shard.Position   // the first batch of this history
	short  State            // what answers short of it are worth
	fenced bool
	unit   int // of the stores so far, 0 before the first
	roots  []root
	worker worker

	// The batch at hand.
	decoder   wire.Decoder
	event     wire.Event
	seq       uint64
	clearing  bool             // everything is cleared in front of the batch
	pieces    bool             // it is longer than the ring, and checked
	whole     [NumDomains]bool // to be called exact when it is committed
	tally     tally
	contents  []uint64
	keys      content.Keys
	namespace []byte
}

// slot is what a stream knows of one rank in one domain.
type slot struct {
	shard.Head      // with holder and generation
	known      bool // the owner was asked
	lossy      bool // something was lost since the slot was last whole
	size, look int  // as last told to Owner.Learned
	blocks     [wire.NumTiers]blockSize
}

// NewStream makes a stream. Nothing happens before Run.
func NewStream(o Options) (*Stream, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Stream{
		opt:      o,
		log:      o.Logger.With("source", o.Source, "rank", o.Rank, "tp_shard", o.TPShard, "endpoint", o.Endpoint),
		port:     o.Port,
		learned:  o.Learned,
		maxRanks: o.maxRanks(),
		machine:  seq.Machine{First: o.FirstSeq},
		changes:  o.Changes,
		Vitals:   new(Vitals),
	}
	if s.changes == nil {
		s.changes = new(Changes)
	}
	s.opt.Repair.setDefaults()
	s.proven = true
	s.budget = newBudget(s.opt.Repair.Cooldown)
	s.decoder.BareMultimodal = o.BareMultimodal
	if o.Attached != nil {
		o.Transport.MaxMessage = maxAttachedMessage
	}
	if s.dial = o.Dial; s.dial == nil {
		t := o.Transport
		t.Endpoint, t.Topics = o.Endpoint, []string{o.Topic}
		s.dial = dialer(t)
	}
	for d := range s.standings {
		s.standings[d].Store(&standing{state: Connecting})
	}
	s.bind()
	return s, nil
}

// Port is the stream's port, for Applied, Begun and WaitApplied.
func (s *Stream) Port() *shard.Port { return s.port }

// Run follows the publisher until ctx ends, the port is closed or a link says
// ErrEnd, and returns why; it never returns nil. It may be called once, and
// closes the port: what was committed is applied and answered from still.
func (s *Stream) Run(ctx context.Context) error {
	defer s.port.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer s.work.Wait()
	defer cancel()
	s.ctx = ctx
	back := s.opt.Backoff
	longest := back.Max
	if longest == 0 {
		longest = zmtp.DefaultBackoffMax
	}
	for {
		start := time.Now()
		fatal, err := s.session(ctx)
		if fatal {
			return err
		}
		// A publisher that spoke, or stayed, deserves a quick attempt; one that
		// accepts and dies at once does not.
		if !s.fresh || time.Since(start) > longest {
			back.Reset()
		}
		if err := back.Wait(ctx); err != nil {
			return err
		}
	}
}

// session is one connection, from Dial to its end. It reports whether the
// stream is at its end as well.
func (s *Stream) session(ctx context.Context) (fatal bool, err error) {
	s.fresh = true
	link, err := s.dial(ctx, Hooks{Heard: s.hear, Woken: func() error { return s.woken(ctx) }})
	if err != nil {
		if ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		if errors.Is(err, ErrEnd) {
			return true, err
		}
		s.counters.add(countDialErrors, 1)
		s.setError(err)
		// Once for each reason, not for each attempt: a refused dial may turn
		// into a peer that is silent, or that speaks something else.
		if kind := outage(err); kind != s.warned {
			s.warned = kind
			s.log.Warn("cannot connect, trying on", "error", err)
		}
		return false, err
	}
	defer link.Close()
	s.link.Store(&link)
	defer s.unlinked()
	defer s.link.Store(nil)
	s.counters.add(countConnects, 1)
	s.warned = ""
	s.lastError.Store(nil)
	s.heard.Store(time.Now().UnixNano())
	epoch := s.epoch.Add(1)
	s.connected.Store(true)
	s.log.Info("connected", "epoch", epoch)
	if err := s.linked(ctx); err != nil {
		return s.ended(ctx, err)
	}
	for {
		frames, err := link.Next()
		if err != nil {
			if ctx.Err() != nil || s.ownError(err) {
				return s.ended(ctx, err)
			}
			s.connected.Store(false)
			if errors.Is(err, ErrEnd) {
				return true, err
			}
			if end := s.broken(err); end != nil {
				return true, end
			}
			s.linkDown(err)
			return false, err
		}
		if err := s.take(ctx, frames); err != nil {
			return s.ended(ctx, err)
		}
	}
}

// ended is the end of a session that is the stream's as well.
func (s *Stream) ended(ctx context.Context, err error) (fatal bool, _ error) {
	s.connected.Store(false)
	s.port.Rollback()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return true, err
}

// hear notes a heartbeat.
func (s *Stream) hear() { s.heard.Store(time.Now().UnixNano()) }

func (s *Stream) setError(err error) {
	text := err.Error()
	s.lastError.Store(&text)
}

// linkDown notes the end of a connection. What was taught stays: it is the
// truth of then, and the next connection's first message decides about it.
func (s *Stream) linkDown(err error) {
	s.counters.add(countDisconnects, 1)
	s.setError(err)
	if s.received.Load() && s.down.Load() == 0 {
		s.down.Store(time.Now().UnixNano())
		s.changes.made()
	}
	s.log.Warn("disconnected", "error", err, "last_seq", s.lastSeq.Load())
}

// linkProven notes that nothing was missed while the link was down, or that
// what was missed has been dealt with.
func (s *Stream) linkProven() {
	s.fresh = false
	s.up()
}

// up notes that the link is what it was before it went down.
func (s *Stream) up() {
	if s.down.Load() != 0 {
		s.down.Store(0)
		s.changes.made()
		s.log.Info("caught up after a disconnect", "seq", s.seq)
	}
}

// take judges one message. An error ends the stream.
func (s *Stream) take(ctx context.Context, frames [][]byte) error {
	s.counters.add(countMessages, 1)
	switch {
	case len(frames) != 3:
		s.counters.add(dropFrameCount, 1)
		return s.malformed(CauseFrames, nil)
	case len(frames[1]) != 8:
		s.counters.add(dropSequenceSize, 1)
		return s.malformed(CauseFrames, nil)
	case !s.wanted(frames[0]):
		s.counters.add(dropTopic, 1)
		return nil
	}
	now := time.Now()
	s.message.Store(now.UnixNano())
	s.heard.Store(now.UnixNano())
	s.counters.add(countBytes, uint64(len(frames[2])))
	return s.judge(ctx, now, binary.BigEndian.Uint64(frames[1]), frames[2])
}

// wanted compares a topic: the publisher filters by prefix alone.
func (s *Stream) wanted(topic []byte) bool {
	want := s.opt.Topic
	if s.opt.TopicPrefix {
		return len(topic) >= len(want) && string(topic[:len(want)]) == want
	}
	return want == "" || string(topic) == want
}

// judge decides by its sequence what a message means.
func (s *Stream) judge(ctx context.Context, now time.Time, n uint64, payload []byte) error {
	last, any := s.machine.Live()
	_, applied := s.machine.Applied()
	first := !any && !applied && !s.repair.active // of this history
	var v seq.Verdict
	if s.fresh {
		if any && s.another() {
			s.machine.Heard(n) // whatever it is: nobody sends it twice
		}
		v = s.machine.ObserveFirst(n)
	} else {
		v = s.machine.Observe(n)
	}
	if v.Kind == seq.Refused {
		s.counters.add(dropEndMarker, 1)
		return s.exhausted(ctx)
	}
	v, lost := s.strict(v, first, any && n <= last)
	if v.Kind == seq.Duplicate {
		s.counters.add(dropDuplicate, 1)
		return nil
	}
	s.lastSeq.Store(n)
	s.received.Store(true)
	if missing := v.Missing; missing > 0 {
		if s.repair.active && any && v.Kind == seq.Gap {
			missing = n - last - 1 // the others are known to be missing
		}
		if missing > 0 {
			s.counters.add(countGaps, 1)
			s.counters.add(countMissing, missing)
		}
	}
	if done, err := s.repairs(ctx, now, v, lost, n, payload); done || err != nil {
		return err
	}
	s.machine.Skip(n) // whatever is missing is given up
	s.seq = n
	if first {
		s.begins(Connecting)
	}
	switch {
	case v.Kind == seq.Restart:
		if err := s.restart(ctx, v.Missing > 0, false); err != nil {
			return err
		}
	case s.fenced:
	case v.Kind == seq.Gap && lost == "":
		s.lateJoin()
	case v.Kind == seq.Gap:
		s.log.Log(ctx, s.lossLevel(), "batches are missing", "seq", n, "missing", v.Missing, "cause", string(lost))
		if s.lose(lost) {
			return s.fence(ctx, lost)
		}
	case first:
		for d := range NumDomains {
			s.whole[d] = !s.retains(d)
		}
	}
	s.linkProven()
	if s.fenced {
		s.counters.add(dropFenced, 1)
		return s.port.Commit(n)
	}
	s.remember(n, payload)
	return s.apply(ctx, now, payload)
}

// cooling reports whether so many missing batches are a loss at once, because a
// repair has failed so lately that nobody is asked, and counts it.
func (s *Stream) cooling(now time.Time, missing uint64) bool {
	if !s.budget.refuses(now) {
		return false
	}
	s.counters.add(failCooldown, 1)
	s.counters.add(countUnrecovered, missing)
	return true
}

// repairs takes a message into a repair, if there is one or must be one.
func (s *Stream) repairs(ctx context.Context, now time.Time, v seq.Verdict, lost Cause, n uint64, payload []byte) (done bool, err error) {
	switch {
	case v.Kind == seq.Restart:
		if s.repair.active {
			s.endRepair()
		}
		s.dismiss()
		if v.Missing == 0 || !s.opt.Repair.possible() || s.cooling(now, v.Missing) {
			return false, nil
		}
		if err := s.restart(ctx, true, true); err != nil {
			return true, err
		}
	case s.fenced:
		return false, nil
	case lost == CauseRegression:
		s.regressed(n)
		return false, nil
	case s.repair.active:
		return true, s.missed(ctx, now, v, n, payload)
	case v.Kind != seq.Gap || !s.opt.Repair.possible():
		if v.Kind == seq.Apply {
			// It goes on, so nothing is missing, if it is who it seems to be.
			if s.vouch(); s.proven {
				s.dismiss()
			}
		}
		return false, nil
	case s.cooling(now, v.Missing):
		s.dismiss() // whatever it finds is lost by now
		return false, nil
	default:
		cause := lost
		if _, applied := s.machine.Applied(); !applied {
			s.awaits(Repairing)
		}
		if cause == "" {
			cause = CauseLateJoin
		}
		s.log.Info("batches are missing, asking for them", "seq", n, "missing", v.Missing)
		s.beginRepair(cause)
	}
	s.repair.idle = true // until the message is held
	return true, s.missed(ctx, now, v, n, payload)
}
