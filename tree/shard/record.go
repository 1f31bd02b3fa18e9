package shard

import "github.com/cairn-kv/cairn/tree"

// A record is one event or a piece of one, as words in a ring. All fields are
// numbers of the machine's own order: a ring never leaves the process.
//
//	         63            32 31     24 23     16 15      8 7       0
//	word 0  │ length in words │ TP shard │  tier   │  flags  │  kind   │  every record
//	word 1  │   generation    │                holder                 │  store place remove clear
//
//	store    word 2  │  span (high 32)  │  root (low 32)  │
//	         word 3  │  parent's name, if flagParent                │
//	         word 4…    per block: its name, then span content hashes
//	place    word 2…    names
//	remove   word 2…    names
//	clear    no more words
//	begin    word 1     sequence of the batch that begins or goes on here
//	         word 2     incarnation of the stream
//	end      the same   of the batch that ends here
//	pad      word 0     alone counts; its length covers the rest of the buffer
//
// A record never crosses the end of the ring's buffer, so its pairs and names
// are one slice: where it would, a pad fills the rest and it starts at the
// beginning. What is published at once is
//
//	begin  data  data … data  end     Commit, of a batch or the rest of one
//	begin  data  data … data          Flush, of a piece
//	end                               Commit of an empty batch or rest
//
// so the writer knows a record's batch before it meets the record, and what
// a piece without an end leaves open needs no memory on either side. A begin is
// reserved in one piece with the first data record, and is filled in when both
// are published: the batch's sequence is said once, at its end.
type record []uint64

type kind uint8

const (
	kindStore kind = iota + 1
	kindPlace
	kindRemove
	kindClear
	kindBegin
	kindEnd
	kindPad
)

const (
	flagParent      = 1 << iota // the chain continues behind a named parent
	flagKeepMeaning             // tree.Store.KeepMeaning
	flagSkipUnknown             // tree.Store.SkipUnknown
)

const (
	storeHead = 4 // words before a store's pairs
	namesHead = 2 // words before the names of a place or remove
	clearSize = 2
	beginSize = 3
	endSize   = 3
	// endRoom is what every data record leaves free behind itself: an end and
	// the longest pad it may need. So Commit never waits behind a record.
	endRoom = endSize + endSize - 1
)

// MaxRecordBlocks bounds the blocks or names of one record, whatever the ring.
const MaxRecordBlocks = 8192

func head(k kind, flags uint8, tier tree.Tier, shard uint8, words int) uint64 {
	return uint64(k) | uint64(flags)<<8 | uint64(tier)<<16 | uint64(shard)<<24 | uint64(words)<<32
}

func (r record) kind() kind  { return kind(r[0]) }
func (r record) words() int  { return int(r[0] >> 32) }
func (r record) flags() int  { return int(uint8(r[0] >> 8)) }
func (r record) shard() int  { return int(uint8(r[0] >> 24)) }
func (r record) gen() uint32 { return uint32(r[1] >> 32) }

func (r record) holder() tree.Holder { return tree.Holder(r[1]) }

func (r record) owner() tree.Owner {
	return tree.Owner{Holder: r.holder(), Tier: tree.Tier(r[0] >> 16), Shard: uint8(r[0] >> 24)}
}

// foreseeable reports whether an index likes to be told of the record ahead.
func (r record) foreseeable() bool { return r.kind() == kindStore || r.kind() == kindRemove }

// names are those of a place or remove, in the ring.
func (r record) names() []uint64 { return r[namesHead:] }

// store describes a store, its pairs in the ring.
func (r record) store() tree.Store {
	f := r.flags()
	return tree.Store{
		Root:        tree.Root(r[2]),
		Span:        int(r[2] >> 32),
		HasParent:   f&flagParent != 0,
		Parent:      r[3],
		KeepMeaning: f&flagKeepMeaning != 0,
		SkipUnknown: f&flagSkipUnknown != 0,
		Pairs:       r[storeHead:],
	}
}

func (r record) setOwner(k kind, flags uint8, h Head) {
	r[0] = head(k, flags, h.Tier, h.Shard, len(r))
	r[1] = uint64(h.Holder) | uint64(h.Generation)<<32
}

func (r record) setStore(h Head, s StoreHead) {
	var flags uint8
	if s.HasParent {
		flags |= flagParent
	}
	if s.KeepMeaning {
		flags |= flagKeepMeaning
	}
	if s.SkipUnknown {
		flags |= flagSkipUnknown
	}
	r.setOwner(kindStore, flags, h)
	r[2] = uint64(s.Root) | uint64(s.Span)<<32
	r[3] = s.Parent
}

// setMark makes a begin or an end.
func (r record) setMark(k kind, seq uint64, incarnation uint32) {
	r[0] = head(k, 0, 0, 0, len(r))
	r[1] = seq
	r[2] = uint64(incarnation)
}

// mark is what a begin or an end says.
func (r record) mark() (seq uint64, incarnation uint32) { return r[1], uint32(r[2]) }
