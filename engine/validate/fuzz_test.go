package validate

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// dials is what resolvers make of a host without asking anybody: the addresses
// that one of them, however lenient, would dial. It shares nothing with the
// product: netip for literals, and an inet_aton that also takes what real ones
// refuse (values that overflow, octal digits out of range, white space behind).
func dials(host string) (all []netip.Addr) {
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	bare, _, _ = strings.Cut(bare, "%")
	for _, s := range []string{bare, strings.TrimRight(bare, ".")} {
		if a, err := netip.ParseAddr(s); err == nil {
			all = append(all, a)
			if b := a.As16(); a.Is6() {
				v4 := netip.AddrFrom4([4]byte(b[12:]))
				if a.Is4In6() || a.String() != "::1" && a.String() != "::" && strings.HasPrefix(a.StringExpanded(), "0000:0000:0000:0000:0000:0000:") {
					all = append(all, v4)
				}
			}
		}
		if a, ok := aton(s); ok {
			all = append(all, a)
		}
	}
	name := strings.ToLower(strings.TrimRight(strings.TrimSpace(bare), "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		all = append(all, netip.MustParseAddr("127.0.0.1"))
	}
	if name == "*" || name == "" {
		all = append(all, netip.IPv4Unspecified())
	}
	return all
}

// aton reads one to four numbers as C does, modulo what each has room for.
func aton(s string) (netip.Addr, bool) {
	if i := strings.IndexAny(s, " \t\r\n\v\f"); i > 0 {
		s = s[:i]
	}
	fields := strings.Split(s, ".")
	if len(fields) > 4 {
		return netip.Addr{}, false
	}
	var ip [4]byte
	for i, f := range fields {
		if strings.Contains(f, "_") || len(f) > 1 && f[1]|0x20 == 'o' {
			return netip.Addr{}, false // numbers of Go, not of C
		}
		v, err := strconv.ParseUint(f, 0, 64)
		if strings.EqualFold(f, "0x") {
			v, err = 0, nil
		}
		if err != nil {
			if v, err = strconv.ParseUint(f, 10, 64); err != nil {
				return netip.Addr{}, false
			}
		}
		if i < len(fields)-1 {
			ip[i] = byte(v)
			continue
		}
		for at := 3; at >= i; at-- {
			ip[at] = byte(v)
			v >>= 8
		}
	}
	return netip.AddrFrom4(ip), true
}

// FuzzRegisteredEndpoint: no accepted registered endpoint is loopback or
// unspecified. What is accepted is also canonical, and can be dialled as it is.
func FuzzRegisteredEndpoint(f *testing.F) {
	for _, row := range hostRows {
		for _, h := range row.hosts {
			f.Add("tcp://" + h + ":5557")
		}
	}
	for _, ep := range []string{
		"tcp://w1:5557", "tcp://10.0.0.1:1", "tcp://[fe80::1]:65535", "tcp://[::ffff:10.0.0.1]:1", "tcp://0x7f.0.0.1:1", "tcp://0177.1:1", "tcp://4294967297.0:1",
		"tcp://127.0.0.1.:5557", "tcp://localhost..:1", "tcp://[::1", "tcp://h:0", "ipc://x", "tcp://\u24db\u24de:1", "tcp://2130706433.:1", "tcp://256.0.0.1:1", "tcp://[::100.0.0.0].:1",
	} {
		f.Add(ep)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Endpoint("raw_zmq_endpoint", s)
		if err != nil {
			return
		}
		for _, ep := range []string{s, got} {
			host, port, err := net.SplitHostPort(strings.TrimPrefix(ep, "tcp://"))
			if err != nil {
				t.Fatalf("%q is accepted and cannot be dialled: %v", s, err)
			}
			if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
				t.Fatalf("%q is accepted with port %q", s, port)
			}
			for _, a := range dials(host) {
				if a = a.Unmap(); a.IsLoopback() || a.IsUnspecified() {
					t.Fatalf("%q is accepted, and %q can mean %v", s, host, a)
				}
			}
		}
		if again, err := Endpoint("raw_zmq_endpoint", got); err != nil || again != got {
			t.Fatalf("%q gives %q, which gives %q, %v", s, got, again, err)
		}
		if hint, err := HintEndpoint("source_control_endpoint", s); err != nil || hint != got {
			t.Fatalf("%q is a registered endpoint and as a hint endpoint %q, %v", s, hint, err)
		}
	})
}

// TestOracle: the fuzz target's oracle knows what it must find.
func TestOracle(t *testing.T) {
	for _, host := range []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.01", "0", "0x", "localhost", "A.LOCALHOST.", "::1", "::", "[::1]", "::ffff:127.0.0.1", "::127.0.0.1", "::1%lo", "*",
		"4294967296", "127.0.0.1.", "127.0.0.257",
	} {
		bad := false
		for _, a := range dials(host) {
			bad = bad || a.Unmap().IsLoopback() || a.Unmap().IsUnspecified()
		}
		if !bad {
			t.Errorf("the oracle lets %q pass", host)
		}
	}
	for _, host := range []string{"w1", "10.0.0.1", "fe80::1", "10.1", "localhost.example"} {
		for _, a := range dials(host) {
			if a.Unmap().IsLoopback() || a.Unmap().IsUnspecified() {
				t.Errorf("the oracle finds %v in %q", a, host)
			}
		}
	}
}
