package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	cairn "github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/perf/maptree"
	"github.com/cairn-kv/cairn/tree"
)

// A prompt of 8 K tokens, which 64 cache owners hold whole.
const (
	hintTokens = 8192
	hintBlocks = hintTokens / blockTokens
	hintOwners = 64
	hintTail   = 16 // blocks that some owners keep evicting and storing
	hintTime   = 400 * time.Millisecond
)

// hintPool is a fleet of owners behind an engine: real publishers on real sockets.
type hintPool struct {
	tb     testing.TB
	engine *cairn.Engine
	pubs   []*zmtp.Publisher
	next   []uint64 // sequence of each
	prompt cairn.Query

	fire    sync.WaitGroup
	stopped atomic.Bool
	blocks  atomic.Uint64 // published under fire
}

// newHintPool starts the owners, each with the prompt in its pool, and a target that
// holds nothing.
func newHintPool(tb testing.TB, index func() tree.Interface) *hintPool {
	tb.Helper()
	e, err := cairn.Open(cairn.Options{NewIndex: index})
	if err != nil {
		tb.Fatal(err)
	}
	p := &hintPool{tb: tb, engine: e, prompt: cairn.Query{Model: "m"}}
	for i := range hintTokens {
		p.prompt.Tokens = append(p.prompt.Tokens, uint32(scramble(uint64(i))%128_000))
	}
	tb.Cleanup(func() {
		p.cease()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			tb.Error(err)
		}
		for _, pub := range p.pubs {
			if err := pub.Close(); err != nil {
				tb.Error(err)
			}
		}
	})
	for i := range hintOwners + 1 {
		p.add(i)
	}
	for i := range hintOwners {
		p.send(i, hintBatch(storedEvent(0, p.prompt.Tokens, hintNames(1, hintBlocks), "CPU", true)))
	}
	p.send(hintOwners, hintBatch())
	p.settle()
	return p
}

func (p *hintPool) add(i int) {
	p.tb.Helper()
	pub, err := zmtp.Listen(p.tb.Context(), "tcp://127.0.0.1:0")
	if err != nil {
		p.tb.Fatal(err)
	}
	p.pubs, p.next = append(p.pubs, pub), append(p.next, 0)
	err = p.engine.AddSource(p.tb.Context(), cairn.Source{ID: fmt.Sprint(i), Model: "m", Endpoint: pub.Addr(), Protocol: cairn.HiCacheV1,
		Hint: &cairn.HintConfig{WorkerType: "aggregated", Endpoint: "tcp://10.0.0.7:23280"}})
	if err == nil {
		err = pub.WaitSubscribers(p.tb.Context(), 1)
	}
	if err != nil {
		p.tb.Fatal(err)
	}
}

func (p *hintPool) send(i int, payload []byte) {
	var seq [8]byte
	binary.BigEndian.PutUint64(seq[:], p.next[i])
	p.next[i]++
	if err := p.pubs[i].Send(nil, seq[:], payload); err != nil && !p.stopped.Load() {
		p.tb.Error(err)
	}
}

// settle waits until all that was published is applied.
func (p *hintPool) settle() {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i, next := range p.next {
		if err := p.engine.WaitApplied(ctx, fmt.Sprint(i), 0, next-1); err != nil {
			p.tb.Fatal(err)
		}
	}
}

// open lets every owner publish as fast as its socket takes it: prompts of its
// own on the device and in the pool come and go, and one owner in eight evicts
// the end of the common prompt and stores it again.
func (p *hintPool) open() {
	const lanes = 4
	for lane := range lanes {
		p.fire.Go(func() {
			var come, go_ [hintOwners][]byte
			for i := lane; i < hintOwners; i += lanes {
				come[i], go_[i] = p.churn(i)
			}
			for !p.stopped.Load() {
				for i := lane; i < hintOwners; i += lanes {
					p.send(i, go_[i])
					p.send(i, come[i])
					p.blocks.Add(4 * 32)
				}
			}
		})
	}
}

