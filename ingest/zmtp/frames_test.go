package zmtp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// stream is two messages and a command, with short, long, empty frames.
func stream() (raw []byte, want [][][]byte) {
	long := bytes.Repeat([]byte("0123456789"), 100)
	want = [][][]byte{
		{[]byte("topic"), {0, 0, 0, 0, 0, 0, 0, 1}, long},
		{append([]byte{4}, "PINGxx"...)},
		{{}, {}, []byte("x")},
		{{}},
	}
	for i, frames := range want {
		for j, f := range frames {
			flags := byte(flagMore)
			if j == len(frames)-1 {
				flags = 0
			}
			if i == 1 {
				flags |= flagCommand
			}
			raw = appendFrame(raw, flags, f)
		}
	}
	return raw, want
}

// halves delivers data in two reads, cut at at.
type halves struct {
	parts [][]byte
}

func (h *halves) Read(p []byte) (int, error) {
	for len(h.parts) > 0 && len(h.parts[0]) == 0 {
		h.parts = h.parts[1:]
	}
	if len(h.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, h.parts[0])
	h.parts[0] = h.parts[0][n:]
	return n, nil
}

func readAll(t *testing.T, f *FrameReader, want [][][]byte) {
	t.Helper()
	for i, w := range want {
		m, err := f.Next()
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if !slices.EqualFunc(m.Frames(), w, bytes.Equal) {
			t.Fatalf("message %d: got %q, want %q", i, m.Frames(), w)
		}
		if m.Command() != (i == 1) {
			t.Fatalf("message %d: command %v", i, m.Command())
		}
	}
	if _, err := f.Next(); err != io.EOF {
		t.Fatalf("at the end: %v, want io.EOF", err)
	}
}

func TestFramesSplitAnywhere(t *testing.T) {
	raw, want := stream()
	for at := range len(raw) + 1 {
		r := &halves{[][]byte{raw[:at], raw[at:]}}
		readAll(t, NewFrameReader(bufio.NewReaderSize(r, 16), 1<<20), want)
	}
	readAll(t, NewFrameReader(bufio.NewReader(iotest.OneByteReader(bytes.NewReader(raw))), 1<<20), want)
	readAll(t, NewFrameReader(bufio.NewReader(bytes.NewReader(raw)), 1<<20), want)
}

func TestFramesCutShort(t *testing.T) {
	raw, want := stream()
	var ends []int // where a stream may end in good order
	n := 0
	for _, frames := range want {
		for _, f := range frames {
			n += len(appendFrame(nil, 0, f))
		}
		ends = append(ends, n)
	}
	for at := range raw {
		f := NewFrameReader(bufio.NewReader(bytes.NewReader(raw[:at])), 1<<20)
		var err error
		for err == nil {
			_, err = f.Next()
		}
		whole := at == 0 || slices.Contains(ends, at)
		if whole && err != io.EOF || !whole && err != io.ErrUnexpectedEOF {
			t.Fatalf("cut at %d: %v (between messages: %v)", at, err, whole)
		}
	}
}

func TestFramesRefused(t *testing.T) {
	huge := func(n uint64) []byte {
		return binary.BigEndian.AppendUint64([]byte{flagLong}, n)
	}
	many := bytes.Repeat([]byte{flagMore, 0}, maxFrames+1)
	half := appendFrame(nil, flagMore, make([]byte, 600))
	for _, c := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"reserved flag", []byte{0x08, 0}, ErrFrame},
		{"all flags", append([]byte{0xff}, make([]byte, 8)...), ErrFrame},
		{"command with more", []byte{flagCommand | flagMore, 0}, ErrFrame},
		{"command inside a message", []byte{flagMore, 0, flagCommand, 0}, ErrFrame},
		{"2^63", huge(1 << 63), ErrTooBig},
		{"2^64-1", huge(1<<64 - 1), ErrTooBig},
		{"2^46", huge(1 << 46), ErrTooBig},
		{"one above the limit", huge(1025), ErrTooBig},
		{"two frames above the limit", append(slices.Clone(half), half...), ErrTooBig},
		{"too many frames", many, ErrTooBig},
		{"announced and not sent", huge(1024), io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := NewFrameReader(bufio.NewReader(bytes.NewReader(c.raw)), 1024)
			if _, err := f.Next(); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

// A length is not allocated before its bytes are there.
func TestFramesClaimLittleMemory(t *testing.T) {
	raw := binary.BigEndian.AppendUint64([]byte{flagLong}, 1<<30)
	raw = append(raw, make([]byte, 1000)...)
	f := NewFrameReader(bufio.NewReader(bytes.NewReader(raw)), 1<<30)
	if _, err := f.Next(); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if got := cap(f.buf); got > 4*growStep {
		t.Fatalf("1000 bytes of an announced GiB claimed %d bytes", got)
	}
}
