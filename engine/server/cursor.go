package server

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/cairn-kv/cairn/engine/validate"
)

// apiError is an error of a request: {"error","code","field"} and a status.
type apiError struct {
	status int
	code   string
	field  string
	text   string
	// problems are all that was wrong with a registration, nil for other requests.
	problems validate.Errors
}

func (e *apiError) Error() string { return e.text }

func fail(status int, code, field, format string, args ...any) *apiError {
	text := fmt.Sprintf(format, args...)
	if field != "" {
		text = field + ": " + text
	}
	return &apiError{status: status, code: code, field: field, text: text}
}

// cursor reads one strict JSON request. It knows no generic values: every
// place in a request has one type, numbers are read as integers straight from
// their digits, and what is not asked for is an error. The first error sticks.
type cursor struct {
	b   []byte
	i   int
	err *apiError
}

func (c *cursor) fail(status int, code, field, format string, args ...any) {
	if c.err == nil {
		c.err = fail(status, code, field, format, args...)
	}
}

func (c *cursor) syntax() {
	if c.i >= len(c.b) {
		c.fail(400, "bad_json", "", "the body ends in the middle of its JSON, at byte %d", c.i)
		return
	}
	c.fail(400, "bad_json", "", "the body is not JSON at byte %d", c.i)
}

