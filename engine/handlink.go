package engine

import (
	"context"
	"time"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// handLink is a link whose messages are handed over by another goroutine of
// the process, one at a time: of a push source, or of a recording.
//
//	giver                                   stream
//	turn ◀── held until it is dealt with
//	messages ── frames ───────────────────▶ Next
//	            …                           (decodes, commits)
//	dealt ◀───────────────────────────────  Next
type handLink struct {
	ctx      context.Context // given to Dial
	hooks    ingest.Hooks
	turn     chan struct{} // one slot, taken by the giver; nil: there is one giver
	messages chan handed
	ends     chan error    // ends the link, not the source
	over     chan struct{} // closed: ends the source
	wake     chan struct{}
	closed   chan struct{}
	another  bool // it is of another process than the link before

	given *handed // what the stream is at
	last  handed
}

// handed is one message on its way.
type handed struct {
	frames [][]byte
	dealt  chan struct{} // one slot: filled when the stream has dealt with it
}

func newHandLink(over chan struct{}) *handLink {
	return &handLink{
		messages: make(chan handed), ends: make(chan error), over: over,
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// handBackoff is the delay between two links of a stream whose links are
// handed over: Dial waits for the next one anyway.
var handBackoff = zmtp.Backoff{Min: time.Microsecond, Max: time.Microsecond}

// Next implements ingest.Link.
func (l *handLink) Next() ([][]byte, error) {
	if l.given != nil {
		l.given.dealt <- struct{}{} // it has room: one message is under way at a time
		l.given = nil
		if l.turn != nil {
			<-l.turn
		}
	}
	for {
		select {
		case l.last = <-l.messages:
			l.given = &l.last
			return l.last.frames, nil
		case err := <-l.ends:
			return nil, err
		case <-l.wake:
			if err := l.hooks.Woken(); err != nil {
				return nil, err
			}
		case <-l.over:
			return nil, ingest.ErrEnd
		case <-l.ctx.Done():
			return nil, context.Cause(l.ctx)
		}
	}
}

// Another implements ingest.Newcomer.
func (l *handLink) Another() bool { return l.another }

// Wake implements ingest.Link.
func (l *handLink) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Close implements ingest.Link.
func (l *handLink) Close() error {
	close(l.closed)
	return nil
}
