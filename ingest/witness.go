package ingest

import "github.com/cairn-kv/cairn/ingest/replay"

// edge is how much of a payload's begin and end a mark keeps. A batch begins
// with its time, which is fine enough to be its process's own.
const edge = 24

// mark is what is kept of a batch to know it again.
type mark struct {
	seq        uint64
	any        bool
	size       int
	head, tail [edge]byte
}

// set keeps the mark of a batch.
func (m *mark) set(seq uint64, payload []byte) {
	m.seq, m.any, m.size = seq, true, len(payload)
	clear(m.head[copy(m.head[:], payload):])
	clear(m.tail[copy(m.tail[:], payload[max(0, len(payload)-edge):]):])
}

// same reports whether a payload has the mark.
func (m *mark) same(payload []byte) bool {
	var other mark
	other.set(m.seq, payload)
	return other == *m
}

// remember keeps the mark of the batch that is about to be applied.
func (s *Stream) remember(seq uint64, payload []byte) {
	if s.opt.Repair.Endpoint != "" {
		s.mark.set(seq, payload)
	}
}

// witness has whoever answers prove that it is the process of the mark. What it
// is asked for begins at from.
func (m mark) witness() (w *replay.Witness, from uint64) {
	return &replay.Witness{Same: m.same}, m.seq + 1
}

// anchorAt keeps, at the end of a connection, the last batch that was certainly
// the known process's: whoever is at the other end of the next one must have it.
// One that was not proven itself proves nothing.
func (s *Stream) anchorAt() {
	applied, any := s.machine.Applied()
	if s.proven {
		s.anchor = mark{}
		if any && s.mark.any && s.mark.seq == applied {
			s.anchor = s.mark
		}
	}
	s.proven = !any || s.opt.Repair.Endpoint == ""
}

// vouch has the publisher of a connection prove, behind the back of its live
// messages, that it is the process we know: the sequence that goes on from ours
// may be another's by chance.
func (s *Stream) vouch() {
	switch {
	case s.proven || s.errand != nil && s.errand.kind == forVouch:
	case !s.anchor.any:
		s.proven = true // nothing to prove it by
	default:
		o := s.replayOptions()
		o.Peek, o.Known = true, s.machine.Next()
		var from uint64
		o.Witness, from = s.anchor.witness()
		s.fetch(forVouch, o, from)
	}
}
