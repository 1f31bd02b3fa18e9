package fleet

import "sync"

// history is what one stream held after each of its sequences: per block the
// present counts, and the changes of the last sequences. Positions are counts
// of batches: position p is the state after p batches, before sequence p.
type history struct {
	mu      sync.Mutex
	blocks  map[prefix]*record
	aging   []aged // changes in order of time, to be folded into base
	oldest  int    // index of the first of aging that is not folded yet
	next    uint64 // position after the latest batch
	horizon uint64 // earliest position that is still known
	keep    uint64
	at      instant
}

// instant orders changes: sequence, then place within the batch.
type instant uint64

const ordinalBits = 20

func (t instant) seq() uint64 { return uint64(t >> ordinalBits) }

// record is one block's residency in one stream.
type record struct {
	base [numSlots]uint16 // copies at the horizon
	last [numSlots]uint16 // copies now
	log  []change         // since the horizon
}

type change struct {
	at     instant
	slot   slot
	copies uint16 // behind this change
}

type aged struct {
	id  prefix
	seq uint64
}

func newHistory(keep int) *history {
	return &history{blocks: make(map[prefix]*record), keep: uint64(keep)}
}

// append writes down one batch and returns its sequence.
func (h *history) append(events []event) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq := h.next
	h.at = instant(seq << ordinalBits)
	for i := range events {
		h.apply(&events[i])
	}
	h.next++
	if h.next > h.keep {
		h.forget(h.next - h.keep)
	}
	return seq
}

func (h *history) apply(ev *event) {
	if ev.kind == cleared {
		// One instant for all.
		h.at++
		for id, r := range h.blocks {
			for s := range numSlots {
				if s.pool() == ev.slot.pool() && r.last[s] > 0 {
					h.set(id, r, s, 0)
				}
			}
		}
		return
	}
	for i := range ev.blocks {
		id := ev.blocks[i].id
		r := h.blocks[id]
		if r == nil {
			r = &record{}
			h.blocks[id] = r
		}
		n := r.last[ev.slot] + 1
		if ev.kind == removed {
			n -= 2
		} else if ev.slot.pool() {
			n = 1 // owned residency is never counted
		}
		h.at++
		h.set(id, r, ev.slot, n)
	}
}

func (h *history) set(id prefix, r *record, s slot, n uint16) {
	r.last[s] = n
	r.log = append(r.log, change{at: h.at, slot: s, copies: n})
	h.aging = append(h.aging, aged{id: id, seq: h.at.seq()})
}

// forget folds changes before position p into the base.
func (h *history) forget(p uint64) {
	h.horizon = p
	for h.oldest < len(h.aging) && h.aging[h.oldest].seq < p {
		id := h.aging[h.oldest].id
		h.oldest++
		r := h.blocks[id]
		c := r.log[0]
		r.base[c.slot] = c.copies
		r.log = append(r.log[:0], r.log[1:]...)
		if len(r.log) == 0 && r.last == [numSlots]uint16{} {
			delete(h.blocks, id)
		}
	}
	if h.oldest > len(h.aging)/2 && h.oldest > 1024 {
		h.aging = h.aging[:copy(h.aging, h.aging[h.oldest:])]
		h.oldest = 0
	}
}

// position returns the number of batches written down.
func (h *history) position() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next
}

// resident counts the (block, place) pairs held now.
func (h *history) resident() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.blocks {
		for _, c := range r.last {
			if c > 0 {
				n++
			}
		}
	}
	return n
}
