package ingest

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// wordTap is a Tap that writes down what it is told, in words.
type wordTap struct{ words []string }

func (t *wordTap) say(format string, values ...any) {
	t.words = append(t.words, fmt.Sprintf(format, values...))
}

func (t *wordTap) Up() { t.say("up") }
func (t *wordTap) Message(frames [][]byte, f Fate) {
	n := "malformed"
	if len(frames) == 3 && len(frames[1]) == 8 {
		n = fmt.Sprint(binary.BigEndian.Uint64(frames[1]))
	}
	t.say("%s %s", n, [...]string{"dealt", "held", "dropped"}[f])
}
func (t *wordTap) Merged(seq uint64)             { t.say("%d merged", seq) }
func (t *wordTap) Replayed(seq uint64, _ []byte) { t.say("%d replayed", seq) }
func (t *wordTap) Restarted()                    { t.say("restarted") }
func (t *wordTap) Restored()                     { t.say("restored") }
func (t *wordTap) Down(err error)                { t.say("down: %v", err) }

// newcomer is a link of another process than the one before.
type newcomer struct{ Link }

func (newcomer) Another() bool { return true }

// TestTap: a tap is told what becomes of each message, in the order of what is
// done, and before it can be seen.
func TestTap(t *testing.T) {
	r := newRig(t, 0)
	tap := &wordTap{}
	links := make(chan Link, 2)
	ends := make(chan [][]byte)
	first := make(chan [][]byte)
	o := Tapped(Options{
		Backoff: zmtp.Backoff{Min: 1, Max: 1},
		Dial: func(ctx context.Context, h Hooks) (Link, error) {
			select {
			case l := <-links:
				q, ok := l.(newcomer)
				if !ok {
					q = newcomer{l}
				}
				inner := q.Link.(*queueLink)
				inner.ctx, inner.hooks = ctx, h
				return l, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		},
	}, tap)
	f := r.stream(o)
	queue := func(q chan [][]byte) *queueLink {
		return &queueLink{queue: q, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	}
	links <- queue(first)
	first <- [][]byte{nil, be(0), payload(nil, storeAB)}
	first <- [][]byte{be(1)}                             // malformed
	first <- [][]byte{nil, be(0), payload(nil, storeAB)} // again
	first <- [][]byte{nil, be(1), {0xc1}}                // undecodable: it uses up its number
	first <- [][]byte{nil, be(4), payload(nil, storeAB)} // a loss for good
	first <- nil                                         // the link is cut
	links <- newcomer{queue(ends)}
	ends <- [][]byte{nil, be(5), payload(nil, storeAB)} // the next number, of another process
	f.restarted()
	f.wait(5)
	f.state(Worker, Degraded, CauseLateJoin)
	want := []string{"up", "0 dealt", "malformed dropped", "0 dropped", "1 dealt", "4 dealt", "down: EOF", "up", "restarted", "5 dealt"}
	if !slices.Equal(tap.words, want) {
		t.Errorf("told %q\nwant %q", tap.words, want)
	}
}
