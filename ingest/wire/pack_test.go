package wire

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// fields of a map in the order they are written.
type pairs []any // key, value, key, value, …

// raw is MessagePack already.
type raw []byte

// packer writes values as MessagePack. With wide set it picks at random among
// all headers that can carry a value, as publishers may.
type packer struct{ wide *rand.Rand }

// pack writes v in shortest form.
func pack(v any) []byte { return packer{}.append(nil, v) }

// batchOf writes an array batch of rank 0.
func batchOf(events ...any) []byte {
	return pack([]any{1.5, events, 0})
}

// form returns the first of n forms, or any of them, each wider than the last.
func (p packer) form(n int) int {
	if p.wide == nil {
		return 0
	}
	return p.wide.IntN(n)
}

func (p packer) append(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, mNil)
	case bool:
		if v {
			return append(b, mTrue)
		}
		return append(b, mFalse)
	case int:
		return p.int(b, int64(v))
	case int64:
		return p.int(b, v)
	case uint32:
		return p.uint(b, uint64(v))
	case uint64:
		return p.uint(b, v)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, mFloat64), math.Float64bits(v))
	case string:
		return append(p.head(b, fixStr, 31, mStr8, mStr16, mStr32, len(v)), v...)
	case []byte:
		return append(p.head(b, 0, -1, mBin8, mBin16, mBin32, len(v)), v...)
	case raw:
		return append(b, v...)
	case []any:
		b = p.head(b, fixArray, 15, 0, mArray16, mArray32, len(v))
		for _, x := range v {
			b = p.append(b, x)
		}
		return b
	case pairs:
		b = p.head(b, fixMap, 15, 0, mMap16, mMap32, len(v)/2)
		for _, x := range v {
			b = p.append(b, x)
		}
		return b
	}
	panic(v)
}

// head writes a length behind one of the headers that hold it; 0 is no header.
func (p packer) head(b []byte, fix byte, fixMax int, h8, h16, h32 byte, n int) []byte {
	var forms [][]byte
	if n <= fixMax {
		forms = append(forms, []byte{fix | byte(n)})
	}
	if h8 != 0 && n <= math.MaxUint8 {
		forms = append(forms, []byte{h8, byte(n)})
	}
	if n <= math.MaxUint16 {
		forms = append(forms, binary.BigEndian.AppendUint16([]byte{h16}, uint16(n)))
	}
	forms = append(forms, binary.BigEndian.AppendUint32([]byte{h32}, uint32(n)))
	return append(b, forms[p.form(len(forms))]...)
}

func (p packer) int(b []byte, v int64) []byte {
	if v >= 0 && p.form(2) == 0 {
		return p.uint(b, uint64(v))
	}
	var forms [][]byte
	if v >= -32 && v < 128 {
		forms = append(forms, []byte{byte(v)})
	}
	if v == int64(int8(v)) {
		forms = append(forms, []byte{mInt8, byte(v)})
	}
	if v == int64(int16(v)) {
		forms = append(forms, binary.BigEndian.AppendUint16([]byte{mInt16}, uint16(v)))
	}
	if v == int64(int32(v)) {
		forms = append(forms, binary.BigEndian.AppendUint32([]byte{mInt32}, uint32(v)))
	}
	forms = append(forms, binary.BigEndian.AppendUint64([]byte{mInt64}, uint64(v)))
	return append(b, forms[p.form(len(forms))]...)
}

func (p packer) uint(b []byte, v uint64) []byte {
	var forms [][]byte
	if v < 128 {
		forms = append(forms, []byte{byte(v)})
	}
	if v <= math.MaxUint8 {
		forms = append(forms, []byte{mUint8, byte(v)})
	}
	if v <= math.MaxUint16 {
		forms = append(forms, binary.BigEndian.AppendUint16([]byte{mUint16}, uint16(v)))
	}
	if v <= math.MaxUint32 {
		forms = append(forms, binary.BigEndian.AppendUint32([]byte{mUint32}, uint32(v)))
	}
	forms = append(forms, binary.BigEndian.AppendUint64([]byte{mUint64}, v))
	return append(b, forms[p.form(len(forms))]...)
}
