package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A wrong is what a parser of one value says: what is wrong, what would be
// right. Its caller adds where and which key.
type wrong struct{ what, want string }

func (w *wrong) Error() string { return w.what + "; want " + w.want }

func bad(what, want string) error { return &wrong{what, want} }

// problem turns what a value parser said into a Problem of a key.
func problem(where, key, value string, err error) *Problem {
	p := &Problem{Where: where, Key: key, Value: value}
	var w *wrong
	if errors.As(err, &w) {
		p.What, p.Want = w.what, w.want
	} else {
		p.What = err.Error()
	}
	return p
}

// parseDuration reads "30s", "2m", "1m30s" within [least, most].
func parseDuration(s string, least, most time.Duration) (time.Duration, error) {
	want := fmt.Sprintf("a duration from %v to %v, such as 30s", least, most)
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, bad("is not a duration", want)
	}
	if d < least || d > most {
		return 0, bad("is out of range", want)
	}
	return d, nil
}

var byteUnits = []struct {
	suffix string
	factor int64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}, {"", 1},
}

// parseBytes reads "128KiB", "1MiB", "65536" within [least, most].
func parseBytes(s string, least, most int64) (int64, error) {
	want := fmt.Sprintf("a size from %s to %s, such as 128KiB", formatBytes(least), formatBytes(most))
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil {
			return 0, bad("is not a size", want)
		}
		if n < 0 || n > most/u.factor || n*u.factor < least {
			return 0, bad("is out of range", want)
		}
		return n * u.factor, nil
	}
	return 0, bad("is not a size", want)
}

// formatBytes writes a size with the largest binary unit that divides it.
func formatBytes(n int64) string {
	for _, u := range byteUnits[:3] {
		if n >= u.factor && n%u.factor == 0 {
			return strconv.FormatInt(n/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// oneOf checks membership.
func oneOf(s string, members []string) error {
	if slices.Contains(members, s) {
		return nil
	}
	want := choice(members)
	if n := nearest(s, members); n != "" {
		want += " (" + n + "?)"
	}
	return bad("is not known", want)
}

// checkListen accepts what a listener can be bound to: host:port.
func checkListen(s string) error {
	const want = "host:port, such as 127.0.0.1:8090"
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return bad("is not an address to listen on", want)
	}
	if host == "" {
		return bad("names no host", want+" (0.0.0.0 means every interface)")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return bad("has no port from 0 to 65535", want)
	}
	return nil
}

// loopback reports whether a listener address is reachable from this machine
// only. A name other than localhost is not trusted to be.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// checkEndpoint accepts what a stream can be connected to: tcp://host:port or
// ipc://path. ranks above 1 need a tcp port that leaves room for all of them.
func checkEndpoint(s string, ranks int) error {
	const want = "tcp://host:port or ipc:///path"
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return bad("is not an endpoint", want)
	}
	switch scheme {
	case "ipc":
		if rest == "" {
			return bad("names no path", want)
		}
		if ranks > 1 {
			return bad(fmt.Sprintf("cannot serve %d ranks", ranks), "tcp://host:port (rank r listens on port + r), or one source per rank")
		}
		return nil
	case "tcp":
		return checkHostPort(rest, ranks, want)
	}
	return bad(fmt.Sprintf("has the scheme %q", scheme), want)
}

// checkControl accepts a hint's control endpoint: tcp://host:port, a host
// that a peer can reach by this name.
func checkControl(s string) error {
	const want = "tcp://host:port of the worker's control socket"
	rest, ok := strings.CutPrefix(s, "tcp://")
	if !ok {
		return bad("is not a tcp endpoint", want)
	}
	return checkHostPort(rest, 1, want)
}

func checkHostPort(s string, ranks int, want string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return bad("is not host:port", want)
	}
	switch host {
	case "", "*", "0.0.0.0", "::":
		return bad("names no host to connect to", want)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return bad("has no port from 1 to 65535", want)
	}
	if n+ranks-1 > 65535 {
		return bad(fmt.Sprintf("leaves no ports for %d ranks", ranks), fmt.Sprintf("a port up to %d (rank r listens on port + r)", 65536-ranks))
	}
	return nil
}

// checkName accepts identifiers of sources and models: any text without
// control characters, for they appear in labels and logs.
func checkName(s string) error {
	want := fmt.Sprintf("1 to %d characters without control characters", MaxNameBytes)
	if s == "" {
		return bad("is empty", want)
	}
	if len(s) > MaxNameBytes {
		return bad(fmt.Sprintf("is %d bytes long", len(s)), want)
	}
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			return bad("has a control character", want)
		}
	}
	return nil
}
