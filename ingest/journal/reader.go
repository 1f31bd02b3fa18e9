package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Info describes a journal.
type Info struct {
	Mode    Mode
	Meta    []byte
	Created time.Time
	Records uint64
	Chunks  int
	// From and To are the earliest and the latest time of its records; zero if
	// there are none.
	From, To time.Time
	Bytes    int64 // of the file
	Raw      int64 // of the records, unpacked
	// Indexed: the journal was closed in order.
	Indexed bool
	// Torn is how many bytes at the file's end are no sound chunk: what a
	// writer was at when it ended. They are not read.
	Torn int64
}

// Reader reads a journal. It belongs to one goroutine.
type Reader struct {
	file   io.ReaderAt
	close  func() error
	info   Info
	chunks []chunk
	unpack *zstd.Decoder

	next   int    // chunk to be read next
	rest   []byte // records of the present chunk that are still to come
	number uint64 // of the next record
	left   uint32 // records that rest has
	last   int64
	frame  []byte
	raw    []byte
	rec    Record
}

// Open opens a journal's file. It may still be being written: what is there
// now is read.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("journal: %w", err), f.Close())
	}
	r, err := NewReader(f, st.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s", err, path), f.Close())
	}
	r.close = f.Close
	return r, nil
}

// NewReader reads the journal in the first size bytes of f. The error wraps
// ErrNoJournal, ErrVersion or ErrCorrupt, or is f's.
func NewReader(f io.ReaderAt, size int64) (*Reader, error) {
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxChunk))
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	r := &Reader{file: f, unpack: unpack, info: Info{Bytes: size}}
	begin, err := r.header(size)
	if err == nil && !r.index(begin, size) {
		err = r.scan(begin, size)
	}
	if err != nil {
		unpack.Close()
		return nil, err
	}
	r.info.Chunks = len(r.chunks)
	for i := range r.chunks {
		c := &r.chunks[i]
		if from := time.Unix(0, c.from); i == 0 || from.Before(r.info.From) {
			r.info.From = from
		}
		if to := time.Unix(0, c.to); i == 0 || to.After(r.info.To) {
			r.info.To = to
		}
		r.info.Records = c.first + uint64(c.records)
		r.info.Raw += int64(c.raw)
	}
	return r, nil
}

// Info describes the journal.
func (r *Reader) Info() Info { return r.info }

// Close gives back what the Reader holds, and the file if Open opened it.
func (r *Reader) Close() error {
	r.unpack.Close()
	if r.close == nil {
		return nil
	}
	return r.close()
}

// header reads the header and returns where the first chunk begins.
func (r *Reader) header(size int64) (int64, error) {
	var head [skippableHead]byte
	if size < skippableHead {
		return 0, ErrNoJournal
	}
	if _, err := r.file.ReadAt(head[:], 0); err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	n, ok := frame(head[:])
	if !ok || n > headerFixed+maxMeta+8 || int64(n) > size-skippableHead {
		return 0, ErrNoJournal
	}
	b := make([]byte, n)
	if _, err := r.file.ReadAt(b, skippableHead); err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	var h header
	if err := h.parse(b); err != nil {
		return 0, err
	}
	r.info.Mode, r.info.Meta, r.info.Created = h.mode, h.meta, h.created
	return skippableHead + int64(n), nil
}

// index reads the index at the end; false if there is none that holds.
func (r *Reader) index(begin, size int64) bool {
	var tail [indexTail]byte
	if size < begin+skippableHead+indexFixed {
		return false
	}
	if _, err := r.file.ReadAt(tail[:], size-indexTail); err != nil || string(tail[indexTail-tagBytes:]) != tagIndex {
		return false
	}
	length := int64(uint32(tail[12]) | uint32(tail[13])<<8 | uint32(tail[14])<<16 | uint32(tail[15])<<24)
	if length < indexFixed || length > size-begin-skippableHead {
		return false
	}
	b := make([]byte, length)
	if _, err := r.file.ReadAt(b, size-length); err != nil {
		return false
	}
	chunks, ok := parseIndex(b)
	if !ok {
		return false
	}
	at, first := begin, uint64(0)
	for i := range chunks {
		c := &chunks[i]
		if c.offset != at || c.first != first {
			return false
		}
		at, first = at+c.length(), first+uint64(c.records)
	}
	if at != size-length-skippableHead {
		return false
	}
	r.chunks, r.info.Indexed = chunks, true
	return true
}

// scan hops from descriptor to descriptor, and leaves out what is torn.
func (r *Reader) scan(begin, size int64) error {
	var b [skippableHead + descriptorBytes]byte
	at, first := begin, uint64(0)
	for at+int64(len(b)) <= size {
		if _, err := r.file.ReadAt(b[:], at); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		c := chunk{offset: at}
		if n, ok := frame(b[:]); !ok || n != descriptorBytes || !c.parse(b[skippableHead:]) || c.first != first || at+c.length() > size {
			break
		}
		r.chunks = append(r.chunks, c)
		at, first = at+c.length(), first+uint64(c.records)
	}
	// A crash of the machine may leave a chunk's place and not its bytes.
	for n := len(r.chunks); n > 0; n-- {
		if c := &r.chunks[n-1]; r.load(c) != nil {
			at, r.chunks = c.offset, r.chunks[:n-1]
			continue
		}
		break
	}
	r.info.Torn = size - at
	return nil
}

