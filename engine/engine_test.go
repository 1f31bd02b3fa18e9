package engine

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/content"
)

func TestMatchOrdersAndCounts(t *testing.T) {
	for _, ix := range indexes {
		t.Run(ix.name, func(t *testing.T) {
			e := openEngine(t, Options{NewIndex: ix.make})
			add := func(id string, protocol string, events ...event) {
				addWorker(t, e, id, "127.0.0.1", 1, dialects[1], func(s *Source) { s.Protocol = protocol }).say(t, events...)
			}
			add("deep", FrameworkV1, store(2, "GPU", ""), event{names: chainNames[2:3], parent: chainNames[1], hasParent: true,
				tokens: count(129, 192), medium: "CPU"})
			add("disk", FrameworkV1, store(1, "GPU", ""), store(2, "STORAGE", ""))
			add("twin", HiCacheV1, store(2, "GPU", ""), store(1, "CPU", "kvcr"))
			add("empty", FrameworkV1, event{clear: true})

			var a Answer
			if err := e.Match(prompt(), &a); err != nil {
				t.Fatal(err)
			}
			type line struct {
				Source string
				Domain Domain
				Depths Depths
			}
			var got []line
			for _, h := range a.Holders {
				got = append(got, line{h.Source, h.Domain, h.Tokens})
				if h.BlockSize != blockTokens || h.Freshness.State != Exact || h.Freshness.Applied != [2]uint64{} || h.Freshness.Epoch != 1 {
					t.Errorf("%s: block size %d, %+v", h.Source, h.BlockSize, h.Freshness)
				}
			}
			want := []line{
				{"deep", hint.Worker, Depths{Device: 128, Any: 192, HostExtension: 64}},
				{"disk", hint.Worker, Depths{Device: 64, Any: 128}},
				{"twin", hint.Worker, Depths{Device: 128, Any: 128}},
				{"twin", hint.CacheOwner, Depths{Host: 64, Any: 64, HostExtension: 64}},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			if a.Tokens != 256 || len(a.Flagged) != 0 {
				t.Errorf("%d tokens, flagged %+v", a.Tokens, a.Flagged)
			}
		})
	}
}

func TestNamespacesAndForms(t *testing.T) {
	e := openEngine(t, Options{})
	w := addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], nil)
	named := func(first uint64, adapter, salt string) event {
		return event{names: []uint64{first, first + 1}, tokens: count(1, 128), medium: "GPU", adapter: adapter, salt: salt}
	}
	w.say(t, named(10, "", ""), named(20, "lora", ""), named(30, "", "tenant"))
	image, _ := MultimodalKey("image-1")
	cases := []struct {
		name string
		q    Query
		want int
	}{
		{"plain", Query{Tokens: count(1, 200)}, 128},
		{"a tail does not count", Query{Tokens: count(1, 127)}, 64},
		{"less than a block", Query{Tokens: count(1, 63)}, 0},
		{"no tokens", Query{}, 0},
		{"the adapter", Query{Tokens: count(1, 200), Adapter: "lora"}, 128},
		{"another adapter", Query{Tokens: count(1, 200), Adapter: "tenant"}, 0},
		{"the salt", Query{Tokens: count(1, 200), Salt: "tenant"}, 128},
		{"another salt", Query{Tokens: count(1, 200), Salt: "lora"}, 0},
		{"an image in the second block", Query{Tokens: count(1, 200), Keys: []Key{{Hash: image, Offset: 100, Length: 1}}}, 64},
		{"an image behind them", Query{Tokens: count(1, 200), Keys: []Key{{Hash: image, Offset: 128, Length: 70}}}, 128},
		{"an image of no length", Query{Tokens: count(1, 200), Keys: []Key{{Hash: image}}}, 128},
		{"content hashes", Query{Contents: content.Append(nil, count(1, 128), 64, 0, 1337, 1337, nil), BlockSize: 64}, 128},
		{"content hashes of another size", Query{Contents: content.Append(nil, count(1, 128), 32, 0, 1337, 1337, nil), BlockSize: 32}, 0},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			tc.q.Model = "m"
			if got := depthsOf(t, e, &tc.q, "w", 0, hint.Worker).Device; got != tc.want {
				t.Errorf("%d tokens, want %d", got, tc.want)
			}
		})
	}
	var a Answer
	for _, bad := range []struct {
		q    Query
		want error
	}{
		{Query{Model: "x"}, ErrUnknownModel},
		{Query{Model: "m", Tokens: []uint32{1}, Contents: []uint64{1}, BlockSize: 1}, ErrBothForms},
		{Query{Model: "m", Contents: []uint64{1}, BlockSize: 1, Salt: "s"}, ErrSaltedHashes},
		{Query{Model: "m", Contents: []uint64{1}}, ErrBlockSize},
		{Query{Model: "m", Keys: []Key{{Offset: -1}}}, ErrKeys},
		{Query{Model: "m", Tokens: count(1, 1<<17), Keys: make1000Keys(1 << 17)}, ErrKeys},
	} {
		if err := e.Match(&bad.q, &a); !errors.Is(err, bad.want) {
			t.Errorf("%+v: %v, want %v", bad.q.Model, err, bad.want)
		}
	}
}

