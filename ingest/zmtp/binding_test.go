package zmtp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// boundTest is a binding that serves; its connections come out of a channel.
type boundTest struct {
	*Binding
	conns   chan *Conn
	refused chan error
	ended   chan error
}

func bindTest(t testing.TB, o BindOptions) *boundTest {
	t.Helper()
	if o.Endpoint == "" {
		o.Endpoint = "tcp://127.0.0.1:0"
	}
	b, err := Bind(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	bt := &boundTest{Binding: b, conns: make(chan *Conn, 1024), refused: make(chan error, 1024), ended: make(chan error, 1)}
	go func() {
		bt.ended <- b.Serve(func(c *Conn) { bt.conns <- c }, func(_ net.Addr, err error) { bt.refused <- err })
	}()
	t.Cleanup(func() {
		b.Close()
		for { // what nobody took must hold no handler up
			select {
			case c := <-bt.conns:
				c.Close()
			case <-bt.refused:
			case err := <-bt.ended:
				if err != ErrClosed {
					t.Errorf("Serve ended with %v, want ErrClosed", err)
				}
				for len(bt.conns) > 0 {
					(<-bt.conns).Close()
				}
				return
			}
		}
	})
	return bt
}

func (b *boundTest) next(t testing.TB) *Conn {
	t.Helper()
	select {
	case c := <-b.conns:
		t.Cleanup(func() { c.Close() })
		return c
	case err := <-b.refused:
		t.Fatalf("refused: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("nobody connected")
	}
	return nil
}

func (b *boundTest) refusal(t testing.TB) error {
	t.Helper()
	select {
	case err := <-b.refused:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("nobody was refused")
	}
	return nil
}

func connectTest(t testing.TB, pc PublisherConfig, endpoint string) *Publisher {
	t.Helper()
	if pc.Backoff.Min == 0 {
		pc.Backoff = Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}
	}
	p, err := pc.Connect(context.Background(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// hear awaits one message of one frame.
func hear(t testing.TB, c *Conn, want string) {
	t.Helper()
	m, err := c.Next()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.Frames()[0]); got != want {
		t.Fatalf("heard %q, want %q", got, want)
	}
}

func TestBindOverEveryTransport(t *testing.T) {
	for _, c := range []struct{ name, bind, want string }{
		{"IPv4", "tcp://127.0.0.1:0", "tcp://127.0.0.1:"},
		{"IPv6", "tcp://[::1]:0", "tcp://[::1]:"},
		{"wildcard", "tcp://*:*", "tcp://127.0.0.1:"},
		{"wildcard of both", "tcp://[::]:0", "tcp://127.0.0.1:"},
		{"ipc", "ipc://" + filepath.Join(t.TempDir(), "s"), "ipc:///"},
		{"abstract", "ipc://@cairn-bind-" + fmt.Sprint(time.Now().UnixNano()), "ipc://@"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "IPv6" {
				if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
					t.Skipf("no IPv6 here: %v", err)
				} else {
					l.Close()
				}
			}
			b := bindTest(t, BindOptions{Endpoint: c.bind, Topics: []string{"kv@"}})
			if !strings.HasPrefix(b.Addr(), c.want) {
				t.Fatalf("Addr %q, want %q…", b.Addr(), c.want)
			}
			p := connectTest(t, PublisherConfig{}, b.Addr())
			if err := p.WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
				t.Fatal(err)
			}
			p.Send([]byte("load@a"))
			p.Send([]byte("kv@a"))
			hear(t, b.next(t), "kv@a")
		})
	}
}

