package bench

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// BenchmarkWriters has two indexes written at the same time, as the shards of an
// engine are, each with half the engines of the conversation trace; and one with
// all of them by itself. It reports the blocks that are stored and removed in a
// second of CPU time of every writer, in sum: what two take from each other of
// caches and memory is in it.
func BenchmarkWriters(b *testing.B) {
	c := Simulate(conversation(), Shape{Engines: 128, Capacity: 1024})
	for _, writers := range []int{1, 2} {
		b.Run([]string{1: "one", 2: "two"}[writers], func(b *testing.B) {
			var rates []float64
			for range max(b.N, rounds) {
				rates = append(rates, writeTogether(c, writers))
			}
			b.ReportMetric(0, "ns/op") // of a round: says nothing
			b.ReportMetric(median(rates), "Mblocks/s")
		})
	}
}

// writeTogether plays a corpus's events on as many indexes at the same time, the
// second half of them measured.
func writeTogether(c *Corpus, writers int) (rate float64) {
	var warm, done sync.WaitGroup
	rates := make([]float64, writers)
	for w := range writers {
		warm.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			mine := func(ops []Op) (of []Op) {
				for i := range ops {
					if ops[i].Kind != Query && ops[i].Holder%writers == w {
						of = append(of, ops[i])
					}
				}
				return of
			}
			p := newPlayer(newIndex(), c.Holders)
			p.play(mine(c.Ops[:c.Warm]))
			ops, clock := mine(c.Ops[c.Warm:]), clockCost()
			blocks, took := 0, time.Duration(0)
			warm.Done()
			warm.Wait()
			for len(ops) > 0 {
				n := min(len(ops), atOnce)
				touch(ops[:n])
				from := ThreadCPU()
				p.play(ops[:n])
				took += ThreadCPU() - from - clock
				for i := range ops[:n] {
					blocks += ops[i].Blocks()
				}
				ops = ops[n:]
			}
			rates[w] = float64(blocks) / 1e6 / took.Seconds()
		})
	}
	done.Wait()
	for _, r := range rates {
		rate += r
	}
	return rate
}
