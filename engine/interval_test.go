package engine

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/tree"
)

// gated is an index whose writer can be stopped in front of a store, and whose
// readers call a function before they give names.
type gated struct {
	tree.Interface
	left  *atomic.Int64 // the store that takes it to 0 waits
	held  chan struct{} // gets a value when one waits
	open  chan struct{} // lets it go on
	names *func()
}

func newGated() gated {
	return gated{tree.New(tree.Options{}), new(atomic.Int64), make(chan struct{}), make(chan struct{}), new(func())}
}

func (g gated) Store(o tree.Owner, s *tree.Store) tree.Outcome {
	if g.left.Add(-1) == 0 {
		g.held <- struct{}{}
		<-g.open
	}
	return g.Interface.Store(o, s)
}

func (g gated) NewReader() tree.Reader { return gatedReader{g.Interface.NewReader(), g.names} }

type gatedReader struct {
	tree.Reader
	names *func()
}

func (r gatedReader) Names(dst []uint64, h tree.Holder, v tree.View, depth int) []uint64 {
	if f := *r.names; f != nil {
		f()
	}
	return r.Reader.Names(dst, h, v, depth)
}

// behind is the part of the chain from block n on.
func behind(n int) event {
	return event{names: chainNames[n:], parent: chainNames[n-1], hasParent: true,
		tokens: count(uint32(n*blockTokens+1), 256), medium: "GPU"}
}

// TestIntervalOfABatchUnderWay stops the writer inside a batch, with another
// one waiting behind it: what is half visible counts, what is not begun does
// not, and each stream is told apart.
func TestIntervalOfABatchUnderWay(t *testing.T) {
	for _, tp := range []int{1, 2} {
		t.Run("TP "+strconv.Itoa(tp), func(t *testing.T) {
			g := newGated()
			e := openEngine(t, Options{NewIndex: func() tree.Interface { return g }})
			set := func(s *Source) { s.Hint = &HintConfig{WorkerType: "agg", Endpoint: "tcp://10.0.0.1:1"} }
			s := addWorker(t, e, "s", "127.0.0.1", tp, dialects[1], set)
			w := addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], set)
			s.say(t, store(2, "GPU", ""))
			w.say(t, store(1, "GPU", ""))

			type figures struct {
				Device  int // tokens of s
				Applied [2]uint64
				Streams [][2]uint64
			}
			streams := func(ps []StreamPosition) (in [][2]uint64) {
				for _, p := range ps {
					if p.Any != [2]bool{true, true} || p.Incarnation != [2]uint32{} {
						t.Errorf("%+v", p)
					}
					in = append(in, p.Applied)
				}
				return in
			}
			each := func(first, others [2]uint64) [][2]uint64 {
				in := [][2]uint64{first}
				for range tp - 1 {
					in = append(in, others)
				}
				return in
			}
			check := func(what string, want figures) {
				t.Helper()
				var a Answer
				var h HintAnswer
				if err := e.Match(prompt(), &a); err != nil {
					t.Fatal(err)
				}
				got := figures{a.Holders[0].Tokens.Device, a.Holders[0].Freshness.Applied, streams(a.Holders[0].Freshness.Streams)}
				if diff := cmp.Diff(want, got); a.Holders[0].Source != "s" || diff != "" {
					t.Errorf("%s: the answer, want -, got +:\n%s", what, diff)
				}
				if err := e.Hint(prompt(), Target{Source: "t"}, &h); err != nil {
					t.Fatal(err)
				}
				got = figures{h.Best.Tokens, h.Applied, streams(h.Streams)}
				if diff := cmp.Diff(want, got); h.Reason != hint.Hinted || diff != "" {
					t.Errorf("%s: the hint, want -, got +:\n%s", what, diff)
				}
				if h.TargetApplied != [2]uint64{} || cmp.Diff([][2]uint64{{}}, streams(h.TargetStreams)) != "" {
					t.Errorf("%s: the target at %v, %+v", what, h.TargetApplied, h.TargetStreams)
				}
			}
			check("at rest", figures{128, [2]uint64{0, 0}, each([2]uint64{0, 0}, [2]uint64{0, 0})})
			g.left.Store(2)
			// The second store waits; the removal behind it is not begun.
			s.shards[0].send(event{remove: true, names: chainNames[1:2], medium: "GPU"}, behind(1), behind(1))
			s.shards[0].send(remove("GPU", "", chainNames[0]))
			<-g.held
			depth := 256 // one TP shard has it all again, if there is another it has two
			if tp > 1 {
				depth = 128
			}
			await(t, "the batch behind", func() bool { return freshnessOf(t, e, "s", 0, hint.Worker).Seq == 2 })
			check("under way", figures{depth, [2]uint64{0, 1}, each([2]uint64{0, 1}, [2]uint64{0, 0})})
			g.open <- struct{}{}
			s.settle(t)
			s.shards[0].send(store(1, "GPU", ""))
			s.settle(t)
			all := [2]uint64{3, 3}
			if tp > 1 {
				all[0] = 0 // the other stream's
			}
			check("at rest again", figures{depth, all, each([2]uint64{3, 3}, [2]uint64{0, 0})})
		})
	}
}

