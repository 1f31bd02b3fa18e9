package shard_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// These benchmarks measure the way from a stream to an index that does
// nothing: reserve, fill, commit, take, call, publish.
//
//	go test -run - -bench . -count 10 ./tree/shard/ | benchstat -

// idleIndex does nothing.
type idleIndex struct{ recorder }

func (*idleIndex) Store(_ tree.Owner, s *tree.Store) tree.Outcome {
	return tree.Outcome{New: len(s.Pairs) / (1 + s.Span)}
}

func benchPort(b *testing.B) *shard.Port {
	s := shard.New(shard.Options{Index: new(idleIndex)})
	s.Start(context.Background())
	b.Cleanup(func() { _ = s.Close() })
	p, err := s.OpenPort(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkStream: batches of one store one after the other, as fast as the
// ring takes them.
func BenchmarkStream(b *testing.B) {
	for _, c := range []struct {
		name   string
		blocks int
	}{{"blocks=1", 1}, {"blocks=32", 32}, {"blocks=512", 512}} {
		b.Run(c.name, func(b *testing.B) {
			p, ctx, seq := benchPort(b), context.Background(), uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				to, err := p.Store(ctx, h1, shard.StoreHead{Span: 1}, c.blocks)
				if err != nil {
					b.Fatal(err)
				}
				for i := range to {
					to[i] = seq
				}
				if err := p.Commit(seq); err != nil {
					b.Fatal(err)
				}
				seq++
			}
			if err := p.WaitApplied(ctx, shard.Position{Seq: seq - 1, Any: true}); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.blocks), "ns/block")
			b.ReportMetric(float64(p.Counters().Stalls)/float64(b.N), "stalls/op")
		})
	}
}

// BenchmarkVisible: from the beginning of a batch of 32 blocks to its sequence
// in Applied, one batch at a time, so that the writer is parked or about to.
func BenchmarkVisible(b *testing.B) {
	p, ctx, seq := benchPort(b), context.Background(), uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Store(ctx, h1, shard.StoreHead{Span: 1}, 32); err != nil {
			b.Fatal(err)
		}
		if err := p.Commit(seq); err != nil {
			b.Fatal(err)
		}
		for at := p.Applied(); !at.Any || at.Seq < seq; at = p.Applied() {
			runtime.Gosched()
		}
		seq++
	}
}

// BenchmarkApplied is what a query pays per stream for its interval.
func BenchmarkApplied(b *testing.B) {
	p := benchPort(b)
	if err := p.Commit(1); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_ = p.Applied()
	}
}

// BenchmarkDo is one control call on an idle shard.
func BenchmarkDo(b *testing.B) {
	g, ctx := start(b, 0), context.Background()
	for b.Loop() {
		if err := g.Do(ctx, func(tree.Writer) {}); err != nil {
			b.Fatal(err)
		}
	}
}