// The end of one publisher is nothing to the others, and it may come again.
func TestBoundPublishersComeAndGo(t *testing.T) {
	b := bindTest(t, BindOptions{})
	ctx := within(t, 10*time.Second)
	var pubs []*Publisher
	conns := map[string]*Conn{}
	for i := range 5 {
		p := connectTest(t, PublisherConfig{}, b.Addr())
		if err := p.WaitSubscribers(ctx, 1); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint(i)
		p.Send([]byte(name))
		c := b.next(t)
		hear(t, c, name)
		pubs, conns[name] = append(pubs, p), c
	}
	pubs[2].Disconnect()
	if _, err := conns["2"].Next(); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v, want EOF", err)
	}
	conns["2"].Close()
	again := b.next(t) // it dials again by itself
	if err := pubs[2].WaitSubscribers(ctx, 1); err != nil {
		t.Fatal(err)
	}
	pubs[2].Send([]byte("2"))
	hear(t, again, "2")
	for i, p := range pubs {
		if i != 2 {
			p.Send([]byte("still " + fmt.Sprint(i)))
			hear(t, conns[fmt.Sprint(i)], "still "+fmt.Sprint(i))
		}
	}
	if st := b.Stats(); st.Open != 5 || st.Accepted != 6 || st.Pending != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestBindMaxConns(t *testing.T) {
	b := bindTest(t, BindOptions{MaxConns: 2})
	first := connectTest(t, PublisherConfig{}, b.Addr())
	c := b.next(t)
	connectTest(t, PublisherConfig{}, b.Addr())
	b.next(t)
	third := connectTest(t, PublisherConfig{}, b.Addr())
	if err := b.refusal(t); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	if st := b.Stats(); st.Full == 0 || st.Open != 2 {
		t.Fatalf("%+v", st)
	}
	first.Close() // for good: else it may be back before the third is
	c.Close()     // which makes room
	for in := within(t, 10*time.Second); ; {
		select {
		case c := <-b.conns:
			if err := third.WaitSubscribers(in, 1); err != nil {
				t.Fatal(err)
			}
			third.Send([]byte("in"))
			hear(t, c, "in")
			if st := b.Stats(); st.Open != 2 {
				t.Fatalf("%+v", st)
			}
			c.Close()
			return
		case err := <-b.refused: // before there was room
			if !errors.Is(err, errFull) {
				t.Fatal(err)
			}
		case <-in.Done():
			t.Fatal("the third does not come in")
		}
	}
}

// Silent clients cannot keep publishers out: the oldest handshake goes first.
func TestBindHurriesSilentHandshakes(t *testing.T) {
	b := bindTest(t, BindOptions{MaxPending: 4, HandshakeTimeout: time.Hour})
	for range 20 {
		c, err := net.Dial("tcp", b.Addr()[len("tcp://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	p := connectTest(t, PublisherConfig{}, b.Addr())
	if err := p.WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		if err := b.refusal(t); !errors.Is(err, errHurried) {
			t.Fatal(err)
		}
	}
	if st := b.Stats(); st.Pending > 4 || st.Hurried < 16 {
		t.Fatalf("%+v", st)
	}
}

func TestBindHandshakeDeadline(t *testing.T) {
	b := bindTest(t, BindOptions{HandshakeTimeout: 50 * time.Millisecond})
	c, err := net.Dial("tcp", b.Addr()[len("tcp://"):])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write(greetingBytes(1))
	var ne net.Error
	if err := b.refusal(t); !errors.As(err, &ne) || !ne.Timeout() {
		t.Fatalf("got %v, want a time-out", err)
	}
	if st := b.Stats(); st.Failed != 1 || st.Pending != 0 {
		t.Fatalf("%+v", st)
	}
}

// W5, at the server side of a subscriber.
func TestW5MalformedHandshakeAtBinding(t *testing.T) {
	b := bindTest(t, BindOptions{})
	n := 0
	for name, raw := range w5Handshakes() {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", b.Addr()[len("tcp://"):])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.Write(raw)
			c.(*net.TCPConn).CloseWrite()
			err = b.refusal(t)
			if !errors.Is(err, ErrHandshake) && !errors.Is(err, ErrTooBig) && !errors.Is(err, io.ErrUnexpectedEOF) {
				// A peer that is cut off while we still write resets the connection.
				if op := new(net.OpError); !errors.As(err, &op) {
					t.Fatalf("unexpected kind of error: %v", err)
				}
			}
		})
		n++
	}
	if st := b.Stats(); st.Failed+st.Refused != uint64(n) || st.Open != 0 {
		t.Fatalf("%+v, want %d", st, n)
	}
	// It serves on.
	if err := connectTest(t, PublisherConfig{}, b.Addr()).WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
		t.Fatal(err)
	}
}

