package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cairn-kv/cairn/tree"
)

// writer makes events, plays them on the index and keeps the truth.
type writer struct {
	p     Profile
	index tree.Interface
	check func(tree.Interface) error
	pool  []uint64 // the names there are, if they are few
	truth *truth
	r     *rand.Rand // of the events: the same whatever the machine does
	rest  *rand.Rand // of the questions at rest
	event int64
	roots bool // all stores begin at the root

	reader tree.Reader // for questions while nothing moves
	figs   *Report

	// Of the event at hand.
	pairs   []uint64
	names   []uint64
	touched []int32
	picks   []pick
}

// pick is a block that a removal may take.
type pick struct {
	name uint64
	tier int
	node int32
}

func (w *writer) attach(k int) error {
	policy := tree.Copies
	if w.p.Set && k%2 == 0 {
		policy = tree.Set
	}
	h, err := w.index.AddHolder(policy, w.p.Shards)
	if err != nil {
		return fmt.Errorf("attach %d: %w", k, err)
	}
	w.truth.slots[k].handle = h
	w.truth.of.Store(h, k)
	w.figs.Attaches++
	return nil
}

func (w *writer) set(k int) bool { return w.p.Set && k%2 == 0 }

// name is what holder k calls a block; variant 1 is a second name.
func (w *writer) name(k int, node int32, variant int) uint64 {
	x := uint64(node)<<1 | uint64(variant)
	if w.p.Own && k%2 == 1 {
		x |= uint64(k+1) << 40
	}
	return scramble(x + 1)
}

// begin starts an event about nodes of a holder.
func (w *writer) begin(s *slot, nodes []int32) {
	w.event++
	s.mark(nodes, w.event)
}

func (w *writer) end(s *slot, nodes []int32) {
	s.settle(nodes, w.event)
	w.truth.ended.Store(w.event)
}

// whole changes a holder as one: readers take no answer about it for wrong
// meanwhile.
func (w *writer) whole(s *slot, do func() error) error {
	w.event++
	s.shown.Store(uint64(w.event)<<stateBits | changing)
	w.touched = s.nodes(w.touched[:0])
	s.mark(w.touched, w.event)
	if err := do(); err != nil {
		return err
	}
	s.settle(w.touched, w.event)
	state := uint64(present)
	if s.hidden {
		state = absent
	}
	s.shown.Store(uint64(w.event)<<stateBits | state)
	w.truth.ended.Store(w.event)
	return nil
}

// step plays one event.
func (w *writer) step() error {
	k := w.r.IntN(len(w.truth.slots))
	s := w.truth.slots[k]
	switch x := w.r.Float64(); {
	case x < w.p.Clear:
		shard := w.r.IntN(w.p.Shards)
		w.figs.Clears++
		return w.whole(s, func() error {
			if w.p.Shards > 1 && x < w.p.Clear/2 {
				w.index.ClearShard(s.handle, shard)
				s.clearShard(shard)
				return nil
			}
			w.index.Clear(s.handle)
			s.clear()
			return nil
		})
	case x < w.p.Clear+w.p.Drop:
		return w.whole(s, func() error {
			w.index.Drop(s.handle)
			s.clear()
			s.hidden = false
			return w.attach(k)
		})
	case x < w.p.Clear+w.p.Drop+w.p.Hide:
		return w.whole(s, func() error {
			if s.hidden = !s.hidden && w.r.IntN(3) == 0; s.hidden {
				w.index.Hide(s.handle)
			} else {
				w.index.Show(s.handle)
			}
			return nil
		})
	}
	shard := w.r.IntN(w.p.Shards)
	if most := w.p.Capacity * w.p.Shards; s.total < most && (w.r.IntN(2) == 0 || s.total < most/8) {
		return w.store(k, s, shard)
	}
	return w.remove(k, s, shard)
}

// parentName is a name by which a shard knows a node, if it holds it.
func (w *writer) parentName(k int, sh *shardTruth, node int32) (uint64, bool) {
	if sh.on[node] == 0 {
		return 0, false
	}
	if sh.last != nil {
		m, ok := sh.names[sh.last[node]]
		return sh.last[node], ok && m.node == node
	}
	for v := range 2 {
		if n := w.name(k, node, v); sh.names[n].node == node && !w.unknown(sh, n) {
			return n, true
		}
	}
	return 0, false
}

func (w *writer) unknown(sh *shardTruth, name uint64) bool {
	_, ok := sh.names[name]
	return !ok
}

