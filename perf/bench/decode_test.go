package bench

import (
	"runtime"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// BenchmarkDecode has engines generate answers, a block an event: told one at a
// time, and in batches whose events are told ahead (tree.Foreseer), as a shard's
// writer does; beside the map tree.
func BenchmarkDecode(b *testing.B) {
	const (
		engines = 128
		abreast = 16 // answers that an engine generates at the same time
		blocks  = 64 // of an answer
		prompt  = 32
		batch   = 64
		rounds  = 5
	)
	play := func(index tree.Interface, ahead bool) (perEvent float64) {
		owners, ends := make([]tree.Owner, engines), make([]uint64, engines*abreast)
		s := tree.Store{Span: 1}
		for e := range owners {
			h, err := index.AddHolder(tree.Copies, 1)
			if err != nil {
				b.Fatal(err)
			}
			owners[e] = tree.Owner{Holder: h}
			for a := range abreast {
				s.Pairs = s.Pairs[:0]
				for i := range prompt {
					block := spread(uint64(e*abreast+a+1)<<16 | uint64(i))
					s.Pairs = append(s.Pairs, block, block)
				}
				index.Store(owners[e], &s)
				ends[e*abreast+a] = s.Pairs[2*prompt-2]
			}
		}
		// Events come from all engines in turns, and from their answers in turns.
		events, from := make([]tree.Store, 0, engines*abreast*blocks), make([]tree.Owner, 0, engines*abreast*blocks)
		for i := range blocks {
			for a := range abreast {
				for e := range engines {
					block := spread(uint64(e*abreast+a+1)<<16 | uint64(prompt+i))
					end := &ends[e*abreast+a]
					events = append(events, tree.Store{Span: 1, HasParent: true, Parent: *end, Pairs: []uint64{block, block}})
					from = append(from, owners[e])
					*end = block
				}
			}
		}
		foreseer, ok := index.(tree.Foreseer)
		runtime.GC()
		begin := ThreadCPU()
		for i := 0; i < len(events); i += batch {
			now := events[i : i+batch]
			for k := range now {
				if ahead && ok {
					if k == 0 {
						for j := range tree.Foresight {
							foreseer.Coming(from[i+j], &now[j])
						}
					}
					if k+tree.Foresight < batch {
						foreseer.Coming(from[i+k+tree.Foresight], &now[k+tree.Foresight])
					}
				}
				index.Store(from[i+k], &now[k])
			}
		}
		return float64(ThreadCPU()-begin) / float64(time.Nanosecond) / float64(len(events))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var single, ahead, maps, ratio []float64
	for range b.N {
		for range rounds {
			m, one, all := play(newMapTree(), false), play(newIndex(), false), play(newIndex(), true)
			maps, single, ahead, ratio = append(maps, m), append(single, one), append(ahead, all), append(ratio, m/all)
		}
	}
	b.ReportMetric(median(single), "single-ns/event")
	b.ReportMetric(median(ahead), "batch-ns/event")
	b.ReportMetric(median(maps), "maptree-ns/event")
	b.ReportMetric(median(ratio), "ratio/batch")
	b.ReportMetric(0, "ns/op") // of a round: says nothing
}
