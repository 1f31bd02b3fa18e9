package bound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/ingest/topic"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// DefaultTakeover is how long a connection may be silent when another claims
// its lane.
const DefaultTakeover = 2 * time.Second

// Key says whose a series of numbers is.
type Key struct {
	Source string
	Model  string
	Rank   int // the batch's, else the topic's, else 0
}

// Options of a Socket.
type Options struct {
	// Bind says where publishers connect to, and bounds them. Its Topics are the
	// socket's own.
	Bind zmtp.BindOptions
	// Connect, if it has an endpoint, is a relay to connect to instead, again
	// whenever the connection ends, with Backoff between. Its Topics and
	// Heartbeat are the socket's own.
	Connect zmtp.Options
	Backoff zmtp.Backoff

	// Template says what topics look like. Nil: every topic is taken.
	Template *topic.Template
	// Source and Model are what topics do not name.
	Source, Model string
	// Takeover is how long a connection may be silent when another claims its
	// lane. 0 means DefaultTakeover.
	Takeover time.Duration

	// Open returns the lane of a key, made if need be: the same one for as long
	// as its source lives. It is called with the first message of a series, by
	// several goroutines at once, and again with the next one after an error.
	// Required.
	Open func(ctx context.Context, k Key) (*Lane, error)
	// Logger gets what is rare. Nil logs nothing.
	Logger *slog.Logger
}

// drop names why messages were dropped, besides topics that do not match.
type drop uint8

const (
	dropMalformed drop = iota
	dropRefused
	dropContested
	numDrops
)

var dropNames = [numDrops]string{"malformed", "refused", "contested"}

// Stats counts what a socket has seen.
type Stats struct {
	zmtp.BindingStats // zero if the socket connects
	// Connected is how many connections were made so far.
	Connected uint64
	// Superseded is how many were closed for another that claimed their lane.
	Superseded uint64
	// Broken is how many ended otherwise than at the end of a message: by a
	// reset, silence, or bytes that are no frame or too many.
	Broken uint64
	// Dropped counts messages that reached no stream, by reason: malformed,
	// refused by Open, contested, or a topic.Mismatch with topic_ before it.
	Dropped []Count
	// LastError is why the last key or handshake was refused, or a connection
	// broken. "" if none was.
	LastError string
}

// Count is a number of messages and why.
type Count struct {
	Reason string
	Count  uint64
}

// Socket serves many publishers. Make one with Listen.
type Socket struct {
	opt     Options
	log     *slog.Logger
	binding *zmtp.Binding // nil if it connects
	ctx     context.Context
	stop    context.CancelFunc

	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup

	connected, superseded, broken atomic.Uint64

	drops     [numDrops]atomic.Uint64
	topics    [topic.NumMismatches]atomic.Uint64
	lastError atomic.Pointer[string]
	told      atomic.Int64 // unix ns: when a refusal was last logged
}

