package grpcsource

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Messages are written here from the numbers of the protocol alone.

func varint(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func inner(b []byte, n protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), m)
}

func signed(v int64) uint64 { return uint64(v) }

// kvBlock has its tokens packed, as protoc's code writes them.
func kvBlock(hash int64, size int, level int, tokens ...uint32) []byte {
	b := varint(nil, 1, signed(hash))
	var packed []byte
	for _, t := range tokens {
		packed = protowire.AppendVarint(packed, uint64(t))
	}
	b = inner(b, 2, packed)
	b = varint(b, 3, uint64(size))
	if level >= 0 {
		b = varint(b, 5, uint64(level))
	}
	return b
}

func kvStored(parent *int64, blocks ...[]byte) []byte {
	var b []byte
	for _, k := range blocks {
		b = inner(b, 1, k)
	}
	if parent != nil {
		b = varint(b, 2, signed(*parent))
	}
	return inner(varint(nil, 1, 1), 2, b)
}

func kvRemoved(level int, hashes ...int64) []byte {
	var b []byte
	for _, h := range hashes {
		b = varint(b, 1, signed(h)) // not packed: that is legal too
	}
	if level >= 0 {
		b = varint(b, 2, uint64(level))
	}
	return inner(varint(nil, 1, 2), 3, b)
}

func kvCleared() []byte { return inner(nil, 4, nil) }

func kvBatch(seq uint64, rank int, events ...[]byte) []byte {
	b := varint(nil, 1, seq)
	b = protowire.AppendFixed64(protowire.AppendTag(b, 2, protowire.Fixed64Type), math.Float64bits(1757376000.5))
	for _, e := range events {
		b = inner(b, 3, e)
	}
	if rank >= 0 {
		b = varint(b, 4, uint64(rank))
	}
	return inner(b, 99, []byte("a field of a later version"))
}

// server is an engine's gRPC server whose subscriptions a test plays.
type server struct {
	t       *testing.T
	address string
	calls   chan *call // subscriptions, as they come
	quit    chan struct{}

	mu      sync.Mutex
	methods []string
}

// call is one subscription.
type call struct {
	start uint64 // asked for
	send  chan []byte
	end   chan error
	gone  chan struct{} // closed when the client went away
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, calls: make(chan *call, 16), quit: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	g := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(s.handle))
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		close(s.quit)
		g.Stop()
		<-served
	})
	return s
}

func (s *server) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	s.mu.Lock()
	s.methods = append(s.methods, method)
	s.mu.Unlock()
	var m []byte
	if err := stream.RecvMsg(&m); err != nil {
		return err
	}
	c := &call{send: make(chan []byte), end: make(chan error), gone: make(chan struct{})}
	err := fields(m, func(n protowire.Number, _ protowire.Type, v uint64, _ []byte) bool {
		c.start = v
		return n == 1
	})
	if err != nil {
		return err
	}
	defer close(c.gone)
	s.calls <- c
	for {
		select {
		case b := <-c.send:
			if err := stream.SendMsg(b); err != nil {
				return err
			}
		case err := <-c.end:
			return err
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-s.quit:
			return nil
		}
	}
}

// next is the next subscription.
func (s *server) next(start uint64) *call {
	s.t.Helper()
	select {
	case c := <-s.calls:
		if c.start != start {
			s.t.Fatalf("asked for %d, want %d", c.start, start)
		}
		return c
	case <-time.After(20 * time.Second):
		s.t.Fatal("no subscription")
		return nil
	}
}

// rig is an engine that follows a server.
type rig struct {
	*testing.T
	*server
	engine *engine.Engine
	ctx    context.Context
}

func follow(t *testing.T) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	s := serve(t)
	e, err := engine.Open(engine.Options{Backoff: zmtp.Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	})
	if err := Add(ctx, e, engine.Source{ID: "w", Model: "m"}, Options{Target: s.address, Service: SGLang}); err != nil {
		t.Fatal(err)
	}
	return &rig{T: t, server: s, engine: e, ctx: ctx}
}

// give sends a batch and waits until it is applied.
func (r *rig) give(c *call, seq uint64, rank int, events ...[]byte) {
	r.Helper()
	c.send <- kvBatch(seq, rank, events...)
	if err := r.engine.WaitApplied(r.ctx, "w", 0, seq); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) depth(rank int, want engine.Depths, tokens ...uint32) {
	r.Helper()
	var a engine.Answer
	if err := r.engine.Match(&engine.Query{Model: "m", Tokens: tokens}, &a); err != nil {
		r.Fatal(err)
	}
	var got engine.Depths
	for _, h := range a.Holders {
		if h.Rank == rank {
			got = h.Tokens
		}
	}
	if got.Device != want.Device || got.Any != want.Any {
		r.Errorf("rank %d has %+v, want %+v", rank, got, want)
	}
}

