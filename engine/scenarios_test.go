package engine

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/perf/pair"
	"github.com/cairn-kv/cairn/tree"
)

// The acceptance scenarios: a source worker 1 and a target worker 2, each with
// a cache owner. Only the target is pinned; the source is never forced.
//
//	F  the framework keeps its blocks, the cache library evicts its own
//	K  the cache library keeps, the framework evicts

const hintPort = 23280

const promptTokens = 256

// stage is one scenario on its way: the engine, two workers, and the fake pair
// of cache libraries that does with a hint what the real ones do.
type stage struct {
	engine         *Engine
	host           string
	dialect        dialect
	source, target *worker
	library        *pair.Library // the source's
	fetcher        *pair.Target
	sent           string     // the request that carried the last hint
	archives       []*archive // of the source's shards, if it keeps any
}

// newStage attaches both workers and lets the source store all four blocks on
// the device, in the framework's host copies, and in the library's pool.
func newStage(t *testing.T, name string, tp int, index func() tree.Interface, d dialect) *stage {
	t.Helper()
	return newStageOf(t, name, tp, index, d, nil)
}

// newStageOf is newStage with replay endpoints behind the source's shards.
func newStageOf(t *testing.T, name string, tp int, index func() tree.Interface, d dialect, archives []*archive) *stage {
	t.Helper()
	s := &stage{engine: openEngine(t, Options{NewIndex: index, Repair: RepairOptions{ProbeAfter: -1}}), host: ownAddress(t), dialect: d, archives: archives}
	network := pair.NewNetwork(pair.Default)
	t.Cleanup(network.Close)
	control := "tcp://" + s.host + ":" + strconv.Itoa(hintPort)
	var err error
	if s.library, err = network.Add(s.host, control, tp); err != nil {
		t.Fatal(err)
	}
	s.fetcher = network.Target(tp)
	add := func(id string) *worker {
		w := addWorker(t, s.engine, id, s.host, tp, d, func(src *Source) {
			src.Topic = name + "-" + id
			src.Protocol = d.protocol
			src.Hint = &HintConfig{WorkerType: "aggregated", Endpoint: control, Carrier: d.carrier.String()}
			for i := range archives {
				if id != "1" {
					break
				}
				if tp == 1 {
					src.Replay = archives[i].Addr()
				} else {
					src.ShardReplays = append(src.ShardReplays, archives[i].Addr())
				}
			}
		})
		for i := range archives {
			if id == "1" {
				w.shards[i].keep = archives[i].keep
			}
		}
		w.say(t, event{clear: true}) // the barrier
		return w
	}
	s.source, s.target = add("1"), add("2")
	s.store(t)
	return s
}

// store lets the source store the chain everywhere.
func (s *stage) store(t *testing.T) {
	t.Helper()
	s.source.say(t, store(4, "GPU", ""), store(4, "CPU_PINNED", ""), store(4, "CPU", "kvcr"))
	s.library.Store(-1, chainNames...)
}

// evictFramework lets the framework evict all of its blocks.
func (s *stage) evictFramework(t *testing.T) {
	t.Helper()
	s.source.say(t, remove("GPU", "", chainNames...), remove("CPU_PINNED", "", chainNames...))
}

// hint routes the request to the target, whose library does what it carries.
func (s *stage) hint(t *testing.T) *HintAnswer {
	t.Helper()
	h := &HintAnswer{}
	if err := s.engine.Hint(prompt(), Target{Source: "2", MessageID: "sel-7"}, h); err != nil {
		t.Fatal(err)
	}
	request := h.AppendRequest(nil, hint.Numbers)
	if s.sent = string(request); s.sent == "" {
		request = []byte(`{"model":"m"}`)
	}
	s.fetcher.Fetch(patience(t), request, chainNames, promptTokens, 0)
	return h
}

// K's hint but for host and id, as the specification has it.
func messageK(host, id string) string {
	return `{"protocol_version":"0.1","message_id":"` + id + `","actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":{"source_control_endpoint":"tcp://` + host +
		`:23280","block_hashes":[905019192701563378,16844206292767112481,7182366256570268908,9390733088869768009]}}]}`
}

// requestK is the request that carries it, in the carrier that a dialect's
// workers declare.
func requestK(d dialect, message string) string {
	return map[hint.Carrier]string{
		hint.EngineArgument: `{"kv_hints":` + message + `}`,
		hint.TransferParams: `{"extra_args":{"kv_transfer_params":{"kv_hint":` + message + `}}}`,
	}[d.carrier]
}

