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

// witness is the last batch that was applied, for whoever answers to prove that
// it is the process we know; nil if there is none.
func (s *Stream) witness() *replay.Witness {
	m := s.mark
	if applied, any := s.machine.Applied(); !any || !m.any || m.seq != applied {
		return nil
	}
	return &replay.Witness{Same: m.same}
}
