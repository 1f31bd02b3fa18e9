package zmtp

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A stock PUB socket, which we use as a peer, misses its own wake-up.
		goleak.IgnoreAnyFunction("github.com/go-zeromq/zmq4.(*pubMWriter).run"))
}

// within is a context that fails a hanging test.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func listenTest(t testing.TB, c PublisherConfig) *Publisher {
	t.Helper()
	p, err := c.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func dialTest(t testing.TB, o Options) *Conn {
	t.Helper()
	c, err := Dial(within(t, time.Minute), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// joined is a publisher with one subscriber of our own.
func joined(t testing.TB, pc PublisherConfig, o Options) (*Publisher, *Conn) {
	t.Helper()
	p := listenTest(t, pc)
	o.Endpoint = p.Addr()
	c := dialTest(t, o)
	if err := p.WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	return p, c
}

// seqFrame is the sequence frame of a live message.
func seqFrame(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Pieces of the protocol, for peers that misbehave.

func greetingBytes(minor byte) []byte {
	g := make([]byte, 64)
	g[0], g[8], g[9], g[10], g[11] = 0xff, 1, 0x7f, 3, minor
	copy(g[12:], "NULL")
	return g
}

func property(dst []byte, name, value string) []byte {
	dst = append(append(dst, byte(len(name))), name...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

func commandFrame(name string, body []byte) []byte {
	p := append(append([]byte{byte(len(name))}, name...), body...)
	return appendFrame(nil, flagCommand, p)
}

func readyFrame(socketType string) []byte {
	return commandFrame("READY", property(nil, "Socket-Type", socketType))
}

// rawPeer listens and runs script on every connection, which it then closes.
func rawPeer(t testing.TB, script func(net.Conn)) (endpoint string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			script(c)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "tcp://" + l.Addr().String()
}

// greetAsPub performs the server's side of a handshake by hand and takes the
// subscription to everything.
func greetAsPub(c net.Conn, minor byte) error {
	if _, err := c.Write(append(greetingBytes(minor), readyFrame("PUB")...)); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, c, 64); err != nil {
		return err
	}
	for range 2 { // READY, subscription
		var h [2]byte
		if _, err := io.ReadFull(c, h[:]); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, c, int64(h[1])); err != nil {
			return err
		}
	}
	return nil
}

// hangUntilClosed keeps a connection open until the other side ends it.
func hangUntilClosed(c net.Conn) { io.Copy(io.Discard, c) }
