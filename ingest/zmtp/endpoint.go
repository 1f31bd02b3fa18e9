package zmtp

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// maxPath is the longest path of a Unix socket that every system takes, in bytes.
const maxPath = 103

// EndpointError says what is wrong with an endpoint. It wraps ErrEndpoint.
type EndpointError struct {
	Endpoint string
	Want     string // what is wrong, and what would be right
}

// Error reads: zmtp: bad endpoint: "tcp://h": wants tcp://host:port
func (e *EndpointError) Error() string {
	return fmt.Sprintf("%v: %.256q: %s", ErrEndpoint, e.Endpoint, e.Want)
}

// Unwrap returns ErrEndpoint.
func (e *EndpointError) Unwrap() error { return ErrEndpoint }

// CheckBind reports what is wrong with an endpoint to bind, or nil. The error is
// an *EndpointError.
func CheckBind(endpoint string) error {
	_, _, err := splitEndpoint(endpoint, true)
	return err
}

// splitEndpoint turns a ZeroMQ endpoint into what package net dials or listens
// on: tcp://host:port, tcp://[v6]:port, ipc:///path, ipc://@abstract. When
// listen is set, * and an empty host mean every address and port 0 or * means
// any free port.
func splitEndpoint(endpoint string, listen bool) (network, address string, err error) {
	bad := func(want string) (string, string, error) {
		return "", "", &EndpointError{endpoint, want}
	}
	scheme, rest, ok := strings.Cut(endpoint, "://")
	if !ok {
		return bad("has no scheme; wants tcp://host:port or ipc:///path")
	}
	switch scheme {
	case "ipc":
		switch {
		case rest == "" || rest == "@":
			return bad("names no path; wants ipc:///path or ipc://@name")
		case len(rest) > maxPath:
			return bad(fmt.Sprintf("a path of %d bytes; a socket's has at most %d", len(rest), maxPath))
		}
		return "unix", rest, nil
	case "tcp":
		host, port, err := net.SplitHostPort(rest)
		if err != nil {
			return bad("wants tcp://host:port or tcp://[::1]:port")
		}
		if listen && port == "*" {
			port = "0"
		}
		n, err := strconv.ParseUint(port, 10, 16)
		switch {
		case (err != nil || n == 0) && !listen:
			return bad(fmt.Sprintf("port %q; wants a number from 1 to 65535", port))
		case err != nil:
			return bad(fmt.Sprintf("port %q; wants a number up to 65535, 0 for any free one", port))
		case host == "*" && listen:
			host = ""
		case host == "*" || host == "" && !listen:
			return bad("nobody can connect to a wildcard; wants the publisher's host")
		}
		return "tcp", net.JoinHostPort(host, port), nil
	}
	return bad(fmt.Sprintf("scheme %q; wants tcp or ipc", scheme))
}

// formatEndpoint is the endpoint others connect to when l listens there.
func formatEndpoint(a net.Addr) string {
	if a.Network() == "unix" {
		return "ipc://" + a.String()
	}
	tcp, ok := a.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		// A wildcard listener is dual-stack; the loopback address reaches it.
		return "tcp://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return "tcp://" + a.String()
}
