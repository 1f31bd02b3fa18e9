package zmtp

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of PublisherConfig.
const (
	DefaultSendBuffer  = 1 << 20
	DefaultSendTimeout = 30 * time.Second
	DefaultLinger      = time.Second
)

// maxSubscribers bounds the connections of one publisher.
const maxSubscribers = 4096

// PublisherConfig configures a Publisher. Zero values mean the defaults.
type PublisherConfig struct {
	// SendBuffer bounds what waits for one subscriber, in bytes; a larger
	// message is taken when nothing else waits.
	SendBuffer int
	// Drop: a message that finds the buffer full is dropped for that
	// subscriber and counted, as libzmq does at its high-water mark. Without
	// it Send waits.
	Drop bool
	// SendTimeout is how long one write to a subscriber may take until it is
	// disconnected.
	SendTimeout time.Duration
	// HandshakeTimeout bounds the handshake of a connection.
	HandshakeTimeout time.Duration
	// Listener, if set, is listened on instead of the endpoint, whose name
	// Addr still tells. The publisher closes it.
	Listener net.Listener
	// Users, if any, are who may subscribe, by PLAIN. Of a bound publisher.
	Users []Plain
	// Plain, if set, authenticates a publisher that connects.
	Plain *Plain
	// Backoff is the delay between attempts of a publisher that connects.
	Backoff Backoff
	// Linger is how long Close tries to send what waits. Negative: not at all.
	Linger time.Duration
}

// Publisher is a PUB socket, bound or connecting: simulated engines, load
// generators, tests.
// All methods are safe for concurrent use; messages of one goroutine arrive in
// order.
type Publisher struct {
	config   PublisherConfig
	listener net.Listener // nil if it connects
	endpoint string
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup

	peers   atomic.Pointer[[]*subscriber] // replaced whole, under mu
	mu      sync.Mutex
	changed chan struct{} // closed and replaced when peers or their topics change
	closed  bool

	dropped  atomic.Uint64
	accepted atomic.Uint64
	ended    atomic.Uint64
}

// Listen binds a publisher with the default configuration.
func Listen(ctx context.Context, endpoint string) (*Publisher, error) {
	return PublisherConfig{}.Listen(ctx, endpoint)
}

// Listen binds a publisher: tcp://127.0.0.1:0, tcp://*:5557, tcp://[::1]:0,
// ipc:///path, ipc://@abstract-name. Cancelling ctx closes it without linger.
func (c PublisherConfig) Listen(ctx context.Context, endpoint string) (*Publisher, error) {
	l, err := listenOn(ctx, endpoint, c.Listener)
	if err != nil {
		return nil, err
	}
	p := newPublisher(ctx, c, formatEndpoint(l.Addr()))
	p.listener = l
	context.AfterFunc(p.ctx, func() { l.Close() })
	p.running.Go(p.accept)
	return p, nil
}

// Connect is the other way round: the publisher dials a bound subscriber, and
// dials again when the connection ends, until it is closed or ctx ends. That is
// what vLLM's does with an endpoint that names a host. It returns at once; see
// WaitSubscribers.
func (c PublisherConfig) Connect(ctx context.Context, endpoint string) (*Publisher, error) {
	network, address, err := splitEndpoint(endpoint, false)
	if err != nil {
		return nil, err
	}
	p := newPublisher(ctx, c, endpoint)
	p.running.Go(func() { p.connect(network, address) })
	return p, nil
}

func newPublisher(ctx context.Context, c PublisherConfig, endpoint string) *Publisher {
	c.SendBuffer = defaultTo(c.SendBuffer, DefaultSendBuffer)
	c.SendTimeout = defaultTo(c.SendTimeout, DefaultSendTimeout)
	c.HandshakeTimeout = defaultTo(c.HandshakeTimeout, DefaultHandshakeTimeout)
	c.Linger = defaultTo(c.Linger, DefaultLinger)
	p := &Publisher{config: c, endpoint: endpoint, changed: make(chan struct{})}
	p.ctx, p.stop = context.WithCancel(ctx)
	p.peers.Store(new([]*subscriber))
	return p
}

// connect keeps one connection to a bound subscriber.
func (p *Publisher) connect(network, address string) {
	back := p.config.Backoff
	for {
		ctx, cancel := context.WithTimeout(p.ctx, p.config.HandshakeTimeout)
		nc, err := new(net.Dialer).DialContext(ctx, network, address)
		cancel()
		if err == nil {
			p.accepted.Add(1)
			if p.serve(nc) {
				back.Reset()
			}
		}
		if back.Wait(p.ctx) != nil {
			return
		}
	}
}