// TestIntervalReachesTheNames: what becomes visible between the walk and the
// names counts for the source, and not for the target.
func TestIntervalReachesTheNames(t *testing.T) {
	for _, tc := range []struct {
		name    string
		between func(t *testing.T, source, target *worker)
		want    string
		applied [2]uint64
	}{
		{"nothing", func(*testing.T, *worker, *worker) {}, "s/0 worker depth 4", [2]uint64{0, 0}},
		{"an eviction", func(t *testing.T, s, _ *worker) { s.say(t, remove("GPU", "", chainNames[3])) },
			"s/0 worker depth 3", [2]uint64{0, 1}},
		{"batches of the target", func(t *testing.T, _, w *worker) { w.say(t, remove("GPU", "", chainNames[0])) },
			"s/0 worker depth 4", [2]uint64{0, 0}},
		{"an eviction of all that was more", func(t *testing.T, s, _ *worker) { s.say(t, remove("GPU", "", chainNames[1:]...)) },
			"no_longer_source", [2]uint64{}},
		{"a loss", func(t *testing.T, s, _ *worker) {
			s.shards[0].next++
			s.say(t, store(4, "GPU", ""))
		}, "no_longer_source", [2]uint64{}},
		{"a restart", func(t *testing.T, s, _ *worker) {
			s.say(t) // sequence 0 again is a new process only behind another one
			s.shards[0].next = 0
			s.shards[0].send(store(4, "GPU", ""))
			await(t, "the new process", func() bool {
				st := status(s).Streams[0]
				return st.Incarnation == 1 && st.Visible
			})
		}, "no_longer_source", [2]uint64{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGated()
			e := openEngine(t, Options{NewIndex: func() tree.Interface { return g }})
			set := func(s *Source) { s.Hint = &HintConfig{WorkerType: "agg", Endpoint: "tcp://10.0.0.1:1"} }
			s := addWorker(t, e, "s", "127.0.0.1", 1, dialects[1], set)
			w := addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], set)
			s.say(t, store(4, "GPU", ""))
			w.say(t, store(1, "GPU", ""))
			// Somebody who takes no part keeps the chain in the index.
			addWorker(t, e, "x", "127.0.0.1", 1, dialects[1], nil).say(t, store(4, "GPU", ""))
			*g.names = func() { tc.between(t, s, w) }
			var h HintAnswer
			if err := e.Hint(prompt(), Target{Source: "t"}, &h); err != nil {
				t.Fatal(err)
			}
			if got := outcome(&h); got != tc.want || h.Applied != tc.applied || (len(h.Streams) > 0) != (h.Reason == hint.Hinted) {
				t.Errorf("%s at %v, %+v; want %s at %v", got, h.Applied, h.Streams, tc.want, tc.applied)
			}
			if h.TargetApplied != [2]uint64{} || len(h.TargetStreams) != 1 {
				t.Errorf("the target at %v, %+v", h.TargetApplied, h.TargetStreams)
			}
		})
	}
}

// status describes the worker's source.
func status(w *worker) SourceStatus {
	for _, s := range w.engine.Sources() {
		if s.ID == w.id {
			return s
		}
	}
	return SourceStatus{}
}

