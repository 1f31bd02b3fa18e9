package pair

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Network is the libraries that can reach each other. They listen on ports that
// the machine gives; what is advertised is translated, as by a forwarder, so
// that two runs on one machine do not fight for a port.
type Network struct {
	geometry Geometry
	ctx      context.Context
	stop     context.CancelFunc
	serving  sync.WaitGroup

	mu   sync.Mutex
	book map[string]string // advertised endpoint → address
	all  []*Library
}

// NewNetwork makes a network of libraries of one geometry.
func NewNetwork(g Geometry) *Network {
	n := &Network{geometry: g, book: map[string]string{}}
	n.ctx, n.stop = context.WithCancel(context.Background())
	return n
}

// Close ends every library and waits for its goroutines.
func (n *Network) Close() {
	n.stop()
	n.mu.Lock()
	all := n.all
	n.mu.Unlock()
	for _, l := range all {
		l.Close()
	}
	n.serving.Wait()
}

// dial connects to the library that is advertised at an endpoint.
func (n *Network) dial(ctx context.Context, endpoint string) (net.Conn, error) {
	n.mu.Lock()
	addr, ok := n.book[endpoint]
	n.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("pair: nobody is advertised at %s", endpoint)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

// shift returns the endpoint so many ports behind another.
func shift(endpoint string, by int) (string, error) {
	i := strings.LastIndexByte(endpoint, ':')
	if i < 0 {
		return "", fmt.Errorf("pair: endpoint %q has no port", endpoint)
	}
	port, err := strconv.Atoi(endpoint[i+1:])
	if err != nil {
		return "", fmt.Errorf("pair: endpoint %q: %w", endpoint, err)
	}
	return endpoint[:i+1] + strconv.Itoa(port+by), nil
}
