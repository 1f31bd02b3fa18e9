package wire

import (
	"encoding/binary"
	"math"
)

// MessagePack header bytes.
const (
	mNil     = 0xc0
	mInvalid = 0xc1 // begins no value
	mFalse   = 0xc2
	mTrue    = 0xc3
	mBin8    = 0xc4
	mBin16   = 0xc5
	mBin32   = 0xc6
	mExt8    = 0xc7
	mExt16   = 0xc8
	mExt32   = 0xc9
	mFloat32 = 0xca
	mFloat64 = 0xcb
	mUint8   = 0xcc
	mUint16  = 0xcd
	mUint32  = 0xce
	mUint64  = 0xcf
	mInt8    = 0xd0
	mInt16   = 0xd1
	mInt32   = 0xd2
	mInt64   = 0xd3
	mFix1    = 0xd4
	mFix16   = 0xd8
	mStr8    = 0xd9
	mStr16   = 0xda
	mStr32   = 0xdb
	mArray16 = 0xdc
	mArray32 = 0xdd
	mMap16   = 0xde
	mMap32   = 0xdf

	fixMap   = 0x80 // … 0x8f
	fixArray = 0x90 // … 0x9f
	fixStr   = 0xa0 // … 0xbf
	negative = 0xe0 // … 0xff
)

// class of a value, by its first byte.
type class uint8

const (
	classInvalid class = iota
	classNil
	classBool
	classInt
	classFloat
	classStr
	classBin
	classExt
	classArray
	classMap
)

var classes = func() (t [256]class) {
	set := func(from, to int, c class) {
		for b := from; b <= to; b++ {
			t[b] = c
		}
	}
	set(0x00, 0x7f, classInt)
	set(fixMap, fixMap+15, classMap)
	set(fixArray, fixArray+15, classArray)
	set(fixStr, fixStr+31, classStr)
	set(mNil, mNil, classNil)
	set(mFalse, mTrue, classBool)
	set(mBin8, mBin32, classBin)
	set(mExt8, mExt32, classExt)
	set(mFloat32, mFloat64, classFloat)
	set(mUint8, mInt64, classInt)
	set(mFix1, mFix16, classExt)
	set(mStr8, mStr32, classStr)
	set(mArray16, mArray32, classArray)
	set(mMap16, mMap32, classMap)
	set(negative, 0xff, classInt)
	return
}()

// sizes of whole values, by first byte; 0 where the first byte does not tell.
var sizes = func() (t [256]uint8) {
	for b := range t {
		switch {
		case b < fixMap || b >= negative:
			t[b] = 1
		case b >= fixStr && b < mNil:
			t[b] = uint8(1 + b - fixStr)
		}
	}
	for b, n := range map[int]uint8{
		mNil: 1, mFalse: 1, mTrue: 1, mFloat32: 5, mFloat64: 9,
		mUint8: 2, mUint16: 3, mUint32: 5, mUint64: 9,
		mInt8: 2, mInt16: 3, mInt32: 5, mInt64: 9,
		mFix1: 3, mFix1 + 1: 4, mFix1 + 2: 6, mFix1 + 3: 10, mFix16: 18,
	} {
		t[b] = n
	}
	return
}()

// cursor reads MessagePack. The first failure sticks: it says why, and every
// later read gives zero values, so that callers test once per event.
type cursor struct {
	b   []byte
	i   int
	why Reason // ReasonNone while all is well
	at  int    // where it failed
}

func (c *cursor) bad() bool { return c.why != ReasonNone }

func (c *cursor) fail(r Reason) {
	if c.why == ReasonNone {
		c.why, c.at = r, c.i
		c.i = len(c.b)
	}
}

// class returns the class of the next value without reading it. At the end of
// the text it fails.
func (c *cursor) class() class {
	if c.i >= len(c.b) {
		c.fail(ReasonTruncated)
		return classInvalid
	}
	k := classes[c.b[c.i]]
	if k == classInvalid {
		c.fail(ReasonInvalidByte)
	}
	return k
}

// null reads a nil if there is one.
func (c *cursor) null() bool {
	if c.i < len(c.b) && c.b[c.i] == mNil {
		c.i++
		return true
	}
	return false
}

