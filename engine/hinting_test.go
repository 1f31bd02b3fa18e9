package engine

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/tree"
)

// TestHintExamples plays the worked examples of the decision through the
// engine: real publishers, real depths. S, T and U are workers with cache
// owners, V is a hint-capable worker without.
func TestHintExamples(t *testing.T) {
	has := func(n int, medium, owner string) event { return store(n, medium, owner) }
	tail := func(from int, medium string) event { // blocks from … 3, behind their parent
		return event{names: chainNames[from:], parent: chainNames[from-1], hasParent: true,
			tokens: count(uint32(from*blockTokens+1), 256), medium: medium}
	}
	smaller, larger := "S", "U"
	a, b := ownerKey("", "S", 0), ownerKey("", "U", 0)
	if string(b[:]) < string(a[:]) {
		smaller, larger = larger, smaller
	}
	cases := []struct {
		name   string
		says   map[string][]event
		roles  map[string]string
		target Target
		want   string
		names  int // of the hint
		below  int // threshold in blocks
	}{
		{name: "E1", says: map[string][]event{"S": {has(4, "GPU", "")}}, want: "ineligible{state_agent}"},
		{name: "E2", says: map[string][]event{"S": {has(4, "CPU", "kvcr")}}, want: "S/0 cache_owner depth 4", names: 4},
		{name: "E3", says: map[string][]event{"S": {has(4, "CPU", "kvcr")}}, target: Target{Source: "S"}, want: "no_longer_source", below: 4},
		{name: "E4", says: map[string][]event{"S": {has(4, "CPU", "kvcr")}, "T": {has(3, "GPU", "")}}, want: "S/0 cache_owner depth 4", names: 4, below: 3},
		{name: "E5", says: map[string][]event{"S": {has(4, "CPU", "kvcr")}, "T": {has(2, "GPU", ""), tail(2, "CPU_PINNED")}}, want: "no_longer_source", below: 4},
		{name: "E6", says: map[string][]event{"S": {has(4, "CPU", "kvcr"), remove("CPU", "kvcr", chainNames[1])}}, want: "S/0 cache_owner depth 1", names: 1},
		{name: "E7", says: map[string][]event{"S": {has(1, "CPU", "kvcr"), has(4, "STORAGE", "kvcr"), remove("STORAGE", "kvcr", chainNames[0])}}, want: "S/0 cache_owner depth 1", names: 1},
		{name: "E8", says: map[string][]event{"S": {has(3, "CPU", "kvcr")}, "U": {has(4, "CPU", "kvcr")}}, want: "U/0 cache_owner depth 4", names: 4},
		{name: "E9", says: map[string][]event{smaller: {has(4, "CPU", "kvcr")}, larger: {has(4, "CPU", "kvcr")}}, want: smaller + "/0 cache_owner depth 4", names: 4},
		{name: "E10", says: map[string][]event{"V": {has(1, "GPU", ""), tail(1, "CPU_PINNED")}, "S": {has(4, "CPU", "kvcr")}}, want: "V/0 worker depth 4", names: 4},
		{name: "E11", says: map[string][]event{"S": {has(4, "CPU", "kvcr")}}, roles: map[string]string{"S": "prefill", "T": "decode"}, want: "ineligible{role}"},
		{name: "E14", says: map[string][]event{"S": {has(4, "CPU", "kvcr")}}, target: Target{Source: "T", QueryOnly: true}, want: "not_admitted"},
		{name: "an unknown target", says: map[string][]event{"S": {has(4, "CPU", "kvcr")}}, target: Target{Source: "X"}, want: "target_incapable"},
		{name: "an unknown rank", says: map[string][]event{"S": {has(4, "CPU", "kvcr")}}, target: Target{Source: "T", Rank: 1}, want: "target_incapable"},
		{name: "a target without a role", says: map[string][]event{"S": {has(4, "CPU", "kvcr")}}, roles: map[string]string{"T": ""}, want: "target_incapable"},
		{name: "nobody has a role", roles: map[string]string{"S": "", "T": "", "U": "", "V": ""}, want: "no_capable_worker"},
		{name: "a source without endpoint", says: map[string][]event{"S": {has(4, "CPU", "kvcr")}}, roles: map[string]string{"S": "aggregated, mute"}, want: "ineligible{endpoint}"},
	}
	for _, ix := range indexes {
		for _, tc := range cases {
			t.Run(tc.name+"/"+ix.name, func(t *testing.T) {
				e := openEngine(t, Options{NewIndex: ix.make})
				for i, id := range []string{"S", "T", "U", "V"} {
					w := addWorker(t, e, id, "127.0.0.1", 1, dialects[1], func(s *Source) {
						if id != "V" {
							s.Protocol = HiCacheV1
						}
						role, given := tc.roles[id]
						switch {
						case given && role == "":
							return
						case role == "aggregated, mute":
							s.Hint = &HintConfig{WorkerType: "aggregated"}
							return
						case !given:
							role = "aggregated"
						}
						s.Hint = &HintConfig{WorkerType: role, Endpoint: "tcp://10.0.0." + strconv.Itoa(i+1) + ":23280"}
					})
					w.say(t, append([]event{{clear: true}}, tc.says[id]...)...)
				}
				target := tc.target
				if target.Source == "" {
					target.Source = "T"
				}
				var h HintAnswer
				if err := e.Hint(prompt(), target, &h); err != nil {
					t.Fatal(err)
				}
				if got := outcome(&h); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				if diff := cmp.Diff(append([]uint64(nil), chainNames[:tc.names]...), append([]uint64(nil), h.Names...)); diff != "" {
					t.Errorf("names, want -, got +:\n%s", diff)
				}
				if h.ThresholdTokens != tc.below*blockTokens || h.Threshold != tc.below {
					t.Errorf("threshold %d, %d tokens; want %d blocks", h.Threshold, h.ThresholdTokens, tc.below)
				}
				if (len(h.JSON) > 0) != (tc.names > 0) {
					t.Errorf("message %q", h.JSON)
				}
				st := e.Stats()
				if st.Hints[h.Reason] != 1 || h.Detail != hint.NoDetail && st.Ineligible[h.Detail] != 1 {
					t.Errorf("counted %v %v", st.Hints, st.Ineligible)
				}
			})
		}
	}
}

