package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/journal"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/content"
)

// ErrRecording says that the engine is being recorded already.
var ErrRecording = errors.New("engine: a recording is under way; an engine has one at a time")

// RecordOptions configure a recording. The zero value is good.
type RecordOptions struct {
	// Hashed records no prompts: hashes of content stand in the place of tokens,
	// and no adapter, salt, extra key or session is named. It replays to the same
	// index as what was received.
	Hashed bool
	// Wait has streams wait for a disk that does not keep up, as for a full
	// ring: for a process that does nothing but record. Without it messages are
	// left out, counted and marked where they are missing, and answering never
	// suffers.
	Wait bool
	// FlushEvery is how long a message waits at most until it is in the file.
	// 0 means a second.
	FlushEvery time.Duration
	// NoSync leaves it to the system when the file is on the disk.
	NoSync bool
}

// Recording is a recording under way. Its methods may be called from any
// goroutine.
type Recording struct {
	engine *Engine
	hashed bool
	w      *journal.Writer
	failed atomic.Bool // and that was logged

	mu   sync.Mutex // guards what follows; held while a definition is written
	ids  map[*feed]uint32
	last uint32
}

// recordMeta is what stands in a recording's header.
type recordMeta struct {
	Writer string `json:"writer"`
	Scheme string `json:"scheme"` // of content hashes
}

// definition is what a recording says of a stream.
type definition struct {
	Source   recordedSource `json:"source"`
	Rank     int            `json:"rank"`
	TPShard  int            `json:"tp_shard"`
	Endpoint string         `json:"endpoint"`
}

// recordedSource is a Source as recordings have it: what decides about the
// index, and nothing that is secret.
type recordedSource struct {
	ID           string      `json:"id"`
	Model        string      `json:"model"`
	Endpoint     string      `json:"endpoint,omitempty"`
	Shards       []string    `json:"shards,omitempty"`
	Push         bool        `json:"push,omitempty"`
	Ranks        int         `json:"ranks,omitempty"`
	Topic        string      `json:"topic,omitempty"`
	Protocol     string      `json:"protocol"`
	Policy       tree.Policy `json:"policy"`
	MainGroup    int         `json:"main_group,omitempty"`
	FirstSeq     uint64      `json:"first_seq,omitempty"`
	NoPythonRoot bool        `json:"no_python_root,omitempty"`
	BareMM       bool        `json:"bare_mm,omitempty"`
	BlockSize    int         `json:"block_size,omitempty"`
	ZeroParent   bool        `json:"zero_parent_unknown,omitempty"`
	TakeUnsound  bool        `json:"take_unsound,omitempty"`
	Hybrid       bool        `json:"hybrid,omitempty"`
	Invisible    bool        `json:"invisible_keys,omitempty"`
}

func record(s *Source) recordedSource {
	return recordedSource{
		ID: s.ID, Model: s.Model, Endpoint: s.Endpoint, Shards: s.Shards, Push: s.Push, Ranks: s.Ranks, Topic: s.Topic, Protocol: s.Protocol,
		Policy: s.Policy, MainGroup: s.MainGroup, FirstSeq: s.FirstSeq, NoPythonRoot: s.NoPythonRoot, BareMM: s.BareMM,
		BlockSize: s.BlockSize, ZeroParent: s.ZeroParentUnknown, TakeUnsound: s.TakeUnsound,
		Hybrid: s.Hybrid, Invisible: s.InvisibleKeys,
	}
}

func (r *recordedSource) source() Source {
	return Source{
		ID: r.ID, Model: r.Model, Endpoint: r.Endpoint, Shards: r.Shards, Push: r.Push, Ranks: r.Ranks, Topic: r.Topic, Protocol: r.Protocol,
		Policy: r.Policy, MainGroup: r.MainGroup, FirstSeq: r.FirstSeq, NoPythonRoot: r.NoPythonRoot, BareMM: r.BareMM,
		BlockSize: r.BlockSize, ZeroParentUnknown: r.ZeroParent, TakeUnsound: r.TakeUnsound,
		Hybrid: r.Hybrid, InvisibleKeys: r.Invisible,
	}
}

