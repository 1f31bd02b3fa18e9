package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/seq"
	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/tree/shard"
)

// pushEndpoint is the endpoint of a stream whose batches are pushed, in logs
// and in Sources.
const pushEndpoint = "push"

// Errors of Push, wrapped with what was wrong.
var (
	// ErrNotPushed: the source has an endpoint, from where its events come.
	ErrNotPushed = errors.New("engine: not a push source")
	// ErrBatch: the payload cannot be decoded. Nothing of it is applied, and
	// its sequence is not used up.
	ErrBatch = errors.New("engine: the batch cannot be decoded")
)

// Batch is one batch of events that is pushed.
type Batch struct {
	Source string
	// Rank is the dp rank of the stream, and of a batch that states none.
	Rank int
	// Seq is the batch's sequence in its stream, if HasSeq. Without it the
	// batch is given the next one, so that no gap is ever seen.
	Seq    uint64
	HasSeq bool
	// Topic is compared with the source's.
	Topic []byte
	// Model, if set, must be the source's.
	Model string
	// Payload is the batch, as MessagePack or JSON, in any dialect that a
	// publisher speaks: see package wire. Push does not keep it.
	Payload []byte
	// Applied has Push wait until the batch is visible. Without it Push returns
	// as soon as the stream has dealt with the batch.
	Applied bool
}

// Verdict says what a stream makes of a pushed batch's sequence.
type Verdict string

// The verdicts.
const (
	// VerdictNext: it is the next one.
	VerdictNext Verdict = "next"
	// VerdictDuplicate: it came before, and is dropped.
	VerdictDuplicate Verdict = "duplicate"
	// VerdictGap: batches are missing in front of it. What was learnt before is
	// given up, and the source goes on, degraded.
	VerdictGap Verdict = "gap"
	// VerdictRestart: the sequence went back. The source began anew, and what
	// was learnt before is given up.
	VerdictRestart Verdict = "restart"
)

// PushResult is what became of a batch.
type PushResult struct {
	Seq     uint64
	Verdict Verdict
	// Missing is how many batches in front of this one never came.
	Missing uint64
	// Events is how many the batch has, Rejected which of them are wrong or not
	// understood in themselves, by index: the others are taken. It stays valid.
	Events   int
	Rejected []RejectedEvent
	// State is what the source's word is worth with the batch, and Cause why
	// it is not Exact.
	State State
	Cause string
}

// RejectedEvent is an event that was dropped alone.
type RejectedEvent struct {
	Index   int
	Reason  string
	Skipped bool // it is not understood rather than wrong
}

// pusher is the giving end of a push source's stream.
type pusher struct {
	turn chan struct{} // one slot: whose batch the stream is at
	link *handLink

	// The one who has the turn.
	machine seq.Machine
	decoder wire.Decoder
	ev      wire.Event
	buf     []byte
	frames  [3][]byte
}

// pushed makes the links of a stream whose batches are pushed: one, for its
// life.
func pushed(f *feed) dialFunc {
	l := newHandLink(nil)
	l.turn = make(chan struct{}, 1)
	f.push = &pusher{turn: l.turn, link: l, machine: seq.Machine{First: f.src.spec.FirstSeq}}
	f.push.decoder.BareMultimodal = f.src.spec.BareMM
	first := true
	return func(ctx context.Context, h ingest.Hooks) (ingest.Link, error) {
		if !first { // nothing ends such a link but the source's removal
			return nil, ingest.ErrEnd
		}
		first = false
		l.ctx, l.hooks = ctx, h
		return l, nil
	}
}

// Push gives a batch to a push source's stream, which judges, decodes and
// applies it as one that came over a socket. Batches of one stream are taken
// in the order of the calls; a call waits for those before it, and for room:
// this is the back-pressure.
//
// The batch is atomic: it is applied with its sound events or not at all. The
// error is a *FieldError, ErrClosed, ctx's, or wraps ErrUnknownSource,
// ErrNotPushed or ErrBatch; if ctx ends while the stream is at the batch, it is
// applied all the same.
func (e *Engine) Push(ctx context.Context, b *Batch) (PushResult, error) {
	f, err := e.pushFeed(b)
	if err != nil {
		return PushResult{}, err
	}
	var res PushResult
	p := f.push
	select {
	case p.turn <- struct{}{}:
	case <-f.port.Done():
		return PushResult{}, ErrClosed
	case <-ctx.Done():
		return PushResult{}, context.Cause(ctx)
	}
	if err := e.look(p, b, &res); err != nil {
		<-p.turn
		return PushResult{}, err
	}
	res.Seq = b.Seq
	if !b.HasSeq {
		res.Seq = p.machine.Next()
	}
	before := p.machine
	res.judge(&p.machine)
	p.buf = append(append(p.buf[:0], b.Topic...), b.Payload...)
	p.buf = binary.BigEndian.AppendUint64(p.buf, res.Seq)
	topic, payload := len(b.Topic), len(b.Topic)+len(b.Payload)
	p.frames = [3][]byte{p.buf[:topic:topic], p.buf[payload:], p.buf[topic:payload:payload]}
	dealt := make(chan struct{}, 1)
	select {
	case p.link.messages <- handed{p.frames[:], dealt}:
	case <-f.port.Done():
		return PushResult{}, ErrClosed
	case <-ctx.Done():
		p.machine = before
		<-p.turn
		return PushResult{}, context.Cause(ctx)
	}
	select {
	case <-dealt: // and the turn is the next one's
	case <-f.port.Done():
		return PushResult{}, ErrClosed
	case <-ctx.Done():
		return res, context.Cause(ctx)
	}
	if b.Applied {
		if err := f.wait(ctx, res.Seq); err != nil {
			return res, err
		}
	}
	// As of an answer that has seen all of it.
	st := f.status(hint.Worker, shard.Position{Incarnation: math.MaxUint32, Seq: res.Seq, Any: true})
	res.State, res.Cause = State(st.State), string(st.Cause)
	return res, nil
}