func (c *cursor) space() {
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (c *cursor) peek() byte {
	if c.err != nil {
		return 0
	}
	if c.space(); c.i < len(c.b) {
		return c.b[c.i]
	}
	return 0
}

// eat takes the byte if it is next.
func (c *cursor) eat(b byte) bool {
	if c.peek() != b || c.err != nil {
		return false
	}
	c.i++
	return true
}

// wants reports a value of another type than the field has. Where nothing that
// could begin a value stands, the JSON itself is bad.
func (c *cursor) wants(field, what string) {
	if kind := c.kind(); kind != "" {
		c.fail(422, "wrong_type", field, "is %s, wants %s", kind, what)
		return
	}
	c.syntax()
}

func (c *cursor) kind() string {
	switch b := c.peek(); {
	case b == '{':
		return "an object"
	case b == '[':
		return "a list"
	case b == '"':
		return "a string"
	case b == 't', b == 'f':
		return "a truth value"
	case b == 'n':
		return "null"
	case b == '-', b >= '0' && b <= '9':
		return "a number"
	}
	return ""
}

// object reads an object and calls member for each key, which must read the
// value and report whether it knows the key.
func (c *cursor) object(field string, member func(key string) bool) {
	if !c.eat('{') {
		c.wants(field, "an object")
		return
	}
	if c.eat('}') {
		return
	}
	var seen [16]string // no object of ours has more members
	for n := 0; c.err == nil; n++ {
		if c.peek() != '"' {
			c.syntax()
			return
		}
		key := c.text("")
		path := join(field, key)
		if !c.eat(':') {
			c.syntax()
			return
		}
		for _, s := range seen[:min(n, len(seen))] {
			if s == key {
				c.fail(400, "repeated_field", path, "stands twice")
				return
			}
		}
		if n < len(seen) {
			seen[n] = key
		}
		if !member(key) {
			c.fail(400, "unknown_field", path, "is not a field of this request")
			return
		}
		if c.eat(',') {
			continue
		}
		if !c.eat('}') {
			c.syntax()
		}
		return
	}
}

// list reads a list and calls item for each element, which must read it.
func (c *cursor) list(field string, item func(i int)) {
	if !c.eat('[') {
		c.wants(field, "a list")
		return
	}
	if c.eat(']') {
		return
	}
	for i := 0; c.err == nil; i++ {
		item(i)
		if c.eat(',') {
			continue
		}
		if !c.eat(']') {
			c.syntax()
		}
		return
	}
}

// text reads a string.
func (c *cursor) text(field string) string {
	if c.peek() != '"' {
		c.wants(field, "a string")
		return ""
	}
	start := c.i
	plain := true
	for i := start + 1; i < len(c.b); i++ {
		switch b := c.b[i]; {
		case b == '\\':
			plain = false
			i++
		case b == '"':
			raw := c.b[start : i+1]
			c.i = i + 1
			if plain && utf8.Valid(raw) {
				return string(raw[1 : len(raw)-1])
			}
			var s string
			if err := json.Unmarshal(raw, &s); err != nil || !utf8.Valid(raw) {
				c.i = start
				c.fail(400, "bad_json", field, "the string at byte %d is not a JSON string of valid UTF-8", start)
				return ""
			}
			return s
		case b < ' ':
			c.i = i
			c.syntax()
			return ""
		}
	}
	c.i = len(c.b)
	c.syntax()
	return ""
}

// number takes the bytes of a number.
func (c *cursor) number(field, what string) []byte {
	if b := c.peek(); b != '-' && (b < '0' || b > '9') {
		c.wants(field, what)
		return nil
	}
	start := c.i
	for c.i < len(c.b) {
		switch b := c.b[c.i]; {
		case b >= '0' && b <= '9', b == '-', b == '+', b == '.', b == 'e', b == 'E':
			c.i++
			continue
		}
		break
	}
	return c.b[start:c.i]
}

// digits reports whether b is plain decimal: no sign, fraction, exponent or
// leading zero.
func digits(b []byte) bool {
	for _, d := range b {
		if d < '0' || d > '9' {
			return false
		}
	}
	return len(b) == 1 || len(b) > 1 && b[0] != '0'
}

// integer reads a whole number of lo … hi.
func (c *cursor) integer(field, code string, lo, hi int) int {
	b := c.number(field, "a whole number")
	if c.err != nil {
		return 0
	}
	v, err := strconv.ParseUint(string(b), 10, 63)
	if !digits(b) || err != nil || v < uint64(lo) || v > uint64(hi) {
		c.fail(400, code, field, "%s is not a whole number of %d … %d", clip(b), lo, hi)
		return 0
	}
	return int(v)
}

// name reads a 64-bit name, unsigned or signed: the bits count.
func (c *cursor) name(field string) uint64 {
	b := c.number(field, "a 64-bit integer")
	if c.err != nil {
		return 0
	}
	if len(b) > 1 && b[0] == '-' && digits(b[1:]) {
		if v, err := strconv.ParseInt(string(b), 10, 64); err == nil && v < 0 {
			return uint64(v)
		}
	} else if digits(b) {
		if v, err := strconv.ParseUint(string(b), 10, 64); err == nil {
			return v
		}
	}
	c.fail(400, "bad_hash", field, "%s is not a 64-bit integer in plain decimal", clip(b))
	return 0
}

// truth reads true or false.
func (c *cursor) truth(field string) bool {
	c.peek()
	for _, w := range []string{"true", "false"} {
		if rest := c.b[c.i:]; len(rest) >= len(w) && string(rest[:len(w)]) == w {
			c.i += len(w)
			return w == "true"
		}
	}
	c.wants(field, "true or false")
	return false
}

// end makes sure that nothing follows.
func (c *cursor) end() {
	if c.space(); c.err == nil && c.i < len(c.b) {
		c.fail(400, "bad_json", "", "something follows the request at byte %d", c.i)
	}
}

// tokens appends a list of 32-bit token ids to dst. It is a loop of its own:
// a prompt has many thousands of them.
func (c *cursor) tokens(field string, dst []uint32) []uint32 {
	if !c.eat('[') {
		c.wants(field, "a list of token ids")
		return dst
	}
	if c.eat(']') {
		return dst
	}
	for i := 0; ; i++ {
		c.space()
		start := c.i
		var v uint64
		for c.i < len(c.b) && c.i-start < 11 {
			d := c.b[c.i] - '0'
			if d > 9 {
				break
			}
			v = v*10 + uint64(d)
			c.i++
		}
		n := c.i - start
		next := byte(0)
		if c.i < len(c.b) {
			next = c.b[c.i]
		}
		if n == 0 || n > 1 && c.b[start] == '0' || v > math.MaxUint32 || next == '.' || next == 'e' || next == 'E' || next >= '0' && next <= '9' {
			c.i = start
			path := field + "[" + strconv.Itoa(i) + "]"
			if b := c.number(path, "a 32-bit token id"); c.err == nil {
				c.fail(400, "bad_token", path, "%s is not a 32-bit token id", clip(b))
			}
			return dst
		}
		dst = append(dst, uint32(v))
		if next == ',' {
			c.i++
			continue
		}
		if c.eat(',') {
			continue
		}
		if !c.eat(']') {
			c.syntax()
		}
		return dst
	}
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}

// clip keeps a wrong value short enough for an error text.
func clip(b []byte) string {
	if len(b) > 40 {
		return string(b[:40]) + "…"
	}
	return string(b)
}
