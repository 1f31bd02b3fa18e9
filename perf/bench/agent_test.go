package bench

import (
	"runtime"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// Agents ask with prompts of 142 K tokens, most of which many engines hold.
const (
	agentBlocks  = 8900
	agentHolders = 64
)

// agents fills a tree with the prompt of each holder: the first shared blocks
// are the same for all, the rest its own. Events are of so many blocks; holders
// take turns, as engines prefill side by side, or come one after the other. It
// returns the prompts.
func agents(p *player, shared, event int, turns bool) [][]uint64 {
	prompts := make([][]uint64, agentHolders)
	names := make([][]uint64, agentHolders)
	for h := range prompts {
		name := uint64(1)
		for i := range agentBlocks {
			content := scramble(uint64(i))
			if i >= shared {
				content = scramble(uint64(h+1)<<32 | uint64(i))
			}
			name = scramble(name ^ content)
			prompts[h], names[h] = append(prompts[h], content), append(names[h], name)
		}
	}
	store := func(h, from int) {
		o := Op{Kind: StoreNew, Holder: h, HasParent: from > 0}
		if from > 0 {
			o.Parent = names[h][from-1]
		}
		for i := from; i < min(from+event, agentBlocks); i++ {
			o.Words = append(o.Words, names[h][i], prompts[h][i])
		}
		p.play([]Op{o})
	}
	if turns {
		for from := 0; from < agentBlocks; from += event {
			for h := range prompts {
				store(h, from)
			}
		}
		return prompts
	}
	for h := range prompts {
		for from := 0; from < agentBlocks; from += event {
			store(h, from)
		}
	}
	return prompts
}

// BenchmarkAgent matches whole agent prompts, and names what a match found.
func BenchmarkAgent(b *testing.B) {
	for _, s := range []struct {
		name          string
		shared, event int
		turns         bool
	}{
		{"all-shared/event=512", agentBlocks, 512, false},
		{"all-shared/event=32", agentBlocks, 32, false},
		{"all-shared/event=512/turns", agentBlocks, 512, true},
		{"all-shared/event=32/turns", agentBlocks, 32, true},
		{"96%-shared/event=512", agentBlocks * 96 / 100, 512, false},
		{"96%-shared/event=32/turns", agentBlocks * 96 / 100, 32, true},
	} {
		b.Run(s.name+"/match", func(b *testing.B) {
			compare(b, "match", cost.perCall, func(newTree func() tree.Interface) cost {
				p := newPlayer(newTree(), agentHolders)
				prompts := agents(p, s.shared, s.event, s.turns)
				calls := 5 // of the map tree a match takes long
				if _, ok := p.index.(*tree.Index); ok {
					calls = 2000
				}
				return repeat(calls, agentBlocks, func(i int) {
					prompt := prompts[i%agentHolders]
					if a := p.reader.Match(0, prompt); len(a) != agentHolders || a[0].Units[tree.ViewAny] != agentBlocks {
						b.Fatalf("%d holders, want %d; the first %v", len(a), agentHolders, a[0])
					}
				})
			})
		})
		b.Run(s.name+"/names", func(b *testing.B) {
			compare(b, "name", cost.perBlock, func(newTree func() tree.Interface) cost {
				p := newPlayer(newTree(), agentHolders)
				prompts := agents(p, s.shared, s.event, s.turns)
				dst := make([]uint64, 0, agentBlocks)
				const h = agentHolders / 2
				p.reader.Match(0, prompts[h])
				return repeat(50, agentBlocks, func(int) {
					if n := p.reader.Names(dst, p.owners[h].Holder, tree.ViewDevice, agentBlocks); len(n) != agentBlocks {
						b.Fatalf("%d names, want %d", len(n), agentBlocks)
					}
				})
			})
		})
	}
}

// repeat measures calls of f, each about so many blocks, after a tenth of them
// to warm up.
func repeat(calls, blocks int, f func(i int)) cost {
	for i := range max(calls/10, 1) {
		f(i)
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	from := ThreadCPU()
	for i := range calls {
		f(i)
	}
	took := ThreadCPU() - from
	runtime.ReadMemStats(&after)
	return cost{cpu: max(took, time.Nanosecond), blocks: calls * blocks, calls: calls, allocs: after.Mallocs - before.Mallocs, bytes: after.TotalAlloc - before.TotalAlloc}
}
