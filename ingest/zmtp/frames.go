package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
)

// Frame flags of ZMTP 3.x; the other five bits are reserved and zero.
const (
	flagMore    = 1 << 0
	flagLong    = 1 << 1
	flagCommand = 1 << 2
	flagsKnown  = flagMore | flagLong | flagCommand
)

const (
	// maxFrames bounds one message. Live messages have 3 frames; others are
	// let through up to here, so that a malformed one can be counted by its
	// reader without costing the connection.
	maxFrames = 64
	// growStep is how much memory a frame's announced length may claim ahead
	// of its bytes: what has arrived already, and this much more.
	growStep = 64 << 10
	// smallest is the capacity of the first buffer.
	smallest = 4 << 10
	// A buffer above growStep that counts against a shared memory is given back
	// if trimAfter messages in a row needed less than a quarter of it.
	trimAfter = 256
)

// Message is one ZMTP message or command.
type Message struct {
	frames  [][]byte
	command bool
}

// Frames returns the frames in order. They are the reader's own memory, valid
// until its next Next.
func (m Message) Frames() [][]byte { return m.frames }

// Command reports whether this is a ZMTP command: one frame, the command's
// name behind its length, then its body. Conn.Next never returns one.
func (m Message) Command() bool { return m.command }

// FrameReader reads messages and commands from a stream of ZMTP frames, behind
// the handshake. It reuses one buffer: once that has grown to the largest
// message, Next allocates nothing. Not safe for concurrent use.
type FrameReader struct {
	br    *bufio.Reader
	limit int
	// retry is asked when a read ran into its deadline: nil means read on.
	// The reader keeps its place, also in the middle of a frame.
	retry func() error

	memory *share // nil: the buffer is bounded by limit alone
	peak   int    // the longest of the last messages, in bytes
	since  int    // messages since the buffer was last looked at

	buf    []byte
	ends   [maxFrames]int // ends[i] is where frame i ends in buf
	frames [][]byte
	read   uint64 // bytes taken from br so far
}

// NewFrameReader returns a reader of frames from r that refuses messages of
// more than limit bytes, all frames together, before it makes room for them.
func NewFrameReader(r *bufio.Reader, limit int) *FrameReader {
	return &FrameReader{br: r, limit: limit, frames: make([][]byte, 0, maxFrames)}
}

// Next returns the next message or command, whole. At the end of the stream it
// returns io.EOF between messages and io.ErrUnexpectedEOF inside one. After any
// error the stream's place is lost and the reader must not be used again.
func (f *FrameReader) Next() (Message, error) {
	f.begin()
	for n := 0; ; {
		flags, size, err := f.header(n > 0)
		if err != nil {
			return Message{}, err
		}
		switch {
		case flags&^flagsKnown != 0:
			return Message{}, fmt.Errorf("%w: flags %#02x; bits 3 to 7 must be zero", ErrFrame, flags)
		case flags&flagCommand != 0 && (flags&flagMore != 0 || n > 0):
			return Message{}, fmt.Errorf("%w: a command (flags %#02x) must be one frame by itself, this is frame %d", ErrFrame, flags, n)
		case size > uint64(f.limit-len(f.buf)):
			return Message{}, fmt.Errorf("%w: frame %d of %d bytes behind %d; at most %d bytes a message", ErrTooBig, n, size, len(f.buf), f.limit)
		case n == maxFrames:
			return Message{}, fmt.Errorf("%w: more than %d frames", ErrTooBig, maxFrames)
		}
		if err := f.body(int(size)); err != nil {
			return Message{}, err
		}
		f.ends[n] = len(f.buf)
		n++
		if flags&flagMore == 0 {
			return Message{frames: f.cut(n), command: flags&flagCommand != 0}, nil
		}
	}
}

