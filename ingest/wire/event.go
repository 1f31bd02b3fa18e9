package wire

import (
	"bytes"

	"github.com/cairn-kv/cairn/tree/content"
)

// Kind is what an event asks for.
type Kind uint8

// The kinds of events.
const (
	Store    Kind = iota // blocks became resident
	Remove               // blocks ceased to be resident
	Clear                // everything of the rank is gone
	Skipped              // not understood, harmless: see Reason
	Rejected             // understood and wrong: see Reason
	NumKinds
)

var kindNames = [NumKinds]string{"store", "remove", "clear", "skipped", "rejected"}

// String returns the lower-case name of k.
func (k Kind) String() string {
	if k < NumKinds {
		return kindNames[k]
	}
	return "invalid"
}

// Batch is the envelope of a payload.
type Batch struct {
	Seconds  float64 // wall clock of the publisher; 0 if it sent none, or no finite number
	Millis   uint64  // the same where IsMillis: the integer as sent, 0 if negative
	IsMillis bool
	HasRank  bool // false: the rank is that of the endpoint
	Rank     int64
	Events   int // events in the batch, whatever they turn out to be; a move is one
	// BlockSize is that of events that do not state theirs, 0 if not stated.
	BlockSize int64
}

// Event is one decoded event. Slices lie in the payload or in the Decoder, and
// are valid until the next Next or Reset. Empty names are the same as absent
// ones throughout.
//
// Of a Rejected or Skipped event Kind, Reason, Tag, Medium, Ownership, Rank and
// Worker are meaningful, and nothing else.
type Event struct {
	Kind   Kind
	Reason Reason // why Skipped or Rejected
	Tag    []byte // as sent

	HasRank   bool // the event has a rank of its own, whatever the batch's is
	Rank      int64
	HasID     bool // the event is numbered: per rank, one after the other
	ID        uint64
	HasWorker bool // the event says whose it is: Dynamo's id of a worker
	Worker    uint64
	Backend   []byte // the same of Mooncake: its name of a worker or pool
	Model     []byte // what the event's blocks are of, where it says so

	Hashes    []uint64 // engine hashes, in chain order for a store
	HasParent bool     // false: nil or absent, the chain begins at the root
	Parent    uint64   // 0 as sent means root unless the stream knows a hash 0

	// Tokens are the token ids of the blocks, and behind them the Lookahead
	// tokens that the last block looks at: what content.Append expects.
	Tokens       []uint32
	TokensNil    bool // nil or absent, in contrast to an empty list
	Bigram       bool // sent as pairs; flattened
	OpaqueTokens bool // some token is text: Tokens is empty, nothing can match

	// Contents are the content hashes of the blocks, by [content.Scheme] or
	// another, where the dialect sends those and no tokens; nil otherwise.
	Contents []uint64
	// ContentUnit is how many tokens each of Contents stands for, where the event
	// says so (see masked.go). 0: a block.
	ContentUnit int64
	// Keyed: Contents contain salts or extra keys, though the event names none.
	Keyed bool
	// SelfNamed: the first block's name is Python's hash of its tokens, which are
	// not there any more to show it.
	SelfNamed bool

	BlockSize    int64 // tokens of one block; positive if there are Tokens
	HasBlockSize bool

	Medium    []byte // as sent; see [Event.Tier]
	HasMedium bool   // not nil and not absent

	LoraID     int64 // local to one engine process: no identity by itself
	HasLoraID  bool
	LoraName   []byte // the adapter
	Salt       []byte // cache salt, from wherever the dialect has it
	SessionID  []byte
	KeysStated bool // the event says which extra keys its blocks have, if only none
	// KeysHaveSlot: the event's layout has a place for a list of extra keys.
	// With KeysStated false, a store on another tier than the device says
	// nothing about keys, and must not change what a known hash names.
	KeysHaveSlot bool
	Keys         content.Keys // extra-key hashes per block, without adapter and salt

	Group            int64
	HasGroup         bool
	SpecKind         []byte
	SlidingWindow    int64
	HasSlidingWindow bool
	Locality         []byte // LOCAL, REMOTE or absent
	Ownership        []byte // kvcr, a tier instance, or absent

	// Lookahead is how many tokens behind a block its hash also covers.
	Lookahead int
	// LookaheadTokens are those of every block, Lookahead apiece, where the
	// event lists them (vLLM from 0.33). In a dense event they repeat what
	// Tokens has.
	LookaheadTokens []uint32

	// Placeholder: no tokens and no block size. The event adds a tier to hashes
	// that are known, and says nothing about others.
	Placeholder bool
}

// Tier returns the tier of the event's medium.
func (e *Event) Tier() Tier { return Medium(e.Medium) }

// Class says whether blocks of a cache group lie at every position of a prompt.
type Class uint8

const (
	// Dense groups hold a block for every position: prefix residency.
	Dense Class = iota
	// Sparse groups leave positions out: no query ever counts them.
	Sparse
	// Unstated: a group above 0 of a release that names no kind. It counts only
	// if it is the configured main group and [Event.Even] holds.
	Unstated
)

// Class returns the class of the event's group.
func (e *Event) Class() Class {
	switch string(e.SpecKind) {
	case "":
		if e.Group == 0 {
			return Dense
		}
		return Unstated
	case "full_attention", "mla_attention", "sink_full_attention":
		return Dense
	}
	return Sparse
}

// Even reports whether the event has exactly the tokens of its blocks. Always
// true of a dense store with tokens: others are rejected.
func (e *Event) Even() bool {
	if e.ContentUnit > 0 {
		return e.BlockSize > 0 && len(e.Hashes) > 0 && int64(len(e.Contents))*e.ContentUnit == int64(len(e.Hashes))*e.BlockSize
	}
	n := len(e.Tokens) - e.Lookahead
	// No more than there are tokens, so the product is small.
	return e.BlockSize > 0 && n > 0 && e.BlockSize <= int64(n) && e.BlockSize*int64(len(e.Hashes)) == int64(n)
}

// Remote reports whether the blocks are a remote copy, which is no local hit.
func (e *Event) Remote() bool { return bytes.EqualFold(e.Locality, remote) }

var remote = []byte("REMOTE")