// Messages of all connections together are bounded; the one that asks for more
// goes, and the others stay.
func TestBindMessageMemory(t *testing.T) {
	b := bindTest(t, BindOptions{MaxMemory: 3 << 20, MaxMessage: 2 << 20})
	ctx := within(t, 10*time.Second)
	big := make([]byte, 1<<20)
	conns := make([]*Conn, 3)
	pubs := make([]*Publisher, 3)
	for i := range pubs {
		pubs[i] = connectTest(t, PublisherConfig{}, b.Addr())
		if err := pubs[i].WaitSubscribers(ctx, 1); err != nil {
			t.Fatal(err)
		}
		conns[i] = b.next(t)
	}
	for i, c := range conns[:2] {
		pubs[i].Send([]byte("t"), big[:len(big)-1])
		if _, err := c.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.Stats().Memory; got != 2<<20 {
		t.Fatalf("two messages of 1 MiB take %d bytes", got)
	}
	pubs[2].Send([]byte("t"), append(big, big[:1<<19]...))
	if _, err := conns[2].Next(); !errors.Is(err, ErrMemory) || !errors.Is(err, ErrTooBig) {
		t.Fatalf("got %v, want ErrMemory", err)
	}
	conns[2].Close()
	// Small messages bring the memory back, at the latest every so often.
	for range 2 * trimAfter {
		pubs[0].Send([]byte("t"))
		if _, err := conns[0].Next(); err != nil {
			t.Fatal(err)
		}
	}
	conns[1].Close()
	if got := b.Stats().Memory; got > smallest {
		t.Fatalf("%d bytes are held for small messages", got)
	}
}

func TestBindPlain(t *testing.T) {
	users := []Plain{{"engine", Password("s3cret")}, {"other", Password("")}}
	for _, c := range []struct {
		name string
		as   *Plain
		ok   bool
	}{
		{"right", &Plain{"engine", Password("s3cret")}, true},
		{"empty password", &Plain{"other", Password("")}, true},
		{"wrong password", &Plain{"engine", Password("s3cre")}, false},
		{"longer password", &Plain{"engine", Password("s3cret2")}, false},
		{"another's password", &Plain{"other", Password("s3cret")}, false},
		{"unknown user", &Plain{"nobody", Password("s3cret")}, false},
		{"longest", &Plain{strings.Repeat("u", 255), Password(strings.Repeat("p", 255))}, false},
		{"none", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bindTest(t, BindOptions{Users: users})
			p := connectTest(t, PublisherConfig{Plain: c.as, Backoff: Backoff{Min: time.Hour, Max: time.Hour}}, b.Addr())
			if !c.ok {
				if err := b.refusal(t); !errors.Is(err, ErrAuth) || !errors.Is(err, ErrHandshake) {
					t.Fatalf("got %v, want ErrAuth", err)
				} else if strings.Contains(err.Error(), "s3cre") {
					t.Fatalf("the error shows a password: %v", err)
				}
				if st := b.Stats(); st.Refused != 1 || st.Open != 0 {
					t.Fatalf("%+v", st)
				}
				return
			}
			if err := p.WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
				t.Fatal(err)
			}
			p.Send([]byte("hello"))
			hear(t, b.next(t), "hello")
		})
	}
}

// A subscriber that dials proves itself to a publisher.
func TestDialPlain(t *testing.T) {
	p := listenTest(t, PublisherConfig{Users: []Plain{{"cairn", Password("s3cret")}}})
	c := dialTest(t, Options{Endpoint: p.Addr(), Plain: &Plain{"cairn", Password("s3cret")}})
	if err := p.WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	p.Send([]byte("hello"))
	hear(t, c, "hello")
	for name, o := range map[string]Options{
		"wrong":      {Plain: &Plain{"cairn", Password("secret")}},
		"none":       {},
		"unreadable": {Plain: &Plain{"cairn", secretFunc(func() (string, error) { return "", io.ErrClosedPipe })}},
		"too long":   {Plain: &Plain{"cairn", Password(strings.Repeat("x", 256))}},
		"no secret":  {Plain: &Plain{User: "cairn"}},
	} {
		o.Endpoint = p.Addr()
		if _, err := Dial(within(t, 10*time.Second), o); !errors.Is(err, ErrAuth) {
			t.Errorf("%s: got %v, want ErrAuth", name, err)
		}
	}
}

type secretFunc func() (string, error)

func (f secretFunc) Secret() (string, error) { return f() }

// A password that changed takes effect with the next connection.
func TestPlainPasswordRotates(t *testing.T) {
	var mu sync.Mutex
	now := "old"
	secret := secretFunc(func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return now, nil
	})
	p := listenTest(t, PublisherConfig{Users: []Plain{{"u", secret}}})
	dialTest(t, Options{Endpoint: p.Addr(), Plain: &Plain{"u", Password("old")}})
	mu.Lock()
	now = "new"
	mu.Unlock()
	dialTest(t, Options{Endpoint: p.Addr(), Plain: &Plain{"u", Password("new")}})
	if _, err := Dial(within(t, 10*time.Second), Options{Endpoint: p.Addr(), Plain: &Plain{"u", Password("old")}}); !errors.Is(err, ErrAuth) {
		t.Fatal(err)
	}
}

