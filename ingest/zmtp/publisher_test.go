package zmtp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
)

// The oracle: a stock zmq4.NewSub and our reader get the same messages.
func TestDifferentialAgainstNewSub(t *testing.T) {
	const count = 500
	p := listenTest(t, PublisherConfig{})
	ctx, cancel := context.WithCancel(context.Background())
	stock := zmq4.NewSub(ctx)
	defer stock.Close()
	defer cancel() // ends its connections' goroutines, see W8
	if err := stock.Dial(p.Addr()); err != nil {
		t.Fatal(err)
	}
	if err := stock.SetOption(zmq4.OptionSubscribe, "kv@"); err != nil {
		t.Fatal(err)
	}
	ours := dialTest(t, Options{Endpoint: p.Addr(), Topics: []string{"kv@"}})
	if err := p.WaitSubscribers(within(t, 10*time.Second), 2); err != nil {
		t.Fatal(err)
	}

	r := rand.New(rand.NewPCG(1, 2))
	go func() {
		for i := range count {
			frames := [][]byte{[]byte("kv@"), seqFrame(uint64(i))}
			if i%5 == 0 {
				frames[0] = []byte("other") // neither may see it
			}
			for range r.IntN(4) {
				frames = append(frames, bytes.Repeat([]byte{byte(i)}, []int{0, 1, 254, 255, 256, 257, 70000}[r.IntN(7)]))
			}
			p.Send(frames...)
		}
		p.Send([]byte("kv@end"))
	}()
	for n := 0; ; n++ {
		want, err := stock.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ours.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got.Frames(), want.Frames, bytes.Equal) {
			t.Fatalf("message %d: got %d frames, stock got %d, or other bytes", n, len(got.Frames()), len(want.Frames))
		}
		if string(got.Frames()[0]) == "kv@end" {
			if n != count*4/5 {
				t.Fatalf("%d messages, want %d", n, count*4/5)
			}
			return
		}
	}
}

// A stock PUB socket is heard too.
func TestHearsNewPub(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pub := zmq4.NewPub(ctx)
	defer pub.Close()
	if err := pub.Listen("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	c := dialTest(t, Options{Endpoint: "tcp://" + pub.Addr().String()})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() { // its subscription cannot be waited for
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				pub.SendMulti(zmq4.NewMsgFrom([]byte("t"), seqFrame(3), []byte("x")))
			}
		}
	})
	m, err := c.Next()
	if err != nil || len(m.Frames()) != 3 || string(m.Frames()[2]) != "x" {
		t.Fatalf("%q %v", m.Frames(), err)
	}
}

