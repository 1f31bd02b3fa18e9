package ingest

import "bytes"

// held are live messages that wait for a repair, in the order of their
// sequence: that in which they came.
type held struct {
	batches []heldBatch
	bytes   int
}

type heldBatch struct {
	seq     uint64
	epoch   uint32 // the connection it came over
	payload []byte
}

// add keeps a copy of a message, newer than all others.
func (h *held) add(seq uint64, epoch uint32, payload []byte) {
	h.batches = append(h.batches, heldBatch{seq, epoch, bytes.Clone(payload)})
	h.bytes += len(payload)
}

// first is the sequence of the oldest.
func (h *held) first() (uint64, bool) {
	if len(h.batches) == 0 {
		return 0, false
	}
	return h.batches[0].seq, true
}

// pop takes the oldest.
func (h *held) pop() heldBatch {
	b := h.batches[0]
	h.batches[0] = heldBatch{}
	h.batches = h.batches[1:]
	h.bytes -= len(b.payload)
	if len(h.batches) == 0 {
		h.batches = nil // a gap is rare, its memory must not stay
	}
	return b
}

// drop forgets what a replay has brought as well.
func (h *held) drop(through uint64) {
	for len(h.batches) > 0 && h.batches[0].seq <= through {
		h.pop()
	}
}

// keep forgets what came over an older connection.
func (h *held) keep(epoch uint32) {
	for len(h.batches) > 0 && h.batches[0].epoch < epoch {
		h.pop()
	}
}

func (h *held) reset() { *h = held{} }
