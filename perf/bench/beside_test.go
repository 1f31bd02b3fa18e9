package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// besideTime is how long reader and writer work side by side in one run.
const besideTime = 300 * time.Millisecond

// beside is what a reader and a writer did beside each other, both at full
// speed.
type beside struct {
	p50, p99 time.Duration // of a match, by the time of day
	mean     float64       // the same, ns
	written  float64       // blocks a second
	allocs   float64       // objects a match, of reader and writer together
	bytes    float64
}

// playBeside warms a tree up with the first half of a corpus. Then the writer
// plays the second half, and when it is through, the whole corpus on emptied
// holders again, while the reader matches prompts of the window the writer is
// in.
func playBeside(c *Corpus, newTree func() tree.Interface) beside {
	writer := newPlayer(newTree(), c.Holders)
	writer.play(c.Ops[:c.Warm])
	var at atomic.Int64 // op the writer is at
	var stop atomic.Bool
	at.Store(int64(c.Warm))
	runtime.GC()

	var done sync.WaitGroup
	written, from := 0, time.Now()
	done.Go(func() {
		for i := c.Warm; !stop.Load(); i++ {
			if i == len(c.Ops) {
				i = 0
				for _, o := range writer.owners {
					writer.index.Clear(o.Holder)
				}
			}
			if o := &c.Ops[i]; o.Kind != Query {
				at.Store(int64(i))
				writer.play(c.Ops[i : i+1])
				written += o.Blocks()
			}
		}
	})
	reader := player{reader: writer.index.NewReader()}
	random := rand.New(rand.NewPCG(1, 2))
	times := make([]time.Duration, 0, 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for time.Since(from) < besideTime && len(times) < cap(times) {
		i := int(at.Load())
		for c.Ops[i].Kind != Query { // the window's queries are in front of its events
			i--
		}
		i = max(0, i-random.IntN(c.Shape.Window))
		if c.Ops[i].Kind != Query {
			continue
		}
		touch(c.Ops[i : i+1])
		asked := time.Now()
		reader.play(c.Ops[i : i+1])
		times = append(times, time.Since(asked))
	}
	took := time.Since(from)
	runtime.ReadMemStats(&after)
	stop.Store(true)
	done.Wait()
	slices.Sort(times)
	sum := time.Duration(0)
	for _, t := range times {
		sum += t
	}
	return beside{
		p50: times[len(times)/2], p99: times[len(times)*99/100],
		mean:    float64(sum) / float64(len(times)),
		written: float64(written) / took.Seconds(),
		allocs:  float64(after.Mallocs-before.Mallocs) / float64(len(times)),
		bytes:   float64(after.TotalAlloc-before.TotalAlloc) / float64(len(times)),
	}
}

// BenchmarkBeside measures matches beside a writer at full speed. It needs two
// processors to itself to say much.
func BenchmarkBeside(b *testing.B) {
	for _, s := range []Shape{
		{Engines: 8, Capacity: 16384},
		{Engines: 128, Capacity: 1024},
	} {
		b.Run(fmt.Sprintf("%dx%d", s.Engines, s.Capacity), func(b *testing.B) {
			c := Simulate(conversation(), s)
			var x50, x99, xw, m50, m99, mw, r50, r99, rw, xm, mm, rm, allocs, bytes []float64
			for n := range max(b.N, rounds) {
				var m, x beside
				if n%2 == 0 {
					m, x = playBeside(c, newMapTree), playBeside(c, newIndex)
				} else {
					x, m = playBeside(c, newIndex), playBeside(c, newMapTree)
				}
				x50, x99, xw = append(x50, float64(x.p50)), append(x99, float64(x.p99)), append(xw, x.written/1e6)
				m50, m99, mw = append(m50, float64(m.p50)), append(m99, float64(m.p99)), append(mw, m.written/1e6)
				r50, r99 = append(r50, float64(m.p50)/float64(x.p50)), append(r99, float64(m.p99)/float64(x.p99))
				rw = append(rw, x.written/m.written)
				xm, mm, rm = append(xm, x.mean), append(mm, m.mean), append(rm, m.mean/x.mean)
				allocs, bytes = append(allocs, x.allocs), append(bytes, x.bytes)
			}
			b.ReportMetric(0, "ns/op") // of a round: says nothing
			b.ReportAllocs()           // of the index alone: an op is a match
			for name, figures := range map[string][]float64{
				"index-p50-ns": x50, "index-p99-ns": x99, "index-Mblocks/s": xw,
				"maptree-p50-ns": m50, "maptree-p99-ns": m99, "maptree-Mblocks/s": mw,
				"index-mean-ns": xm, "maptree-mean-ns": mm, "ratio/mean": rm,
				"ratio/p50": r50, "ratio/p99": r99, "ratio/written": rw,
				"allocs/op": allocs, "B/op": bytes,
			} {
				b.ReportMetric(median(figures), name)
			}
		})
	}
}
