package shard_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

func TestCovers(t *testing.T) {
	pos := func(incarnation uint32, seq uint64) shard.Position {
		return shard.Position{Incarnation: incarnation, Seq: seq, Any: true}
	}
	begin := func(incarnation uint32) shard.Position { return shard.Position{Incarnation: incarnation} }
	for _, c := range []struct {
		name string
		p, q shard.Position
		want bool
	}{
		{"the same", pos(1, 5), pos(1, 5), true},
		{"later", pos(1, 6), pos(1, 5), true},
		{"earlier", pos(1, 4), pos(1, 5), false},
		{"a beginning covers no batch", begin(1), pos(1, 0), false},
		{"a batch covers the beginning", pos(1, 0), begin(1), true},
		{"a beginning covers itself", begin(1), begin(1), true},
		{"past incarnation", pos(1, 5), pos(0, 5), false},
		{"incarnation to come", pos(1, 5), pos(2, 0), false},
		{"largest", pos(0, math.MaxUint64-1), pos(0, math.MaxUint64-1), true},
	} {
		if got := c.p.Covers(c.q); got != c.want {
			t.Errorf("%s: %+v covers %+v: %v, want %v", c.name, c.p, c.q, got, c.want)
		}
	}
}

func TestWaitAppliedWakes(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	var waiters sync.WaitGroup
	for seq := range uint64(50) { // each waits for another sequence
		for range 2 {
			waiters.Go(func() {
				if err := p.WaitApplied(within(t), shard.Position{Seq: seq, Any: true}); err != nil {
					t.Errorf("WaitApplied(%d) = %v", seq, err)
				} else if at := p.Applied(); at.Seq < seq {
					t.Errorf("woken for %d at %d", seq, at.Seq)
				}
			})
		}
	}
	await(t, "a waiter", p.Watched)
	for seq := range uint64(50) {
		must(t, p.Commit(seq))
		runtime.Gosched()
	}
	waiters.Wait()
}

// TestWaitersForLaterAreLeftAlone: a batch must not wake those who wait for
// one far ahead, or each batch would pay for them.
func TestWaitersForLaterAreLeftAlone(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	far, incarnation := make(chan error, 1), make(chan error, 1)
	go func() { far <- p.WaitApplied(within(t), shard.Position{Seq: 1000, Any: true}) }()
	await(t, "a waiter", p.Watched)
	go func() { incarnation <- p.WaitApplied(within(t), shard.Position{Incarnation: 1}) }()
	watch := p.Watch()
	for seq := range uint64(1000) {
		must(t, p.Commit(seq))
	}
	await(t, "batch 999", func() bool { return p.Counters().Batches == 1000 })
	g.do(func(tree.Writer) {}) // behind the turn
	if p.Watch() != watch {
		t.Error("an earlier sequence woke who waits for 1000")
	}
	must(t, p.Commit(1000))
	must(t, <-far)
	p.Restart()
	must(t, <-incarnation)
}

func TestWaitAppliedEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*shard.Port, context.CancelFunc)
		want error
	}{
		{"context", func(_ *shard.Port, cancel context.CancelFunc) { cancel() }, context.Canceled},
		{"restart", func(p *shard.Port, _ context.CancelFunc) { p.Restart() }, shard.ErrRestarted},
		{"close", func(p *shard.Port, _ context.CancelFunc) { _ = p.Close() }, shard.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, 0).port()
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- p.WaitApplied(ctx, shard.Position{Seq: 1, Any: true}) }()
			await(t, "a waiter", p.Watched)
			c.end(p, cancel)
			if err := <-done; !errors.Is(err, c.want) {
				t.Errorf("WaitApplied = %v, want %v", err, c.want)
			}
		})
	}
}

func TestRestart(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	store(t, p, h1, shard.StoreHead{}, 1, 11)
	must(t, p.Commit(90))
	waitSeq(t, p, 90)

	store(t, p, h1, shard.StoreHead{}, 2, 12) // lost with the incarnation
	p.Restart()
	if got, want := p.Applied(), (shard.Position{Incarnation: 1}); got != want {
		t.Errorf("Applied after Restart = %+v, want %+v", got, want)
	}
	must(t, p.Commit(0))
	must(t, p.WaitApplied(within(t), shard.Position{Incarnation: 1, Any: true}))
	if got, want := p.Applied(), (shard.Position{Incarnation: 1, Any: true}); got != want {
		t.Errorf("Applied = %+v, want %+v", got, want)
	}
	if err := p.WaitApplied(within(t), shard.Position{Seq: 90, Any: true}); !errors.Is(err, shard.ErrRestarted) {
		t.Errorf("WaitApplied for the past = %v, want ErrRestarted", err)
	}
	g.wantLog("store h1.t0.s0 r0/1 [1 11]")
}

