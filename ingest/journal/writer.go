package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Defaults of Options.
const (
	DefaultChunkBytes = 1 << 20
	DefaultFlushEvery = time.Second
)

// Options of a Writer. Zero values mean the defaults.
type Options struct {
	// Mode and Meta stand in the header; Meta (at most 1 MiB) is the owner's.
	Mode Mode
	Meta []byte
	// ChunkBytes is how many bytes of records make a chunk: what is packed at
	// once, and what a reader unpacks to find one record. Twice as many are
	// held in memory.
	ChunkBytes int
	// FlushEvery is how long a record waits at most until it is in the file.
	FlushEvery time.Duration
	// Wait: Append waits while both buffers are full. Without it the record is
	// left out, counted, and a Lost record stands in its place. For Define and
	// Forget there is always room: they are few, and nothing can be read without.
	Wait bool
	// NoSync leaves it to the system when the file is on the disk: a crash of
	// the process loses nothing more, one of the machine may.
	NoSync bool
}

// Stats are a Writer's counts.
type Stats struct {
	Records uint64 // appended, Lost records included
	Lost    uint64 // left out because the disk did not keep up
	Chunks  uint64
	Raw     uint64 // bytes of the records written so far
	Bytes   uint64 // bytes of the file
}

// ErrClosed is returned by a Writer that was closed.
var ErrClosed = errors.New("journal: closed")

// Writer writes a journal. See the package comment for its bounds.
type Writer struct {
	opt  Options
	file io.Writer
	pack *zstd.Encoder

	mu      sync.Mutex
	active  buffer  // takes records
	full    *buffer // is, or is about to be, written; nil if none
	other   buffer  // what full points at
	written uint64  // records that are in the file
	lost    uint64  // left out since the last record
	closed  bool
	err     error // why no more is written; sticky
	stats   Stats
	changed chan struct{} // closed and replaced when a buffer was written

	wake chan struct{} // one slot: there is something to write at once
	done chan struct{} // closed when the goroutine has ended

	// The goroutine's own.
	out    []byte
	packed []byte
	chunks []chunk
	offset int64
}

// buffer is records on their way into one chunk.
type buffer struct {
	b        []byte
	records  uint32
	flags    uint32
	first    uint64 // number of the first record
	from, to int64
	last     int64     // time of the last record, 0 before the first
	since    time.Time // when the first record came
}

// Create makes a journal in a new file. A file that exists already is an
// error: nobody's recording is written over.
func Create(path string, o Options) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	w, err := NewWriter(f, o)
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return w, nil
}

// NewWriter begins a journal on f, which is empty. If f has a Sync method it
// is called after each chunk, and if it has a Close method Close calls that.
func NewWriter(f io.Writer, o Options) (*Writer, error) {
	if o.ChunkBytes == 0 {
		o.ChunkBytes = DefaultChunkBytes
	}
	if o.FlushEvery == 0 {
		o.FlushEvery = DefaultFlushEvery
	}
	switch {
	case o.Mode >= numModes:
		return nil, fmt.Errorf("journal: mode %d: want raw or hashed", o.Mode)
	case len(o.Meta) > maxMeta:
		return nil, fmt.Errorf("journal: meta of %d bytes: want at most %d", len(o.Meta), maxMeta)
	case o.ChunkBytes < 1 || o.ChunkBytes > MaxRecord:
		return nil, fmt.Errorf("journal: chunks of %d bytes: want 1 … %d", o.ChunkBytes, MaxRecord)
	case o.FlushEvery < 0:
		return nil, fmt.Errorf("journal: flush every %v: want a duration above 0", o.FlushEvery)
	}
	pack, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	w := &Writer{opt: o, file: f, pack: pack, changed: make(chan struct{}), wake: make(chan struct{}, 1), done: make(chan struct{})}
	h := header{mode: o.Mode, created: time.Now(), meta: o.Meta}
	if err := w.write(h.append(nil)); err != nil {
		return nil, err
	}
	w.stats.Bytes = uint64(w.offset)
	go w.run()
	return w, nil
}

// Append adds a record; its Time, if zero, is now. It copies Data. The error
// is ErrClosed, wraps ErrRecord, or says why the file cannot be written; a
// record that was left out for want of room is no error. Where Append waits, ctx
// bounds it.
func (w *Writer) Append(ctx context.Context, r *Record) error {
	if err := r.check(); err != nil {
		return err
	}
	size := r.bytes()
	w.mu.Lock()
	for {
		switch {
		case w.closed:
			w.mu.Unlock()
			return ErrClosed
		case w.err != nil:
			w.stats.Lost++
			err := w.err
			w.mu.Unlock()
			return err
		}
		if len(w.active.b) == 0 || len(w.active.b)+size <= w.opt.ChunkBytes || r.Kind == Define || r.Kind == Forget {
			break
		}
		if w.full == nil {
			w.turn()
			break
		}
		if !w.opt.Wait {
			w.lost++
			w.stats.Lost++
			w.mu.Unlock()
			return nil
		}
		if err := w.await(ctx); err != nil {
			return err
		}
	}
	w.confess()
	w.add(r)
	if len(w.active.b) >= w.opt.ChunkBytes && w.full == nil {
		w.turn()
	}
	w.mu.Unlock()
	return nil
}