// TestHintOfRanks: rank r of a source names port + r × stride.
func TestHintOfRanks(t *testing.T) {
	e := openEngine(t, Options{})
	set := func(s *Source) { s.Hint = &HintConfig{WorkerType: "agg", Endpoint: "tcp://10.0.0.1:23280", Stride: 4} }
	w := addWorker(t, e, "w1", "127.0.0.1", 1, dialects[1], set)
	addWorker(t, e, "w2", "127.0.0.1", 1, dialects[1], set).say(t, event{clear: true})
	w.sendAs(t, 3, store(4, "GPU", ""))
	var h HintAnswer
	if err := e.Hint(prompt(), Target{Source: "w2"}, &h); err != nil {
		t.Fatal(err)
	}
	if outcome(&h) != "w1/3 worker depth 4" || h.Endpoint != "tcp://10.0.0.1:23292" {
		t.Errorf("%s at %s", outcome(&h), h.Endpoint)
	}
}

// TestSnapshotIsPinned: the answer names the view it rests on, and every
// change of sources makes another.
func TestSnapshotIsPinned(t *testing.T) {
	e := openEngine(t, Options{})
	addWorker(t, e, "a", "127.0.0.1", 1, dialects[1], nil).say(t, store(1, "GPU", ""))
	var h HintAnswer
	revision := func() uint64 {
		if err := e.Hint(prompt(), Target{Source: "a"}, &h); err != nil {
			t.Fatal(err)
		}
		return h.Revision
	}
	before := revision()
	if again := revision(); again != before {
		t.Errorf("revision %d, then %d without a change", before, again)
	}
	addWorker(t, e, "b", "127.0.0.1", 1, dialects[1], nil)
	if after := revision(); after <= before {
		t.Errorf("revision %d after a source was added, %d before", after, before)
	}
}

