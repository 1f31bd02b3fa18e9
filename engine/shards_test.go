package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/perf/pair"
)

// most is how many blocks of the chain an answer may show of the source's owner.
// It only counts while it stands at both ends of a question.
type most struct {
	at    atomic.Int64 // times << 8 | blocks
	asked atomic.Int64
}

// next sets the limit.
func (m *most) next(blocks int64) { m.at.Store((m.at.Load()>>8+1)<<8 | blocks) }

// set sets the limit and has it tried.
func (m *most) set(t testing.TB, blocks int64) {
	t.Helper()
	m.next(blocks)
	was := m.asked.Load()
	await(t, "questions under the limit", func() bool { return t.Failed() || m.asked.Load() > was+20 })
}

// watch asks for matches and hints without a pause until stopped: none may show
// or name a block that one of the shards lacks.
func (s *stage) watch(t *testing.T, m *most) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	t.Cleanup(func() { cancel(); asking.Wait() })
	for range 2 {
		asking.Go(func() {
			var a Answer
			var h HintAnswer
			q := prompt()
			for ctx.Err() == nil {
				limit := m.at.Load()
				if err := s.engine.Match(q, &a); err != nil {
					t.Error(err)
					return
				}
				if err := s.engine.Hint(q, Target{Source: "2"}, &h); err != nil {
					t.Error(err)
					return
				}
				if m.at.Load() != limit {
					continue
				}
				m.asked.Add(1)
				for _, o := range a.Holders {
					if got := int64(o.Tokens.Any / blockTokens); o.Source == "1" && o.Domain == hint.CacheOwner && o.Freshness.State == Exact && got > limit&0xff {
						t.Errorf("a depth of %d where a shard has %d at most: %+v", got, limit&0xff, o.Freshness)
						return
					}
				}
				if got := int64(len(h.Names)); h.Reason == hint.Hinted && got > limit&0xff {
					t.Errorf("a hint of %d names where a shard has %d at most", got, limit&0xff)
					return
				}
			}
		})
	}
	return func() { cancel(); asking.Wait() }
}

// down ends a shard's publisher and waits until that is known.
func (s *stage) down(t *testing.T, shard int) {
	t.Helper()
	if err := s.source.shards[shard].pub.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the link to be down", func() bool {
		return freshnessOf(t, s.engine, "1", 0, hint.CacheOwner).State == Disconnected
	})
}

// again brings up a publisher in a shard's place.
func (p *publisher) again(t *testing.T) {
	t.Helper()
	pub, err := zmtp.Listen(t.Context(), p.pub.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pub.Close() })
	if err := pub.WaitSubscribers(patience(t), 1); err != nil {
		t.Fatal(err)
	}
	p.pub = pub
}

// deep waits for the owner's depth, in blocks, to be known as exact.
func (s *stage) deep(t *testing.T, blocks int) {
	t.Helper()
	await(t, fmt.Sprint("a depth of ", blocks), func() bool {
		return freshnessOf(t, s.engine, "1", 0, hint.CacheOwner).State == Exact &&
			depthsOf(t, s.engine, prompt(), "1", 0, hint.CacheOwner).Host == blocks*blockTokens
	})
	want := fmt.Sprint("1/0 cache_owner depth ", blocks)
	if blocks == 0 {
		want = "no_longer_source"
	}
	if got := outcome(s.hint(t)); got != want {
		t.Errorf("hint: %s, want %s", got, want)
	}
}

