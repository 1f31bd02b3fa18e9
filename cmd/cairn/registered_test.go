package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// ownAddress is an address of one of the machine's interfaces that other
// machines could dial: loopback cannot be registered. A machine without one
// fails the test.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatalf("no interface has an IPv4 address beside loopback: %v", all)
	return ""
}

func publishAt(t *testing.T, host string) *zmtp.Publisher {
	t.Helper()
	p, err := zmtp.Listen(t.Context(), "tcp://"+host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// until waits for something that a command prints. Other processes give no
// event to wait for.
func until(t *testing.T, what string, show func() string, ok func(string) bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		out := show()
		if ok(out) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come:\n%s", what, out)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestRegisteredWorker follows a worker that registers itself, from its socket
// to the answer, and forgets it when it leaves.
func TestRegisteredWorker(t *testing.T) {
	host := ownAddress(t)
	p := publishAt(t, host)
	s := startServe(t, "", "--registration")
	worker := filepath.Join(t.TempDir(), "worker.json")
	text := fmt.Sprintf(`{"id": "w1", "model": "m", "ranks": [{"dp_rank": 0, "raw_zmq_endpoint": %q}]}`, p.Addr())
	if err := os.WriteFile(worker, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		root := newRoot()
		root.SetArgs([]string{"register", "--worker", worker, "--server", s.url})
		root.SetErr(io.Discard)
		ended <- root.ExecuteContext(ctx)
	}()
	send(t, p, 0, stored(11, 12))
	s.applied(t, "w1", 0, 0)
	if out := cairn(t, "query", "--server", s.url, "--model", "m", "--tokens", "1,2,3,4,5,6,7,8,9"); !strings.Contains(out, "w1") || !strings.Contains(out, " 8 ") {
		t.Errorf("query printed\n%s", out)
	}
	owners := func() string { return cairn(t, "owners", "--server", s.url) }
	if out := owners(); !strings.Contains(out, "registered workers:") || !strings.Contains(out, "w1  plain") {
		t.Errorf("owners printed\n%s", out)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if out := owners(); out != "no source is followed\n" {
		t.Errorf("after the release, owners printed\n%s", out)
	}
}

// TestWorkersFile: what a file says is followed, without a restart.
func TestWorkersFile(t *testing.T) {
	host := ownAddress(t)
	p := publishAt(t, host)
	file := filepath.Join(t.TempDir(), "workers.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"workers": [{"id": "w1", "model": "m", "ranks": [{"dp_rank": 0, "raw_zmq_endpoint": "tcp://localhost:5557"}]}]}`)
	s := startServe(t, "", "--workers-file", file)
	owners := func() string { return cairn(t, "owners", "--server", s.url) }
	until(t, "the refusal of loopback", owners, func(out string) bool {
		return strings.Contains(out, "loopback or bind-only: a separate host would subscribe to itself")
	})
	write(fmt.Sprintf(`{"workers": [{"id": "w1", "model": "m", "ranks": [{"dp_rank": 0, "raw_zmq_endpoint": %q}]}]}`, p.Addr()))
	send(t, p, 0, stored(11, 12))
	s.applied(t, "w1", 0, 0)
	write(`{"workers": []}`)
	until(t, "the release", owners, func(out string) bool { return strings.Contains(out, "no source is followed") })
}
