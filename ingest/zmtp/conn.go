package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zeromq/zmq4"
)

// Defaults of Options.
const (
	DefaultHandshakeTimeout  = 5 * time.Second
	DefaultHeartbeatInterval = 5 * time.Second
	DefaultIdleTimeout       = 20 * time.Second
	DefaultMaxMessage        = 16 << 20
	DefaultReadBuffer        = 64 << 10
)

// Options of a subscriber's connection. Zero values mean the defaults.
type Options struct {
	// Endpoint is the publisher: tcp://host:port, tcp://[v6]:port, ipc:///path
	// or ipc://@abstract-name. Host names are resolved at every Dial.
	Endpoint string
	// Topics are the prefixes to subscribe to; none means everything.
	Topics []string
	// HandshakeTimeout bounds connecting and handshake together.
	HandshakeTimeout time.Duration
	// HeartbeatInterval is how often a silent peer is sent a PING. Negative:
	// never, and no silence is noticed.
	HeartbeatInterval time.Duration
	// IdleTimeout is how long a peer that speaks ZMTP 3.1, or has answered a
	// PING before, may be silent before the connection is given up. It is
	// rounded up to whole heartbeats, at least two.
	IdleTimeout time.Duration
	// MaxMessage bounds one message, all frames together, in bytes.
	MaxMessage int
	// ReadBuffer is the size of the buffer in front of the socket, in bytes.
	ReadBuffer int
	// Heartbeat, if set, is called by Next at every PING or PONG received.
	Heartbeat func()
	// Plain, if set, authenticates this side by PLAIN. Nil: NULL security.
	Plain *Plain
	// DialContext, if set, replaces the net.Dialer, for TLS or tests.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

func (o *Options) setDefaults() {
	o.HandshakeTimeout = defaultTo(o.HandshakeTimeout, DefaultHandshakeTimeout)
	o.HeartbeatInterval = defaultTo(o.HeartbeatInterval, DefaultHeartbeatInterval)
	o.IdleTimeout = defaultTo(o.IdleTimeout, DefaultIdleTimeout)
	o.MaxMessage = defaultTo(o.MaxMessage, DefaultMaxMessage)
	o.ReadBuffer = defaultTo(o.ReadBuffer, DefaultReadBuffer)
	if o.DialContext == nil {
		o.DialContext = new(net.Dialer).DialContext
	}
	if len(o.Topics) == 0 {
		o.Topics = []string{""}
	}
}

func defaultTo[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

// Conn is one subscriber's connection. One goroutine calls Next; the other
// methods are safe for any.
type Conn struct {
	ctx    context.Context
	raw    *bufConn
	frames *FrameReader
	cancel func() bool // takes back the context's hold on raw

	closed atomic.Bool
	gone   func() // what the binding does at Close; nil for a dialled connection

	send    sync.Mutex // one command or message at a time (zmq4 has no lock)
	zc      *zmq4.Conn
	timeout time.Duration // of one send

	// Next's goroutine alone.
	heartbeat func()
	interval  time.Duration
	patience  int // silent heartbeats until ErrIdle
	silent    int
	heard     uint64 // bytes received at the last heartbeat
	answers   bool   // the peer is known to answer PINGs
	pings     bool   // the peer may be sent PINGs
}

// Dial connects to a publisher, performs the handshake and subscribes. The
// subscription is on its way when Dial returns: what the publisher sends before
// it arrives is not seen, which only the sequence of the messages can show.
// Cancelling ctx, during Dial or later, closes the connection.
func Dial(ctx context.Context, o Options) (*Conn, error) {
	o.setDefaults()
	c, left, err := connect(ctx, &o)
	if err != nil {
		return nil, err
	}
	if err := c.open(&o, false, left); err != nil {
		c.Close()
		return nil, c.cause(err)
	}
	return c, nil
}

// connect dials who listens at o.Endpoint. It returns a connection that is not
// opened yet, and what is left of the time that there is for it. o has its
// defaults.
func connect(ctx context.Context, o *Options) (c *Conn, left time.Duration, err error) {
	network, address, err := splitEndpoint(o.Endpoint, false)
	if err != nil {
		return nil, 0, err
	}
	start := time.Now()
	dctx, stop := context.WithTimeout(ctx, o.HandshakeTimeout)
	nc, err := o.DialContext(dctx, network, address)
	stop()
	if err != nil {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		return nil, 0, fmt.Errorf("zmtp: dial %s: %w", o.Endpoint, err)
	}
	c = newConn(ctx, nc, o)
	if o.Plain != nil {
		c.raw.security = plainClient{as: o.Plain}
	}
	return c, max(o.HandshakeTimeout-time.Since(start), time.Millisecond), nil
}

// newConn makes a connection of nc, which is not opened yet. o has its
// defaults. Cancelling ctx closes nc.
func newConn(ctx context.Context, nc net.Conn, o *Options) *Conn {
	raw := newBufConn(nc, o.ReadBuffer)
	return &Conn{
		ctx:       ctx,
		raw:       raw,
		frames:    NewFrameReader(raw.br, o.MaxMessage),
		cancel:    context.AfterFunc(ctx, func() { nc.Close() }),
		timeout:   o.HandshakeTimeout,
		heartbeat: o.Heartbeat,
		interval:  o.HeartbeatInterval,
	}
}

// open performs the handshake, subscribes, and sets the heartbeat going.
func (c *Conn) open(o *Options, server bool, timeout time.Duration) (err error) {
	c.zc, err = handshake(c.raw, zmq4.Sub, server, timeout, func(zc *zmq4.Conn) error {
		for _, topic := range o.Topics {
			if err := zc.SendMsg(zmq4.NewMsg(subscribeFrame(1, topic))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || o.HeartbeatInterval <= 0 {
		return err
	}
	c.pings = c.raw.atLeast31()
	c.answers = c.pings
	c.patience = max(2, int((o.IdleTimeout+o.HeartbeatInterval-1)/o.HeartbeatInterval))
	c.frames.retry = c.tick
	return c.raw.SetReadDeadline(time.Now().Add(c.interval))
}

// Next waits for the next message. Commands are dealt with inside: a PING is
// answered, others are ignored. The message is valid until the next call. After
// an error the connection is of no more use; it is the caller's to Close.
// io.EOF means the publisher ended between two messages.
func (c *Conn) Next() (Message, error) {
	for {
		m, err := c.frames.Next()
		if err != nil {
			return Message{}, c.cause(err)
		}
		if !m.command {
			return m, nil
		}
		if err := c.command(m.frames[0]); err != nil {
			return Message{}, c.cause(err)
		}
	}
}

func (c *Conn) command(frame []byte) error {
	name, body, ok := splitCommand(frame)
	if !ok {
		return fmt.Errorf("%w: command of %d bytes with a name of %d", ErrFrame, len(frame), nameLen(frame))
	}
	switch string(name) {
	case cmdPing:
		context, ok := pingContext(body)
		if !ok {
			return fmt.Errorf("%w: PING with a body of %d bytes; 2 to %d would be right", ErrFrame, len(body), 2+maxPingContext)
		}
		if err := c.sendCommand(cmdPong, context); err != nil {
			return err
		}
	case cmdPong:
		c.answers = true
	default:
		return nil
	}
	if c.heartbeat != nil {
		c.heartbeat()
	}
	return nil
}

func nameLen(frame []byte) int {
	if len(frame) == 0 {
		return 0
	}
	return int(frame[0])
}

// tick runs on Next's goroutine when the read deadline fires. A deadline that
// fired while nobody was reading is one silent heartbeat at most, because the
// next one is measured from here: a slow consumer is not taken for a dead peer.
func (c *Conn) tick() error {
	// What waits for the rest of its header has been heard as well.
	if heard := c.frames.read + uint64(c.raw.br.Buffered()); heard != c.heard {
		c.heard = heard
		c.silent = 0
	} else {
		c.silent++
		c.frames.quiet()
	}
	if c.answers && c.silent >= c.patience {
		return fmt.Errorf("%w: %v answered none of %d heartbeats, %v apart", ErrIdle, c.raw.RemoteAddr(), c.silent, c.interval)
	}
	if c.pings {
		// Two bytes of time to live, 0: the peer keeps its own time-out.
		if err := c.sendCommand(cmdPing, []byte{0, 0}); err != nil {
			return err
		}
	}
	return c.raw.SetReadDeadline(time.Now().Add(c.interval))
}

// OnHeartbeat replaces Options.Heartbeat. It belongs to Next's goroutine.
func (c *Conn) OnHeartbeat(f func()) { c.heartbeat = f }

// Ping sends a PING now, if the peer is known to answer one, without waiting
// for the answer. Safe beside Next.
func (c *Conn) Ping() error {
	if !c.pings {
		return nil
	}
	return c.cause(c.sendCommand(cmdPing, []byte{0, 0}))
}

// Subscribe adds a topic prefix. Safe beside Next.
func (c *Conn) Subscribe(topic string) error {
	return c.sendFrame(subscribeFrame(1, topic))
}

// Unsubscribe takes a topic prefix back. Safe beside Next.
func (c *Conn) Unsubscribe(topic string) error {
	return c.sendFrame(subscribeFrame(0, topic))
}

func subscribeFrame(op byte, topic string) []byte {
	return append([]byte{op}, topic...)
}

// sendFrame and sendCommand write under one lock: zmq4 writes header and body
// apart and has none.

func (c *Conn) sendFrame(frame []byte) error {
	c.send.Lock()
	defer c.send.Unlock()
	if err := c.raw.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return c.cause(err)
	}
	return c.cause(c.zc.SendMsg(zmq4.NewMsg(frame)))
}

func (c *Conn) sendCommand(name string, body []byte) error {
	c.send.Lock()
	defer c.send.Unlock()
	if err := c.raw.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	return c.zc.SendCmd(name, body)
}

// Close closes the connection; a Next that waits returns ErrClosed. It may be
// called more than once and from any goroutine.
func (c *Conn) Close() error {
	c.cancel()
	err := c.raw.Close()
	if !c.closed.Swap(true) {
		c.frames.memory.close()
		if c.gone != nil {
			c.gone()
		}
	}
	return err
}

// NetConn is the connection underneath: what was dialled, or what
// BindOptions.Wrap returned. Reading it belongs to Next.
func (c *Conn) NetConn() net.Conn { return c.raw.Conn }

// RemoteAddr is the publisher's address.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// cause tells an end that this side wanted from one that it suffered.
func (c *Conn) cause(err error) error {
	switch {
	case err == nil:
		return nil
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case errors.Is(err, net.ErrClosed):
		return ErrClosed
	}
	return err
}