// Listen binds a socket, or prepares it to connect. Nothing is accepted before
// Run. Cancelling ctx closes the socket and all its connections.
func Listen(ctx context.Context, o Options) (*Socket, error) {
	switch {
	case o.Open == nil:
		return nil, errors.New("bound: Options.Open is nil: want who knows the lanes")
	case o.Takeover < 0:
		return nil, fmt.Errorf("bound: Options.Takeover is %v: want a time, or 0 for %v", o.Takeover, DefaultTakeover)
	case o.Bind.Endpoint != "" && o.Connect.Endpoint != "":
		return nil, errors.New("bound: Options has an endpoint to bind and one to connect to: want one of them")
	}
	if o.Takeover == 0 {
		o.Takeover = DefaultTakeover
	}
	if o.Template == nil {
		o.Template = &topic.Template{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Socket{opt: o, log: o.Logger}
	prefix := []string{o.Template.Prefix()}
	s.opt.Connect.Topics = prefix
	if o.Connect.Endpoint == "" {
		b := o.Bind
		b.Topics = prefix
		b.Wrap = func(c net.Conn) net.Conn {
			if o.Bind.Wrap != nil {
				c = o.Bind.Wrap(c)
			}
			return newLine(c)
		}
		var err error
		if s.binding, err = zmtp.Bind(ctx, b); err != nil {
			return nil, err
		}
		s.log = s.log.With("bind", s.binding.Addr())
	} else {
		s.log = s.log.With("connect", o.Connect.Endpoint)
	}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s, nil
}

// Addr is an endpoint publishers can connect to, with the port that was chosen,
// or the one the socket connects to.
func (s *Socket) Addr() string {
	if s.binding == nil {
		return s.opt.Connect.Endpoint
	}
	return s.binding.Addr()
}

// Run serves until the socket is closed, and returns why. It may be called
// once. When it returns, no goroutine of the socket is left; links that streams
// still have are dead.
func (s *Socket) Run() error {
	var err error
	if s.binding != nil {
		closed := context.AfterFunc(s.ctx, func() { s.binding.Close() })
		err = s.binding.Serve(func(c *zmtp.Conn) { s.serve(c) }, func(peer net.Addr, err error) {
			s.note(err)
			s.tell("a publisher was refused", "peer", peer, "error", err)
		})
		closed()
		s.binding.Close()
	} else {
		err = s.connect()
	}
	s.stop()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.running.Wait()
	return err
}

// Close ends the socket; Run returns soon.
func (s *Socket) Close() { s.stop() }

// start runs a goroutine of the socket; false if there will be no more.
func (s *Socket) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.running.Go(f)
	return true
}

// serve takes one connection. It is not over when serve returns.
func (s *Socket) serve(c *zmtp.Conn) *peer {
	s.connected.Add(1)
	p := newPeer(s, c)
	s.log.Debug("publisher connected", "peer", c.RemoteAddr())
	p.pump(nil)
	return p
}

// connect keeps a connection to a relay.
func (s *Socket) connect() error {
	back := s.opt.Backoff
	o := s.opt.Connect
	dial := o.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	o.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newLine(c), nil
	}
	for {
		c, err := zmtp.Dial(s.ctx, o)
		if err == nil {
			p := s.serve(c)
			select {
			case <-p.dead:
			case <-s.ctx.Done():
				p.end(context.Cause(s.ctx))
			}
			back.Reset()
		} else if s.ctx.Err() == nil {
			s.note(err)
			s.tell("cannot connect, trying on", "error", err)
		}
		if err := back.Wait(s.ctx); err != nil {
			return err
		}
	}
}

// names reads a topic; false, and counted, if it is not one of the template's.
func (s *Socket) names(t []byte) (Key, bool) {
	n, m := s.opt.Template.Match(t)
	if m != topic.Matched {
		s.topics[m].Add(1)
		return Key{}, false
	}
	k := Key{Source: s.opt.Source, Model: s.opt.Model, Rank: max(n.Rank, 0)}
	if n.Source != nil {
		k.Source = string(n.Source)
	}
	if n.Model != nil {
		k.Model = string(n.Model)
	}
	return k, true
}

// left notes the end of a connection that came to it by itself.
func (s *Socket) left(p *peer, err error) {
	if s.ctx.Err() != nil {
		return
	}
	s.log.Debug("publisher left", "peer", p.conn.RemoteAddr(), "error", err)
	if err != io.EOF && !errors.Is(err, ErrSuperseded) && !errors.Is(err, errUnwanted) && !errors.Is(err, context.Canceled) {
		s.broken.Add(1)
		s.note(err)
	}
}

// refused notes a message whose key Open did not want.
func (s *Socket) refused(k Key, p *peer, err error) {
	s.drops[dropRefused].Add(1)
	s.note(err)
	s.tell("a source was refused", "source", k.Source, "model", k.Model, "rank", k.Rank, "peer", p.conn.RemoteAddr(), "error", err)
}

func (s *Socket) note(err error) {
	text := err.Error()
	s.lastError.Store(&text)
}

// tellAfter is the least time between two warnings about strangers, who could
// fill the log otherwise. Counters count them all.
const tellAfter = 10 * time.Second

func (s *Socket) tell(msg string, args ...any) {
	now, last := time.Now().UnixNano(), s.told.Load()
	if now-last >= int64(tellAfter) && s.told.CompareAndSwap(last, now) {
		s.log.Warn(msg, args...)
	}
}

// Stats counts what the socket has seen.
func (s *Socket) Stats() Stats {
	st := Stats{Connected: s.connected.Load(), Superseded: s.superseded.Load(), Broken: s.broken.Load()}
	if s.binding != nil {
		st.BindingStats = s.binding.Stats()
	}
	for i := range s.drops {
		st.Dropped = append(st.Dropped, Count{dropNames[i], s.drops[i].Load()})
	}
	for m := topic.Matched + 1; m < topic.NumMismatches; m++ {
		st.Dropped = append(st.Dropped, Count{"topic_" + m.String(), s.topics[m].Load()})
	}
	if e := s.lastError.Load(); e != nil {
		st.LastError = *e
	}
	return st
}
