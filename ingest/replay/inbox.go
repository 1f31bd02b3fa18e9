package replay

import (
	"context"
	"sync"
	"time"
)

// Kind says what an Item is.
type Kind uint8

const (
	// Batch is one batch, the next in order.
	Batch Kind = iota
	// Lost says that everything before Seq, from the next batch expected on, is
	// not to be had; what follows begins at Seq.
	Lost
	// Vouched says that the witness was right: what follows belongs to the
	// history that the stream knows.
	Vouched
	// Done is the last item.
	Done
)

// Item is one thing that a Fetch has to say.
type Item struct {
	Kind    Kind
	Seq     uint64        // of a Batch; Lost: of the first that is there; Done: of the next
	Topic   []byte        // of a Batch; nil if the reply had none or an empty one
	Payload []byte        // of a Batch; the reader's own
	Outcome Outcome       // of Done
	Err     error         // of Done, why; nil if Outcome says all
	Took    time.Duration // of Done
}

// size is what an item counts for in the bound of its inbox, in bytes.
func (i *Item) size() int { return len(i.Payload) + len(i.Topic) + 64 }

// Inbox takes what a Fetch brings to the one goroutine that wants it. It is
// bounded in bytes: a full one makes Fetch wait.
type Inbox struct {
	limit  int
	notify func()

	mu    sync.Mutex
	items []Item
	bytes int
	room  chan struct{} // a slot of one: something was taken
}

// NewInbox returns an inbox for at most limit bytes (a single larger item is
// taken when it is empty). notify is called after every item that found it
// empty, by the goroutine of Fetch; it must not block.
func NewInbox(limit int, notify func()) *Inbox {
	return &Inbox{limit: limit, notify: notify, room: make(chan struct{}, 1)}
}

// Put adds an item, and waits for room until ctx ends.
func (b *Inbox) Put(ctx context.Context, i Item) error {
	for {
		b.mu.Lock()
		if b.bytes == 0 || b.bytes+i.size() <= b.limit {
			b.items = append(b.items, i)
			b.bytes += i.size()
			first := len(b.items) == 1
			b.mu.Unlock()
			if first {
				b.notify()
			}
			return nil
		}
		b.mu.Unlock()
		select {
		case <-b.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Take returns what has come, in order, and gives spare, emptied, to what
// comes next: two slices in turn, no third.
func (b *Inbox) Take(spare []Item) []Item {
	clear(spare)
	b.mu.Lock()
	got := b.items
	b.items, b.bytes = spare[:0], 0
	b.mu.Unlock()
	select {
	case b.room <- struct{}{}:
	default:
	}
	return got
}
