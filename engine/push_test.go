package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// payloadOf is a batch of events in a dialect.
func payloadOf(d dialect, events ...event) []byte {
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, 1)
	b = msgp.AppendArrayHeader(b, uint32(len(events)))
	for _, e := range events {
		b = d.append(b, e)
	}
	return msgp.AppendNil(b)
}

func addPushed(t testing.TB, e *Engine, id string, set func(*Source)) {
	t.Helper()
	s := Source{ID: id, Model: "m", Push: true}
	if set != nil {
		set(&s)
	}
	if err := e.AddSource(patience(t), s); err != nil {
		t.Fatal(err)
	}
}

// TestPush follows one push source through everything that can become of a
// batch.
func TestPush(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			e := openEngine(t, Options{})
			addPushed(t, e, "w", nil)
			push := func(b Batch, want PushResult) {
				t.Helper()
				b.Source, b.Applied = "w", true
				got, err := e.Push(patience(t), &b)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			}
			device := func(want int) {
				t.Helper()
				if got := depthsOf(t, e, prompt(), "w", 0, 0).Device; got != want*blockTokens {
					t.Errorf("%d tokens on the device, want %d", got, want*blockTokens)
				}
			}
			push(Batch{Payload: payloadOf(d, store(2, "GPU", ""))}, PushResult{Seq: 0, Verdict: VerdictNext, Events: 1, State: Exact})
			device(2)
			push(Batch{Seq: 1, HasSeq: true, Payload: payloadOf(d, store(3, "GPU", ""), remove("GPU", "", chainNames[0], chainNames[1]))},
				PushResult{Seq: 1, Verdict: VerdictNext, Events: 2, State: Exact})
			device(3)
			push(Batch{Seq: 1, HasSeq: true, Payload: payloadOf(d, remove("GPU", "", chainNames[0]))},
				PushResult{Seq: 1, Verdict: VerdictDuplicate, Events: 1, State: Exact})
			device(3) // of a duplicate nothing is applied
			push(Batch{Seq: 5, HasSeq: true, Payload: payloadOf(d, store(1, "GPU", ""))},
				PushResult{Seq: 5, Verdict: VerdictGap, Missing: 3, Events: 1, State: Degraded, Cause: "gap"})
			device(1)
			// One bad event costs nobody else.
			bad := store(4, "GPU", "")
			bad.tokens = bad.tokens[:100]
			push(Batch{Payload: payloadOf(d, bad, store(2, "GPU", ""))},
				PushResult{Seq: 6, Verdict: VerdictNext, Events: 2, Rejected: []RejectedEvent{{Index: 0, Reason: wire.ReasonTokenCount.String()}}, State: Degraded, Cause: "gap"})
			device(2)
			push(Batch{Payload: payloadOf(d, event{clear: true}, store(1, "GPU", ""))}, PushResult{Seq: 7, Verdict: VerdictNext, Events: 2, State: Exact})
			device(1)
			push(Batch{Seq: 0, HasSeq: true, Payload: payloadOf(d, store(2, "GPU", ""))}, PushResult{Seq: 0, Verdict: VerdictRestart, Events: 1, State: Exact})
			device(2)
			push(Batch{Payload: payloadOf(d, store(3, "GPU", ""))}, PushResult{Seq: 1, Verdict: VerdictNext, Events: 1, State: Exact})
			device(3)
		})
	}
}

