package shard_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

func TestControlOvertakesTheRings(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	release := g.hold()
	store(t, p, h1, shard.StoreHead{}, 1, 11)
	must(t, p.Commit(0))
	done := make(chan error, 1)
	go func() { done <- g.Do(context.Background(), func(w tree.Writer) { w.Hide(1) }) }()
	await(t, "the queued call", func() bool { return g.Queued() == 1 })
	release()
	must(t, <-done)
	waitSeq(t, p, 0)
	g.wantLog("hide h1", "store h1.t0.s0 r0/1 [1 11]")
}

// TestFence: what was committed before the fence and not applied by then is
// dropped and counted; what carries the new generation is applied; the other
// holder of the stream does not notice.
func TestFence(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	release := g.hold()
	store(t, p, shard.Head{Holder: 1}, shard.StoreHead{}, 1, 11)
	store(t, p, shard.Head{Holder: 2}, shard.StoreHead{}, 2, 12)
	names, err := p.Remove(within(t), shard.Head{Holder: 1}, 1)
	must(t, err)
	names[0] = 1
	must(t, p.Clear(within(t), shard.Head{Holder: 1}))
	must(t, p.Commit(0))

	raised := make(chan uint32, 1)
	done := make(chan error, 1)
	go func() {
		done <- g.Do(context.Background(), func(w tree.Writer) {
			w.Clear(1)
			raised <- g.Raise(1)
		})
	}()
	await(t, "the queued call", func() bool { return g.Queued() == 1 })
	release()
	must(t, <-done)
	waitSeq(t, p, 0)
	g.wantLog("clear h1", "store h2.t0.s0 r0/1 [2 12]")
	if c := p.Counters(); c.Stale != 3 || c.Records != 4 || c.Reasons[tree.Accepted] != 1 {
		t.Errorf("%d stale of %d records, %d accepted; want 3 of 4, 1", c.Stale, c.Records, c.Reasons[tree.Accepted])
	}

	gen := <-raised
	if gen != 1 || g.Generation(1) != gen || g.Generation(2) != 0 {
		t.Errorf("Raise = %d, Generation = %d and %d, want 1, 1 and 0", gen, g.Generation(1), g.Generation(2))
	}
	store(t, p, shard.Head{Holder: 1, Generation: gen}, shard.StoreHead{}, 3, 13)
	store(t, p, shard.Head{Holder: 1, Generation: gen - 1}, shard.StoreHead{}, 4, 14)
	must(t, p.Commit(1))
	waitSeq(t, p, 1)
	g.wantLog("store h1.t0.s0 r0/1 [3 13]")
}

func TestForget(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	g.do(func(tree.Writer) { g.Raise(1); g.Raise(1) })
	if gen := g.Generation(1); gen != 2 {
		t.Fatalf("Generation = %d, want 2", gen)
	}
	store(t, p, shard.Head{Holder: 1, Generation: 2}, shard.StoreHead{}, 1, 11)
	must(t, p.Commit(0))
	waitSeq(t, p, 0)
	g.do(func(tree.Writer) { g.Forget(1) })
	store(t, p, shard.Head{Holder: 1, Generation: 2}, shard.StoreHead{}, 2, 12)
	must(t, p.Commit(1))
	waitSeq(t, p, 1)
	g.wantLog("store h1.t0.s0 r0/1 [1 11]")
	if c := p.Counters(); c.Stale != 1 {
		t.Errorf("%d stale, want 1", c.Stale)
	}
}

func TestGenerationsBelongToControl(t *testing.T) {
	g := start(t, 0)
	for name, call := range map[string]func(){
		"Raise":  func() { g.Raise(1) },
		"Forget": func() { g.Forget(1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s outside Do did not panic", name)
				}
			}()
			call()
		}()
	}
}

func TestDoThatIsGivenUpNeverRuns(t *testing.T) {
	g := start(t, 0)
	release := g.hold()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Do(ctx, func(tree.Writer) { t.Error("the function ran") }) }()
	await(t, "the queued call", func() bool { return g.Queued() == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v, want Canceled", err)
	}
	if err := g.Do(ctx, func(tree.Writer) { t.Error("the function ran") }); !errors.Is(err, context.Canceled) {
		t.Errorf("Do with an ended context = %v, want Canceled", err)
	}
	release()
	g.do(func(tree.Writer) {}) // behind the one given up
}