func (r *rig) state(want engine.State, cause string) {
	r.Helper()
	st := r.engine.Sources()[0].Streams[0]
	if st.State != want || st.Cause != cause {
		r.Errorf("state %s (%s), want %s (%s)", st.State, st.Cause, want, cause)
	}
}

// await polls for what has no event.
func (r *rig) await(what string, cond func() bool) {
	r.Helper()
	for !cond() {
		select {
		case <-time.After(time.Millisecond):
		case <-r.ctx.Done():
			r.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestEvents(t *testing.T) {
	r := follow(t)
	c := r.next(0)
	root := int64(-81985529216486896)
	r.give(c, 0, 0, kvStored(nil, kvBlock(root, 4, -1, 1, 2, 3, 4)))
	r.state(engine.Exact, "")
	// The example of the protocol: block 20 on device under 0xfedcba9876543210.
	r.give(c, 1, 0, kvStored(&root, kvBlock(20, 4, 0, 5, 6, 7, 8)))
	r.depth(0, engine.Depths{Device: 8, Any: 8}, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	// One event, two tiers; another rank.
	twenty := int64(20)
	r.give(c, 2, 0, kvStored(&twenty, kvBlock(21, 4, 1, 9, 10, 11, 12), kvBlock(22, 4, 0, 13, 14, 15, 16)))
	r.depth(0, engine.Depths{Device: 8, Any: 16}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
	r.give(c, 3, 3, kvStored(nil, kvBlock(5, 4, 0, 1, 2, 3, 4)))
	r.depth(3, engine.Depths{Device: 4, Any: 4}, 1, 2, 3, 4)
	r.give(c, 4, 0, kvRemoved(-1, 20), kvRemoved(1, 21))
	r.depth(0, engine.Depths{Device: 4, Any: 4}, 1, 2, 3, 4, 5, 6, 7, 8)
	r.give(c, 5, -1, kvCleared(), inner(nil, 9, nil)) // and an event of a later version
	r.depth(0, engine.Depths{}, 1, 2, 3, 4)
	r.depth(3, engine.Depths{Device: 4, Any: 4}, 1, 2, 3, 4)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.methods[0] != "/sglang.grpc.scheduler.SglangScheduler/SubscribeKvEvents" {
		t.Errorf("called %s", r.methods[0])
	}
}

// TestSequences plays the rules of the client one by one.
func TestSequences(t *testing.T) {
	a := kvStored(nil, kvBlock(1, 4, 0, 1, 2, 3, 4))
	one := int64(1)
	b := kvStored(&one, kvBlock(2, 4, 0, 5, 6, 7, 8))

	t.Run("a gap is asked for at once", func(t *testing.T) {
		r := follow(t)
		c := r.next(0)
		r.give(c, 0, 0)
		r.give(c, 1, 0, a)
		c.send <- kvBatch(3, 0, kvRemoved(0, 2)) // 2 is missing
		c2 := r.next(1)
		<-c.gone
		r.give(c2, 2, 0, b)
		r.give(c2, 3, 0, kvRemoved(0, 2))
		r.depth(0, engine.Depths{Device: 4, Any: 4}, 1, 2, 3, 4, 5, 6, 7, 8)
		r.state(engine.Exact, "")
	})
	t.Run("a gap that stays is a loss", func(t *testing.T) {
		r := follow(t)
		c := r.next(0)
		r.give(c, 0, 0)
		r.give(c, 1, 0, a)
		c.send <- kvBatch(5, 0, b)
		c2 := r.next(1)
		r.give(c2, 5, 0, b)
		r.depth(0, engine.Depths{}, 1, 2, 3, 4)
		r.state(engine.Degraded, "gap")
		c2.send <- kvBatch(8, 0, a) // the next one is asked for again
		c3 := r.next(5)
		r.give(c3, 8, 0, a)
		r.depth(0, engine.Depths{Device: 4, Any: 4}, 1, 2, 3, 4)
	})
	t.Run("what came before is skipped", func(t *testing.T) {
		r := follow(t)
		c := r.next(0)
		r.give(c, 0, 0, a)
		c.send <- kvBatch(0, 0, kvCleared())
		r.give(c, 1, 0, b)
		r.depth(0, engine.Depths{Device: 8, Any: 8}, 1, 2, 3, 4, 5, 6, 7, 8)
		r.state(engine.Exact, "")
	})
	t.Run("asked from now on, any first is right", func(t *testing.T) {
		r := follow(t)
		r.give(r.next(0), 77, 0, a)
		r.depth(0, engine.Depths{Device: 4, Any: 4}, 1, 2, 3, 4)
		r.state(engine.Degraded, "late_join")
	})
	t.Run("the end is not the end of the source", func(t *testing.T) {
		r := follow(t)
		c := r.next(0)
		r.give(c, 0, 0)
		r.give(c, 1, 0, a)
		c.end <- nil
		c = r.next(1)
		r.give(c, 2, 0, b)
		r.depth(0, engine.Depths{Device: 8, Any: 8}, 1, 2, 3, 4, 5, 6, 7, 8)
		r.state(engine.Exact, "")
		c.end <- status.Error(codes.Unavailable, "going down")
		r.next(2).send <- kvBatch(0, 0, b) // another process: it counts from the start
		r.await("the restart", func() bool {
			st := r.engine.Sources()[0].Streams[0]
			return st.Incarnation == 1 && st.Visible
		})
		r.depth(0, engine.Depths{}, 1, 2, 3, 4)
	})
	t.Run("DATA_LOSS begins anew", func(t *testing.T) {
		r := follow(t)
		c := r.next(0)
		r.give(c, 0, 0)
		r.give(c, 1, 0, a)
		c.end <- status.Error(codes.DataLoss, "behind the buffer")
		r.give(r.next(0), 2, 0, b) // though its number would be the next
		r.depth(0, engine.Depths{}, 1, 2, 3, 4)
		r.state(engine.Degraded, "late_join")
	})
	t.Run("UNIMPLEMENTED ends the source", func(t *testing.T) {
		r := follow(t)
		c := r.next(0)
		c.end <- status.Error(codes.Unimplemented, "no such call")
		r.await("the end of the stream", func() bool { return !r.engine.Sources()[0].Streams[0].Connected })
		select {
		case <-r.calls:
			t.Error("subscribed again")
		case <-time.After(50 * time.Millisecond): // a wrong one would come after a millisecond
		}
	})
	t.Run("a message that is none", func(t *testing.T) {
		r := follow(t)
		c := r.next(0)
		r.give(c, 0, 0)
		r.give(c, 1, 0, a)
		c.send <- []byte{0x0a, 0xff}
		r.give(r.next(1), 2, 0, b)
		r.depth(0, engine.Depths{Device: 8, Any: 8}, 1, 2, 3, 4, 5, 6, 7, 8)
	})
}

func TestOptions(t *testing.T) {
	e, err := engine.Open(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	for field, o := range map[string]Options{"target": {Service: VLLM}, "service": {Target: "h:1"}} {
		var f *engine.FieldError
		if err := Add(context.Background(), e, engine.Source{ID: "w", Model: "m"}, o); !errors.As(err, &f) || f.Field != field {
			t.Errorf("without %s: %v", field, err)
		}
	}
	var f *engine.FieldError
	if err := Add(context.Background(), e, engine.Source{ID: "w", Model: "m", Ranks: 2}, Options{Target: "h:1", Service: VLLM}); !errors.As(err, &f) || f.Field != "ranks" {
		t.Errorf("two ranks: %v", err)
	}
}

// TestDamagedMessages: no message makes the reader fall over, whatever it was cut
// to or became on its way.
func TestDamagedMessages(t *testing.T) {
	one := int64(1)
	whole := kvBatch(7, 1, kvStored(&one, kvBlock(20, 4, 0, 5, 6, 7, 8), kvBlock(21, 4, 3, 1)), kvRemoved(1, 3, -4), kvCleared())
	read := func(b []byte) {
		var m batch
		if err := m.parse(b); err != nil {
			if !errors.Is(err, errMessage) {
				t.Errorf("%x: %v", b, err)
			}
			return
		}
		if out := payload(nil, &m); !bytes.HasPrefix(out, []byte{0x93}) {
			t.Errorf("%x became %x", b, out)
		}
	}
	for n := range whole {
		read(whole[:n])
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[n] ^= 1 << bit
			read(b)
		}
	}
}
