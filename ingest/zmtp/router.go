package zmtp

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"
)

// RouterConfig configures a Router. Zero values mean the defaults.
type RouterConfig struct {
	// Handle answers one request, given without the identity of who asks. It
	// runs on the goroutine of that connection, which reads no further request
	// before it returns; ctx ends with the connection's end or the router's.
	// The frames are valid until it returns. Required.
	Handle func(ctx context.Context, request [][]byte, reply Reply)
	// SendTimeout is how long one write to a client may take until it is
	// disconnected.
	SendTimeout time.Duration
	// HandshakeTimeout bounds the handshake of a connection.
	HandshakeTimeout time.Duration
	// Listener, if set, is listened on instead of the endpoint, whose name Addr
	// still tells. The router closes it.
	Listener net.Listener
}

// Reply sends one message to who asked. It copies the frames into a buffer that
// goes out when it is full, when Handle returns, or when Reply is called without
// frames.
type Reply func(frames ...[]byte) error

// Router is a bound ROUTER socket that answers requests: the replay endpoint of
// simulated engines and of tests.
type Router struct {
	config   RouterConfig
	listener net.Listener
	endpoint string
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// maxRequest bounds what a client may ask in one message, in bytes.
const maxRequest = 64 << 10

// Listen binds a router. Cancelling ctx closes it.
func (c RouterConfig) Listen(ctx context.Context, endpoint string) (*Router, error) {
	c.SendTimeout = defaultTo(c.SendTimeout, DefaultSendTimeout)
	c.HandshakeTimeout = defaultTo(c.HandshakeTimeout, DefaultHandshakeTimeout)
	l, err := listenOn(ctx, endpoint, c.Listener)
	if err != nil {
		return nil, err
	}
	r := &Router{config: c, listener: l, endpoint: formatEndpoint(l.Addr())}
	r.ctx, r.stop = context.WithCancel(ctx)
	context.AfterFunc(r.ctx, func() { l.Close() })
	r.running.Go(r.accept)
	return r, nil
}

// Addr is the endpoint clients connect to, with the port that was chosen.
func (r *Router) Addr() string { return r.endpoint }

// Close closes all connections and returns when every goroutine of the router,
// and so every Handle, has ended.
func (r *Router) Close() error {
	r.stop()
	r.listener.Close()
	r.running.Wait()
	return nil
}

func (r *Router) accept() {
	acceptAll(r.ctx, r.listener, func(nc net.Conn) { r.running.Go(func() { r.serve(nc) }) })
}

// serve owns one connection from handshake to end.
func (r *Router) serve(nc net.Conn) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	unhook := context.AfterFunc(ctx, func() { nc.Close() })
	defer unhook()
	defer nc.Close()
	raw := newBufConn(nc, 4<<10)
	raw.announce = 1
	if _, err := handshake(raw, zmq4.Router, true, r.config.HandshakeTimeout, nil); err != nil {
		return
	}
	out := bufio.NewWriterSize(nc, 64<<10)
	scratch := []byte(nil)
	send := func(flags byte, frames ...[]byte) error {
		scratch = scratch[:0]
		for i, f := range frames {
			more := byte(flagMore)
			if i == len(frames)-1 {
				more = 0
			}
			scratch = appendFrame(scratch, flags|more, f)
		}
		if out.Available() < len(scratch) || len(frames) == 0 {
			if err := nc.SetWriteDeadline(time.Now().Add(r.config.SendTimeout)); err != nil {
				return err
			}
		}
		if len(frames) == 0 {
			return out.Flush()
		}
		_, err := out.Write(scratch)
		return err
	}
	frames := NewFrameReader(raw.br, maxRequest)
	for {
		m, err := frames.Next()
		if err != nil {
			return
		}
		if m.command {
			name, body, ok := splitCommand(m.frames[0])
			if !ok {
				return
			}
			if context, ok := pingContext(body); ok && string(name) == cmdPing {
				pong := append(append([]byte{byte(len(cmdPong))}, cmdPong...), context...)
				if send(flagCommand, pong) != nil {
					return
				}
			}
		} else {
			r.config.Handle(ctx, m.frames, func(frames ...[]byte) error { return send(0, frames...) })
		}
		if send(0) != nil {
			return
		}
	}
}
