package shard_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// checker is an index that checks that each holder's blocks come in order.
type checker struct {
	recorder
	next []uint64 // by holder
	bad  int
}

func (c *checker) Store(o tree.Owner, s *tree.Store) tree.Outcome {
	for i := 0; i < len(s.Pairs); i += 2 {
		if s.Pairs[i] != c.next[o.Holder] || s.Pairs[i+1] != ^s.Pairs[i] {
			c.bad++
		}
		c.next[o.Holder]++
	}
	return tree.Outcome{New: len(s.Pairs) / 2}
}

// stream sends n blocks in batches of changing shapes: several records, some
// longer than the ring, some rolled back first.
func stream(ctx context.Context, p *shard.Port, h shard.Head, n uint64) error {
	name, seq := uint64(0), uint64(0)
	for step := 0; name < n; step++ {
		if step%5 == 4 {
			to, err := p.Store(ctx, h, shard.StoreHead{Span: 1}, 1)
			if err != nil {
				return err
			}
			to[0] = 1 << 60
			p.Rollback()
		}
		batch := uint64(1 + step%7)
		if step%11 == 10 {
			batch = uint64(p.RingWords()) // two rings full
		}
		for end := min(n, name+batch); name < end; {
			k := min(int(end-name), p.MaxBlocks(1), 1+step%40)
			to, err := p.Store(ctx, h, shard.StoreHead{Span: 1}, k)
			if errors.Is(err, shard.ErrBatchTooLong) {
				if err := p.Flush(seq); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			for i := range k {
				to[2*i], to[2*i+1] = name, ^name
				name++
			}
		}
		if err := p.Commit(seq); err != nil {
			return err
		}
		seq++
	}
	return p.WaitApplied(ctx, shard.Position{Seq: seq - 1, Any: true})
}

func TestManyStreams(t *testing.T) {
	for _, c := range []struct {
		name   string
		ports  int
		blocks uint64
	}{
		{"1 port", 1, 200_000},
		{"3 ports", 3, 100_000},
		{"200 ports", 200, 2_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() || shard.RaceEnabled {
				c.blocks /= 10
			}
			index := &checker{next: make([]uint64, c.ports+1)}
			s := shard.New(shard.Options{Index: index, RingBytes: shard.MinRingBytes})
			s.Start(context.Background())
			ctx := within(t)
			var streams sync.WaitGroup
			for i := range c.ports {
				p, err := s.OpenPort(ctx)
				must(t, err)
				streams.Go(func() {
					if err := stream(ctx, p, shard.Head{Holder: tree.Holder(i + 1)}, c.blocks); err != nil {
						t.Errorf("stream %d: %v", i, err)
					}
					if got := p.Counters().Blocks.New; got != c.blocks {
						t.Errorf("stream %d: %d blocks counted, want %d", i, got, c.blocks)
					}
					_ = p.Close()
				})
			}
			streams.Wait()
			must(t, s.Close())
			if index.bad != 0 {
				t.Errorf("%d blocks out of order", index.bad)
			}
			for h, n := range index.next[1:] {
				if n != c.blocks {
					t.Errorf("stream %d: %d blocks arrived, want %d", h, n, c.blocks)
				}
			}
		})
	}
}

// TestIdlePorts: 2,000 ports, of which each works once, in a scattered order,
// with control and new ports in between.
func TestIdlePorts(t *testing.T) {
	const n = 2000
	g := start(t, shard.MinRingBytes)
	g.do(func(tree.Writer) { g.index.mute = true })
	ports := make([]*shard.Port, n)
	for i := range ports {
		ports[i] = g.port()
	}
	for i := range n {
		p := ports[i*997%n]
		store(t, p, h1, shard.StoreHead{}, uint64(i), 1)
		must(t, p.Commit(uint64(i)))
		waitSeq(t, p, uint64(i))
		if i%100 == 0 {
			must(t, p.Close())
			<-p.Done()
			ports[i*997%n] = g.port()
		}
	}
	g.do(func(tree.Writer) {
		if g.index.blocks != n {
			t.Errorf("%d blocks stored, want %d", g.index.blocks, n)
		}
	})
}

