package shard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// TestBatchLongerThanTheRing is refused as a whole, and goes through in pieces.
func TestBatchLongerThanTheRing(t *testing.T) {
	g := start(t, shard.MinRingBytes)
	p := g.port()
	limit := p.MaxBlocks(1)
	blocks := 20 * p.RingWords()

	// write stores one event of so many blocks, in pieces, and flushes if told.
	write := func(flush bool) error {
		s := shard.StoreHead{Span: 1}
		for at := 0; at < blocks; {
			n := min(limit, blocks-at)
			to, err := p.Store(within(t), h1, s, n)
			if flush && errors.Is(err, shard.ErrBatchTooLong) {
				if err := p.Flush(1); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			for i := range n {
				to[2*i], to[2*i+1] = uint64(at+i), uint64(1000+at+i)
			}
			at += n
			s.HasParent, s.Parent = true, uint64(at-1)
		}
		return nil
	}
	if err := write(false); !errors.Is(err, shard.ErrBatchTooLong) {
		t.Fatalf("Store = %v, want ErrBatchTooLong", err)
	}
	p.Rollback()
	g.wantLog()

	must(t, write(true))
	if at := p.Applied(); at.Any {
		t.Errorf("Applied = %+v before Commit", at)
	}
	must(t, p.Commit(1))
	waitSeq(t, p, 1)
	var want []string
	for at := 0; at < blocks; at += limit {
		var pairs []uint64
		for i := at; i < min(at+limit, blocks); i++ {
			pairs = append(pairs, uint64(i), uint64(1000+i))
		}
		behind := ""
		if at > 0 {
			behind = fmt.Sprintf(" behind %d", at-1)
		}
		want = append(want, fmt.Sprintf("store h1.t0.s0 r0/1%s %v", behind, pairs))
	}
	g.wantLog(want...)
	if c := p.Counters(); c.Batches != 1 || c.Records != uint64(len(want)) {
		t.Errorf("%d batches, %d records counted, want 1 and %d", c.Batches, c.Records, len(want))
	}
}

// TestCommitNeverWaitsBehindARecord fills the ring up to the last word that a
// record may take, with the writer stopped, and then ends the batch: at once
// and behind a Flush.
func TestCommitNeverWaitsBehindARecord(t *testing.T) {
	for _, flush := range []bool{false, true} {
		for first := 1; first <= 12; first++ { // the end record meets the buffer's end everywhere
			t.Run(fmt.Sprintf("flush %v, first record %d names", flush, first), func(t *testing.T) {
				g := start(t, shard.MinRingBytes)
				p := g.port()
				for range first { // move the ring's beginning
					must(t, p.Clear(within(t), h1))
				}
				must(t, p.Commit(0))
				waitSeq(t, p, 0)
				release := g.hold()
				for {
					if _, err := p.Remove(within(t), h1, first); err != nil {
						if !errors.Is(err, shard.ErrBatchTooLong) {
							t.Fatal(err)
						}
						break
					}
				}
				if flush {
					must(t, p.Flush(1))
				}
				must(t, p.Commit(1))
				if c := p.Counters(); c.Stalls != 0 {
					t.Errorf("%d stalls, want 0", c.Stalls)
				}
				release()
				waitSeq(t, p, 1)
			})
		}
	}
}

// TestCommitNeverWaitsBehindAFlush does the same with the ring's beginning
// inside a batch: there an end record may need a pad and all room that is left.
func TestCommitNeverWaitsBehindAFlush(t *testing.T) {
	for last := 1; last <= 25; last++ {
		t.Run(fmt.Sprintf("last record %d names", last), func(t *testing.T) {
			g := start(t, shard.MinRingBytes)
			p := g.port()
			must(t, p.Clear(within(t), h1))
			must(t, p.Flush(1))
			await(t, "the clear", func() bool { return p.Counters().Records == 1 })
			release := g.hold()
			for _, n := range []int{25, 25, last} {
				if _, err := p.Remove(within(t), h1, n); err != nil && !errors.Is(err, shard.ErrBatchTooLong) {
					t.Fatal(err)
				}
			}
			must(t, p.Commit(1))
			if c := p.Counters(); c.Stalls != 0 {
				t.Errorf("%d stalls, want 0", c.Stalls)
			}
			release()
			waitSeq(t, p, 1)
		})
	}
}

func TestFullRingStallsAndRecovers(t *testing.T) {
	g := start(t, shard.MinRingBytes)
	p := g.port()
	release := g.hold()
	const batches = 100
	done := make(chan error, 1)
	go func() { // the stream
		for seq := range uint64(batches) {
			names, err := p.Remove(context.Background(), h1, 5)
			if err == nil {
				names[0] = seq
				err = p.Commit(seq)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	await(t, "a stall", func() bool { return p.Counters().Stalls > 0 })
	if at := p.Applied(); at.Any {
		t.Errorf("Applied = %+v with the writer stopped", at)
	}
	release()
	must(t, <-done)
	waitSeq(t, p, batches-1)
	g.do(func(tree.Writer) {
		if len(g.index.log) != batches {
			t.Errorf("%d records arrived, want %d", len(g.index.log), batches)
		}
	})

	t.Run("context", func(t *testing.T) {
		release := g.hold()
		defer release()
		ctx, cancel := context.WithCancel(context.Background())
		before := p.Counters().Stalls
		go func() {
			await(t, "a stall", func() bool { return p.Counters().Stalls > before })
			cancel()
		}()
		var err error
		for seq := uint64(batches); err == nil; seq++ {
			if _, err = p.Remove(ctx, h1, 5); err == nil {
				must(t, p.Commit(seq))
			}
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Remove into a full ring = %v, want Canceled", err)
		}
	})
}