// TestIntervalsOfDecisions: every decision that rests on what the target holds
// says when, and one that names a place says when of that.
func TestIntervalsOfDecisions(t *testing.T) {
	e := openEngine(t, Options{})
	set := func(role string) func(*Source) {
		return func(s *Source) { s.Hint = &HintConfig{WorkerType: role, Endpoint: "tcp://10.0.0.1:1"} }
	}
	pre := addWorker(t, e, "prefill", "127.0.0.1", 1, dialects[1], set("prefill"))
	pre.say(t)
	pre.say(t, store(4, "GPU", ""))
	addWorker(t, e, "decode", "127.0.0.1", 1, dialects[1], set("decode")).say(t, event{clear: true})
	addWorker(t, e, "new", "127.0.0.1", 1, dialects[1], set("decode"))
	var h HintAnswer // reused: nothing of one answer may stand in the next
	for _, tc := range []struct {
		target        Target
		want          string
		source, aim   [2]uint64
		sources, aims int
		none          bool // nothing ever came of the target
	}{
		{Target{Source: "decode"}, "ineligible{role}", [2]uint64{1, 1}, [2]uint64{0, 0}, 1, 1, false},
		{Target{Source: "new"}, "ineligible{role}", [2]uint64{1, 1}, [2]uint64{0, 0}, 1, 1, true},
		{Target{Source: "prefill"}, "no_longer_source", [2]uint64{}, [2]uint64{1, 1}, 0, 1, false},
		{Target{Source: "prefill", QueryOnly: true}, "not_admitted", [2]uint64{}, [2]uint64{}, 0, 0, false},
		{Target{Source: "nobody"}, "target_incapable", [2]uint64{}, [2]uint64{}, 0, 0, false},
	} {
		if err := e.Hint(prompt(), tc.target, &h); err != nil {
			t.Fatal(err)
		}
		if got := outcome(&h); got != tc.want || h.Applied != tc.source || h.TargetApplied != tc.aim ||
			len(h.Streams) != tc.sources || len(h.TargetStreams) != tc.aims {
			t.Errorf("%s: %s, source at %v %+v, target at %v %+v", tc.target.Source, got, h.Applied, h.Streams, h.TargetApplied, h.TargetStreams)
		}
		if len(h.TargetStreams) == 1 && (h.TargetStreams[0].Any == [2]bool{}) != tc.none {
			t.Errorf("%s: %+v", tc.target.Source, h.TargetStreams)
		}
	}
}

// TestNewTrieIsNotOverlooked: a source's events begin to look ahead, which
// gives it a second trie, while prompts so long that hashing takes its time are
// asked for. An answer that says the batch was visible has looked there.
func TestNewTrieIsNotOverlooked(t *testing.T) {
	const blocks = 4
	pairs := func(names []uint64) []byte { // SGLang's events under EAGLE
		b := msgp.AppendArrayHeader(nil, 3)
		b = msgp.AppendFloat64(b, 1)
		b = msgp.AppendArrayHeader(b, 1)
		b = msgp.AppendArrayHeader(b, 7)
		b = msgp.AppendString(b, "BlockStored")
		b = appendNames(b, names, true)
		b = msgp.AppendNil(b)
		b = msgp.AppendArrayHeader(b, uint32(len(names)*blockTokens))
		for i := range uint32(len(names) * blockTokens) {
			b = msgp.AppendArrayHeader(b, 2)
			b = msgp.AppendUint32(b, i+1)
			b = msgp.AppendUint32(b, i+2)
		}
		b = msgp.AppendInt(b, blockTokens)
		b = msgp.AppendNil(b)
		b = msgp.AppendString(b, "GPU")
		return msgp.AppendNil(b)
	}
	e := openEngine(t, Options{})
	q := &Query{Model: "m", Tokens: count(1, 60_000)}
	for n := range 10 {
		id := strconv.Itoa(n)
		w := addWorker(t, e, id, "127.0.0.1", 1, dialects[0], func(s *Source) { s.Model = "m" + id })
		w.say(t, store(1, "GPU", ""))
		var asking sync.WaitGroup
		for range 2 {
			asking.Go(func() {
				var a Answer
				mine := *q
				mine.Model = "m" + id
				for {
					if err := e.Match(&mine, &a); err != nil || len(a.Holders) != 1 {
						t.Errorf("%+v, %v", a, err)
						return
					}
					h := &a.Holders[0]
					switch in := h.Freshness.Applied; {
					case in[0] == 1 && h.Tokens.Device != blocks*blockTokens, in[1] == 0 && h.Tokens.Device != blockTokens:
						t.Errorf("depth %d at sequences %v", h.Tokens.Device, in)
						return
					case in[0] == 1:
						return
					}
				}
			})
		}
		names := make([]uint64, blocks)
		for i := range names {
			names[i] = uint64(100 + i)
		}
		w.shards[0].sendRaw(pairs(names))
		asking.Wait()
		if t.Failed() {
			return
		}
	}
}

// TestWithheldNamesItsInterval: a holder that the walk did not meet has
// positions of its own, not those of the query before.
func TestWithheldNamesItsInterval(t *testing.T) {
	e := openEngine(t, Options{})
	w := addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], nil)
	w.say(t, store(1, "GPU", ""))
	w.say(t, store(4, "GPU", ""))
	addWorker(t, e, "v", "127.0.0.1", 1, dialects[1], func(s *Source) { s.Model = "other" })
	var a Answer
	if err := e.Match(prompt(), &a); err != nil || len(a.Holders) != 1 || a.Holders[0].Freshness.Applied != [2]uint64{1, 1} {
		t.Fatalf("%+v, %v", a, err)
	}
	if err := e.Match(&Query{Model: "other", Tokens: count(1, 256)}, &a); err != nil || len(a.Flagged) != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	if f := a.Flagged[0].Freshness; f.Applied != [2]uint64{} || f.Streams[0] != (StreamPosition{}) {
		t.Errorf("%+v", f)
	}
}
