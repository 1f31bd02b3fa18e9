package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/internal/memnet"
)

// Each kind of failure is a kind of its own, and one kind whatever port it names.
func TestOutageKinds(t *testing.T) {
	op := func(name string, port int, err error) error {
		return &net.OpError{Op: name, Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: err}
	}
	kinds := map[string]string{}
	for _, c := range []struct {
		name string
		err  func(port int) error
	}{
		{"refused", func(p int) error { return op("dial", p, os.NewSyscallError("connect", syscall.ECONNREFUSED)) }},
		{"no host", func(p int) error { return op("dial", p, os.NewSyscallError("connect", syscall.EHOSTUNREACH)) }},
		{"no name", func(p int) error { return op("dial", p, &net.DNSError{Err: "no such host", Name: "worker"}) }},
		{"dial timed out", func(p int) error { return op("dial", p, os.ErrDeadlineExceeded) }},
		{"silent", func(p int) error { return fmt.Errorf("handshake: %w", op("read", p, os.ErrDeadlineExceeded)) }},
		{"reset", func(p int) error { return op("read", p, os.NewSyscallError("read", syscall.ECONNRESET)) }},
		{"hung up", func(p int) error { return fmt.Errorf("%w: %d: %w", zmtp.ErrHandshake, p, io.EOF) }},
		{"another protocol", func(p int) error { return fmt.Errorf("%w: %d", zmtp.ErrHandshake, p) }},
		{"too big", func(p int) error { return fmt.Errorf("%w: %d", zmtp.ErrTooBig, p) }},
		{"another", func(p int) error { return errors.New("port " + strings.Repeat("1", p%3)) }},
	} {
		kind := outage(c.err(40001))
		if was, ok := kinds[kind]; ok || kind == "" {
			t.Errorf("%s is of kind %q, like %q", c.name, kind, was)
		}
		kinds[kind] = c.name
		if again := outage(c.err(40002)); again != kind {
			t.Errorf("%s is of kind %q from one port and %q from another", c.name, kind, again)
		}
	}
}

// Why connecting fails is logged once, and once more whenever it is another
// reason; when it succeeds at last, there is none.
func TestEachReasonNotToConnectIsLoggedOnce(t *testing.T) {
	// On a clock of its own: on that of a busy machine a peer that answers late
	// is one that does not.
	synctest.Test(t, func(t *testing.T) {
		const warning = "cannot connect, trying on"
		network := memnet.New()
		l := network.Listen(5557)
		endpoint := "tcp://" + l.Addr().String()
		answers := func(says string) func(context.Context) (net.Conn, error) {
			return func(context.Context) (net.Conn, error) {
				here, there := memnet.Pipe()
				go func() {
					defer there.Close()
					io.WriteString(there, says)
					io.Copy(io.Discard, there) // hang up after the stream did
				}()
				return here, nil
			}
		}
		var dial atomic.Value
		dial.Store(func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		})
		r := newRig(t, 0)
		f := r.stream(Options{Endpoint: endpoint, Transport: zmtp.Options{
			HandshakeTimeout: 100 * time.Millisecond,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dial.Load().(func(context.Context) (net.Conn, error))(ctx)
			},
		}})
		fails := func(why string) {
			t.Helper()
			f.logged(warning)
			for from := f.counted("dial_errors", ""); f.counted("dial_errors", "") < from+2; time.Sleep(time.Millisecond) {
				if r.ctx.Err() != nil {
					t.Fatal(r.ctx.Err())
				}
			}
			if got := f.now(Worker).LastError; !strings.Contains(got, why) {
				t.Fatalf("last error %q, want %q in it", got, why)
			}
			select {
			case again := <-f.logs:
				t.Fatalf("logged while nothing changed: %q", again)
			default:
			}
		}
		fails("refused")
		dial.Store(answers(""))
		fails("timeout")
		dial.Store(answers("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"))
		fails(zmtp.ErrHandshake.Error())

		pub, err := zmtp.PublisherConfig{Listener: l}.Listen(context.Background(), endpoint)
		if err != nil {
			t.Fatal(err)
		}
		defer pub.Close()
		f.pub = pub
		dial.Store(func(ctx context.Context) (net.Conn, error) { return network.Dial(ctx, "tcp", l.Addr().String()) })
		f.logged("connected")
		f.joined()
		f.live(0, storeAB)
		f.wait(0)
		if got := f.now(Worker).LastError; got != "" {
			t.Errorf("last error %q while connected", got)
		}
		pub.Close()
		f.logged("disconnected")
		if got := f.now(Worker).LastError; got == "" {
			t.Error("no last error behind a disconnect")
		}
	})
}
