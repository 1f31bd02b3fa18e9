package maptree

import (
	"container/list"
	"slices"

	"github.com/cairn-kv/cairn/tree"
)

// waiting is what a holder has announced behind names it does not know. Its
// maps are made when they are needed.
type waiting struct {
	orphans  map[uint64]*orphan   // by name
	byParent map[uint64][]*orphan // in the order they came
	age      *list.List           // of *orphan, oldest first
}

// orphan is a block whose parent the holder does not know.
type orphan struct {
	name, parent, content uint64
	copies                [tree.NumTiers]uint32
	age                   *list.Element
}

func (w *orphan) add(p tree.Policy, tier tree.Tier) {
	if w.copies[tier] == 0 || p == tree.Copies {
		w.copies[tier]++
	}
}

// wait keeps a block aside under a holder's name, with the copies that wait
// under it already. What the name means now stays until the parent comes.
func (t *Tree) wait(h *holder, name, parent, content uint64) *orphan {
	w := &orphan{name: name, parent: parent, content: content}
	if old := h.orphans[name]; old != nil {
		w.copies = old.copies
		t.withdraw(h, old)
	}
	if h.orphans == nil {
		h.waiting = waiting{map[uint64]*orphan{}, map[uint64][]*orphan{}, list.New()}
	}
	h.orphans[name] = w
	h.byParent[parent] = append(h.byParent[parent], w)
	w.age = h.age.PushBack(w)
	t.waiting++
	return w
}

// withdraw forgets a waiting block.
func (t *Tree) withdraw(h *holder, w *orphan) {
	delete(h.orphans, w.name)
	rest := slices.DeleteFunc(h.byParent[w.parent], func(x *orphan) bool { return x == w })
	if len(rest) == 0 {
		delete(h.byParent, w.parent)
	} else {
		h.byParent[w.parent] = rest
	}
	h.age.Remove(w.age)
	t.waiting--
}

// attach makes everything resident that waits for a name, and what waits for
// that.
func (t *Tree) attach(h *holder, name uint64, out *tree.Outcome) {
	for work := []uint64{name}; len(work) > 0; work = work[1:] {
		p := h.names[work[0]]
		if p == nil {
			continue
		}
		for _, w := range slices.Clone(h.byParent[work[0]]) {
			t.announce(h, w.name, t.child(p.at, w.content), out)
			work = append(work, w.name)
		}
	}
}

// bound drops the oldest waiting blocks beyond the bound.
func (t *Tree) bound(h *holder, out *tree.Outcome) {
	for len(h.orphans) > maxWaiting {
		t.withdraw(h, h.age.Front().Value.(*orphan))
		out.Dropped++
	}
}
