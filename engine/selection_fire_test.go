package engine

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/perf/pair"
)

// The fleet of the scenarios under fire: three workers with pools that store and
// evict as fast as their sockets take it, each a target for the others. Every
// hint is judged by what the pools held within the sequences that it names, and
// carried out by the fake pair.
const (
	firePrompts = 4
	fireBlocks  = 8 // of a prompt
	// fireStays is how many leading blocks of prompt 0 are never evicted: there
	// a hint is always due to whoever holds fewer.
	fireStays = 4
	// It burns for fireTime, or as long as CAIRN_FIRE says; on a slow machine
	// until there were fireHints, but no longer than fireMost, on a very slow one
	// until there was anything to judge.
	fireTime  = 300 * time.Millisecond
	fireHints = 50
	fireMost  = 1200 * time.Millisecond
)

// masks say which blocks of each prompt are held.
type masks [firePrompts]uint8

// fireShard is one TP shard of a worker: its publisher, and what its pool held
// after each sequence.
type fireShard struct {
	pub *publisher
	mu  sync.Mutex
	log []masks
}

// after returns what was held after so many batches.
func (s *fireShard) after(n uint64) masks {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 {
		return masks{}
	}
	return s.log[n-1]
}

func (s *fireShard) published() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.log))
}

type fireWorker struct {
	*worker
	shards  []*fireShard
	library *pair.Library
}

// name is a block's, the same at every worker.
func fireName(prompt, block int) uint64 { return uint64(prompt+1)<<40 + uint64(block) }

func firePrompt(p int) []uint32 {
	return count(uint32(1+100_000*p), uint32(100_000*p+fireBlocks*blockTokens+1)) // one token over
}

// step evicts a leaf or stores the next block of a prompt, here and in the
// library, which forgets before it says so and has before it says so.
func (w *fireWorker) step(shard, p int, now *masks, grow bool) {
	s := w.shards[shard]
	n := bits.TrailingZeros8(^now[p])
	var e event
	if grow {
		tokens := firePrompt(p)
		e = event{names: []uint64{fireName(p, n)}, tokens: tokens[n*blockTokens : (n+1)*blockTokens], medium: "CPU", owner: "kvcr"}
		if n > 0 {
			e.parent, e.hasParent = fireName(p, n-1), true
		}
		w.library.Store(shard, fireName(p, n))
		now[p] |= 1 << n
	} else {
		e = remove("CPU", "kvcr", fireName(p, n-1))
		w.library.Evict(shard, fireName(p, n-1))
		now[p] &^= 1 << (n - 1)
	}
	s.mu.Lock()
	s.log = append(s.log, *now)
	s.mu.Unlock()
	s.pub.send(e)
}

// burn steps at random until stop.
func (w *fireWorker) burn(shard int, now masks, seed uint64, stop *atomic.Bool) {
	rng := rand.New(rand.NewPCG(seed, uint64(shard)))
	for !stop.Load() {
		p := rng.IntN(firePrompts)
		n := bits.TrailingZeros8(^now[p])
		least := 0
		if p == 0 && w.id == "1" {
			least = fireStays
		}
		w.step(shard, p, &now, n == least || n < fireBlocks && rng.IntN(2) == 0)
	}
}

// span is the batches of each shard that an answer may rest on.
type fireSpan struct{ from, to []uint64 }

// named turns the streams of an answer into a span.
func named(streams []StreamPosition) (s fireSpan) {
	at := func(p StreamPosition, i int) uint64 {
		if !p.Any[i] {
			return 0
		}
		return p.Applied[i] + 1
	}
	for _, p := range streams {
		s.from, s.to = append(s.from, at(p, 0)), append(s.to, at(p, 1))
	}
	return s
}

// depths returns which depths of a prompt were the truth at some instants of the
// shards within a span, as bits, and the least.
func (w *fireWorker) depths(p int, s fireSpan) (set uint32, least int) {
	held := map[uint8]bool{0xff: true}
	for i, sh := range w.shards {
		next := map[uint8]bool{}
		for n := s.from[i]; n <= s.to[i]; n++ {
			m := sh.after(n)[p]
			for was := range held {
				next[was&m] = true
			}
		}
		held = next
	}
	least = fireBlocks
	for m := range held {
		n := bits.TrailingZeros8(^m)
		set |= 1 << n
		least = min(least, n)
	}
	return set, least
}