// TestHintAcrossUnits: the source is found in another trie than the one that
// was walked last, and its names and blocks are its own.
func TestHintAcrossUnits(t *testing.T) {
	for _, ix := range indexes {
		t.Run(ix.name, func(t *testing.T) {
			e := openEngine(t, Options{NewIndex: ix.make})
			set := func(s *Source) { s.Hint = &HintConfig{WorkerType: "agg", Endpoint: "tcp://10.0.0.1:1"} }
			small := event{tokens: count(1, 256), size: 16, medium: "GPU"}
			for i := range 16 {
				small.names = append(small.names, 1<<63+uint64(i))
			}
			addWorker(t, e, "small", "127.0.0.1", 1, dialects[1], set).say(t, small)
			addWorker(t, e, "large", "127.0.0.1", 1, dialects[1], set).say(t, store(1, "GPU", ""))
			var h HintAnswer
			q := &Query{Model: "m", Tokens: count(1, 250)}
			if err := e.Hint(q, Target{Source: "large"}, &h); err != nil {
				t.Fatal(err)
			}
			want := Place{Source: "small", Depth: 15, Tokens: 240, BlockSize: 16}
			if h.Best != want || h.Threshold != 4 || h.ThresholdTokens != 64 {
				t.Errorf("%s: %+v, threshold %d of %d tokens", outcome(&h), h.Best, h.Threshold, h.ThresholdTokens)
			}
			if diff := cmp.Diff(small.names[:15], h.Names); diff != "" {
				t.Errorf("names, want -, got +:\n%s", diff)
			}
			if err := e.Hint(q, Target{Source: "small"}, &h); err != nil || outcome(&h) != "no_longer_source" || h.Threshold != 15 {
				t.Errorf("the other way: %s, threshold %d, %v", outcome(&h), h.Threshold, err)
			}
		})
	}
}

// stingy is an index whose readers name at most so many blocks, as one does
// whose blocks go while it is asked.
type stingy struct {
	tree.Interface
	most int
}

type stingyReader struct {
	tree.Reader
	most int
}

func (s stingy) NewReader() tree.Reader { return stingyReader{s.Interface.NewReader(), s.most} }

func (r stingyReader) Names(dst []uint64, h tree.Holder, v tree.View, depth int) []uint64 {
	return r.Reader.Names(dst, h, v, min(depth, r.most))
}

// TestFewerNamesThanDepth: the hint names what came if that still beats the
// target, and is none otherwise.
func TestFewerNamesThanDepth(t *testing.T) {
	for _, tc := range []struct {
		most int
		want string
	}{{4, "s/0 worker depth 4"}, {3, "s/0 worker depth 3"}, {2, "no_longer_source"}, {0, "no_longer_source"}} {
		t.Run(strconv.Itoa(tc.most), func(t *testing.T) {
			e := openEngine(t, Options{NewIndex: func() tree.Interface { return stingy{tree.New(tree.Options{}), tc.most} }})
			set := func(s *Source) { s.Hint = &HintConfig{WorkerType: "agg", Endpoint: "tcp://10.0.0.1:1"} }
			addWorker(t, e, "s", "127.0.0.1", 1, dialects[1], set).say(t, store(4, "GPU", ""))
			addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], set).say(t, store(2, "GPU", ""))
			var h HintAnswer
			if err := e.Hint(prompt(), Target{Source: "t"}, &h); err != nil {
				t.Fatal(err)
			}
			if got := outcome(&h); got != tc.want || h.Threshold != 2 {
				t.Errorf("%s, threshold %d; want %s, 2", got, h.Threshold, tc.want)
			}
			if hinted := h.Reason == hint.Hinted; hinted != (len(h.JSON) > 0) || !hinted && (len(h.Names) > 0 || h.Best != Place{}) || hinted && len(h.Names) != tc.most {
				t.Errorf("%+v", h)
			}
		})
	}
}