// TestShardStreams holds §9.1 of the specification of residency: with a stream
// per TP shard no query ever sees a block that one shard lacks, whatever becomes
// of one of them; with one stream for all it means what it says.
func TestShardStreams(t *testing.T) {
	for _, ix := range indexes {
		for _, shard := range []int{0, 1} {
			at := fmt.Sprintf("/%s/shard %d", ix.name, shard)
			begin := func(t *testing.T) (*stage, *most) {
				s := newStage(t, "9.1", 2, ix.make, dialects[shard])
				s.evictFramework(t)
				s.deep(t, 4)
				m := new(most)
				m.at.Store(4)
				t.Cleanup(s.watch(t, m))
				return s, m
			}
			t.Run("9.1 streams at different sequences"+at, func(t *testing.T) {
				s, m := begin(t)
				ahead, behind := s.source.shards[shard], s.source.shards[1-shard]
				for range 50 {
					ahead.send(remove("CPU", "kvcr", chainNames[3]))
					ahead.send(chainFrom(3, 4, "CPU", "kvcr"))
				}
				s.source.settle(t)
				s.deep(t, 4)
				s.library.Evict(1-shard, chainNames[2])
				behind.send(remove("CPU", "kvcr", chainNames[2]))
				s.source.settle(t)
				m.set(t, 2)
				s.deep(t, 2)
				h := s.hint(t)
				if got := int64(h.Streams[shard].Seq) - int64(h.Streams[1-shard].Seq); len(h.Streams) != 2 || got != 99 {
					t.Errorf("the answer names %+v; want one shard 99 batches ahead", h.Streams)
				}
				if r := s.fetcher.Report(); r.Failed != 0 {
					t.Errorf("the target did %+v", r)
				}
			})
			t.Run("9.1 one stream lost"+at, func(t *testing.T) {
				s, m := begin(t)
				s.down(t, shard)
				m.set(t, 0)
				if got := outcome(s.hint(t)); got != "no_longer_source" {
					t.Errorf("with one stream: %s", got)
				}
				// The other one goes on; then the lost one comes back where it was.
				s.library.Evict(1-shard, chainNames[2:]...)
				s.source.shards[1-shard].send(remove("CPU", "kvcr", chainNames[2:]...))
				s.source.settle(t)
				m.next(2)
				lost := s.source.shards[shard]
				lost.again(t)
				s.library.Evict(shard, chainNames[1])
				lost.send(remove("CPU", "kvcr", chainNames[1]))
				s.source.settle(t)
				s.deep(t, 1)
				m.set(t, 1)
			})
			t.Run("9.1 one shard restarted"+at, func(t *testing.T) {
				s, m := begin(t)
				s.down(t, shard)
				s.library.Evict(shard, chainNames...)
				m.set(t, 0)
				p := s.source.shards[shard]
				p.next = 0
				p.again(t)
				m.set(t, 0)
				p.send(event{clear: true})
				await(t, "the new process to be followed", func() bool {
					f := freshnessOf(t, s.engine, "1", 0, hint.CacheOwner)
					return f.State == Exact && f.Streams[shard].Incarnation[0] == 1
				})
				s.deep(t, 0)
				m.set(t, 0)
				s.library.Store(shard, chainNames[:2]...)
				m.next(2)
				p.send(chainFrom(0, 2, "CPU", "kvcr"))
				s.deep(t, 2)
				m.set(t, 2)
				s.library.Store(shard, chainNames[2:]...)
				m.next(4)
				p.send(chainFrom(2, 4, "CPU", "kvcr"))
				s.deep(t, 4)
				if r := s.fetcher.Report(); r.Failed != 0 {
					t.Errorf("the target did %+v", r)
				}
			})
		}
		t.Run("9.1 aggregated, as upstream/"+ix.name, func(t *testing.T) {
			// One stream speaks for both shards; a hint leads to both.
			e := openEngine(t, Options{NewIndex: ix.make})
			network := pair.NewNetwork(pair.Default)
			t.Cleanup(network.Close)
			const control = "tcp://10.0.0.1:23280"
			library, err := network.Add("127.0.0.1", control, 2)
			if err != nil {
				t.Fatal(err)
			}
			fetcher := network.Target(2)
			aggregated := func(s *Source) {
				s.Protocol = HiCacheV1
				s.Hint = &HintConfig{WorkerType: "aggregated", Endpoint: control, TP: 2}
			}
			source := addWorker(t, e, "1", "127.0.0.1", 1, dialects[0], aggregated)
			addWorker(t, e, "2", "127.0.0.1", 1, dialects[0], aggregated).say(t, event{clear: true})
			library.Store(-1, chainNames...)
			source.say(t, store(4, "CPU", "kvcr"))
			fetch := func(want string) {
				t.Helper()
				var h HintAnswer
				if err := e.Hint(prompt(), Target{Source: "2"}, &h); err != nil || outcome(&h) != want {
					t.Fatalf("%s, %v; want %s", outcome(&h), err, want)
				}
				if len(h.Streams) > 1 {
					t.Errorf("the answer names %+v, want one stream", h.Streams)
				}
				fetcher.Fetch(patience(t), h.AppendRequest(nil, hint.Numbers), chainNames, promptTokens, 0)
			}
			fetch("1/0 cache_owner depth 4")
			if r := fetcher.Report(); r.Fetches != 2 || r.Tokens != 192 || r.Bytes != 22_020_096 || r.Failed != 0 {
				t.Errorf("the target did %+v", r)
			}
			// "Present" is the engine's word: it says so when the first shard evicts.
			library.Evict(1, chainNames[1:]...)
			source.say(t, remove("CPU", "kvcr", chainNames[1:]...))
			fetch("1/0 cache_owner depth 1")
			if r := fetcher.Report(); r.Fetches != 4 || r.Tokens != 256 || r.Failed != 0 {
				t.Errorf("the target did %+v", r)
			}
		})
	}
}

