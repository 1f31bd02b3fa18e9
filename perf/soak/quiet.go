package soak

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cairn-kv/cairn/tree"
)

// parity asks while nothing moves: now figures are equal to the truth, or not
// above it where memory is short.
func (w *writer) parity(questions int) error {
	w.figs.Parities++
	budget := w.p.Bytes > 0
	for range questions {
		q := &w.truth.world.paths[w.rest.IntN(len(w.truth.world.paths))]
		got := map[int][tree.NumViews]uint32{}
		for _, d := range w.reader.Match(0, q.contents) {
			k, ok := w.truth.of.Load(d.Holder)
			if !ok || w.truth.slots[k.(int)].handle != d.Holder {
				return fmt.Errorf("event %d, at rest: holder %d is not", w.event, d.Holder)
			}
			got[k.(int)] = d.Units
		}
		for k, s := range w.truth.slots {
			want := s.depths(q.nodes)
			for v, x := range got[k] {
				if x > want[v] || x < want[v] && !budget {
					return fmt.Errorf("event %d, at rest: holder %d has %v, the truth is %v", w.event, k, got[k], want)
				}
			}
			w.figs.Compared++
			if got[k] != ([tree.NumViews]uint32{}) && w.rest.IntN(8) == 0 {
				if err := w.named(k, s, q, got[k]); err != nil {
					return err
				}
			}
		}
	}
	if budget {
		return nil
	}
	want := 0
	for _, s := range w.truth.slots {
		want += s.residencies()
	}
	if st := w.index.Stats(); st.Residencies != want || st.Waiting != 0 {
		return fmt.Errorf("event %d, at rest: %d residencies, %d waiting, the truth is %d and 0", w.event, st.Residencies, st.Waiting, want)
	}
	return nil
}

// named asks for a holder's names in a view and looks each up.
func (w *writer) named(k int, s *slot, q *path, d [tree.NumViews]uint32) error {
	v := tree.View(w.rest.IntN(int(tree.ViewExtension)))
	w.names = w.reader.Names(w.names[:0], s.handle, v, int(d[v]))
	if len(w.names) > int(d[v]) {
		return fmt.Errorf("event %d, at rest: holder %d, view %d: %d names of %d blocks", w.event, k, v, len(w.names), d[v])
	}
	for i, n := range w.names {
		for j := range s.shards {
			m, ok := s.shards[j].names[n]
			in := v == tree.ViewAny || v != tree.ViewHost && m.copies[tree.Device] > 0 || v != tree.ViewDevice && m.copies[tree.Host] > 0
			if !ok || m.node != q.nodes[i] || !in {
				return fmt.Errorf("event %d, at rest: holder %d, view %d: name %d (%#x) is not one of the block there", w.event, k, v, i, n)
			}
		}
	}
	w.figs.Names += int64(len(w.names))
	return nil
}

// drain empties every holder, by removes of every copy, by clears, by drops, or
// each by another of these, and looks for what is left.
func (w *writer) drain(manner int) error {
	for k, s := range w.truth.slots {
		how := manner
		if manner == 3 {
			how = k % 3
		}
		var err error
		switch how {
		case 0:
			err = w.removeAll(k, s)
		case 1:
			err = w.whole(s, func() error {
				w.index.Clear(s.handle)
				s.clear()
				return nil
			})
		case 2:
			err = w.whole(s, func() error {
				w.index.Drop(s.handle)
				s.clear()
				s.hidden = false
				return w.attach(k)
			})
		}
		if err != nil {
			return err
		}
	}
	for w.index.Step() {
	}
	w.figs.Drains++
	st := w.index.Stats()
	if st.Residencies != 0 || st.Waiting != 0 || st.Runs != 0 || st.Names != 0 || st.Links != 0 || st.Deferred != 0 || st.Holders != len(w.truth.slots) {
		return fmt.Errorf("event %d: after a drain something is left: %+v", w.event, st)
	}
	w.figs.Bytes = append(w.figs.Bytes, st.Bytes)
	if w.check != nil {
		if err := w.check(w.index); err != nil {
			return fmt.Errorf("event %d: after a drain: %w", w.event, err)
		}
	}
	return nil
}

// removeAll removes each copy of each name of a holder.
func (w *writer) removeAll(k int, s *slot) error {
	for j := range s.shards {
		for t := range w.p.Tiers {
			for {
				w.picks = w.picks[:0]
				for n, m := range s.shards[j].names {
					if m.copies[t] > 0 {
						w.picks = append(w.picks, pick{n, t, m.node})
					}
				}
				if len(w.picks) == 0 {
					break
				}
				slices.SortFunc(w.picks, func(a, b pick) int { return cmp.Compare(a.name, b.name) }) // a map's order is no seed's
				if err := w.take(k, s, j, t); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
