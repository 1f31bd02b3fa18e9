package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
	"github.com/tinylib/msgp/msgp"
)

// streamed is a stream in front of an index, on a thread of its own.
type streamed struct {
	*ingest.Stream
	port  *shard.Port
	shard *shard.Shard
	index *tree.Index
	cpu   time.Duration // of the stream's thread, once it has ended
	ended chan struct{}
}

func newStreamed(tb testing.TB, ctx context.Context, o ingest.Options) *streamed {
	tb.Helper()
	s := &streamed{index: newIndex().(*tree.Index), ended: make(chan struct{})}
	s.shard = shard.New(shard.Options{Index: s.index})
	s.shard.Start(ctx)
	tb.Cleanup(func() { s.shard.Close() })
	var err error
	if s.port, err = s.shard.OpenPort(ctx); err != nil {
		tb.Fatal(err)
	}
	o.Source, o.Owner, o.Learned, o.Port = "w", s, new(ingest.Learned), s.port
	if s.Stream, err = ingest.NewStream(o); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		runtime.LockOSThread()
		from := ThreadCPU()
		_ = s.Run(ctx) // it ends with its link or its context
		s.cpu = ThreadCPU() - from
	}()
	return s
}

func (s *streamed) Holder(int, ingest.Domain) (h tree.Holder, generation uint32, err error) {
	derr := s.shard.Do(context.Background(), func(w tree.Writer) { h, err = w.AddHolder(tree.Copies, 1) })
	return h, 0, errors.Join(derr, err)
}

func (s *streamed) Root(int, int) (tree.Root, error)     { return 1, nil }
func (s *streamed) Learned(int, ingest.Domain, int, int) {}
func (s *streamed) applied(ctx context.Context, n int) error {
	return s.port.WaitApplied(ctx, shard.Position{Seq: uint64(n - 1), Any: true})
}

// playback is a link that has its messages in memory.
type playback struct {
	payloads [][]byte
	frames   [3][]byte
	next, n  int
}

func (m *playback) Next() ([][]byte, error) {
	if m.next == m.n {
		return nil, ingest.ErrEnd
	}
	binary.BigEndian.PutUint64(m.frames[1], uint64(m.next))
	m.frames[2] = m.payloads[m.next%len(m.payloads)]
	m.next++
	return m.frames[:], nil
}

func (m *playback) Wake()        {}
func (m *playback) Close() error { return nil }

// BenchmarkStream takes payloads of 32 blocks of 16 tokens from a buffer to the
// ring, by the stream that does it for every source: sequence, decoding, rules,
// hashing. ring-ns/block is the CPU time of the stream's thread; ns/op is until
// the index has it.
func BenchmarkStream(b *testing.B) {
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) {
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			defer cancel()
			payloads := d.payloads(0)
			b.ReportAllocs()
			b.ResetTimer()
			s := newStreamed(b, ctx, ingest.Options{Endpoint: "memory", Dial: func(context.Context, ingest.Hooks) (ingest.Link, error) {
				return &playback{payloads: payloads, frames: [3][]byte{nil, make([]byte, 8), nil}, n: b.N}, nil
			}})
			if err := s.applied(ctx, b.N); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			<-s.ended
			b.ReportMetric(float64(s.cpu.Nanoseconds())/float64(b.N*eventBlocks), "ring-ns/block")
		})
	}
}

// BenchmarkSocket takes small messages of 200 bytes, one block of 32 tokens,
// from a publisher's socket over loopback to the index. The publisher is in this
// process and on its processors; stream-ns/msg is the CPU time of the stream's
// thread alone, system calls included.
func BenchmarkSocket(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	pub, err := zmtp.Listen(ctx, "tcp://127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer pub.Close()
	s := newStreamed(b, ctx, ingest.Options{Endpoint: pub.Addr()})
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		b.Fatal(err)
	}
	payload, seq := small(), make([]byte, 8)
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	b.ResetTimer()
	for n := range b.N {
		binary.BigEndian.PutUint64(seq, uint64(n))
		if err := pub.Send(nil, seq, payload); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.applied(ctx, b.N); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	cancel()
	<-s.ended
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(s.cpu.Nanoseconds())/float64(b.N), "stream-ns/msg")
}

// small is a batch of 200 bytes: a store of one block of 32 tokens.
func small() []byte {
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, 1757376000)
	b = msgp.AppendArrayHeader(msgp.AppendArrayHeader(b, 1), 8)
	b = msgp.AppendString(b, "BlockStored")
	b = appendNames(b, []uint64{scramble(1)})
	b = msgp.AppendNil(b)
	b = msgp.AppendArrayHeader(b, 2*blockTokens)
	for k := range uint64(2 * blockTokens) {
		b = msgp.AppendUint32(b, uint32(70_000+k))
	}
	b = msgp.AppendInt(b, 2*blockTokens)
	b = msgp.AppendNil(b)
	b = msgp.AppendString(b, "GPU")
	b = msgp.AppendNil(b)
	return msgp.AppendNil(b)
}
