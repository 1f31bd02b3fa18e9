package engine

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/tree"
)

// The acceptance scenarios: a source worker 1 and a target worker 2, each with
// a cache owner. Only the target is pinned; the source is never forced.
//
//	F  the framework keeps its blocks, the cache library evicts its own
//	K  the cache library keeps, the framework evicts

const hintPort = 23280

// pair is a fake pair of cache libraries: it does with a hint what the real
// ones do, and counts. What a shard of the source holds is told by the test.
type pair struct {
	tp   int
	pool []map[uint64]bool // per shard of the source

	fetches, blocks, spans []int // per shard
	bytes, tokens, failed  int
}

const (
	bytesPerBlock = 28 * 8 * 128 * 2 * 2 * blockTokens // layers, heads, size, K and V, bf16
	promptTokens  = 256
)

func newPair(tp int) *pair {
	p := &pair{tp: tp, fetches: make([]int, tp), blocks: make([]int, tp), spans: make([]int, tp)}
	for range tp {
		p.pool = append(p.pool, map[uint64]bool{})
	}
	return p
}

// stored and removed follow what the source's library says on a shard.
func (p *pair) stored(names ...uint64) {
	for s := range p.pool {
		for _, n := range names {
			p.pool[s][n] = true
		}
	}
}

func (p *pair) removed(shard int, names ...uint64) {
	for _, n := range names {
		delete(p.pool[shard], n)
	}
}

// act is the target's part: every TP rank dials the endpoint's port plus its
// own rank, the same-index peer, and fetches what may be restored. The engine
// must compute at least the last token, so the last block is not.
func (p *pair) act(t *testing.T, message []byte, host string) {
	if len(message) == 0 {
		return
	}
	m, err := hint.Parse(message)
	if err != nil {
		t.Fatal(err)
	}
	f := m.FirstFetch()
	wanted := map[uint64]bool{} // a set: order carries no offset
	for _, n := range f.Names {
		wanted[n] = true
	}
	usable := (promptTokens - 1) / blockTokens
	restored := -1
	for shard := range p.tp {
		dial, err := hint.RankEndpoint(f.Endpoint, shard, 1)
		if err != nil || dial != "tcp://"+host+":"+strconv.Itoa(hintPort+shard) {
			t.Fatalf("shard %d dials %q: %v", shard, dial, err)
		}
		p.fetches[shard]++
		n := 0
		for _, name := range chainNames[:usable] {
			if !wanted[name] {
				break
			}
			if !p.pool[shard][name] {
				p.failed++
				break
			}
			n++
		}
		p.blocks[shard] += n
		p.spans[shard] += 2 * n
		p.bytes += n * bytesPerBlock / p.tp
		if restored < 0 || n < restored {
			restored = n
		}
	}
	p.tokens += restored * blockTokens
}

// stage is one scenario on its way.
type stage struct {
	engine         *Engine
	host           string
	source, target *worker
	pair           *pair
}

// newStage attaches both workers and lets the source store all four blocks on
// the device, in the framework's host copies, and in the library's pool.
func newStage(t *testing.T, name string, tp int, index func() tree.Interface, d dialect) *stage {
	t.Helper()
	s := &stage{engine: openEngine(t, Options{NewIndex: index}), host: ownAddress(t), pair: newPair(tp)}
	add := func(id string) *worker {
		w := addWorker(t, s.engine, id, s.host, tp, d, func(src *Source) {
			src.Topic = name + "-" + id
			src.Protocol = d.protocol
			src.Hint = &HintConfig{WorkerType: "aggregated", Endpoint: "tcp://" + s.host + ":" + strconv.Itoa(hintPort)}
		})
		w.say(t, event{clear: true}) // the barrier
		return w
	}
	s.source, s.target = add("1"), add("2")
	s.source.say(t, store(4, "GPU", ""), store(4, "CPU_PINNED", ""), store(4, "CPU", "kvcr"))
	s.pair.stored(chainNames...)
	return s
}

// hint routes the request to the target.
func (s *stage) hint(t *testing.T) *HintAnswer {
	t.Helper()
	h := &HintAnswer{}
	if err := s.engine.Hint(prompt(), Target{Source: "2", MessageID: "sel-7"}, h); err != nil {
		t.Fatal(err)
	}
	s.pair.act(t, h.JSON, s.host)
	return h
}

// K's hint but for host and id, as the specification has it.
func messageK(host, id string) string {
	return `{"protocol_version":"0.1","message_id":"` + id + `","actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":{"source_control_endpoint":"tcp://` + host +
		`:23280","block_hashes":[905019192701563378,16844206292767112481,7182366256570268908,9390733088869768009]}}]}`
}

