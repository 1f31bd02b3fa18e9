package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/journal"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// file is a recording in memory.
type file struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (f *file) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.b.Write(b)
}

// reader reads what is there now.
func (f *file) reader(t testing.TB) *journal.Reader {
	t.Helper()
	f.mu.Lock()
	b := bytes.Clone(f.b.Bytes())
	f.mu.Unlock()
	r, err := journal.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func startRecording(t testing.TB, e *Engine) (*Recording, *file) {
	t.Helper()
	f := &file{}
	rec, err := e.Record(f, RecordOptions{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Stop() })
	return rec, f
}

// replayed plays a recording into an engine of its own and returns its dump.
func replayed(t testing.TB, f *file, o Options, r ReplayOptions) (string, ReplayReport) {
	t.Helper()
	e := openEngine(t, o)
	report, err := e.Replay(patience(t), f.reader(t), r)
	if err != nil {
		t.Fatal(err)
	}
	return dumpOf(t, e), report
}

func differ(t testing.TB, what, want, got string) {
	t.Helper()
	if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("%s: the dumps differ (- recorded, + replayed)\n%s", what, d)
	}
}

// TestReplayGivesTheSameDump records a history with everything that happens to
// a stream (late joins, gaps, restarts, broken links, damaged batches, faults,
// sources that come and go) and plays it at several speeds, on other indexes
// and other shards.
func TestReplayGivesTheSameDump(t *testing.T) {
	e := openEngine(t, Options{})
	rec, f := startRecording(t, e)
	a := addWorker(t, e, "a", "127.0.0.1", 2, dialects[0], func(s *Source) { s.Protocol = HiCacheV1 })
	b := addWorker(t, e, "b", "127.0.0.1", 1, dialects[1], nil)
	c := addWorker(t, e, "c", "127.0.0.1", 1, dialects[1], func(s *Source) { s.Protocol = VLLMResidencyV1 })
	gone := addWorker(t, e, "gone", "127.0.0.1", 1, dialects[1], nil)

	a.say(t, store(4, "GPU", ""), store(2, "CPU", "kvcr"))
	b.say(t, store(3, "GPU", ""), event{names: []uint64{77}, parent: 76, hasParent: true, tokens: count(1, 64), medium: "GPU"})
	c.say(t, store(4, "GPU", ""))
	gone.say(t, store(4, "GPU", ""))
	a.say(t, remove("GPU", "", chainNames[1]))
	b.sendAs(t, 5, store(2, "GPU", ""))
	b.shards[0].next += 3 // a gap: what was learnt before is given up
	b.say(t, store(2, "CPU", ""))
	c.shards[0].sendRaw([]byte{0xc1}) // a damaged batch
	c.say(t, event{names: []uint64{5}, tokens: count(100, 163), medium: "GPU", salt: "s"})
	if err := e.RemoveSource(patience(t), "gone"); err != nil {
		t.Fatal(err)
	}
	// A restart, over another connection.
	old := c.shards[0]
	old.pub.Close()
	fresh := listenAt(t, old.pub.Addr(), dialects[1])
	if err := fresh.pub.WaitSubscribers(patience(t), 1); err != nil {
		t.Fatal(err)
	}
	c.shards[0] = fresh
	fresh.send(store(1, "GPU", ""))
	await(t, "the restart", func() bool {
		s, _ := e.sources.Load("c")
		at := s.feeds[0].applied()
		return at.Incarnation == 1 && at.Any
	})
	// A source that is fenced: an owner on a source without owned residency.
	d := addWorker(t, e, "d", "127.0.0.1", 1, dialects[1], nil)
	d.say(t, store(2, "GPU", ""))
	d.say(t, store(1, "CPU", "kvcr"))
	d.say(t, store(2, "GPU", ""))
	a.say(t, store(3, "GPU", ""))

	want := dumpOf(t, e)
	if n := strings.Count(want, "\nblock "); n < 15 {
		t.Fatalf("only %d blocks in\n%s", n, want)
	}
	if err := rec.Stop(); err != nil {
		t.Fatal(err)
	}
	in := f.reader(t).Info()
	for _, r := range []struct {
		name  string
		o     Options
		speed float64
	}{
		{"as fast as possible", Options{}, 0},
		{"at the speed of then", Options{}, 1},
		{"seven times as fast", Options{}, 7},
		{"on three shards", Options{Shards: 3}, 0},
		{"with small rings", Options{RingBytes: 4 << 10}, 0},
		{"on the reference", Options{NewIndex: indexes[0].make}, 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			got, report := replayed(t, f, r.o, ReplayOptions{Speed: r.speed})
			differ(t, r.name, want, got)
			if !report.Whole() || report.Sources != 5 || report.Records != in.Records || report.Messages < 14 {
				t.Errorf("%+v of %+v", report, in)
			}
			if took := report.To.Sub(report.From); took <= 0 {
				t.Errorf("from %v to %v", report.From, report.To)
			}
		})
	}

	t.Run("without prompts", func(t *testing.T) {
		// What was recorded is played beside a recording of hashes.
		again := openEngine(t, Options{})
		hashed := &file{}
		second, err := again.Record(hashed, RecordOptions{Hashed: true, Wait: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.Replay(patience(t), f.reader(t), ReplayOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := second.Stop(); err != nil {
			t.Fatal(err)
		}
		got, report := replayed(t, hashed, Options{}, ReplayOptions{})
		differ(t, "hashed", want, got)
		if in := hashed.reader(t).Info(); in.Mode != journal.Hashed || report.Messages < 14 {
			t.Errorf("%+v of %+v", report, in)
		}
	})
	t.Run("cut off", func(t *testing.T) {
		// The file as a crash leaves it: what is read is played.
		whole := f.b.Bytes()
		cut := &file{}
		cut.b.Write(whole[:len(whole)-50])
		got, report := replayed(t, cut, Options{}, ReplayOptions{})
		differ(t, "without its index", want, got)
		if report.Torn == 0 {
			t.Error("a file without its end is not called torn")
		}
	})
	t.Run("a part", func(t *testing.T) {
		from := in.From.Add(in.To.Sub(in.From) / 2)
		got, report := replayed(t, f, Options{}, ReplayOptions{From: from})
		if report.Records == 0 || report.Records >= in.Records || report.From.Before(from) {
			t.Errorf("%+v from %v of %+v", report, from, in)
		}
		if !strings.Contains(got, "holder a 0 worker") {
			t.Errorf("a stream defined before is not there:\n%s", got)
		}
		_, report = replayed(t, f, Options{}, ReplayOptions{Until: from})
		if report.Records == 0 || report.Records >= in.Records || report.To.After(from) {
			t.Errorf("%+v until %v of %+v", report, from, in)
		}
	})
}

// TestReplayKeepsStates: what the streams' word is worth is replayed too.
func TestReplayKeepsStates(t *testing.T) {
	e := openEngine(t, Options{})
	rec, f := startRecording(t, e)
	exact := addWorker(t, e, "exact", "127.0.0.1", 1, dialects[1], nil)
	exact.say(t, store(1, "GPU", ""))
	gap := addWorker(t, e, "gap", "127.0.0.1", 1, dialects[1], nil)
	gap.say(t, store(1, "GPU", ""))
	gap.shards[0].next += 2
	gap.say(t, store(1, "GPU", ""))
	late := addWorker(t, e, "late", "127.0.0.1", 1, dialects[1], nil)
	late.shards[0].next = 9
	late.say(t, store(1, "GPU", ""))
	addWorker(t, e, "silent", "127.0.0.1", 1, dialects[1], nil)
	if err := rec.Stop(); err != nil {
		t.Fatal(err)
	}
	again := openEngine(t, Options{})
	if _, err := again.Replay(patience(t), f.reader(t), ReplayOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"exact", "gap", "late", "silent"} {
		was, is := freshnessOf(t, e, id, 0, 0), freshnessOf(t, again, id, 0, 0)
		if was.State != is.State || was.Cause != is.Cause || was.Applied != is.Applied {
			t.Errorf("%s: %s (%s) at %v, recorded %s (%s) at %v", id, is.State, is.Cause, is.Applied, was.State, was.Cause, was.Applied)
		}
	}
	if got := depthsOf(t, again, prompt(), "exact", 0, 0).Device; got != 64 {
		t.Errorf("a replayed source answers %d tokens, want 64", got)
	}
	// It is a source like any other.
	if err := again.RemoveSource(patience(t), "exact"); err != nil {
		t.Error(err)
	}
}

// TestRecordingInTheMiddle: a recording that begins late has what came since,
// and its replay joins late.
func TestRecordingInTheMiddle(t *testing.T) {
	e := openEngine(t, Options{})
	w := addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], nil)
	w.say(t, store(1, "GPU", ""))
	rec, f := startRecording(t, e)
	if _, err := e.Record(&file{}, RecordOptions{}); !errors.Is(err, ErrRecording) {
		t.Errorf("a second recording: %v", err)
	}
	w.say(t, store(2, "GPU", ""))
	if err := rec.Flush(patience(t)); err != nil {
		t.Fatal(err)
	}
	got, report := replayed(t, f, Options{}, ReplayOptions{}) // of a file that is being written
	if report.Messages != 1 || !strings.Contains(got, "applied=1\n") || strings.Count(got, "\nblock ") != 2 {
		t.Errorf("%+v\n%s", report, got)
	}
	if err := rec.Stop(); err != nil {
		t.Fatal(err)
	}
	w.say(t, store(3, "GPU", ""))
	rec, f = startRecording(t, e)
	w.say(t, store(4, "GPU", ""))
	if err := rec.Stop(); err != nil {
		t.Fatal(err)
	}
	if got, report := replayed(t, f, Options{}, ReplayOptions{}); report.Messages != 1 || strings.Count(got, "\nblock ") != 4 {
		t.Errorf("a second recording: %+v\n%s", report, got)
	}
}

