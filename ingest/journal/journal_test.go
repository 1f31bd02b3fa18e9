package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample makes n records of all kinds, one a millisecond, with steps back.
func sample(n int) []Record {
	r := rand.New(rand.NewPCG(1, 2))
	base := time.Unix(1757376000, 0)
	var all []Record
	for i := range n {
		rec := Record{Kind: Message, Time: base.Add(time.Duration(i) * time.Millisecond), Stream: uint32(r.IntN(5))}
		switch {
		case i%50 == 0:
			rec.Kind, rec.Data = Define, [][]byte{fmt.Appendf(nil, `{"id":"w%d"}`, i)}
		case i%50 == 49:
			rec.Kind = Forget
		case i%17 == 0:
			rec.Kind, rec.Data = Down, [][]byte{[]byte("EOF")}
		default:
			body := make([]byte, r.IntN(300))
			for k := range body {
				body[k] = byte(r.IntN(7))
			}
			rec.N = r.Uint64() >> r.IntN(64)
			rec.Data = [][]byte{nil, {0, 0, 0, 0, 0, 0, 0, byte(i)}, body}
		}
		if i%10 == 3 {
			rec.Time = rec.Time.Add(-5 * time.Millisecond)
		}
		rec.Number = uint64(i)
		all = append(all, rec)
	}
	return all
}

