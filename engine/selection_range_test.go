package engine

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/perf/pair"
)

// TestSuffixRanges: a source offers a run that joins what the target holds, and
// the fake pair restores it, for consumers go by membership.
func TestSuffixRanges(t *testing.T) {
	hole := func(w *worker, shard int, blocks ...int) { // the pool evicts blocks
		for _, b := range blocks {
			w.shards[shard].send(remove("CPU", "kvcr", chainNames[b]))
		}
	}
	cases := []struct {
		name     string
		off      bool
		own      int // blocks that the target holds
		evict    [][]int
		other    int // leading blocks of another owner
		want     string
		names    []uint64
		start    int
		restored int
	}{
		{"a run behind the root", false, 2, [][]int{{0}}, 0, "1/0 cache_owner depth 4", chainNames[1:], 1, 1},
		{"that begins where the target ends", false, 2, [][]int{{0, 1}}, 0, "1/0 cache_owner depth 4", chainNames[2:], 2, 1},
		{"off", true, 2, [][]int{{0}}, 0, "no_longer_source", nil, 0, 0},
		{"a hole between the two", false, 1, [][]int{{0, 1}}, 0, "no_longer_source", nil, 0, 0},
		{"a hole behind the target's end", false, 2, [][]int{{0, 2}}, 0, "no_longer_source", nil, 0, 0},
		{"a target that holds nothing", false, 0, [][]int{{0}}, 0, "no_longer_source", nil, 0, 0},
		{"beyond the best prefix", false, 2, [][]int{{0}}, 3, "1/0 cache_owner depth 4", chainNames[1:], 1, 1},
		{"a tie keeps the prefix form", false, 2, [][]int{{0}}, 4, "3/0 cache_owner depth 4", chainNames, 0, 1},
		{"a prefix that is longer", false, 2, [][]int{{0, 3}}, 4, "3/0 cache_owner depth 4", chainNames, 0, 1},
		{"on both TP shards", false, 2, [][]int{{0}, {1}}, 0, "1/0 cache_owner depth 4", chainNames[2:], 2, 1},
		{"not on one of them", false, 2, [][]int{{0}, {2}}, 0, "no_longer_source", nil, 0, 0},
	}
	for _, ix := range indexes {
		for _, tc := range cases {
			t.Run(tc.name+"/"+ix.name, func(t *testing.T) {
				e := openEngine(t, Options{NewIndex: ix.make, Hints: HintOptions{SuffixRanges: !tc.off}})
				network := pair.NewNetwork(pair.Default)
				t.Cleanup(network.Close)
				add := func(id string, own func(w *worker)) *worker {
					w := addWorker(t, e, id, "127.0.0.1", len(tc.evict), dialects[1], func(s *Source) {
						s.Protocol = HiCacheV1
						s.Hint = &HintConfig{WorkerType: "aggregated", Endpoint: "tcp://10.0.0." + id + ":23280"}
					})
					w.say(t, event{clear: true})
					own(w)
					w.settle(t)
					return w
				}
				add("1", func(w *worker) {
					w.say(t, store(4, "CPU", "kvcr"))
					for shard, blocks := range tc.evict {
						hole(w, shard, blocks...)
					}
				})
				add("2", func(w *worker) {
					if tc.own > 0 {
						w.say(t, store(tc.own, "GPU", ""))
					}
				})
				add("3", func(w *worker) {
					if tc.other > 0 {
						w.say(t, store(tc.other, "CPU", "kvcr"))
					}
				})
				library, err := network.Add("127.0.0.1", "tcp://10.0.0.1:23280", len(tc.evict))
				if err != nil {
					t.Fatal(err)
				}
				library.Store(-1, chainNames...)
				for shard, blocks := range tc.evict {
					for _, b := range blocks {
						library.Evict(shard, chainNames[b])
					}
				}
				other, err := network.Add("127.0.0.1", "tcp://10.0.0.3:23280", len(tc.evict))
				if err != nil {
					t.Fatal(err)
				}
				other.Store(-1, chainNames[:tc.other]...)

				h := ask(t, e, Target{Source: "2", MessageID: "m"})
				if got := outcome(h); got != tc.want || h.Start != tc.start || h.ThresholdTokens != tc.own*blockTokens {
					t.Errorf("%s from block %d, threshold %d; want %s from %d, %d", got, h.Start, h.ThresholdTokens, tc.want, tc.start, tc.own*blockTokens)
				}
				if diff := cmp.Diff(append([]uint64{}, tc.names...), append([]uint64{}, h.Names...)); diff != "" {
					t.Errorf("names, want -, got +:\n%s", diff)
				}
				fetcher := network.Target(len(tc.evict))
				if n := fetcher.Fetch(patience(t), append(h.AppendRequest(nil, hint.Numbers), "{}"[:btoi(len(h.Names) == 0)*2]...), chainNames, promptTokens, tc.own); n != tc.restored || fetcher.Report().Failed != 0 {
					t.Errorf("%d blocks restored, %+v; want %d", n, fetcher.Report(), tc.restored)
				}
			})
		}
	}
}

// TestRangesOfPlainWorkers: what a worker holds is offered in ranges as it is in
// prefixes, but in state-agent mode.
func TestRangesOfPlainWorkers(t *testing.T) {
	for _, ix := range indexes {
		t.Run(ix.name, func(t *testing.T) {
			e := openEngine(t, Options{NewIndex: ix.make, Hints: HintOptions{SuffixRanges: true}})
			for i, protocol := range []string{FrameworkV1, HiCacheV1} {
				w := addWorker(t, e, "w"+strconv.Itoa(i), "127.0.0.1", 1, dialects[1], func(s *Source) { hinted()(s); s.Protocol = protocol })
				w.say(t, store(4, "GPU", ""), remove("GPU", "", chainNames[0]))
			}
			addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], hinted()).say(t, store(2, "GPU", ""))
			if h := ask(t, e, Target{Source: "t"}); outcome(h) != "w0/0 worker depth 4" || h.Start != 1 || len(h.Names) != 3 {
				t.Errorf("%s from block %d, %d names", outcome(h), h.Start, len(h.Names))
			}
			if h := ask(t, e, Target{Source: "w0"}); outcome(h) != "t/0 worker depth 2" || h.Start != 0 {
				t.Errorf("the other way: %s from block %d", outcome(h), h.Start)
			}
		})
	}
}