func make1000Keys(length int) []Key {
	k := make([]Key, 1000)
	for i := range k {
		k[i].Length = length
	}
	return k
}

// TestMixedBlockSizes: each worker's figure is in its own blocks, and one
// query meets them all.
func TestMixedBlockSizes(t *testing.T) {
	e := openEngine(t, Options{Shards: 3})
	for _, size := range []int{1, 16, 64} {
		id := "b" + strconv.Itoa(size)
		ev := event{tokens: count(1, 192), size: size, medium: "GPU"}
		for i := range 192 / size {
			ev.names = append(ev.names, uint64(i))
		}
		addWorker(t, e, id, "127.0.0.1", 1, dialects[1], nil).say(t, ev)
	}
	q := &Query{Model: "m", Tokens: count(1, 150)}
	for id, want := range map[string]int{"b1": 150, "b16": 144, "b64": 128} {
		if got := depthsOf(t, e, q, id, 0, hint.Worker).Any; got != want {
			t.Errorf("%s: %d tokens, want %d", id, got, want)
		}
	}
	for _, s := range e.Sources() {
		if len(s.BlockSizes) != 1 || "b"+strconv.Itoa(s.BlockSizes[0]) != s.ID {
			t.Errorf("%s says %v", s.ID, s.BlockSizes)
		}
	}
}

func TestSourcesComeAndGo(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(strconv.Itoa(shards), func(t *testing.T) {
			e := openEngine(t, Options{Shards: shards})
			for round := range 3 {
				for i := range 4 {
					addWorker(t, e, "w"+strconv.Itoa(i), "127.0.0.1", 1, dialects[i%2], nil).say(t, store(i+1, "GPU", ""))
				}
				var a Answer
				if err := e.Match(prompt(), &a); err != nil {
					t.Fatal(err)
				}
				if len(a.Holders) != 4 || a.Holders[0].Source != "w3" {
					t.Fatalf("round %d: %+v", round, a.Holders)
				}
				err := e.AddSource(patience(t), Source{ID: "w1", Model: "m", Endpoint: "tcp://127.0.0.1:1"})
				if !errors.Is(err, ErrSourceExists) || !strings.Contains(err.Error(), `"w1"`) {
					t.Errorf("a second w1: %v", err)
				}
				for i := range 4 {
					if err := e.RemoveSource(patience(t), "w"+strconv.Itoa(i)); err != nil {
						t.Fatal(err)
					}
				}
				if err := e.Match(prompt(), &a); !errors.Is(err, ErrUnknownModel) {
					t.Errorf("a model without sources: %v", err)
				}
			}
			if err := e.RemoveSource(patience(t), "w1"); !errors.Is(err, ErrUnknownSource) {
				t.Errorf("removed twice: %v", err)
			}
			await(t, "the index to be empty", func() bool {
				n := 0
				for _, s := range e.Stats().Shards {
					n += s.Holders + s.Residencies + s.Deferred
				}
				return n == 0
			})
		})
	}
}