// TestQuiesce stops streams in full flow: the dump is that of the recording, and
// answers go on.
func TestQuiesce(t *testing.T) {
	for _, hashed := range []bool{false, true} {
		e := openEngine(t, Options{RingBytes: 4 << 10})
		f := &file{}
		rec, err := e.Record(f, RecordOptions{Wait: true, Hashed: hashed})
		if err != nil {
			t.Fatal(err)
		}
		var flow sync.WaitGroup
		for _, id := range []string{"a", "b"} {
			p := listen(t, "127.0.0.1", dialects[1])
			if err := e.AddSource(patience(t), Source{ID: id, Model: "m", Endpoint: p.pub.Addr()}); err != nil {
				t.Fatal(err)
			}
			if err := p.pub.WaitSubscribers(patience(t), 1); err != nil {
				t.Fatal(err)
			}
			flow.Go(func() {
				for n := uint64(0); n < 5000; n++ {
					ev := event{names: []uint64{n + 1}, tokens: count(uint32(n), uint32(n)+15), medium: "GPU", size: 16}
					if n%3 == 2 {
						ev = event{remove: true, names: []uint64{n}, medium: "GPU"}
					}
					b := binary.BigEndian.AppendUint64(nil, n)
					if p.pub.Send(nil, b, payloadOf(dialects[1], ev)) != nil {
						return
					}
				}
			})
		}
		await(t, "some flow", func() bool { return rec.Stats().Records > 300 })
		if err := e.Quiesce(patience(t)); err != nil {
			t.Fatal(err)
		}
		want := dumpOf(t, e)
		if err := rec.Stop(); err != nil {
			t.Fatal(err)
		}
		got, report := replayed(t, f, Options{}, ReplayOptions{})
		differ(t, "quiesced", want, got)
		if report.Messages < 200 {
			t.Errorf("%+v", report)
		}
		if err := e.Match(prompt(), &Answer{}); err != nil {
			t.Errorf("a quiesced engine answers %v", err)
		}
		if err := e.Close(patience(t)); err != nil {
			t.Error(err)
		}
		if err := e.Quiesce(patience(t)); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed engine: %v", err)
		}
		flow.Wait()
	}
}

