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
