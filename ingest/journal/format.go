package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Version is the version of the format that is written. Readers refuse others.
const Version = 1

// Skippable zstd frames are for what is not content. Any of sixteen magic
// numbers marks one; ours is one of them.
const (
	skippable     = 0x184D2A5C
	skippableHead = 8 // magic, length
)

// Every frame of ours begins with a word that says which it is.
const (
	tagHeader = "cairnJNL"
	tagChunk  = "cairnCHK"
	tagIndex  = "cairnIDX"
	tagBytes  = 8
)

// The layout, little endian. Offsets are within the frame's content.
//
//	header      tag 8 │ version 2 │ mode 1 │ 0 1 │ created 8 │ meta length 4 │ meta │ sum 8
//	descriptor  tag 8 │ flags 4 │ records 4 │ number of the first 8 │ raw 4 │ packed 4 │ from 8 │ to 8 │ sum 8
//	index       tag 8 │ (offset 8 │ descriptor without tag and sum 40)… │ chunks 4 │ sum 8 │ length of all this 4 │ tag 8
const (
	headerFixed     = tagBytes + 2 + 1 + 1 + 8 + 4
	descriptorBytes = tagBytes + 4 + 4 + 8 + 4 + 4 + 8 + 8 + 8
	entryBytes      = 8 + descriptorBytes - tagBytes - 8
	indexTail       = 4 + 8 + 4 + tagBytes
	indexFixed      = tagBytes + indexTail

	maxMeta  = 1 << 20
	maxChunk = 2 * MaxRecord // bytes of a chunk, packed or not
)

// flagDefines marks a chunk with Define or Forget records.
const flagDefines = 1

// Errors of a file. Those of reading wrap one of them.
var (
	ErrNoJournal = errors.New("journal: not a journal")
	ErrVersion   = errors.New("journal: unknown version")
	ErrCorrupt   = errors.New("journal: damaged")
)

// Mode says what messages a journal holds.
type Mode uint8

// The modes.
const (
	Raw    Mode = iota // as they came
	Hashed             // tokens replaced by their hashes
	numModes
)

// String returns raw or hashed.
func (m Mode) String() string {
	if m == Hashed {
		return "hashed"
	}
	return "raw"
}

// header is what a journal begins with.
type header struct {
	mode    Mode
	created time.Time
	meta    []byte
}

func (h *header) append(b []byte) []byte {
	b = appendFrame(b, headerFixed+len(h.meta)+8)
	at := len(b)
	b = append(b, tagHeader...)
	b = binary.LittleEndian.AppendUint16(b, Version)
	b = append(b, byte(h.mode), 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.created.UnixNano()))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(h.meta)))
	b = append(b, h.meta...)
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[at:]))
}

// parse reads the content of a header's frame.
func (h *header) parse(b []byte) error {
	if len(b) < headerFixed+8 || string(b[:tagBytes]) != tagHeader {
		return ErrNoJournal
	}
	if v := binary.LittleEndian.Uint16(b[8:]); v != Version {
		return fmt.Errorf("%w %d: this program reads %d", ErrVersion, v, Version)
	}
	meta := binary.LittleEndian.Uint32(b[20:])
	if int(meta) != len(b)-headerFixed-8 || xxhash.Sum64(b[:len(b)-8]) != binary.LittleEndian.Uint64(b[len(b)-8:]) {
		return fmt.Errorf("%w: its header's checksum does not hold", ErrCorrupt)
	}
	if h.mode = Mode(b[10]); h.mode >= numModes {
		return fmt.Errorf("%w: mode %d: this program knows 0 … %d", ErrVersion, h.mode, numModes-1)
	}
	h.created = time.Unix(0, int64(binary.LittleEndian.Uint64(b[12:])))
	h.meta = b[headerFixed : headerFixed+int(meta)]
	return nil
}

// descriptor describes a chunk.
type descriptor struct {
	flags    uint32
	records  uint32
	first    uint64 // number of the first record
	raw      uint32 // bytes of the records
	packed   uint32 // bytes of the zstd frame
	from, to int64  // earliest and latest time, Unix ns
	sum      uint64 // of the descriptor so far and the zstd frame
}

// append writes the descriptor's frame, and behind it the packed records.
func (d *descriptor) append(b, packed []byte) []byte {
	b = appendFrame(b, descriptorBytes)
	at := len(b)
	b = append(b, tagChunk...)
	b = d.appendFields(b)
	d.sum = checksum(b[at:], packed)
	b = binary.LittleEndian.AppendUint64(b, d.sum)
	return append(b, packed...)
}

