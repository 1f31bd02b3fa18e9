package residency

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// slot is the state machine of one slot: what may follow what, and nothing that
// takes time. Guarded by Registry.mu.
type slot struct {
	source Source
	keeper *keeper

	state      State
	flags      Flags
	generation uint64
	ready      bool        // the ingress of this generation is open, and nothing has gone wrong since
	attachment *Attachment // nil once withdrawn
	bound      bool        // an attachment is to be withdrawn and stopped
	record     *record     // whose attachment it is, or was until the slot is detached
	culprit    uint64      // incarnation that earned the flags
	hint       *HintSource // of the last intent
	proven     bool        // a registration was handed over: there may be entries worth keeping

	// changes counts what puts a verdict in doubt; see Registry.judge.
	changes uint64
	route   *Route // as published; nil before the first

	reason   string
	since    time.Time
	attaches uint64
	stale    uint64
}

var (
	errAttached = errors.New("already attached")
	errEnded    = errors.New("the attachment ended while it was being made")
)

// attach begins the next generation for an intent. ready stays false until the
// ingress is open.
func (s *slot) attach(rec *record, recordID func(publisher, generation uint64) uint64) (Attachment, error) {
	switch {
	case s.flags&WorkerFailed != 0:
		return Attachment{}, ErrFenced
	case s.state != Detached:
		return Attachment{}, errAttached
	}
	if err := s.source.Accepts(&rec.Intent); err != nil {
		return Attachment{}, err
	}
	s.generation++
	s.state, s.ready, s.bound, s.record = Attached, false, true, rec
	s.hint = rec.Hint // another intent's would be stale
	s.attachment = &Attachment{
		Source:      s.source,
		Generation:  s.generation,
		Record:      recordID(s.source.Publisher, s.generation),
		Producer:    rec.Producer,
		Incarnation: rec.Incarnation,
		Worker:      rec.Worker,
		Endpoints:   rec.Endpoints,
		Replays:     rec.Replays,
		Topic:       rec.Topic,
		Hint:        rec.Hint,
		ImageToken:  rec.ImageToken,
		VideoToken:  rec.VideoToken,
	}
	s.note("attaching")
	return *s.attachment, nil
}

// Accepts refuses an intent of the slot's owner that differs from the slot in
// what never changes, with an *ImmutableError.
func (s *Source) Accepts(i *Intent) error {
	num := func(n int) string { return strconv.Itoa(n) }
	for _, f := range []struct{ field, have, got string }{
		{"global_dp_rank", strconv.FormatUint(uint64(s.Rank), 10), strconv.FormatUint(uint64(i.Worker.Rank), 10)},
		{"kv_state_endpoint", s.KVStateEndpoint, i.KVStateEndpoint},
		{"indexer_domain_id", s.Domain, i.Domain},
		{"kv_block_size", num(s.BlockSize), num(i.BlockSize)},
		{"ingress_protocol", s.Protocol.String(), i.Protocol.String()},
		{"model", s.Model, i.Model},
		{"shards", num(s.Shards), num(len(i.Endpoints))},
	} {
		if f.have != f.got {
			return &ImmutableError{Owner: s.Owner, Field: f.field, Have: f.have, Got: f.got}
		}
	}
	return nil
}

// current reports whether a generation is the one that is attached. What an
// older one says is counted; what a faulty one says after its fault is not news.
func (s *slot) current(generation uint64) bool {
	if s.generation != generation {
		s.stale++
		return false
	}
	return s.state == Attached
}

// fault takes the slot out of use. Only a source fault fences.
func (s *slot) fault(f Fault, reason string) {
	s.ready, s.culprit = false, s.record.Incarnation
	if s.state == Attached {
		s.state = Quarantined
	}
	switch f {
	case FaultSource:
		s.flags |= WorkerFailed | CacheOwnerFailed | SourceFailed
		s.state = Fenced
	case FaultCacheOwner:
		s.flags |= CacheOwnerFailed
	case FaultWorker:
		s.flags |= WorkerFailed
	}
	s.note(fmt.Sprintf("%s fault: %s", f, reason))
}

// quarantine takes the slot out of use until it is attached again.
func (s *slot) quarantine(reason string) {
	s.ready = false
	if s.state == Attached {
		s.state = Quarantined
		s.note(reason)
	}
}

// detached ends a detach: nobody is attached. The flags stay.
func (s *slot) detached(reason string) {
	s.state, s.ready, s.attachment, s.bound, s.record = Detached, false, nil, false, nil
	if s.flags == 0 {
		s.note(reason)
	}
}

func (s *slot) note(reason string) { s.reason, s.since = reason, time.Now() }

// serves reports whether the slot is attached and ready for an intent.
func (s *slot) serves(rec *record) bool {
	return s.state == Attached && s.ready && s.record == rec
}

// changed reports in which field two bodies of one intent differ; "" in none.
func changed(have, got *Intent) (field, was, is string) {
	num := func(n uint64) string { return strconv.FormatUint(n, 10) }
	token := func(p *uint32) string {
		if p == nil {
			return ""
		}
		return num(uint64(*p))
	}
	hint := func(h *HintSource) string {
		if h == nil {
			return ""
		}
		s := h.WorkerType + " " + h.ControlEndpoint
		if h.Carrier != "" || h.Link != "" || h.TP != 0 {
			s += fmt.Sprintf(" carrier %q, link %q, tp %d", h.Carrier, h.Link, h.TP)
		}
		return s
	}
	for _, f := range []struct{ field, have, got string }{
		{"target_host", num(have.TargetHost), num(got.TargetHost)},
		{"producer_instance", num(have.Producer), num(got.Producer)},
		{"intent_incarnation", num(have.Incarnation), num(got.Incarnation)},
		{"cache_owner_id", string(have.Owner), string(got.Owner)},
		{"worker.id", num(have.Worker.ID), num(got.Worker.ID)},
		{"worker.rank", num(uint64(have.Worker.Rank)), num(uint64(got.Worker.Rank))},
		{"model", have.Model, got.Model},
		{"kv_state_endpoint", have.KVStateEndpoint, got.KVStateEndpoint},
		{"indexer_domain_id", have.Domain, got.Domain},
		{"kv_block_size", strconv.Itoa(have.BlockSize), strconv.Itoa(got.BlockSize)},
		{"ingress_protocol", have.Protocol.String(), got.Protocol.String()},
		{"raw_zmq_endpoint", strings.Join(have.Endpoints, ","), strings.Join(got.Endpoints, ",")},
		{"raw_replay_endpoint", strings.Join(have.Replays, ","), strings.Join(got.Replays, ",")},
		{"raw_topic", have.Topic, got.Topic},
		{"image_token_id", token(have.ImageToken), token(got.ImageToken)},
		{"video_token_id", token(have.VideoToken), token(got.VideoToken)},
		{"router_hint_source", hint(have.Hint), hint(got.Hint)},
	} {
		if f.have != f.got {
			return f.field, f.have, f.got
		}
	}
	return "", "", ""
}