// churn returns what brings an owner's own prompts, and what takes them away.
func (p *hintPool) churn(i int) (come, away []byte) {
	own := hintNames(uint64(i+2)<<32, 32)
	tokens := make([]uint32, 32*blockTokens)
	for k := range tokens {
		tokens[k] = uint32(scramble(uint64(i+1)<<32|uint64(k)) % 128_000)
	}
	stored := [][]byte{storedEvent(0, tokens, own, "GPU", false), storedEvent(0, tokens, own, "CPU", true)}
	removed := [][]byte{removedEvent(own, "GPU", false), removedEvent(own, "CPU", true)}
	if i%8 == 0 {
		common := hintNames(1, hintBlocks)
		cut := hintBlocks - hintTail
		stored = append(stored, storedEvent(common[cut-1], p.prompt.Tokens[cut*blockTokens:], common[cut:], "CPU", true))
		removed = append(removed, removedEvent(common[cut:], "CPU", true))
	}
	return hintBatch(stored...), hintBatch(removed...)
}

// cease ends the fire. It is idempotent.
func (p *hintPool) cease() {
	p.stopped.Store(true)
	p.fire.Wait()
}

// hintNames are n names from first on.
func hintNames(first uint64, n int) []uint64 {
	all := make([]uint64, n)
	for i := range all {
		all[i] = scramble(first + uint64(i))
	}
	return all
}

func hintBatch(events ...[]byte) []byte {
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, 1757376000)
	b = msgp.AppendArrayHeader(b, uint32(len(events)))
	for _, e := range events {
		b = append(b, e...)
	}
	return msgp.AppendNil(b)
}

// storedEvent is SGLang's map form. A parent of 0 is the root.
func storedEvent(parent uint64, tokens []uint32, names []uint64, medium string, owned bool) []byte {
	b := eventHead("BlockStored", 6, names, medium, owned)
	b = msgp.AppendString(b, "parent_block_hash")
	if parent == 0 {
		b = msgp.AppendNil(b)
	} else {
		b = msgp.AppendInt64(b, int64(parent))
	}
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "token_ids"), uint32(len(tokens)))
	for _, t := range tokens {
		b = msgp.AppendUint32(b, t)
	}
	return msgp.AppendInt(msgp.AppendString(b, "block_size"), blockTokens)
}

func removedEvent(names []uint64, medium string, owned bool) []byte {
	return eventHead("BlockRemoved", 3, names, medium, owned)
}

func eventHead(tag string, keys uint32, names []uint64, medium string, owned bool) []byte {
	if owned {
		keys++
	}
	b := msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(nil, keys), "type"), tag)
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "block_hashes"), uint32(len(names)))
	for _, n := range names {
		b = msgp.AppendInt64(b, int64(n))
	}
	b = msgp.AppendString(msgp.AppendString(b, "medium"), medium)
	if owned {
		b = msgp.AppendString(msgp.AppendString(b, "ownership"), "kvcr")
	}
	return b
}

// router is one router goroutine.
type router struct {
	answer cairn.Answer
	hint   cairn.HintAnswer

	asked, missed int
}

// route is what a router does in process: match, choose, hint, in one call or in
// two.
func (a *router) route(p *hintPool, twice bool) error {
	var err error
	if twice {
		if err = p.engine.Match(&p.prompt, &a.answer); err == nil {
			err = p.engine.Hint(&p.prompt, choose(&a.answer), &a.hint)
		}
	} else {
		err = p.engine.Route(&p.prompt, choose, &a.answer, &a.hint)
	}
	if err != nil {
		return err
	}
	a.asked++
	if a.hint.Reason == hint.NoLongerSource && len(a.answer.Holders) == hintOwners {
		a.missed++ // the writer was in the way of the names, several times over
		return nil
	}
	if len(a.answer.Holders) != hintOwners || a.hint.Reason != hint.Hinted || len(a.hint.Names) < hintBlocks-hintTail {
		return fmt.Errorf("%d holders, reason %q, %d names", len(a.answer.Holders), a.hint.Reason, len(a.hint.Names))
	}
	return nil
}