func TestSendFiltersByPrefix(t *testing.T) {
	p := listenTest(t, PublisherConfig{})
	topics := [][]string{{""}, {"a"}, {"ab", "c"}, {"abc"}}
	var conns []*Conn
	for _, ts := range topics {
		conns = append(conns, dialTest(t, Options{Endpoint: p.Addr(), Topics: ts}))
	}
	if err := p.WaitSubscribers(within(t, 10*time.Second), len(topics)); err != nil {
		t.Fatal(err)
	}
	// "ab", "c": wait for the second subscription of the third as well.
	if err := p.wait(within(t, 10*time.Second), func() bool {
		n := 0
		for _, s := range *p.peers.Load() {
			s.mu.Lock()
			n += len(s.topics)
			s.mu.Unlock()
		}
		return n == 5
	}); err != nil {
		t.Fatal(err)
	}
	sent := []string{"", "a", "ab", "abc", "abcd", "b", "c"}
	for _, s := range sent {
		p.Send([]byte(s))
	}
	for i, want := range []string{",a,ab,abc,abcd,b,c", "a,ab,abc,abcd", "ab,abc,abcd,c", "abc,abcd"} {
		got := ""
		for len(got) < len(want) {
			m, err := conns[i].Next()
			if err != nil {
				t.Fatal(err)
			}
			if got != "" || string(m.Frames()[0]) == "" {
				got += ","
			}
			got += string(m.Frames()[0])
			got = trimLead(got)
		}
		if got != want {
			t.Errorf("%q got %q, want %q", topics[i], got, want)
		}
	}
	// Both forms of taking a subscription back.
	if err := conns[1].Unsubscribe("a"); err != nil {
		t.Fatal(err)
	}
	if err := conns[3].sendCommand(cmdCancel, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(within(t, 10*time.Second), func() bool { return p.Subscribers() == 2 }); err != nil {
		t.Fatal(err)
	}
	if err := conns[3].sendCommand(cmdSubscribe, []byte("z")); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitSubscribers(within(t, 10*time.Second), 3); err != nil {
		t.Fatal(err)
	}
	p.Send([]byte("abc"))
	p.Send([]byte("zz"))
	if m, err := conns[3].Next(); err != nil || string(m.Frames()[0]) != "zz" {
		t.Fatalf("%q %v", m.Frames(), err)
	}
}

func trimLead(s string) string {
	if len(s) > 1 && s[0] == ',' && s[1] == ',' {
		return s[1:]
	}
	return s
}

// Send never drops: a slow subscriber makes it wait, and gets everything.
func TestSendWaitsForSlowSubscriber(t *testing.T) {
	p, c := joined(t, PublisherConfig{SendBuffer: 8 << 10}, Options{})
	const count = 2000
	body := make([]byte, 8<<10)
	sent := make(chan error, 1)
	go func() {
		for i := range count {
			if err := p.Send(seqFrame(uint64(i)), body); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range count {
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got := binary.BigEndian.Uint64(m.Frames()[0]); got != uint64(i) {
			t.Fatalf("got %d, want %d", got, i)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if p.Dropped() != 0 {
		t.Fatal("dropped", p.Dropped())
	}
}

// With Drop it loses whole messages and keeps the order.
func TestDropLosesWholeMessages(t *testing.T) {
	p, c := joined(t, PublisherConfig{SendBuffer: 8 << 10, Drop: true}, Options{})
	body := make([]byte, 8<<10)
	n := uint64(0)
	for p.Dropped() == 0 {
		p.Send(seqFrame(n), body)
		n++
	}
	if err := p.Flush(contextAfter(t, c, n)); err != nil {
		t.Fatal(err)
	}
	p.Send(seqFrame(n), []byte("last"))
	var last uint64
	for i := uint64(0); ; i++ {
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		seq := binary.BigEndian.Uint64(m.Frames()[0])
		if i > 0 && seq <= last {
			t.Fatalf("%d after %d", seq, last)
		}
		last = seq
		if string(m.Frames()[1]) == "last" {
			break
		}
	}
}

// contextAfter drains one message, so that a full socket can move again.
func contextAfter(t *testing.T, c *Conn, sent uint64) context.Context {
	t.Helper()
	for range sent / 2 {
		if _, err := c.Next(); err != nil {
			t.Fatal(err)
		}
	}
	return within(t, 10*time.Second)
}

// A subscriber that takes nothing for SendTimeout is hung up on, and Send goes
// on for the others.
func TestSendTimeoutDropsStuckSubscriber(t *testing.T) {
	p, c := joined(t, PublisherConfig{SendTimeout: 100 * time.Millisecond, SendBuffer: 64 << 10}, Options{})
	body := make([]byte, 64<<10)
	for p.Subscribers() > 0 {
		if err := p.Send(body); err != nil {
			t.Fatal(err)
		}
	}
	for {
		if _, err := c.Next(); err != nil {
			break
		}
	}
}

func TestCloseWakesSenders(t *testing.T) {
	for _, how := range []string{"close", "cancel"} {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			p, err := PublisherConfig{SendBuffer: 8 << 10, Linger: -1}.Listen(ctx, "tcp://127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			c := dialTest(t, Options{Endpoint: p.Addr()})
			if err := p.WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				body := make([]byte, 64<<10)
				for {
					if err := p.Send(body); err != nil {
						ended <- err
						return
					}
				}
			}()
			c.Next()
			if how == "close" {
				p.Close()
			} else {
				cancel()
			}
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
			if err := p.WaitSubscribers(within(t, time.Second), 5); !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
		})
	}
}

// Close sends what it still has.
func TestCloseLingers(t *testing.T) {
	p, c := joined(t, PublisherConfig{}, Options{})
	for i := range 100 {
		p.Send(seqFrame(uint64(i)))
	}
	p.Close()
	for i := range 100 {
		m, err := c.Next()
		if err != nil || binary.BigEndian.Uint64(m.Frames()[0]) != uint64(i) {
			t.Fatal(i, err)
		}
	}
	if _, err := c.Next(); err == nil {
		t.Fatal("a closed publisher went on")
	}
}

// The publisher answers PINGs, and says 3.1, so that they are sent to it.
func TestPublisherAnswersPing(t *testing.T) {
	p := listenTest(t, PublisherConfig{})
	beats := make(chan struct{}, 16)
	c := dialTest(t, Options{Endpoint: p.Addr(), HeartbeatInterval: 5 * time.Millisecond, Heartbeat: func() { beats <- struct{}{} }})
	go c.Next()
	for range 3 {
		select {
		case <-beats:
		case <-time.After(10 * time.Second):
			t.Fatal("no heartbeat")
		}
	}
}

func TestDialRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Dial(within(t, time.Minute), Options{Endpoint: "tcp://" + l.Addr().String()}); err == nil {
		t.Fatal("connected to a port nobody listens on")
	}
	if _, err := Dial(within(t, time.Minute), Options{Endpoint: "nowhere"}); !errors.Is(err, ErrEndpoint) {
		t.Fatal(err)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, size := range []int{200, 4 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p, c := joined(b, PublisherConfig{}, Options{})
			topic, body := []byte(""), make([]byte, size)
			done := make(chan struct{})
			go func() {
				defer close(done)
				seq := make([]byte, 8)
				for i := range b.N {
					binary.BigEndian.PutUint64(seq, uint64(i))
					if p.Send(topic, seq, body) != nil {
						return
					}
				}
			}()
			b.ReportAllocs()
			b.SetBytes(int64(size))
			b.ResetTimer()
			for range b.N {
				if _, err := c.Next(); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			<-done
		})
	}
}
