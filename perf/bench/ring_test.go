package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
	"github.com/tinylib/msgp/msgp"
)

// sink is an index that keeps nothing, so that what is measured ends at the
// ring.
type sink struct{ blocks, events int }

func (s *sink) AddHolder(tree.Policy, int) (tree.Holder, error) { return 0, nil }
func (s *sink) Drop(tree.Holder)                                {}
func (s *sink) Clear(tree.Holder)                               {}
func (s *sink) ClearShard(tree.Holder, int)                     {}
func (s *sink) Hide(tree.Holder)                                {}
func (s *sink) Show(tree.Holder)                                {}
func (s *sink) Step() bool                                      { return false }
func (s *sink) Stats() tree.Stats                               { return tree.Stats{} }
func (s *sink) Place(_ tree.Owner, names []uint64) tree.Outcome { return s.took(len(names)) }
func (s *sink) Remove(_ tree.Owner, names []uint64) tree.Outcome {
	return s.took(len(names))
}
func (s *sink) Store(_ tree.Owner, e *tree.Store) tree.Outcome {
	return s.took(len(e.Pairs) / (1 + e.Span))
}

func (s *sink) took(blocks int) tree.Outcome {
	s.blocks += blocks
	s.events++
	return tree.Outcome{}
}

// alone is the owner of one stream.
type alone struct{}

func (alone) Holder(int, ingest.Domain) (tree.Holder, uint32, error) { return 0, 0, nil }
func (alone) Root(int, int) (tree.Root, error)                       { return 0, nil }
func (alone) Learned(int, ingest.Domain, int, int)                   {}

// memory is a link whose messages are there already, as behind a socket that was
// read: the payloads again and again, under sequences that go on.
type memory struct {
	payloads [][]byte
	frames   [3][]byte
	number   [8]byte
	seq      uint64
	warm     uint64         // messages before the clock starts
	n        func() bool    // whether to go on
	started  func()         // called once, between two messages
	cpu      *time.Duration // of the thread, from there to the end
	from     time.Duration
}

var errPlayed = fmt.Errorf("%w: played", ingest.ErrEnd)

func (m *memory) Next() ([][]byte, error) {
	if m.seq == m.warm {
		m.started()
		m.from = ThreadCPU()
	}
	if m.seq >= m.warm && !m.n() {
		*m.cpu = ThreadCPU() - m.from
		return nil, errPlayed
	}
	binary.BigEndian.PutUint64(m.number[:], m.seq)
	m.frames = [3][]byte{nil, m.number[:], m.payloads[m.seq%uint64(len(m.payloads))]}
	m.seq++
	return m.frames[:], nil
}

func (m *memory) Wake()        {}
func (m *memory) Close() error { return nil }

// BenchmarkRing takes messages from the buffer of a socket to the ring of a
// shard, content hashes included, on one thread: everything a stream does but
// for the socket. There are more payloads than a processor can learn by heart.
// The shard's goroutine empties the ring beside it and is not counted.
func BenchmarkRing(b *testing.B) {
	type shape struct {
		name     string
		blocks   int // of one message
		payloads [][]byte
	}
	var shapes []shape
	for _, d := range dialects[:2] {
		shapes = append(shapes, shape{d.name, eventBlocks, d.payloads(0)})
	}
	// What an engine sends while it decodes: a block at a time, in about 200
	// bytes, each with a removal now and then.
	small := make([][]byte, eventsPlayed)
	for i := range small {
		name := scramble(uint64(i))
		m := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 3), 1757376000)
		m = msgp.AppendArrayHeader(m, 2)
		m = dialects[0].removed(m, []uint64{scramble(name), scramble(name + 1)})
		m = dialects[0].stored(m, []uint64{name}, nil)
		small[i] = msgp.AppendNil(m)
	}
	shapes = append(shapes, shape{"small", 1, small})
	// A step of many requests at once: as many blocks, each an event of its own.
	steps := make([][]byte, eventsPlayed)
	for i := range steps {
		m := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 3), 1757376000)
		m = msgp.AppendArrayHeader(m, eventBlocks)
		for k := range uint64(eventBlocks) {
			name := scramble(uint64(i)<<8 | k)
			parent := scramble(name)
			m = dialects[0].stored(m, []uint64{name}, &parent)
		}
		steps[i] = msgp.AppendNil(m)
	}
	shapes = append(shapes, shape{"single-blocks", eventBlocks, steps})
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			ctx := b.Context()
			kept := &sink{}
			sh := shard.New(shard.Options{Index: kept})
			sh.Start(ctx)
			defer sh.Close()
			port, err := sh.OpenPort(ctx)
			if err != nil {
				b.Fatal(err)
			}
			var cpu time.Duration
			var before, after runtime.MemStats
			link := &memory{payloads: s.payloads, warm: uint64(len(s.payloads)), n: b.Loop, cpu: &cpu,
				started: func() { runtime.ReadMemStats(&before) }}
			stream, err := ingest.NewStream(ingest.Options{Source: "w1", Endpoint: "memory", Learned: &ingest.Learned{}, Owner: alone{}, Port: port,
				Dial: func(context.Context, ingest.Hooks) (ingest.Link, error) { return link, nil }})
			if err != nil {
				b.Fatal(err)
			}
			size := 0
			for _, p := range s.payloads {
				size += len(p)
			}
			b.ReportAllocs()
			b.SetBytes(int64(size / len(s.payloads)))
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if err := stream.Run(ctx); !errors.Is(err, ingest.ErrEnd) {
				b.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			for l, v := range stream.Counters() {
				if l.Name == "events_rejected" && v > 0 || l.Name == "blocks" && l.Reason == "stored" && v != link.seq*uint64(s.blocks) {
					b.Fatalf("%s{%s} %d of %d messages", l.Name, l.Reason, v, link.seq)
				}
			}
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N), "cpu-ns/message")
			if s.blocks > 1 {
				b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N*s.blocks), "cpu-ns/block")
				b.ReportMetric(float64(b.N*s.blocks)/cpu.Seconds()/1e6, "Mblocks/s")
			} else {
				b.ReportMetric(float64(b.N)/cpu.Seconds()/1e6, "Mmessages/s")
			}
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N), "allocs/op")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N), "B/op")
		})
	}
}
