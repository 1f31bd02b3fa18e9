package conformance

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// name is a block's name as an engine sends it: an integer of 64 bits, signed
// or not, or bytes. In files it is a JSON integer, a decimal string, or the
// hex digits of bytes.
type name struct {
	value    uint64 // the bits, of an integer
	negative bool   // sent as a signed integer
	bytes    []byte // not nil: sent as bytes
}

// UnmarshalJSON reads an exact integer or a string of hex digits.
func (n *name) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		b, err := hex.DecodeString(s)
		if err != nil {
			return fmt.Errorf("hash %q: want an integer of 64 bits or hex digits", s)
		}
		*n = name{bytes: b}
		return nil
	}
	v, negative, err := integer(string(data))
	if err != nil {
		return fmt.Errorf("hash %s: want an integer of 64 bits or hex digits", data)
	}
	*n = name{value: v, negative: negative}
	return nil
}

// integer reads an integer of 64 bits, signed or unsigned, as its bits.
func integer(s string) (bits uint64, negative bool, err error) {
	if v, err := strconv.ParseUint(s, 10, 64); err == nil {
		return v, false, nil
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return uint64(v), v < 0, err
}

// sequence reads a sequence: a decimal string in captures.
func sequence(s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("sequence %q: want a decimal number of 64 bits", s)
	}
	return v, nil
}
