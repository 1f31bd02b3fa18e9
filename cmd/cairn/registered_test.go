package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

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

// ask runs a command inside the test, which is much sooner done than a process.
func ask(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := run(args, nil, &out, &errs); code != exitOK {
		t.Fatalf("cairn %s: exit %d\n%s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
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

// register runs cairn register until leave is called, which waits for its end.
func (s *served) register(t *testing.T, worker string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		root := newRoot()
		root.SetArgs([]string{"register", "--worker", worker, "--server", s.url})
		root.SetErr(io.Discard)
		ended <- root.ExecuteContext(ctx)
	}()
	return sync.OnceFunc(func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
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
	leave := s.register(t, worker)
	send(t, p, 0, stored(11, 12))
	s.applied(t, "w1", 0, 0)
	if out := ask(t, "query", "--server", s.url, "--model", "m", "--tokens", "1,2,3,4,5,6,7,8,9"); !strings.Contains(out, "w1") || !strings.Contains(out, " 8 ") {
		t.Errorf("query printed\n%s", out)
	}
	owners := func() string { return ask(t, "owners", "--server", s.url) }
	if out := owners(); !strings.Contains(out, "registered workers:") || !strings.Contains(out, "w1  plain") {
		t.Errorf("owners printed\n%s", out)
	}
	leave()
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
	owners := func() string { return ask(t, "owners", "--server", s.url) }
	until(t, "the refusal of loopback", owners, func(out string) bool {
		return strings.Contains(out, "loopback or bind-only: a separate host would subscribe to itself")
	})
	write(fmt.Sprintf(`{"workers": [{"id": "w1", "model": "m", "ranks": [{"dp_rank": 0, "raw_zmq_endpoint": %q}]}]}`, p.Addr()))
	send(t, p, 0, stored(11, 12))
	s.applied(t, "w1", 0, 0)
	write(`{"workers": []}`)
	until(t, "the release", owners, func(out string) bool { return strings.Contains(out, "no source is followed") })
}

// pooled encodes a batch in which a cache library stores blocks of four tokens
// 1, 2, 3 … in its memory.
func pooled(names ...uint64) []byte {
	b := msgp.AppendArrayHeader(nil, 2)
	b = msgp.AppendFloat64(b, 1757376000.5)
	b = msgp.AppendArrayHeader(b, 1)
	b = msgp.AppendMapHeader(b, 7)
	b = msgp.AppendString(msgp.AppendString(b, "type"), "BlockStored")
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "block_hashes"), uint32(len(names)))
	for _, n := range names {
		b = msgp.AppendUint64(b, n)
	}
	b = msgp.AppendNil(msgp.AppendString(b, "parent_block_hash"))
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "token_ids"), uint32(4*len(names)))
	for i := range 4 * len(names) {
		b = msgp.AppendInt(b, i+1)
	}
	b = msgp.AppendInt(msgp.AppendString(b, "block_size"), 4)
	b = msgp.AppendString(msgp.AppendString(b, "medium"), "CPU")
	return msgp.AppendString(msgp.AppendString(b, "ownership"), "kvcr")
}

// TestRegisteredOwners plays the purpose of it all: a worker whose owner holds a
// prompt registers, another one that is to serve it gets the hint, and none
// once the first has left.
func TestRegisteredOwners(t *testing.T) {
	host := ownAddress(t)
	s := startServe(t, "", "--registration")
	dir := t.TempDir()
	var publishers []*zmtp.Publisher
	var leave []func()
	for i, id := range []int{17, 18} {
		p := publishAt(t, host)
		publishers = append(publishers, p)
		worker := filepath.Join(dir, fmt.Sprint(id))
		text := fmt.Sprintf(`{"id": "w%d", "model": "m", "worker_id": "%d", "ingress_protocol": "sglang_hicache_v1", "kv_block_size": 4,
 "router_hint_worker_type": "aggregated", "router_hint_source_control_endpoints": {"0": "tcp://%s:%d"},
 "ranks": [{"dp_rank": 0, "raw_zmq_endpoint": %q, "raw_topic": "kv@%d",
  "cache_owner_id": "01010101010101010101010101010101:02020202020202020202020202020202/00000000000000ff/%032x"}]}`,
			id, id, host, 23280+i, p.Addr(), id, id)
		if err := os.WriteFile(worker, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		leave = append(leave, s.register(t, worker))
	}
	for i, p := range publishers {
		if err := p.WaitSubscribers(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		payload := pooled(9007199254740993, 18446744073709551615)
		if i == 1 {
			payload = pooled(5) // the target has one block of its own
		}
		if err := p.Send([]byte(fmt.Sprintf("kv@%d", 17+i)), binary.BigEndian.AppendUint64(nil, 0), payload); err != nil {
			t.Fatal(err)
		}
	}
	hint := func() string {
		return ask(t, "hint", "--server", s.url, "--model", "m", "--tokens", "1,2,3,4,5,6,7,8,9", "--target", "18", "--json")
	}
	until(t, "the hint", hint, func(out string) bool {
		return strings.Contains(out, fmt.Sprintf(`"source_control_endpoint":"tcp://%s:23280","block_hashes":[9007199254740993,18446744073709551615]`, host))
	})
	owners := func() string { return ask(t, "owners", "--server", s.url) }
	if out := owners(); strings.Count(out, " attached  ready ") != 2 || !strings.Contains(out, "w17  1 owners  complete") {
		t.Errorf("owners printed\n%s", out)
	}
	leave[0]()
	if out := hint(); !strings.Contains(out, `"reason":"no_longer_source"`) {
		t.Errorf("after its owner left, the hint is\n%s", out)
	}
	if out := owners(); strings.Count(out, " attached  ready ") != 1 {
		t.Errorf("owners printed\n%s", out)
	}
	leave[1]()
}