// written is a journal of records in chunks of about so many bytes. Without
// index it is as a crash right behind the last chunk leaves it.
func written(t testing.TB, all []Record, chunk int, index bool) []byte {
	t.Helper()
	var f bytes.Buffer
	w, err := NewWriter(&f, Options{ChunkBytes: chunk, Wait: true, Meta: []byte(`{"who":"test"}`), FlushEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if err := w.Append(context.Background(), &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	n := int(w.Stats().Bytes)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if st := w.Stats(); st.Records != uint64(len(all)) || st.Lost != 0 || st.Bytes != uint64(f.Len()) {
		t.Fatalf("stats %+v of %d records in %d bytes", st, len(all), f.Len())
	}
	if index {
		n = f.Len()
	}
	return f.Bytes()[:n]
}

func opened(t testing.TB, b []byte) *Reader {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// same compares what was read with what was written.
func same(got *Record, want *Record) error {
	if got.Kind != want.Kind || !got.Time.Equal(want.Time) || got.Stream != want.Stream || got.N != want.N || got.Number != want.Number ||
		!slices.EqualFunc(got.Data, want.Data, bytes.Equal) {
		return fmt.Errorf("record %d is %+v, want %+v", want.Number, *got, *want)
	}
	return nil
}

// rest reads to the end and compares with all from record n on; it returns how
// many it read.
func rest(t *testing.T, r *Reader, all []Record, n int) int {
	t.Helper()
	for i := n; ; i++ {
		got, err := r.Next()
		if err == io.EOF {
			return i - n
		}
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(all) {
			t.Fatalf("%d records were written, another is read: %+v", len(all), got)
		}
		if err := same(got, &all[i]); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	all := sample(1000)
	for _, chunk := range []int{1, 100, 4 << 10, 1 << 20} {
		for _, index := range []bool{true, false} {
			t.Run(fmt.Sprintf("chunks of %d, index %v", chunk, index), func(t *testing.T) {
				b := written(t, all, chunk, index)
				r := opened(t, b)
				if n := rest(t, r, all, 0); n != len(all) {
					t.Errorf("%d of %d records are read", n, len(all))
				}
				in := r.Info()
				first := slices.MinFunc(all, func(a, b Record) int { return a.Time.Compare(b.Time) })
				if in.Records != 1000 || in.Indexed != index || in.Torn != 0 || in.Mode != Raw || string(in.Meta) != `{"who":"test"}` ||
					!in.From.Equal(first.Time) || !in.To.Equal(all[999].Time) || in.Bytes != int64(len(b)) {
					t.Errorf("info %+v", in)
				}
				// Any zstd tool unpacks it, to the records and nothing else.
				z, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1))
				if err != nil {
					t.Fatal(err)
				}
				defer z.Close()
				if n, err := io.Copy(io.Discard, z); err != nil || n != in.Raw {
					t.Errorf("zstd unpacks %d bytes, %v; want %d", n, err, in.Raw)
				}
			})
		}
	}
}

func TestSeek(t *testing.T) {
	all := sample(1000)
	for _, index := range []bool{true, false} {
		b := written(t, all, 2000, index)
		r := opened(t, b)
		for _, n := range []int{0, 1, 499, 500, 999, 0, 1000, 5000} {
			if err := r.Seek(uint64(n)); err != nil {
				t.Fatal(err)
			}
			if got, want := rest(t, r, all, min(n, 1000)), max(0, 1000-n); got != want {
				t.Errorf("behind Seek(%d) come %d records, want %d", n, got, want)
			}
		}
		for _, ms := range []int{-1, 0, 1, 333, 998, 999} {
			at := all[0].Time.Add(time.Duration(ms) * time.Millisecond)
			if err := r.SeekTime(at); err != nil {
				t.Fatal(err)
			}
			first := slices.IndexFunc(all, func(rec Record) bool { return !rec.Time.Before(at) })
			if got, want := rest(t, r, all, first), 1000-first; got != want {
				t.Errorf("behind SeekTime(%d ms) come %d records, want %d", ms, got, want)
			}
		}
		if err := r.SeekTime(all[999].Time.Add(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("behind the last time comes %v", err)
		}
	}
}

func TestDefinitions(t *testing.T) {
	all := sample(1000)
	r := opened(t, written(t, all, 1500, true))
	for _, n := range []int{0, 1, 50, 617, 1000} {
		if err := r.Seek(uint64(n)); err != nil {
			t.Fatal(err)
		}
		var want []Record
		for _, rec := range all[:n] {
			if rec.Kind == Define || rec.Kind == Forget {
				want = append(want, rec)
			}
		}
		i := 0
		err := r.Definitions(func(rec *Record) error {
			i++
			if i > len(want) {
				return fmt.Errorf("%d definitions, want %d", i, len(want))
			}
			return same(rec, &want[i-1])
		})
		if err != nil || i != len(want) {
			t.Errorf("in front of %d: %d definitions of %d, %v", n, i, len(want), err)
		}
		if got := rest(t, r, all, n); got != 1000-n {
			t.Errorf("%d records behind the definitions in front of %d", got, n)
		}
	}
}

// TestTornAnywhere cuts a journal at every byte of its header, its last two
// chunks and its index, and at many in between: what is read is what was
// written, up to the last chunk that is whole.
func TestTornAnywhere(t *testing.T) {
	all := sample(60)
	b := written(t, all, 600, true)
	whole := opened(t, b)
	chunks := whole.chunks
	if len(chunks) < 5 {
		t.Fatalf("%d chunks: the test shows little", len(chunks))
	}
	begin := chunks[0].offset
	noise := make([]byte, 300)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for n := range int64(len(b)) {
		if n > begin && n < chunks[len(chunks)-2].offset && n%31 != 0 {
			continue
		}
		for _, tail := range []string{"", "zeros", "noise"} {
			cut := slices.Clone(b[:n])
			switch tail {
			case "zeros": // space that the system gave and the crash left empty
				cut = append(cut, make([]byte, 300)...)
			case "noise":
				cut = append(cut, noise...)
			}
			r, err := NewReader(bytes.NewReader(cut), int64(len(cut)))
			if n < begin {
				if err == nil {
					t.Fatalf("cut at %d, in the header: no error", n)
				}
				continue
			}
			if err != nil {
				t.Fatalf("cut at %d: %v", n, err)
			}
			want, end := 0, begin
			for _, c := range chunks {
				// A tail may happen to be what was cut off.
				if e := c.offset + c.length(); e <= int64(len(cut)) && bytes.Equal(cut[c.offset:e], b[c.offset:e]) {
					want, end = int(c.first)+int(c.records), e
				}
			}
			if got := rest(t, r, all, 0); got != want {
				t.Fatalf("cut at %d %s: %d records, want %d", n, tail, got, want)
			}
			if in := r.Info(); in.Torn != int64(len(cut))-end || in.Indexed {
				t.Fatalf("cut at %d %s: torn %d, want %d; indexed %v", n, tail, in.Torn, int64(len(cut))-end, in.Indexed)
			}
			r.Close()
		}
	}
}

// TestDamage flips every bit of a chunk in the middle, one at a time: its
// records are never read, and those behind it always, if it can be told where
// they are.
func TestDamage(t *testing.T) {
	all := sample(60)
	b := written(t, all, 600, true)
	chunks := opened(t, b).chunks
	mid := chunks[len(chunks)/2]
	for _, index := range []bool{true, false} {
		if !index {
			last := chunks[len(chunks)-1]
			b = b[:last.offset+last.length()]
		}
		for at := mid.offset; at < mid.offset+mid.length(); at++ {
			bad := slices.Clone(b)
			bad[at] ^= 1 << (at % 8)
			r, err := NewReader(bytes.NewReader(bad), int64(len(bad)))
			if err != nil {
				t.Fatalf("byte %d: %v", at, err)
			}
			read, damaged := 0, 0
			for {
				rec, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					if damaged++; !errors.Is(err, ErrCorrupt) || damaged > 1 {
						t.Fatalf("byte %d: error %d: %v", at, damaged, err)
					}
					continue
				}
				if rec.Number >= mid.first && rec.Number < mid.first+uint64(mid.records) {
					t.Fatalf("byte %d: record %d of the damaged chunk is read", at, rec.Number)
				}
				if err := same(rec, &all[rec.Number]); err != nil {
					t.Fatalf("byte %d: %v", at, err)
				}
				read++
			}
			want := len(all) - int(mid.records)
			if !index && r.Info().Torn > 0 { // its descriptor leads nowhere
				want, damaged = int(mid.first), 1
			}
			if read != want || damaged != 1 {
				t.Fatalf("index %v, byte %d: %d records of %d, %d errors", index, at, read, want, damaged)
			}
			r.Close()
		}
	}
}

func TestNoJournal(t *testing.T) {
	whole := written(t, sample(3), 100, true)
	for name, tc := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":         {nil, ErrNoJournal},
		"text":          {[]byte("this is no journal at all, but long enough for one"), ErrNoJournal},
		"other version": {replaced(whole, skippableHead+8, 9), ErrVersion},
		"header":        {replaced(whole, skippableHead+14, 0xff), ErrCorrupt},
	} {
		if _, err := NewReader(bytes.NewReader(tc.b), int64(len(tc.b))); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func replaced(b []byte, at int, v byte) []byte {
	b = slices.Clone(b)
	b[at] = v
	return b
}

func TestCreateKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(context.Background(), &Record{Kind: Note, Data: [][]byte{[]byte("a")}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(context.Background(), &Record{Kind: Note}); !errors.Is(err, ErrClosed) {
		t.Errorf("append behind Close: %v", err)
	}
	if _, err := Create(path, Options{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second Create: %v", err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if rec, err := r.Next(); err != nil || rec.Kind != Note || time.Since(rec.Time) > time.Minute {
		t.Errorf("%+v, %v", rec, err)
	}
}

func TestRefusedRecords(t *testing.T) {
	w, err := NewWriter(io.Discard, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for name, r := range map[string]Record{
		"no kind":          {},
		"unknown kind":     {Kind: numKinds},
		"too many strings": {Kind: Message, Data: make([][]byte, MaxStrings+1)},
		"too long":         {Kind: Message, Data: [][]byte{make([]byte, MaxRecord)}},
		"empty definition": {Kind: Define},
	} {
		if err := w.Append(context.Background(), &r); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// gate is a file whose writes wait until they are let through.
type gate struct {
	bytes.Buffer
	pass chan struct{}
}

func (g *gate) Write(b []byte) (int, error) {
	if g.pass != nil {
		<-g.pass
	}
	return g.Buffer.Write(b)
}

// TestSlowDisk: a writer that cannot keep up leaves records out, says how many
// and where, and never holds more than two chunks.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		w, err := NewWriter(g, Options{ChunkBytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		g.pass = make(chan struct{})
		rec := Record{Kind: Message, Data: [][]byte{make([]byte, 100)}}
		for range 100 {
			if err := w.Append(context.Background(), &rec); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for range 3 { // for these there is room
			if err := w.Append(context.Background(), &Record{Kind: Define, Data: [][]byte{make([]byte, 50)}}); err != nil {
				t.Fatal(err)
			}
		}
		lost := w.Stats().Lost
		if lost == 0 || lost > 90 {
			t.Fatalf("%d of 100 records are lost", lost)
		}
		close(g.pass)
		if err := w.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := w.Append(context.Background(), &rec); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b := g.Bytes()
		r, err := NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		messages, missing, defined := uint64(0), uint64(0), 0
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			switch rec.Kind {
			case Define:
				defined++
			case Message:
				messages++
			case Lost:
				missing += rec.N
				if messages != 100-lost {
					t.Errorf("the Lost record stands behind %d messages, want %d", messages, 100-lost)
				}
			}
		}
		if missing != lost || messages != 101-lost || defined != 3 {
			t.Errorf("%d messages, %d missing and %d definitions, want %d, %d and 3", messages, missing, defined, 101-lost, lost)
		}
	})
}

// TestSlowDiskWait: with Wait nothing is left out, and a context bounds it.
func TestSlowDiskWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		w, err := NewWriter(g, Options{ChunkBytes: 1000, Wait: true})
		if err != nil {
			t.Fatal(err)
		}
		g.pass = make(chan struct{})
		rec := Record{Kind: Message, Data: [][]byte{make([]byte, 100)}}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		appended := uint64(0)
		for ; ; appended++ {
			if err = w.Append(ctx, &rec); err != nil {
				break
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) || appended > 30 {
			t.Errorf("%d records in two buffers of 1000 bytes, %v", appended, err)
		}
		close(g.pass)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if st := w.Stats(); st.Lost != 0 || st.Records != appended {
			t.Errorf("%+v, %d appended", st, appended)
		}
	})
}

func TestFlushEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		w, err := NewWriter(g, Options{FlushEvery: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		begin := g.Len()
		time.Sleep(300 * time.Millisecond)
		if err := w.Append(context.Background(), &Record{Kind: Note}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if w.Stats().Bytes != uint64(begin) {
			t.Error("written before its time")
		}
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		if w.Stats().Bytes == uint64(begin) {
			t.Error("not written after a second")
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// full is a disk that is.
type full struct{ room int }

var errFull = errors.New("no space left")

func (f *full) Write(b []byte) (int, error) {
	if len(b) > f.room {
		return f.room, errFull
	}
	f.room -= len(b)
	return len(b), nil
}

func TestDiskFull(t *testing.T) {
	w, err := NewWriter(&full{room: 500}, Options{ChunkBytes: 100, Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 90)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for i := 0; err == nil && i < 1000; i++ {
		err = w.Append(context.Background(), &Record{Kind: Message, Data: [][]byte{noise}})
	}
	if !errors.Is(err, errFull) {
		t.Errorf("appending ends with %v", err)
	}
	if err := w.Flush(context.Background()); !errors.Is(err, errFull) {
		t.Errorf("Flush: %v", err)
	}
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close: %v", err)
	}
	if st := w.Stats(); st.Lost == 0 {
		t.Errorf("nothing is counted as lost: %+v", st)
	}
}

func TestAppendAllocates(t *testing.T) {
	w, err := NewWriter(io.Discard, Options{Wait: true, ChunkBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	rec := Record{Kind: Message, Time: time.Now(), Data: [][]byte{nil, make([]byte, 8), make([]byte, 500)}}
	if n := testing.AllocsPerRun(5000, func() { _ = w.Append(context.Background(), &rec) }); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	w, err := NewWriter(io.Discard, Options{Wait: true})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	noise := make([]byte, 2500)
	for i := range noise {
		noise[i] = byte(rand.Uint32() >> (i % 24))
	}
	rec := Record{Kind: Message, Data: [][]byte{nil, make([]byte, 8), noise}}
	b.SetBytes(int64(len(noise)))
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Append(context.Background(), &rec); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzReader: no input makes the reader fall over, or read what was not
// written.
func FuzzReader(f *testing.F) {
	f.Add(written(f, sample(10), 200, true))
	f.Add(written(f, sample(10), 200, false))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		defer r.Close()
		for n := 0; n < 1000; n++ {
			if _, err := r.Next(); err == io.EOF {
				break
			}
		}
		_ = r.Seek(3)
		_ = r.SeekTime(time.Unix(1757376000, 5e6))
	})
}