// word reads an n-byte big-endian number behind the header byte.
func (c *cursor) word(n int) uint64 {
	if len(c.b)-c.i < 1+n {
		c.fail(ReasonTruncated)
		return 0
	}
	p := c.b[c.i+1:]
	c.i += 1 + n
	switch n {
	case 1:
		return uint64(p[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(p))
	case 4:
		return uint64(binary.BigEndian.Uint32(p))
	}
	return binary.BigEndian.Uint64(p)
}

// integer reads an integer of any form as its 64 bits; below says that they are
// those of a negative number. It returns false, and reads nothing, before
// anything else.
func (c *cursor) integer() (bits uint64, below, ok bool) {
	if c.class() != classInt {
		return 0, false, false
	}
	switch t := c.b[c.i]; t {
	case mUint8:
		bits = c.word(1)
	case mUint16:
		bits = c.word(2)
	case mUint32:
		bits = c.word(4)
	case mUint64:
		bits = c.word(8)
	case mInt8:
		bits = uint64(int8(c.word(1)))
		below = int64(bits) < 0
	case mInt16:
		bits = uint64(int16(c.word(2)))
		below = int64(bits) < 0
	case mInt32:
		bits = uint64(int32(c.word(4)))
		below = int64(bits) < 0
	case mInt64:
		bits = c.word(8)
		below = int64(bits) < 0
	default:
		c.i++
		bits = uint64(int8(t)) // fixint of either sign
		below = int8(t) < 0
	}
	return bits, below, !c.bad()
}

// int64 reads an integer that fits an int64. Before anything else it returns
// false; a larger integer is read all the same.
func (c *cursor) int64() (int64, bool) {
	bits, below, ok := c.integer()
	return int64(bits), ok && (below || bits <= 1<<63-1)
}

// float reads a float of either width. Before anything else it returns 0 and
// reads nothing.
func (c *cursor) float() float64 {
	if c.class() != classFloat {
		return 0
	}
	if c.b[c.i] == mFloat32 {
		return float64(math.Float32frombits(uint32(c.word(4))))
	}
	return math.Float64frombits(c.word(8))
}

// take returns n bytes behind a header of h bytes.
func (c *cursor) take(h int, n uint64) []byte {
	if left := len(c.b) - c.i - h; left < 0 || n > uint64(left) {
		c.fail(ReasonTruncated)
		return nil
	}
	from := c.i + h
	c.i = from + int(n)
	return c.b[from:c.i:c.i]
}

// length returns the n-byte length behind the header byte, without reading.
func (c *cursor) length(n int) uint64 {
	i := c.i
	v := c.word(n)
	if !c.bad() {
		c.i = i
	}
	return v
}

// text reads a str or bin. Before anything else it returns false and reads
// nothing.
func (c *cursor) text() ([]byte, bool) {
	if k := c.class(); k != classStr && k != classBin {
		return nil, false
	}
	var p []byte
	switch t := c.b[c.i]; t {
	case mStr8, mBin8:
		p = c.take(2, c.length(1))
	case mStr16, mBin16:
		p = c.take(3, c.length(2))
	case mStr32, mBin32:
		p = c.take(5, c.length(4))
	default:
		p = c.take(1, uint64(t-fixStr))
	}
	return p, !c.bad()
}

// str is text, of a str only.
func (c *cursor) str() ([]byte, bool) {
	if c.class() != classStr {
		return nil, false
	}
	return c.text()
}

// array reads the header of an array. Before anything else it returns false and
// reads nothing. The elements fit what remains, at a byte each, so the length
// is safe to size by; of one that does not fit it is 0.
func (c *cursor) array() (int, bool) {
	if c.class() != classArray {
		return 0, false
	}
	return c.count(fixArray, mArray16, 1)
}

// pairs reads the header of a map, as array does.
func (c *cursor) pairs() (int, bool) {
	if c.class() != classMap {
		return 0, false
	}
	return c.count(fixMap, mMap16, 2)
}

func (c *cursor) count(fix, wide byte, values uint64) (int, bool) {
	var n uint64
	switch t := c.b[c.i]; t {
	case wide:
		n = c.word(2)
	case wide + 1:
		n = c.word(4)
	default:
		n = uint64(t - fix)
		c.i++
	}
	if n*values > uint64(len(c.b)-c.i) {
		c.fail(ReasonLengthOverflow)
		return 0, false
	}
	return int(n), !c.bad()
}

// key reads the name of a map's field. One that is no str is passed over and
// has none: it is of no field that anybody knows.
func (c *cursor) key() []byte {
	// All that are known fit a byte of header.
	if left := len(c.b) - c.i; left > 0 {
		if n := int(c.b[c.i]) - fixStr; n >= 0 && n < 32 && n < left {
			from := c.i + 1
			c.i = from + n
			return c.b[from:c.i:c.i]
		}
	}
	name, ok := c.str()
	if !ok {
		c.skip(1)
	}
	return name
}

// skip passes over n values. It counts the values still to come instead of
// descending, so depth costs nothing.
func (c *cursor) skip(n int) {
	for left := n; left > 0; left-- {
		if c.i >= len(c.b) {
			c.fail(ReasonTruncated)
			return
		}
		t := c.b[c.i]
		if s := int(sizes[t]); s != 0 {
			if s > len(c.b)-c.i {
				c.fail(ReasonTruncated)
				return
			}
			c.i += s
			continue
		}
		switch classes[t] {
		case classArray:
			n, _ := c.array()
			left += n
		case classMap:
			n, _ := c.pairs()
			left += 2 * n
		case classStr, classBin:
			c.text()
		case classExt:
			switch t {
			case mExt8:
				c.take(3, c.length(1))
			case mExt16:
				c.take(4, c.length(2))
			default:
				c.take(6, c.length(4))
			}
		default:
			c.fail(ReasonInvalidByte)
		}
		if c.bad() {
			return
		}
		if left-1 > len(c.b)-c.i {
			c.fail(ReasonTruncated)
			return
		}
	}
}
