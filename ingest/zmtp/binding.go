package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of BindOptions.
const (
	DefaultMaxConns   = 1024
	DefaultMaxPending = 128
	DefaultMaxMemory  = 256 << 20
)

// BindOptions of a bound SUB socket. Zero values mean the defaults.
type BindOptions struct {
	// Endpoint is where publishers connect to: tcp://*:5557, tcp://[::1]:0,
	// ipc:///path, ipc://@abstract-name. Port 0 is any free one.
	Endpoint string
	// Users, if any, are who may connect, by PLAIN. None: NULL security, and
	// whoever reaches the port may publish.
	Users []Plain
	// MaxConns bounds the connections that have done their handshake. One that
	// comes when they are all taken is closed and counted.
	MaxConns int
	// MaxPending bounds the handshakes under way. One more ends the oldest, which
	// is the least likely to come to its end.
	MaxPending int
	// MaxMemory bounds the message buffers of all connections together, in
	// bytes; a connection whose message needs more is closed. Besides, each
	// connection costs ReadBuffer and some KiB.
	MaxMemory int64
	// Topics, HandshakeTimeout, HeartbeatInterval, IdleTimeout, MaxMessage and
	// ReadBuffer are as in Options, for each connection.
	Topics            []string
	HandshakeTimeout  time.Duration
	HeartbeatInterval time.Duration
	IdleTimeout       time.Duration
	MaxMessage        int
	ReadBuffer        int
	// Wrap, if set, is put around every accepted connection: TLS, a Waker. It
	// must not block; what it returns is Conn.NetConn.
	Wrap func(net.Conn) net.Conn
	// Listener, if set, is listened on instead of the endpoint, for tests. The
	// binding closes it.
	Listener net.Listener
}

// BindingStats counts what became of the connections that came. The sum of
// Full, Hurried, Failed, Refused and those that did their handshake is Accepted,
// less those whose handshake is under way.
type BindingStats struct {
	Accepted uint64 // connections accepted
	Open     int    // connections that did their handshake and are not closed
	Pending  int    // handshakes under way
	Full     uint64 // closed because MaxConns were open
	Hurried  uint64 // closed in the handshake because MaxPending others came
	Refused  uint64 // wrong user, password or mechanism
	Failed   uint64 // other handshakes that did not come to their end
	Memory   int64  // bytes of message buffers now
}

// Binding is a bound SUB socket: publishers connect to it. Each connection is a
// Conn of its own, so that the end of one is nothing to the others. All methods
// may be called from any goroutine.
//
//	accept ──▶ handshake, a goroutine each ──▶ handle(Conn)
//	             │ at most MaxPending             at most MaxConns open
//	             └ a deadline; the oldest goes first
type Binding struct {
	options  BindOptions
	conn     Options // of each connection
	listener net.Listener
	endpoint string
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup
	memory   memory

	mu      sync.Mutex
	pending []net.Conn // the oldest first
	open    int

	accepted, full, hurried, refused, failed atomic.Uint64
}

// Bind listens for publishers. Nothing is accepted before Serve. Cancelling ctx
// closes the binding and all its connections.
func Bind(ctx context.Context, o BindOptions) (*Binding, error) {
	o.MaxConns = defaultTo(o.MaxConns, DefaultMaxConns)
	o.MaxPending = defaultTo(o.MaxPending, DefaultMaxPending)
	o.MaxMemory = defaultTo(o.MaxMemory, int64(DefaultMaxMemory))
	c := Options{
		Topics: o.Topics, HandshakeTimeout: o.HandshakeTimeout, HeartbeatInterval: o.HeartbeatInterval,
		IdleTimeout: o.IdleTimeout, MaxMessage: o.MaxMessage, ReadBuffer: o.ReadBuffer,
	}
	c.setDefaults()
	for i := range o.Users {
		if _, _, err := o.Users[i].read(); err != nil {
			return nil, err
		}
	}
	l, err := listenOn(ctx, o.Endpoint, o.Listener)
	if err != nil {
		return nil, err
	}
	b := &Binding{options: o, conn: c, listener: l, endpoint: formatEndpoint(l.Addr())}
	b.memory.limit = o.MaxMemory
	b.ctx, b.stop = context.WithCancel(ctx)
	context.AfterFunc(b.ctx, func() { l.Close() })
	return b, nil
}

