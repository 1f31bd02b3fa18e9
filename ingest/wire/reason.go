package wire

import "fmt"

// Reason says why an event was skipped or rejected, or why a batch could not be
// decoded. Its text is a stable label for counters.
type Reason uint8

// Reasons for one event.
const (
	ReasonNone         Reason = iota
	ReasonUnknownTag          // skipped: a tag this package does not know
	ReasonNoEffect            // skipped: an event that changes nothing an index keeps
	ReasonWindow              // skipped: of a window that holds no whole prefixes
	ReasonPartialBlock        // skipped: a block that is not full

	ReasonEventShape    // neither array, map nor packed event
	ReasonPackedEvent   // a packed event whose inside is not one sound event
	ReasonNoTag         // no tag, or one that is not a string
	ReasonMissingField  // a store or remove without hashes
	ReasonFieldType     // a field of a type that cannot be read as what it must be
	ReasonHashNil       // nil among the hashes
	ReasonHashType      // a hash that is neither integer nor bin, or hashes that are no list
	ReasonHashLength    // a bin hash shorter than 8 bytes
	ReasonTokenType     // a token that is neither integer, pair nor string
	ReasonTokenRange    // a token id outside 0 … 2^32-1
	ReasonBigram        // token pairs that do not continue each other
	ReasonSelfParent    // the parent is among the event's own hashes
	ReasonDuplicateHash // the same hash twice in one store
	ReasonBlockSize     // tokens with a block size of zero, below, or none
	ReasonTokenCount    // tokens of a dense group that are not hashes × block size
	ReasonKeyCount      // a list of extra keys that is not as long as that of the hashes
	ReasonKeyDepth      // an extra key nested too deep to be given a name
	ReasonNoParent      // no parent, though the chain has something before the blocks
	ReasonLookahead     // look-ahead tokens that are uneven or contradict the tokens
	ReasonOwnerTier     // a cache owner's block on the device tier, which it has not

	// Reasons for a whole batch.

	ReasonTruncated      // a value ends behind the payload
	ReasonLengthOverflow // an announced length that the payload cannot hold
	ReasonInvalidByte    // a byte that begins no MessagePack value
	ReasonTrailingBytes  // bytes behind the batch
	ReasonNesting        // JSON that nests too deep
	ReasonBatchShape     // neither an array of at least 2 nor a map with events
	ReasonRank           // a rank that is neither an integer in range nor nil

	NumReasons
)

var reasonNames = [NumReasons]string{
	ReasonNone:           "none",
	ReasonUnknownTag:     "unknown_tag",
	ReasonNoEffect:       "no_effect",
	ReasonWindow:         "smaller_window",
	ReasonPartialBlock:   "partial_block",
	ReasonEventShape:     "event_shape",
	ReasonPackedEvent:    "packed_event",
	ReasonNoTag:          "no_tag",
	ReasonMissingField:   "missing_field",
	ReasonFieldType:      "field_type",
	ReasonHashNil:        "hash_nil",
	ReasonHashType:       "hash_type",
	ReasonHashLength:     "hash_length",
	ReasonTokenType:      "token_type",
	ReasonTokenRange:     "token_range",
	ReasonBigram:         "bigram",
	ReasonSelfParent:     "self_parent",
	ReasonDuplicateHash:  "duplicate_hash",
	ReasonBlockSize:      "block_size",
	ReasonTokenCount:     "token_count",
	ReasonKeyCount:       "key_count",
	ReasonKeyDepth:       "key_depth",
	ReasonNoParent:       "no_parent",
	ReasonLookahead:      "lookahead",
	ReasonOwnerTier:      "owner_tier",
	ReasonTruncated:      "truncated",
	ReasonLengthOverflow: "length_overflow",
	ReasonInvalidByte:    "invalid_byte",
	ReasonTrailingBytes:  "trailing_bytes",
	ReasonNesting:        "nesting",
	ReasonBatchShape:     "batch_shape",
	ReasonRank:           "rank",
}

// String returns the label of r.
func (r Reason) String() string {
	if r < NumReasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Harmless reports whether an event is skipped for r, and not rejected: nothing
// is wrong with it.
func (r Reason) Harmless() bool { return r >= ReasonUnknownTag && r <= ReasonPartialBlock }

// Error is what Reset, Next and Check return for an undecodable batch. Nothing
// of the batch may be applied.
type Error struct {
	Reason Reason
	Offset int // where in the payload
	Len    int // length of the payload
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("wire: undecodable batch: %s at byte %d of %d", e.Reason, e.Offset, e.Len)
}
