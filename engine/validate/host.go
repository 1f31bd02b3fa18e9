package validate

import (
	"net/netip"
	"strings"
)

const (
	selfSubscribe = "loopback or bind-only: a separate host would subscribe to itself, receive nothing and still report ready"
	wantHost      = "the address other hosts reach this one at"
	wantBareHost  = "a bare host without scheme or path: a name, an IPv4 address or a bracketed IPv6 address"
	wantHostOnly  = "the host only; an IPv6 address stands in brackets"
)

// loopbackNames are names that hosts files give to the loopback addresses.
// .localhost is reserved for it as a whole (RFC 6761).
var loopbackNames = []string{
	"localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4",
	"localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback",
}

// Host checks the host that a worker advertises and gives its canonical form:
// lower case, without a trailing dot, an IPv6 address in brackets. The error
// is an *Error for field.
func Host(field, host string) (string, error) {
	v, err := readHost(field, host)
	if err != nil {
		return "", err
	}
	if err := v.reachable(field, host); err != nil {
		return "", err
	}
	return v.text, nil
}

// verdict is a host that was read.
type verdict struct {
	text string     // canonical, IPv6 in brackets
	addr netip.Addr // what it means, invalid for names
	// name: loopback by name, wild: bind-only by wildcard. Such a host is read
	// without an error: whether it may stand depends on the kind of endpoint.
	name, wild bool
}

// unspecified reports whether the host can only be bound to.
func (v verdict) unspecified() bool {
	return v.wild || v.addr.IsValid() && unspecified(v.addr)
}

// reachable refuses what only the host itself can dial.
func (v verdict) reachable(field, value string) error {
	switch {
	case v.name, v.wild:
		return &Error{HostLoopbackName, field, value, selfSubscribe, wantHost}
	case v.addr.IsValid() && (loopback(v.addr) || unspecified(v.addr)):
		return &Error{HostLoopbackAddress, field, value, selfSubscribe, wantHost}
	}
	return nil
}

// loopback looks through the ways an IPv4 address is written as IPv6.
func loopback(a netip.Addr) bool { return plain(a).IsLoopback() }

// unspecified takes all of 0.0.0.0/8 for what only its first address is by
// name: none of them is a destination.
func unspecified(a netip.Addr) bool {
	a = plain(a)
	return a.IsUnspecified() || a.Is4() && a.As4()[0] == 0
}

// plain strips the zone, and IPv6 from mapped (::ffff:a.b.c.d) and compatible
// (::a.b.c.d) IPv4 addresses.
func plain(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	if b := a.As16(); a.Is6() && [12]byte(b[:12]) == [12]byte{} && !a.IsUnspecified() && !a.IsLoopback() {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// readHost takes a host apart. A literal that parses is judged as an address
// before its form is: ::1 is loopback, and only then without brackets.
func readHost(field, host string) (verdict, error) {
	bad := func(r Rule, why, want string) (verdict, error) {
		return verdict{}, &Error{r, field, host, why, want}
	}
	if strings.TrimSpace(host) == "" {
		return bad(HostRequired, "is required", wantHost)
	}
	s, dotted := strings.CutSuffix(lower(host), ".")
	if strings.Contains(s, "://") {
		return bad(HostScheme, "has a scheme", wantBareHost)
	}
	if strings.Contains(s, "/") {
		return bad(HostScheme, "has a path", wantBareHost)
	}
	if strings.HasPrefix(s, "[") {
		return readBracketed(s, dotted, bad)
	}
	if strings.Contains(s, "*") || s == "::" {
		return verdict{text: s, wild: true}, nil
	}
	if a, err := netip.ParseAddr(s); err == nil {
		switch {
		case a.Is4():
			return verdict{text: a.String(), addr: a}, nil
		case loopback(a) || unspecified(a):
			return verdict{text: "[" + a.WithZone("").String() + "]", addr: a}, nil
		case a.Zone() != "":
			return bad(HostExtra, "has a zone id, which means something on one host only", wantHostOnly)
		}
		return bad(HostExtra, "is an IPv6 address without brackets", "["+a.String()+"]")
	}
	return readName(s, bad)
}

// readBracketed reads an address in brackets. The dot that ends a name is read
// past as everywhere, to say that ::1 is loopback, but means nothing here: no
// resolver would take it.
func readBracketed(s string, dotted bool, bad func(r Rule, why, want string) (verdict, error)) (verdict, error) {
	inside, after, closed := strings.Cut(s[1:], "]")
	if !closed {
		return bad(HostBracket, "its closing ] is missing", "[IPv6 address]")
	}
	if strings.HasPrefix(after, ":") {
		return bad(HostExtra, "has a port", wantHostOnly)
	}
	if after != "" {
		return bad(HostExtra, "something follows its closing ]", wantHostOnly)
	}
	a, err := netip.ParseAddr(inside)
	switch {
	case err != nil:
		return bad(HostBracketed, "what its brackets hold is no address", "an IPv6 literal in brackets, or a name without them")
	case a.Is4():
		return bad(HostBracketedIPv4, "brackets are for IPv6", a.String())
	case loopback(a) || unspecified(a):
		// reachable says what is wrong with it.
	case a.Zone() != "":
		return bad(HostExtra, "has a zone id, which means something on one host only", wantHostOnly)
	case dotted:
		return bad(HostExtra, "a dot follows its closing ]", wantHostOnly)
	}
	return verdict{text: "[" + a.WithZone("").String() + "]", addr: a}, nil
}

// readName reads what is no address literal.
func readName(s string, bad func(r Rule, why, want string) (verdict, error)) (verdict, error) {
	if i := strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 {
		return bad(HostExtra, "has white space or a control character", wantHostOnly)
	}
	if strings.ContainsAny(s, "[]") {
		return bad(HostExtra, "has a stray bracket", wantHostOnly)
	}
	if _, after, ok := strings.Cut(s, ":"); ok {
		if strings.Contains(after, ":") {
			return bad(HostExtra, "has colons and is no address", wantHostOnly)
		}
		if after == "" {
			return bad(HostExtra, "ends in a bare colon", wantHostOnly)
		}
		return bad(HostExtra, "has a port", wantHostOnly)
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return !nameByte(r) }); i >= 0 {
		return bad(HostExtra, "has a character that no host name has", wantHostOnly+"; other alphabets stand as xn-- labels")
	}
	if a, numeric, valid := legacyAddress(s); numeric {
		switch {
		case valid && (loopback(a) || unspecified(a)):
			return verdict{text: a.String(), addr: a}, nil
		case valid:
			return bad(HostLegacyAddress, "is "+a.String()+" to some resolvers and a name to others", a.String())
		}
		return bad(HostLegacyAddress, "looks like an IPv4 address and is none", "four decimal numbers of 0 … 255 without leading zeros")
	}
	for _, n := range loopbackNames {
		if s == n {
			return verdict{text: s, name: true}, nil
		}
	}
	if strings.HasSuffix(s, ".localhost") {
		return verdict{text: s, name: true}, nil
	}
	const wantName = "labels of 1 … 63 characters with single dots between them, 253 in all"
	if len(s) > 253 {
		return bad(HostName, "is longer than a name can be", wantName)
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" {
			return bad(HostName, "has an empty label", wantName)
		}
		if len(label) > 63 {
			return bad(HostName, "has a label longer than 63 characters", wantName)
		}
	}
	return verdict{text: s}, nil
}

// nameByte allows the underscore beside what RFC 1123 does: container networks
// give such names.
func nameByte(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// lower is strings.ToLower for ASCII alone: there are letters that are none and
// whose lower case is (the sign of the kelvin).
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
