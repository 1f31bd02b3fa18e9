package engine

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/perf/pair"
	"github.com/cairn-kv/cairn/tree"
)

// The acceptance scenarios once more, with workers that register and whose cache
// owners attach to slots: owners have names of their own, topics are those of an
// incarnation, and what a gap or a restart means is the slot's affair.

// slotStage is one scenario on its way.
type slotStage struct {
	*ownerRig
	source, target *guest
	archives       []*archive // of the source's shards
	library        *pair.Library
	fetcher        *pair.Target
	sent           string
	base           int // its owners are those behind it
}

// newSlotStage attaches both workers and lets the source store everything
// everywhere.
func newSlotStage(t *testing.T, base, tp int, index func() tree.Interface, d dialect, o Options) *slotStage {
	t.Helper()
	o.NewIndex, o.Repair.ProbeAfter = index, -1
	s := &slotStage{ownerRig: newOwnerRig(t, 2, o), base: base}
	s.host = ownAddress(t)
	network := pair.NewNetwork(pair.Default)
	t.Cleanup(network.Close)
	var err error
	if s.library, err = network.Add(s.host, s.control(), tp); err != nil {
		t.Fatal(err)
	}
	s.fetcher = network.Target(tp)
	s.source, s.target = s.join(1, tp, d), s.join(2, tp, d)
	s.store()
	return s
}

func (s *slotStage) control() string { return "tcp://" + s.host + ":" + strconv.Itoa(hintPort) }

// join attaches a worker's next incarnation.
func (s *slotStage) join(id, tp int, d dialect) *guest {
	s.t.Helper()
	g := s.guest(uint64(id), owner(s.base+id), residency.HiCacheV1, tp, d)
	g.intent.Hint = &residency.HintSource{ControlEndpoint: s.control(), WorkerType: "aggregated", Carrier: d.carrier.String()}
	if all := g.replays(); id == 1 {
		s.archives = all
	}
	g.register()
	g.everyone(event{clear: true}) // it begins
	return g
}

func (s *slotStage) store() {
	s.t.Helper()
	s.library.Store(-1, chainNames...)
	s.source.everyone(store(4, "GPU", ""), store(4, "CPU_PINNED", ""), store(4, "CPU", "kvcr"))
}

// everyone publishes a batch on every shard and waits until all is applied.
func (g *guest) everyone(events ...event) {
	g.rig.t.Helper()
	for _, p := range g.shards {
		p.send(events...)
	}
	g.settle()
}

func (g *guest) settle() {
	g.rig.t.Helper()
	for i, f := range g.feeds() {
		if err := f.wait(patience(g.rig.t), g.shards[i].next-1); err != nil {
			g.rig.t.Fatalf("shard %d: %v", i, err)
		}
	}
}

func (s *slotStage) evictFramework() {
	s.t.Helper()
	s.source.everyone(remove("GPU", "", chainNames...), remove("CPU_PINNED", "", chainNames...))
}

// hint routes the request to the target, whose library does what it carries.
func (s *slotStage) hint() *HintAnswer {
	s.t.Helper()
	h := &HintAnswer{}
	if err := s.Hint(prompt(), Target{Source: "2", MessageID: "sel-7"}, h); err != nil {
		s.t.Fatal(err)
	}
	request := h.AppendRequest(nil, hint.Numbers)
	if s.sent = string(request); s.sent == "" {
		request = []byte(`{"model":"m"}`)
	}
	s.fetcher.Fetch(patience(s.t), request, chainNames, promptTokens, 0)
	return h
}

// offered is the outcome of a hint of so many blocks.
func (s *slotStage) offered(blocks int) string {
	if blocks == 0 {
		return "no_longer_source"
	}
	return fmt.Sprintf("%s/0 cache_owner depth %d", s.source.intent.Owner, blocks)
}

func (s *slotStage) expect(when string, blocks int) {
	s.t.Helper()
	if h := s.hint(); outcome(h) != s.offered(blocks) || len(h.Names) != blocks {
		s.t.Errorf("%s: %s, want %s", when, outcome(h), s.offered(blocks))
	}
}

