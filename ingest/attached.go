package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-kv/cairn/ingest/seq"
	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// maxAttachedMessage bounds a batch of an attached stream, in bytes, and
// maxAttachedBlocks one event of it.
const (
	maxAttachedMessage = 8 << 20
	maxAttachedBlocks  = 8192
)

// Attached binds a stream to one attachment of a cache owner's slot. Such a
// stream is one process's, on a topic of its own, and is judged more strictly
// than others:
//
//	plain stream                          attached stream
//	────────────                          ───────────────
//	lower sequence: a new process;        a regression: engine-local fenced,
//	  the same again: dropped               durable a loss of one batch
//	frames, size of the sequence:         the stream ends
//	  dropped
//	undecodable batch, another rank,      the stream ends, nothing of the batch
//	  more than 8 MiB, an event of more     is applied
//	  than 8,192 blocks: a loss, dropped,
//	  or taken
//	kvcr on the device tier: rejected     cache-owner fault, on any tier but host
//	                                        and disk, or of another block size
//	2⁶⁴-1: dropped                        the cursor is exhausted: fenced
//	a repair finds another process: what  engine-local fenced, durable: the
//	  was learnt is given up for its         stream ends
//	  history
//
// With [Options].Repair a gap is repaired before it is a loss, as for plain
// streams; a regression never is, and ends a repair that is under way.
//
// A stream that ends so, or faults, has said so in its standings before Run
// returns, an *EndError.
type Attached struct {
	// BlockSize is what the cache owner's blocks have, in tokens. 0: any.
	BlockSize int
	// KeepOwner keeps a durable owner's blocks over a loss, as an advisory
	// inventory, instead of emptying its domain.
	KeepOwner bool
	// Retained says that the cache owner's holder has blocks of an earlier
	// attachment. They are advisory until the owner clears them.
	Retained bool
	// FirstAtStart takes a first sequence above FirstSeq for a gap: on a topic
	// of its own it shows what joining too late has missed.
	FirstAtStart bool
	// Fault is called on the stream's goroutine when the attachment must not go
	// on, after the standings have said so and before anything else; the stream
	// ends when it returns. Required.
	Fault func(Fault, Cause)
	// Linked, if set, is called on the stream's goroutine when a link is up and
	// when it ends.
	Linked func(up bool)
	// Repairing, if set, is called on the stream's goroutine when a repair has
	// hidden both domains, and, once it is over and the stream goes on, with the
	// sequence whose batch, when it is applied, ends it.
	Repairing func(under bool, seq uint64)
}

// Fault says who of an attachment is at fault.
type Fault uint8

const (
	// FaultSource: nothing of the source can be believed.
	FaultSource Fault = iota
	// FaultCacheOwner: nothing of the cache owner can be.
	FaultCacheOwner
)

// EndError is why an attached stream ended by itself.
type EndError struct {
	Cause Cause
	Seq   uint64 // of the message at hand, or the last one before it
	Err   error  // what was wrong with it; may be nil
}

