package hint

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// SplitEndpoint reads a control endpoint tcp://host:port. The host is given
// without the brackets of an IPv6 literal. A host that only makes sense for
// binding (a wildcard, an unspecified address) is refused, loopback is allowed.
func SplitEndpoint(s string) (host string, port int, err error) {
	const want = "expects tcp://host:port with a port of 1 … 65535"
	rest, ok := strings.CutPrefix(s, "tcp://")
	if !ok {
		return "", 0, fmt.Errorf("%q has no tcp:// scheme; %s", s, want)
	}
	i := strings.LastIndexByte(rest, ':')
	if i < 0 || strings.HasSuffix(rest, "]") {
		return "", 0, fmt.Errorf("%q has no port; %s", s, want)
	}
	host = rest[:i]
	port, err = strconv.Atoi(rest[i+1:])
	if err != nil || port < 1 || port > 65535 || rest[i+1] == '+' {
		return "", 0, fmt.Errorf("%q has port %q; %s", s, rest[i+1:], want)
	}
	if strings.HasPrefix(host, "[") {
		h, ok := strings.CutSuffix(host[1:], "]")
		a, err := netip.ParseAddr(h)
		if !ok || err != nil || !a.Is6() {
			return "", 0, fmt.Errorf("%q: %q is not a bracketed IPv6 address; %s", s, host, want)
		}
		host = h
	} else if strings.ContainsAny(host, ":/[]@?# \t") {
		return "", 0, fmt.Errorf("%q: %q is not a host; bracket IPv6 addresses; %s", s, host, want)
	}
	if host == "" || host == "*" {
		return "", 0, fmt.Errorf("%q names no host a peer could dial; %s", s, want)
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Unmap().IsUnspecified() {
		return "", 0, fmt.Errorf("%q is a bind-only address; give the one that peers dial", s)
	}
	return host, port, nil
}

// JoinEndpoint is the inverse of SplitEndpoint.
func JoinEndpoint(host string, port int) string {
	if strings.IndexByte(host, ':') >= 0 {
		host = "[" + host + "]"
	}
	return "tcp://" + host + ":" + strconv.Itoa(port)
}

// RankEndpoint returns the control endpoint of a dp rank: each rank owns
// stride ports, and the first of them is what a hint names (TP rank t of the
// target dials port + t by itself).
func RankEndpoint(base string, rank, stride int) (string, error) {
	host, port, err := SplitEndpoint(base)
	if err != nil {
		return "", err
	}
	if rank < 0 || stride < 1 {
		return "", fmt.Errorf("rank %d with stride %d: ranks start at 0, a stride is at least 1", rank, stride)
	}
	p := port + rank*stride
	if p > 65535 || rank > 65535 || stride > 65535 {
		return "", fmt.Errorf("%q: rank %d with stride %d would be port %d; the highest is 65535", base, rank, stride, p)
	}
	return JoinEndpoint(host, p), nil
}

// ShardEndpoint returns what TP shard t of a target dials for a hint: the peer of
// its own index, t ports behind the one that the hint names.
func ShardEndpoint(endpoint string, t int) (string, error) {
	host, port, err := SplitEndpoint(endpoint)
	if err != nil {
		return "", err
	}
	if t < 0 || port+t > 65535 {
		return "", fmt.Errorf("%q: shard %d would dial port %d; the highest is 65535", endpoint, t, port+t)
	}
	return JoinEndpoint(host, port+t), nil
}
