package bench

import (
	"runtime"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// BenchmarkGrowth fills an index with ten million memberships, in events of 16
// blocks, or tells it of as many whose parents it never learns, and reports the
// CPU time of the longest event: tables grow piece by piece, so that none waits
// for a large one to be made anew. What is cleared goes at once, and is given back
// in steps, of which it reports the longest too.
func BenchmarkGrowth(b *testing.B) {
	const (
		memberships = 10_000_000
		holders     = 64
		event       = 16
		chain       = 512 // blocks
	)
	for _, shape := range []struct {
		name   string
		copies int  // of each block
		own    bool // every second holder has the blocks of the one before under names of its own
		waits  bool // no parent is known: as many wait as may
	}{{name: "new", copies: 1}, {name: "own-names", copies: 1, own: true}, {name: "copies", copies: 2}, {name: "waiting", copies: 1, waits: true}} {
		b.Run(shape.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var longest, cleared, step time.Duration
			for range b.N {
				index := tree.New(tree.Options{})
				var all []tree.Holder
				for range holders {
					h, err := index.AddHolder(tree.Copies, 1)
					if err != nil {
						b.Fatal(err)
					}
					all = append(all, h)
				}
				s := tree.Store{Span: 1, Pairs: make([]uint64, 2*event)}
				ends := make([]uint64, holders) // names of the holders' last blocks
				for n := 0; n < memberships; n += event * shape.copies {
					h := n / event / shape.copies % holders
					at := n / event / shape.copies / holders * event // blocks the holder has
					for i := range event {
						block := uint64(h)<<32 | uint64(at+i)
						name := block
						if shape.own {
							block &^= 1 << 32
						}
						s.Pairs[2*i], s.Pairs[2*i+1] = spread(name), spread(block)
					}
					s.HasParent, s.Parent = at%chain > 0, ends[h]
					if shape.waits {
						s.HasParent, s.Parent = true, s.Pairs[0]+1
					}
					ends[h] = s.Pairs[2*event-2]
					for range shape.copies {
						begin := ThreadCPU()
						index.Store(tree.Owner{Holder: all[h]}, &s)
						longest = max(longest, ThreadCPU()-begin)
					}
				}
				st := index.Stats()
				b.ReportMetric(float64(st.Bytes)/float64(st.Residencies+st.Waiting), "B/block")
				for _, h := range all {
					begin := ThreadCPU()
					index.Clear(h)
					cleared = max(cleared, ThreadCPU()-begin)
				}
				for more := true; more; {
					begin := ThreadCPU()
					more = index.Step()
					step = max(step, ThreadCPU()-begin)
				}
			}
			b.ReportMetric(float64(longest)/1e6, "longest-ms")
			b.ReportMetric(float64(cleared)/1e6, "clear-ms")
			b.ReportMetric(float64(step)/1e6, "step-ms")
			b.ReportMetric(0, "ns/op") // of a round: says nothing
		})
	}
}

// spread makes of a number one as a hash might be.
func spread(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	return n ^ n>>29
}
