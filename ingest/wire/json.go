package wire

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"
)

// Payloads in JSON are made into MessagePack first, value by value, and then
// decoded like any other. So there is one decoder, and nothing that a dialect
// means can differ between the two. It costs a pass and a copy, which recorded
// files and HTTP can bear.
//
//	{"a":[1,-2,"é",null]}   ──▶   df 00000001 a1 61 dd 00000004 01 fe a2 c3a9 c0
//
// Containers get their longest header, because their length is known only at
// their end. Integers keep their 64 bits; one beyond them becomes a float, which
// is no hash and no token. Of several values, as in files of lines, a list is
// made.

const (
	// maxJSONDepth bounds the nesting; what engines send nests up to 8 deep.
	maxJSONDepth = 64
	// maxJSONNumber is how long the text of a number may be.
	maxJSONNumber = 64
)

// isJSON reports whether a payload is JSON text. Its first byte tells: none of
// these begins a MessagePack batch, they are small integers.
func isJSON(payload []byte) bool {
	if len(payload) == 0 {
		return false
	}
	switch payload[0] {
	case '{', '[', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

// transcoder makes MessagePack of JSON. Its buffer is kept from one payload to
// the next. What it makes is at most 5/2 of the text and 5 bytes more: a pair of
// brackets is the worst.
type transcoder struct {
	out  []byte
	in   []byte
	i    int
	open [maxJSONDepth]container
	why  Reason
	at   int // where it failed
}

// container is a list or map that is not yet at its end.
type container struct {
	header int  // in out
	pairs  bool // a map
	n      uint32
}

// run returns the MessagePack of a text, valid until the next run, or an *Error
// about the text.
func (t *transcoder) run(text []byte) ([]byte, error) {
	t.in, t.i, t.out, t.why = text, 0, t.out[:0], ReasonNone
	if cap(t.out) > keepBuffers {
		t.out = nil
	}
	// Room for a header, for the case that it is several values.
	t.out = append(t.out, mArray32, 0, 0, 0, 0)
	values := uint32(0)
	for t.space(); t.why == ReasonNone && t.i < len(t.in); t.space() {
		t.value()
		values++
	}
	if values == 0 {
		t.fail(ReasonTruncated)
	}
	if t.why != ReasonNone {
		return nil, &Error{Reason: t.why, Offset: t.at, Len: len(text)}
	}
	if values == 1 {
		return t.out[5:], nil
	}
	binary.BigEndian.PutUint32(t.out[1:], values)
	return t.out, nil
}

func (t *transcoder) fail(r Reason) {
	if t.why == ReasonNone {
		t.why, t.at = r, t.i
	}
}

// unexpected fails at the byte at hand, or at the end.
func (t *transcoder) unexpected() {
	if t.i < len(t.in) {
		t.fail(ReasonInvalidByte)
	} else {
		t.fail(ReasonTruncated)
	}
}

func (t *transcoder) space() {
	for t.i < len(t.in) {
		switch t.in[t.i] {
		case ' ', '\t', '\r', '\n':
			t.i++
		default:
			return
		}
	}
}

// next passes over white space and returns the byte behind it, 0 at the end.
func (t *transcoder) next() byte {
	t.space()
	if t.i < len(t.in) {
		return t.in[t.i]
	}
	return 0
}

// value reads one value, without recursion.
func (t *transcoder) value() {
	depth := 0
	for {
		// A value begins here.
		if depth > 0 && t.open[depth-1].pairs {
			if t.next() != '"' {
				t.unexpected()
				return
			}
			t.text()
			if t.next() != ':' {
				t.unexpected()
			} else {
				t.i++
			}
		}
		switch c := t.next(); {
		case t.why != ReasonNone:
			return
		case c == '{' || c == '[':
			if depth == maxJSONDepth {
				t.fail(ReasonNesting)
				return
			}
			t.i++
			t.open[depth] = container{header: len(t.out), pairs: c == '{'}
			depth++
			t.out = append(t.out, 0, 0, 0, 0, 0)
			if c+2 != t.next() { // the bracket that closes it
				continue
			}
			t.i++
			depth--
			t.close(&t.open[depth])
		case c == '"':
			t.text()
		case c == 't':
			t.word("true", mTrue)
		case c == 'f':
			t.word("false", mFalse)
		case c == 'n':
			t.word("null", mNil)
		default:
			t.number()
		}
		// It has ended; so may have those around it.
		for {
			if depth == 0 || t.why != ReasonNone {
				return
			}
			o := &t.open[depth-1]
			o.n++
			closing := byte(']')
			if o.pairs {
				closing = '}'
			}
			c := t.next()
			if c == ',' {
				t.i++
				break
			}
			if c != closing {
				t.unexpected()
				return
			}
			t.i++
			depth--
			t.close(o)
		}
	}
}

func (t *transcoder) close(o *container) {
	t.out[o.header] = mArray32
	if o.pairs {
		t.out[o.header] = mMap32
	}
	binary.BigEndian.PutUint32(t.out[o.header+1:], o.n)
}

func (t *transcoder) word(w string, header byte) {
	left := t.in[t.i:]
	for k := range len(w) {
		if k == len(left) || left[k] != w[k] {
			t.i += k
			t.unexpected()
			return
		}
	}
	t.i += len(w)
	t.out = append(t.out, header)
}

// number reads a number: an integer of 64 bits, or a float.
func (t *transcoder) number() {
	from := t.i
	whole := true
	digits := func() {
		first := t.i
		for t.i < len(t.in) && t.in[t.i]-'0' < 10 {
			t.i++
		}
		if t.i == first {
			t.unexpected()
		}
	}
	at := func(c byte) bool { return t.i < len(t.in) && t.in[t.i] == c }
	below := at('-')
	if below {
		t.i++
	}
	if at('0') {
		t.i++ // and no digit behind it
	} else {
		digits()
	}
	if at('.') {
		t.i++
		whole = false
		digits()
	}
	if at('e') || at('E') {
		t.i++
		whole = false
		if at('+') || at('-') {
			t.i++
		}
		digits()
	}
	text := t.in[from:t.i]
	switch {
	case t.why != ReasonNone:
		return
	case len(text) > maxJSONNumber:
		t.i = from
		t.fail(ReasonInvalidByte)
		return
	case whole && t.integer(text, below):
		return
	}
	// Beyond what a float holds it is infinite, which no field takes.
	f, _ := strconv.ParseFloat(string(text), 64)
	t.out = append(t.out, mFloat64)
	t.out = binary.BigEndian.AppendUint64(t.out, math.Float64bits(f))
}

// integer writes a whole number, or returns false if 64 bits do not hold it.
func (t *transcoder) integer(text []byte, below bool) bool {
	if below {
		text = text[1:]
	}
	v := uint64(0)
	for _, c := range text {
		d := uint64(c - '0')
		if v > (math.MaxUint64-d)/10 {
			return false
		}
		v = 10*v + d
	}
	if below {
		if v > 1<<63 {
			return false
		}
		v = -v
		below = v != 0
	}
	z := canonizer{out: t.out}
	z.integer(v, below)
	t.out = z.out
	return true
}

// text reads a string. Bytes that are no UTF-8 pass as they are: names are
// compared as bytes.
func (t *transcoder) text() {
	header := len(t.out)
	t.out = append(t.out, mStr32, 0, 0, 0, 0)
	t.i++
	for {
		from := t.i
		for t.i < len(t.in) && t.in[t.i] != '"' && t.in[t.i] != '\\' && t.in[t.i] >= ' ' {
			t.i++
		}
		t.out = append(t.out, t.in[from:t.i]...)
		switch {
		case t.i < len(t.in) && t.in[t.i] == '"':
			t.i++
			n := len(t.out) - header - 5
			if n < 32 { // most are names of fields: by the short form
				copy(t.out[header+1:], t.out[header+5:])
				t.out[header] = fixStr | byte(n)
				t.out = t.out[:header+1+n]
			} else {
				binary.BigEndian.PutUint32(t.out[header+1:], uint32(n))
			}
			return
		case t.i < len(t.in) && t.in[t.i] == '\\':
			t.i++
			t.escape()
		default:
			t.unexpected()
		}
		if t.why != ReasonNone {
			return
		}
	}
}

// escape reads what follows a backslash.
func (t *transcoder) escape() {
	if t.i == len(t.in) {
		t.unexpected()
		return
	}
	c := t.in[t.i]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		t.i++
		t.out = utf8.AppendRune(t.out, t.unicode())
		return
	default:
		t.unexpected()
		return
	}
	t.i++
	t.out = append(t.out, c)
}

// unicode reads the digits of a \u escape, or of two that make a pair. Half a
// pair alone is the replacement character, as everywhere in Go.
func (t *transcoder) unicode() rune {
	high := t.digits()
	if high < 0xd800 || high >= 0xdc00 {
		return high // utf8.AppendRune replaces the low half of a pair
	}
	if len(t.in)-t.i < 2 || t.in[t.i] != '\\' || t.in[t.i+1] != 'u' {
		return utf8.RuneError
	}
	from := t.i
	t.i += 2
	low := t.digits()
	if low < 0xdc00 || low >= 0xe000 {
		if t.why == ReasonNone {
			t.i = from // it stands for itself
		}
		return utf8.RuneError
	}
	return 0x10000 + (high-0xd800)<<10 + (low - 0xdc00)
}

// digits reads four hexadecimal digits.
func (t *transcoder) digits() (v rune) {
	for range 4 {
		if t.i == len(t.in) {
			t.unexpected()
			return 0
		}
		c := t.in[t.i]
		switch {
		case c-'0' < 10:
			c -= '0'
		case c|0x20-'a' < 6:
			c = c | 0x20 - 'a' + 10
		default:
			t.unexpected()
			return 0
		}
		v = v<<4 | rune(c)
		t.i++
	}
	return v
}
