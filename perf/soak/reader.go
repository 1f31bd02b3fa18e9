package soak

import (
	"fmt"
	"math/rand/v2"

	"github.com/cairn-kv/cairn/tree"
)

// unlisted is how many holders that an answer does not name are looked at: all,
// up to so many.
const unlisted = 12

// asker asks at full speed and judges.
type asker struct {
	truth *truth
	rd    tree.Reader
	r     *rand.Rand
	below bool // under-counts are wrong, too
	seen  []uint32
	turn  uint32

	asked, units, judged, loose int64
}

// ask makes one question and judges the answer.
func (a *asker) ask() error {
	w := a.truth.world
	q := &w.paths[a.r.IntN(len(w.paths))]
	n := len(q.nodes)
	if a.r.IntN(4) == 0 {
		n = 1 + a.r.IntN(n)
	}
	nodes := q.nodes[:n]
	since := a.truth.ended.Load()
	answer := a.rd.Match(0, q.contents[:n])
	a.asked++
	a.units += int64(n)
	a.turn++
	last := ^uint32(0)
	for _, d := range answer {
		k, ok := a.truth.of.Load(d.Holder)
		if !ok {
			return fmt.Errorf("an answer names holder %d, which never was", d.Holder)
		}
		s := a.truth.slots[k.(int)]
		if a.seen[k.(int)] == a.turn {
			if !since0(s, since) { // one holder went and another came in its place
				a.loose++
				continue
			}
			return fmt.Errorf("an answer names holder %d twice", d.Holder)
		}
		a.seen[k.(int)] = a.turn
		if d.Units[tree.ViewAny] == 0 || d.Units[tree.ViewAny] > last {
			return fmt.Errorf("an answer has no depth or is out of order: %v", d)
		}
		last = d.Units[tree.ViewAny]
		if err := a.judge(k.(int), s, nodes, d.Units, since); err != nil {
			return err
		}
	}
	for i := range min(unlisted, len(a.truth.slots)) {
		k := i
		if len(a.truth.slots) > unlisted {
			k = a.r.IntN(len(a.truth.slots))
		}
		if a.seen[k] != a.turn {
			if err := a.judge(k, a.truth.slots[k], nodes, [tree.NumViews]uint32{}, since); err != nil {
				return err
			}
		}
	}
	return nil
}

// since0 reports whether a holder was the same and shown since an event.
func since0(s *slot, since int64) bool { return sure(s.shown.Load(), since) }

// judge holds one holder's figures between what was surely and what was possibly
// there.
func (a *asker) judge(k int, s *slot, nodes []int32, got [tree.NumViews]uint32, since int64) error {
	shown := s.shown.Load()
	if !possible(shown, since) {
		if got != ([tree.NumViews]uint32{}) {
			return fmt.Errorf("holder %d is hidden since before event %d, and answers %v", k, since, got)
		}
		return nil
	}
	if !sure(shown, since) {
		a.loose++
		return nil
	}
	a.judged++
	for _, view := range []struct {
		v     tree.View
		words func() (hi, lo int)
	}{
		{tree.ViewDevice, func() (int, int) { return bounds(s, false, nodes, since) }},
		{tree.ViewAny, func() (int, int) { return bounds(s, true, nodes, since) }},
	} {
		hi, lo := view.words()
		x := int(got[view.v])
		if x > hi || x < lo && a.below {
			if !sure(s.shown.Load(), since) {
				a.loose++
				return nil
			}
			return fmt.Errorf("holder %d, view %d: depth %d, since event %d it was between %d and %d", k, view.v, x, since, lo, hi)
		}
	}
	dh := got[tree.ViewDeviceHost]
	if dh > got[tree.ViewAny] && a.truth.ended.Load() == since {
		return fmt.Errorf("holder %d: %v: more on device or host than on any tier", k, got)
	}
	return nil
}

// bounds are how many leading nodes were possibly and surely there.
func bounds(s *slot, any bool, nodes []int32, since int64) (hi, lo int) {
	words := s.device
	if any {
		words = s.any
	}
	lo = -1
	for i, n := range nodes {
		w := words[n].Load()
		if lo < 0 && !sure(w, since) {
			lo = i
		}
		if !possible(w, since) {
			if lo < 0 {
				lo = i
			}
			return i, lo
		}
	}
	if lo < 0 {
		lo = len(nodes)
	}
	return len(nodes), lo
}
