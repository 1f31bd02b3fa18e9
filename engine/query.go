package engine

import (
	"errors"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/tree/content"
)

// Errors of queries. They are returned bare, so that a wrong question costs no
// allocation either.
var (
	// ErrClosed: the engine is closed.
	ErrClosed = errors.New("engine: closed")
	// ErrUnknownModel: no source was added for the model.
	ErrUnknownModel = errors.New("engine: no source serves this model")
	// ErrUnknownSource: no source has this id.
	ErrUnknownSource = errors.New("engine: no source has this id")
	// ErrUnknownRank: the source has no such dp rank.
	ErrUnknownRank = errors.New("engine: the source has no such dp rank")
	// ErrSourceExists: a source with this id was added already.
	ErrSourceExists = errors.New("engine: a source with this id exists")
	// ErrBothForms: a query has tokens and content hashes.
	ErrBothForms = errors.New("engine: a query has tokens or content hashes, not both")
	// ErrSaltedHashes: content hashes behind block 0 do not tell the salt, and
	// two schemes of salting exist, so such a query is refused.
	ErrSaltedHashes = errors.New("engine: content hashes carry their namespace; adapter, salt and keys must be empty")
	// ErrBlockSize: content hashes need the block size they were made with.
	ErrBlockSize = errors.New("engine: content hashes need a block size of at least 1")
	// ErrKeys: extra keys with a negative offset or length, or more than
	// MaxKeyTouches blocks touched by keys.
	ErrKeys = errors.New("engine: extra keys are out of bounds")
)

// MaxKeyTouches bounds the work that extra keys can ask for: the sum over all
// keys of the blocks they touch.
const MaxKeyTouches = 1 << 20

// Query is one request's prompt. The engine reads it during the call and keeps
// nothing of it.
type Query struct {
	// Model as in Source.Model.
	Model string
	// Tokens are the prompt's token ids.
	Tokens []uint32
	// Adapter is the LoRA adapter's name, "" for the base model. An adapter that
	// a source only numbers is "id:7@source".
	Adapter string
	// Salt is the request's cache salt, "" for none.
	Salt string
	// Keys are the extra keys of the prompt's blocks: what makes two blocks of
	// equal tokens different (images).
	Keys []Key

	// Contents are content hashes of the prompt's blocks, instead of Tokens, made
	// under tree/content's Scheme, and BlockSize the tokens in each. They meet
	// the sources whose unit is BlockSize and whose hashes do not look ahead.
	Contents  []uint64
	BlockSize int
}

// Key is one extra key. It belongs to every block that the tokens
// [Offset, Offset+Length) touch.
type Key struct {
	// Hash is the key's 64 bits: MultimodalKey of an identifier.
	Hash uint64
	// Offset and Length count tokens.
	Offset, Length int
}

// MultimodalKey returns the hash of a multimodal identifier (the digest or
// name of an image). It is false for the empty identifier, which is no key.
func MultimodalKey(id string) (hash uint64, ok bool) {
	return content.MultimodalIDString(id)
}

// Answer is what Match found. Its buffers belong to the caller, who hands the
// same Answer in again to have them reused; nothing in it changes behind the
// caller's back. One goroutine at a time may use it.
type Answer struct {
	// Tokens is the length of the prompt.
	Tokens int
	// Holders are the holders with a depth above zero, deepest first (by
	// Tokens.Any), equals by source, rank, domain.
	Holders []HolderAnswer
	// Flagged are the holders of the model whose depths are withheld: their
	// freshness says why. A model without troubles has none.
	Flagged []HolderAnswer

	positions []StreamPosition // what the Freshness.Streams point into
}

// Domain is a residency domain: hint.Worker or hint.CacheOwner.
type Domain = hint.Domain

// HolderAnswer is one holder's part of an answer.
type HolderAnswer struct {
	Source string
	Rank   int
	Domain Domain
	// BlockSize is the engine's block size in tokens, the one the holder last
	// announced; 0 while unknown.
	BlockSize int
	// AttachedTo names the worker that a cache owner's blocks count for as its
	// own, of the same rank; "" if there is none.
	AttachedTo string
	// UpperBound: the engine may reuse less than Tokens says. See Source.Hybrid.
	UpperBound bool
	Tokens     Depths
	Freshness  Freshness
}

// Depths are leading tokens of the prompt that a holder has.
type Depths struct {
	Device int // on the device alone
	Host   int // on the host alone
	Any    int // each block on any tier of the holder's own
	// HostExtension is what the host adds right behind the device prefix.
	HostExtension int
}
