package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/internal/memnet"
)

// The tests of this file are named after the weaknesses of zmq4's sockets that
// they keep out of this package.

// W1: automatic reconnect deadlocks against a publisher that crashes over and
// over. Ours dials again each time, and hears the good publisher in the end.
func TestW1CrashLoopingPublisher(t *testing.T) {
	const cycles = 120
	ctx := within(t, time.Minute)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	crashed := make(chan error, 1)
	go func() {
		defer l.Close()
		for i := range cycles {
			c, err := l.Accept()
			if err != nil {
				crashed <- err
				return
			}
			if i%2 == 0 { // half of them die inside the handshake
				greetAsPub(c, 1)
			}
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
		crashed <- nil
	}()

	heard := make(chan string, 1)
	go func() {
		back := Backoff{Min: time.Millisecond, Max: 4 * time.Millisecond}
		for ctx.Err() == nil {
			c, err := Dial(ctx, Options{Endpoint: "tcp://" + addr})
			if err == nil {
				var m Message
				if m, err = c.Next(); err == nil {
					heard <- string(m.Frames()[2])
				}
				c.Close()
				if err == nil {
					return
				}
			}
			back.Wait(ctx)
		}
	}()

	if err := <-crashed; err != nil {
		t.Fatal(err)
	}
	good, err := Listen(ctx, "tcp://"+addr)
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	if err := good.WaitSubscribers(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := good.Send([]byte("t"), seqFrame(0), []byte("alive")); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-heard:
		if got != "alive" {
			t.Fatalf("heard %q", got)
		}
	case <-ctx.Done():
		t.Fatal("the good publisher was never heard")
	}
}

// W2, W3: a socket with two endpoints redials the one dialled last, so the
// first never returns and the second comes twice, and the endpoint's field is
// raced for. Ours has one connection object per endpoint.
func TestW2TwoEndpointsReturnEachOnce(t *testing.T) { twoEndpoints(t) }

// W3 is W2 under the race detector, with both endpoints failing together.
func TestW3ReconnectsDoNotRace(t *testing.T) {
	for range 5 {
		twoEndpoints(t)
	}
}

func twoEndpoints(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t, 30*time.Second))
	defer cancel()
	var pubs [2]*Publisher
	var got [2]chan string
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i := range pubs {
		pubs[i] = listenTest(t, PublisherConfig{})
		got[i] = make(chan string, 16)
		wg.Go(func() {
			back := Backoff{Min: time.Millisecond, Max: 4 * time.Millisecond}
			for ctx.Err() == nil {
				c, err := Dial(ctx, Options{Endpoint: pubs[i].Addr()})
				for err == nil {
					var m Message
					if m, err = c.Next(); err == nil {
						got[i] <- string(m.Frames()[0])
					}
				}
				if c != nil {
					c.Close()
				}
				back.Wait(ctx)
			}
		})
	}
	for round := range 3 {
		for i, p := range pubs {
			if err := p.WaitSubscribers(ctx, 1); err != nil {
				t.Fatal(err)
			}
			if n := p.Subscribers(); n != 1 {
				t.Fatalf("round %d: publisher %d has %d subscribers", round, i, n)
			}
			want := fmt.Sprintf("%d of %d", round, i)
			p.Send([]byte(want))
			select {
			case s := <-got[i]:
				if s != want {
					t.Fatalf("got %q, want %q", s, want)
				}
			case <-ctx.Done():
				t.Fatalf("%q never came", want)
			}
		}
		for _, p := range pubs {
			p.Disconnect()
			if err := p.WaitEnded(ctx, round+1); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// W4: no handshake deadline, and a listener that shakes hands in its accept
// loop.
func TestW4SilentPeerDoesNotHoldDial(t *testing.T) {
	for _, c := range []struct {
		name   string
		script func(net.Conn)
	}{
		{"says nothing", hangUntilClosed},
		{"greets and says nothing", func(c net.Conn) { c.Write(greetingBytes(1)); hangUntilClosed(c) }},
		{"half a greeting", func(c net.Conn) { c.Write(greetingBytes(1)[:30]); hangUntilClosed(c) }},
		{"half a READY", func(c net.Conn) {
			c.Write(append(greetingBytes(1), readyFrame("PUB")[:9]...))
			hangUntilClosed(c)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := Dial(within(t, time.Minute), Options{Endpoint: rawPeer(t, c.script), HandshakeTimeout: 100 * time.Millisecond})
			if err == nil {
				conn.Close()
				t.Fatal("connected to a peer that never finished its handshake")
			}
			var ne net.Error
			if !errors.As(err, &ne) || !ne.Timeout() {
				t.Fatalf("got %v, want a time-out", err)
			}
		})
	}
}

func TestW4CancelEndsDial(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("gone")
	endpoint := rawPeer(t, func(c net.Conn) { cancel(gone); hangUntilClosed(c) })
	if _, err := Dial(ctx, Options{Endpoint: endpoint, HandshakeTimeout: time.Hour}); err != gone {
		t.Fatalf("got %v, want the context's cause", err)
	}
}

func TestW4SilentClientDoesNotHoldPublisher(t *testing.T) {
	p := listenTest(t, PublisherConfig{HandshakeTimeout: 200 * time.Millisecond})
	var silent []net.Conn
	for range 8 {
		c, err := net.Dial("tcp", p.Addr()[len("tcp://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	conn := dialTest(t, Options{Endpoint: p.Addr()})
	if err := p.WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	p.Send([]byte("t"))
	if _, err := conn.Next(); err != nil {
		t.Fatal(err)
	}
	for _, c := range silent { // each is hung up on in the end
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Fatal(err)
		}
	}
}

// W5: malformed READY metadata and absurd lengths panic, or allocate until the
// process dies, which recover does not catch.
func w5Handshakes() map[string][]byte {
	greet := greetingBytes(1)
	long := func(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{flagLong | flagCommand}, n) }
	cat := func(p ...[]byte) []byte { return slices.Concat(p...) }
	old := greetingBytes(0)
	old[10] = 2
	curve := greetingBytes(1)
	copy(curve[12:], "CURVE")
	return map[string][]byte{
		"no ZMTP at all":             bytes.Repeat([]byte("HTTP/1.1 400 Bad Request\r\n"), 10),
		"ZMTP 2":                     cat(old, readyFrame("PUB")),
		"CURVE":                      cat(curve, readyFrame("PUB")),
		"READY of 2^46":              cat(greet, long(1<<46)),
		"READY of 2^63":              cat(greet, long(1<<63)),
		"READY of 2^64-1":            cat(greet, long(1<<64-1)),
		"READY of 16 KiB":            cat(greet, long(16<<10), make([]byte, 16<<10)),
		"endless commands":           cat(greet, bytes.Repeat([]byte{flagCommand | flagMore, 200}, 30000)),
		"empty command":              cat(greet, []byte{flagCommand, 0}),
		"name longer than frame":     cat(greet, []byte{flagCommand, 3, 200, 'R', 'E'}),
		"ERROR":                      cat(greet, commandFrame("ERROR", []byte("\x06denied"))),
		"a message":                  cat(greet, appendFrame(nil, 0, []byte("hello"))),
		"metadata name cut":          cat(greet, commandFrame("READY", []byte{11, 'S', 'o'})),
		"metadata value length cut":  cat(greet, commandFrame("READY", []byte("\x0bSocket-Type\x00\x00"))),
		"metadata value cut":         cat(greet, commandFrame("READY", []byte("\x0bSocket-Type\x00\x00\x00\x09PUB"))),
		"metadata value 2^32-1 long": cat(greet, commandFrame("READY", []byte("\x0bSocket-Type\xff\xff\xff\xffPUB"))),
		"a single 0xff":              cat(greet, commandFrame("READY", []byte{0xff})),
		"wrong socket type":          cat(greet, readyFrame("DEALER")),
		"no socket type":             cat(greet, commandFrame("READY", nil)),
	}
}

func TestW5MalformedHandshakeAtDial(t *testing.T) {
	for name, raw := range w5Handshakes() {
		t.Run(name, func(t *testing.T) {
			// The peer hangs up when done, so that nothing waits for more.
			endpoint := rawPeer(t, func(c net.Conn) {
				c.Write(raw)
				c.(*net.TCPConn).CloseWrite()
				hangUntilClosed(c)
			})
			conn, err := Dial(within(t, time.Minute), Options{Endpoint: endpoint})
			if err == nil {
				conn.Close()
				t.Fatal("connected")
			}
			if !errors.Is(err, ErrHandshake) && !errors.Is(err, ErrTooBig) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("unexpected kind of error: %v", err)
			}
		})
	}
}

// Who follows the port of an HTTP server by mistake is told what answers there.
func TestW5NoZMTPAtAll(t *testing.T) {
	for name, c := range map[string]struct{ says, want string }{
		"a whole answer":      {"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\nInvalid HTTP request received.", `"HTTP/1.1 4"`},
		"a few bytes":         {"+OK\r\n", `"+OK\r\n"`},
		"half of a signature": {"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x00 and so on", `"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x00"`},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := rawPeer(t, func(n net.Conn) {
				n.Write([]byte(c.says))
				n.(*net.TCPConn).CloseWrite()
				hangUntilClosed(n)
			})
			_, err := Dial(within(t, time.Minute), Options{Endpoint: endpoint})
			if !errors.Is(err, ErrHandshake) || errors.Is(err, ErrAuth) || !strings.Contains(err.Error(), "does not speak ZMTP: it begins with "+c.want) {
				t.Errorf("got %v, want that it begins with %s", err, c.want)
			}
		})
	}
}

func TestW5MalformedHandshakeAtPublisher(t *testing.T) {
	p := listenTest(t, PublisherConfig{})
	for name, raw := range w5Handshakes() {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", p.Addr()[len("tcp://"):])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.Write(raw)
			c.(*net.TCPConn).CloseWrite()
			c.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := io.Copy(io.Discard, c); errors.As(err, new(net.Error)) && err.(net.Error).Timeout() {
				t.Fatal("the publisher did not hang up")
			}
			if p.Subscribers() != 0 {
				t.Fatal("it was taken for a subscriber")
			}
		})
	}
	conn := dialTest(t, Options{Endpoint: p.Addr()}) // and the publisher lives
	if err := p.WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	p.Send([]byte("t"))
	if _, err := conn.Next(); err != nil {
		t.Fatal(err)
	}
}

