package replay

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a replay endpoint that answers by a script.
type engine struct {
	*zmtp.Router
	mu   sync.Mutex
	asks []uint64
}

// ask is one request: how many came before it, and from where.
type ask struct {
	ctx   context.Context
	n     int
	from  uint64
	reply zmtp.Reply
}

var never = seq8(1<<64 - 1)

func seq8(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// old and recent are the two framings.
func (a ask) old(seqs ...uint64) {
	for _, n := range seqs {
		_ = a.reply(nil, seq8(n), payload(n))
	}
}

func (a ask) recent(seqs ...uint64) {
	for _, n := range seqs {
		_ = a.reply(nil, []byte("kv@h@m"), seq8(n), payload(n))
	}
}

func (a ask) oldEnd()    { _ = a.reply(nil, never, nil) }
func (a ask) recentEnd() { _ = a.reply(nil, nil, never, nil) }

// hang keeps the request open without a word.
func (a ask) hang() { _ = a.reply(); <-a.ctx.Done() }

func payload(n uint64) []byte { return fmt.Appendf(nil, "payload of %d", n) }

func span(from, to uint64) (s []uint64) {
	for ; from <= to; from++ {
		s = append(s, from)
	}
	return s
}

func serve(t *testing.T, script func(a ask)) *engine {
	t.Helper()
	e := &engine{}
	var err error
	e.Router, err = zmtp.RouterConfig{Handle: func(ctx context.Context, request [][]byte, reply zmtp.Reply) {
		if len(request) != 2 || len(request[0]) != 0 || len(request[1]) != 8 {
			t.Errorf("the request is %q; an empty frame and 8 bytes would be right", request)
			return
		}
		from := binary.BigEndian.Uint64(request[1])
		e.mu.Lock()
		n := len(e.asks)
		e.asks = append(e.asks, from)
		e.mu.Unlock()
		script(ask{ctx, n, from, reply})
	}}.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func (e *engine) asked() []uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asks)
}

// fetched runs a Fetch and returns what it delivered, in words.
func fetched(t *testing.T, e *engine, o Options, from uint64) (words []string, tally *Tally) {
	t.Helper()
	o.Transport.Endpoint = e.Addr()
	if o.Silence == 0 {
		o.Silence = 20 * time.Second
	}
	tally = new(Tally)
	o.Tally = tally
	box := NewInbox(1<<20, func() {})
	Fetch(t.Context(), o, from, box)
	for _, i := range box.Take(nil) {
		if i.Kind == Batch {
			if got := string(i.Payload); got != string(payload(i.Seq)) {
				t.Errorf("batch %d has %q", i.Seq, got)
			}
			// Runs of batches in short.
			if last := len(words) - 1; last >= 0 && strings.HasPrefix(words[last], "to ") && words[last] == fmt.Sprintf("to %d", i.Seq-1) {
				words[last] = fmt.Sprintf("to %d", i.Seq)
				continue
			}
			words = append(words, fmt.Sprintf("from %d", i.Seq), fmt.Sprintf("to %d", i.Seq))
			continue
		}
		words = append(words, i.String())
	}
	return words, tally
}

