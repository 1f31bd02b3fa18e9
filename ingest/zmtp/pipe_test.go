package zmtp

import (
	"net"
	"sync"
	"time"
)

// memPipe is a net.Pipe whose writes do not wait for the reader: both sides of
// a ZMTP handshake speak first. It works on synctest's clock.
func memPipe() (a, b net.Conn) {
	x, y := net.Pipe()
	return newAsyncConn(x), newAsyncConn(y)
}

type asyncConn struct {
	net.Conn
	mu     sync.Mutex
	out    chan []byte
	closed bool
}

func newAsyncConn(c net.Conn) *asyncConn {
	a := &asyncConn{Conn: c, out: make(chan []byte, 1024)}
	go func() {
		for p := range a.out {
			a.Conn.Write(p)
		}
	}()
	return a
}

func (a *asyncConn) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, net.ErrClosed
	}
	a.out <- append([]byte(nil), p...)
	return len(p), nil
}

func (a *asyncConn) SetWriteDeadline(time.Time) error { return nil }
func (a *asyncConn) SetDeadline(t time.Time) error    { return a.Conn.SetReadDeadline(t) }

func (a *asyncConn) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.closed = true
		close(a.out)
	}
	return a.Conn.Close()
}
