package bound

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// errUnwanted ends a connection whose one stream has ended.
var errUnwanted = errors.New("bound: the stream of the connection has ended")

// series names one series of numbers within a connection.
type series struct {
	topic string
	rank  int // -1: the batches state none
}

// line is the wire of a connection: its reader can be called away, and when
// anything was last heard can be seen.
type line struct {
	*zmtp.Waker
	last *pulse
	peer atomic.Pointer[peer]
}

func newLine(c net.Conn) *line {
	l := &line{last: &pulse{Conn: c}}
	l.Waker = zmtp.NewWaker(l.last, func() error {
		if p := l.peer.Load(); p != nil {
			return p.woken()
		}
		return nil
	})
	return l
}

// pulse notes when bytes came, and whether somebody waits for them.
type pulse struct {
	net.Conn
	at      atomic.Int64 // unix ns
	waiting atomic.Bool
}

func (p *pulse) Read(b []byte) (int, error) {
	p.waiting.Store(true)
	n, err := p.Conn.Read(b)
	p.waiting.Store(false)
	if n > 0 {
		p.at.Store(time.Now().UnixNano())
	}
	return n, err
}

// silent reports whether nothing has come since, though somebody waits for it.
// Where nobody does, the stream is busy with what came, and the peer may have
// said more.
func (p *pulse) silent(since time.Time) bool {
	return p.waiting.Load() && p.at.Load() < since.UnixNano()
}

// peer is one connection.
type peer struct {
	socket *Socket
	conn   *zmtp.Conn
	line   *line
	dead   chan struct{} // closed by end
	err    error         // why; set before dead is closed
	once   sync.Once

	sole atomic.Pointer[link] // whose stream reads the connection; nil: the pump

	// Whoever reads, alone.
	decoder wire.Decoder

	mu    sync.Mutex // of links, for heartbeats and ends
	links map[series]*link
}

func newPeer(s *Socket, c *zmtp.Conn) *peer {
	p := &peer{socket: s, conn: c, dead: make(chan struct{}), links: map[series]*link{}}
	p.line = c.NetConn().(*line)
	p.line.peer.Store(p)
	c.OnHeartbeat(p.heartbeat)
	return p
}

// end closes the connection. Its links end with err.
func (p *peer) end(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.dead)
		p.conn.Close()
	})
}

// cause is why the connection ended, if this side ended it, or else err.
func (p *peer) cause(err error) error {
	select {
	case <-p.dead:
		return p.err
	default:
		return err
	}
}

// woken runs on the reader's goroutine.
func (p *peer) woken() error {
	if l := p.sole.Load(); l != nil {
		return l.wake()
	}
	return nil
}

// heartbeat runs on the reader's goroutine.
func (p *peer) heartbeat() {
	if l := p.sole.Load(); l != nil {
		if l.hooks.Heard != nil {
			l.hooks.Heard()
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.links {
		l.heard.Store(true)
		l.nudge()
	}
}

func (p *peer) find(of []byte, rank int) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.links[series{string(of), rank}]
}

func (p *peer) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links[l.of] == l {
		delete(p.links, l.of)
	}
}

// only is the one link of a connection, nil if there are none or several.
func (p *peer) only() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.links) == 1 {
		for _, l := range p.links {
			return l
		}
	}
	return nil
}

// pump reads the connection until it ends, or until the stream of its one link
// does. frames, if any, are a message that was read already.
func (p *peer) pump(frames [][]byte) {
	fresh := frames == nil // nothing but one series was seen yet
	for {
		if frames == nil {
			m, err := p.conn.Next()
			if err != nil {
				p.socket.left(p, p.cause(err))
				p.end(err)
				return
			}
			frames = m.Frames()
		}
		l := p.route(frames)
		switch {
		case l == nil:
		case l.lane.holds(l):
			fresh = false
			p.deliver(l, frames)
		default:
			// Once it has its lane, the link is its stream's to touch.
			if fresh {
				l.sole, l.first = true, frames
				p.sole.Store(l)
			}
			switch err := p.claim(l); {
			case err == nil && fresh:
				return
			case err == nil:
				p.deliver(l, frames)
			case fresh:
				l.sole, l.first = false, nil
				p.sole.Store(nil)
			}
		}
		frames = nil
		if p.socket.ctx.Err() != nil {
			p.end(context.Cause(p.socket.ctx))
			return
		}
	}
}

// holds reports whether l has the lane.
func (n *Lane) holds(l *link) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.owner == l
}

