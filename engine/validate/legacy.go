package validate

import (
	"net/netip"
	"strings"
)

// legacyAddress reads the spellings that the C resolver takes for an IPv4
// address beside the dotted quad: one to four parts, each decimal, octal (0…)
// or hexadecimal (0x…), of which the last fills all bytes that are left. 127.1,
// 2130706433, 0x7f.1 and 0177.0.0.01 are all 127.0.0.1 to it, and names to a
// resolver that does not know them. C23 adds binary (0b…) to what strtoul reads,
// and so to resolvers that are built on it.
//
// numeric says that every label of host looks like such a part, whether or not
// the whole is an address; valid that it is one.
func legacyAddress(host string) (addr netip.Addr, numeric, valid bool) {
	parts := strings.Split(host, ".")
	for _, p := range parts {
		if !looksNumeric(p) {
			return netip.Addr{}, false, false
		}
	}
	if len(parts) > 4 {
		return netip.Addr{}, true, false
	}
	var v uint32
	for i, p := range parts {
		bytes := 1
		if i == len(parts)-1 {
			bytes = 4 - i
		}
		n, ok := legacyPart(p)
		if !ok || n >= 1<<(8*bytes) {
			return netip.Addr{}, true, false
		}
		v |= uint32(n) << (8 * (4 - i - bytes))
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true, true
}

// looksNumeric reports whether a label begins and goes on like a number.
func looksNumeric(p string) bool {
	digits, base := p, 10
	if len(p) >= 2 && p[0] == '0' {
		switch p[1] | 0x20 {
		case 'x':
			digits, base = p[2:], 16
		case 'b':
			digits, base = p[2:], 2
		}
	}
	for i := range len(digits) {
		if d := hexDigit(digits[i]); d < 0 || d >= base {
			return false
		}
	}
	return p != ""
}

// legacyPart is the value of a part that looksNumeric. A bare 0x counts as 0,
// as some resolvers have it.
func legacyPart(p string) (uint64, bool) {
	base, digits := uint64(10), p
	switch {
	case len(p) >= 2 && p[1]|0x20 == 'x':
		base, digits = 16, p[2:]
	case len(p) >= 2 && p[1]|0x20 == 'b':
		base, digits = 2, p[2:]
	case len(p) >= 2 && p[0] == '0':
		base, digits = 8, p[1:]
	}
	var v uint64
	for i := range len(digits) {
		d := uint64(hexDigit(digits[i]))
		if v = v*base + d; d >= base || v > 1<<32-1 {
			return 0, false
		}
	}
	return v, true
}

func hexDigit(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b|0x20 >= 'a' && b|0x20 <= 'f':
		return int(b|0x20-'a') + 10
	}
	return -1
}