// store makes a store of a stretch of some path: mostly where the holder goes on
// from what it has, or from the root.
func (w *writer) store(k int, s *slot, shard int) error {
	q := &w.truth.world.paths[w.r.IntN(len(w.truth.world.paths))]
	sh := &s.shards[shard]
	lo, parent := 0, uint64(0)
	if w.roots || w.p.Roots && w.r.IntN(2) == 0 {
		lo = 0
	} else if w.r.IntN(4) > 0 { // behind the leading blocks it has, or some of them
		for lo < len(q.nodes) && sh.on[q.nodes[lo]] != 0 {
			lo++
		}
		if w.r.IntN(4) == 0 && lo > 1 {
			lo = 1 + w.r.IntN(lo-1)
		}
	} else if w.p.Holes { // behind any it has
		lo = w.r.IntN(len(q.nodes))
	}
	for ok := false; lo > 0; lo-- {
		if parent, ok = w.parentName(k, sh, q.nodes[lo-1]); ok {
			break
		}
	}
	hi := min(len(q.nodes), lo+1+w.r.IntN(w.p.Event))
	if hi == lo {
		return w.remove(k, s, shard)
	}
	tier, variant := w.r.IntN(w.p.Tiers), 0
	if w.p.Own && w.r.IntN(8) == 0 {
		variant = 1
	}
	w.pairs, w.names, w.touched = w.pairs[:0], w.names[:0], w.touched[:0]
	for i := lo; i < hi; i++ {
		n := w.name(k, q.nodes[i], variant)
		if w.p.Pool > 0 {
			n = w.pool[w.r.IntN(w.p.Pool)]
			if slices.Contains(w.names, n) || lo > 0 && n == parent {
				hi = i
				break
			}
			if m, ok := sh.names[n]; ok {
				w.touched = append(w.touched, m.node)
			}
		}
		w.names = append(w.names, n)
		w.pairs = append(w.pairs, n, q.contents[i])
		w.touched = append(w.touched, q.nodes[i])
	}
	if len(w.names) == 0 {
		return nil
	}
	st := tree.Store{Span: 1, HasParent: lo > 0, Parent: parent, Pairs: w.pairs}
	w.begin(s, w.touched)
	out := w.index.Store(tree.Owner{Holder: s.handle, Tier: tree.Tier(tier), Shard: uint8(shard)}, &st)
	for i, n := range w.names {
		s.give(sh, n, q.nodes[lo+i], tier, w.set(k))
	}
	w.end(s, w.touched)
	w.figs.Stored += int64(len(w.names))
	w.figs.Events++
	if out.Reason != tree.Accepted {
		return fmt.Errorf("event %d: a store was refused for reason %d", w.event, out.Reason)
	}
	return w.bytes()
}

// remove makes a removal: of the ends of a path, leaves first, or of anything on
// it in any order.
func (w *writer) remove(k int, s *slot, shard int) error {
	q := &w.truth.world.paths[w.r.IntN(len(w.truth.world.paths))]
	sh := &s.shards[shard]
	w.picks = w.picks[:0]
	tier := w.r.IntN(w.p.Tiers)
	if w.p.Pool > 0 {
		for range 1 + w.r.IntN(w.p.Event) {
			n := w.pool[w.r.IntN(w.p.Pool)]
			if m, ok := sh.names[n]; ok {
				w.picks = append(w.picks, pick{n, tier, m.node})
			}
		}
	} else {
		for i := len(q.nodes) - 1; i >= 0; i-- {
			for v := range 2 {
				n := w.name(k, q.nodes[i], v)
				if m, ok := sh.names[n]; ok && m.copies[tier] > 0 {
					w.picks = append(w.picks, pick{n, tier, q.nodes[i]})
				}
				if !w.p.Own {
					break
				}
			}
		}
		most := 1 + w.r.IntN(w.p.Event)
		if w.p.Holes {
			switch w.r.IntN(3) {
			case 0:
				w.r.Shuffle(len(w.picks), func(i, j int) { w.picks[i], w.picks[j] = w.picks[j], w.picks[i] })
			case 1:
				if n := len(w.picks); n > most {
					at := w.r.IntN(n - most)
					w.picks = w.picks[at:]
				}
			}
		}
		w.picks = w.picks[:min(len(w.picks), most)]
	}
	return w.take(k, s, shard, tier)
}

// take plays the removal of what is picked.
func (w *writer) take(k int, s *slot, shard, tier int) error {
	if len(w.picks) == 0 {
		return nil
	}
	w.names, w.touched = w.names[:0], w.touched[:0]
	for _, p := range w.picks {
		w.names, w.touched = append(w.names, p.name), append(w.touched, p.node)
	}
	w.begin(s, w.touched)
	w.index.Remove(tree.Owner{Holder: s.handle, Tier: tree.Tier(tier), Shard: uint8(shard)}, w.names)
	for _, n := range w.names {
		s.lose(&s.shards[shard], n, tier, w.set(k))
	}
	w.end(s, w.touched)
	w.figs.Removed += int64(len(w.names))
	w.figs.Events++
	return w.bytes()
}

// bytes holds the index to its budget, after every event.
func (w *writer) bytes() error {
	if w.p.Bytes == 0 {
		return nil
	}
	if st := w.index.Stats(); st.Bytes > w.p.Bytes {
		return fmt.Errorf("event %d: %d bytes, the budget is %d", w.event, st.Bytes, w.p.Bytes)
	}
	return nil
}

func (s *slot) clearShard(shard int) {
	sh := &s.shards[shard]
	for _, m := range sh.names {
		for _, n := range m.copies {
			if n > 0 {
				s.total--
			}
		}
	}
	clear(sh.names)
	clear(sh.on)
}