func (d *descriptor) appendFields(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, d.flags)
	b = binary.LittleEndian.AppendUint32(b, d.records)
	b = binary.LittleEndian.AppendUint64(b, d.first)
	b = binary.LittleEndian.AppendUint32(b, d.raw)
	b = binary.LittleEndian.AppendUint32(b, d.packed)
	b = binary.LittleEndian.AppendUint64(b, uint64(d.from))
	return binary.LittleEndian.AppendUint64(b, uint64(d.to))
}

// checksum is the XXH64 of two pieces.
func checksum(a, b []byte) uint64 {
	var x xxhash.Digest
	x.Reset()
	_, _ = x.Write(a) // a hash takes everything
	_, _ = x.Write(b)
	return x.Sum64()
}

// parse reads the content of a descriptor's frame.
func (d *descriptor) parse(b []byte) bool {
	if len(b) != descriptorBytes || string(b[:tagBytes]) != tagChunk {
		return false
	}
	d.sum = binary.LittleEndian.Uint64(b[descriptorBytes-8:])
	return d.parseFields(b[tagBytes:])
}

func (d *descriptor) parseFields(b []byte) bool {
	d.flags = binary.LittleEndian.Uint32(b)
	d.records = binary.LittleEndian.Uint32(b[4:])
	d.first = binary.LittleEndian.Uint64(b[8:])
	d.raw = binary.LittleEndian.Uint32(b[16:])
	d.packed = binary.LittleEndian.Uint32(b[20:])
	d.from = int64(binary.LittleEndian.Uint64(b[24:]))
	d.to = int64(binary.LittleEndian.Uint64(b[32:]))
	return d.raw <= maxChunk && d.packed <= maxChunk
}

// sound reports whether a chunk's checksum holds: frame is the content of its
// descriptor's frame.
func sound(frame, packed []byte) bool {
	return checksum(frame[:descriptorBytes-8], packed) == binary.LittleEndian.Uint64(frame[descriptorBytes-8:])
}

// chunk is a chunk and where its descriptor's frame begins.
type chunk struct {
	descriptor
	offset int64
}

// length is what the chunk takes in the file.
func (c *chunk) length() int64 { return skippableHead + descriptorBytes + int64(c.packed) }

// appendIndex writes the index's frame.
func appendIndex(b []byte, chunks []chunk) []byte {
	content := indexFixed + len(chunks)*entryBytes
	b = appendFrame(b, content)
	at := len(b)
	b = append(b, tagIndex...)
	for i := range chunks {
		b = binary.LittleEndian.AppendUint64(b, uint64(chunks[i].offset))
		b = chunks[i].appendFields(b)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(chunks)))
	b = binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[at:]))
	b = binary.LittleEndian.AppendUint32(b, uint32(content))
	return append(b, tagIndex...)
}

// parseIndex reads the content of an index's frame; false if it is none, or
// does not hold.
func parseIndex(b []byte) ([]chunk, bool) {
	if len(b) < indexFixed || string(b[:tagBytes]) != tagIndex || string(b[len(b)-tagBytes:]) != tagIndex {
		return nil, false
	}
	tail := b[len(b)-indexTail:]
	n := int(binary.LittleEndian.Uint32(tail))
	if len(b) != indexFixed+n*entryBytes || xxhash.Sum64(b[:len(b)-indexTail+4]) != binary.LittleEndian.Uint64(tail[4:]) {
		return nil, false
	}
	chunks := make([]chunk, n)
	for i := range chunks {
		e := b[tagBytes+i*entryBytes:]
		chunks[i].offset = int64(binary.LittleEndian.Uint64(e))
		if !chunks[i].parseFields(e[8:]) {
			return nil, false
		}
	}
	return chunks, true
}

// appendFrame begins a skippable frame of the given content.
func appendFrame(b []byte, content int) []byte {
	b = binary.LittleEndian.AppendUint32(b, skippable)
	return binary.LittleEndian.AppendUint32(b, uint32(content))
}

// frame reads the beginning of a skippable frame of ours and returns the
// length of its content.
func frame(b []byte) (content int, ok bool) {
	if len(b) < skippableHead || binary.LittleEndian.Uint32(b) != skippable {
		return 0, false
	}
	return int(binary.LittleEndian.Uint32(b[4:])), true
}