// confess writes a record of what was left out. The lock is held.
func (w *Writer) confess() {
	if w.lost > 0 {
		w.add(&Record{Kind: Lost, N: w.lost, Data: [][]byte{[]byte("the disk did not keep up")}})
		w.lost = 0
	}
}

// turn hands the active buffer over to the goroutine and takes the other one.
// The lock is held, and full is nil.
func (w *Writer) turn() {
	w.active, w.other = w.other, w.active
	w.active = buffer{b: w.active.b[:0]}
	w.full = &w.other
	w.ring()
}

// add puts a record into the active buffer. The lock is held.
func (w *Writer) add(r *Record) {
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	t, a := at.UnixNano(), &w.active
	if a.records == 0 {
		*a = buffer{b: a.b, first: w.stats.Records, from: t, to: t, since: time.Now()}
		w.ring() // the goroutine sets its clock
	}
	a.b = r.append(a.b, t, a.last)
	a.from, a.to, a.last = min(a.from, t), max(a.to, t), t
	a.records++
	if r.Kind == Define || r.Kind == Forget {
		a.flags |= flagDefines
	}
	w.stats.Records++
}

// await waits until the goroutine has done something. The lock is held, and
// held again unless there is an error.
func (w *Writer) await(ctx context.Context) error {
	changed := w.changed
	w.mu.Unlock()
	select {
	case <-changed:
		w.mu.Lock()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ring wakes the goroutine.
func (w *Writer) ring() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Flush returns when everything that was appended before is in the file, and
// on the disk unless Options.NoSync.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	until := w.stats.Records
	for w.err == nil && !w.closed && w.written < until {
		if w.active.records > 0 && w.full == nil {
			w.turn()
		}
		if err := w.await(ctx); err != nil {
			return err
		}
	}
	defer w.mu.Unlock()
	if w.err == nil && w.written < until {
		return ErrClosed
	}
	return w.err
}

// Close writes what is left and the index, and closes the file. Its error is
// the first that writing met. It is idempotent.
func (w *Writer) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.confess()
		w.closed = true
	}
	w.mu.Unlock()
	w.ring()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Stats returns the counts so far.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// run writes chunks until the Writer is closed, then the index.
func (w *Writer) run() {
	defer close(w.done)
	timer := time.NewTimer(w.opt.FlushEvery)
	defer timer.Stop()
	for {
		wait, next := w.next()
		if next != nil {
			w.settle(next, w.chunk(next))
			continue
		}
		if wait < 0 {
			break
		}
		timer.Reset(wait)
		select {
		case <-w.wake:
		case <-timer.C:
		}
	}
	err := w.write(appendIndex(w.out[:0], w.chunks))
	if f, ok := w.file.(io.Closer); ok {
		err = errors.Join(err, f.Close())
	}
	w.settle(nil, err)
	_ = w.pack.Close() // it has nothing to write
}

// next returns the buffer to write now, or how long to wait for one; negative
// if none will come.
func (w *Writer) next() (wait time.Duration, next *buffer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full == nil {
		switch wait = w.opt.FlushEvery - time.Since(w.active.since); {
		case w.active.records == 0 && w.closed:
			return -1, nil
		case w.active.records == 0:
			return w.opt.FlushEvery, nil
		case wait > 0 && !w.closed:
			return wait, nil
		}
		w.turn()
	}
	return 0, w.full
}

// settle notes that a buffer, or the index, was written, or why not.
func (w *Writer) settle(b *buffer, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("journal: it ends here, for the file cannot be written: %w", err)
	}
	w.stats.Bytes = uint64(w.offset)
	if b != nil {
		if w.err == nil {
			w.written += uint64(b.records)
			w.stats.Chunks++
			w.stats.Raw += uint64(len(b.b))
		} else {
			w.stats.Lost += uint64(b.records)
		}
		if cap(b.b) > 2*w.opt.ChunkBytes {
			b.b = nil // one giant record must not stay
		}
		w.full = nil
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// chunk packs and writes a buffer. After an error nothing more is written: what
// is behind a torn chunk could not be found.
func (w *Writer) chunk(b *buffer) error {
	w.mu.Lock()
	failed := w.err != nil
	w.mu.Unlock()
	if failed {
		return nil
	}
	w.packed = w.pack.EncodeAll(b.b, w.packed[:0])
	c := chunk{offset: w.offset, descriptor: descriptor{
		flags: b.flags, records: b.records, first: b.first,
		raw: uint32(len(b.b)), packed: uint32(len(w.packed)), from: b.from, to: b.to,
	}}
	w.out = c.append(w.out[:0], w.packed)
	if err := w.write(w.out); err != nil {
		return err
	}
	w.chunks = append(w.chunks, c)
	return nil
}

// write appends to the file, and waits for the disk.
func (w *Writer) write(b []byte) error {
	n, err := w.file.Write(b)
	w.offset += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if f, ok := w.file.(interface{ Sync() error }); ok && err == nil && !w.opt.NoSync {
		err = f.Sync()
	}
	return err
}
