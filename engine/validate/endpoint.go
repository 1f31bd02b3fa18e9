package validate

import (
	"strconv"
	"strings"
)

const wantEndpoint = "tcp://host:port with a port of 1 … 65535"

// Endpoint checks an endpoint that another host will dial, tcp://host:port, and
// gives its canonical form. Its host follows the rules of Host. The error is an
// *Error for field.
func Endpoint(field, endpoint string) (string, error) {
	v, port, err := readEndpoint(field, endpoint)
	if err != nil {
		return "", err
	}
	if err := v.reachable(field, endpoint); err != nil {
		return "", err
	}
	return join(v, port), nil
}

// HintEndpoint checks the control endpoint that peers fetch blocks from and
// gives its canonical form. Unlike elsewhere loopback is allowed, since
// workers of one machine may serve one another; what can only be bound to is
// not. The error is an *Error for field.
func HintEndpoint(field, endpoint string) (string, error) {
	v, port, err := readEndpoint(field, endpoint)
	if err != nil {
		return "", err
	}
	if v.unspecified() {
		return "", &Error{HintUnspecified, field, endpoint, "is an address to bind, which no peer can dial", "the address peers dial; loopback is allowed"}
	}
	return join(v, port), nil
}

func join(v verdict, port int) string { return "tcp://" + v.text + ":" + strconv.Itoa(port) }

// readEndpoint takes an endpoint apart.
func readEndpoint(field, endpoint string) (verdict, int, error) {
	bad := func(r Rule, why string) (verdict, int, error) {
		return verdict{}, 0, &Error{r, field, endpoint, why, wantEndpoint}
	}
	if strings.TrimSpace(endpoint) == "" {
		return bad(HostRequired, "is required")
	}
	scheme, rest, ok := strings.Cut(endpoint, "://")
	switch {
	case !ok:
		return bad(EndpointScheme, "has no scheme, and so no port that is known to be one")
	case scheme != "tcp":
		return bad(EndpointScheme, "its scheme "+quote(scheme)+" has no port another host could dial")
	}
	host, text, ok := cutPort(rest)
	if !ok {
		return bad(EndpointPort, "has no port")
	}
	port, ok := readPort(text)
	if !ok {
		return bad(EndpointPort, "its port "+quote(text)+" is none of 1 … 65535 in plain decimal")
	}
	if host == "" {
		return bad(HostRequired, "names no host")
	}
	v, err := readHost(field, host)
	if err != nil {
		return verdict{}, 0, err.(*Error).within(endpoint)
	}
	return v, port, nil
}

// within makes an error about a part of a value one about the whole.
func (e *Error) within(whole string) *Error {
	e.Why = "its host " + quote(e.Value) + " " + e.Why
	e.Value = whole
	return e
}

// cutPort splits at the last colon that stands behind any brackets.
func cutPort(s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || i < strings.LastIndexByte(s, ']') {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// readPort reads 1 … 65535 in plain decimal.
func readPort(s string) (int, bool) {
	if s == "" || len(s) > 5 || s[0] == '0' {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, n <= 65535
}
