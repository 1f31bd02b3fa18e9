package shard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

var h1 = shard.Head{Holder: 1}

func TestRecordsReachTheIndexInOrder(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	h := shard.Head{Holder: 9, Tier: tree.Disk, Shard: 3}
	store(t, p, h, shard.StoreHead{Root: 5}, 1, 11, 2, 12)
	store(t, p, h, shard.StoreHead{HasParent: true, Parent: 2, Span: 2, KeepMeaning: true, SkipUnknown: true}, 3, 13, 14)
	names, err := p.Place(within(t), h, 2)
	must(t, err)
	copy(names, []uint64{1, 2})
	names, err = p.Remove(within(t), h, 1)
	must(t, err)
	names[0] = 3
	must(t, p.Clear(within(t), h))
	must(t, p.Commit(7))
	waitSeq(t, p, 7)
	g.wantLog(
		"store h9.t2.s3 r5/1 [1 11 2 12]",
		"store h9.t2.s3 r0/2 behind 2 keep skip [3 13 14]",
		"place h9.t2.s3 [1 2]",
		"remove h9.t2.s3 [3]",
		"clear h9.s3",
	)
	if got, want := p.Applied(), (shard.Position{Seq: 7, Any: true}); got != want {
		t.Errorf("Applied = %+v, want %+v", got, want)
	}
}

func TestNothingBeforeCommit(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	store(t, p, h1, shard.StoreHead{}, 1, 11)
	store(t, p, h1, shard.StoreHead{}, 2, 12)
	g.wantLog()
	if got := p.Applied(); got.Any {
		t.Errorf("Applied = %+v before the first Commit", got)
	}
	must(t, p.Commit(0))
	waitSeq(t, p, 0)
	g.wantLog("store h1.t0.s0 r0/1 [1 11]", "store h1.t0.s0 r0/1 [2 12]")
}

func TestRollbackLeavesNothing(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	store(t, p, h1, shard.StoreHead{}, 1, 11)
	must(t, p.Clear(within(t), h1))
	p.Rollback()
	p.Rollback()
	store(t, p, h1, shard.StoreHead{}, 2, 12)
	must(t, p.Commit(4))
	waitSeq(t, p, 4)
	g.wantLog("store h1.t0.s0 r0/1 [2 12]")
	if c := p.Counters(); c.Records != 1 || c.Batches != 1 {
		t.Errorf("%d records and %d batches counted, want 1 and 1", c.Records, c.Batches)
	}
}

func TestEmptyBatchesMoveApplied(t *testing.T) {
	g := start(t, shard.MinRingBytes)
	p := g.port()
	for seq := range uint64(1000) { // many times round the ring
		must(t, p.Commit(seq))
	}
	waitSeq(t, p, 999)
	g.wantLog()
	if c := p.Counters(); c.Batches != 1000 || c.Records != 0 {
		t.Errorf("%d batches, %d records counted, want 1000 and 0", c.Batches, c.Records)
	}
}

func TestRecordSizes(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	ctx := within(t)
	if n := p.MaxBlocks(1); n < 4000 || n > p.RingWords()/4 {
		t.Errorf("MaxBlocks(1) = %d in a ring of %d words", n, p.RingWords())
	}
	for _, span := range []int{1, 2, 16, 1000} {
		limit := p.MaxBlocks(span)
		to, err := p.Store(ctx, h1, shard.StoreHead{Span: span}, limit)
		if err != nil || len(to) != limit*(1+span) {
			t.Errorf("span %d: Store of MaxBlocks = %d: %d words, %v", span, limit, len(to), err)
		}
		p.Rollback()
		if _, err := p.Store(ctx, h1, shard.StoreHead{Span: span}, limit+1); !errors.Is(err, shard.ErrRecordSize) {
			t.Errorf("span %d: Store of one more: %v, want ErrRecordSize", span, err)
		}
	}
	for _, span := range []int{0, -1, p.RingWords(), 1 << 40} {
		if n := p.MaxBlocks(span); n != 0 {
			t.Errorf("MaxBlocks(%d) = %d, want 0", span, n)
		}
		if _, err := p.Store(ctx, h1, shard.StoreHead{Span: span}, 1); !errors.Is(err, shard.ErrRecordSize) {
			t.Errorf("Store with span %d: %v, want ErrRecordSize", span, err)
		}
	}
	for _, n := range []int{0, -1, p.MaxNames() + 1} {
		if _, err := p.Remove(ctx, h1, n); !errors.Is(err, shard.ErrRecordSize) {
			t.Errorf("Remove of %d names: %v, want ErrRecordSize", n, err)
		}
		if _, err := p.Place(ctx, h1, n); !errors.Is(err, shard.ErrRecordSize) {
			t.Errorf("Place of %d names: %v, want ErrRecordSize", n, err)
		}
	}
	big := start(t, 1<<20).port()
	if n := big.MaxBlocks(1); n != shard.MaxRecordBlocks {
		t.Errorf("MaxBlocks(1) in 1 MiB = %d, want %d", n, shard.MaxRecordBlocks)
	}
	if n := big.MaxNames(); n != shard.MaxRecordBlocks {
		t.Errorf("MaxNames in 1 MiB = %d, want %d", n, shard.MaxRecordBlocks)
	}
}

