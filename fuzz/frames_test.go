package fuzz

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// frameLimit is small, so that inputs of a few bytes reach it.
const frameLimit = 1 << 10

// FuzzFrames: the frame reader gives what a plain parser of the whole input
// gives, however the input is split into reads, and never more than its limit.
func FuzzFrames(f *testing.F) {
	seed(f, "frames", uint8(1))
	seed(f, "frames", uint8(255))
	f.Fuzz(func(t *testing.T, raw []byte, step uint8) {
		want, wantErr := parseFrames(raw)
		r := zmtp.NewFrameReader(bufio.NewReaderSize(&stepReader{raw, max(1, int(step))}, 16), frameLimit)
		for i := 0; ; i++ {
			m, err := r.Next()
			if err != nil {
				if i != len(want) || !errors.Is(err, wantErr) {
					t.Fatalf("ended behind %d messages with %v; the plain parser behind %d with %v", i, err, len(want), wantErr)
				}
				return
			}
			if i >= len(want) {
				t.Fatalf("message %d %q; the plain parser ends with %v", i, m.Frames(), wantErr)
			}
			got := plainMessage{command: m.Command()}
			size := 0
			for _, p := range m.Frames() {
				got.frames = append(got.frames, string(p))
				size += len(p)
			}
			if size > frameLimit || got.command != want[i].command || !slices.Equal(got.frames, want[i].frames) {
				t.Fatalf("message %d: got %+v, want %+v", i, got, want[i])
			}
		}
	})
}

// stepReader gives at most n bytes a read.
type stepReader struct {
	raw []byte
	n   int
}

func (r *stepReader) Read(p []byte) (int, error) {
	if len(r.raw) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.n)], r.raw)
	r.raw = r.raw[n:]
	return n, nil
}

type plainMessage struct {
	frames  []string
	command bool
}

// parseFrames is the frame format read off the page, for inputs that are all
// there: the messages, and how the stream ends.
func parseFrames(raw []byte) (messages []plainMessage, err error) {
	var m plainMessage
	size := uint64(0)
	for {
		if len(raw) == 0 {
			if len(m.frames) == 0 {
				return messages, io.EOF
			}
			return messages, io.ErrUnexpectedEOF
		}
		flags, n := raw[0], 2
		if flags&2 != 0 {
			n = 9
		}
		if len(raw) < n {
			return messages, io.ErrUnexpectedEOF
		}
		length := uint64(raw[1])
		if n == 9 {
			length = binary.BigEndian.Uint64(raw[1:9])
		}
		raw = raw[n:]
		switch {
		case flags > 7, flags&4 != 0 && (flags&1 != 0 || len(m.frames) > 0):
			return messages, zmtp.ErrFrame
		case length > frameLimit-size, len(m.frames) == 64:
			return messages, zmtp.ErrTooBig
		case length > uint64(len(raw)):
			return messages, io.ErrUnexpectedEOF
		}
		size += length
		m.frames = append(m.frames, string(raw[:length]))
		m.command = flags&4 != 0
		raw = raw[length:]
		if flags&1 == 0 {
			messages = append(messages, m)
			m, size = plainMessage{}, 0
		}
	}
}
