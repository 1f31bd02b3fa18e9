package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest/journal"
)

// BenchmarkReplay plays a recording of stores of eight blocks as fast as it can:
// what one message costs on its way from the file to the index.
func BenchmarkReplay(b *testing.B) {
	for _, streams := range []int{1, 16} {
		b.Run(map[int]string{1: "one stream", 16: "16 streams"}[streams], func(b *testing.B) {
			var f bytes.Buffer
			w, err := journal.NewWriter(&f, journal.Options{Wait: true, Meta: []byte(`{"writer":"cairn","scheme":"additive-v1-salt0"}`)})
			if err != nil {
				b.Fatal(err)
			}
			add := func(r journal.Record) {
				if err := w.Append(context.Background(), &r); err != nil {
					b.Fatal(err)
				}
			}
			for s := range streams {
				add(journal.Record{Kind: journal.Define, Stream: uint32(s), Data: [][]byte{[]byte(`{"source":{"id":"w` + string(rune('a'+s)) + `","model":"m","push":true}}`)}})
				add(journal.Record{Kind: journal.Up, Stream: uint32(s)})
			}
			names := make([]uint64, 8)
			for n := range b.N {
				for i := range names {
					names[i] = uint64(n*8 + i + 1)
				}
				p := payloadOf(dialects[1], event{names: names, tokens: count(uint32(n), uint32(n)+127), medium: "GPU", size: 16})
				add(journal.Record{Kind: journal.Message, Time: time.Unix(0, int64(n)), Stream: uint32(n % streams),
					Data: [][]byte{nil, binary.BigEndian.AppendUint64(nil, uint64(n/streams)), p}})
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			r, err := journal.NewReader(bytes.NewReader(f.Bytes()), int64(f.Len()))
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			e := openEngine(b, Options{})
			b.ReportAllocs()
			b.ResetTimer()
			report, err := e.Replay(context.Background(), r, ReplayOptions{})
			if err != nil || report.Messages != uint64(b.N) {
				b.Fatalf("%+v, %v", report, err)
			}
		})
	}
}

// BenchmarkTap is what being recorded costs a stream per message.
func BenchmarkTap(b *testing.B) {
	for _, hashed := range []bool{false, true} {
		b.Run(map[bool]string{false: "raw", true: "hashed"}[hashed], func(b *testing.B) {
			e := openEngine(b, Options{})
			if err := e.AddSource(context.Background(), Source{ID: "w", Model: "m", Push: true}); err != nil {
				b.Fatal(err)
			}
			rec, err := e.Record(discard{}, RecordOptions{Wait: true, Hashed: hashed})
			if err != nil {
				b.Fatal(err)
			}
			defer rec.Stop()
			s, _ := e.sources.Load("w")
			t := &tap{feed: s.feeds[0]}
			names := make([]uint64, 32)
			for i := range names {
				names[i] = uint64(i+1) * 0x9e3779b97f4a7c15
			}
			frames := [][]byte{nil, make([]byte, 8), payloadOf(dialects[1], event{names: names, tokens: count(1, 512), medium: "GPU", size: 16})}
			b.SetBytes(int64(len(frames[2])))
			b.ReportAllocs()
			for b.Loop() {
				t.Message(frames, 0)
			}
		})
	}
}
