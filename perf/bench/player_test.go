package bench

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/perf/maptree"
	"github.com/cairn-kv/cairn/tree"
)

// rounds is how often every comparison is made; figures are medians.
const rounds = 5

func newIndex() tree.Interface   { return tree.New(tree.Options{Seed: 1}) }
func newMapTree() tree.Interface { return maptree.New() }

// player plays a corpus on one tree.
type player struct {
	index  tree.Interface
	reader tree.Reader
	owners []tree.Owner
	stored tree.Store
}

func newPlayer(index tree.Interface, holders int) *player {
	p := &player{index: index, reader: index.NewReader(), stored: tree.Store{Span: 1}}
	for range holders {
		h, err := index.AddHolder(tree.Copies, 1)
		if err != nil {
			panic(fmt.Sprintf("bench: %v", err)) // far fewer holders than any index takes
		}
		p.owners = append(p.owners, tree.Owner{Holder: h})
	}
	return p
}

// play applies operations. It is the same code for both trees.
func (p *player) play(ops []Op) {
	for i := range ops {
		o := &ops[i]
		switch o.Kind {
		case Query:
			p.reader.Match(0, o.Words)
		case Remove:
			p.index.Remove(p.owners[o.Holder], o.Words)
		default:
			p.stored.HasParent, p.stored.Parent, p.stored.Pairs = o.HasParent, o.Parent, o.Words
			p.index.Store(p.owners[o.Holder], &p.stored)
		}
	}
}

// cost is what something took.
type cost struct {
	cpu    time.Duration
	blocks int
	calls  int
	allocs uint64 // objects, by all goroutines
	bytes  uint64 // of these objects
}

func (c cost) perBlock() float64 { return float64(c.cpu) / float64(c.blocks) }
func (c cost) perCall() float64  { return float64(c.cpu) / float64(c.calls) }

// clockCost is the CPU time one reading of the clock adds to what it measures.
func clockCost() time.Duration {
	costs := make([]time.Duration, 99)
	for i := range costs {
		from := ThreadCPU()
		costs[i] = ThreadCPU() - from
	}
	slices.Sort(costs)
	return costs[len(costs)/2]
}

// atOnce is how many operations are measured together at most.
const atOnce = 128

// touched keeps the reads of touch from being left out.
var touched atomic.Uint64

func touch(ops []Op) {
	sum := uint64(0)
	for i := range ops {
		for _, w := range ops[i].Words {
			sum += w
		}
	}
	touched.Add(sum)
}

// playCorpus warms a new tree up with the first half of a corpus and measures
// the operations of the given kinds in the second, all of them if there are
// none given. Operations of these kinds in a row are measured together, and
// what they are about is read before: prompts and events were just made by
// whoever hands them over, so they are in the cache.
func playCorpus(c *Corpus, newTree func() tree.Interface, kinds ...Kind) cost {
	p := newPlayer(newTree(), c.Holders)
	p.play(c.Ops[:c.Warm])
	runtime.GC()
	var total cost
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	clock := clockCost()
	wanted := func(k Kind) bool { return len(kinds) == 0 || slices.Contains(kinds, k) }
	for ops := c.Ops[c.Warm:]; len(ops) > 0; {
		n, measured := 1, wanted(ops[0].Kind)
		for n < min(len(ops), atOnce) && wanted(ops[n].Kind) == measured {
			n++
		}
		if measured {
			touch(ops[:n])
			from := ThreadCPU()
			p.play(ops[:n])
			total.cpu += ThreadCPU() - from - clock
			for i := range ops[:n] {
				total.blocks += ops[i].Blocks()
			}
			total.calls += n
		} else {
			p.play(ops[:n])
		}
		ops = ops[n:]
	}
	runtime.ReadMemStats(&after)
	total.allocs, total.bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return total
}

// compare measures both trees, alternating, and reports what they took per unit
// ("block", "match"): see the package comment.
func compare(b *testing.B, unit string, per func(cost) float64, run func(newTree func() tree.Interface) cost) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var index, maps, ratio, self []float64
	var allocs, bytes, calls uint64
	for n := range max(b.N, rounds) {
		var m, x, y cost
		if n%2 == 0 {
			m, x, y = run(newMapTree), run(newIndex), run(newIndex)
		} else {
			y, x, m = run(newIndex), run(newIndex), run(newMapTree)
		}
		fx, fy, fm := per(x), per(y), per(m)
		index, maps = append(index, fx, fy), append(maps, fm)
		ratio, self = append(ratio, 2*fm/(fx+fy)), append(self, fx/fy)
		allocs, bytes, calls = allocs+x.allocs+y.allocs, bytes+x.bytes+y.bytes, calls+uint64(x.calls+y.calls)
	}
	b.ReportMetric(0, "ns/op") // of a round: says nothing
	b.ReportMetric(median(index), "index-ns/"+unit)
	b.ReportMetric(median(maps), "maptree-ns/"+unit)
	b.ReportMetric(median(ratio), "ratio/"+unit)
	b.ReportMetric(median(self), "self-ratio")
	b.ReportAllocs() // of the index alone: an op is a call of it
	b.ReportMetric(float64(allocs)/float64(calls), "allocs/op")
	b.ReportMetric(float64(bytes)/float64(calls), "B/op")
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
