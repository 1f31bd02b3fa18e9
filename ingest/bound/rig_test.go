package bound

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/topic"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long bounds every wait: it is never reached on a machine that works.
const long = 20 * time.Second

// rig is a socket and the streams behind it.
type rig struct {
	*Socket
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	lanes map[Key]*stream
	made  chan *stream // every stream, when it is made
	open  func(Key) error
	stall func(Key) // called by a stream before it asks for its next message
}

// heardMsg is a message or the end of a link.
type heardMsg struct {
	topic string
	seq   uint64
	err   error
}

// stream does what an ingest.Stream does with its links.
type stream struct {
	key   Key
	lane  *Lane
	got   chan heardMsg
	beats chan struct{}
	wakes chan struct{}
	mu    sync.Mutex
	link  ingest.Link
	end   context.CancelFunc
}

func newRig(t *testing.T, o Options, template string) *rig {
	t.Helper()
	r := &rig{t: t, lanes: map[Key]*stream{}, made: make(chan *stream, 1024)}
	ctx, cancel := context.WithCancel(context.Background())
	r.ctx = ctx
	if template != "" {
		tmpl, err := topic.Parse(template)
		if err != nil {
			t.Fatal(err)
		}
		o.Template = tmpl
	}
	if o.Bind.Endpoint == "" && o.Connect.Endpoint == "" {
		o.Bind.Endpoint = "tcp://127.0.0.1:0"
	}
	if o.Takeover == 0 {
		o.Takeover = long
	}
	var streams sync.WaitGroup
	o.Open = func(_ context.Context, k Key) (*Lane, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open != nil {
			if err := r.open(k); err != nil {
				return nil, err
			}
		}
		s := r.lanes[k]
		if s == nil {
			s = &stream{key: k, lane: NewLane(), got: make(chan heardMsg, 1<<14), beats: make(chan struct{}, 1), wakes: make(chan struct{}, 1)}
			r.lanes[k] = s
			sctx, end := context.WithCancel(ctx)
			s.end = end
			streams.Go(func() { r.follow(sctx, s) })
			r.made <- s
		}
		return s.lane, nil
	}
	s, err := Listen(ctx, o)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	r.Socket = s
	ended := make(chan error, 1)
	go func() { ended <- s.Run() }()
	t.Cleanup(func() {
		s.Close()
		select {
		case <-ended:
		case <-time.After(long):
			t.Error("the socket does not end")
		}
		cancel()
		streams.Wait()
	})
	return r
}

// follow is the stream's goroutine.
func (r *rig) follow(ctx context.Context, s *stream) {
	signal := func(c chan struct{}) {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	h := ingest.Hooks{
		Heard: func() { signal(s.beats) },
		Woken: func() error { signal(s.wakes); return nil },
	}
	for ctx.Err() == nil {
		l, err := s.lane.Dial(ctx, h)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.link = l
		s.mu.Unlock()
		for {
			if r.stall != nil {
				r.stall(s.key)
			}
			f, err := l.Next()
			if err != nil {
				l.Close() // before a test knows: the lane is free then
				s.got <- heardMsg{err: err}
				break
			}
			m := heardMsg{topic: string(f[0])}
			if len(f) == 3 && len(f[1]) == 8 {
				m.seq = binary.BigEndian.Uint64(f[1])
			}
			s.got <- m
		}
	}
}

// next returns the next stream that comes into being.
func (r *rig) next(want Key) *stream {
	r.t.Helper()
	select {
	case s := <-r.made:
		if s.key != want {
			r.t.Fatalf("a stream of %+v, want %+v", s.key, want)
		}
		return s
	case <-time.After(long):
		r.t.Fatalf("no stream of %+v; %+v", want, r.Stats())
	}
	return nil
}

// hears awaits the numbers given, in order and alone.
func (r *rig) hears(s *stream, seqs ...uint64) {
	r.t.Helper()
	for _, want := range seqs {
		select {
		case m := <-s.got:
			if m.err != nil || m.seq != want {
				r.t.Fatalf("%+v: heard %+v, want %d", s.key, m, want)
			}
		case <-time.After(long):
			r.t.Fatalf("%+v: %d never came; %+v", s.key, want, r.Stats())
		}
	}
}

// ends awaits the end of the link.
func (r *rig) ends(s *stream) error {
	r.t.Helper()
	select {
	case m := <-s.got:
		if m.err == nil {
			r.t.Fatalf("%+v: heard %+v, want the end", s.key, m)
		}
		return m.err
	case <-time.After(long):
		r.t.Fatalf("%+v: the link does not end", s.key)
	}
	return nil
}

// await waits for a count of the socket.
func (r *rig) await(what string, done func(Stats) bool) {
	r.t.Helper()
	for until := time.Now().Add(long); !done(r.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			r.t.Fatalf("%s: %+v", what, r.Stats())
		}
	}
}

func (st Stats) dropped(reason string) uint64 {
	for _, c := range st.Dropped {
		if c.Reason == reason {
			return c.Count
		}
	}
	return 0
}

// publisher connects to the rig and waits for the subscription.
func (r *rig) publisher() *zmtp.Publisher {
	r.t.Helper()
	c := zmtp.PublisherConfig{Backoff: zmtp.Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond}}
	p, err := c.Connect(r.ctx, r.Addr())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { p.Close() })
	r.subscribed(p)
	return p
}

func (r *rig) subscribed(p *zmtp.Publisher) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, long)
	defer cancel()
	if err := p.WaitSubscribers(ctx, 1); err != nil {
		r.t.Fatal(err)
	}
}

// batch is a payload of no events; rank -1 states none.
func batch(rank int) []byte {
	b := []byte{0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x90}
	switch {
	case rank < 0:
		return b
	case rank < 128:
		return append(append([]byte{0x93}, b[1:]...), byte(rank))
	}
	return append(append([]byte{0x93}, b[1:]...), 0xce, byte(rank>>24), byte(rank>>16), byte(rank>>8), byte(rank))
}

func seqFrame(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func send(t *testing.T, p *zmtp.Publisher, topic string, rank int, seqs ...uint64) {
	t.Helper()
	for _, n := range seqs {
		if err := p.Send([]byte(topic), seqFrame(n), batch(rank)); err != nil {
			t.Fatal(err)
		}
	}
}

// mute is a publisher that says one message by hand and answers nothing.
func (r *rig) mute(minor byte, topic string, rank int, seq uint64) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.Addr()[len("tcp://"):])
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10], greeting[11] = 0xff, 0x7f, 3, minor
	copy(greeting[12:], "NULL")
	ready := "\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
	raw := append(greeting, 4, byte(len(ready)))
	raw = append(raw, ready...)
	payload := batch(rank)
	raw = append(append(raw, 1, byte(len(topic))), topic...)
	raw = append(append(raw, 1, 8), seqFrame(seq)...)
	raw = append(append(raw, 0, byte(len(payload))), payload...)
	if _, err := c.Write(raw); err != nil {
		r.t.Fatal(err)
	}
	return c
}

var errNo = errors.New("no")

func key(source, model string, rank int) Key { return Key{source, model, rank} }

func name(i int) string { return fmt.Sprintf("w%03d", i) }
