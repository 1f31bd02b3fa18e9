package validate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// refusal is what a row of a table must give.
type refusal struct {
	rule Rule
	says []string // beside field and value
}

// check holds an error to a row: that rule and no other, naming the field, the
// value in quotes, and all the row asks for.
func (r refusal) check(t *testing.T, err error, field, value string) {
	t.Helper()
	if err == nil {
		t.Fatalf("%q is accepted", value)
	}
	for other := Rule(1); other < numRules; other++ {
		if got, want := errors.Is(err, other), other == r.rule; got != want {
			t.Errorf("errors.Is(%v) is %v for %v", other, got, err)
		}
	}
	met.Store(r.rule, true)
	var one *Error
	if !errors.As(err, &one) {
		t.Fatalf("%v is no *Error", err)
	}
	if one.Field != field || one.Value != value || one.Why == "" || one.Want == "" {
		t.Errorf("error is of field %q and value %q with %q and %q, want %q and %q", one.Field, one.Value, one.Why, one.Want, field, value)
	}
	for _, s := range append([]string{field, fmt.Sprintf("%q", value)}, r.says...) {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%v does not say %s", err, s)
		}
	}
}

const selfSubscribeText = "loopback or bind-only: a separate host would subscribe to itself, receive nothing and still report ready"

var hostRows = []struct {
	refusal
	hosts []string
}{
	{refusal{HostLoopbackName, []string{selfSubscribeText}}, []string{
		"*", "localhost", "LOCALHOST", "LOCALHOST.", "LocalHost", "worker.localhost", "Worker.LOCALHOST.", "a.b.localhost",
		"::", "*.example.com", "localhost.localdomain", "ip6-localhost", "localhost6",
	}},
	{refusal{HostScheme, []string{"bare host"}}, []string{
		"tcp://h", "h/x", "tcp://localhost", "http://10.0.0.1:80/", "/", "[::1]/64", "10.0.0.0/8", "//h",
	}},
	{refusal{HostBracket, []string{"]"}}, []string{"[::1", "[", "[fe80::1:5557", "[h", "[[::1"}},
	{refusal{HostBracketed, []string{"IPv6 literal"}}, []string{"[abc]", "[]", "[localhost]", "[127.1]", "[1:2:3]", "[2130706433]", "[[::1]", "[*]", "[::1%]"}},
	{refusal{HostBracketedIPv4, []string{"IPv6"}}, []string{"[10.0.0.1]", "[127.0.0.1]", "[0.0.0.0]"}},
	{refusal{HostExtra, []string{"host only", "IPv6"}}, []string{
		"h:5557", "a b", "h:", ":5557", "h]", "h[0]", "a\tb", " h", "h\n", "h\x00", "localhost:5557", "127.0.0.1:5557",
		"[::1]:5557", "[fe80::1]:", "[fe80::1]]", "[fe80::1].", "[fe80::1]x", "[fe80::1%eth0]", "fe80::1%eth0", "1:2:3", "fe80::g",
		"user@h", "h?x", "h#x", "h%41", "h\\x", "h;10.0.0.1", "l\u00f6calhost", "\uff11\uff12\uff17.1", "127\u30020\u30020\u30021", "wor\u212aer",
	}},
	{refusal{HostLoopbackAddress, []string{selfSubscribeText}}, []string{
		"127.0.0.1", "127.0.0.2", "127.255.255.255", "0.0.0.0", "0.1.2.3", "[::]", "[::1]", "::1", "0:0:0:0:0:0:0:1", "[0::0]", "127.0.0.1.",
		"[::ffff:127.0.0.1]", "::ffff:127.0.0.1", "[::FFFF:7f00:1]", "[::ffff:0.0.0.0]", "[::127.0.0.1]", "::127.0.0.1",
		"127.1", "127.0.1", "2130706433", "0x7f.1", "0x7F.0x0.0x0.0x1", "0x7f000001", "0X7F000001", "0177.1", "017700000001", "127.0.0.01", "127.1.",
		"0b1111111.1", "0", "0x0", "0x", "0b", "00", "0.0", "0x0.0", "2147483647", "[::1].", "::1%lo", "[::1%lo]",
	}},
	{refusal{HostRequired, []string{"required"}}, []string{"", " ", "\t\n"}},
	{refusal{HostLegacyAddress, nil}, []string{
		"10.1", "0x0a000001", "167772161", "012.0.0.1", "10.0.0.08", "256.0.0.1", "10.0.0.256", "1.2.3.4.5", "4294967296", "127.16777216", "99999999999999999999",
	}},
	{refusal{HostName, []string{"label"}}, []string{"a..b", ".", ".h", "h..", "localhost..", strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a"}},
}

func TestHost(t *testing.T) {
	for _, row := range hostRows {
		t.Run(row.rule.ID(), func(t *testing.T) {
			for _, h := range row.hosts {
				t.Run(h, func(t *testing.T) {
					_, err := Host("raw_advertise_host", h)
					row.check(t, err, "raw_advertise_host", h)
				})
			}
		})
	}
}

// TestHostNamesTheZone: what a zone id is stands in its error, and how to write
// an address that lacks nothing but brackets stands in its.
func TestHostNamesTheZone(t *testing.T) {
	for host, says := range map[string]string{
		"fe80::1%eth0":   "zone id",
		"[fe80::1%eth0]": "zone id",
		"fe80::1":        "wants [fe80::1]",
		"10.1":           "wants 10.0.0.1",
		"[10.0.0.1]":     "wants 10.0.0.1",
		"h:5557":         "has a port; wants the host only",
	} {
		_, err := Host("host", host)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v does not say %q", host, err, says)
		}
	}
	_, err := Host("host", "fe80::1")
	if !errors.Is(err, HostExtra) {
		t.Errorf("fe80::1: %v", err)
	}
}

func TestHostAccepts(t *testing.T) {
	for host, want := range map[string]string{
		"w1":                            "w1",
		"W1.Example.COM.":               "w1.example.com",
		"10.0.0.1":                      "10.0.0.1",
		"10.0.0.1.":                     "10.0.0.1",
		"[fe80::1]":                     "[fe80::1]",
		"[2001:DB8::0:1]":               "[2001:db8::1]",
		"[::ffff:10.0.0.1]":             "[::ffff:10.0.0.1]",
		"pod_0.kv-workers.svc":          "pod_0.kv-workers.svc",
		"xn--bcher-kva.example":         "xn--bcher-kva.example",
		"localhost.example":             "localhost.example",
		"notlocalhost":                  "notlocalhost",
		"node.5":                        "node.5",
		"0x7g.1":                        "0x7g.1",
		"127.0.0.1.example":             "127.0.0.1.example",
		strings.Repeat("a", 63):         strings.Repeat("a", 63),
		strings.Repeat("a.", 126) + "a": strings.Repeat("a.", 126) + "a",
	} {
		got, err := Host("host", host)
		if err != nil || got != want {
			t.Errorf("%q gives %q, %v; want %q", host, got, err, want)
		}
		if again, err := Host("host", got); err != nil || again != got {
			t.Errorf("%q is canonical and gives %q, %v", got, again, err)
		}
	}
}

func TestEndpoint(t *testing.T) {
	for _, row := range []struct {
		refusal
		endpoints []string
	}{
		{refusal{EndpointScheme, []string{"tcp://host:port", "port"}}, []string{"ipc://x", "ipc:///x", "h:5557", "TCP://h:5557", "udp://h:1", "inproc://x", "://h:1", "tcp:/h:1", "h"}},
		{refusal{EndpointPort, []string{"port", "1 … 65535"}}, []string{
			"tcp://h", "tcp://h:", "tcp://:0", "tcp://h:0", "tcp://h:70000", "tcp://h:65536", "tcp://h:x", "tcp://h:+1", "tcp://h:-1", "tcp://h:080", "tcp://h:5557/", "tcp://h:5557/x",
			"tcp://h:*", "tcp://h: 1", "tcp://[fe80::1]", "tcp://[fe80::1]:", "tcp://", "tcp://h:99999999999999999999", "tcp://h:0x50", "tcp://h:1\n",
		}},
		{refusal{HostRequired, []string{"required"}}, []string{"", " "}},
		{refusal{HostRequired, []string{"host"}}, []string{"tcp://:5557"}},
		{refusal{HostLoopbackName, []string{selfSubscribeText}}, []string{"tcp://*:5557", "tcp://localhost:5557", "tcp://w.localhost.:1"}},
		{refusal{HostLoopbackAddress, []string{selfSubscribeText}}, []string{"tcp://127.0.0.1:5557", "tcp://[::1]:5557", "tcp://0x7f.1:1", "tcp://::1:5557", "tcp://0:1"}},
		{refusal{HostScheme, []string{"tcp://tcp://h:1"}}, []string{"tcp://tcp://h:1"}},
		{refusal{HostExtra, []string{"host only"}}, []string{"tcp://u@h:1", "tcp://h:1:2", "tcp://[fe80::1%eth0]:1"}},
		{refusal{HostBracket, nil}, []string{"tcp://[fe80::1:5557"}},
		{refusal{HostBracketed, nil}, []string{"tcp://[h]:5557"}},
		{refusal{HostBracketedIPv4, nil}, []string{"tcp://[10.0.0.1]:5557"}},
		{refusal{HostLegacyAddress, nil}, []string{"tcp://10.1:5557"}},
	} {
		t.Run(row.rule.ID(), func(t *testing.T) {
			for _, ep := range row.endpoints {
				t.Run(ep, func(t *testing.T) {
					_, err := Endpoint("raw_zmq_endpoint", ep)
					row.check(t, err, "raw_zmq_endpoint", ep)
				})
			}
		})
	}
	for ep, want := range map[string]string{
		"tcp://w1:5557":         "tcp://w1:5557",
		"tcp://W1.:5557":        "tcp://w1:5557",
		"tcp://10.0.0.1:1":      "tcp://10.0.0.1:1",
		"tcp://[FE80::1]:65535": "tcp://[fe80::1]:65535",
	} {
		if got, err := Endpoint("e", ep); err != nil || got != want {
			t.Errorf("%q gives %q, %v; want %q", ep, got, err, want)
		}
	}
}

// TestHintEndpoint: peers of one machine may fetch from one another.
func TestHintEndpoint(t *testing.T) {
	for ep, want := range map[string]string{
		"tcp://127.0.0.1:23280":          "tcp://127.0.0.1:23280",
		"tcp://localhost:23280":          "tcp://localhost:23280",
		"tcp://[::1]:23280":              "tcp://[::1]:23280",
		"tcp://[::ffff:127.0.0.1]:23280": "tcp://[::ffff:127.0.0.1]:23280",
		"tcp://10.0.0.7:23280":           "tcp://10.0.0.7:23280",
	} {
		if got, err := HintEndpoint("e", ep); err != nil || got != want {
			t.Errorf("%q gives %q, %v; want %q", ep, got, err, want)
		}
	}
	for _, row := range []struct {
		refusal
		endpoints []string
	}{
		{refusal{HintUnspecified, []string{"loopback is allowed"}}, []string{
			"tcp://0.0.0.0:1", "tcp://[::]:1", "tcp://*:1", "tcp://:::1", "tcp://0:1", "tcp://0x0:1", "tcp://0.0:1", "tcp://[::ffff:0.0.0.0]:1",
		}},
		{refusal{HostRequired, nil}, []string{"", "tcp://:23280"}},
		{refusal{EndpointScheme, nil}, []string{"ipc://x", "10.0.0.7:23280"}},
		{refusal{EndpointPort, nil}, []string{"tcp://h", "tcp://h:0", "tcp://h:65536", "tcp://h:true"}},
		{refusal{HostExtra, nil}, []string{"tcp://fe80::1:23280", "tcp://[fe80::1%eth0]:1"}},
		{refusal{HostLegacyAddress, nil}, []string{"tcp://10.1:1"}},
	} {
		t.Run(row.rule.ID(), func(t *testing.T) {
			for _, ep := range row.endpoints {
				_, err := HintEndpoint("source_control_endpoint", ep)
				row.check(t, err, "source_control_endpoint", ep)
			}
		})
	}
}