// load reads and unpacks a chunk into r.raw.
func (r *Reader) load(c *chunk) error {
	bad := func(why error) error {
		return fmt.Errorf("%w: the chunk at byte %d with records %d to %d: %w", ErrCorrupt, c.offset, c.first, c.first+uint64(c.records)-1, why)
	}
	n := int(c.length())
	r.frame = slices.Grow(r.frame[:0], n)[:n]
	if _, err := r.file.ReadAt(r.frame, c.offset); err != nil {
		return bad(err)
	}
	var d descriptor
	head, packed := r.frame[skippableHead:skippableHead+descriptorBytes], r.frame[skippableHead+descriptorBytes:]
	if k, ok := frame(r.frame); !ok || k != descriptorBytes || !d.parse(head) || d.first != c.first || d.packed != c.packed || !sound(head, packed) {
		return bad(errors.New("its checksum does not hold"))
	}
	var err error
	if r.raw, err = r.unpack.DecodeAll(packed, r.raw[:0]); err != nil {
		return bad(err)
	}
	if len(r.raw) != int(d.raw) {
		return bad(fmt.Errorf("%d bytes unpacked, %d announced", len(r.raw), d.raw))
	}
	return nil
}

// Next returns the next record, valid until the call after it, or io.EOF behind
// the last one. After an error that wraps ErrCorrupt the next call goes on with
// the chunk behind the damaged one.
func (r *Reader) Next() (*Record, error) {
	for r.left == 0 {
		if len(r.rest) > 0 {
			r.rest = nil
			return nil, fmt.Errorf("%w: the chunk in front of record %d: %w", ErrCorrupt, r.number, errShape)
		}
		if r.next == len(r.chunks) {
			return nil, io.EOF
		}
		c := &r.chunks[r.next]
		r.next++
		if err := r.enter(c); err != nil {
			return nil, err
		}
	}
	rest, err := r.rec.read(r.rest, r.last)
	if err != nil {
		c := &r.chunks[r.next-1]
		r.rest, r.left = nil, 0
		return nil, fmt.Errorf("%w: the chunk at byte %d, record %d: %w", ErrCorrupt, c.offset, r.number, err)
	}
	r.rest, r.last = rest, r.rec.Time.UnixNano()
	r.rec.Number = r.number
	r.number++
	r.left--
	return &r.rec, nil
}

// enter makes a chunk the present one.
func (r *Reader) enter(c *chunk) error {
	r.rest, r.left, r.last = nil, 0, 0
	r.number = c.first
	if err := r.load(c); err != nil {
		return err
	}
	r.rest, r.left = r.raw, c.records
	return nil
}

// Seek makes record n the next one; behind the end there is none.
func (r *Reader) Seek(n uint64) error {
	r.rest, r.left = nil, 0
	r.next = sort.Search(len(r.chunks), func(i int) bool { return r.chunks[i].first+uint64(r.chunks[i].records) > n })
	if r.next == len(r.chunks) {
		r.number = r.info.Records
		return nil
	}
	c := &r.chunks[r.next]
	r.next++
	if err := r.enter(c); err != nil {
		return err
	}
	for r.number < n {
		if _, err := r.Next(); err != nil {
			return err
		}
	}
	return nil
}

// SeekTime makes the first record at or after t the next one.
func (r *Reader) SeekTime(t time.Time) error {
	at := t.UnixNano()
	i := slices.IndexFunc(r.chunks, func(c chunk) bool { return c.to >= at })
	if i < 0 {
		return r.Seek(r.info.Records)
	}
	if err := r.Seek(r.chunks[i].first); err != nil {
		return err
	}
	for {
		n := r.Number()
		rec, err := r.Next()
		if err != nil {
			return err
		}
		if rec.Time.UnixNano() >= at {
			return r.Seek(n)
		}
	}
}

// Definitions calls visit with the Define and Forget records in front of the
// next record, in order, and stays where it is. Chunks without any are not
// read. An error of visit ends it.
func (r *Reader) Definitions(visit func(*Record) error) error {
	here := r.Number()
	for i := range r.chunks {
		c := &r.chunks[i]
		if c.first >= here {
			break
		}
		if c.flags&flagDefines == 0 {
			continue
		}
		if err := r.Seek(c.first); err != nil {
			return err
		}
		for end := min(here, c.first+uint64(c.records)); r.number < end; {
			rec, err := r.Next()
			if err != nil {
				return err
			}
			if rec.Kind == Define || rec.Kind == Forget {
				if err := visit(rec); err != nil {
					return err
				}
			}
		}
	}
	return r.Seek(here)
}

// Number is the number of the next record.
func (r *Reader) Number() uint64 {
	if r.left == 0 && r.next < len(r.chunks) {
		return r.chunks[r.next].first
	}
	return r.number
}
