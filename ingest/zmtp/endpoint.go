package zmtp

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// splitEndpoint turns a ZeroMQ endpoint into what package net dials or listens
// on: tcp://host:port, tcp://[v6]:port, ipc:///path, ipc://@abstract. When
// listen is set, * and an empty host mean every address and port 0 or * means
// any free port.
func splitEndpoint(endpoint string, listen bool) (network, address string, err error) {
	scheme, rest, ok := strings.Cut(endpoint, "://")
	if !ok {
		return "", "", fmt.Errorf("%w: %q has no scheme; tcp://host:port or ipc:///path would be right", ErrEndpoint, endpoint)
	}
	switch scheme {
	case "ipc":
		if rest == "" || rest == "@" {
			return "", "", fmt.Errorf("%w: %q names no path; ipc:///path or ipc://@name would be right", ErrEndpoint, endpoint)
		}
		return "unix", rest, nil
	case "tcp":
		host, port, err := net.SplitHostPort(rest)
		if err != nil {
			return "", "", fmt.Errorf("%w: %q: %v; tcp://host:port or tcp://[::1]:port would be right", ErrEndpoint, endpoint, err)
		}
		if listen && port == "*" {
			port = "0"
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 && !listen {
			return "", "", fmt.Errorf("%w: %q: port %q; a number from 1 to 65535 would be right", ErrEndpoint, endpoint, port)
		}
		switch {
		case host == "*" && listen:
			host = ""
		case host == "*" || host == "" && !listen:
			return "", "", fmt.Errorf("%w: %q: nobody can connect to a wildcard; name the publisher's host", ErrEndpoint, endpoint)
		}
		return "tcp", net.JoinHostPort(host, port), nil
	}
	return "", "", fmt.Errorf("%w: %q: scheme %q; tcp and ipc are supported", ErrEndpoint, endpoint, scheme)
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
