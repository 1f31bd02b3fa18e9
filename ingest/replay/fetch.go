package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// Defaults of Options.
const (
	DefaultSilence = 5 * time.Second
	DefaultTotal   = 30 * time.Second
)

// Options of a Fetch. Zero values mean the defaults.
type Options struct {
	// Transport is how to connect; its Endpoint is the replay endpoint.
	Transport zmtp.Options
	// Silence is how long nothing may come: neither a reply nor a connection.
	Silence time.Duration
	// Total bounds the fetch.
	Total time.Duration
	// Witness, if set, is asked for first: see there.
	Witness *Witness
	// Peek ends the fetch with Something at the first reply from Known on;
	// nothing of it is delivered.
	Peek  bool
	Known uint64
	// Tally, if set, is counted into.
	Tally *Tally
}

// Witness is a batch that the caller has: the one before the first it asks
// for. Same tells whether a payload is that batch's.
type Witness struct {
	Same func(payload []byte) bool
}

// Tally counts what fetches see. Any goroutine may read it.
type Tally struct {
	Requests  atomic.Uint64 // sent
	Malformed atomic.Uint64 // replies of no known framing
	Late      atomic.Uint64 // replies of batches that had come, or were given up
	Again     atomic.Uint64 // requests because a replay had a hole in its middle
}

// Outcome says how a fetch ended.
type Outcome uint8

const (
	// Ended: an end marker came, and what came before it has no hole that was
	// not said.
	Ended Outcome = iota
	// Something: there is something to be had (Options.Peek).
	Something
	// Silent: nothing came for too long.
	Silent
	// TimedOut: it took too long in all.
	TimedOut
	// Stranger: the witness's sequence has another batch. The publisher is
	// another process.
	Stranger
	// Unvouched: the publisher has later batches, but not the witness (any
	// more), so nobody can tell whose history it is.
	Unvouched
	// Nothing: it has neither the witness nor anything later.
	Nothing
	// Cancelled: the context ended.
	Cancelled
	NumOutcomes
)

var outcomeNames = [NumOutcomes]string{"ended", "something", "silent", "timed_out", "stranger", "unvouched", "nothing", "cancelled"}

// String returns the outcome's word.
func (o Outcome) String() string {
	if o < NumOutcomes {
		return outcomeNames[o]
	}
	return "unknown"
}

// stall is how long a replay that has begun may pause. Its sender does nothing
// else meanwhile, so what pauses has lost its end.
const stall = time.Second

// fetch is a Fetch at work.
type fetch struct {
	o      Options
	box    *Inbox
	next   uint64 // the first that has not come
	last   []byte // the payload before it, once something has come
	window window
	heard  time.Time // when something came last, or the fetch began

	// Of the request at hand.
	gave   bool // it has brought something in order
	proven bool // the witness was right, or there is none
}

// errStop ends a fetch whose outcome is said already.
var errStop = errors.New("replay: stop")