// TestReplayRefuses what is no recording.
func TestReplayRefuses(t *testing.T) {
	play := func(meta string, records ...journal.Record) error {
		f := &file{}
		w, err := journal.NewWriter(f, journal.Options{Meta: []byte(meta)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			if err := w.Append(context.Background(), &records[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = openEngine(t, Options{}).Replay(patience(t), f.reader(t), ReplayOptions{})
		return err
	}
	ours := `{"writer":"cairn","scheme":"additive-v1-salt0"}`
	definition := func(s string) journal.Record {
		return journal.Record{Kind: journal.Define, Stream: 1, Data: [][]byte{[]byte(s)}}
	}
	if err := play(`{"writer":"another"}`); !errors.Is(err, ErrRecordingOf) {
		t.Errorf("of another program: %v", err)
	}
	if err := play(ours, definition(`{`)); !errors.Is(err, ErrRecordingOf) {
		t.Errorf("a definition that is none: %v", err)
	}
	if err := play(ours, definition(`{"source":{"id":"w","model":"m","endpoint":"tcp://h:1"},"rank":7}`)); !errors.Is(err, ErrRecordingOf) {
		t.Errorf("a rank that the source has not: %v", err)
	}
	var field *FieldError
	if err := play(ours, definition(`{"source":{"id":"w","model":"","endpoint":"tcp://h:1"}}`)); !errors.As(err, &field) || field.Field != "model" {
		t.Errorf("a source that cannot be: %v", err)
	}
	if err := play(ours, journal.Record{Kind: journal.Message, Stream: 9}, journal.Record{Kind: journal.Note}); err != nil {
		t.Errorf("records about nothing: %v", err)
	}
}

// TestRecordedSourceIsWhole: every field of a Source is recorded, but for those
// that are named here with the reason.
func TestRecordedSourceIsWhole(t *testing.T) {
	not := map[string]string{
		"Hint":   "decides about hints, not about what is held",
		"Replay": "nobody is asked for anything again", "ShardReplays": "nor of the shards",
		"Discover": "nobody is asked where a publisher is", "Plain": "a secret",
	}
	var s Source
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if not[name] != "" {
			continue
		}
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Int:
			f.SetInt(3)
		case reflect.Uint8, reflect.Uint64:
			f.SetUint(1)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 2, 2))
		default:
			t.Errorf("Source.%s is a %s: record it, or say here why not", name, f.Kind())
		}
	}
	data, err := json.Marshal(record(&s))
	if err != nil {
		t.Fatal(err)
	}
	var back recordedSource
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s, back.source()); d != "" {
		t.Errorf("a source is not what it was recorded as: %s", d)
	}
}