// around is what a query that begins now may see at the least; seal completes
// it when the query has ended.
func (w *fireWorker) around() (s fireSpan) {
	src, _ := w.engine.sources.Load(w.id)
	for i := range w.shards {
		n := uint64(0)
		if at := src.feeds[i].applied(); at.Any {
			n = at.Seq + 1
		}
		s.from = append(s.from, n)
	}
	return s
}

func (w *fireWorker) seal(s *fireSpan) {
	for _, sh := range w.shards {
		s.to = append(s.to, sh.published())
	}
}

// fireTally counts what was judged.
type fireTally struct {
	hints, spanning, none, missed, unsure int
}

func TestFleetUnderFire(t *testing.T) {
	var long time.Duration
	if text := os.Getenv("CAIRN_FIRE"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatalf("CAIRN_FIRE: %v; want a duration such as 1m", err)
		}
	}
	for _, ix := range indexes {
		for tp := 1; tp <= 2; tp++ {
			for di, d := range dialects {
				if ix.name == "reference" && di > 0 {
					continue // on the lock-free one in both, as the scenarios
				}
				t.Run(fmt.Sprintf("%s/TP %d/%s", ix.name, tp, d.name), func(t *testing.T) {
					e := openEngine(t, Options{NewIndex: ix.make})
					network := pair.NewNetwork(pair.Default)
					t.Cleanup(network.Close)
					fetcher := network.Target(tp)
					var all []*fireWorker
					for i := range 3 {
						all = append(all, newFireWorker(t, e, network, i, tp, d))
					}
					var stop atomic.Bool
					var burning sync.WaitGroup
					for i, w := range all {
						for shard := range w.shards {
							burning.Go(func() { w.burn(shard, w.shards[shard].after(w.shards[shard].published()), uint64(i), &stop) })
						}
					}
					for _, w := range all { // all burn
						for _, s := range w.shards {
							await(t, "the publishers to begin", func() bool { return s.published() > firePrompts*fireStays })
						}
					}
					var tally fireTally
					rng := rand.New(rand.NewPCG(7, 8))
					more := func(burnt time.Duration) bool {
						switch {
						case burnt < max(fireTime, long), tally.hints < fireHints && burnt < fireMost:
							return true
						}
						return (tally.hints == 0 || fetcher.Report().Blocks == 0) && burnt < 20*time.Second
					}
					for n, from := 0, time.Now(); more(time.Since(from)); n++ {
						judgeFire(t, all, fetcher, rng.IntN(3), rng.IntN(firePrompts), n, &tally)
					}
					stop.Store(true)
					burning.Wait()
					r := fetcher.Report()
					t.Logf("%d hints, %d of them over several sequences, %d without, %d missed, %d unsure; fetched %d blocks, %.1f MB, %d fetches refused a block that had gone meanwhile",
						tally.hints, tally.spanning, tally.none, tally.missed, tally.unsure, r.Blocks, float64(r.Bytes)/1e6, r.Failed)
					if tally.hints == 0 || r.Blocks == 0 || r.Unread != 0 || tally.missed > 5+(tally.hints+tally.none)/50 {
						t.Errorf("%+v, %+v", tally, r)
					}
					quietFire(t, all, network.Target(tp))
				})
			}
		}
	}
}

func newFireWorker(t *testing.T, e *Engine, network *pair.Network, i, tp int, d dialect) *fireWorker {
	t.Helper()
	control := "tcp://10.0.0." + strconv.Itoa(i+1) + ":23280"
	w := &fireWorker{}
	w.worker = addWorker(t, e, strconv.Itoa(i+1), "127.0.0.1", tp, d, func(s *Source) {
		s.Protocol = d.protocol
		s.Hint = &HintConfig{WorkerType: "aggregated", Endpoint: control, Carrier: d.carrier.String()}
	})
	var err error
	if w.library, err = network.Add("127.0.0.1", control, tp); err != nil {
		t.Fatal(err)
	}
	for shard, p := range w.worker.shards {
		w.shards = append(w.shards, &fireShard{pub: p})
		var now masks
		for p := range firePrompts {
			for range fireStays {
				w.step(shard, p, &now, true)
			}
		}
	}
	w.settle(t)
	return w
}

