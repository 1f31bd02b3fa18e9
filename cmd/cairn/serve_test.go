package main

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// stored encodes a batch with one BlockStored array event of vLLM 0.9: blocks
// of four tokens 1, 2, 3 … with the names given, from the root on.
func stored(names ...uint64) []byte {
	b := msgp.AppendArrayHeader(nil, 2)
	b = msgp.AppendFloat64(b, 1757376000.5)
	b = msgp.AppendArrayHeader(b, 1)
	b = msgp.AppendArrayHeader(b, 6)
	b = msgp.AppendString(b, "BlockStored")
	b = msgp.AppendArrayHeader(b, uint32(len(names)))
	for _, n := range names {
		b = msgp.AppendUint64(b, n)
	}
	b = msgp.AppendNil(b)
	b = msgp.AppendArrayHeader(b, uint32(4*len(names)))
	for i := range 4 * len(names) {
		b = msgp.AppendInt(b, i+1)
	}
	b = msgp.AppendInt(b, 4)
	return msgp.AppendNil(b)
}

func listenPublisher(t *testing.T) *zmtp.Publisher {
	t.Helper()
	p, err := zmtp.Listen(t.Context(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func send(t *testing.T, p *zmtp.Publisher, seq uint64, payload []byte) {
	t.Helper()
	if err := p.WaitSubscribers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := p.Send(nil, binary.BigEndian.AppendUint64(nil, seq), payload); err != nil {
		t.Fatal(err)
	}
}

// TestServe follows two publishers from the socket to the table that a person
// reads, and ends in order.
func TestServe(t *testing.T) {
	w1, w2 := listenPublisher(t), listenPublisher(t)
	s := startServe(t, fmt.Sprintf(`
sources:
  - {id: w1, model: m, endpoint: "%s", hint: {worker_type: aggregated, endpoint: "tcp://127.0.0.1:23280"}}
  - {id: w2, model: m, endpoint: "%s", hint: {worker_type: aggregated, endpoint: "tcp://127.0.0.1:23281"}}
`, w1.Addr(), w2.Addr()))
	send(t, w1, 0, stored(9223372036854775809, 18446744073709551615, 9007199254740993))
	send(t, w2, 0, stored(7))
	s.applied(t, "w1", 0, 0)
	s.applied(t, "w2", 0, 0)

	out := cairn(t, "query", "--server", s.url, "--model", "m", "--tokens", "1,2,3,4,5,6,7,8,9,10,11,12,13")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 || lines[0] != "leading tokens of 13:" {
		t.Fatalf("query printed\n%s", out)
	}
	for i, want := range []string{
		"SOURCE RANK DOMAIN BLOCK DEVICE HOST ANY HOST-EXT STATE",
		"w1 0 worker 4 12 0 12 0 exact",
		"w2 0 worker 4 4 0 4 0 exact",
	} {
		if got := strings.Join(strings.Fields(lines[i+1]), " "); !strings.HasPrefix(got, want) {
			t.Errorf("line %d: got %q, want %q", i+1, got, want)
		}
	}
	if out := cairn(t, "query", "--server", s.url, "--model", "m", "--tokens", "4,3,2,1"); !strings.Contains(out, "no holder has a leading block of these 4 tokens") {
		t.Errorf("a prompt that nobody has: %s", out)
	}

	// Names of 64 bits come out of the hint digit by digit.
	out = cairn(t, "hint", "--server", s.url, "--model", "m", "--tokens", "1,2,3,4,5,6,7,8,9,10,11,12", "--target", "w2", "--message-id", "req-42", "--json")
	for _, want := range []string{`"message_id":"req-42"`, "9223372036854775809,18446744073709551615,9007199254740993", "tcp://127.0.0.1:23280"} {
		if !strings.Contains(out, want) {
			t.Errorf("hint lacks %s: %s", want, out)
		}
	}
	out = cairn(t, "hint", "--server", s.url, "--model", "m", "--tokens", "1,2,3,4,5,6,7,8,9,10,11,12", "--target", "w2/0")
	if !strings.HasPrefix(out, "fetch from w1/0 (worker): it holds 3 blocks, the target 1\n") {
		t.Errorf("hint printed\n%s", out)
	}
	if out = cairn(t, "hint", "--server", s.url, "--model", "m", "--tokens", "1,2,3,4", "--target", "w1"); !strings.Contains(out, "no hint: no_longer_source") {
		t.Errorf("hint printed\n%s", out)
	}

	get(t, s.url+"/health")
	get(t, s.url+"/ready")
	get(t, s.admin+"/debug/pprof/cmdline")
	if reply, err := http.Get(s.url + "/debug/pprof/"); err != nil || reply.StatusCode != http.StatusNotFound {
		t.Errorf("profiles on the listener of the routes: %v, %v", reply, err)
	}
	metrics := get(t, s.url+"/metrics")
	for _, want := range []string{"cairn_sources 2", `cairn_stream_applied_sequence{source="w1",rank="0",tp_shard="0"} 0`, "cairn_index_residencies{shard=\"0\"} 4"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}

	if err := s.stop(); err != nil {
		t.Fatalf("cairn serve did not end in order: %v", err)
	}
	log := s.text()
	for _, want := range []string{"msg=processors gomaxprocs=", "content_hashes=additive-v1-salt0", "msg=stopping", "msg=stopped"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

// TestServeSaysWhatIsTaken holds the error of an address in use: it shows at
// the start, not at the first request.
func TestServeSaysWhatIsTaken(t *testing.T) {
	taken := strings.TrimPrefix(listenPublisher(t).Addr(), "tcp://")
	file := filepath.Join(t.TempDir(), "cairn.yaml")
	if err := os.WriteFile(file, []byte(`sources: [{id: w1, model: m, endpoint: "tcp://127.0.0.1:1"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "cairn", "serve", "--config", file, "--listen", taken, "--admin", "none").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "cairn: routes listener: listen tcp "+taken) {
		t.Errorf("got %v\n%s", err, out)
	}
}