func TestW5AbsurdFramesAfterHandshake(t *testing.T) {
	long := func(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{flagLong}, n) }
	for _, c := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"2^46", long(1 << 46), ErrTooBig},
		{"2^63", long(1 << 63), ErrTooBig},
		{"2^64-1", long(1<<64 - 1), ErrTooBig},
		{"reserved flags", []byte{0x40, 0}, ErrFrame},
		{"command without name", []byte{flagCommand, 0}, ErrFrame},
		{"command with a cut name", []byte{flagCommand, 2, 9, 'P'}, ErrFrame},
		{"PING without time to live", commandFrame(cmdPing, nil), ErrFrame},
		{"PING with a long context", commandFrame(cmdPing, make([]byte, 19)), ErrFrame},
	} {
		t.Run(c.name, func(t *testing.T) {
			endpoint := rawPeer(t, func(n net.Conn) {
				if greetAsPub(n, 1) == nil {
					n.Write(c.raw)
				}
				hangUntilClosed(n)
			})
			conn := dialTest(t, Options{Endpoint: endpoint})
			if _, err := conn.Next(); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

// W6: unanswered PINGs, which cost the connection and appear as messages.
func TestW6PingIsAnswered(t *testing.T) {
	answers := make(chan []byte, 8)
	endpoint := rawPeer(t, func(c net.Conn) {
		if greetAsPub(c, 1) != nil {
			return
		}
		for _, context := range []string{"", "ctx", "sixteen bytes it"} {
			c.Write(commandFrame(cmdPing, append([]byte{0, 50}, context...)))
			c.Write(appendFrame(nil, 0, []byte("m")))
			c.Write(commandFrame("UNHEARD-OF", nil))
			pong := make([]byte, len(commandFrame(cmdPong, []byte(context))))
			if _, err := io.ReadFull(c, pong); err != nil {
				t.Error(err)
			}
			answers <- pong
		}
	})
	beats := 0
	conn := dialTest(t, Options{Endpoint: endpoint, Heartbeat: func() { beats++ }})
	for _, context := range []string{"", "ctx", "sixteen bytes it"} {
		m, err := conn.Next()
		if err != nil || len(m.Frames()) != 1 || string(m.Frames()[0]) != "m" {
			t.Fatalf("%q %v", m.Frames(), err)
		}
		if got, want := <-answers, commandFrame(cmdPong, []byte(context)); !bytes.Equal(got, want) {
			t.Fatalf("answered %q, want %q", got, want)
		}
	}
	if beats != 3 {
		t.Fatalf("%d heartbeats, want 3", beats)
	}
}

// A peer that answers heartbeats may be silent otherwise; one that stops
// answering is given up; one of an older protocol is not judged.
func TestW6HeartbeatsAndSilence(t *testing.T) {
	for _, c := range []struct {
		name    string
		minor   byte
		answers int
		want    error
		after   time.Duration
	}{
		{"never answers", 1, 0, ErrIdle, 3 * time.Hour},
		{"stops answering", 1, 5, ErrIdle, 9 * time.Hour},
		{"answers until it ends", 1, 99, io.EOF, 99 * time.Hour},
		{"ZMTP 3.0", 0, 0, io.EOF, 99 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := memnet.Pipe()
				go func() {
					defer far.Close()
					if err := greetAsPub(far, c.minor); err != nil {
						t.Error(err)
						return
					}
					end := time.AfterFunc(99*time.Hour+time.Minute, func() { far.Close() })
					defer end.Stop()
					f := NewFrameReader(bufio.NewReader(far), 1024)
					for n := 0; ; n++ {
						m, err := f.Next()
						if err != nil {
							return
						}
						if name, _, _ := splitCommand(m.frames[0]); string(name) != cmdPing {
							t.Errorf("got %q, want a PING", m.frames)
						}
						if n < c.answers {
							far.Write(commandFrame(cmdPong, nil))
						}
					}
				}()
				conn, err := Dial(t.Context(), Options{
					Endpoint:          "tcp://memory:1",
					HeartbeatInterval: time.Hour,
					IdleTimeout:       3 * time.Hour,
					DialContext:       func(context.Context, string, string) (net.Conn, error) { return near, nil },
				})
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				start := time.Now()
				if _, err = conn.Next(); !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if d := time.Since(start).Round(time.Hour); d != c.after {
					t.Fatalf("after %v, want %v", d, c.after)
				}
				conn.Close()
				far.Close()
			})
		})
	}
}

