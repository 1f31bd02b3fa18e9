package ingest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
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
	const warning = "cannot connect, trying on"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()

	r := newRig(t, 0)
	f := r.stream(Options{Endpoint: "tcp://" + addr, Transport: zmtp.Options{HandshakeTimeout: 100 * time.Millisecond}})
	fails := func(why string) {
		t.Helper()
		f.logged(warning)
		for from := f.counted("dial_errors", ""); f.counted("dial_errors", "") < from+2; runtime.Gosched() {
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

	if l, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var speaks atomic.Bool
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if speaks.Load() {
					io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
				}
				io.Copy(io.Discard, c) // hang up after the stream did
			}()
		}
	}()
	fails("timeout")
	speaks.Store(true)
	fails(zmtp.ErrHandshake.Error())

	l.Close()
	f.publish("tcp://" + addr)
	f.logged("connected")
	f.live(0, storeAB)
	f.wait(0)
	if got := f.now(Worker).LastError; got != "" {
		t.Errorf("last error %q while connected", got)
	}
	f.pub.Close()
	f.logged("disconnected")
	if got := f.now(Worker).LastError; got == "" {
		t.Error("no last error behind a disconnect")
	}
}