// Addr is the endpoint subscribers connect to, with the port that was chosen, or
// the one this publisher connects to.
func (p *Publisher) Addr() string { return p.endpoint }

// Dropped is how many messages were not sent because a buffer was full.
func (p *Publisher) Dropped() uint64 { return p.dropped.Load() }

// Accepted is how many connections were accepted, or made, so far, whatever
// became of them.
func (p *Publisher) Accepted() uint64 { return p.accepted.Load() }

// accept never performs a handshake itself: a silent client must not keep the
// others out.
func (p *Publisher) accept() {
	acceptAll(p.ctx, p.listener, func(nc net.Conn) {
		p.accepted.Add(1)
		p.running.Go(func() { p.serve(nc) })
	})
}

// Send sends one message to every subscriber that has subscribed to a prefix of
// frames[0]. It copies the frames. It waits while a subscriber's buffer is full
// (see PublisherConfig) and returns an error only when the publisher is closed
// or there is no frame.
func (p *Publisher) Send(frames ...[]byte) error {
	if len(frames) == 0 {
		return fmt.Errorf("%w: a message needs a frame", ErrFrame)
	}
	if p.ctx.Err() != nil {
		return ErrClosed
	}
	size := 0
	for _, f := range frames {
		size += 9 + len(f)
	}
	for _, s := range *p.peers.Load() {
		if !s.send(frames, size, p.config.SendBuffer, p.config.Drop) {
			p.dropped.Add(1)
		}
	}
	if p.ctx.Err() != nil {
		return ErrClosed
	}
	return nil
}

// Flush waits until everything sent so far has been handed to the kernel, or
// its subscriber is gone, or ctx ends.
func (p *Publisher) Flush(ctx context.Context) error {
	for _, s := range *p.peers.Load() {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Subscribers is the number of connections with at least one subscription.
func (p *Publisher) Subscribers() int {
	n := 0
	for _, s := range *p.peers.Load() {
		if s.subscribed() {
			n++
		}
	}
	return n
}

// WaitSubscribers waits until there are at least n subscribers.
func (p *Publisher) WaitSubscribers(ctx context.Context, n int) error {
	return p.wait(ctx, func() bool { return p.Subscribers() >= n })
}

// WaitEnded waits until at least n connections have ended since the publisher came
// into being, however many there are again by now.
func (p *Publisher) WaitEnded(ctx context.Context, n int) error {
	return p.wait(ctx, func() bool { return p.ended.Load() >= uint64(n) })
}

// WaitGone waits until there is no connection left. It may miss that where whoever
// was there comes back: see WaitEnded.
func (p *Publisher) WaitGone(ctx context.Context) error {
	return p.wait(ctx, func() bool { return len(*p.peers.Load()) == 0 })
}

func (p *Publisher) wait(ctx context.Context, done func() bool) error {
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("zmtp: %d subscribers at %s: %w", p.Subscribers(), p.endpoint, context.Cause(ctx))
		case <-p.ctx.Done():
			return ErrClosed
		}
	}
}

// Disconnect closes all connections at once, unsent messages included, and
// goes on listening: a network that failed.
func (p *Publisher) Disconnect() {
	for _, s := range *p.peers.Load() {
		s.close()
	}
}

// Close stops listening, sends what waits for at most Linger, closes all
// connections and returns when every goroutine of the publisher has ended.
func (p *Publisher) Close() error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()
	if !again && p.config.Linger > 0 && p.ctx.Err() == nil {
		if p.listener != nil {
			p.listener.Close()
		}
		ctx, cancel := context.WithTimeout(p.ctx, p.config.Linger)
		_ = p.Flush(ctx) // what is not sent by then is not sent
		cancel()
	}
	p.stop()
	if p.listener != nil {
		p.listener.Close()
	}
	p.running.Wait()
	return nil
}

// join makes s known to Send; false if the publisher is closed or full.
func (p *Publisher) join(s *subscriber) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := *p.peers.Load()
	if p.closed || len(old) >= maxSubscribers {
		return false
	}
	peers := append(append(make([]*subscriber, 0, len(old)+1), old...), s)
	p.peers.Store(&peers)
	p.announce()
	return true
}

func (p *Publisher) leave(s *subscriber) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := *p.peers.Load()
	peers := make([]*subscriber, 0, len(old))
	for _, o := range old {
		if o != s {
			peers = append(peers, o)
		}
	}
	p.peers.Store(&peers)
	p.ended.Add(1)
	p.announce()
}

// announce wakes all who wait for a change. mu is held.
func (p *Publisher) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}