// choose sends the request where nothing is held.
func choose(*cairn.Answer) cairn.Target {
	return cairn.Target{Source: hintTarget, MessageID: "req-42"}
}

// hintTarget is the target's id.
var hintTarget = fmt.Sprint(hintOwners)

// hintCost is what match and hint took under fire, in µs: by the time of day, and
// the processor time of their own thread, which other work on the machine does
// not lengthen.
type hintCost struct {
	p50, p99, cpu50, cpu99 float64
	written                float64 // million blocks a second
}

// hintUnderFire measures match and hint with all publishers at full speed.
func hintUnderFire(tb testing.TB, index func() tree.Interface, twice bool) hintCost {
	p := newHintPool(tb, index)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var a router
	for range 10 {
		if err := a.route(p, twice); err != nil {
			tb.Fatal(err)
		}
	}
	runtime.GC()
	p.open()
	defer p.cease()
	clock := clockCost()
	from, before := time.Now(), p.blocks.Load()
	times, cpu := make([]time.Duration, 0, 1<<18), make([]time.Duration, 0, 1<<18)
	for (time.Since(from) < hintTime || len(times) < leastHints) && len(times) < cap(times) {
		used, asked := ThreadCPU(), time.Now()
		if err := a.route(p, twice); err != nil {
			tb.Fatal(err)
		}
		took := time.Since(asked)
		times, cpu = append(times, took), append(cpu, ThreadCPU()-used-clock)
	}
	c := hintCost{written: float64(p.blocks.Load()-before) / time.Since(from).Seconds() / 1e6}
	at := func(all []time.Duration, percent int) float64 {
		slices.Sort(all)
		return float64(all[len(all)*percent/100]) / 1e3
	}
	c.p50, c.p99, c.cpu50, c.cpu99 = at(times, 50), at(times, 99), at(cpu, 50), at(cpu, 99)
	return c
}

// leastHints are measured even of a tree that takes its time.
const leastHints = 16

// BenchmarkHint measures match and hint together, hashing included, in process,
// with all publishers at full speed: route is one call, match-hint is two.
func BenchmarkHint(b *testing.B) {
	maps := func() tree.Interface { return maptree.New() }
	index := func() tree.Interface { return tree.New(tree.Options{}) }
	for _, s := range []struct {
		name  string
		twice bool
	}{{"route", false}, {"match-hint", true}} {
		b.Run(s.name, func(b *testing.B) {
			figures := map[string][]float64{}
			note := func(tree string, c hintCost) {
				for unit, v := range map[string]float64{"p50-µs": c.p50, "p99-µs": c.p99, "cpu-p50-µs": c.cpu50, "cpu-p99-µs": c.cpu99, "Mblocks/s": c.written} {
					figures[tree+unit] = append(figures[tree+unit], v)
				}
			}
			for n := range max(b.N, rounds) {
				var x, m hintCost
				if n%2 == 0 {
					m, x = hintUnderFire(b, maps, s.twice), hintUnderFire(b, index, s.twice)
				} else {
					x, m = hintUnderFire(b, index, s.twice), hintUnderFire(b, maps, s.twice)
				}
				note("index-", x)
				note("maptree-", m)
				for name, v := range map[string]float64{"ratio/p50": m.p50 / x.p50, "ratio/p99": m.p99 / x.p99, "ratio/cpu-p50": m.cpu50 / x.cpu50, "ratio/cpu-p99": m.cpu99 / x.cpu99} {
					figures[name] = append(figures[name], v)
				}
			}
			b.ReportMetric(0, "ns/op") // of a round: says nothing
			for name, all := range figures {
				b.ReportMetric(median(all), name)
			}
		})
	}
}
