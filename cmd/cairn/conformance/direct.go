package conformance

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
)

// network is a network inside the process: who listens on which port, and
// connections that are pipes. Methods are safe for concurrent use.
type network struct {
	mu    sync.Mutex
	last  int // port
	ports map[string]*pipeListener
}

func newNetwork() *network { return &network{ports: map[string]*pipeListener{}} }

// reserve returns the first of n neighbouring ports that nobody has had.
func (n *network) reserve(ports int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := n.last + 1
	n.last += ports
	return first
}

// listen takes a port of the loopback address.
func (n *network) listen(port int) *pipeListener {
	l := &pipeListener{
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

// dial connects to who listens on address.
func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.ports[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("nobody listens on %s", address)
	}
	here, there := connect()
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

// connect makes a connection that holds what was written until it is read. A
// net.Pipe does not, and two peers that greet each other at once would wait
// for ever. Closing either end closes the other, and ends the copying.
func connect() (here, there net.Conn) {
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
			var err error
			for chunk := range held {
				if err == nil {
					_, err = to.Write(chunk)
				}
				if err != nil {
					from.Close() // the reader ends, and with it held
				}
			}
			from.Close()
			to.Close()
		}()
	}
	return here, there
}

// pipeListener is a net.Listener of a network.
type pipeListener struct {
	network *network
	addr    *net.TCPAddr
	calls   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.calls:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.ports, l.addr.String())
		l.network.mu.Unlock()
		close(l.closed)
	})
	return nil
}

func (l *pipeListener) Addr() net.Addr { return l.addr }
