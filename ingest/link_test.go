package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// queueLink is a link without a connection: messages come from a channel, as
// those of an HTTP push do.
type queueLink struct {
	ctx    context.Context
	hooks  Hooks
	queue  chan [][]byte
	wake   chan struct{}
	closed chan struct{}
}

func (l *queueLink) Next() ([][]byte, error) {
	for {
		select {
		case m, ok := <-l.queue:
			switch {
			case !ok:
				return nil, ErrEnd
			case m == nil:
				return nil, io.EOF // the connection is lost
			}
			return m, nil
		case <-l.wake:
			if err := l.hooks.Woken(); err != nil {
				return nil, err
			}
		case <-l.ctx.Done():
			return nil, context.Cause(l.ctx)
		}
	}
}

func (l *queueLink) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *queueLink) Close() error { close(l.closed); return nil }

func TestAnyLinkFeedsAStream(t *testing.T) {
	r := newRig(t, 0)
	queue, closed := make(chan [][]byte, 16), make(chan struct{})
	dials := 0
	f := r.stream(Options{
		Endpoint: "push",
		Backoff:  zmtp.Backoff{Min: time.Microsecond, Max: time.Microsecond},
		Dial: func(ctx context.Context, h Hooks) (Link, error) {
			if dials++; dials < 3 {
				return nil, fmt.Errorf("attempt %d", dials)
			}
			return &queueLink{ctx: ctx, hooks: h, queue: queue, wake: make(chan struct{}, 1), closed: closed}, nil
		},
	})
	queue <- [][]byte{nil, be(0), payload(nil, storeAB)}
	queue <- [][]byte{be(1)} // counted, as on a socket
	queue <- [][]byte{nil, be(1), payload(nil, storeC)}
	f.wait(1)
	r.device(span(1, 12), 3)
	f.state(Worker, Exact, "")
	if got := f.counted("messages_dropped", "frame_count"); got != 1 {
		t.Errorf("%d messages dropped for their frame count, want 1", got)
	}
	if got := f.counted("dial_errors", ""); got != 2 {
		t.Errorf("%d attempts failed, want 2", got)
	}

	// The end of the source is no disconnect: what it said stays true.
	close(queue)
	<-closed
	err := <-f.ended
	f.ended <- context.Canceled // for the rig's clean-up
	if !errors.Is(err, ErrEnd) {
		t.Fatalf("the stream ended with %v, want ErrEnd", err)
	}
	<-f.port.Done()
	f.state(Worker, Exact, "")
	r.device(span(1, 12), 3)
	if f.now(Worker).Connected {
		t.Error("an ended source counts as connected")
	}
}
