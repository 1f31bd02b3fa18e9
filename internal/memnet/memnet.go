// Package memnet is a network inside the process: for checks that want no
// sockets, and for tests on a clock that waits for nobody.
package memnet

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
)

// Network is who listens on which port of the loopback address. Its connections
// are those of [Pipe]. Methods are safe for concurrent use.
type Network struct {
	mu    sync.Mutex
	last  int // port that was reserved
	ports map[string]*Listener
}

// New returns a network on which nobody listens.
func New() *Network { return &Network{ports: map[string]*Listener{}} }

// Reserve returns the first of n neighbouring ports that nobody has had.
func (n *Network) Reserve(ports int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := n.last + 1
	n.last += ports
	return first
}

// Listen takes a port of the loopback address, also from who has it.
func (n *Network) Listen(port int) *Listener {
	l := &Listener{
		network: n,
		addr:    &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port},
		calls:   make(chan net.Conn),
		closed:  make(chan struct{}),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports[l.addr.String()] = l
	return l
}

// Dial connects to who listens on address. While that one accepts nobody it
// waits, as for a host that does not answer.
func (n *Network) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.ports[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("nobody listens on %s", address)
	}
	here, there := Pipe()
	select {
	case l.calls <- there:
		return here, nil
	case <-l.closed:
	case <-ctx.Done():
	}
	here.Close()
	there.Close()
	return nil, fmt.Errorf("nobody listens on %s any more", address)
}

// inFlight is how many writes a connection holds until they are read.
const inFlight = 64

// Pipe makes a connection that holds what was written until it is read. A
// net.Pipe does not, and two peers that greet each other at once would wait
// for ever. Closing either end closes the other behind what was written, and
// ends the copying.
func Pipe() (here, there net.Conn) {
	here, a := net.Pipe()
	there, b := net.Pipe()
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		from, to, held := way[0], way[1], make(chan []byte, inFlight)
		go func() {
			defer close(held)
			buffer := make([]byte, 32<<10)
			for {
				n, err := from.Read(buffer)
				if err != nil {
					return
				}
				held <- bytes.Clone(buffer[:n])
			}
		}()
		go func() {
			for chunk := range held {
				// It fails when nobody reads any more. Then there may be
				// something on the other way still, which ends both.
				to.Write(chunk)
			}
			from.Close()
			to.Close()
		}()
	}
	return here, there
}

// Listener is a net.Listener of a [Network].
type Listener struct {
	network *Network
	addr    *net.TCPAddr
	calls   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

// Accept waits for the next that dials.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.calls:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close frees the port. Connections stay.
func (l *Listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		if at := l.addr.String(); l.network.ports[at] == l {
			delete(l.network.ports, at)
		}
		l.network.mu.Unlock()
		close(l.closed)
	})
	return nil
}

// Addr returns the address that is listened on.
func (l *Listener) Addr() net.Addr { return l.addr }
