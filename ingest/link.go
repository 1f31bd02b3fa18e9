package ingest

import (
	"context"
	"errors"
	"net"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// Link is one connection to one publisher: an epoch. Everything that comes over
// it comes from one process, in the order in which it was published. A stream
// makes links one after the other by [Options.Dial]; the default is a zmtp.Conn
// to Options.Endpoint. A publisher on a bound socket, an HTTP push source or a
// recorded file is a link of its own, and is judged, decoded and vouched for as
// any other.
//
// Next and Close belong to the stream's goroutine, Wake to any.
type Link interface {
	// Next waits for the next live message and returns its frames: topic,
	// 8-byte big-endian sequence, payload. Messages of other shapes are passed
	// on as they are, for the stream counts them. Frames are valid until the
	// next call. A source without numbers of its own numbers its messages from
	// Options.FirstSeq on.
	//
	// To ask for the next message is to say that the one before is dealt with:
	// committed to the shard's ring, though not visible yet, held for a repair,
	// or dropped and counted. A source that must acknowledge does so then.
	//
	// An error ends the link, and says by its kind what that means:
	//
	//	errors.Is(err, ErrEnd)   it is the end of the source too: no disconnect,
	//	                         the states stay as they are, Run returns err
	//	any other                the connection was lost: disconnected, until the
	//	                         first message of the next link shows what was
	//	                         missed. The stream dials again after a back-off.
	//
	// When the context given to Dial ends, so does Next.
	Next() ([][]byte, error)
	// Wake makes a Next that waits call Hooks.Woken soon, on the goroutine that
	// waits, and then wait on. One that does not wait may do so at its next
	// wait. It never blocks.
	Wake()
	// Close ends the link and gives back what it holds.
	Close() error
}

// Hooks are how a link tells its stream what is no message. Both are called
// inside Next, on its goroutine, and only there.
type Hooks struct {
	// Heard says that the publisher lives though it sent no message: a
	// heartbeat. A link that cannot tell (a push source, a file) never calls
	// it, and its source is marked silent when no message comes for long.
	Heard func()
	// Woken answers Wake. If it returns an error, Next must return that.
	Woken func() error
}

// ErrEnd ends a link for good: a recording was played, a push source was taken
// away. See Link.Next.
var ErrEnd = errors.New("ingest: the source has ended")

// dialFunc is the type of Options.Dial.
type dialFunc = func(ctx context.Context, h Hooks) (Link, error)

// connLink is the default link.
type connLink struct {
	*zmtp.Conn
	waker *zmtp.Waker
}

func (l *connLink) Next() ([][]byte, error) {
	m, err := l.Conn.Next()
	return m.Frames(), err
}

func (l *connLink) Wake() { l.waker.Wake() }

// dialer returns what connects to a publisher that listens.
func dialer(o zmtp.Options) dialFunc {
	dial := o.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, h Hooks) (Link, error) {
		l := &connLink{}
		o := o
		o.Heartbeat = h.Heard
		o.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			l.waker = zmtp.NewWaker(c, h.Woken)
			return l.waker, nil
		}
		var err error
		if l.Conn, err = zmtp.Dial(ctx, o); err != nil {
			return nil, err
		}
		return l, nil
	}
}