func TestAcceptance(t *testing.T) {
	type figures struct {
		Device, Host, OwnerHost int // tokens
		Overlap                 string
		Hint                    string
		Fetches, Blocks, Spans  []int
		Tokens, Bytes, Failed   int
	}
	each := func(tp, n int) []int {
		v := make([]int, tp)
		for i := range v {
			v[i] = n
		}
		return v
	}
	cases := []struct {
		id    string
		tp    int
		index int
		keep  string // who keeps its blocks
	}{
		{"H1", 1, 0, "F"}, {"H2", 1, 1, "F"}, {"H3", 2, 0, "F"}, {"H4", 2, 1, "F"},
		{"H5", 1, 0, "K"}, {"H6", 1, 1, "K"}, {"H7", 2, 0, "K"}, {"H8", 2, 1, "K"},
	}
	topics, streams := map[string]bool{}, 0
	for _, tc := range cases {
		for di, d := range dialects {
			if indexes[tc.index].name == "reference" && di > 0 {
				continue
			}
			t.Run(tc.id+"/"+d.name, func(t *testing.T) {
				s := newStage(t, tc.id+"-"+d.name, tc.tp, indexes[tc.index].make, d)
				if di == 0 {
					for _, w := range []*worker{s.source, s.target} {
						topics[w.shards[0].topic] = true
						streams += len(w.shards)
					}
				}
				want := figures{Device: 256, Host: 256, Overlap: "device 4", Hint: "ineligible{state_agent}",
					Fetches: each(tc.tp, 0), Blocks: each(tc.tp, 0), Spans: each(tc.tp, 0)}
				if tc.keep == "F" {
					s.source.say(t, remove("CPU", "kvcr", chainNames...))
					for shard := range tc.tp {
						s.pair.removed(shard, chainNames...)
					}
				} else {
					s.source.say(t, remove("GPU", "", chainNames...), remove("CPU_PINNED", "", chainNames...))
					want = figures{OwnerHost: 256, Overlap: "host 4 by projection", Hint: "1/0 cache_owner depth 4",
						Fetches: each(tc.tp, 1), Blocks: each(tc.tp, 3), Spans: each(tc.tp, 6), Tokens: 192, Bytes: 22020096}
				}

				work := depthsOf(t, s.engine, prompt(), "1", 0, hint.Worker)
				own := depthsOf(t, s.engine, prompt(), "1", 0, hint.CacheOwner)
				h := s.hint(t)
				got := figures{Device: work.Device, Host: work.Host, OwnerHost: own.Host, Overlap: overlap(t, s.engine, "1"),
					Hint: outcome(h), Fetches: s.pair.fetches, Blocks: s.pair.blocks, Spans: s.pair.spans,
					Tokens: s.pair.tokens, Bytes: s.pair.bytes, Failed: s.pair.failed}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("want -, got +:\n%s", diff)
				}
				if tc.keep == "K" && string(h.JSON) != messageK(s.host, "sel-7") {
					t.Errorf("the message\n got %s\nwant %s", h.JSON, messageK(s.host, "sel-7"))
				}
				noFailures(t, s.engine)
			})
		}
	}
	if !t.Failed() && (len(topics) != 16 || streams != 24) {
		t.Errorf("%d distinct topics and %d streams, want 16 and 24", len(topics), streams)
	}
}

// overlap is what a scheduler credits a worker with: its own blocks, and those
// of the owner that is attached to it.
func overlap(t *testing.T, e *Engine, worker string) string {
	t.Helper()
	var a Answer
	if err := e.Match(prompt(), &a); err != nil {
		t.Fatal(err)
	}
	attached := map[string]string{}
	for _, o := range e.Owners() {
		if o.Domain == hint.CacheOwner {
			attached[o.Source] = o.AttachedTo
		}
	}
	best := "none"
	for _, h := range a.Holders {
		switch {
		case h.Domain == hint.Worker && h.Source == worker && h.Tokens.Device > 0:
			return fmt.Sprintf("device %d", h.Tokens.Device/h.BlockSize)
		case h.Domain == hint.CacheOwner && attached[h.Source] == worker:
			best = fmt.Sprintf("host %d by projection", h.Tokens.Host/h.BlockSize)
		}
	}
	return best
}