// Record writes everything that the engine's sources receive from now on into
// a journal on f, which is empty: what streams there are, when their links
// begin and end, and every message as it came. [Engine.Replay] plays it again.
// f's Sync and Close methods are used if it has them.
//
// A recording that begins before the sources are added replays to the very
// index that it was made beside; one that begins later knows nothing of what
// was said before, and its replay neither.
func (e *Engine) Record(f io.Writer, o RecordOptions) (*Recording, error) {
	if e.view.Load() == nil {
		return nil, ErrClosed
	}
	meta, err := json.Marshal(recordMeta{Writer: "cairn", Scheme: content.Scheme})
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	r := &Recording{engine: e, hashed: o.Hashed, ids: map[*feed]uint32{}}
	mode := journal.Raw
	if o.Hashed {
		mode = journal.Hashed
	}
	if e.recording.Load() != nil {
		return nil, ErrRecording
	}
	r.w, err = journal.NewWriter(f, journal.Options{Mode: mode, Meta: meta, Wait: o.Wait, FlushEvery: o.FlushEvery, NoSync: o.NoSync})
	if err != nil {
		return nil, err
	}
	if !e.recording.CompareAndSwap(nil, r) {
		return nil, errors.Join(ErrRecording, r.w.Close())
	}
	// Those that speak first, and those that are added now, are known already.
	if v := e.view.Load(); v != nil {
		for _, m := range v.models {
			for _, s := range m.sources {
				for _, f := range s.streams() {
					r.join(f)
				}
			}
		}
	}
	return r, nil
}

// Stats returns what the recording has counted.
func (r *Recording) Stats() journal.Stats { return r.w.Stats() }

// RecordingStats are a recording's counts.
type RecordingStats = journal.Stats

// RecordingStats returns the counts of the recording that is under way; false
// if none is.
func (e *Engine) RecordingStats() (RecordingStats, bool) {
	r := e.recording.Load()
	if r == nil {
		return RecordingStats{}, false
	}
	return r.Stats(), true
}

// Flush returns when everything received before is in the file.
func (r *Recording) Flush(ctx context.Context) error { return r.w.Flush(ctx) }

// Stop ends the recording and closes the file. Its error is the first that
// writing met. It is idempotent.
func (r *Recording) Stop() error {
	r.engine.recording.CompareAndSwap(r, nil)
	return r.w.Close()
}

// Quiesce ends all streams, and returns when everything that they have taken is
// applied; ctx bounds the wait. Queries are answered as before, from what will
// not change any more: so that a dump is that of the recording beside it.
func (e *Engine) Quiesce(ctx context.Context) error {
	v := e.view.Load()
	if v == nil {
		return ErrClosed
	}
	var all []*source
	for _, m := range v.models {
		all = append(all, m.sources...)
	}
	for _, s := range all {
		s.cancel()
	}
	for _, s := range all {
		if err := s.wait(ctx); err != nil {
			return err
		}
		for _, f := range s.streams() {
			select {
			case <-f.port.Done():
			case <-ctx.Done():
				return fmt.Errorf("engine: what source %q said is not applied yet: %w", s.spec.ID, context.Cause(ctx))
			}
		}
	}
	return nil
}

// join returns the number of a stream, defining it if need be.
func (r *Recording) join(f *feed) (id uint32, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id, ok := r.ids[f]; ok {
		return id, true
	}
	d, err := json.Marshal(definition{Source: record(&f.src.spec), Rank: f.rank, TPShard: f.tp, Endpoint: f.endpoint})
	if err != nil {
		return 0, false // a struct of texts and numbers has no such error
	}
	r.last++
	r.ids[f] = r.last
	r.append(f.src.ctx, &journal.Record{Kind: journal.Define, Stream: r.last, Data: [][]byte{d}})
	return r.last, true
}

// append writes a record. What cannot be written is counted by the journal,
// and logged once.
func (r *Recording) append(ctx context.Context, rec *journal.Record) {
	err := r.w.Append(ctx, rec)
	if err == nil || errors.Is(err, journal.ErrClosed) || ctx.Err() != nil {
		return
	}
	if !r.failed.Swap(true) {
		r.engine.opt.Logger.Error("the recording cannot be written", "err", err)
	}
}

