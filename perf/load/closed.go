package load

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/perf/corpus"
)

// A stretch is what is measured or probed together: short enough that what its
// operations are about stays in the cache once touched.
const (
	stretchOps   = 256
	stretchWords = 1 << 16
)

// See Options.Enough.
const (
	enough    = 200 * time.Millisecond
	mostPlays = 8
)

// kinds of figures that a closed run gives per block.
var classes = [...]string{corpus.New: "store-new", corpus.Known: "store-known", corpus.Mixed: "store-mixed"}

// tally sums operations of one kind.
type tally struct {
	took   time.Duration
	blocks int
	calls  int
}

func (t *tally) perBlock() float64 { return float64(t.took) / float64(t.blocks) }

// closed plays a corpus on one thread. The first half of the operations warms
// the index up. In the second half stretches take turns: one is measured as a
// whole in CPU time of the process, drain included; in the next every operation
// is timed by itself, by the time of day.
func closed(c *corpus.Corpus, who *Contestant, o Options) (map[string]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := &probe{every: o.Every, sums: map[string]*tally{}, all: map[string]*tally{}}
	p.clock = clockCost()
	p.cpu = cpuCost()
	for plays := 0; plays < mostPlays && (plays == 0 || p.measured() < cmp.Or(o.Enough, enough)); plays++ {
		index, err := who.New(c.Header)
		if err != nil {
			return nil, err
		}
		p.play(c, index)
	}
	m := map[string]float64{}
	for name, t := range p.sums {
		m[name+"-ns/block"] = t.perBlock()
	}
	latencies(m, "match", p.matches)
	if t := p.sums["match"]; t != nil {
		m["match-ns"] = float64(t.took) / float64(t.calls)
	}
	mixed := p.mixed.perBlock()
	if o.Every > 1 {
		// Queries are only sampled, so the mix is put together from its parts.
		var took float64
		var blocks int
		for name, t := range p.all {
			if s := p.sums[name]; s != nil {
				took += s.perBlock() * float64(t.blocks)
				blocks += t.blocks
			}
		}
		mixed = took / float64(blocks)
	}
	m["mixed-ns/block"] = mixed
	m["mixed-Mblocks/s"] = 1e3 / mixed
	return m, nil
}

// probe is what closed runs measured.
type probe struct {
	every   int
	clock   time.Duration // one reading of the time of day
	cpu     time.Duration // one reading of CPU time
	mixed   tally
	sums    map[string]*tally // timed, by what they do
	all     map[string]*tally // there in the measured half, whether timed or not
	matches []time.Duration
	asked   int
}

// measured is how much time the figures rest on.
func (p *probe) measured() time.Duration {
	if p.every <= 1 {
		return p.mixed.took
	}
	var sum time.Duration
	for _, t := range p.sums {
		sum += t.took
	}
	return sum
}

func add(to map[string]*tally, name string, took time.Duration, blocks int) {
	t := to[name]
	if t == nil {
		t = &tally{}
		to[name] = t
	}
	t.took += took
	t.blocks += blocks
	t.calls++
}

func (p *probe) play(c *corpus.Corpus, index Index) {
	reader := index.Reader()
	warm := len(c.Ops) / 2
	for i := range c.Ops[:warm] {
		if o := &c.Ops[i]; o.Kind != corpus.Query {
			index.Apply(c.Ops[i : i+1])
		} else if p.every <= 1 {
			reader.Match(o.Words)
		}
	}
	index.Sync()
	runtime.GC()
	timed := false
	for ops := c.Ops[warm:]; len(ops) > 0; timed = !timed {
		n := stretch(ops)
		touch(ops[:n])
		if timed || p.every > 1 {
			p.each(ops[:n], index, reader)
		} else {
			p.whole(ops[:n], index, reader)
		}
		ops = ops[n:]
	}
}

// stretch is how many operations the next stretch has.
func stretch(ops []corpus.Op) int {
	words := 0
	for n := range ops {
		if n > 0 && (n == stretchOps || words+len(ops[n].Words) > stretchWords) {
			return n
		}
		words += len(ops[n].Words)
	}
	return len(ops)
}

