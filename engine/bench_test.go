package engine

import (
	"fmt"
	"strconv"
	"testing"
)

// BenchmarkMatch asks an engine of real streams. Hashing the prompt is part of
// it: hashes/op × 16 tokens.
func BenchmarkMatch(b *testing.B) {
	for _, shape := range []struct{ holders, blocks int }{{1, 24}, {64, 512}, {64, 8900}} {
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