// Fetch asks for everything from sequence from on, and delivers it into box in
// order: batches, holes that nobody can fill, and at last Done. It asks again,
// from the first that is missing, whenever a connection breaks or a replay has
// lost something in its middle. It returns after Done is delivered, or when ctx
// ends, Done then being left out if there is no room.
func Fetch(ctx context.Context, o Options, from uint64, box *Inbox) {
	if o.Silence == 0 {
		o.Silence = DefaultSilence
	}
	if o.Total == 0 {
		o.Total = DefaultTotal
	}
	if o.Tally == nil {
		o.Tally = new(Tally)
	}
	if from == 0 {
		o.Witness = nil
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(parent, o.Total)
	defer cancel()
	began := time.Now()
	f := &fetch{o: o, box: box, next: from, heard: began, proven: o.Witness == nil}
	out, err := f.run(ctx)
	switch {
	case err == errStop:
		err = nil
	case parent.Err() != nil:
		out, err = Cancelled, context.Cause(parent)
	case ctx.Err() != nil:
		out = TimedOut
	}
	_ = box.Put(parent, Item{Kind: Done, Seq: f.next, Outcome: out, Err: err, Took: time.Since(began)})
}

// run connects, and connects again, until there is an outcome. An error other
// than errStop is one of the transport, or the end of ctx.
func (f *fetch) run(ctx context.Context) (Outcome, error) {
	var back zmtp.Backoff
	for {
		began := f.next
		out, err := f.connection(ctx)
		if err == errStop || ctx.Err() != nil {
			return out, err
		}
		// The connection could not be made, broke, or fell silent.
		if f.next != began {
			back.Reset()
		}
		pause, stop := context.WithTimeout(ctx, f.patience())
		wait := back.Wait(pause)
		stop()
		if wait != nil && ctx.Err() == nil {
			return Silent, err
		}
	}
}

// patience is how much longer nothing may come.
func (f *fetch) patience() time.Duration { return f.o.Silence - time.Since(f.heard) }

// connection asks over one connection, until there is an outcome or it is of no
// more use.
func (f *fetch) connection(ctx context.Context) (Outcome, error) {
	t := f.o.Transport
	if left := max(f.patience(), time.Millisecond); t.HandshakeTimeout == 0 || t.HandshakeTimeout > left {
		t.HandshakeTimeout = left
	}
	d, err := zmtp.DialDealer(ctx, t)
	if err != nil {
		return Silent, err
	}
	defer d.Close()
	if f.last != nil {
		// Who answers now need not be who answered before.
		last := f.last
		f.o.Witness = &Witness{Same: func(p []byte) bool { return bytes.Equal(p, last) }}
		f.proven = false
	}
	for {
		from := f.next
		if !f.proven {
			from--
		}
		if err := d.Send(request(from)...); err != nil {
			return Silent, err
		}
		f.o.Tally.Requests.Add(1)
		f.gave = false
		if out, err := f.replies(ctx, d); err != nil {
			return out, err
		}
		f.o.Tally.Again.Add(1)
	}
}

// replies reads what one request brings. It returns nil if that has a hole and
// is at its end.
func (f *fetch) replies(ctx context.Context, d *zmtp.Dealer) (Outcome, error) {
	for {
		left := f.patience()
		if left <= 0 {
			return Silent, os.ErrDeadlineExceeded
		}
		if f.gave {
			left = min(left, stall)
		}
		m, err := d.Next(left)
		if err != nil {
			return Silent, err
		}
		r, ok := parse(m.Frames())
		if !ok {
			f.o.Tally.Malformed.Add(1)
			continue
		}
		f.heard = time.Now()
		out, again, err := f.take(ctx, r)
		if err != nil || again {
			return out, err
		}
	}
}

// take deals with one reply. again says that the request is over and another is
// needed.
func (f *fetch) take(ctx context.Context, r reply) (out Outcome, again bool, err error) {
	if !f.proven {
		switch {
		case r.end:
			return Nothing, false, errStop
		case r.seq >= f.next:
			return Unvouched, false, errStop
		case r.seq < f.next-1:
			f.o.Tally.Late.Add(1)
			return 0, false, nil
		case !f.o.Witness.Same(r.payload):
			return Stranger, false, errStop
		}
		f.proven, f.gave = true, true
		return 0, false, f.box.Put(ctx, Item{Kind: Vouched})
	}
	switch {
	case r.end:
		return f.ended(ctx)
	case r.seq < f.next:
		f.o.Tally.Late.Add(1)
		return 0, false, nil
	case f.o.Peek && r.seq < f.o.Known:
		return 0, false, nil
	case f.o.Peek:
		return Something, false, errStop
	}
	i := Item{Kind: Batch, Seq: r.seq, Topic: bytes.Clone(r.topic), Payload: bytes.Clone(r.payload)}
	if r.seq == f.next {
		return 0, false, f.deliver(ctx, i)
	}
	if f.window.add(i) || f.gave {
		// What does not fit behind a hole in the middle comes again, with the
		// next request.
		return 0, false, nil
	}
	// So much came behind the hole and nothing before it: it is lost.
	if err := f.lose(ctx); err != nil {
		return 0, false, err
	}
	if r.seq == f.next {
		return 0, false, f.deliver(ctx, i)
	}
	f.window.add(i)
	return 0, false, nil
}

// deliver hands over the batch that is next, and those that waited behind it.
func (f *fetch) deliver(ctx context.Context, i Item) error {
	for ok := true; ok; i, ok = f.window.next(f.next) {
		if err := f.box.Put(ctx, i); err != nil {
			return err
		}
		f.next++
		f.last, f.gave = i.Payload, true
	}
	f.heard = time.Now() // what put waited for was us
	return nil
}

// lose gives up what lies before the window.
func (f *fetch) lose(ctx context.Context) error {
	lowest, ok := f.window.lowest()
	if !ok {
		return nil
	}
	if err := f.box.Put(ctx, Item{Kind: Lost, Seq: lowest}); err != nil {
		return err
	}
	f.next = lowest
	i, _ := f.window.next(lowest)
	return f.deliver(ctx, i)
}

// ended deals with an end marker. It proves nothing where there is a hole.
func (f *fetch) ended(ctx context.Context) (out Outcome, again bool, err error) {
	if _, hole := f.window.lowest(); !hole {
		return Ended, false, errStop
	}
	if f.gave {
		return 0, true, nil
	}
	if err := f.lose(ctx); err != nil {
		return 0, false, err
	}
	if _, hole := f.window.lowest(); hole {
		return 0, true, nil
	}
	return Ended, false, errStop
}

// String is for logs.
func (i Item) String() string {
	switch i.Kind {
	case Batch:
		return fmt.Sprintf("batch %d", i.Seq)
	case Lost:
		return fmt.Sprintf("lost before %d", i.Seq)
	case Vouched:
		return "vouched"
	}
	return fmt.Sprintf("done: %v", i.Outcome)
}
