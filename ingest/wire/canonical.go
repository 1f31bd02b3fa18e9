package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

// maxKeyDepth bounds how deep an extra key may nest. Real ones do not nest
// beyond 3; a key is the only thing this package descends into.
const maxKeyDepth = 16

// canonizer writes values in canonical MessagePack: shortest headers and
// integers, floats as float64, map entries in the order of their encoded keys.
// Two encodings of one value get one name that way.
type canonizer struct {
	out     []byte
	entries []entry
	sorted  []byte
}

// entry is where a map entry lies in out, key first.
type entry struct{ from, value, to int }

// value reads one value and returns its canonical form, valid until the next
// call, or false if it nests too deep. Either way the cursor is behind it.
func (z *canonizer) value(c *cursor) ([]byte, bool) {
	z.out, z.entries = z.out[:0], z.entries[:0]
	ok := z.append(c, 0)
	return z.out, ok
}

func (z *canonizer) append(c *cursor, depth int) bool {
	switch k := c.class(); k {
	case classNil, classBool:
		z.out = append(z.out, c.b[c.i])
		c.i++
	case classInt:
		v, below, _ := c.integer()
		z.integer(v, below)
	case classFloat:
		z.out = append(z.out, mFloat64)
		z.out = binary.BigEndian.AppendUint64(z.out, math.Float64bits(c.float()))
	case classStr:
		p, _ := c.text()
		if len(p) < 32 {
			z.out = append(z.out, fixStr|byte(len(p)))
		} else {
			z.header(mStr8, mStr16, len(p))
		}
		z.out = append(z.out, p...)
	case classBin:
		p, _ := c.text()
		z.header(mBin8, mBin16, len(p))
		z.out = append(z.out, p...)
	case classArray:
		n, _ := c.array()
		if depth == maxKeyDepth {
			c.skip(n)
			return false
		}
		if n < 16 {
			z.out = append(z.out, fixArray|byte(n))
		} else {
			z.header(0, mArray16, n)
		}
		ok := true
		for ; n > 0 && !c.bad(); n-- {
			ok = z.append(c, depth+1) && ok
		}
		return ok
	case classMap:
		n, _ := c.pairs()
		if depth == maxKeyDepth {
			c.skip(2 * n)
			return false
		}
		return z.pairs(c, n, depth)
	case classExt:
		// Kept as sent: no engine puts one here, and two forms of one length
		// have to meet before this matters.
		from := c.i
		c.skip(1)
		z.out = append(z.out, c.b[from:c.i]...)
	}
	return true
}

// pairs writes the n entries of a map in the order of their encoded keys.
func (z *canonizer) pairs(c *cursor, n, depth int) bool {
	if n < 16 {
		z.out = append(z.out, fixMap|byte(n))
	} else {
		z.header(0, mMap16, n)
	}
	first, start := len(z.entries), len(z.out)
	ok := true
	for ; n > 0 && !c.bad(); n-- {
		e := entry{from: len(z.out)}
		ok = z.append(c, depth+1) && ok
		e.value = len(z.out)
		ok = z.append(c, depth+1) && ok
		e.to = len(z.out)
		z.entries = append(z.entries, e)
	}
	own := z.entries[first:]
	slices.SortFunc(own, func(a, b entry) int {
		if order := bytes.Compare(z.out[a.from:a.value], z.out[b.from:b.value]); order != 0 {
			return order
		}
		return bytes.Compare(z.out[a.value:a.to], z.out[b.value:b.to])
	})
	z.sorted = z.sorted[:0]
	for _, e := range own {
		z.sorted = append(z.sorted, z.out[e.from:e.to]...)
	}
	copy(z.out[start:], z.sorted)
	z.entries = z.entries[:first]
	return ok
}

// header writes a length behind the smallest header that holds it: narrow for
// one byte, 0 if there is no such form, wide for two and wide+1 for four.
func (z *canonizer) header(narrow, wide byte, n int) {
	switch {
	case narrow != 0 && n <= math.MaxUint8:
		z.out = append(z.out, narrow, byte(n))
	case n <= math.MaxUint16:
		z.out = append(z.out, wide)
		z.out = binary.BigEndian.AppendUint16(z.out, uint16(n))
	default:
		z.out = append(z.out, wide+1)
		z.out = binary.BigEndian.AppendUint32(z.out, uint32(n))
	}
}

// integer writes the shortest form of an integer; v are its 64 bits.
func (z *canonizer) integer(v uint64, below bool) {
	if below {
		switch s := int64(v); {
		case s >= -32:
			z.out = append(z.out, byte(s))
		case s >= math.MinInt8:
			z.out = append(z.out, mInt8, byte(s))
		case s >= math.MinInt16:
			z.out = binary.BigEndian.AppendUint16(append(z.out, mInt16), uint16(s))
		case s >= math.MinInt32:
			z.out = binary.BigEndian.AppendUint32(append(z.out, mInt32), uint32(s))
		default:
			z.out = binary.BigEndian.AppendUint64(append(z.out, mInt64), v)
		}
		return
	}
	switch {
	case v < fixMap:
		z.out = append(z.out, byte(v))
	case v <= math.MaxUint8:
		z.out = append(z.out, mUint8, byte(v))
	case v <= math.MaxUint16:
		z.out = binary.BigEndian.AppendUint16(append(z.out, mUint16), uint16(v))
	case v <= math.MaxUint32:
		z.out = binary.BigEndian.AppendUint32(append(z.out, mUint32), uint32(v))
	default:
		z.out = binary.BigEndian.AppendUint64(append(z.out, mUint64), v)
	}
}
