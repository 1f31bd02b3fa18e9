package wire

import "slices"

// store checks what the fields of a store say together, and makes of them what
// the index needs.
func (d *Decoder) store(c *cursor, ev *Event) {
	if ev.HasParent && slices.Contains(ev.Hashes, ev.Parent) {
		d.reject(ReasonSelfParent)
		return
	}
	if d.seen.duplicate(ev.Hashes) {
		d.reject(ReasonDuplicateHash)
		return
	}
	if len(ev.Hashes) == 0 { // no effect, and no error, whatever else it says
		ev.Tokens, ev.Contents, d.f.looks = nil, nil, 0
		return
	}
	if ev.owned() && ev.Tier() == TierDevice {
		d.reject(ReasonOwnerTier)
		return
	}
	if len(ev.Contents) == 0 {
		ev.Contents = nil
		d.shape(ev)
	} else {
		d.maskedShape(ev)
	}
	if d.f.behind && !ev.HasParent && !ev.Placeholder {
		d.reject(ReasonNoParent)
	}
	if d.f.reason == ReasonNone {
		d.blockKeys(c, ev)
	}
}

// shape checks tokens against hashes and block size.
func (d *Decoder) shape(ev *Event) {
	switch {
	case ev.BlockSize < 0:
		d.reject(ReasonBlockSize)
		return
	case len(ev.Tokens) > 0 && ev.BlockSize == 0:
		d.reject(ReasonBlockSize)
		return
	case len(ev.Tokens) == 0 && ev.BlockSize == 0 && !ev.OpaqueTokens:
		ev.Placeholder = true
		return
	}
	if ev.Bigram {
		ev.Lookahead = 1
	}
	if d.f.looks != 0 && !d.behind(ev) {
		d.reject(ReasonLookahead)
		return
	}
	if ev.Class() == Dense && !ev.OpaqueTokens && !ev.Even() {
		d.reject(ReasonTokenCount)
	}
}

// behind puts the look-ahead tokens of the last block behind the tokens, so
// that a window over any block finds its own there. It returns false if the
// lists are of different lengths, or say something else than the tokens.
func (d *Decoder) behind(ev *Event) bool {
	blocks := len(ev.Hashes)
	if d.f.uneven || d.f.looks != blocks || ev.Bigram {
		return false
	}
	size := len(d.lookahead) / blocks
	ev.LookaheadTokens = d.lookahead
	ev.Lookahead = size
	if ev.OpaqueTokens {
		return true
	}
	// Not behind what the buffer holds: of an event without the field, those are
	// the tokens of the one before.
	d.tokens = append(d.tokens[:len(ev.Tokens)], d.lookahead[len(d.lookahead)-size:]...)
	ev.Tokens = d.tokens
	if !ev.Even() {
		return true // for the caller to judge
	}
	for k := range blocks - 1 {
		at := (k + 1) * int(ev.BlockSize)
		if !slices.Equal(d.tokens[at:at+size], d.lookahead[k*size:(k+1)*size]) {
			return false
		}
	}
	return true
}
