package bound

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairn-kv/cairn/ingest"
)

// Errors that end a link, or keep it from its lane.
var (
	// ErrSuperseded: nothing was heard of the connection while another one
	// claimed its lane.
	ErrSuperseded = errors.New("bound: another connection has taken the place of a silent one")
	// ErrContested: another connection, which lives, claims the same lane.
	ErrContested = errors.New("bound: another live connection speaks for the same source and rank")
	// ErrGone: the lane was closed.
	ErrGone = errors.New("bound: the source was removed")
)

// Lane is where a stream gets its links from: Lane.Dial is its
// ingest.Options.Dial. One link holds a lane at a time.
type Lane struct {
	mu    sync.Mutex
	owner *link         // nil: free
	freed chan struct{} // closed when the owner leaves
	since time.Time     // when the lane became free
	gone  bool

	offer chan *link // to Dial; the owner, once
	done  chan struct{}
}

// NewLane returns a free lane.
func NewLane() *Lane {
	return &Lane{offer: make(chan *link, 1), done: make(chan struct{}), since: time.Now()}
}

// Dial waits for the next link of the lane. It is of the type of
// ingest.Options.Dial.
func (n *Lane) Dial(ctx context.Context, h ingest.Hooks) (ingest.Link, error) {
	select {
	case l := <-n.offer:
		l.attach(ctx, h)
		return l, nil
	case <-n.done:
		return nil, ErrGone
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Free returns since when no connection has held the lane, and false if one
// does.
func (n *Lane) Free() (since time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.since, n.owner == nil
}

// Close ends the lane: its source is no more. The link that holds it stays its
// stream's to close.
func (n *Lane) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return
	}
	n.gone = true
	close(n.done)
	select {
	case l := <-n.offer: // nobody will
		n.free(l)
		l.drop()
	default:
	}
}

// take makes l the owner of a free lane and offers it to the stream. It returns
// who has the lane already, and what is closed when it leaves.
func (n *Lane) take(l *link) (owner *link, freed <-chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.gone:
		return nil, nil, ErrGone
	case n.owner != nil:
		return n.owner, n.freed, nil
	}
	n.owner, n.freed = l, make(chan struct{})
	n.offer <- l // there is room: an owner leaves it when the stream has it
	return nil, nil, nil
}

// leave frees the lane if l holds it.
func (n *Lane) leave(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free(l)
}

func (n *Lane) free(l *link) {
	if n.owner == l {
		n.owner, n.since = nil, time.Now()
		close(n.freed)
	}
}