// TestEveryRecordSizeAtEveryPlace goes round the smallest ring with every
// record size there is, so that each meets the end of the buffer everywhere.
func TestEveryRecordSizeAtEveryPlace(t *testing.T) {
	g := start(t, shard.MinRingBytes)
	p := g.port()
	seq, want := uint64(0), []string(nil)
	for range 3 {
		for n := 1; n <= p.MaxNames(); n++ {
			for range p.RingWords() / 8 {
				names, err := p.Remove(within(t), h1, n)
				must(t, err)
				for i := range names {
					names[i] = seq
				}
				want = append(want, fmt.Sprintf("remove h1.t0.s0 %v", names))
				must(t, p.Commit(seq))
				seq++
			}
		}
	}
	waitSeq(t, p, seq-1)
	g.wantLog(want...)
}

func TestCounters(t *testing.T) {
	g := start(t, 0)
	p := g.port()
	for i, o := range []tree.Outcome{
		{New: 1, Known: 2, Waiting: 3, Dropped: 4, Removed: 5, Unknown: 6, Moved: 7},
		{New: 10, Known: 20, Waiting: 30, Dropped: 40, Removed: 50, Unknown: 60, Moved: 70},
		{Reason: tree.SelfParent},
		{Reason: tree.Full},
		{Reason: tree.Full},
	} {
		g.do(func(tree.Writer) { g.index.answer = o })
		store(t, p, h1, shard.StoreHead{}, 1, 2)
		must(t, p.Commit(uint64(i)))
		waitSeq(t, p, uint64(i)) // what Applied shows, the counters show
		if c := p.Counters(); c.Batches != uint64(i+1) || c.Records != uint64(i+1) {
			t.Errorf("after batch %d: %d batches, %d records counted", i, c.Batches, c.Records)
		}
	}
	must(t, p.Clear(within(t), h1))
	must(t, p.Commit(5))
	waitSeq(t, p, 5)
	want := shard.Counters{
		Batches: 6,
		Records: 6,
		Blocks:  shard.Blocks{New: 11, Known: 22, Waiting: 33, Dropped: 44, Removed: 55, Unknown: 66, Moved: 77},
	}
	want.Reasons[tree.Accepted], want.Reasons[tree.SelfParent], want.Reasons[tree.Full] = 3, 1, 2
	if got := p.Counters(); got != want {
		t.Errorf("Counters = %+v\nwant       %+v", got, want)
	}
}

// gated is an index that stops at a store of the name 99.
type gated struct {
	recorder
	reached, let chan struct{}
}

func (g *gated) Store(o tree.Owner, s *tree.Store) tree.Outcome {
	if s.Pairs[0] == 99 {
		close(g.reached)
		<-g.let
	}
	return tree.Outcome{New: 1}
}

// TestCountersComeBeforeApplied stops the writer in the next batch, right
// behind the one that shows as applied.
func TestCountersComeBeforeApplied(t *testing.T) {
	index := &gated{reached: make(chan struct{}), let: make(chan struct{})}
	s := shard.New(shard.Options{Index: index})
	s.Start(context.Background())
	p, err := s.OpenPort(within(t))
	must(t, err)
	store(t, p, h1, shard.StoreHead{}, 1, 11)
	must(t, p.Commit(0))
	store(t, p, h1, shard.StoreHead{}, 99, 12)
	must(t, p.Commit(1))
	<-index.reached
	if got, want := p.Applied(), (shard.Position{Any: true}); got != want {
		t.Errorf("Applied = %+v inside the second batch, want %+v", got, want)
	}
	if c := p.Counters(); c.Batches != 1 || c.Records != 1 || c.Blocks.New != 1 {
		t.Errorf("Counters = %+v, want the first batch", c)
	}
	close(index.let)
	must(t, s.Close())
}

