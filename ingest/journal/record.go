package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Kind is what a record says.
type Kind uint8

// The kinds of records.
const (
	Define  Kind = iota + 1 // Data[0] says what Stream is from here on
	Forget                  // Stream is no more
	Up                      // a connection of Stream begins
	Down                    // it ended; Data[0], if any, says why
	Message                 // Data are the frames of a message of Stream; N says what became of it
	Merge                   // the message of Stream with sequence N that waited is applied here
	Reply                   // Data are the frames of a batch that Stream had asked for again
	Restart                 // what follows is of another process
	Lost                    // N records are missing here; Data[0] says why
	Note                    // Data is for people
	numKinds
)

var kindNames = [numKinds]string{"", "define", "forget", "up", "down", "message", "merge", "reply", "restart", "lost", "note"}

// String returns the lower-case name of k.
func (k Kind) String() string {
	if k > 0 && k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Record is one entry of a journal.
type Record struct {
	Kind   Kind
	Time   time.Time // of its making; to the nanosecond, in no zone
	Stream uint32
	N      uint64
	Data   [][]byte
	// Number counts the records of a journal from 0. Append does not look at it.
	Number uint64
}

// Bounds of one record.
const (
	MaxStrings = 64       // byte strings of a record
	MaxRecord  = 32 << 20 // bytes of a record
)

// ErrRecord is a record that cannot be written.
var ErrRecord = errors.New("journal: no such record")

// check refuses what cannot be written.
func (r *Record) check() error {
	switch n := r.bytes(); {
	case r.Kind == 0 || r.Kind >= numKinds:
		return fmt.Errorf("%w: kind %d: want 1 … %d", ErrRecord, r.Kind, numKinds-1)
	case len(r.Data) > MaxStrings:
		return fmt.Errorf("%w: %d byte strings: want at most %d", ErrRecord, len(r.Data), MaxStrings)
	case n > MaxRecord:
		return fmt.Errorf("%w: %d bytes: want at most %d", ErrRecord, n, MaxRecord)
	case r.Kind == Define && len(r.Data) == 0:
		return fmt.Errorf("%w: a definition without data", ErrRecord)
	}
	return nil
}

// bytes is an upper bound of what the record takes.
func (r *Record) bytes() int {
	n := 1 + binary.MaxVarintLen64*4
	for _, d := range r.Data {
		n += binary.MaxVarintLen32 + len(d)
	}
	return n
}

// append writes the record, made at Unix nanosecond at, behind b. last is the
// time of the record before it in the chunk, 0 of the first.
func (r *Record) append(b []byte, at, last int64) []byte {
	b = append(b, byte(r.Kind))
	b = binary.AppendVarint(b, at-last)
	b = binary.AppendUvarint(b, uint64(r.Stream))
	b = binary.AppendUvarint(b, r.N)
	b = binary.AppendUvarint(b, uint64(len(r.Data)))
	for _, d := range r.Data {
		b = binary.AppendUvarint(b, uint64(len(d)))
		b = append(b, d...)
	}
	return b
}

// errShape is a chunk whose checksum holds and whose records do not: a writer
// other than ours made it.
var errShape = errors.New("its records do not hold together")

// read takes the record at the beginning of b and returns what is behind it.
// Data lie in b; the record's list is used again.
func (r *Record) read(b []byte, last int64) (rest []byte, err error) {
	if len(b) == 0 {
		return nil, errShape
	}
	bad := false
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			bad = true
			return 0
		}
		b = b[n:]
		return v
	}
	r.Kind = Kind(b[0])
	b = b[1:]
	dt, n := binary.Varint(b)
	if n <= 0 || r.Kind == 0 {
		return nil, errShape
	}
	b = b[n:]
	r.Time = time.Unix(0, last+dt)
	stream := number()
	r.Stream, r.N = uint32(stream), number()
	count := number()
	if bad || stream > 1<<32-1 || count > MaxStrings {
		return nil, errShape
	}
	r.Data = r.Data[:0]
	for range count {
		size := number()
		if bad || size > uint64(len(b)) {
			return nil, errShape
		}
		r.Data = append(r.Data, b[:size:size])
		b = b[size:]
	}
	return b, nil
}
