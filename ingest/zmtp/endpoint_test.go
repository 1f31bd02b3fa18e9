package zmtp

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSplitEndpoint(t *testing.T) {
	for _, c := range []struct {
		in               string
		listen           bool
		network, address string
	}{
		{"tcp://10.0.0.1:5557", false, "tcp", "10.0.0.1:5557"},
		{"tcp://host:1", false, "tcp", "host:1"},
		{"tcp://[::1]:5557", false, "tcp", "[::1]:5557"},
		{"tcp://[fe80::1%eth0]:5557", false, "tcp", "[fe80::1%eth0]:5557"},
		{"ipc:///run/kv.sock", false, "unix", "/run/kv.sock"},
		{"ipc://@kv", false, "unix", "@kv"},
		{"tcp://*:5557", true, "tcp", ":5557"},
		{"tcp://*:*", true, "tcp", ":0"},
		{"tcp://127.0.0.1:0", true, "tcp", "127.0.0.1:0"},
		{"tcp://[::]:0", true, "tcp", "[::]:0"},
		{"", false, "", ""},
		{"5557", false, "", ""},
		{"udp://h:1", false, "", ""},
		{"inproc://x", false, "", ""},
		{"tcp://h", false, "", ""},
		{"tcp://h:0", false, "", ""},
		{"tcp://h:65536", false, "", ""},
		{"tcp://h:http", false, "", ""},
		{"tcp://::1:5557", false, "", ""},
		{"tcp://*:5557", false, "", ""},
		{"tcp://:5557", false, "", ""},
		{"ipc://", false, "", ""},
		{"ipc:///" + strings.Repeat("x", maxPath), false, "", ""},
		{"tcp://h:x", true, "", ""},
	} {
		network, address, err := splitEndpoint(c.in, c.listen)
		if network != c.network || address != c.address {
			t.Errorf("%q: got %q %q %v, want %q %q", c.in, network, address, err, c.network, c.address)
		}
		if bad := c.network == ""; bad != (err != nil) || bad && (!errors.Is(err, ErrEndpoint) || !strings.Contains(err.Error(), c.in)) {
			t.Errorf("%q: error %v; wants ErrEndpoint naming the value only if bad", c.in, err)
		}
	}
}

func TestTransports(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	leftBehind(t, stale)
	for _, c := range []struct{ name, listen string }{
		{"tcp", "tcp://127.0.0.1:0"},
		{"tcp wildcard", "tcp://*:0"},
		{"tcp6", "tcp://[::1]:0"},
		{"ipc", "ipc://" + filepath.Join(dir, "kv.sock")},
		{"ipc abstract", "ipc://@cairn-zmtp-test"},
		{"ipc left behind", "ipc://" + stale},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Listen(context.Background(), c.listen)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			conn := dialTest(t, Options{Endpoint: p.Addr()})
			if err := p.WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
				t.Fatal(err)
			}
			if err := p.Send([]byte("t"), seqFrame(0), []byte("x")); err != nil {
				t.Fatal(err)
			}
			m, err := conn.Next()
			if err != nil || len(m.Frames()) != 3 || string(m.Frames()[2]) != "x" {
				t.Fatalf("%q %v", m.Frames(), err)
			}
		})
	}
	if _, err := Listen(context.Background(), "ipc://"+dir); err == nil {
		t.Error("listening on a directory worked")
	}
}

// leftBehind makes a socket file nobody listens on any more.
func leftBehind(t *testing.T, path string) {
	p, err := Listen(context.Background(), "ipc://"+path+".x")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".x", path); err != nil {
		t.Fatal(err)
	}
	p.Close()
}