func TestClosedPort(t *testing.T) {
	g := start(t, 0)
	p, other := g.port(), g.port()
	release := g.hold()
	store(t, p, h1, shard.StoreHead{}, 1, 11)
	must(t, p.Commit(1))
	store(t, p, h1, shard.StoreHead{}, 2, 12) // not committed
	must(t, p.Close())
	must(t, p.Close())
	ctx := within(t)
	if err := p.Commit(2); !errors.Is(err, shard.ErrClosed) {
		t.Errorf("Commit = %v, want ErrClosed", err)
	}
	if err := p.Flush(2); err != nil {
		t.Errorf("Flush of nothing = %v", err)
	}
	if _, err := p.Store(ctx, h1, shard.StoreHead{Span: 1}, 1); !errors.Is(err, shard.ErrClosed) {
		t.Errorf("Store = %v, want ErrClosed", err)
	}
	if err := p.Clear(ctx, h1); !errors.Is(err, shard.ErrClosed) {
		t.Errorf("Clear = %v, want ErrClosed", err)
	}
	select {
	case <-p.Done():
		t.Error("Done with a batch still to apply")
	default:
	}
	release()
	<-p.Done()
	waitSeq(t, p, 1)
	if err := p.WaitApplied(ctx, shard.Position{Seq: 2, Any: true}); !errors.Is(err, shard.ErrClosed) {
		t.Errorf("WaitApplied beyond the end = %v, want ErrClosed", err)
	}
	g.wantLog("store h1.t0.s0 r0/1 [1 11]")

	// The others go on, and a new port may take the place.
	again := g.port()
	for i, q := range []*shard.Port{other, again} {
		store(t, q, h1, shard.StoreHead{}, uint64(i), 1)
		must(t, q.Commit(0))
		waitSeq(t, q, 0)
	}
	g.wantLog("store h1.t0.s0 r0/1 [0 1]", "store h1.t0.s0 r0/1 [1 1]")
}

func TestCloseWakesTheStream(t *testing.T) {
	for _, who := range []string{"port", "shard"} {
		t.Run(who, func(t *testing.T) {
			g := start(t, shard.MinRingBytes)
			p := g.port()
			release := g.hold()
			sent := make(chan uint64)
			var last error
			go func() {
				seq := uint64(0)
				for ; last == nil; seq++ {
					if _, last = p.Remove(context.Background(), h1, 5); last == nil {
						last = p.Commit(seq)
					}
				}
				sent <- seq - 1
			}()
			await(t, "a stall", func() bool { return p.Counters().Stalls > 0 })
			if who == "port" {
				must(t, p.Close())
				n := <-sent
				release()
				<-p.Done()
				checkEnd(t, p, n, last)
				return
			}
			closed := make(chan error)
			go func() { closed <- g.Close() }()
			release() // Close waits for the function that holds the writer
			n := <-sent
			must(t, <-closed)
			checkEnd(t, p, n, last)
		})
	}
}

// checkEnd: the stream got ErrClosed, and all n batches it had committed before
// were applied.
func checkEnd(t *testing.T, p *shard.Port, n uint64, last error) {
	t.Helper()
	if !errors.Is(last, shard.ErrClosed) {
		t.Errorf("the stream ended with %v, want ErrClosed", last)
	}
	if got := p.Counters().Batches; got != n {
		t.Errorf("%d batches applied, %d committed", got, n)
	}
}

// TestTurnsAreShort: a port with much to do must not keep the others waiting.
func TestTurnsAreShort(t *testing.T) {
	for _, c := range []struct {
		name    string
		records int // of the busy port
		names   int // per record
		most    int // records before the quiet port's
	}{
		{"small records", 1000, 1, 64},
		{"large records", 12, 4000, 3}, // the third starts below 8,192 words
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, 1<<20)
			busy, quiet := g.port(), g.port()
			release := g.hold()
			for range c.records {
				_, err := busy.Remove(within(t), h1, c.names)
				must(t, err)
			}
			must(t, busy.Commit(29))
			must(t, quiet.Clear(within(t), shard.Head{Holder: 2}))
			must(t, quiet.Commit(0))
			release()
			waitSeq(t, busy, 29)
			waitSeq(t, quiet, 0)
			var log []string
			g.do(func(tree.Writer) { log = g.index.log })
			if at := slices.Index(log, "clear h2.s0"); at < 0 || at > c.most {
				t.Errorf("the quiet port came behind %d of %d records, want at most %d", at, len(log), c.most)
			}
		})
	}
}