// TestAcceptanceOfSlots: H1 … H8 by attachment.
func TestAcceptanceOfSlots(t *testing.T) {
	type figures struct {
		Worker, Pool  Depths
		Overlap, Hint string
		Seen          []pair.Counts
		Restored      pair.Report
	}
	owners, topics, streams := map[residency.OwnerID]bool{}, map[string]bool{}, 0
	for ci, tc := range []struct {
		id    string
		tp    int
		index int
		keep  string
	}{
		{"H1", 1, 0, "F"}, {"H2", 1, 1, "F"}, {"H3", 2, 0, "F"}, {"H4", 2, 1, "F"},
		{"H5", 1, 0, "K"}, {"H6", 1, 1, "K"}, {"H7", 2, 0, "K"}, {"H8", 2, 1, "K"},
	} {
		for di, d := range dialects {
			t.Run(tc.id+"/"+d.name, func(t *testing.T) {
				s := newSlotStage(t, 2*ci, tc.tp, indexes[tc.index].make, d, Options{})
				for _, g := range []*guest{s.source, s.target} {
					owners[g.intent.Owner] = true
					if di == 0 {
						topics[g.intent.Topic] = true
						streams += len(g.feeds())
					}
				}
				want := figures{Worker: Depths{Device: 256, Host: 256, Any: 256}, Overlap: "device 4", Hint: "ineligible{state_agent}",
					Seen: make([]pair.Counts, tc.tp), Restored: pair.Report{None: 1}}
				if tc.keep == "F" {
					s.source.everyone(remove("CPU", "kvcr", chainNames...))
					s.library.Evict(-1, chainNames...)
				} else {
					s.evictFramework()
					want = figures{Pool: Depths{Host: 256, Any: 256, HostExtension: 256}, Overlap: "host 4 by projection", Hint: s.offered(4),
						Restored: pair.Report{Hints: 1, Fetches: tc.tp, Blocks: 3, Tokens: 192, Bytes: 22_020_096}}
					for range tc.tp {
						want.Seen = append(want.Seen, pair.Counts{Fetches: 1, Blocks: 3, Spans: 6, Bytes: 22_020_096 / tc.tp})
					}
				}
				h := s.hint()
				got := figures{Worker: s.source.worker(), Pool: s.source.pool(), Overlap: overlap(t, s.Engine, "1"), Hint: outcome(h),
					Seen: s.library.Counts(), Restored: s.fetcher.Report()}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("want -, got +:\n%s", diff)
				}
				if m := messageK(s.host, "sel-7"); tc.keep == "K" && (string(h.JSON) != m || s.sent != requestK(d, m)) {
					t.Errorf("the message\n got %s\n  in %s\nwant %s", h.JSON, s.sent, m)
				}
				noFailures(t, s.Engine)
			})
		}
	}
	if !t.Failed() && (len(owners) != 16 || len(topics) != 16 || streams != 24) {
		t.Errorf("%d distinct owners, %d topics, %d streams; want 16, 16, 24", len(owners), len(topics), streams)
	}
}

