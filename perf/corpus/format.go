package corpus

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Version is the version of the format that this package writes and reads.
const Version = 1

// GroupOps is the most operations of one group.
const GroupOps = 1 << 14

// groupWords bounds the parts of a group, so that a reader may have them in
// memory at once and offsets fit in 32 bits. A group is closed once it is over.
const groupWords = 1 << 22

const (
	headerWords  = 32
	groupHead    = 8
	trailerWords = 16
	opWords      = 4
	answerWords  = 3
)

var (
	magicHeader  = binary.LittleEndian.Uint64([]byte("CAIRNCRP"))
	magicGroup   = binary.LittleEndian.Uint64([]byte("CAIRNGRP"))
	magicTrailer = binary.LittleEndian.Uint64([]byte("CAIRNEND"))
)

// Factors are what a corpus has beyond plain stores and removes, as bits.
type Factors uint64

// The factors of a header.
const (
	Private Factors = 1 << iota // every holder has names of its own
	Copies                      // a name may be stored again, and is removed as often
	Holes                       // blocks may be missing in the middle of a chain
	Tiers                       // there are operations on more than tier 0
	Equal                       // equal contents in a row
	Clears                      // holders are cleared
)

var factorNames = []string{"private", "copies", "holes", "tiers", "equal", "clears"}

// String lists the factors, separated by commas; none gives "none".
func (f Factors) String() string {
	var names []string
	for i, name := range factorNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ",")
}

// Header says what a corpus is about. See the package comment.
type Header struct {
	Name     string // of the shape, at most 64 bytes
	Unit     int    // tokens of one block
	Holders  int
	Factors  Factors
	Engines  int
	Capacity int // blocks an engine keeps
	Host     int // blocks an engine keeps on its host tier
	Replicas int
	Length   int // blocks one id of the trace stands for
	Worlds   int // disjoint copies of the trace
	Seed     uint64
}

// Totals count a corpus. Blocks are hashes queried, stored or removed.
type Totals struct {
	Queries, Stores, Removes, Clears int
	Queried, Stored, Removed         int // blocks
	Nanos                            uint64
	Peak, Left                       int // memberships: most at any time, and at the end
	Groups                           int
	Checksum                         uint64
}

// Blocks is the number of block operations; clears count none.
func (t *Totals) Blocks() int { return t.Queried + t.Stored + t.Removed }

// Kind is what an operation does.
type Kind uint8

// The kinds of operations.
const (
	Query  Kind = iota // Words are contents
	Store              // Words are pairs of name and content
	Remove             // Words are names
	Clear              // no Words: the holder holds nothing any more
	NumKinds
)

// String gives the kind's name, such as "store".
func (k Kind) String() string {
	if k < NumKinds {
		return [NumKinds]string{"query", "store", "remove", "clear"}[k]
	}
	return fmt.Sprintf("kind %d", k)
}

// Class says what an index as a whole knows of the blocks of a store.
type Class uint8

// The classes of stores.
const (
	Unclassed Class = iota // not said
	New                    // nobody holds any of them
	Known                  // others hold all of them
	Mixed                  // others hold some
)

// Op is one operation. Words belong to whoever made it and must not be changed.
type Op struct {
	Nanos     uint64 // from the start
	Holder    int    // of a query: where it went afterwards
	Kind      Kind
	Tier      uint8
	Class     Class // of a store
	HasParent bool
	Parent    uint64
	Words     []uint64
}

// Blocks is how many blocks the operation is about.
func (o *Op) Blocks() int {
	if o.Kind == Store {
		return len(o.Words) / 2
	}
	return len(o.Words)
}

// Answer is the right answer of a query.
type Answer struct {
	Any     uint64 // digest of the depths on any tier
	Device  uint64 // digest of the depths on tier 0
	Holders int    // with a depth above 0, on any tier
	Deepest int    // on any tier
}

