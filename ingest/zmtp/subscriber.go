package zmtp

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"
)

// maxSubscription bounds what a subscriber may send in one message, in bytes.
const maxSubscription = 64 << 10

// subscriber is the publisher's end of one connection. Senders append to queue;
// the writer goroutine swaps it for an empty one and writes it out, so no lock
// is held during a system call. The reader goroutine (serve) takes
// subscriptions and answers PINGs through the same queue, which keeps every
// frame whole.
//
//	Send ─┐
//	      ├─► queue ──swap──► write ──► socket
//	PONG ─┘                               │
//	topics ◄──────────── serve ◄──────────┘
type subscriber struct {
	conn net.Conn

	mu      sync.Mutex
	moved   sync.Cond // queue was swapped, or the writer is done, or closed
	queue   []byte
	writing bool // a swapped queue is being written
	closed  bool
	topics  map[string]int // how often each prefix was subscribed

	kick chan struct{} // the queue is not empty; buffered, one slot
	done chan struct{} // closed with closed
}

// serve owns one connection from handshake to end. It reports whether the
// handshake succeeded.
func (p *Publisher) serve(nc net.Conn) (shook bool) {
	unhook := context.AfterFunc(p.ctx, func() { nc.Close() })
	defer unhook()
	defer nc.Close()

	raw := newBufConn(nc, 4<<10)
	// zmq4 announces ZMTP 3.0; what follows here speaks 3.1's heartbeats and
	// subscription commands, and says so.
	raw.announce = 1
	bound := p.listener != nil
	switch {
	case bound && len(p.config.Users) > 0:
		raw.security, raw.server = plainServer{users: p.config.Users}, true
	case !bound && p.config.Plain != nil:
		raw.security = plainClient{as: p.config.Plain}
	}
	if _, err := handshake(raw, zmq4.Pub, bound, p.config.HandshakeTimeout, nil); err != nil {
		return false
	}
	s := &subscriber{
		conn:   nc,
		topics: make(map[string]int),
		kick:   make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
	s.moved.L = &s.mu
	if !p.join(s) {
		return true
	}
	defer p.leave(s)
	defer s.close()
	p.running.Go(func() { s.write(p.config.SendTimeout) })
	// Senders wait on a condition, which a context cannot wake by itself.
	unclose := context.AfterFunc(p.ctx, s.close)
	defer unclose()

	frames := NewFrameReader(raw.br, maxSubscription)
	for {
		m, err := frames.Next()
		if err != nil {
			return true
		}
		if topic, on, ok := subscription(m); ok {
			s.subscribe(string(topic), on)
			p.mu.Lock()
			p.announce()
			p.mu.Unlock()
			continue
		}
		if !m.command {
			continue // an upstream message; PUB sockets ignore those
		}
		name, body, ok := splitCommand(m.frames[0])
		if !ok {
			return true
		}
		if context, ok := pingContext(body); ok && string(name) == cmdPing {
			pong := append(append([]byte{byte(len(cmdPong))}, cmdPong...), context...)
			s.mu.Lock()
			s.queue = appendFrame(s.queue, flagCommand, pong)
			s.mu.Unlock()
			s.wake()
		}
	}
}

func (s *subscriber) subscribe(topic string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.topics[topic]++
	} else if s.topics[topic] > 1 {
		s.topics[topic]--
	} else {
		delete(s.topics, topic)
	}
}

func (s *subscriber) subscribed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.topics) > 0 && !s.closed
}

// wants reports whether topic begins with a subscribed prefix. mu is held.
func (s *subscriber) wants(topic []byte) bool {
	for t := range s.topics {
		if len(t) <= len(topic) && bytes.Equal(topic[:len(t)], []byte(t)) {
			return true
		}
	}
	return false
}

// send queues one message of at most size bytes if s wants it. It waits for
// room, or reports false at once if drop is set and there is none.
func (s *subscriber) send(frames [][]byte, size, limit int, drop bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wants(frames[0]) {
		return true
	}
	for !s.closed && len(s.queue) > 0 && len(s.queue)+size > limit {
		if drop {
			return false
		}
		s.moved.Wait()
	}
	if s.closed {
		return true
	}
	for i, f := range frames {
		flags := byte(flagMore)
		if i == len(frames)-1 {
			flags = 0
		}
		s.queue = appendFrame(s.queue, flags, f)
	}
	s.wake()
	return true
}

func (s *subscriber) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// write is the writer goroutine.
func (s *subscriber) write(timeout time.Duration) {
	var out []byte
	for {
		select {
		case <-s.kick:
		case <-s.done:
			return
		}
		s.mu.Lock()
		out, s.queue = s.queue, out[:0]
		s.writing = len(out) > 0
		s.moved.Broadcast()
		s.mu.Unlock()

		if len(out) == 0 {
			continue // a kick that an earlier turn has served
		}
		err := s.conn.SetWriteDeadline(time.Now().Add(timeout))
		if err == nil {
			_, err = s.conn.Write(out)
		}

		s.mu.Lock()
		s.writing = false
		s.moved.Broadcast()
		s.mu.Unlock()
		if err != nil {
			s.close() // ends serve as well
			return
		}
	}
}

// flush waits until the queue is empty and written.
func (s *subscriber) flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		s.moved.Broadcast()
		s.mu.Unlock()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && (len(s.queue) > 0 || s.writing) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.moved.Wait()
	}
	return nil
}

func (s *subscriber) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.moved.Broadcast()
	s.mu.Unlock()
	s.conn.Close()
}
