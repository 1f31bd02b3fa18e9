package ingest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between a stream and its publisher and does what networks do.
//
//	stream ──▶ proxy ──▶ target
//	             ├─ greets: says something of its own instead
//	             ├─ holds:  takes no more from the publisher, and keeps the link
//	             ├─ loses:  takes it, and passes nothing on
//	             └─ cut:    a reset, at once
type proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	target string
	greets func(n int, c net.Conn) bool // false: connection n is passed on
	met    int
	conns  map[net.Conn]bool // both sides
	client net.Conn          // the stream's newest
	closed bool
	open   chan struct{} // closed unless it holds
	loses  bool
}

func newProxy(t testing.TB, target string, greets func(n int, c net.Conn) bool) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, greets: greets, conns: map[net.Conn]bool{}, open: make(chan struct{})}
	close(p.open)
	p.running.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.pass()
		p.cut()
		p.running.Wait()
	})
	return p
}

func (p *proxy) Addr() string { return "tcp://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(c) })
	}
}

func (p *proxy) serve(c net.Conn) {
	defer p.forget(c)
	if !p.keep(c) {
		return
	}
	p.mu.Lock()
	n, target := p.met, p.target
	p.met++
	p.mu.Unlock()
	if p.greets != nil && p.greets(n, c) {
		return
	}
	s, err := net.Dial("tcp", target[len("tcp://"):])
	if err != nil {
		return
	}
	defer p.forget(s)
	if !p.keep(s) {
		return
	}
	s.(*net.TCPConn).SetReadBuffer(16 << 10) // so that a hold is felt soon
	p.mu.Lock()
	p.client = c
	p.mu.Unlock()
	p.running.Go(func() {
		io.Copy(struct{ io.Writer }{s}, c) // not by splice, which keeps pipes in a pool
		s.Close()
	})
	buf := make([]byte, 4096)
	for {
		p.mu.Lock()
		open := p.open
		p.mu.Unlock()
		<-open
		k, err := s.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		loses := p.loses
		p.mu.Unlock()
		if loses {
			continue
		}
		if _, err := c.Write(buf[:k]); err != nil {
			return
		}
	}
}

func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	return !p.closed
}

func (p *proxy) forget(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// cut resets all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

// aim has the next connections go to another publisher.
func (p *proxy) aim(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// swallow begins or ends to lose what the publisher says.
func (p *proxy) swallow(loses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loses = loses
}

// hold takes nothing more from the publisher, behind what is on its way, until
// pass.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

func (p *proxy) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// says puts bytes of its own behind what was passed on.
func (p *proxy) says(raw []byte) {
	p.mu.Lock()
	c := p.client
	p.mu.Unlock()
	c.Write(raw)
}