// The deadline of a heartbeat may fire in the middle of a frame.
func TestW6HeartbeatInsideFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := memnet.Pipe()
		want := bytes.Repeat([]byte("k"), 1000)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			defer far.Close()
			if err := greetAsPub(far, 1); err != nil {
				t.Error(err)
				return
			}
			go io.Copy(io.Discard, far)
			raw := appendFrame(nil, 0, want)
			for _, n := range []int{1, 5, 9, 500, len(raw) - 515} {
				far.Write(raw[:n])
				raw = raw[n:]
				time.Sleep(90 * time.Minute)
			}
		})
		conn, err := Dial(t.Context(), Options{
			Endpoint: "tcp://memory:1", HeartbeatInterval: time.Hour, IdleTimeout: 3 * time.Hour,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		m, err := conn.Next()
		if err != nil || !bytes.Equal(m.Frames()[0], want) {
			t.Fatalf("%d frames, %v", len(m.Frames()), err)
		}
		conn.Close()
	})
}

// W7: the end of a connection comes late, or not at all.
func TestW7EndIsSeenAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		tail []byte
		want error
	}{
		{"between messages", nil, io.EOF},
		{"inside a header", []byte{flagLong, 0, 0}, io.ErrUnexpectedEOF},
		{"inside a frame", []byte{0, 5, 'a'}, io.ErrUnexpectedEOF},
		{"between frames", []byte{flagMore, 1, 'a'}, io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			endpoint := rawPeer(t, func(n net.Conn) {
				if greetAsPub(n, 1) == nil {
					n.Write(append(appendFrame(nil, 0, []byte("last")), c.tail...))
				}
			})
			conn := dialTest(t, Options{Endpoint: endpoint})
			if m, err := conn.Next(); err != nil || string(m.Frames()[0]) != "last" {
				t.Fatalf("%q %v", m.Frames(), err)
			}
			if _, err := conn.Next(); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

// W8: Close leaks a goroutine per connection if nobody receives and the queue
// is full.
func TestW8CloseLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	p, err := PublisherConfig{Drop: true, Linger: -1}.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []*Conn
	for range 20 {
		c, err := Dial(context.Background(), Options{Endpoint: p.Addr()})
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	if err := p.WaitSubscribers(within(t, 10*time.Second), len(conns)); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 64<<10)
	for p.Dropped() < 100 { // until every queue is full
		p.Send(body)
	}
	for _, c := range conns {
		c.Close()
		if _, err := c.Next(); err == nil {
			continue // what was buffered already may still be read
		}
	}
	p.Close()
	goleak.VerifyNone(t, before)
}

// W8, the other half: a context's end closes the connection under a reader.
func TestW8CancelEndsNext(t *testing.T) {
	p := listenTest(t, PublisherConfig{})
	ctx, cancel := context.WithCancelCause(context.Background())
	c, err := Dial(ctx, Options{Endpoint: p.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make(chan error, 1)
	go func() { _, err := c.Next(); got <- err }()
	gone := errors.New("gone")
	cancel(gone)
	if err := <-got; err != gone {
		t.Fatalf("got %v, want the context's cause", err)
	}
	d := dialTest(t, Options{Endpoint: p.Addr()})
	go func() { _, err := d.Next(); got <- err }()
	d.Close()
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Fatalf("got %v, want ErrClosed", err)
	}
}

// W9: allocations per message, sending side included.
func TestW9NoAllocations(t *testing.T) {
	p, c := joined(t, PublisherConfig{}, Options{})
	topic, seq, body := []byte("kv@host:8000@model"), seqFrame(7), make([]byte, 4000)
	frames := [][]byte{topic, seq, body}
	round := func() {
		if err := p.Send(frames...); err != nil {
			t.Fatal(err)
		}
		m, err := c.Next()
		if err != nil || len(m.Frames()) != 3 {
			t.Fatal(len(m.Frames()), err)
		}
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(2000, round); n != 0 {
		t.Fatalf("%v allocations a message, want 0", n)
	}
}

// W10: header and body are two writes without a lock, so a PONG and a
// subscription sent at the same time would be mixed up.
func TestW10ConcurrentSends(t *testing.T) {
	const each = 200
	done := make(chan error, 1)
	endpoint := rawPeer(t, func(c net.Conn) {
		if err := greetAsPub(c, 1); err != nil {
			done <- err
			return
		}
		go func() {
			for range each {
				c.Write(commandFrame(cmdPing, []byte("\x00\x00context")))
			}
		}()
		f := NewFrameReader(bufio.NewReader(c), 1<<20)
		pongs, subs := 0, 0
		for pongs < each || subs < 4*each {
			m, err := f.Next()
			if err != nil {
				done <- fmt.Errorf("after %d PONGs and %d subscriptions: %w", pongs, subs, err)
				return
			}
			if topic, _, ok := subscription(m); ok {
				if len(topic) != 300 {
					done <- fmt.Errorf("topic of %d bytes", len(topic))
					return
				}
				subs++
			} else if bytes.Equal(m.frames[0], []byte("\x04PONGcontext")) {
				pongs++
			} else {
				done <- fmt.Errorf("mixed up: %q", m.frames)
				return
			}
		}
		done <- nil
	})
	conn := dialTest(t, Options{Endpoint: endpoint})
	go conn.Next()
	topic := string(bytes.Repeat([]byte("t"), 300))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range each {
				if err := conn.Subscribe(topic); err != nil {
					t.Error(err)
				}
				if err := conn.Unsubscribe(topic); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