func TestPushErrors(t *testing.T) {
	e := openEngine(t, Options{})
	addPushed(t, e, "w", func(s *Source) { s.FirstSeq, s.Ranks, s.Topic = 1, 2, "kv" })
	addWorker(t, e, "socket", "127.0.0.1", 1, dialects[0], nil)
	good := payloadOf(dialects[0], store(1, "GPU", ""))
	rank99 := msgp.AppendInt(good[:len(good)-1:len(good)-1], 99)
	field := func(name string) func(error) bool {
		return func(err error) bool {
			var f *FieldError
			return errors.As(err, &f) && f.Field == name && f.Source == "w"
		}
	}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	for _, tc := range []struct {
		name string
		b    Batch
		ok   func(error) bool
	}{
		{"no such source", Batch{Source: "x", Payload: good}, is(ErrUnknownSource)},
		{"a source with an endpoint", Batch{Source: "socket", Payload: good}, is(ErrNotPushed)},
		{"a rank without a stream", Batch{Source: "w", Topic: []byte("kv"), Rank: 2, Payload: good}, field("rank")},
		{"a negative rank", Batch{Source: "w", Topic: []byte("kv"), Rank: -1, Payload: good}, field("rank")},
		{"the end marker", Batch{Source: "w", Topic: []byte("kv"), Seq: 1<<64 - 1, HasSeq: true, Payload: good}, field("seq")},
		{"below the first", Batch{Source: "w", Topic: []byte("kv"), Seq: 0, HasSeq: true, Payload: good}, field("seq")},
		{"another topic", Batch{Source: "w", Payload: good}, field("topic")},
		{"a batch's rank", Batch{Source: "w", Topic: []byte("kv"), Payload: rank99}, field("data_parallel_rank")},
		{"cut", Batch{Source: "w", Topic: []byte("kv"), Payload: good[:len(good)-3]}, is(ErrBatch)},
		{"empty", Batch{Source: "w", Topic: []byte("kv")}, is(ErrBatch)},
	} {
		if _, err := e.Push(patience(t), &tc.b); !tc.ok(err) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	// None of them has used up a sequence.
	res, err := e.Push(patience(t), &Batch{Source: "w", Topic: []byte("kv"), Payload: good, Applied: true})
	if err != nil || res.Seq != 1 || res.State != Exact {
		t.Errorf("%+v, %v", res, err)
	}
	for name, s := range map[string]Source{
		"endpoint": {ID: "a", Model: "m", Push: true, Endpoint: "tcp://h:1"},
		"shards":   {ID: "a", Model: "m", Push: true, Shards: []string{"tcp://h:1"}},
		"replay":   {ID: "a", Model: "m", Push: true, Replay: "tcp://h:1"},
	} {
		var f *FieldError
		if err := e.AddSource(patience(t), s); !errors.As(err, &f) || f.Field != "push" {
			t.Errorf("push beside %s: %v", name, err)
		}
	}
	if err := e.RemoveSource(patience(t), "w"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Push(patience(t), &Batch{Source: "w", Payload: good}); !errors.Is(err, ErrUnknownSource) {
		t.Errorf("a source that was removed: %v", err)
	}
	if err := e.Close(patience(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Push(patience(t), &Batch{Source: "w", Payload: good}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed engine: %v", err)
	}
}

// TestPushWaits: while the index does not move, a push waits, others wait
// behind it, and contexts end the waiting without harm.
func TestPushWaits(t *testing.T) {
	e := openEngine(t, Options{RingBytes: 4 << 10})
	addPushed(t, e, "w", nil)
	s, _ := e.sources.Load("w")
	release, stopped := holdWriter(t, e.shards[s.shard].writer)
	<-stopped
	// Batches that fill the ring: at last one does not fit.
	var done int
	for {
		ctx, cancel := context.WithTimeout(patience(t), 50*time.Millisecond)
		_, err := e.Push(ctx, &Batch{Source: "w", Payload: payloadOf(dialects[1], store(4, "GPU", ""))})
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
		if done++; done > 1000 {
			t.Fatal("a full ring lets everything through")
		}
	}
	ctx, cancel := context.WithCancel(patience(t))
	waiting := make(chan error, 1)
	go func() {
		_, err := e.Push(ctx, &Batch{Source: "w", Payload: payloadOf(dialects[1], store(1, "GPU", ""))})
		waiting <- err
	}()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("a push that was called off: %v", err)
	}
	release()
	// The one whose caller went away while the stream was at it is applied; the
	// one that never got its turn is not, and left no hole.
	res, err := e.Push(patience(t), &Batch{Source: "w", Payload: payloadOf(dialects[1], store(4, "GPU", "")), Applied: true})
	if err != nil || res.Seq != uint64(done+1) || res.State != Exact {
		t.Errorf("%+v, %v behind %d batches", res, err, done+1)
	}
}

// holdWriter stops a shard's writer until it is released.
func holdWriter(t testing.TB, s *shard.Shard) (release func(), stopped chan struct{}) {
	gate := make(chan struct{})
	stopped = make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Do(context.Background(), func(tree.Writer) { close(stopped); <-gate })
	}()
	var once sync.Once
	release = func() { once.Do(func() { close(gate) }); <-ended }
	t.Cleanup(release)
	return release, stopped
}

// TestPushManyAtOnce: callers of one stream take turns, those of others do not
// wait for them, and every batch is applied once.
func TestPushManyAtOnce(t *testing.T) {
	e := openEngine(t, Options{})
	for i := range 3 {
		addPushed(t, e, fmt.Sprint("w", i), nil)
	}
	rec, f := startRecording(t, e)
	var all sync.WaitGroup
	seqs := make([][]uint64, 3)
	var mu sync.Mutex
	for i := range 3 {
		for k := range 8 {
			all.Go(func() {
				for n := range 25 {
					name := uint64(1000*k + n + 1)
					res, err := e.Push(patience(t), &Batch{Source: fmt.Sprint("w", i), Applied: n%5 == 0,
						Payload: payloadOf(dialects[k%2], event{names: []uint64{name}, tokens: count(uint32(name), uint32(name)+3), medium: "GPU", size: 4})})
					if err != nil || res.Verdict != VerdictNext || res.State != Exact {
						t.Errorf("%+v, %v", res, err)
					}
					mu.Lock()
					seqs[i] = append(seqs[i], res.Seq)
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	for i, s := range seqs {
		slices.Sort(s)
		if len(s) != 200 || s[0] != 0 || s[199] != 199 || len(slices.Compact(s)) != 200 {
			t.Errorf("w%d: sequences %v", i, s)
		}
		if _, err := e.Push(patience(t), &Batch{Source: fmt.Sprint("w", i), Payload: payloadOf(dialects[0]), Applied: true}); err != nil {
			t.Error(err)
		}
	}
	want := dumpOf(t, e)
	if err := rec.Stop(); err != nil {
		t.Fatal(err)
	}
	got, report := replayed(t, f, Options{}, ReplayOptions{})
	differ(t, "pushed", want, got)
	if report.Messages != 603 {
		t.Errorf("%d messages, want 603", report.Messages)
	}
}
