package soak

import (
	"fmt"

	"github.com/cairn-kv/cairn/tree"
)

// fair has all holders bring what an index with a byte budget has no room for,
// one after the other, and compares what is kept of each when it is quiet.
func (w *writer) fair() error {
	d, ok := w.index.(tree.Dumper)
	if w.p.Bytes == 0 || !ok || w.index.Stats().Evicted == 0 {
		return nil
	}
	// Some have just lost, or been cleared of, what others have still; and after
	// a drain there may be room for all.
	w.roots = true
	defer func() { w.roots = false }()
	before, most := w.index.Stats().Evicted, w.figs.Stored+30*int64(w.index.Stats().Residencies)
	for k := 0; ; k = (k + 1) % len(w.truth.slots) {
		if st := w.index.Stats(); k == 0 && st.Evicted-before > 2*uint64(st.Residencies) {
			break
		} else if w.figs.Stored > most {
			return nil // they do not want more than there is
		}
		if err := w.store(k, w.truth.slots[k], w.r.IntN(w.p.Shards)); err != nil {
			return err
		}
	}
	kept := map[tree.Holder]int{}
	d.Dump(func(uint64, uint64) uint64 { return 0 }, func(b tree.Block) {
		if !b.Waiting && b.Shard == 0 {
			kept[b.Holder]++
		}
	})
	least, largest, mean := 0, 0, 0.
	for i, s := range w.truth.slots {
		n := kept[s.handle]
		if largest = max(largest, n); i == 0 || n < least {
			least = n
		}
		mean += float64(n) / float64(len(w.truth.slots))
	}
	w.figs.Least, w.figs.Most = least, largest
	if float64(least) < mean*(1-w.p.Unfair) || float64(largest) > mean*(1+w.p.Unfair) {
		return fmt.Errorf("event %d, at rest: holders that want equally much have %d to %d blocks, %.0f in the mean", w.event, least, largest, mean)
	}
	return nil
}
