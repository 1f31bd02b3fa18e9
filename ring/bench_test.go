package ring_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/cairn-kv/cairn/ring"
)

// The benchmarks pass 32-byte items from the benchmark's goroutine to another
// and report ns per item. xsync's queue cannot park, so both its ends yield when
// they find it full or empty. One iteration is one chunk of items; "batch" hands
// the chunk over at once, "item" one by one.
//
//	go test -run - -bench . -count 10 ./ring/ | benchstat -col /via -
const (
	benchChunk = 64
	benchRing  = 4096
)

type item [4]uint64

func perItem(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchChunk), "ns/item")
	b.ReportMetric(0, "ns/op")
}

// drain consumes r until it is closed and sends the sum of all items.
func drain(r *ring.Ring[item], bell *ring.Doorbell, sum chan<- uint64) {
	var s uint64
	for {
		run := r.Peek()
		for i := range run {
			s += run[i][0]
		}
		r.Release(len(run))
		if run == nil {
			if r.Closed() {
				sum <- s
				return
			}
			_ = bell.Wait(context.Background())
		}
	}
}

func benchRings(b *testing.B, push func(r *ring.Ring[item], k uint64)) {
	r, bell, sum := ring.New[item](benchRing), ring.NewDoorbell(), make(chan uint64)
	bell.Attach(r)
	go drain(r, bell, sum)
	k := uint64(0)
	for b.Loop() {
		push(r, k)
		k += benchChunk
	}
	r.Close()
	checkSum(b, <-sum, k)
	perItem(b)
}

func checkSum(b *testing.B, sum, n uint64) {
	b.Helper()
	if want := n * (n - 1) / 2; n > 0 && n < 1<<31 && sum != want {
		b.Fatalf("sum %d, want %d", sum, want)
	}
}

func BenchmarkHandOver(b *testing.B) {
	ctx := context.Background()
	b.Run("via=ring-batch", func(b *testing.B) {
		benchRings(b, func(r *ring.Ring[item], k uint64) {
			run := r.Reserve(benchChunk) // the chunk divides the ring: never at its end
			for run == nil {
				if r.Wait(ctx, benchChunk) != nil {
					return
				}
				run = r.Reserve(benchChunk)
			}
			for i := range run {
				run[i][0] = k + uint64(i)
			}
			_ = r.Commit()
		})
	})
	b.Run("via=ring-item", func(b *testing.B) {
		benchRings(b, func(r *ring.Ring[item], k uint64) {
			for i := range uint64(benchChunk) {
				run := r.Reserve(1)
				for run == nil {
					if r.Wait(ctx, 1) != nil {
						return
					}
					run = r.Reserve(1)
				}
				run[0][0] = k + i
				_ = r.Commit()
			}
		})
	})
	b.Run("via=channel-item", func(b *testing.B) {
		ch, sum := make(chan item, benchRing), make(chan uint64)
		go func() {
			var s uint64
			for it := range ch {
				s += it[0]
			}
			sum <- s
		}()
		k := uint64(0)
		for b.Loop() {
			for i := range uint64(benchChunk) {
				ch <- item{k + i}
			}
			k += benchChunk
		}
		close(ch)
		checkSum(b, <-sum, k)
		perItem(b)
	})
	b.Run("via=channel-batch", func(b *testing.B) {
		// Chunks as values: what a channel can do without sharing memory.
		ch, sum := make(chan [benchChunk]item, benchRing/benchChunk), make(chan uint64)
		go func() {
			var s uint64
			for chunk := range ch {
				for i := range chunk {
					s += chunk[i][0]
				}
			}
			sum <- s
		}()
		k := uint64(0)
		var chunk [benchChunk]item
		for b.Loop() {
			for i := range chunk {
				chunk[i][0] = k + uint64(i)
			}
			ch <- chunk
			k += benchChunk
		}
		close(ch)
		checkSum(b, <-sum, k)
		perItem(b)
	})
	b.Run("via=xsync-item", func(b *testing.B) {
		q, sum := xsync.NewSPSCQueueOf[item](benchRing), make(chan uint64)
		const last = ^uint64(0)
		go func() {
			var s uint64
			for {
				it, ok := q.TryDequeue()
				if !ok {
					runtime.Gosched()
					continue
				}
				if it[0] == last {
					sum <- s
					return
				}
				s += it[0]
			}
		}()
		push := func(v uint64) {
			for !q.TryEnqueue(item{v}) {
				runtime.Gosched()
			}
		}
		k := uint64(0)
		for b.Loop() {
			for i := range uint64(benchChunk) {
				push(k + i)
			}
			k += benchChunk
		}
		push(last)
		checkSum(b, <-sum, k)
		perItem(b)
	})
}

// BenchmarkWakeUp is the price of one item to a consumer that has parked, and
// back: the latency of an idle stream.
func BenchmarkWakeUp(b *testing.B) {
	ctx := context.Background()
	ping, pong := ring.New[item](2), ring.New[item](2)
	pingBell, pongBell := ring.NewDoorbell(), ring.NewDoorbell()
	pingBell.Attach(ping)
	pongBell.Attach(pong)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if ping.Peek() == nil {
				if ping.Closed() {
					return
				}
				_ = pingBell.Wait(ctx)
				continue
			}
			ping.Release(1)
			pong.Reserve(1)
			_ = pong.Commit()
		}
	}()
	for b.Loop() {
		ping.Reserve(1)
		_ = ping.Commit()
		for pong.Peek() == nil {
			_ = pongBell.Wait(ctx)
		}
		pong.Release(1)
	}
	ping.Close()
	<-done
}
