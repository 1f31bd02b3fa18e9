package engine

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"testing"
)

// BenchmarkMatch asks an engine of real streams. Hashing the prompt is part of
// it: hashes/op × 16 tokens.
func BenchmarkMatch(b *testing.B) {
	for _, shape := range []struct{ holders, blocks int }{{1, 24}, {64, 24}, {1000, 24}, {64, 512}, {64, 8900}} {
		b.Run(fmt.Sprintf("holders=%d/blocks=%d", shape.holders, shape.blocks), func(b *testing.B) {
			e := openEngine(b, Options{})
			ev := event{tokens: count(1, uint32(16*shape.blocks)), size: 16, medium: "GPU"}
			for i := range shape.blocks {
				ev.names = append(ev.names, uint64(i))
			}
			for i := range shape.holders {
				addWorker(b, e, strconv.Itoa(i), "127.0.0.1", 1, dialects[1], nil).say(b, ev)
			}
			q := &Query{Model: "m", Tokens: ev.tokens}
			var a Answer
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Match(q, &a); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if len(a.Holders) != shape.holders || a.Holders[0].Tokens.Any != len(ev.tokens) {
				b.Fatalf("%d holders", len(a.Holders))
			}
		})
	}
}

// BenchmarkMatchFew asks a fleet for a prompt that three of its workers hold;
// all others hold another one. What it takes should not be a matter of these.
func BenchmarkMatchFew(b *testing.B) {
	const blocks, few = 24, 3
	for _, n := range []int{8, 64, 1000} {
		b.Run(fmt.Sprintf("holders=%d-of-%d", few, n), func(b *testing.B) {
			e := openEngine(b, Options{})
			ev := event{tokens: count(1, 16*blocks), size: 16, medium: "GPU"}
			other := event{tokens: count(1_000_000, 999_999+16*blocks), size: 16, medium: "GPU"}
			for i := range blocks {
				ev.names, other.names = append(ev.names, uint64(i)), append(other.names, uint64(i))
			}
			for i := range n {
				w := addWorker(b, e, strconv.Itoa(i), "127.0.0.1", 1, dialects[1], nil)
				if i*few%n < few { // spread over the fleet
					w.say(b, ev)
				} else {
					w.say(b, other)
				}
			}
			q := &Query{Model: "m", Tokens: ev.tokens}
			var a Answer
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Match(q, &a); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if len(a.Holders) != few || len(a.Flagged) != 0 || a.Holders[0].Tokens.Any != len(ev.tokens) {
				b.Fatalf("%d holders, %d flagged", len(a.Holders), len(a.Flagged))
			}
		})
	}
}

// BenchmarkAddSource adds the sources of one large model, none of which ever
// answers. heap-B/source is what is left of each, its ring included.
func BenchmarkAddSource(b *testing.B) {
	for _, n := range []int{700, 7000} {
		b.Run(fmt.Sprintf("sources=%d", n), func(b *testing.B) {
			mute := func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				e := openEngine(b, Options{DialContext: mute})
				var was, is runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&was)
				b.StartTimer()
				for i := range n {
					// The order of arrival is not that of the ids.
					s := Source{ID: strconv.Itoa(i * 7919 % n), Model: "m", Endpoint: "tcp://127.0.0.1:1"}
					if err := e.AddSource(b.Context(), s); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&is)
				b.ReportMetric(float64(is.HeapAlloc-was.HeapAlloc)/float64(n), "heap-B/source")
				if err := e.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