func TestWaitApplied(t *testing.T) {
	e := openEngine(t, Options{})
	w := addWorker(t, e, "w", "127.0.0.1", 2, dialects[1], nil)
	if err := e.WaitApplied(patience(t), "x", 0, 0); !errors.Is(err, ErrUnknownSource) {
		t.Errorf("an unknown source: %v", err)
	}
	if err := e.WaitApplied(patience(t), "w", 1, 0); !errors.Is(err, ErrUnknownRank) {
		t.Errorf("an unknown rank: %v", err)
	}
	w.shards[0].send(store(1, "GPU", ""))
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := e.WaitApplied(short, "w", 0, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one shard of two is not all: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- e.WaitApplied(patience(t), "w", 0, 0) }()
	w.shards[1].send(store(1, "GPU", ""))
	if err := <-done; err != nil {
		t.Errorf("both shards: %v", err)
	}
	if got := depthsOf(t, e, prompt(), "w", 0, hint.Worker).Device; got != 64 {
		t.Errorf("%d tokens", got)
	}
	go func() { done <- e.WaitApplied(patience(t), "w", 0, 99) }()
	if err := e.RemoveSource(patience(t), "w"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) && !errors.Is(err, ErrUnknownSource) {
		t.Errorf("the source went: %v", err)
	}
}

// A source that is half gone is unknown: its rank did not cease to be.
func TestSourceGoingIsUnknown(t *testing.T) {
	e := openEngine(t, Options{})
	addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], nil)
	s, _ := e.sources.Load("w")
	held, free, removed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_ = e.shards[s.shard].writer.Do(context.Background(), func(tree.Writer) {
			close(held)
			<-free
		})
	}()
	<-held
	go func() { removed <- e.RemoveSource(patience(t), "w") }()
	await(t, "the holders to be on their way out", func() bool {
		e.control.Lock()
		defer e.control.Unlock()
		return s.gone && s.holders == nil
	})
	if err := e.WaitApplied(patience(t), "w", 0, 0); !errors.Is(err, ErrUnknownSource) {
		t.Errorf("waited for: %v", err)
	}
	if err := e.FetchStarted("w", 0); !errors.Is(err, ErrUnknownSource) {
		t.Errorf("fetched from: %v", err)
	}
	close(free)
	if err := <-removed; err != nil {
		t.Error(err)
	}
}

func TestStates(t *testing.T) {
	e := openEngine(t, Options{StaleAfter: 200 * time.Millisecond})
	w := addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], func(s *Source) { s.Hint = &HintConfig{WorkerType: "agg", Endpoint: "tcp://10.0.0.1:1"} })
	addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], func(s *Source) { s.Hint = &HintConfig{WorkerType: "agg"} }).say(t, event{clear: true})
	var a Answer
	ask := func() (state State, shown, flagged bool) {
		t.Helper()
		if err := e.Match(prompt(), &a); err != nil {
			t.Fatal(err)
		}
		for _, h := range a.Holders {
			if h.Source == "w" {
				return h.Freshness.State, true, false
			}
		}
		for _, h := range a.Flagged {
			if h.Source == "w" {
				return h.Freshness.State, false, true
			}
		}
		return 0, false, false
	}
	var h HintAnswer
	hinted := func() string {
		t.Helper()
		if err := e.Hint(prompt(), Target{Source: "t"}, &h); err != nil {
			t.Fatal(err)
		}
		return outcome(&h)
	}
	if s, shown, flagged := ask(); s != Connecting || shown || !flagged {
		t.Errorf("at first: %v %v %v", s, shown, flagged)
	}
	w.say(t, store(4, "GPU", ""))
	if s, shown, _ := ask(); s != Exact || !shown || hinted() != "w/0 worker depth 4" {
		t.Errorf("after the first batch: %v %v %s", s, shown, hinted())
	}
	w.shards[0].next++ // lost on its way
	w.say(t, store(2, "GPU", ""))
	if s, shown, _ := ask(); s != Degraded || !shown || a.Holders[0].Tokens.Device != 128 {
		t.Errorf("after a gap: %v %v %+v", s, shown, a.Holders)
	}
	if got := hinted(); got != "no_longer_source" {
		t.Errorf("degraded sources serve no hints: %s", got)
	}
	w.shards[0].pub.Close()
	await(t, "the link to be down", func() bool { s, _, _ := ask(); return s == Disconnected })
	await(t, "it to be stale", func() bool { s, shown, flagged := ask(); return s == Disconnected && !shown && flagged })
	if f := a.Flagged[0].Freshness; !f.Hidden {
		t.Errorf("%+v", f)
	}
}