func TestAcceptance(t *testing.T) {
	type figures struct {
		Device, Host, OwnerHost int // tokens
		Overlap                 string
		Hint                    string
		Seen                    []pair.Counts // per shard
		Restored                pair.Report
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
			t.Run(tc.id+"/"+d.name, func(t *testing.T) {
				s := newStage(t, tc.id+"-"+d.name, tc.tp, indexes[tc.index].make, d)
				if di == 0 {
					for _, w := range []*worker{s.source, s.target} {
						topics[w.shards[0].topic] = true
						streams += len(w.shards)
					}
				}
				want := figures{Device: 256, Host: 256, Overlap: "device 4", Hint: "ineligible{state_agent}",
					Seen: make([]pair.Counts, tc.tp), Restored: pair.Report{None: 1}}
				if tc.keep == "F" {
					s.source.say(t, remove("CPU", "kvcr", chainNames...))
					s.library.Evict(-1, chainNames...)
				} else {
					s.evictFramework(t)
					want = figures{OwnerHost: 256, Overlap: "host 4 by projection", Hint: "1/0 cache_owner depth 4",
						Restored: pair.Report{Hints: 1, Fetches: tc.tp, Blocks: 3, Tokens: 192, Bytes: 22_020_096}}
					for range tc.tp {
						want.Seen = append(want.Seen, pair.Counts{Fetches: 1, Blocks: 3, Spans: 6, Bytes: 22_020_096 / tc.tp})
					}
				}

				work := depthsOf(t, s.engine, prompt(), "1", 0, hint.Worker)
				own := depthsOf(t, s.engine, prompt(), "1", 0, hint.CacheOwner)
				h := s.hint(t)
				got := figures{Device: work.Device, Host: work.Host, OwnerHost: own.Host, Overlap: overlap(t, s.engine, "1"),
					Hint: outcome(h), Seen: s.library.Counts(), Restored: s.fetcher.Report()}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("want -, got +:\n%s", diff)
				}
				if tc.keep == "K" {
					if m := messageK(s.host, "sel-7"); string(h.JSON) != m || s.sent != requestK(d, m) {
						t.Errorf("the message\n got %s\n  in %s\nwant %s", h.JSON, s.sent, m)
					}
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
			t.Run("H9/"+at, func(t *testing.T) {
				s := newStage(t, "H9", 2, ix.make, d)
				s.evictFramework(t)
				s.source.shards[1].send(remove("CPU", "kvcr", chainNames[2]))
				s.library.Evict(1, chainNames[2])
				s.source.settle(t)
				h := s.hint(t)
				if got := outcome(h); got != "1/0 cache_owner depth 2" || len(h.Names) != 2 {
					t.Errorf("%s, %d names", got, len(h.Names))
				}
				if r := s.fetcher.Report(); r.Tokens != 128 || r.Failed != 0 {
					t.Errorf("%+v; want 128 tokens, none failed", r)
				}
			})
			t.Run("H10/"+at, func(t *testing.T) {
				s := newStage(t, "H10", 2, ix.make, d)
				s.source.shards[1].send(remove("CPU", "kvcr", chainNames...))
				s.library.Evict(1, chainNames...)
				s.source.settle(t)
				s.noOwner(t)
				if h := s.hint(t); outcome(h) != "ineligible{state_agent}" || len(h.JSON) != 0 {
					t.Errorf("%s", outcome(h))
				}
				s.nothingFetched(t)
			})
			for tp := 1; tp <= 2; tp++ {
				at := at + "/TP " + strconv.Itoa(tp)
				t.Run("H11/"+at, func(t *testing.T) {
					s := newStage(t, "H11", tp, ix.make, d)
					s.evictFramework(t)
					s.source.shards[tp-1].next++ // lost on its way
					s.source.shards[tp-1].send(remove("CPU", "kvcr", chainNames[3]))
					await(t, "the gap to be seen", func() bool {
						return freshnessOf(t, s.engine, "1", 0, hint.CacheOwner).State == Fenced
					})
					s.noOwner(t)
					if h := s.hint(t); outcome(h) != "no_longer_source" {
						t.Errorf("%s", outcome(h))
					}
					s.nothingFetched(t)
				})
				t.Run("H12/"+at, func(t *testing.T) { repairGap(t, tp, ix.make, d) })
				t.Run("H13/"+at, func(t *testing.T) { evictInReverse(t, newStage(t, "H13", tp, ix.make, d)) })
				t.Run("H14/"+at, func(t *testing.T) { restartEmpty(t, newStage(t, "H14", tp, ix.make, d)) })
			}
		}
	}
}

// repairGap loses a batch that the source keeps for replay: while it is asked
// for, nothing of the source is seen and there is no hint; when it has come, the
// hint is K's.
func repairGap(t *testing.T, tp int, index func() tree.Interface, d dialect) {
	var archives []*archive
	for range tp {
		archives = append(archives, newArchive(t))
	}
	s := newStageOf(t, "H12", tp, index, d, archives)
	s.evictFramework(t)
	if h := s.hint(t); string(h.JSON) != messageK(s.host, "sel-7") {
		t.Fatalf("before the gap: %s", outcome(h))
	}
	late := s.source.shards[tp-1]
	open := archives[tp-1].hold()
	late.lose(remove("CPU", "kvcr", chainNames[3])) // and back again:
	late.send(event{names: chainNames[3:], parent: chainNames[2], hasParent: true, tokens: count(193, 256), medium: "CPU", owner: "kvcr"})
	await(t, "the repair to begin", func() bool {
		return freshnessOf(t, s.engine, "1", 0, hint.CacheOwner).State == Repairing
	})
	before := s.fetcher.Report()
	s.noOwner(t)
	if h := s.hint(t); outcome(h) != "no_longer_source" {
		t.Errorf("while it is repaired: %s", outcome(h))
	}
	open()
	s.source.settle(t)
	await(t, "the repair to end", func() bool {
		return freshnessOf(t, s.engine, "1", 0, hint.CacheOwner).State == Exact
	})
	if h := s.hint(t); outcome(h) != "1/0 cache_owner depth 4" || string(h.JSON) != messageK(s.host, "sel-7") {
		t.Errorf("after the repair: %s\n%s", outcome(h), h.JSON)
	}
	if r := s.fetcher.Report(); r.Tokens != before.Tokens+192 || r.Failed != 0 {
		t.Errorf("the target did %+v, before %+v", r, before)
	}
}

// noOwner demands that nothing of the source's cache owner is seen, and that the
// short way to ask for a state says what the long one does.
func (s *stage) noOwner(t *testing.T) {
	t.Helper()
	for _, id := range []string{"1", "2"} {
		src, _ := s.engine.sources.Load(id)
		for _, f := range src.feeds {
			for _, d := range []Domain{hint.Worker, hint.CacheOwner} {
				if at := f.applied(); f.exact(d, at) != (State(f.status(d, at).State) == Exact) {
					t.Errorf("%s shard %d %s: exact %v, state %v", id, f.tp, d, f.exact(d, at), State(f.status(d, at).State))
				}
			}
		}
	}
	if own := depthsOf(t, s.engine, prompt(), "1", 0, hint.CacheOwner); own != (Depths{}) {
		t.Errorf("the owner's depth is %+v", own)
	}
}

// nothingFetched demands that no hint led to a fetch.
func (s *stage) nothingFetched(t *testing.T) {
	t.Helper()
	if r := s.fetcher.Report(); r.Hints != 0 || r.Fetches != 0 || r.Tokens != 0 {
		t.Errorf("the target did %+v", r)
	}
	for shard, c := range s.library.Counts() {
		if c != (pair.Counts{}) {
			t.Errorf("shard %d of the source saw %+v", shard, c)
		}
	}
}

// restartEmpty lets the source's process end and another begin that holds
// nothing: there is no hint before the new one is attached, none while it has
// said nothing, and none after.
func restartEmpty(t *testing.T, s *stage) {
	s.evictFramework(t)
	if h := s.hint(t); outcome(h) != "1/0 cache_owner depth 4" {
		t.Fatalf("before the restart: %s", outcome(h))
	}
	before := s.fetcher.Report()
	s.library.Clear() // it lived in the process
	for _, p := range s.source.shards {
		if err := p.pub.Close(); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the link to be down", func() bool {
		return freshnessOf(t, s.engine, "1", 0, hint.CacheOwner).State == Disconnected
	})
	none := func(when string) {
		t.Helper()
		if h := s.hint(t); outcome(h) != "no_longer_source" || len(h.JSON) != 0 {
			t.Errorf("%s: %s", when, outcome(h))
		}
	}
	none("with nobody there")
	for _, p := range s.source.shards {
		pub, err := zmtp.Listen(t.Context(), p.pub.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pub.Close() })
		if err := pub.WaitSubscribers(patience(t), 1); err != nil {
			t.Fatal(err)
		}
		p.pub, p.next = pub, 0
	}
	none("before it has said anything")
	for _, p := range s.source.shards {
		p.send(event{clear: true})
	}
	await(t, "the new process to be attached", func() bool {
		f := freshnessOf(t, s.engine, "1", 0, hint.CacheOwner)
		return f.State == Exact && f.Streams[0].Incarnation[0] == 1 && f.Streams[len(f.Streams)-1].Incarnation[0] == 1
	})
	none("after it was attached")
	s.noOwner(t)
	if after := s.fetcher.Report(); after.Fetches != before.Fetches || after.Hints != before.Hints {
		t.Errorf("fetches after the restart: %+v, before %+v", after, before)
	}
	s.store(t)
	s.evictFramework(t)
	if h := s.hint(t); outcome(h) != "1/0 cache_owner depth 4" || s.fetcher.Report().Failed != 0 {
		t.Errorf("once it stores: %s, %+v", outcome(h), s.fetcher.Report())
	}
}

// evictInReverse evicts leaf first while others ask: each answer must equal
// the truth at some sequence of the interval that it names.
func evictInReverse(t *testing.T, s *stage) {
	s.evictFramework(t)
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
		s.library.Evict(-1, chainNames[want]) // it evicts, then it says so
		s.source.say(t, remove("CPU", "kvcr", chainNames[want]))
		if got := depthsOf(t, s.engine, prompt(), "1", 0, hint.CacheOwner).Host / blockTokens; got != want {
			t.Errorf("depth %d, want %d", got, want)
		}
		h := s.hint(t)
		if len(h.Names) != want {
			t.Errorf("a hint of %d names, want %d", len(h.Names), want)
		}
	}
	if r := s.fetcher.Report(); r.Failed != 0 || r.Hints != 3 || r.None != 1 {
		t.Errorf("the target did %+v", r)
	}
	close(stop)
	asking.Wait()
}
