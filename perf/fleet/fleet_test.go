package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is Default with little room, so that short runs evict.
func small() []Engine {
	es := Default()
	for i := range es {
		e := &es[i]
		for _, n := range []*int{&e.Device, &e.Host, &e.Disk, &e.Pool, &e.PoolDisk} {
			*n /= 40
		}
		if e.ResetEvery > 0 {
			e.ResetEvery = 40 + i
		}
		e.Running = 1
	}
	return es
}

// start makes a fleet with one recording connection per stream.
func start(t *testing.T, c Config) (*Fleet, map[*shard]<-chan message) {
	t.Helper()
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	if _, err := f.Start(ctx); err != nil {
		t.Fatal(err)
	}
	streams := map[*shard]<-chan message{}
	var conns []*zmtp.Conn
	for _, s := range f.all {
		c, err := zmtp.Dial(ctx, zmtp.Options{Endpoint: s.socket.Addr()})
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		streams[s] = receive(c)
	}
	t.Cleanup(func() {
		for _, c := range conns {
			c.Close()
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, streams
}

// drive sends n requests of the trace round the engines and returns the
// messages of every stream. Streams are read while they are written.
func drive(t *testing.T, f *Fleet, streams map[*shard]<-chan message, n int) ([]*Prompt, map[*shard][]message) {
	t.Helper()
	trace, err := Conversation(2000)
	if err != nil {
		t.Fatal(err)
	}
	trace = slices.DeleteFunc(trace, func(a Arrival) bool { return len(a.IDs) > 12 })
	ctx := deadline(t)
	if err := f.WaitSubscribers(ctx); err != nil {
		t.Fatal(err)
	}
	var prompts []*Prompt
	for i := range n {
		s := f.sources[i%len(f.sources)]
		adapter := ""
		if i%7 == 0 && s.Adapters {
			adapter = "tuned"
		}
		p := f.Prompt(adapter, trace[i%len(trace)].IDs)
		prompts = append(prompts, p)
		if err := f.Submit(ctx, s.ID, i%s.Ranks, p, i%3); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Quiesce(ctx); err != nil {
		t.Fatal(err)
	}
	got := map[*shard][]message{}
	for s, in := range streams {
		got[s] = take(t, in, s.history.position())
	}
	return prompts, got
}

// TestPublishedIsTrue replays the published bytes and compares every view at
// many positions with the truth, which knows no bytes.
func TestPublishedIsTrue(t *testing.T) {
	f, streams := start(t, Config{Engines: small(), Seed: 7, Queue: 1000})
	prompts, got := drive(t, f, streams, 900)
	st := f.Stats()
	for name, n := range map[string]uint64{"hits": st.Hits, "evicted": st.Evicted, "demoted": st.Demoted,
		"copies": st.Copies, "holes": st.Holes, "cleared": st.Cleared} {
		if n == 0 {
			t.Errorf("no %s happened: the run shows too little", name)
		}
	}
	kinds := map[string]int{}
	checked, deep := 0, 0
	j := f.Judge()
	for at, r := range f.ranks {
		replays := make([]*replay, len(r.shards))
		for i := range replays {
			replays[i] = newReplay(r.engine)
		}
		total := uint64(len(got[r.shards[0]]))
		for pos := range total {
			here := make([]uint64, len(r.shards))
			for i, s := range r.shards {
				// Shards are compared at different positions of their own.
				n := min(pos+uint64(i), uint64(len(got[s])-1))
				for from := replays[i].kinds["batches"]; from <= int(n); from++ {
					m := got[s][from]
					if m.seq != uint64(from) {
						t.Fatalf("%v: sequence %d at place %d", at, m.seq, from)
					}
					replays[i].batch(t, m.payload)
					replays[i].kinds["batches"]++
				}
				here[i] = n + 1
			}
			if pos%9 != 0 {
				continue
			}
			for k := range 6 {
				p := prompts[(int(pos)*31+k*151)%len(prompts)]
				for d := Worker; d <= CacheOwner; d++ {
					if d == CacheOwner && r.engine.Pool == 0 {
						continue
					}
					h := Holder{at.source, at.rank, d}
					allowed, err := j.Truth(h, p, here, here)
					if err != nil {
						t.Fatal(err)
					}
					want := depths(replays, p, d)
					for v := range NumViews {
						if allowed[v].Match(want[v]) != Whole || allowed[v].Min() != allowed[v].Max() {
							t.Fatalf("%v at %v, %v: replayed bytes hold %d blocks, the truth says %d to %d",
								h, here, v, want[v], allowed[v].Min(), allowed[v].Max())
						}
						deep = max(deep, want[v])
					}
					checked++
				}
			}
		}
		for i := range replays {
			for k, n := range replays[i].kinds {
				kinds[k] += n
			}
		}
	}
	if checked < 500 || deep < 8 {
		t.Errorf("%d comparisons, deepest %d: the run shows too little", checked, deep)
	}
	for _, k := range []string{"BlockStored worker/GPU", "BlockStored worker/CPU", "BlockStored worker/CPU_PINNED",
		"BlockStored worker/DISK", "BlockStored worker/FS", "BlockStored pool/CPU", "BlockStored pool/STORAGE",
		"BlockRemoved worker/GPU", "BlockRemoved worker/CPU", "BlockRemoved worker/CPU_PINNED", "BlockRemoved worker/DISK",
		"BlockRemoved worker/FS", "BlockRemoved pool/CPU", "BlockRemoved pool/STORAGE",
		"AllBlocksCleared worker/<nil>", "AllBlocksCleared pool/<nil>"} {
		if kinds[k] == 0 {
			t.Errorf("no %q was published", k)
		}
	}
}

// TestBreakDiffers shows that each breakage makes the bytes differ from the
// truth.
func TestBreakDiffers(t *testing.T) {
	for _, mode := range []Break{DropRemoves, Reorder} {
		t.Run([]string{"", "drop-removes", "reorder"}[mode], func(t *testing.T) {
			e := Engine{ID: "one", Model: "m", Dialect: VLLMArray8, BlockSize: 16, Device: 100}
			f, streams := start(t, Config{Engines: []Engine{e}, Queue: 1000, Break: mode})
			s := f.all[0]
			trace, _ := Conversation(200)
			if err := f.WaitSubscribers(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, a := range trace {
				if err := f.Submit(t.Context(), "one", 0, f.Prompt("", a.IDs[:min(len(a.IDs), 8)]), 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Quiesce(t.Context()); err != nil {
				t.Fatal(err)
			}
			sums := map[uint64]int{}
			for _, m := range take(t, streams[s], s.history.position()) {
				v, _, err := msgpRead(m.payload)
				if err != nil {
					t.Fatal(err)
				}
				for _, ev := range v {
					fs := fields(t, ev)
					for _, h := range fs["block_hashes"].([]any) {
						n := number(t, h)
						switch {
						case fs["type"] == "BlockStored":
							sums[n]++
						case sums[n] > 0: // an unknown remove is a no-op
							sums[n]--
						}
					}
				}
			}
			published := 0
			for _, n := range sums {
				if n > 0 {
					published++
				}
			}
			if truth := s.history.resident(); published <= truth {
				t.Errorf("published events leave %d blocks, the truth is %d: the breakage shows nothing", published, truth)
			}
		})
	}
}

func TestConfigErrors(t *testing.T) {
	ok := Engine{ID: "a", Model: "m", BlockSize: 16, Device: 10}
	cases := []struct {
		name string
		edit func(e *Engine)
		want []string
	}{
		{"no id", func(e *Engine) { e.ID = "" }, []string{"ID", "needs one"}},
		{"no model", func(e *Engine) { e.Model = "" }, []string{`"a"`, "Model"}},
		{"block size", func(e *Engine) { e.BlockSize = 24 }, []string{"BlockSize is 24", "multiple of 16"}},
		{"no device", func(e *Engine) { e.Device = 0 }, []string{"Device is 0"}},
		{"disk alone", func(e *Engine) { e.Disk = 5 }, []string{"Disk is 5", "host"}},
		{"pool on framework", func(e *Engine) { e.Pool = 5 }, []string{"Pool is 5", "owned"}},
		{"pool in arrays", func(e *Engine) { e.Pool, e.Protocol, e.Dialect = 5, HiCache, SGLangArray }, []string{"Pool is 5"}},
		{"protocol", func(e *Engine) { e.Protocol = "x" }, []string{"Protocol is x"}},
		{"wide signed names", func(e *Engine) { e.WideNames, e.Dialect = true, SGLangMap }, []string{"WideNames"}},
		{"dialect", func(e *Engine) { e.Dialect = 77 }, []string{"Dialect is 77"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := ok
			c.edit(&e)
			_, err := New(Config{Engines: []Engine{e}})
			if err == nil {
				t.Fatal("accepted")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
	if _, err := New(Config{Engines: []Engine{ok, ok}}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("two engines of one id: %v", err)
	}
	if _, err := ParseBreak("everything"); err == nil || !strings.Contains(err.Error(), "drop-removes") {
		t.Errorf("unknown breakage: %v", err)
	}
}

// TestCancel ends a fleet whose subscriber reads nothing, while requests wait.
func TestCancel(t *testing.T) {
	f, err := New(Config{Engines: []Engine{{ID: "a", Model: "m", BlockSize: 16, Device: 50}}, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := f.Start(ctx); err != nil {
		t.Fatal(err)
	}
	c, err := zmtp.Dial(t.Context(), zmtp.Options{Endpoint: f.sources[0].Endpoints[0]})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := f.WaitSubscribers(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for i := uint32(0); ; i += 40 {
			ids := make([]uint32, 20)
			for k := range ids {
				ids[k] = i + uint32(k)
			}
			if err := f.Submit(t.Context(), "a", 0, f.Prompt("", ids), 0); err != nil {
				done <- err
				return
			}
			if i == 40*20 {
				cancel()
			}
		}
	}()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Submit ends with %v", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestTraceIsWhole(t *testing.T) {
	all, err := Conversation(0)
	if err != nil {
		t.Fatal(err)
	}
	blocks, distinct := 0, map[uint32]bool{}
	for _, a := range all {
		blocks += len(a.IDs)
		for _, id := range a.IDs {
			distinct[id] = true
		}
	}
	if len(all) != 12031 || blocks != 288500 || len(distinct) != 182790 {
		t.Errorf("%d requests, %d blocks, %d distinct", len(all), blocks, len(distinct))
	}
	seen := map[[TokensPerID]uint32]uint32{}
	for id := range distinct {
		tk := [TokensPerID]uint32(AppendTokens(nil, id))
		if other, ok := seen[tk]; ok {
			t.Fatalf("ids %d and %d have the same tokens", id, other)
		}
		seen[tk] = id
		half := tk[:]
		if slices.Equal(half[:Chunk], half[Chunk:]) {
			t.Fatalf("id %d repeats itself", id)
		}
	}
	if _, err := ReadTrace(strings.NewReader("{\"hash_ids\":[1]}\n{\"hash_ids\":[]}\n"), 0); err == nil ||
		!strings.Contains(err.Error(), "line 2") {
		t.Errorf("empty line of a trace: %v", err)
	}
}

func TestTier(t *testing.T) {
	chain := func(n int) (bs []block) {
		for i := range n {
			bs = append(bs, block{id: prefix(i + 1), parent: prefix(i)})
		}
		return bs
	}
	t.Run("leaf first", func(t *testing.T) {
		l := newTier(4)
		for _, b := range chain(4) {
			l.add(b)
		}
		var order []prefix
		for e := l.victim(); e != nil; e = l.victim() {
			order = append(order, e.id)
			l.drop(e)
		}
		if !slices.Equal(order, []prefix{4, 3, 2, 1}) || l.used != 0 || len(l.kids) != 0 {
			t.Errorf("order %v, %d used, %d parents", order, l.used, len(l.kids))
		}
	})
	t.Run("pins", func(t *testing.T) {
		l := newTier(4)
		for _, b := range chain(3) {
			l.add(b)
		}
		l.pin(3, 1)
		if e := l.victim(); e != nil {
			t.Errorf("%d is pinned or has a child, and was given up", e.id)
		}
		l.pin(3, -1)
		if e := l.victim(); e == nil || e.id != 3 {
			t.Errorf("victim %v, want the leaf", e)
		}
	})
	t.Run("a copy goes before its block", func(t *testing.T) {
		l := newTier(4)
		for _, b := range chain(2) {
			l.add(b)
		}
		l.add(chain(1)[0])
		l.pin(2, 1)
		e := l.victim()
		if e == nil || e.id != 1 || l.drop(e) || !l.has(1) || l.used != 2 {
			t.Errorf("victim %v of %d used", e, l.used)
		}
	})
	t.Run("used last, gone last", func(t *testing.T) {
		l := newTier(4)
		for i := range 3 {
			l.add(block{id: prefix(i + 1)})
		}
		l.touch([]block{{id: 1}})
		got := []prefix{}
		for e := l.victim(); e != nil; e = l.victim() {
			got = append(got, e.id)
			l.drop(e)
		}
		if cmp.Compare(len(got), 3) != 0 || !slices.Equal(got, []prefix{2, 3, 1}) {
			t.Errorf("order %v", got)
		}
	})
}