// Addr is an endpoint publishers can connect to, with the port that was chosen.
func (b *Binding) Addr() string { return b.endpoint }

// Stats counts what became of the connections.
func (b *Binding) Stats() BindingStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BindingStats{
		Accepted: b.accepted.Load(), Open: b.open, Pending: len(b.pending),
		Full: b.full.Load(), Hurried: b.hurried.Load(), Refused: b.refused.Load(), Failed: b.failed.Load(),
		Memory: b.memory.used.Load(),
	}
}

// Serve accepts publishers until the binding is closed, and returns why. handle
// gets each connection that did its handshake, on a goroutine of its own, and
// owns it: it counts as open until it is closed, which handle may leave to
// others. refused, if not nil, is told of every handshake that failed. Serve may
// be called once, and returns when every handle has.
func (b *Binding) Serve(handle func(*Conn), refused func(peer net.Addr, err error)) error {
	acceptAll(b.ctx, b.listener, func(nc net.Conn) {
		b.accepted.Add(1)
		if b.options.Wrap != nil {
			nc = b.options.Wrap(nc)
		}
		b.admit(nc)
		b.running.Go(func() {
			c, err := b.shake(nc)
			if err == nil {
				handle(c)
			} else if refused != nil && b.ctx.Err() == nil {
				refused(nc.RemoteAddr(), err)
			}
		})
	})
	b.running.Wait()
	if err := context.Cause(b.ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return ErrClosed
}

// admit notes a handshake under way, and ends the oldest if there are too many.
func (b *Binding) admit(nc net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = append(b.pending, nc)
	if len(b.pending) > b.options.MaxPending {
		b.pending[0].Close()
		b.pending = slices.Delete(b.pending, 0, 1)
		b.hurried.Add(1)
	}
}

// settle ends a handshake: it reports whether the connection was still wanted,
// and takes its place among the open ones if ok and there is one.
func (b *Binding) settle(nc net.Conn, ok bool) (wanted, placed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.pending, nc)
	if i < 0 {
		return false, false
	}
	b.pending = slices.Delete(b.pending, i, i+1)
	if !ok || b.open >= b.options.MaxConns {
		return true, false
	}
	b.open++
	return true, true
}

// errHurried and errFull are why a connection that did nothing wrong is closed.
var (
	errHurried = errors.New("zmtp: too many handshakes under way: the oldest was ended")
	errFull    = errors.New("zmtp: too many connections")
)

// shake performs one handshake.
func (b *Binding) shake(nc net.Conn) (*Conn, error) {
	c := newConn(b.ctx, nc, &b.conn)
	if len(b.options.Users) > 0 {
		c.raw.security, c.raw.server = plainServer{users: b.options.Users}, true
	}
	c.frames.memory = &share{of: &b.memory}
	err := c.open(&b.conn, true, b.conn.HandshakeTimeout)
	wanted, placed := b.settle(nc, err == nil)
	if placed {
		c.gone = b.left
		return c, nil
	}
	c.Close()
	switch {
	case !wanted:
		return nil, errHurried
	case err == nil:
		b.full.Add(1)
		return nil, fmt.Errorf("%w: %d are open, which is the limit", errFull, b.options.MaxConns)
	case errors.Is(err, ErrAuth):
		b.refused.Add(1)
	default:
		b.failed.Add(1)
	}
	return nil, err
}

// left frees the place of a connection.
func (b *Binding) left() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
}

// Close stops listening and closes all connections. Serve ends when its
// handlers have.
func (b *Binding) Close() error {
	b.stop()
	return b.listener.Close()
}