// TestRecordingNeverHurts: a disk that takes nothing costs messages of the
// recording, and no answer.
func TestRecordingNeverHurts(t *testing.T) {
	e := openEngine(t, Options{})
	stuck := &stuckFile{release: make(chan struct{})}
	rec, err := e.Record(stuck, RecordOptions{FlushEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	stuck.mu.Lock()
	stuck.stuck = true
	stuck.mu.Unlock()
	w := addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], nil)
	big := event{names: make([]uint64, 500), tokens: count(1, 500*16), medium: "GPU", size: 16}
	for i := range big.names {
		big.names[i] = uint64(i + 1)
	}
	for range 120 { // more than two chunks
		w.shards[0].send(big)
	}
	w.settle(t) // the index has it all, though the disk has not moved
	if st := rec.Stats(); st.Lost == 0 {
		t.Errorf("nothing is lost: %+v", st)
	}
	close(stuck.release)
	if err := rec.Stop(); err != nil {
		t.Fatal(err)
	}
	_, report := replayed(t, &stuck.file, Options{}, ReplayOptions{})
	if report.Whole() || report.Lost == 0 || report.Messages == 0 {
		t.Errorf("%+v", report)
	}
}

// stuckFile is a file whose writes hang from a moment on until they are let go.
type stuckFile struct {
	file
	stuck   bool
	release chan struct{}
}

func (f *stuckFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	stuck := f.stuck
	f.mu.Unlock()
	if stuck {
		<-f.release
	}
	return f.file.Write(b)
}

// TestTapAllocatesNothing: recording a message costs a stream a copy.
func TestTapAllocatesNothing(t *testing.T) {
	e := openEngine(t, Options{})
	addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], nil)
	s, _ := e.sources.Load("w")
	frames := [][]byte{nil, binary.BigEndian.AppendUint64(nil, 1), make([]byte, 500)}
	tp := &tap{feed: s.feeds[0]}
	if n := testing.AllocsPerRun(1000, func() { tp.Message(frames, ingest.Dealt) }); n != 0 {
		t.Errorf("%v allocations a message that is not recorded", n)
	}
	rec, err := e.Record(discard{}, RecordOptions{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Stop()
	if n := testing.AllocsPerRun(1000, func() { tp.Message(frames, ingest.Dealt) }); n != 0 {
		t.Errorf("%v allocations a message that is", n)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// listenAt is listen at an endpoint that was used before.
func listenAt(t testing.TB, endpoint string, d dialect) *publisher {
	t.Helper()
	pub, err := zmtp.Listen(context.Background(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pub.Close() })
	return &publisher{t: t, pub: pub, dialect: d}
}