// noFailures fails the test if any stream dropped, skipped, rejected or lost
// anything.
func noFailures(t *testing.T, e *Engine) {
	t.Helper()
	fine := map[string]bool{"messages": true, "bytes": true, "batches": true, "events": true, "blocks": true, "clears": true,
		"connects": true, "index_batches": true, "index_records": true, "index_blocks": true, "ring_stalls": true}
	for _, s := range e.Sources() {
		for _, st := range s.Streams {
			for _, c := range st.Counters {
				if c.Value != 0 && (!fine[c.Name] || c.Reason == "waiting" || c.Reason == "unknown" || c.Reason == "dropped") {
					t.Errorf("source %s shard %d counted %s{%s} %d", s.ID, st.TPShard, c.Name, c.Reason, c.Value)
				}
			}
		}
	}
}

func TestAcceptanceVariants(t *testing.T) {
	for _, ix := range indexes {
		for _, d := range dialects {
			at := ix.name + "/" + d.name
			framework := func() []event {
				return []event{remove("GPU", "", chainNames...), remove("CPU_PINNED", "", chainNames...)}
			}
			t.Run("H9/"+at, func(t *testing.T) {
				s := newStage(t, "H9", 2, ix.make, d)
				s.source.say(t, framework()...)
				s.source.shards[1].send(remove("CPU", "kvcr", chainNames[2]))
				s.pair.removed(1, chainNames[2])
				s.source.settle(t)
				h := s.hint(t)
				if got := outcome(h); got != "1/0 cache_owner depth 2" || len(h.Names) != 2 {
					t.Errorf("%s, %d names", got, len(h.Names))
				}
				if s.pair.tokens != 128 || s.pair.failed != 0 {
					t.Errorf("%d tokens restored, %d failed; want 128, 0", s.pair.tokens, s.pair.failed)
				}
			})
			t.Run("H10/"+at, func(t *testing.T) {
				s := newStage(t, "H10", 2, ix.make, d)
				s.source.shards[1].send(remove("CPU", "kvcr", chainNames...))
				s.pair.removed(1, chainNames...)
				s.source.settle(t)
				if own := depthsOf(t, s.engine, prompt(), "1", 0, hint.CacheOwner); own != (Depths{}) {
					t.Errorf("the owner's depth is %+v", own)
				}
				if h := s.hint(t); outcome(h) != "ineligible{state_agent}" || len(h.JSON) != 0 {
					t.Errorf("%s", outcome(h))
				}
			})
			t.Run("H11/"+at, func(t *testing.T) {
				s := newStage(t, "H11", 2, ix.make, d)
				s.source.say(t, framework()...)
				s.source.shards[1].next++ // lost on its way
				s.source.shards[1].send(remove("CPU", "kvcr", chainNames[3]))
				await(t, "the gap to be seen", func() bool {
					return freshnessOf(t, s.engine, "1", 0, hint.CacheOwner).State == Fenced
				})
				if own := depthsOf(t, s.engine, prompt(), "1", 0, hint.CacheOwner); own != (Depths{}) {
					t.Errorf("the owner's depth is %+v", own)
				}
				if h := s.hint(t); outcome(h) != "no_longer_source" {
					t.Errorf("%s", outcome(h))
				}
			})
			t.Run("H13/"+at, func(t *testing.T) { evictInReverse(t, newStage(t, "H13", 1, ix.make, d), framework()) })
		}
	}
}

// evictInReverse evicts leaf first while others ask: each answer must equal
// the truth at some sequence of the interval that it names.
func evictInReverse(t *testing.T, s *stage, framework []event) {
	s.source.say(t, framework...)
	first := s.source.shards[0].next // the sequence of the first eviction
	truth := func(seq uint64) int {  // blocks that the owner holds after a sequence
		if seq < first {
			return 4
		}
		return max(0, 4-int(seq-first)-1)
	}
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			var a Answer
			q := prompt()
			for {
				if err := s.engine.Match(q, &a); err != nil {
					t.Error(err)
					return
				}
				for _, h := range a.Holders {
					if h.Domain != hint.CacheOwner {
						continue
					}
					in := h.Freshness.Applied
					if got := h.Tokens.Host / blockTokens; got > truth(in[0]) || got < truth(in[1]) {
						t.Errorf("depth %d between sequences %d and %d, where the truth is %d … %d", got, in[0], in[1], truth(in[1]), truth(in[0]))
						return
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for want := 3; want >= 0; want-- {
		s.source.say(t, remove("CPU", "kvcr", chainNames[want]))
		if got := depthsOf(t, s.engine, prompt(), "1", 0, hint.CacheOwner).Host / blockTokens; got != want {
			t.Errorf("depth %d, want %d", got, want)
		}
		h := s.hint(t)
		if len(h.Names) != want {
			t.Errorf("a hint of %d names, want %d", len(h.Names), want)
		}
	}
	close(stop)
	asking.Wait()
}
