package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cairn-kv/cairn/ingest"
)

// TestAddLinked follows a source over links of the test's own: it is judged,
// recorded and replayed as any other, and its attempts to connect keep their
// distance.
func TestAddLinked(t *testing.T) {
	e := openEngine(t, Options{})
	rec, f := startRecording(t, e)
	up := make(chan *handLink)
	tries := 0
	dial := func(rank int) Dial {
		if rank != 0 {
			t.Errorf("asked for rank %d", rank)
		}
		return func(ctx context.Context, h ingest.Hooks) (ingest.Link, error) {
			if tries++; tries < 3 {
				return nil, errors.New("not yet")
			}
			select {
			case l := <-up:
				l.ctx, l.hooks = ctx, h
				return l, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	var field *FieldError
	if err := e.AddLinked(patience(t), Source{ID: "w", Model: "m", Endpoint: "tcp://h:1"}, dial); !errors.As(err, &field) {
		t.Errorf("a source with an endpoint: %v", err)
	}
	if err := e.AddLinked(patience(t), Source{ID: "w", Model: "m"}, dial); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Push(patience(t), &Batch{Source: "w", Payload: payloadOf(dialects[1])}); !errors.Is(err, ErrNotPushed) {
		t.Errorf("a push: %v", err)
	}
	give := func(l *handLink, seq uint64, events ...event) {
		t.Helper()
		dealt := make(chan struct{}, 1)
		l.messages <- handed{[][]byte{nil, binary.BigEndian.AppendUint64(nil, seq), payloadOf(dialects[1], events...)}, dealt}
		<-dealt
		if err := e.WaitApplied(patience(t), "w", 0, seq); err != nil {
			t.Fatal(err)
		}
	}
	l := newHandLink(nil)
	up <- l
	give(l, 0, store(2, "GPU", ""))
	give(l, 1, store(3, "GPU", ""))
	l.ends <- errors.New("cut")
	<-l.closed
	await(t, "the end of the link", func() bool { return freshnessOf(t, e, "w", 0, 0).State == Disconnected })
	l = newHandLink(nil)
	l.another = true // of another process, though its sequence goes on
	up <- l
	give(l, 2, store(1, "GPU", ""))
	if got := depthsOf(t, e, prompt(), "w", 0, 0).Device; got != blockTokens {
		t.Errorf("%d tokens, want %d: what the process before had is gone", got, blockTokens)
	}
	if fr := freshnessOf(t, e, "w", 0, 0); fr.State != Degraded || fr.Cause != string(ingest.CauseLateJoin) {
		t.Errorf("%+v", fr)
	}
	want := dumpOf(t, e)
	if err := rec.Stop(); err != nil {
		t.Fatal(err)
	}
	got, _ := replayed(t, f, Options{}, ReplayOptions{})
	differ(t, "linked", want, got)
}