func TestFetch(t *testing.T) {
	same := &Witness{Same: func(p []byte) bool { return string(p) == string(payload(4)) }}
	for _, c := range []struct {
		name   string
		from   uint64
		script func(a ask)
		o      Options
		want   string
		asks   []uint64
	}{
		{"old framing", 5, func(a ask) { a.old(5, 6); a.oldEnd() }, Options{},
			"from 5, to 6, done: ended", []uint64{5}},
		{"recent framing", 5, func(a ask) { a.recent(5, 6); a.recentEnd() }, Options{},
			"from 5, to 6, done: ended", []uint64{5}},
		{"either end marker", 5, func(a ask) { a.recent(5); a.oldEnd() }, Options{},
			"from 5, to 5, done: ended", []uint64{5}},
		{"nothing newer", 5, func(a ask) { a.oldEnd() }, Options{},
			"done: ended", []uint64{5}},
		{"out of order", 5, func(a ask) { a.old(6, 5); a.oldEnd() }, Options{},
			"from 5, to 6, done: ended", []uint64{5}},
		{"the buffer begins later", 1, func(a ask) { a.old(span(5, 9)...); a.oldEnd() }, Options{},
			"lost before 5, from 5, to 9, done: ended", []uint64{1}},
		{"the buffer begins much later, and the window is too small for it", 1,
			func(a ask) { a.old(span(500, 1500)...); a.oldEnd() }, Options{},
			"lost before 500, from 500, to 1500, done: ended", []uint64{1}},
		{"loses in the middle, and sends the end marker all the same", 0,
			func(a ask) {
				if a.n == 0 {
					a.old(span(0, 9)...)
					a.old(span(20, 29)...)
				} else {
					a.old(span(a.from, 29)...)
				}
				a.oldEnd()
			}, Options{},
			"from 0, to 29, done: ended", []uint64{0, 10}},
		{"loses in the middle more than the window holds behind", 0,
			func(a ask) {
				if a.n == 0 {
					a.old(span(0, 9)...)
					a.old(span(20, 999)...)
				} else {
					a.old(span(a.from, 999)...)
				}
				a.oldEnd()
			}, Options{},
			"from 0, to 999, done: ended", []uint64{0, 10}},
		{"a hole that nobody fills: a batch that could not be encoded", 0,
			func(a ask) {
				for _, n := range []uint64{0, 1, 2, 4, 5} {
					if n >= a.from {
						a.old(n)
					}
				}
				a.oldEnd()
			}, Options{},
			"from 0, to 2, lost before 4, from 4, to 5, done: ended", []uint64{0, 3}},
		{"stops in the middle without an end marker", 0,
			func(a ask) {
				if a.n == 0 {
					a.old(span(0, 9)...)
					a.hang()
				}
				// Another connection: the last batch is asked for as its witness.
				a.old(span(a.from, 19)...)
				a.oldEnd()
			}, Options{},
			"from 0, to 9, vouched, from 10, to 19, done: ended", []uint64{0, 9}},
		{"another process goes on where the first one stopped", 0,
			func(a ask) {
				if a.n == 0 {
					a.old(span(0, 9)...)
					a.hang()
				}
				_ = a.reply(nil, seq8(9), []byte("other"))
				a.old(span(10, 19)...)
				a.oldEnd()
			}, Options{},
			"from 0, to 9, done: stranger", []uint64{0, 9}},
		{"malformed replies are counted", 5, func(a ask) {
			_ = a.reply(nil, seq8(5))
			_ = a.reply(nil, seq8(5)[:7], payload(5))
			_ = a.reply([]byte("x"), seq8(5), payload(5))
			_ = a.reply(nil, nil, nil, nil, nil)
			a.old(5)
			a.oldEnd()
		}, Options{}, "from 5, to 5, done: ended", []uint64{5}},
		{"a witness", 5, func(a ask) { a.old(4, 5, 6); a.oldEnd() }, Options{Witness: same},
			"vouched, from 5, to 6, done: ended", []uint64{4}},
		{"a witness and nothing newer", 5, func(a ask) { a.old(4); a.oldEnd() }, Options{Witness: same},
			"vouched, done: ended", []uint64{4}},
		{"a witness and a hole behind it", 5, func(a ask) {
			if a.n == 0 {
				a.old(4)
			}
			a.old(9)
			a.oldEnd()
		}, Options{Witness: same}, "vouched, lost before 9, from 9, to 9, done: ended", []uint64{4, 5}},
		{"loses what comes behind the witness", 5, func(a ask) {
			if a.n == 0 {
				a.old(4, 9)
			} else {
				a.old(span(a.from, 9)...)
			}
			a.oldEnd()
		}, Options{Witness: same}, "vouched, from 5, to 9, done: ended", []uint64{4, 5}},
		{"another's batch in the place of the witness", 5, func(a ask) {
			_ = a.reply(nil, seq8(4), []byte("other"))
			a.old(5)
			a.oldEnd()
		}, Options{Witness: same}, "done: stranger", []uint64{4}},
		{"the witness is gone", 5, func(a ask) { a.old(7, 8); a.oldEnd() }, Options{Witness: same},
			"done: unvouched", []uint64{4}},
		{"the witness is not there yet", 5, func(a ask) { a.oldEnd() }, Options{Witness: same},
			"done: nothing", []uint64{4}},
		{"a peek", 5, func(a ask) { a.old(5, 6); a.oldEnd() }, Options{Peek: true},
			"done: something", []uint64{5}},
		{"a peek at nothing", 5, func(a ask) { a.oldEnd() }, Options{Peek: true},
			"done: ended", []uint64{5}},
		{"no word", 5, func(a ask) { a.hang() }, Options{Silence: time.Second},
			"done: silent", []uint64{5}},
		{"noise is no word", 5, func(a ask) {
			for a.ctx.Err() == nil && a.reply(nil, nil) == nil && a.reply() == nil {
				time.Sleep(time.Millisecond)
			}
		}, Options{Silence: time.Second}, "done: silent", []uint64{5}},
		{"too long in all", 5, func(a ask) {
			for a.ctx.Err() == nil {
				a.old(1) // late, each of them
				if a.reply() != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}, Options{Total: time.Second}, "done: timed_out", []uint64{5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := serve(t, c.script)
			words, tally := fetched(t, e, c.o, c.from)
			if got := strings.Join(words, ", "); got != c.want {
				t.Errorf("delivered %s\n     want %s", got, c.want)
			}
			if got := e.asked(); !slices.Equal(got, c.asks) {
				t.Errorf("asked from %d, want %d", got, c.asks)
			}
			if got := tally.Requests.Load(); got != uint64(len(c.asks)) {
				t.Errorf("%d requests counted, want %d", got, len(c.asks))
			}
			if c.name == "malformed replies are counted" && tally.Malformed.Load() != 4 {
				t.Errorf("%d malformed replies counted, want 4", tally.Malformed.Load())
			}
		})
	}
}

// A replay endpoint that does not answer the phone at first is tried again.
func TestFetchConnectsAgain(t *testing.T) {
	e := serve(t, func(a ask) { a.old(span(a.from, 9)...); a.oldEnd() })
	tries := 0
	words, _ := fetched(t, e, Options{Transport: zmtp.Options{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if tries++; tries < 3 {
				return nil, fmt.Errorf("refused")
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}, 5)
	if got := strings.Join(words, ", "); got != "from 5, to 9, done: ended" {
		t.Error(got)
	}
}

func TestFetchGivesUpOnARefusedEndpoint(t *testing.T) {
	e := serve(t, func(ask) {})
	e.Close()
	words, _ := fetched(t, e, Options{Silence: 100 * time.Millisecond}, 5)
	if got := strings.Join(words, ", "); got != "done: silent" {
		t.Error(got)
	}
}

// A full inbox makes Fetch wait, and the time it waits is not the publisher's
// silence.
func TestFetchWaitsForRoom(t *testing.T) {
	const n = 2000
	e := serve(t, func(a ask) { a.old(span(a.from, n-1)...); a.oldEnd() })
	came := make(chan struct{}, 1)
	box := NewInbox(1000, func() {
		select {
		case came <- struct{}{}:
		default:
		}
	})
	o := Options{Transport: zmtp.Options{Endpoint: e.Addr()}, Silence: 20 * time.Second}
	ended := make(chan struct{})
	go func() { defer close(ended); Fetch(t.Context(), o, 0, box) }()
	var next uint64
	var items []Item
	for done := false; !done; {
		select {
		case <-came:
		case <-time.After(20 * time.Second):
			t.Fatalf("stuck at %d", next)
		}
		items = box.Take(items)
		size := 0
		for _, i := range items {
			size += i.size()
			switch i.Kind {
			case Batch:
				if i.Seq != next {
					t.Fatalf("batch %d, want %d", i.Seq, next)
				}
				next++
			case Done:
				done = true
				if i.Outcome != Ended {
					t.Errorf("done: %v", i.Outcome)
				}
			}
		}
		if size > 1000 {
			t.Fatalf("%d bytes in an inbox of 1000", size)
		}
	}
	<-ended
	if next != n {
		t.Errorf("%d batches, want %d", next, n)
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	e := serve(t, func(a ask) { a.hang() })
	ctx, cancel := context.WithCancel(t.Context())
	box := NewInbox(1<<20, func() {})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Fetch(ctx, Options{Transport: zmtp.Options{Endpoint: e.Addr()}}, 0, box)
	}()
	for len(e.asked()) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("Fetch goes on without its context")
	}
}