// judgeFire asks for one hint, judges it, and carries it out.
func judgeFire(t *testing.T, all []*fireWorker, fetcher *pair.Target, target, p, n int, tally *fireTally) {
	t.Helper()
	q := &Query{Model: "m", Tokens: firePrompt(p)}
	var spans []fireSpan
	for _, w := range all {
		spans = append(spans, w.around())
	}
	var h HintAnswer
	id := "req-" + strconv.Itoa(n)
	if err := all[0].engine.Hint(q, Target{Source: all[target].id, MessageID: id}, &h); err != nil {
		t.Fatal(err)
	}
	for i, w := range all {
		w.seal(&spans[i])
	}
	own := h.ThresholdTokens / blockTokens
	if set, _ := all[target].depths(p, named(h.TargetStreams)); set>>own&1 == 0 {
		t.Errorf("threshold %d within %+v, where the target held %b", own, named(h.TargetStreams), set)
	}
	switch h.Reason {
	case hint.Hinted:
		best, _ := strconv.Atoi(h.Best.Source)
		w := all[best-1]
		set, _ := w.depths(p, named(h.Streams))
		most := bits.Len32(set) - 1
		if w == all[target] || h.Best.Domain != hint.CacheOwner || len(h.Names) <= own || len(h.Names) > most {
			t.Errorf("false: %d names of %s over %d; within %+v it held %b", len(h.Names), h.Best.Source, own, named(h.Streams), set)
		}
		for i, name := range h.Names {
			if name != fireName(p, i) {
				t.Errorf("false: names[%d] is %d", i, name)
			}
		}
		tally.hints++
		if s := named(h.Streams); s.from[0] != s.to[0] {
			tally.spanning++
		}
		before := fetcher.Report()
		got := fetcher.Fetch(patience(t), h.AppendRequest(nil, hint.Numbers), fireNames(p), len(q.Tokens), own)
		if after := fetcher.Report(); after.Hints != before.Hints+1 || got > len(h.Names)-own {
			t.Errorf("%d blocks came of %d names over %d; the target did %+v", got, len(h.Names), own, after)
		}
	case hint.NoLongerSource:
		tally.none++
		// Due, if somebody else held more all the time than the target is said to.
		for i, w := range all {
			if i == target {
				continue
			}
			if spans[i].to[0]-spans[i].from[0] > 4096 {
				tally.unsure++
			} else if _, least := w.depths(p, spans[i]); least > own {
				tally.missed++
				break
			}
		}
	default:
		t.Errorf("%s", outcome(&h))
	}
}

func fireNames(p int) (all []uint64) {
	for i := range fireBlocks {
		all = append(all, fireName(p, i))
	}
	return all
}

// quietFire asks again when all is applied: every hint that is due is given,
// names all that is held, and is served in full.
func quietFire(t *testing.T, all []*fireWorker, fetcher *pair.Target) {
	t.Helper()
	for _, w := range all {
		w.settle(t)
	}
	held := func(w *fireWorker, p int) int {
		s := w.around()
		w.seal(&s)
		_, least := w.depths(p, s)
		return least
	}
	wanted, hints := 0, 0
	for target, w := range all {
		for p := range firePrompts {
			own, longest := held(w, p), 0
			for i, o := range all {
				if i != target {
					longest = max(longest, held(o, p))
				}
			}
			q := &Query{Model: "m", Tokens: firePrompt(p)}
			var h HintAnswer
			if err := w.engine.Hint(q, Target{Source: w.id, MessageID: "m"}, &h); err != nil {
				t.Fatal(err)
			}
			if due := longest > own; due != (h.Reason == hint.Hinted) || due && len(h.Names) != longest || h.Threshold*h.Best.BlockSize != own*h.Best.BlockSize {
				t.Errorf("quiet: target %s, prompt %d: %s with %d names over %d; held are %d over %d", w.id, p, outcome(&h), len(h.Names), h.Threshold, longest, own)
			}
			if h.Reason == hint.Hinted {
				hints++
				wanted += longest - own
				fetcher.Fetch(patience(t), h.AppendRequest(nil, hint.Numbers), fireNames(p), len(q.Tokens), own)
			}
		}
	}
	if r := fetcher.Report(); r.Failed != 0 || r.Blocks != wanted || r.Hints != hints {
		t.Errorf("quiet: the target did %+v; want %d hints, %d blocks, none failed", r, hints, wanted)
	}
}
