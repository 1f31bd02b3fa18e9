package bound

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/ingest"
)

// link is one series of numbers: the messages of one connection with one topic
// and rank. It implements ingest.Link.
type link struct {
	peer *peer
	lane *Lane
	of   series
	// The pump's alone: the owner of the lane that was found alive, and when it
	// may be asked again.
	lost  *link
	again time.Time

	// From the pump to the stream, if the pump reads.
	in    chan [][]byte
	ack   chan struct{} // one slot: the message is dealt with
	woken chan struct{} // one slot: look at heard and due
	heard atomic.Bool   // a heartbeat came
	due   atomic.Bool   // Wake was called
	done  chan struct{} // closed by Close
	once  sync.Once

	// The stream's goroutine alone, once attached.
	ctx    context.Context
	hooks  ingest.Hooks
	unhook func() bool
	sole   bool     // this goroutine reads the connection
	first  [][]byte // of a sole link: the message that made it
	busy   bool     // the pump waits for ack
}

func newLink(p *peer, lane *Lane, of series) *link {
	return &link{
		peer: p, lane: lane, of: of,
		in: make(chan [][]byte), ack: make(chan struct{}, 1), woken: make(chan struct{}, 1), done: make(chan struct{}),
		unhook: func() bool { return true },
	}
}

// attach gives the link to the stream whose goroutine calls.
func (l *link) attach(ctx context.Context, h ingest.Hooks) {
	l.ctx, l.hooks = ctx, h
	if l.sole {
		// A connection that this goroutine reads is nobody else's.
		l.unhook = context.AfterFunc(ctx, func() { l.peer.end(context.Cause(ctx)) })
	}
}

// Next implements ingest.Link.
func (l *link) Next() ([][]byte, error) {
	if l.busy {
		l.busy = false
		l.ack <- struct{}{}
	}
	if f := l.first; f != nil {
		l.first = nil
		return f, nil
	}
	if l.sole {
		if err := l.wake(); err != nil {
			return nil, err
		}
		if f, err := l.peer.direct(l); f != nil || err != nil {
			return f, err
		}
		l.sole = false
	}
	for {
		select {
		case f := <-l.in:
			l.busy = true
			return f, nil
		case <-l.woken:
			if err := l.wake(); err != nil {
				return nil, err
			}
		case <-l.peer.dead:
			return nil, l.peer.err
		case <-l.ctx.Done():
			return nil, context.Cause(l.ctx)
		}
	}
}

// wake calls the hooks that are due.
func (l *link) wake() error {
	if l.heard.Swap(false) && l.hooks.Heard != nil {
		l.hooks.Heard()
	}
	if l.due.Swap(false) && l.hooks.Woken != nil {
		return l.hooks.Woken()
	}
	return nil
}

// Wake implements ingest.Link.
func (l *link) Wake() {
	l.due.Store(true)
	l.nudge()
	if l.peer.sole.Load() == l {
		l.peer.line.Wake()
	}
}

func (l *link) nudge() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// Close implements ingest.Link.
func (l *link) Close() error {
	l.unhook()
	l.drop()
	l.lane.leave(l)
	return nil
}

// drop ends the link without touching its lane.
func (l *link) drop() {
	l.once.Do(func() {
		close(l.done)
		if l.peer.sole.Load() == l {
			l.peer.end(errUnwanted)
			return
		}
		l.peer.forget(l)
	})
}