// whole measures a stretch in one go.
func (p *probe) whole(ops []corpus.Op, index Index, reader Reader) {
	from := processCPU()
	for i := 0; i < len(ops); {
		if ops[i].Kind == corpus.Query {
			reader.Match(ops[i].Words)
			i++
			continue
		}
		n := 1
		for i+n < len(ops) && ops[i+n].Kind != corpus.Query {
			n++
		}
		index.Apply(ops[i : i+n])
		i += n
	}
	index.Sync()
	p.mixed.took += processCPU() - from - p.cpu
	for i := range ops {
		p.mixed.blocks += ops[i].Blocks()
	}
}

// each times every operation by itself. Those that were interrupted are left
// out of what a block takes, and stay among the times of matches.
func (p *probe) each(ops []corpus.Op, index Index, reader Reader) {
	for i := range ops {
		o := &ops[i]
		name := what(o)
		add(p.all, name, 0, o.Blocks())
		if o.Kind == corpus.Query {
			if p.asked++; p.every > 1 && p.asked%p.every != 0 {
				continue
			}
		}
		from := time.Now()
		if o.Kind == corpus.Query {
			reader.Match(o.Words)
		} else {
			index.Apply(ops[i : i+1])
			index.Sync()
		}
		took := time.Since(from)
		if o.Kind == corpus.Query {
			p.matches = append(p.matches, took)
		}
		if took > 300*time.Microsecond+time.Duration(o.Blocks())*3*time.Microsecond && p.every <= 1 {
			continue
		}
		if o.Kind != corpus.Clear {
			add(p.sums, name, took-p.clock, o.Blocks())
		}
	}
}

// what names an operation in figures.
func what(o *corpus.Op) string {
	switch {
	case o.Kind == corpus.Query:
		return "match"
	case o.Kind == corpus.Remove:
		return "remove"
	case o.Kind == corpus.Clear:
		return "clear"
	case o.Blocks() == 1:
		return "store-one"
	}
	return classes[o.Class]
}

// touched keeps the reads of touch from being left out.
var touched atomic.Uint64

// touch brings what operations are about into the cache, as whoever hands them
// over has just made them.
func touch(ops []corpus.Op) {
	var sum uint64
	for i := range ops {
		for _, w := range ops[i].Words {
			sum += w
		}
	}
	touched.Store(sum)
}

// verify plays the whole corpus, everything applied before each query, and
// compares the answers.
func verify(c *corpus.Corpus, who *Contestant, o Options) (map[string]float64, error) {
	index, err := who.New(c.Header)
	if err != nil {
		return nil, err
	}
	reader := index.Reader()
	asked, wrong, query := 0, 0, 0
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Kind != corpus.Query {
			index.Apply(c.Ops[i : i+1])
			continue
		}
		if query++; o.Every > 1 && query%o.Every != 0 {
			continue
		}
		index.Sync()
		reader.Match(op.Words)
		asked++
		if want := c.Answers[query-1]; reader.Digest() != want.Any {
			wrong++
		}
	}
	if asked == 0 {
		return nil, fmt.Errorf("load: %d queries, of which every %dth is asked: none", query, o.Every)
	}
	return map[string]float64{"answers": float64(asked), "wrong": float64(wrong)}, nil
}

// memory applies all events and compares the heap before and after.
func memory(c *corpus.Corpus, who *Contestant) (map[string]float64, error) {
	if c.Totals.Left == 0 {
		return nil, fmt.Errorf("load: nothing is left at the end of %s", c.Header.Name)
	}
	before := heap()
	index, err := who.New(c.Header)
	if err != nil {
		return nil, err
	}
	for i := range c.Ops {
		if c.Ops[i].Kind != corpus.Query {
			index.Apply(c.Ops[i : i+1])
		}
	}
	index.Sync()
	used := heap() - before
	if s, ok := index.(Sized); ok {
		used = max(used, int64(s.Bytes()))
	}
	runtime.KeepAlive(index)
	runtime.KeepAlive(c)
	return map[string]float64{"bytes/membership": float64(used) / float64(c.Totals.Left)}, nil
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// clockCost is what timing nothing gives.
func clockCost() time.Duration {
	return least(func() time.Duration {
		from := time.Now()
		return time.Since(from)
	})
}

// cpuCost is the CPU time that reading it adds.
func cpuCost() time.Duration {
	return least(func() time.Duration {
		from := processCPU()
		return processCPU() - from
	})
}

func least(f func() time.Duration) time.Duration {
	var all [199]time.Duration
	for i := range all {
		all[i] = f()
	}
	slices.Sort(all[:])
	return all[len(all)/2]
}