// judge foretells the stream's verdict on a sequence: the rules are the same.
func (r *PushResult) judge(m *seq.Machine) {
	v := m.Observe(r.Seq)
	r.Missing = v.Missing
	switch v.Kind {
	case seq.Duplicate:
		r.Verdict = VerdictDuplicate
	case seq.Restart:
		r.Verdict = VerdictRestart
	case seq.Gap:
		r.Verdict = VerdictGap
	default:
		r.Verdict = VerdictNext
	}
	if v.Missing > 0 {
		m.Skip(r.Seq)
	}
}

// pushFeed finds the stream that a batch is for.
func (e *Engine) pushFeed(b *Batch) (*feed, error) {
	s, ok := e.sources.Load(b.Source)
	if !ok {
		if e.view.Load() == nil {
			return nil, ErrClosed
		}
		return nil, fmt.Errorf("%w: %q", ErrUnknownSource, b.Source)
	}
	e.control.Lock()
	started, feeds := s.started && !s.gone, s.feeds
	e.control.Unlock()
	if !started {
		return nil, fmt.Errorf("%w: %q", ErrUnknownSource, b.Source)
	}
	if !s.spec.Push || feeds[0].push == nil {
		return nil, fmt.Errorf("%w: %q", ErrNotPushed, b.Source)
	}
	bad := func(field, value, want string) error {
		return &FieldError{Source: b.Source, Field: field, Value: value, Want: want}
	}
	switch {
	case !s.hasRank(b.Rank):
		return nil, bad("rank", strconv.Itoa(b.Rank), fmt.Sprintf("wants 0 … %d: the source is configured with ranks %d", s.ranks()-1, s.ranks()))
	case b.HasSeq && b.Seq == seq.Never:
		return nil, bad("seq", strconv.FormatUint(b.Seq, 10), "is the end marker of replays and never a batch's")
	case b.Model != "" && b.Model != s.spec.Model:
		return nil, bad("model_name", strconv.Quote(b.Model), "the source's is "+strconv.Quote(s.spec.Model))
	case s.spec.Topic != "" && string(b.Topic) != s.spec.Topic:
		return nil, bad("topic", strconv.Quote(string(b.Topic)), "the source's is "+strconv.Quote(s.spec.Topic))
	case b.HasSeq && b.Seq < s.spec.FirstSeq:
		return nil, bad("seq", strconv.FormatUint(b.Seq, 10), fmt.Sprintf("the source's sequences begin at %d", s.spec.FirstSeq))
	}
	return feeds[b.Rank], nil
}

// look decodes a batch to its end, so that one that is not sound is refused
// before it has used up its sequence, and tells which events are wrong.
// The decoder has seen what the stream's has, for some dialects are not
// understood without.
func (e *Engine) look(p *pusher, b *Batch, res *PushResult) error {
	env, err := p.decoder.Reset(b.Payload)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBatch, err)
	}
	for ; ; res.Events++ {
		more, err := p.decoder.Next(&p.ev)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBatch, err)
		}
		if !more {
			break
		}
		if k := p.ev.Kind; k == wire.Rejected || k == wire.Skipped {
			res.Rejected = append(res.Rejected, RejectedEvent{Index: res.Events, Reason: p.ev.Reason.String(), Skipped: k == wire.Skipped})
		}
	}
	if env.HasRank && (env.Rank < 0 || env.Rank >= int64(e.opt.MaxRanks)) {
		return &FieldError{Source: b.Source, Field: "data_parallel_rank", Value: strconv.FormatInt(env.Rank, 10), Want: fmt.Sprintf("wants 0 … %d", e.opt.MaxRanks-1)}
	}
	return nil
}
