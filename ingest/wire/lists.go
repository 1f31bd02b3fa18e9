package wire

import (
	"encoding/binary"
	"slices"
)

// list reads the header of a list. Anything else is passed over, and makes the
// event a bad one for the given reason.
func (d *Decoder) list(c *cursor, why Reason) (int, bool) {
	n, ok := c.array()
	if !ok && !c.bad() {
		d.reject(why)
		c.skip(1)
	}
	return n, ok
}

// hashList reads the hashes of an event.
func (d *Decoder) hashList(c *cursor, ev *Event) {
	d.hashes = d.hashes[:0]
	ev.Hashes = nil
	n, ok := d.list(c, ReasonHashType)
	if !ok {
		return
	}
	d.f.hashed = true
	d.hashes = slices.Grow(d.hashes, n)[:n]
	ev.Hashes = d.hashes
	b, i := c.b, c.i
	for k := range d.hashes {
		if left := len(b) - i; left >= 9 {
			if b[i] == mUint64 || b[i] == mInt64 {
				d.hashes[k] = binary.BigEndian.Uint64(b[i+1:])
				i += 9
				continue
			}
			if size := int(b[i+1]); b[i] == mBin8 && size >= 8 && left >= 2+size {
				i += 2 + size
				d.hashes[k] = binary.BigEndian.Uint64(b[i-8:])
				continue
			}
		}
		c.i = i
		d.hashes[k] = d.hash(c)
		i = c.i
	}
	c.i = i
}

// hash reads one hash: the bits of an integer, or the last 8 bytes of a bin,
// which is how vLLM itself makes an integer of a digest.
func (d *Decoder) hash(c *cursor) uint64 {
	switch c.class() {
	case classInt:
		v, _, _ := c.integer()
		return v
	case classBin:
		p, _ := c.text()
		if len(p) >= 8 {
			return binary.BigEndian.Uint64(p[len(p)-8:])
		}
		d.reject(ReasonHashLength)
	case classNil:
		c.skip(1)
		d.reject(ReasonHashNil)
	default:
		c.skip(1)
		d.reject(ReasonHashType)
	}
	return 0
}

func (d *Decoder) parent(c *cursor, ev *Event) {
	if c.null() {
		ev.Parent, ev.HasParent = 0, false
		return
	}
	ev.Parent, ev.HasParent = d.hash(c), true
}

// tokenList reads the token ids of an event: numbers, pairs of them, or numbers
// and text.
func (d *Decoder) tokenList(c *cursor, ev *Event) {
	ev.Tokens, ev.TokensNil, ev.Bigram, ev.OpaqueTokens = nil, true, false, false
	d.tokens = d.tokens[:0]
	if c.null() {
		return
	}
	n, ok := d.list(c, ReasonTokenType)
	if !ok {
		return
	}
	ev.TokensNil = false
	if n > 0 && c.class() == classArray {
		ev.Bigram = true
		d.bigrams(c, n)
	} else {
		d.tokens = d.numbers(c, d.tokens, n, ev)
	}
	if ev.OpaqueTokens {
		d.tokens = d.tokens[:0]
	}
	ev.Tokens = d.tokens
}

// aloneTokens is how many token ids are read one by one before groups is asked
// again. Where it took some and stopped, the one that stopped it is among three.
const (
	aloneTokens = 64
	stopTokens  = 3
)

// numbers reads n token ids and appends them to dst. Text among them makes the
// tokens of ev opaque; ev is nil where text is not allowed.
func (d *Decoder) numbers(c *cursor, dst []uint32, n int, ev *Event) []uint32 {
	from := len(dst)
	dst = slices.Grow(dst, n)[:from+n]
	out := dst[from:]
	for len(out) > 0 {
		k, size := groups(out, c.b[c.i:])
		out = out[k:]
		c.i += size
		alone := aloneTokens
		if k >= aloneTokens {
			alone = stopTokens
		}
		alone = min(alone, len(out))
		d.alone(c, out[:alone], ev)
		out = out[alone:]
	}
	return dst
}

// alone reads token ids one by one.
func (d *Decoder) alone(c *cursor, out []uint32, ev *Event) {
	b, i := c.b, c.i
	for k := range out {
		if len(b)-i >= 5 {
			// Token ids take two or four bytes as it comes: no branch could be
			// foretold, so there is none between the two.
			t, w := b[i], binary.BigEndian.Uint32(b[i+1:])
			if t-mUint16 <= mUint32-mUint16 {
				out[k] = w >> (16 * (mUint32 - t) & 31)
				i += 3 + 2*int(t-mUint16)
				continue
			}
			if t < fixMap {
				out[k] = uint32(t)
				i++
				continue
			}
		}
		c.i = i
		switch {
		case c.class() == classStr && ev != nil:
			ev.OpaqueTokens = true
			c.skip(1)
		default:
			out[k] = d.token(c)
		}
		i = c.i
	}
	c.i = i
}

// token reads one token id.
func (d *Decoder) token(c *cursor) uint32 {
	v, below, ok := c.integer()
	if !ok {
		if !c.bad() {
			d.reject(ReasonTokenType)
			c.skip(1)
		}
		return 0
	}
	if below || v > 1<<32-1 {
		d.reject(ReasonTokenRange)
	}
	return uint32(v)
}

// bigrams reads n pairs of token ids, each of which begins with the end of the
// one before, and flattens them: all firsts and the last second.
func (d *Decoder) bigrams(c *cursor, n int) {
	d.tokens = slices.Grow(d.tokens, n+1)
	var second uint32
	for k := 0; k < n && !c.bad(); k++ {
		size, ok := c.array()
		if c.bad() {
			return
		}
		if !ok || size != 2 {
			if !ok {
				size = 1 // the value that is no pair
			}
			c.skip(size)
			d.reject(ReasonTokenType)
			continue
		}
		first := d.token(c)
		if k > 0 && first != second {
			d.reject(ReasonBigram)
		}
		second = d.token(c)
		d.tokens = append(d.tokens, first)
	}
	d.tokens = append(d.tokens, second)
}

// lookaheads reads the tokens behind each block that its hash also covers.
func (d *Decoder) lookaheads(c *cursor) {
	d.lookahead = d.lookahead[:0]
	d.f.looks, d.f.uneven = 0, false
	if c.null() {
		return
	}
	n, ok := d.list(c, ReasonLookahead)
	if !ok {
		return
	}
	size := -1
	for range n {
		m := 0
		if !c.null() {
			if m, ok = c.array(); !ok {
				if c.bad() {
					return
				}
				d.reject(ReasonLookahead)
				c.skip(1)
				continue
			}
		}
		if size < 0 {
			size = m
		}
		d.f.uneven = d.f.uneven || m != size
		d.lookahead = d.numbers(c, d.lookahead, m, nil)
		if c.bad() {
			return
		}
	}
	if len(d.lookahead) > 0 {
		d.f.looks = n
	}
}