// TestFencesUnderLoad raises a generation again and again beside a stream that
// learns of it only now and then: after a fence nothing older is applied.
func TestFencesUnderLoad(t *testing.T) {
	index := &fenced{}
	s := shard.New(shard.Options{Index: index, RingBytes: shard.MinRingBytes})
	s.Start(context.Background())
	ctx := within(t)
	p, err := s.OpenPort(ctx)
	must(t, err)
	rounds := 2000
	if testing.Short() || shard.RaceEnabled {
		rounds = 300
	}
	end, sent := make(chan struct{}), make(chan uint64)
	go func() {
		n := uint64(0)
		for gen := uint32(0); ; gen = s.Generation(1) {
			for range 20 {
				to, err := p.Store(ctx, shard.Head{Holder: 1, Generation: gen}, shard.StoreHead{Span: 1}, 1)
				if err != nil {
					t.Error(err)
				} else {
					to[0] = uint64(gen)
				}
				if err := p.Commit(n); err != nil {
					t.Error(err)
				}
				n++
			}
			select {
			case <-end:
				sent <- n
				return
			default:
			}
		}
	}()
	for range rounds {
		must(t, s.Do(ctx, func(tree.Writer) { index.floor = uint64(s.Raise(1)) }))
		runtime.Gosched()
	}
	close(end)
	n := <-sent
	waitSeq(t, p, n-1)
	must(t, s.Close())
	c := p.Counters()
	if index.late != 0 {
		t.Errorf("%d records of an older generation were applied", index.late)
	}
	if c.Records != n || c.Stale+c.Reasons[tree.Accepted] != n {
		t.Errorf("%d sent, %d records, %d stale, %d accepted", n, c.Records, c.Stale, c.Reasons[tree.Accepted])
	}
	if c.Stale == 0 || c.Reasons[tree.Accepted] == 0 {
		t.Errorf("%d stale, %d accepted: the test shows nothing", c.Stale, c.Reasons[tree.Accepted])
	}
}

// fenced is an index that knows which generation may still be stored.
type fenced struct {
	recorder
	floor uint64
	late  int
}

func (f *fenced) Store(_ tree.Owner, s *tree.Store) tree.Outcome {
	if s.Pairs[0] < f.floor {
		f.late++
	}
	return tree.Outcome{}
}

func TestNoAllocations(t *testing.T) {
	if shard.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	g := start(t, 0)
	g.do(func(tree.Writer) { g.index.mute = true })
	p := g.port()
	ctx := context.Background()
	seq := uint64(0)
	round := func() {
		to, err := p.Store(ctx, h1, shard.StoreHead{Span: 1}, 32)
		if err != nil {
			t.Fatal(err)
		}
		to[0] = seq
		if _, err := p.Remove(ctx, h1, 3); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Place(ctx, h1, 3); err != nil {
			t.Fatal(err)
		}
		p.Rollback()
		if _, err := p.Store(ctx, h1, shard.StoreHead{Span: 1}, 32); err != nil {
			t.Fatal(err)
		}
		if err := p.Flush(seq); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Remove(ctx, h1, 3); err != nil {
			t.Fatal(err)
		}
		if err := p.Commit(seq); err != nil {
			t.Fatal(err)
		}
		for at := p.Applied(); !at.Any || at.Seq < seq; at = p.Applied() {
			if at := p.Begun(); at.Any && at.Seq > seq {
				t.Fatalf("begun %+v while %d was the last", at, seq)
			}
			runtime.Gosched()
		}
		seq++
	}
	for range 1000 { // several times round the ring
		round()
	}
	if allocs := testing.AllocsPerRun(5000, round); allocs != 0 {
		t.Errorf("%v allocations from commit to applied, want 0", allocs)
	}
}
