package bench

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkIndex plays whole corpora on the index alone, for profiles: what
// stores, removes and matches cost shows below Store, Remove and Match.
func BenchmarkIndex(b *testing.B) {
	for _, s := range []Shape{
		{Engines: 8, Capacity: 16384},
		{Engines: 8, Capacity: 16384, Replicas: 7},
		{Engines: 128, Capacity: 1024},
	} {
		b.Run(fmt.Sprintf("%dx%dx%d", s.Engines, max(s.Replicas, 1), s.Capacity), func(b *testing.B) {
			c := Simulate(conversation(), s)
			blocks := 0
			for i := range c.Ops {
				blocks += c.Ops[i].Blocks()
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			b.ReportAllocs()
			b.ResetTimer()
			from := ThreadCPU()
			for b.Loop() {
				newPlayer(newIndex(), c.Holders).play(c.Ops)
			}
			b.ReportMetric(float64(ThreadCPU()-from)/float64(b.N*blocks), "cpu-ns/block")
		})
	}
}