// recordAdded notes a source that was added.
func (e *Engine) recordAdded(s *source) {
	if r := e.recording.Load(); r != nil {
		for _, f := range s.streams() {
			r.join(f)
		}
	}
}

// recordRemoved notes a source that is gone, with its streams.
func (e *Engine) recordRemoved(s *source) {
	r := e.recording.Load()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range s.streams() {
		if id, ok := r.ids[f]; ok {
			delete(r.ids, f)
			r.append(context.Background(), &journal.Record{Kind: journal.Forget, Stream: id})
		}
	}
}

// tap is where a recording listens to a stream. It costs a stream that is not
// recorded one load a message.
type tap struct {
	feed *feed

	// The stream's goroutine alone.
	of     *Recording // that id is of
	id     uint32
	rec    journal.Record
	seq    [8]byte
	masker *ingest.Masker // of a recording without prompts
	masked [journal.MaxStrings][]byte
}

// Up implements ingest.Tap.
func (t *tap) Up() {
	if r := t.feed.src.engine.recording.Load(); r != nil && t.known(r) {
		t.write(r, journal.Up, 0)
	}
}

// Message implements ingest.Tap.
func (t *tap) Message(frames [][]byte, f ingest.Fate) {
	t.within(journal.Message, uint64(f), frames...)
}

// mask returns the frames of a message without what they say of prompts.
func (t *tap) mask(frames [][]byte) [][]byte {
	out := t.masked[:0]
	if _, ok := sequenceOf(frames); ok {
		return append(out, frames[0], frames[1], t.masker.Mask(frames[2]))
	}
	for i, b := range frames {
		// Nothing is known of a malformed message but its shape.
		if i > 1 || len(b) > 8 {
			b = nil
		}
		out = append(out, b)
	}
	return out
}

// Merged implements ingest.Tap.
func (t *tap) Merged(seq uint64) { t.within(journal.Merge, seq) }

// Replayed implements ingest.Tap.
func (t *tap) Replayed(seq uint64, payload []byte) {
	binary.BigEndian.PutUint64(t.seq[:], seq)
	t.within(journal.Reply, 0, nil, t.seq[:], payload)
}

// Restarted implements ingest.Tap.
func (t *tap) Restarted() { t.within(journal.Restart, 0) }

// Restored implements ingest.Tap.
func (t *tap) Restored() {
	t.within(journal.Lost, 1, []byte("a snapshot of the publisher's replaced what was known"))
}

// within writes a record about what happened within a link.
func (t *tap) within(k journal.Kind, n uint64, data ...[]byte) {
	r := t.feed.src.engine.recording.Load()
	if r == nil {
		return
	}
	if t.of != r {
		if !t.known(r) {
			return
		}
		t.write(r, journal.Up, 0) // it began in the middle of a link
	}
	if r.hashed && (k == journal.Message || k == journal.Reply) {
		data = t.mask(data)
	}
	t.write(r, k, n, data...)
}

// Down implements ingest.Tap. A link that ends because the source is taken away
// was not lost.
func (t *tap) Down(err error) {
	if r := t.feed.src.engine.recording.Load(); r != nil && t.feed.src.ctx.Err() == nil && t.known(r) {
		t.write(r, journal.Down, 0, []byte(err.Error()))
	}
}

// known makes sure that the recording knows the stream.
func (t *tap) known(r *Recording) bool {
	if t.of == r {
		return true
	}
	id, ok := r.join(t.feed)
	if ok {
		t.of, t.id, t.masker = r, id, nil
		if s := t.feed.src; r.hashed {
			t.masker = ingest.NewMasker(&ingest.Options{
				Source: s.spec.ID, NoPythonRoot: s.spec.NoPythonRoot, ZeroParentUnknown: s.spec.ZeroParentUnknown,
				BareMultimodal: s.spec.BareMM, Learned: &s.learned,
			})
		}
	}
	return ok
}

func (t *tap) write(r *Recording, k journal.Kind, n uint64, data ...[]byte) {
	t.rec = journal.Record{Kind: k, Time: time.Now(), Stream: t.id, N: n, Data: data}
	r.append(t.feed.src.ctx, &t.rec)
	t.rec.Data = nil
}