func TestDegradedHintsIfAllowed(t *testing.T) {
	e := openEngine(t, Options{AllowDegradedHints: true})
	set := func(s *Source) { s.Hint = &HintConfig{WorkerType: "agg", Endpoint: "tcp://10.0.0.1:1"} }
	w := addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], set)
	addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], set).say(t, event{clear: true})
	w.shards[0].next = 5
	w.say(t, store(3, "GPU", ""))
	var h HintAnswer
	if err := e.Hint(prompt(), Target{Source: "t"}, &h); err != nil {
		t.Fatal(err)
	}
	if outcome(&h) != "w/0 worker depth 3" || h.Applied != [2]uint64{5, 5} || h.Cause != "late_join" || h.TargetCause != "" {
		t.Errorf("%s, applied %d, cause %q, the target's %q", outcome(&h), h.Applied, h.Cause, h.TargetCause)
	}
}

// TestReadersWaitForNobody: the writer is held inside a change and the control
// lock is taken; queries go on.
func TestReadersWaitForNobody(t *testing.T) {
	e := openEngine(t, Options{})
	set := func(s *Source) { s.Hint = &HintConfig{WorkerType: "agg", Endpoint: "tcp://10.0.0.1:1"} }
	addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], set).say(t, store(4, "GPU", ""))
	addWorker(t, e, "t", "127.0.0.1", 1, dialects[1], set).say(t, event{clear: true})
	held, release := make(chan struct{}), make(chan struct{})
	var holding sync.WaitGroup
	holding.Go(func() {
		e.shards[0].writer.Do(context.Background(), func(tree.Writer) {
			close(held)
			<-release
		})
	})
	<-held
	e.control.Lock()
	done := make(chan string, 1)
	go func() {
		var a Answer
		var h HintAnswer
		if err := errors.Join(e.Match(prompt(), &a), e.Hint(prompt(), Target{Source: "t"}, &h)); err != nil {
			done <- err.Error()
			return
		}
		done <- outcome(&h) + " of " + strconv.Itoa(len(a.Holders))
	}()
	select {
	case got := <-done:
		if got != "w/0 worker depth 4 of 1" {
			t.Error(got)
		}
	case <-time.After(10 * time.Second):
		t.Error("the queries wait")
	}
	e.control.Unlock()
	close(release)
	holding.Wait()
}

func TestCloseIsBoundedAndFinal(t *testing.T) {
	e := openEngine(t, Options{})
	addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], nil).say(t, store(4, "GPU", ""))
	// A publisher that is not there keeps its stream in its back-off.
	if err := e.AddSource(patience(t), Source{ID: "x", Model: "m", Endpoint: "tcp://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.Close(patience(t)); err != nil {
			t.Fatal(err)
		}
	}
	var a Answer
	var h HintAnswer
	for name, err := range map[string]error{
		"Match":     e.Match(prompt(), &a),
		"Hint":      e.Hint(prompt(), Target{}, &h),
		"AddSource": e.AddSource(patience(t), Source{ID: "y", Model: "m", Endpoint: "tcp://127.0.0.1:1"}),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(e.Sources())+len(e.Owners()) != 0 {
		t.Error("a closed engine has sources")
	}
	e.Stats() // does not block
}

// TestManyAtOnce: queries, sources that come and go, and status calls at once.
func TestManyAtOnce(t *testing.T) {
	e := openEngine(t, Options{Shards: 2})
	for i := range 3 {
		addWorker(t, e, "fix"+strconv.Itoa(i), "127.0.0.1", 1, dialects[i%2], nil).say(t, store(4, "GPU", ""))
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			var a Answer
			var h HintAnswer
			for {
				if err := errors.Join(e.Match(prompt(), &a), e.Hint(prompt(), Target{Source: "fix0"}, &h)); err != nil {
					t.Error(err)
					return
				}
				fixed := 0
				for _, h := range a.Holders {
					if strings.HasPrefix(h.Source, "fix") && h.Tokens.Device == 256 {
						fixed++
					}
				}
				if fixed != 3 {
					t.Errorf("%d of 3 holders in %+v", fixed, a.Holders)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	all.Go(func() {
		for {
			e.Sources()
			e.Owners()
			e.Stats()
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for i := range 20 {
		id := "guest" + strconv.Itoa(i)
		addWorker(t, e, id, "127.0.0.1", 1, dialects[1], nil).say(t, store(2, "GPU", ""))
		if err := e.RemoveSource(patience(t), id); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	all.Wait()
}