// header takes one frame header. inside says that a message has begun.
func (f *FrameReader) header(inside bool) (flags byte, size uint64, err error) {
	for {
		flags, size, n, err := header(f.br)
		if err == nil {
			f.br.Discard(n) // cannot fail: header has seen these bytes
			f.read += uint64(n)
			return flags, size, nil
		}
		if err = f.again(err); err != nil {
			if err == io.EOF && (inside || f.br.Buffered() > 0) {
				err = io.ErrUnexpectedEOF
			}
			return 0, 0, err
		}
	}
}

// body appends the next size bytes of the stream to buf.
func (f *FrameReader) body(size int) error {
	for size > 0 {
		old := len(f.buf)
		step := min(size, max(growStep, old, cap(f.buf)-old))
		if err := f.grow(old + step); err != nil {
			return err
		}
		n, err := f.br.Read(f.buf[old : old+step])
		f.buf = f.buf[:old+n]
		f.read += uint64(n)
		size -= n
		if err != nil && size > 0 {
			if err = f.again(err); err != nil {
				if err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				return err
			}
		}
	}
	return nil
}

// begin makes the buffer ready for the next message.
func (f *FrameReader) begin() {
	last := len(f.buf)
	f.buf = f.buf[:0]
	if f.memory == nil {
		return
	}
	f.peak = max(f.peak, last)
	if f.since++; f.since >= trimAfter {
		if cap(f.buf) > growStep && cap(f.buf) > 4*f.peak {
			f.trim()
		}
		f.since, f.peak = 0, 0
	}
}

// trim gives the buffer back. Nothing of a message is in it.
func (f *FrameReader) trim() {
	f.memory.release(cap(f.buf))
	f.buf = nil
}

// quiet is called when nothing comes: what a rare large message left behind is
// given back.
func (f *FrameReader) quiet() {
	if len(f.buf) == 0 && cap(f.buf) > growStep {
		f.trim()
	}
}

// grow makes room for n bytes, in powers of two up to the limit.
func (f *FrameReader) grow(n int) error {
	if n <= cap(f.buf) {
		return nil
	}
	room := max(smallest, 1<<bits.Len(uint(n-1)))
	if n <= f.limit {
		room = min(room, f.limit)
	}
	// The old buffer lives on while it is copied.
	if !f.memory.claim(room) {
		return fmt.Errorf("%w: %w: %d bytes for one message, at most %d for the messages of all connections together", ErrTooBig, ErrMemory, room, f.memory.of.limit)
	}
	old := f.buf
	f.buf = append(make([]byte, 0, room), old...)
	f.memory.release(cap(old))
	return nil
}

// again decides about a failed read: nil if it may be repeated.
func (f *FrameReader) again(err error) error {
	if f.retry != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return f.retry()
	}
	return err
}

// cut slices buf into its n frames, once it has stopped moving.
func (f *FrameReader) cut(n int) [][]byte {
	f.frames = f.frames[:n]
	begin := 0
	for i, end := range f.ends[:n] {
		f.frames[i] = f.buf[begin:end:end]
		begin = end
	}
	return f.frames
}

// header looks at the next frame's header without taking it; n is its length.
func header(br *bufio.Reader) (flags byte, size uint64, n int, err error) {
	h, err := br.Peek(2)
	if err != nil {
		return 0, 0, 0, err
	}
	if h[0]&flagLong == 0 {
		return h[0], uint64(h[1]), 2, nil
	}
	if h, err = br.Peek(9); err != nil {
		return 0, 0, 0, err
	}
	return h[0], binary.BigEndian.Uint64(h[1:]), 9, nil
}

// appendFrame appends one frame, header and body, to dst.
func appendFrame(dst []byte, flags byte, body []byte) []byte {
	if len(body) <= 255 {
		dst = append(dst, flags, byte(len(body)))
	} else {
		dst = append(dst, flags|flagLong)
		dst = binary.BigEndian.AppendUint64(dst, uint64(len(body)))
	}
	return append(dst, body...)
}
