package zmtp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

const (
	greetingSize = 64
	// handshakeBudget is how many bytes of commands a peer may send before it
	// is connected. A READY is some 50 bytes.
	handshakeBudget = 8 << 10
)

// bufConn reads through br and writes straight through. Until lift it shows
// zmq4 only frames within a budget, because zmq4 allocates the length a peer
// announces before it reads a byte of it, and that failure is not recoverable.
type bufConn struct {
	net.Conn
	br *bufio.Reader

	guarded bool
	left    int // bytes of the unit being read: the greeting, then one frame each
	budget  int
	taken   int      // bytes of the greeting seen so far
	begins  [10]byte // the peer's signature: 0xff, eight bytes, 0x7f
	version [2]byte
	wants   [20]byte // the peer's mechanism, padded with zeros
	// announce, if not 0, replaces the minor version in our greeting.
	announce byte
	// server sets the as-server flag of our greeting, which zmq4 does not.
	server bool
	// security is the mechanism; nil means NULL.
	security zmq4.Security
}

func newBufConn(c net.Conn, size int) *bufConn {
	return &bufConn{
		Conn:    c,
		br:      bufio.NewReaderSize(c, size),
		guarded: true,
		left:    greetingSize,
		budget:  handshakeBudget,
	}
}

func (c *bufConn) Read(p []byte) (int, error) {
	if !c.guarded {
		return c.br.Read(p)
	}
	if c.left == 0 {
		_, size, n, err := header(c.br)
		if err != nil {
			return 0, err
		}
		if c.budget < n {
			return 0, fmt.Errorf("%w: more than %d bytes during the handshake", ErrTooBig, handshakeBudget)
		}
		if size > uint64(c.budget-n) {
			return 0, fmt.Errorf("%w: frame of %d bytes during the handshake; at most %d are left", ErrTooBig, size, c.budget)
		}
		c.left = n + int(size)
		c.budget -= c.left
	}
	n, err := c.br.Read(p[:min(len(p), c.left)])
	c.left -= n
	c.note(p[:n])
	return n, err
}

// note picks the peer's signature, version and mechanism out of its greeting.
func (c *bufConn) note(p []byte) {
	for i := 0; i < len(p) && c.taken < greetingSize; i++ {
		switch at := c.taken; {
		case at < 10:
			c.begins[at] = p[i]
		case at == 10 || at == 11:
			c.version[at-10] = p[i]
		case at >= 12 && at < 32:
			c.wants[at-12] = p[i]
		}
		c.taken++
	}
}

// greeted says what is wrong with the peer's greeting, as far as it is there:
// no ZMTP, as behind the port of an HTTP server, or another mechanism than ours.
func (c *bufConn) greeted(ours zmq4.SecurityType) error {
	if c.taken > 0 && c.begins[0] != 0xff || c.taken >= len(c.begins) && c.begins[9] != 0x7f {
		return fmt.Errorf("the peer does not speak ZMTP: it begins with %q", c.begins[:min(c.taken, len(c.begins))])
	}
	theirs := string(bytes.TrimRight(c.wants[:], "\x00"))
	if c.taken < greetingSize || c.version[0] < 3 || theirs == string(ours) {
		return nil
	}
	return fmt.Errorf("%w: the peer's mechanism is %q, this side's is %s; with a user and a password it is PLAIN, without NULL", ErrAuth, theirs, ours)
}

func (c *bufConn) Write(p []byte) (int, error) {
	if (c.announce != 0 || c.server) && len(p) == greetingSize && p[0] == 0xff {
		greeting := [greetingSize]byte(p)
		if c.announce != 0 {
			greeting[11] = c.announce
		}
		if c.server {
			greeting[32] = 1
		}
		c.announce, c.server = 0, false
		return c.Conn.Write(greeting[:])
	}
	return c.Conn.Write(p)
}

// atLeast31 reports whether the peer speaks ZMTP 3.1, whose heartbeats and
// subscription commands older ones may not know.
func (c *bufConn) atLeast31() bool {
	return c.version[0] > 3 || c.version[0] == 3 && c.version[1] >= 1
}

// handshake connects over c within the time-out: it returns with the guard
// lifted and no deadline set, or with an error. It never panics, whatever the
// peer sends; closing c ends it early.
func handshake(c *bufConn, typ zmq4.SocketType, server bool, timeout time.Duration, first func(*zmq4.Conn) error) (zc *zmq4.Conn, err error) {
	defer func() {
		// zmq4 indexes READY's metadata unchecked.
		if r := recover(); r != nil {
			zc, err = nil, fmt.Errorf("%w: %v: malformed metadata: %v", ErrHandshake, c.RemoteAddr(), r)
		}
	}()
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	security := c.security
	if security == nil {
		security = null.Security()
	}
	zc, err = zmq4.Open(c, security, typ, nil, server, nil)
	if err != nil {
		if other := c.greeted(security.Type()); other != nil {
			err = other
		}
		var ne net.Error
		if errors.Is(err, ErrTooBig) || errors.As(err, &ne) && !errors.Is(err, ErrAuth) {
			return nil, fmt.Errorf("zmtp: handshake with %v: %w", c.RemoteAddr(), err)
		}
		return nil, fmt.Errorf("%w: %v: %w", ErrHandshake, c.RemoteAddr(), err)
	}
	if first != nil {
		if err := first(zc); err != nil {
			return nil, fmt.Errorf("zmtp: subscribe at %v: %w", c.RemoteAddr(), err)
		}
	}
	if c.left != 0 {
		return nil, fmt.Errorf("%w: %v: %d bytes of READY left over", ErrHandshake, c.RemoteAddr(), c.left)
	}
	c.guarded = false
	return zc, c.SetDeadline(time.Time{})
}