func TestPasswordHides(t *testing.T) {
	p := Plain{"u", Password("s3cret")}
	for _, s := range []string{fmt.Sprint(p), fmt.Sprintf("%v %+v %#v %s %q", p, p, p, p.Password, p.Password), Password("s3cret").LogValue().String()} {
		if strings.Contains(s, "s3cret") {
			t.Errorf("shown: %s", s)
		}
	}
}

// TestPlainGreeting: the side that checks says that it is the server.
func TestPlainGreeting(t *testing.T) {
	b := bindTest(t, BindOptions{Users: []Plain{{"u", Password("p")}}})
	c, err := net.Dial("tcp", b.Addr()[len("tcp://"):])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	g := make([]byte, 64)
	if _, err := io.ReadFull(c, g); err != nil {
		t.Fatal(err)
	}
	if string(g[12:18]) != "PLAIN\x00" || g[32] != 1 {
		t.Fatalf("greeting % x", g)
	}
}

// The heartbeat works in both directions on a connection that was accepted.
func TestBoundHeartbeats(t *testing.T) {
	beats := make(chan struct{}, 64)
	b := bindTest(t, BindOptions{HeartbeatInterval: 5 * time.Millisecond})
	p := connectTest(t, PublisherConfig{}, b.Addr())
	if err := p.WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	c := b.next(t)
	c.OnHeartbeat(func() {
		select {
		case beats <- struct{}{}:
		default:
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Next()
	}()
	for range 3 {
		select {
		case <-beats:
		case <-time.After(10 * time.Second):
			t.Fatal("no answer to a heartbeat")
		}
	}
	if err := c.Ping(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	<-done
}

// TestBoundPeerPings: a publisher's PING is answered with its context.
func TestBoundPeerPings(t *testing.T) {
	b := bindTest(t, BindOptions{HeartbeatInterval: -1})
	c, err := net.Dial("tcp", b.Addr()[len("tcp://"):])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := greetAsPub(c, 1); err != nil {
		t.Fatal(err)
	}
	conn := b.next(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn.Next()
	}()
	c.Write(commandFrame("PING", []byte("\x00\x00context")))
	want := commandFrame("PONG", []byte("context"))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
	conn.Close()
	<-done
}

// TestBindWrap: TLS is a wrapper on each side.
func TestBindWrap(t *testing.T) {
	var wrapped []net.Conn
	var mu sync.Mutex
	b := bindTest(t, BindOptions{Wrap: func(c net.Conn) net.Conn {
		mu.Lock()
		defer mu.Unlock()
		w := tls.Server(c, &tls.Config{}) // has no certificate: every handshake fails
		wrapped = append(wrapped, w)
		return w
	}})
	connectTest(t, PublisherConfig{Backoff: Backoff{Min: time.Hour, Max: time.Hour}}, b.Addr())
	if err := b.refusal(t); err == nil {
		t.Fatal("a plain connection came through TLS")
	}
	if len(wrapped) != 1 {
		t.Fatalf("%d connections were wrapped", len(wrapped))
	}
}

func TestBindErrors(t *testing.T) {
	for name, o := range map[string]BindOptions{
		"no scheme":   {Endpoint: "127.0.0.1:0"},
		"no port":     {Endpoint: "tcp://127.0.0.1"},
		"no password": {Endpoint: "tcp://127.0.0.1:0", Users: []Plain{{User: "u"}}},
	} {
		if b, err := Bind(context.Background(), o); err == nil {
			b.Close()
			t.Errorf("%s: bound", name)
		} else if !errors.Is(err, ErrEndpoint) && !errors.Is(err, ErrAuth) {
			t.Errorf("%s: %v", name, err)
		}
	}
	taken := bindTest(t, BindOptions{})
	if _, err := Bind(context.Background(), BindOptions{Endpoint: taken.Addr()}); err == nil {
		t.Error("one address was bound twice")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	b, err := Bind(ctx, BindOptions{Endpoint: "tcp://127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	cancel(gone)
	if err := b.Serve(func(*Conn) {}, nil); err != gone {
		t.Errorf("Serve ended with %v, want the context's cause", err)
	}
}

func BenchmarkBoundNext(b *testing.B) {
	bt := bindTest(b, BindOptions{})
	p := connectTest(b, PublisherConfig{}, bt.Addr())
	if err := p.WaitSubscribers(within(b, 10*time.Second), 1); err != nil {
		b.Fatal(err)
	}
	c := bt.next(b)
	body, seq := make([]byte, 200), seqFrame(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range b.N {
			if p.Send(nil, seq, body) != nil {
				return
			}
		}
	}()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := c.Next(); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	<-done
}