// Digest is what one holder of a depth above 0 adds to the digest of an answer.
// A digest is the sum, so the order of holders does not matter.
func Digest(holder, depth int) uint64 {
	return mix(uint64(holder)<<32 + uint64(depth))
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// checksum takes words into c. See the package comment.
func checksum(c uint64, words []uint64) uint64 {
	for _, w := range words {
		c = (c ^ w) * 0x9e3779b97f4a7c15
		c ^= c >> 32
	}
	return c
}

func (h *Header) encode() ([]uint64, error) {
	if len(h.Name) > 64 {
		return nil, fmt.Errorf("corpus: name %q has %d bytes; want at most 64", h.Name, len(h.Name))
	}
	if h.Holders < 1 || h.Holders > 1<<20 {
		return nil, fmt.Errorf("corpus: %d holders; want 1 … %d", h.Holders, 1<<20)
	}
	w := make([]uint64, headerWords)
	w[0], w[1] = magicHeader, Version
	for i, v := range []int{h.Unit, h.Holders, int(h.Factors), h.Engines, h.Capacity, h.Replicas} {
		w[2+i] = uint64(v)
	}
	w[8], w[9], w[10], w[11] = h.Seed, uint64(h.Length), uint64(h.Worlds), uint64(h.Host)
	var name [64]byte
	copy(name[:], h.Name)
	for i := range 8 {
		w[12+i] = binary.LittleEndian.Uint64(name[8*i:])
	}
	w[31] = checksum(0, w[:31])
	return w, nil
}

func decodeHeader(w []uint64) (Header, error) {
	if w[0] != magicHeader {
		return Header{}, fmt.Errorf("corpus: the file begins with %#x; want %#x: it is no corpus", w[0], magicHeader)
	}
	if w[1] != Version {
		return Header{}, fmt.Errorf("corpus: version %d; this program reads version %d", w[1], Version)
	}
	if got := checksum(0, w[:31]); got != w[31] {
		return Header{}, fmt.Errorf("corpus: checksum of the header is %#x; it says %#x", got, w[31])
	}
	h := Header{
		Unit: int(w[2]), Holders: int(w[3]), Factors: Factors(w[4]), Engines: int(w[5]), Capacity: int(w[6]),
		Replicas: int(w[7]), Seed: w[8], Length: int(w[9]), Worlds: int(w[10]), Host: int(w[11]),
	}
	if h.Holders < 1 || h.Holders > 1<<20 {
		return Header{}, fmt.Errorf("corpus: %d holders; want 1 … %d", w[3], 1<<20)
	}
	var name [64]byte
	for i := range 8 {
		binary.LittleEndian.PutUint64(name[8*i:], w[12+i])
	}
	h.Name = strings.TrimRight(string(name[:]), "\x00")
	return h, nil
}

func (t *Totals) encode() []uint64 {
	w := make([]uint64, trailerWords)
	w[0] = magicTrailer
	for i, v := range []int{t.Queries, t.Stores, t.Removes, t.Clears, t.Queried, t.Stored, t.Removed, int(t.Nanos), t.Peak, t.Left, t.Groups} {
		w[1+i] = uint64(v)
	}
	w[14] = t.Checksum
	w[15] = checksum(0, w[:15])
	return w
}

func decodeTotals(w []uint64) (Totals, error) {
	if got := checksum(0, w[:15]); got != w[15] {
		return Totals{}, fmt.Errorf("corpus: checksum of the trailer is %#x; it says %#x", got, w[15])
	}
	return Totals{
		Queries: int(w[1]), Stores: int(w[2]), Removes: int(w[3]), Clears: int(w[4]),
		Queried: int(w[5]), Stored: int(w[6]), Removed: int(w[7]), Nanos: w[8],
		Peak: int(w[9]), Left: int(w[10]), Groups: int(w[11]), Checksum: w[14],
	}, nil
}

// count adds one operation.
func (t *Totals) count(o *Op) {
	switch o.Kind {
	case Query:
		t.Queries++
		t.Queried += o.Blocks()
	case Store:
		t.Stores++
		t.Stored += o.Blocks()
	case Remove:
		t.Removes++
		t.Removed += o.Blocks()
	case Clear:
		t.Clears++
	}
	t.Nanos = o.Nanos
}