// TestShardsOfASlot: what becomes of one shard's stream becomes of the slot.
func TestShardsOfASlot(t *testing.T) {
	for _, protocol := range []residency.Protocol{residency.HiCacheV1, residency.VLLMResidencyV1} {
		begin := func(t *testing.T) (g, other *guest) {
			r := newOwnerRig(t, 4, Options{})
			g = r.guest(17, owner(1), protocol, 2, dialects[1]).register()
			other = r.guest(18, owner(2), protocol, 2, dialects[1]).register()
			g.say(everywhere(4)...)
			if got := other.hint(); got != string(g.intent.Owner)+"/0 cache_owner depth 4" {
				t.Fatal(got)
			}
			return g, other
		}
		t.Run("9.1 one stream lost, "+protocol.String(), func(t *testing.T) {
			g, other := begin(t)
			if err := g.shards[1].pub.Close(); err != nil {
				t.Fatal(err)
			}
			await(t, "the slot to be unreachable", func() bool {
				rt := g.rig.route(g.intent.Owner)
				return rt.Outcome == residency.EndpointUnreachable && !rt.Schedulable
			})
			if got := other.hint(); got != "no_longer_source" {
				t.Errorf("with one stream: %s", got)
			}
			g.shards[1].again(t)
			g.shards[0].send(remove("CPU", "kvcr", chainNames[3]))
			g.shards[1].send(remove("CPU", "kvcr", chainNames[2]))
			g.joined()
			await(t, "what both hold", func() bool { return other.hint() == string(g.intent.Owner)+"/0 cache_owner depth 2" })
		})
		t.Run("9.1 one shard restarted, "+protocol.String(), func(t *testing.T) {
			g, other := begin(t)
			p := g.shards[1]
			if err := p.pub.Close(); err != nil {
				t.Fatal(err)
			}
			p.next = 0
			p.again(t)
			p.send(chainFrom(0, 1, "CPU", "kvcr"))
			await(t, "the restart to count", func() bool {
				state, depth := g.rig.route(g.intent.Owner).State, g.pool().Host
				return protocol.EngineLocal() && state == residency.Fenced && depth == 0 || !protocol.EngineLocal() && depth == blockTokens
			})
			if got := other.hint(); got != "no_longer_source" { // degraded is not offered
				t.Errorf("a hint of a slot of which a shard has restarted: %s", got)
			}
		})
	}
}