// Error names the cause and the sequence.
func (e *EndError) Error() string {
	s := fmt.Sprintf("ingest: attached stream ended: %s at sequence %d", e.Cause, e.Seq)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns what was wrong.
func (e *EndError) Unwrap() error { return e.Err }

// errOwnerFault says that the batch at hand shows a cache owner at fault.
var errOwnerFault = errors.New("ingest: cache-owner fault")

// keeps reports whether a loss leaves a domain as it is.
func (s *Stream) keeps(d Domain, cause Cause) bool {
	return d == CacheOwner && s.opt.Attached != nil && s.opt.Attached.KeepOwner && s.opt.Pool == PoolDurable && cause != CauseGeometry
}

// retains reports whether a domain held blocks before the stream's first batch.
func (s *Stream) retains(d Domain) bool {
	return d == CacheOwner && s.opt.Attached != nil && s.opt.Attached.Retained
}

// bind prepares an attached stream.
func (s *Stream) bind() {
	if a := s.opt.Attached; a != nil && a.Linked != nil {
		s.dial = watched(s.dial, a.Linked)
	}
	if s.retains(CacheOwner) {
		s.losses[CacheOwner] = true
		s.standings[CacheOwner].Store(&standing{state: Degraded, cause: CauseRestart, advisory: true})
	}
}

// watched tells of the links that dial makes.
func watched(dial dialFunc, linked func(bool)) dialFunc {
	return func(ctx context.Context, h Hooks) (Link, error) {
		l, err := dial(ctx, h)
		if err != nil {
			return nil, err
		}
		linked(true)
		return &watchedLink{Link: l, linked: linked}, nil
	}
}

type watchedLink struct {
	Link
	linked func(bool)
}

func (l *watchedLink) Close() error {
	l.linked(false)
	return l.Link.Close()
}

// strict judges a sequence anew for an attached stream: it knows no other
// process, and perhaps where it begins. again says that the live socket was as
// far before; what only a replay was quicker with is a duplicate.
func (s *Stream) strict(v seq.Verdict, first, again bool) (_ seq.Verdict, cause Cause) {
	a := s.opt.Attached
	switch {
	case a == nil:
	case v.Kind == seq.Restart, again:
		s.receding.Store(true)
		return seq.Verdict{Kind: seq.Gap, Missing: 1}, CauseRegression
	case first && v.Kind == seq.Gap && a.FirstAtStart:
		return v, CauseGap
	}
	if v.Kind == seq.Gap && !first {
		cause = CauseGap
	}
	return v, cause
}

// malformed ends an attached stream at a message that is none; others have
// dropped it.
func (s *Stream) malformed(cause Cause, err error) error {
	if s.opt.Attached == nil {
		return nil
	}
	return s.end(cause, err)
}

// exhausted fences an attached stream whose sequence cannot go on.
func (s *Stream) exhausted(ctx context.Context) error {
	if s.opt.Attached == nil {
		return nil
	}
	return s.fence(ctx, CauseExhausted)
}

// broken is what the end of a link means to an attached stream: nil, unless the
// message itself was at fault.
func (s *Stream) broken(err error) error {
	if s.opt.Attached == nil || !errors.Is(err, zmtp.ErrTooBig) {
		return nil
	}
	return s.end(CauseTooBig, err)
}

// hides tells who keeps the attachment that a repair hides both domains, or,
// with the sequence that ends it, that it is over.
func (s *Stream) hides(under bool, seq uint64) {
	if a := s.opt.Attached; a != nil && a.Repairing != nil {
		a.Repairing(under, seq)
	}
}

// regressed ends a repair at a message below the last one: on a topic of its
// own that is never repaired. What is held is part of the loss.
func (s *Stream) regressed(n uint64) {
	if s.repair.active {
		s.counters.add(failRegression, 1)
		s.endRepair()
		s.hides(false, n)
	}
}

// foreign ends an attachment whose publisher is another process: it belongs to
// one for good.
func (s *Stream) foreign(ctx context.Context) error {
	if s.opt.Pool == PoolEngineLocal {
		return s.fence(ctx, CauseStranger)
	}
	return s.end(CauseStranger, nil)
}

// end takes the worker out, and the owner with it unless its pool outlives the
// engine. Nothing of the batch at hand is applied.
func (s *Stream) end(cause Cause, err error) error {
	s.port.Rollback()
	s.set(Worker, &standing{state: Fenced, cause: cause})
	if s.opt.Pool == PoolEngineLocal {
		s.set(CacheOwner, &standing{state: Fenced, cause: cause})
	}
	return &EndError{Cause: cause, Seq: s.seq, Err: err}
}

// faulted tells who keeps the attachment that it is over. The standings have
// been set.
func (s *Stream) faulted(f Fault, cause Cause) error {
	s.opt.Attached.Fault(f, cause)
	return &EndError{Cause: cause, Seq: s.seq}
}

// ownerFault takes the cache owner out for good and the worker until it is
// attached again.
func (s *Stream) ownerFault(cause Cause) error {
	s.port.Rollback()
	s.tally.reset()
	s.counters.add(countFences, 1)
	for d := range NumDomains {
		s.set(d, &standing{state: Fenced, cause: cause})
	}
	return s.faulted(FaultCacheOwner, cause)
}

// vet judges an event by the rules of attached streams; nil if there is nothing
// against it.
func (s *Stream) vet(d Domain, ev *wire.Event) (Cause, error) {
	a := s.opt.Attached
	switch {
	case a == nil:
	case len(ev.Hashes) > maxAttachedBlocks:
		return CauseTooBig, errMalformed
	case ev.Kind == wire.Rejected && ev.Reason == wire.ReasonOwnerTier:
		return CauseOwnerTier, errOwnerFault
	case d != CacheOwner || ev.Kind != wire.Store && ev.Kind != wire.Remove:
	case ev.Tier() != wire.TierHost && ev.Tier() != wire.TierDisk:
		return CauseOwnerTier, errOwnerFault
	case ev.Kind == wire.Store && a.BlockSize > 0 && len(ev.Tokens) > 0 && int(ev.BlockSize) != a.BlockSize:
		return CauseOwnerGeometry, errOwnerFault
	}
	return "", nil
}

// inspect looks through a batch that will be published in pieces for what would
// take it out as a whole: a piece cannot be taken back.
func (s *Stream) inspect(payload []byte) (Cause, error) {
	if _, err := s.decoder.Reset(payload); err != nil {
		return "", err
	}
	ev := &s.event
	for {
		more, err := s.decoder.Next(ev)
		if err != nil || !more {
			return "", err
		}
		d, ok, cause := s.domain(ev)
		if cause != "" {
			return cause, errFault
		}
		if cause, err := s.vet(d, ev); err != nil && ok {
			return cause, err
		}
	}
}

// errMalformed says that the batch at hand ends an attached stream.
var errMalformed = errors.New("ingest: not a batch of an attached stream")
