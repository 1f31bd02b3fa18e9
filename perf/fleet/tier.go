package fleet

// tier is one cache: a bounded number of block copies in the order of use.
type tier struct {
	capacity int
	used     int // copies
	entries  map[prefix]*entry
	kids     map[prefix]int // resident children, whether the parent is or not
	order    entry          // ring: next is the latest used, prev the oldest
}

// entry is a resident block. What it needs to be announced again elsewhere
// travels with it.
type entry struct {
	block
	copies, pins int
	prev, next   *entry
}

// block is one block as an event tells it.
type block struct {
	id, parent prefix // parent 0: root
	tokens     []uint32
	adapter    string
}

func newTier(capacity int) *tier {
	t := &tier{capacity: capacity, entries: make(map[prefix]*entry), kids: make(map[prefix]int)}
	t.order.prev, t.order.next = &t.order, &t.order
	return t
}

func (t *tier) has(id prefix) bool { return t.entries[id] != nil }

// leading is the number of leading blocks that are resident.
func (t *tier) leading(bs []block) int {
	for i := range bs {
		if !t.has(bs[i].id) {
			return i
		}
	}
	return len(bs)
}

func (e *entry) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

func (t *tier) link(e *entry) {
	e.prev, e.next = &t.order, t.order.next
	e.prev.next, e.next.prev = e, e
}

// touch marks resident blocks as used now, the first one latest, so that the
// oldest entry is a leaf as a rule.
func (t *tier) touch(bs []block) {
	for i := len(bs) - 1; i >= 0; i-- {
		if e := t.entries[bs[i].id]; e != nil {
			e.unlink()
			t.link(e)
		}
	}
}

// add places one copy. The caller has made room.
func (t *tier) add(b block) {
	t.used++
	if e := t.entries[b.id]; e != nil {
		e.copies++
		return
	}
	e := &entry{block: b, copies: 1}
	t.entries[b.id] = e
	t.link(e)
	t.kids[b.parent]++
}

// pin keeps a block from being evicted until as many unpins.
func (t *tier) pin(id prefix, by int) {
	if e := t.entries[id]; e != nil {
		e.pins += by
	}
}

// victim returns the block to give up next: the oldest one that no running
// request uses and that is a leaf, or has a second copy. It is nil if there is
// none.
func (t *tier) victim() *entry {
	for e := t.order.prev; e != &t.order; e = e.prev {
		if e.pins == 0 && (e.copies > 1 || t.kids[e.id] == 0) {
			return e
		}
	}
	return nil
}

// inner returns the oldest block with children that may go: evicting it
// leaves a hole.
func (t *tier) inner() *entry {
	for e := t.order.prev; e != &t.order; e = e.prev {
		if e.pins == 0 && e.copies == 1 && t.kids[e.id] > 0 {
			return e
		}
	}
	return nil
}

// drop takes one copy away and reports whether it was the last.
func (t *tier) drop(e *entry) bool {
	t.used--
	e.copies--
	if e.copies > 0 {
		return false
	}
	e.unlink()
	delete(t.entries, e.id)
	if t.kids[e.parent]--; t.kids[e.parent] == 0 {
		delete(t.kids, e.parent)
	}
	return true
}

// reset empties the tier.
func (t *tier) reset() {
	clear(t.entries)
	clear(t.kids)
	t.order.prev, t.order.next = &t.order, &t.order
	t.used = 0
}
