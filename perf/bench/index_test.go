package bench

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkIndex plays corpora on the index alone, for profiles and for work on
// the index: what stores, removes and matches cost shows below Store, Remove
// and Match, and as metrics. The last corpus is of 16-token blocks, as far as
// memory allows.
func BenchmarkIndex(b *testing.B) {
	for _, s := range []Shape{
		{Engines: 8, Capacity: 16384},
		{Engines: 8, Capacity: 16384, Replicas: 2, Apart: true},
		{Engines: 128, Capacity: 1024},
		{Engines: 128, Capacity: 1024, Replicas: 2, Apart: true},
		{Engines: 8, Capacity: 32768, Length: 32},
	} {
		name := fmt.Sprintf("%dx%d/%d-tokens", s.Engines, s.Capacity, 512/max(s.Length, 1))
		if s.Apart {
			name += "/apart"
		}
		b.Run(name, func(b *testing.B) {
			requests := conversation()
			c := Simulate(requests[:len(requests)/max(s.Length/4, 1)], s)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var sum [NumKinds + 1]cost
			b.ResetTimer()
			for range b.N {
				for k := range NumKinds {
					sum[k].add(playCorpus(c, newIndex, k))
				}
				sum[NumKinds].add(playCorpus(c, newIndex))
			}
			for k, name := range []string{"match-ns/block", "remove-ns/block", "new-ns/block", "known-ns/block", "part-known-ns/block", "mixed-ns/block"} {
				if sum[k].blocks > 0 {
					b.ReportMetric(sum[k].perBlock(), name)
				}
			}
			b.ReportMetric(sum[Query].perCall(), "match-ns/match")
			b.ReportAllocs()
			b.ReportMetric(float64(sum[NumKinds].allocs)/float64(sum[NumKinds].calls), "allocs/op")
			b.ReportMetric(float64(sum[NumKinds].bytes)/float64(sum[NumKinds].calls), "B/op")
			b.ReportMetric(0, "ns/op") // of a round: says nothing
		})
	}
}

func (c *cost) add(d cost) {
	c.cpu += d.cpu
	c.blocks += d.blocks
	c.calls += d.calls
	c.allocs += d.allocs
	c.bytes += d.bytes
}
