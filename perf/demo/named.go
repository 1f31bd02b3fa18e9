package demo

import (
	"cmp"
	"slices"

	"github.com/cairn-kv/cairn/perf/fleet"
)

// Named is how often a (source, rank) was named by hints.
type Named struct {
	Source string  `json:"source"`
	Rank   int     `json:"rank"`
	Hints  uint64  `json:"hints"`
	Share  float64 `json:"share"` // of all hints
}

// spread lists the sources that hints named, most named first.
func spread(t *tally, f *fleet.Fleet) (all []Named) {
	i, total := 0, uint64(0)
	for _, s := range f.Sources() {
		for r := range s.Ranks {
			if n := t.named[i].Load(); n > 0 {
				all = append(all, Named{Source: s.ID, Rank: r, Hints: n})
				total += n
			}
			i++
		}
	}
	for i := range all {
		all[i].Share = float64(all[i].Hints) / float64(total)
	}
	slices.SortStableFunc(all, func(a, b Named) int { return cmp.Compare(b.Hints, a.Hints) })
	return all
}