// TestLateBatchOfAPastIncarnation is applied, but must not show: its sequence
// means nothing in the new one.
func TestLateBatchOfAPastIncarnation(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	release := g.hold()
	store(t, p, h1, shard.StoreHead{}, 1, 11)
	must(t, p.Commit(90))
	p.Restart()
	p.Restart()
	release()
	await(t, "the batch", func() bool { return p.Counters().Batches == 1 })
	g.wantLog("store h1.t0.s0 r0/1 [1 11]")
	if got, want := p.Applied(), (shard.Position{Incarnation: 2}); got != want {
		t.Errorf("Applied = %+v, want %+v", got, want)
	}
	must(t, p.Commit(5))
	must(t, p.WaitApplied(within(t), shard.Position{Incarnation: 2, Seq: 5, Any: true}))
}

// TestPositionsAreWhole reads positions beside a stream that restarts all the
// time. Sequences carry their incarnation, so one that belongs to another
// shows; positions never go back.
func TestPositionsAreWhole(t *testing.T) {
	g := start(t, shard.MinRingBytes)
	p := g.port()
	const incarnations = 2000
	end := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var last shard.Position
			for ; ; runtime.Gosched() { // the stream and the writer need a core, too
				at := p.Applied()
				if at.Any && at.Seq>>32 != uint64(at.Incarnation) {
					t.Errorf("incarnation %d with sequence %d of incarnation %d", at.Incarnation, uint32(at.Seq), at.Seq>>32)
					return
				}
				if at.Incarnation < last.Incarnation || at.Incarnation == last.Incarnation && !at.Covers(last) {
					t.Errorf("position went back from %+v to %+v", last, at)
					return
				}
				last = at
				select {
				case <-end:
					return
				default:
				}
			}
		})
	}
	for i := range uint64(incarnations) {
		for seq := range 1 + i%5 {
			must(t, p.Commit(i<<32|seq))
		}
		if i%10 == 0 {
			err := p.WaitApplied(within(t), shard.Position{Incarnation: uint32(i), Seq: i<<32 | i%5, Any: true})
			must(t, err)
		}
		p.Restart()
	}
	close(end)
	readers.Wait()
}

// TestProgressOutlivesItsPort: who has kept the Progress of a port that was
// closed finds the last of its positions there, whoever has its slot now.
func TestProgressOutlivesItsPort(t *testing.T) {
	g := start(t, 0)
	old := g.port()
	must(t, old.Commit(7))
	waitSeq(t, old, 7)
	kept := []*shard.Progress{old.Progress()}
	must(t, old.Close())
	<-old.Done()
	for range 3 * shard.ProgressChunk { // the slot is free, so each has it in turn
		p := g.port()
		must(t, p.Commit(100))
		waitSeq(t, p, 100)
		p.Restart()
		must(t, p.Close())
		<-p.Done()
		kept = append(kept, p.Progress())
	}
	for i, at := range shard.AppendApplied(nil, kept) {
		want := shard.Position{Incarnation: 1}
		if i == 0 {
			want = shard.Position{Seq: 7, Any: true}
		}
		if at != want || at != kept[i].Applied() {
			t.Fatalf("port %d is at %+v, alone at %+v, want %+v", i, at, kept[i].Applied(), want)
		}
	}
}

// TestProgressStandsByLines: no Progress crosses a line of memory, and those of
// one chunk have theirs to themselves.
func TestProgressStandsByLines(t *testing.T) {
	g := start(t, 0)
	at := func() uintptr { return uintptr(unsafe.Pointer(g.port().Progress())) }
	for i, was := 1, at(); i < 3*shard.ProgressChunk; i++ {
		is := at()
		switch {
		case is%32 != 0:
			t.Fatalf("port %d has its progress at %#x", i, is)
		case i%shard.ProgressChunk == 0 && is%64 != 0:
			t.Fatalf("a chunk begins at %#x", is)
		case i%shard.ProgressChunk != 0 && is != was+32:
			t.Fatalf("port %d has its progress at %#x, the one before at %#x", i, is, was)
		}
		was = is
	}
}