// TestAcceptanceVariantsOfSlots: H9 … H14 by attachment.
func TestAcceptanceVariantsOfSlots(t *testing.T) {
	for _, ix := range indexes {
		for _, d := range dialects {
			begin := func(t *testing.T, tp int, o Options) *slotStage {
				s := newSlotStage(t, 0, tp, ix.make, d, o)
				s.evictFramework()
				s.expect("K", 4)
				return s
			}
			at := ix.name + "/" + d.name
			t.Run("H9/"+at, func(t *testing.T) {
				s := begin(t, 2, Options{})
				s.library.Evict(1, chainNames[2])
				s.source.shards[1].send(remove("CPU", "kvcr", chainNames[2]))
				s.source.settle()
				before := s.fetcher.Report()
				s.expect("one shard without block 2", 2)
				if r := s.fetcher.Report(); r.Tokens != before.Tokens+128 || r.Failed != 0 {
					t.Errorf("the target did %+v, before %+v", r, before)
				}
			})
			t.Run("H10/"+at, func(t *testing.T) {
				s := begin(t, 2, Options{})
				s.library.Evict(1, chainNames...)
				s.source.shards[1].send(remove("CPU", "kvcr", chainNames...))
				s.source.settle()
				s.expect("one shard without any", 0)
			})
			for tp := 1; tp <= 2; tp++ {
				at := fmt.Sprint(at, "/TP ", tp)
				t.Run("H11/"+at, func(t *testing.T) {
					s := begin(t, tp, Options{})
					s.source.shards[tp-1].next++
					s.source.shards[tp-1].send(remove("CPU", "kvcr", chainNames[3]))
					await(t, "the fence", func() bool { return s.route(owner(1)).State == residency.Fenced })
					s.expect("behind a gap", 0)
					if rt := s.route(owner(1)); rt.Schedulable || rt.HintReady || rt.CacheOwnerReady || s.source.pool() != (Depths{}) {
						t.Errorf("%+v, pool %+v", rt, s.source.pool())
					}
				})
				t.Run("H12/"+at, func(t *testing.T) {
					s := begin(t, tp, Options{Owners: OwnerOptions{OnGap: RepairOnGap}})
					late, open := s.source.shards[tp-1], s.archives[tp-1].hold()
					late.lose(remove("CPU", "kvcr", chainNames[3]))
					late.send(chainFrom(3, 4, "CPU", "kvcr"))
					s.source.repairing()
					s.source.unready("H12")
					s.expect("while it is repaired", 0)
					before := s.fetcher.Report()
					open()
					s.source.ready()
					if h := s.hint(); string(h.JSON) != messageK(s.host, "sel-7") {
						t.Errorf("behind the barrier: %s %s", outcome(h), h.JSON)
					}
					if r := s.fetcher.Report(); r.Tokens != before.Tokens+192 || r.Failed != 0 {
						t.Errorf("the target did %+v, before %+v", r, before)
					}
				})
				t.Run("H13/"+at, func(t *testing.T) {
					s := begin(t, tp, Options{})
					s.evictInReverse()
				})
				t.Run("H14/"+at, func(t *testing.T) {
					s := begin(t, tp, Options{})
					before := s.fetcher.Report()
					s.library.Clear()
					for _, p := range s.source.shards {
						if err := p.pub.Close(); err != nil {
							t.Fatal(err)
						}
					}
					await(t, "the link to be down", func() bool { return s.route(owner(1)).Outcome == residency.EndpointUnreachable })
					s.expect("with nobody there", 0)
					s.source.release()
					s.expect("before the new incarnation is attached", 0)
					s.source = s.join(1, tp, d)
					s.expect("after it was attached", 0)
					if after := s.fetcher.Report(); after.Hints != before.Hints {
						t.Errorf("the target did %+v, before %+v", after, before)
					}
					s.store()
					s.evictFramework()
					s.expect("once it stores", 4)
				})
			}
		}
	}
}

// evictInReverse evicts leaf first while others ask: no answer is above the
// truth at the first sequence that it names, or below that at the last.
func (s *slotStage) evictInReverse() {
	s.t.Helper()
	first := s.source.shards[0].next
	truth := func(seq uint64) int {
		if seq < first {
			return 4
		}
		return max(0, 4-int(seq-first)-1)
	}
	var wrong sync.Once
	stop := s.readers(2, func(a *Answer, _ int32) string {
		got, _, f, ok := in(a, string(owner(1)), hint.CacheOwner)
		if n := got.Host / blockTokens; ok && (n > truth(f.Applied[0]) || n < truth(f.Applied[1])) {
			why := ""
			wrong.Do(func() { why = fmt.Sprintf("depth %d between sequences %d", n, f.Applied) })
			return why
		}
		return ""
	})
	for want := 3; want >= 0; want-- {
		s.library.Evict(-1, chainNames[want])
		s.source.everyone(remove("CPU", "kvcr", chainNames[want]))
		s.expect("in reverse", want)
	}
	stop()
	if r := s.fetcher.Report(); r.Failed != 0 {
		s.t.Errorf("the target did %+v", r)
	}
}