// deliver hands a message over and waits until it is dealt with.
func (p *peer) deliver(l *link, frames [][]byte) {
	stop := p.socket.ctx.Done()
	select {
	case l.in <- frames:
	case <-l.done:
		return
	case <-stop:
		return
	}
	select {
	case <-l.ack:
	case <-l.done:
	case <-stop:
	}
}

// direct reads the connection for the stream of its one link. It returns nil
// frames once the pump reads instead.
func (p *peer) direct(l *link) ([][]byte, error) {
	for {
		m, err := p.conn.Next()
		if err != nil {
			err = p.cause(err)
			p.socket.left(p, err)
			p.end(err)
			return nil, err
		}
		frames := m.Frames()
		rank, known := p.rank(frames)
		if !known || string(frames[0]) == l.of.topic && rank == l.of.rank {
			return frames, nil // the stream counts what is malformed
		}
		if _, ok := p.socket.names(frames[0]); !ok {
			continue
		}
		// The pump reads from here on, and not for this stream alone.
		l.unhook()
		p.sole.Store(nil)
		if !p.socket.start(func() { p.pump(frames) }) {
			p.end(zmtp.ErrClosed)
			return nil, p.err
		}
		return nil, nil
	}
}

// rank reads the rank of a message, -1 if it states none; false if the message
// is malformed.
func (p *peer) rank(frames [][]byte) (rank int, ok bool) {
	if len(frames) != 3 || len(frames[1]) != 8 {
		return 0, false
	}
	b, err := p.decoder.Reset(frames[2])
	switch {
	case err != nil:
		return 0, false
	case !b.HasRank:
		return -1, true
	case b.Rank < 0 || b.Rank > maxRank:
		return maxRank + 1, true // nobody's: Open refuses it
	}
	return int(b.Rank), true
}

// maxRank bounds what Open is asked about.
const maxRank = 1<<16 - 1

// route finds the link of a message, or makes it, which may not have its lane
// yet. It returns nil, and has counted, if there is none.
func (p *peer) route(frames [][]byte) *link {
	rank, ok := p.rank(frames)
	if !ok {
		if l := p.only(); l != nil && l.lane.holds(l) {
			return l // whose stream counts it, and learns of the loss at once
		}
		p.socket.drops[dropMalformed].Add(1)
		return nil
	}
	if l := p.find(frames[0], rank); l != nil {
		return l
	}
	k, ok := p.socket.names(frames[0])
	if !ok {
		return nil
	}
	if rank >= 0 {
		k.Rank = rank
	}
	lane, err := p.socket.opt.Open(p.socket.ctx, k)
	if err != nil {
		p.socket.refused(k, p, err)
		return nil
	}
	l := newLink(p, lane, series{string(frames[0]), rank})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l.of] = l
	return l
}

// claim gets the link its lane. An error has been counted, and the message with
// it.
func (p *peer) claim(l *link) error {
	s := p.socket
	for {
		owner, freed, err := l.lane.take(l)
		if err == nil && owner == nil {
			return nil
		}
		if err == nil && (owner.peer == p || l.lost == owner && time.Now().Before(l.again)) {
			err = ErrContested
		}
		if err == nil {
			err = p.outlive(l, owner, freed)
		}
		if err == nil {
			continue // the lane is free, or was
		}
		switch {
		case errors.Is(err, ErrContested):
			s.drops[dropContested].Add(1)
		case errors.Is(err, ErrGone):
			l.drop() // the next message asks Open anew
			s.drops[dropRefused].Add(1)
		}
		return err
	}
}

// outlive waits until the owner of l's lane has left it, and ends the owner's
// connection if nothing is heard of it. ErrContested: it lives.
func (p *peer) outlive(l, owner *link, freed <-chan struct{}) error {
	s := p.socket
	start := time.Now()
	// It is answered by a PONG, or any message, or not at all.
	_ = owner.peer.conn.Ping()
	timer := time.NewTimer(s.opt.Takeover)
	defer timer.Stop()
	select {
	case <-freed:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-timer.C:
	}
	if !owner.peer.line.last.silent(start) {
		if l.lost != owner {
			s.log.Warn("two publishers speak for one source and rank; the second is not heard",
				"topic", l.of.topic, "rank", l.of.rank, "first", owner.peer.conn.RemoteAddr(), "second", p.conn.RemoteAddr())
		}
		l.lost, l.again = owner, time.Now().Add(patience*s.opt.Takeover)
		return ErrContested
	}
	s.superseded.Add(1)
	owner.peer.end(ErrSuperseded)
	select {
	case <-freed:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// patience is how many takeovers pass until an owner that was found alive is
// asked again.
const patience = 5