// TestDoOnceBegunIsWaitedFor: fn may use what its caller owns, so Do must not
// return before it, whatever becomes of the context.
func TestDoOnceBegunIsWaitedFor(t *testing.T) {
	g := start(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	ended := false
	err := g.Do(ctx, func(tree.Writer) {
		cancel()
		for range 100 {
			g.Generation(1)
		}
		ended = true
	})
	if err != nil || !ended {
		t.Errorf("Do = %v with the function ended: %v; want nil, true", err, ended)
	}
}

// TestFullControlQueue: callers wait, and all get their turn.
func TestFullControlQueue(t *testing.T) {
	g := start(t, 0)
	release := g.hold()
	var callers sync.WaitGroup
	ran := 0
	for range 500 {
		callers.Go(func() {
			if err := g.Do(context.Background(), func(tree.Writer) { ran++ }); err != nil {
				t.Error(err)
			}
		})
	}
	await(t, "a full queue", func() bool { return g.Queued() == 64 })
	release()
	callers.Wait()
	if ran != 500 {
		t.Errorf("%d functions ran, want 500", ran)
	}
}

func TestIdleWriterSteps(t *testing.T) {
	g := start(t, 0)
	g.do(func(tree.Writer) { g.index.steps = 5 })
	await(t, "five steps", func() (done bool) {
		g.do(func(tree.Writer) { done = g.index.steps == 0 })
		return done
	})
	g.wantLog("step", "step", "step", "step", "step")
}

// TestBusyWriterSteps: what is cleared under load must not wait for its end.
func TestBusyWriterSteps(t *testing.T) {
	g := start(t, 0)
	ports := make([]*shard.Port, 130)
	for i := range ports {
		ports[i] = g.port()
	}
	release := g.hold()
	g.index.steps = 1 << 30 // ordered by hold and release
	for _, p := range ports {
		must(t, p.Clear(within(t), h1))
		must(t, p.Commit(0))
	}
	release()
	for _, p := range ports {
		waitSeq(t, p, 0)
	}
	before := 0
	g.do(func(tree.Writer) {
		clears := 0
		for _, line := range g.index.log {
			if line == "clear h1.s0" {
				clears++
			} else if clears > 0 && clears < len(ports) {
				before++ // a step between the turns
			}
		}
		g.index.steps = 0
	})
	if before < 2 {
		t.Errorf("%d steps during 130 turns, want 2", before)
	}
}

func TestShardEnds(t *testing.T) {
	t.Run("by Close", func(t *testing.T) {
		g := start(t, 0)
		p := g.port()
		store(t, p, h1, shard.StoreHead{}, 1, 11)
		must(t, p.Commit(3))
		must(t, g.Close())
		checkClosed(t, g.Shard, p)
		if len(g.index.log) != 1 {
			t.Errorf("the index was told %v, want what was committed", g.index.log)
		}
	})
	t.Run("by context", func(t *testing.T) {
		index := &recorder{}
		s := shard.New(shard.Options{Index: index})
		ctx, cancel := context.WithCancel(context.Background())
		s.Start(ctx)
		p, err := s.OpenPort(within(t))
		must(t, err)
		store(t, p, h1, shard.StoreHead{}, 1, 11)
		must(t, p.Commit(3))
		cancel()
		<-p.Done()
		must(t, s.Close())
		checkClosed(t, s, p)
		if len(index.log) != 1 {
			t.Errorf("the index was told %v, want what was committed", index.log)
		}
	})
	t.Run("never started", func(t *testing.T) {
		s := shard.New(shard.Options{Index: &recorder{}})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Do(ctx, func(tree.Writer) { t.Error("the function ran") }) }()
		await(t, "the queued call", func() bool { return s.Queued() == 1 })
		must(t, s.Close())
		if err := <-done; !errors.Is(err, shard.ErrClosed) {
			t.Errorf("Do = %v, want ErrClosed", err)
		}
		cancel()
		s.Start(context.Background()) // does nothing; goleak tells otherwise
		must(t, s.Close())
	})
	t.Run("while calls wait", func(t *testing.T) {
		g := start(t, 0)
		release := g.hold()
		var callers sync.WaitGroup
		for range 200 { // more than the queue holds
			callers.Go(func() {
				if err := g.Do(context.Background(), func(tree.Writer) {}); err != nil && !errors.Is(err, shard.ErrClosed) {
					t.Errorf("Do = %v, want nil or ErrClosed", err)
				}
			})
		}
		await(t, "a full queue", func() bool { return g.Queued() == 64 })
		closed := make(chan error)
		go func() { closed <- g.Close() }()
		release()
		must(t, <-closed)
		callers.Wait()
	})
}

func checkClosed(t *testing.T, s *shard.Shard, p *shard.Port) {
	t.Helper()
	<-p.Done()
	waitSeq(t, p, 3)
	ctx := within(t)
	if err := s.Do(ctx, func(tree.Writer) { t.Error("the function ran") }); !errors.Is(err, shard.ErrClosed) {
		t.Errorf("Do = %v, want ErrClosed", err)
	}
	if _, err := s.OpenPort(ctx); !errors.Is(err, shard.ErrClosed) {
		t.Errorf("OpenPort = %v, want ErrClosed", err)
	}
	if err := p.Commit(9); !errors.Is(err, shard.ErrClosed) {
		t.Errorf("Commit = %v, want ErrClosed", err)
	}
	if _, err := p.Remove(ctx, h1, 1); !errors.Is(err, shard.ErrClosed) {
		t.Errorf("Remove = %v, want ErrClosed", err)
	}
	if err := p.WaitApplied(ctx, shard.Position{Seq: 4, Any: true}); !errors.Is(err, shard.ErrClosed) {
		t.Errorf("WaitApplied = %v, want ErrClosed", err)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      shard.Options
		panics bool
	}{
		{"default", shard.Options{Index: &recorder{}}, false},
		{"smallest", shard.Options{Index: &recorder{}, RingBytes: shard.MinRingBytes}, false},
		{"no index", shard.Options{}, true},
		{"too small", shard.Options{Index: &recorder{}, RingBytes: shard.MinRingBytes - 1}, true},
		{"negative", shard.Options{Index: &recorder{}, RingBytes: -1}, true},
		{"too large", shard.Options{Index: &recorder{}, RingBytes: 1<<30 + 1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if got := recover() != nil; got != c.panics {
					t.Errorf("panics: %v, want %v", got, c.panics)
				}
			}()
			shard.New(c.o)
		})
	}
}
