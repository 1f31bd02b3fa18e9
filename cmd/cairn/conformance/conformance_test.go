package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play runs files and fails the test with the whole report unless all is well.
func play(t *testing.T, o Options, paths ...string) *Report {
	t.Helper()
	r, err := Run(t.Context(), paths, o)
	var b strings.Builder
	r.WriteText(&b)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if !r.OK() {
		t.Fatalf("not all is well:\n%s", b.String())
	}
	return r
}

// named lists what was not played, by name.
func named(r *Report) []string {
	var names []string
	for _, f := range r.Files {
		for _, s := range f.Skipped {
			names = append(names, fmt.Sprintf("%s %d", s.Name, s.Count))
		}
	}
	return names
}

func TestCases(t *testing.T) {
	r := play(t, Options{}, "testdata/cases")
	// What is not played is a promise to keep: a new name here is a decision.
	want := []string{
		"count while interleaved 11",
		"W18 skipped ancestry 1", "W28 tenant_id, backend_id, object_key 2",
	}
	if got := named(r); !slices.Equal(got, want) {
		t.Errorf("not played:\n%q\nwant\n%q", got, want)
	}
	checks := map[string]int{}
	for _, f := range r.Files {
		checks[f.Kind] = f.Checks
	}
	// 51 vectors: prefixes, framing, events, state. 21 traces in up to seven
	// dialects, twice, and together.
	if checks[kindWire] < 51*12 || checks[kindIndex] < 21*10 || checks[kindTransport] < 60 || checks[kindReplay] < 80 {
		t.Errorf("fewer checks than there are cases: %v", checks)
	}
}

func TestDirect(t *testing.T) {
	play(t, Options{Direct: true}, "testdata/cases", "testdata/captures/vllm/dp2-0.32.0-a.jsonl.zst", "testdata/captures/vllm/restart-0.32.0-a.jsonl.zst")
}

func TestCasesOnThreeShards(t *testing.T) {
	play(t, Options{Shards: 3}, "testdata/cases/index.jsonl", "testdata/cases/transport.md")
}

// TestCasesOnTheModel plays the same files on the reference index: what both
// answer, and the files say, can only be wrong in all three.
func TestCasesOnTheModel(t *testing.T) {
	o := Options{NewIndex: func() tree.Interface { return model.New() }}
	play(t, o, "testdata/cases", "testdata/captures/dynamo/radix-dups-a.jsonl.zst")
}

func TestCaptures(t *testing.T) {
	r := play(t, Options{}, "testdata/captures")
	for _, f := range r.Files {
		if f.Checks == 0 {
			t.Errorf("%s: nothing was checked", f.Name)
		}
	}
}

func TestCapturesOnThreeShards(t *testing.T) {
	play(t, Options{Shards: 3}, "testdata/captures/vllm/dp2-0.32.0-a.jsonl.zst", "testdata/captures/dynamo/radix-holes-a.jsonl.zst")
}

// falsified are files in which one answer was changed. A runner that passes
// one of them checks nothing.
var falsified = []struct {
	name string
	file string
	old  string
	new  string
	// differs is in the difference that must be reported.
	differs string
}{
	{"wire, a token", "cases/wire.jsonl", `"tokens":[1,2,3,4],"block_size":4,"medium":null,"tier":"device","prefix":true}],"after":{"resident":[{"hash":"18364758544493064720"`,
		`"tokens":[1,2,3,5],"block_size":4,"medium":null,"tier":"device","prefix":true}],"after":{"resident":[{"hash":"18364758544493064720"`, "W01"},
	{"wire, a hash beyond 2^53", "cases/wire.jsonl", `"events":[{"event":"store","hashes":["18364758544493064720"]`, `"events":[{"event":"store","hashes":["18364758544493064721"]`, "W01"},
	{"wire, the rank", "cases/wire.jsonl", `"rank":300`, `"rank":44`, "W42"},
	{"wire, refused or not", "cases/wire.jsonl", `"ok":false,"level":"batch","reason":"length_overflow"`, `"ok":true,"level":"batch","reason":"length_overflow"`, "W37"},
	{"wire, what is resident", "cases/wire.jsonl", `"after":{"resident":[{"hash":"10","tier":"device","group":0}]`, `"after":{"resident":[]`, "W07"},
	{"wire, the tier of what is resident", "cases/wire.jsonl", `"after":{"resident":[{"hash":"10","tier":"device","group":0}]`, `"after":{"resident":[{"hash":"10","tier":"host","group":0}]`, "W07"},
	{"wire, an image", "cases/wire.jsonl", `"block_keys":[["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`, `"block_keys":[["baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`, "W08"},
	{"index, a depth", "cases/index.jsonl", `"expect":{"w1/0":[1,1],"w2/0":[3,3]}`, `"expect":{"w1/0":[1,1],"w2/0":[3,2]}`, "T01"},
	{"index, a holder too many", "cases/index.jsonl", `"expect":{"w1/0":[1,1],"w2/0":[3,3]}`, `"expect":{"w1/0":[1,1]}`, "T01"},
	{"index, a count", "cases/index.jsonl", `["count",{"resident":5}]`, `["count",{"resident":4}]`, "T01"},
	{"index, bad events", "cases/index.jsonl", `["rejected",{"n":2}],["store",{"src":"w1","hashes":[101],"parent":null,"tokens":[1,2,3,4]}],["query"`, `["rejected",{"n":1}],["store",{"src":"w1","hashes":[101],"parent":null,"tokens":[1,2,3,4]}],["query"`, "T09"},
	{"index, a removed hash", "cases/index.jsonl", `["remove",{"src":"w1","hashes":[18364758544493064720]}]`, `["remove",{"src":"w1","hashes":[18364758544493064721]}]`, "T15"},
	{"capture, an answer of vLLM", "captures/vllm/full-0.9.0.1-a.jsonl.zst", `"device_blocks":9}`, `"device_blocks":8}`, "dp0"},
	{"capture, the residencies", "captures/vllm/full-0.9.0.1-a.jsonl.zst", `"resident":`, `"resident":9`, "dp0"},
	{"capture, an answer of SGLang", "captures/sglang/s0509-namespaces-p16-a.jsonl.zst", `"any_blocks":5}`, `"any_blocks":6}`, "dp0"},
	{"hashes, a content hash", "captures/dynamo/hashes.jsonl", `14643705804678351452`, `14643705804678351453`, "DH001"},
	{"peer, an answer", "captures/dynamo/radix-holes-a.jsonl.zst", `"expect":{"1/0":`, `"expect":{"1/9":`, "radix-holes"},
	{"replay, an answer", "cases/replay.jsonl", `"device_blocks":7`, `"device_blocks":6`, "R02"},
	{"replay, where a request begins", "cases/replay.jsonl", `{"do":"request","frames":["","0000000000000005"]}`, `{"do":"request","frames":["","0000000000000004"]}`, "R01"},
	{"replay, what is applied", "cases/replay.jsonl", `"applied":["0","1","2","3","4","5","6"]`, `"applied":["0","1","2","3","4","6"]`, "R02"},
	{"replay, the history", "cases/replay.jsonl", `"history":"partial"`, `"history":"whole"`, "R06"},
	{"replay, what is ignored", "cases/replay.jsonl", `"ignored_replies":2`, `"ignored_replies":1`, "R12"},
	{"replay, how often the source is emptied", "cases/replay.jsonl", `"cleared":1`, `"cleared":0`, "R06"},
	{"capture, where a request begins", "captures/vllm/gap-0.17.1-a.jsonl.zst", `"dir":"sent","frames":["","AAAAAAAAADg="]`, `"dir":"sent","frames":["","AAAAAAAAADc="]`, "dp0"},
	{"transport, a request", "../scripts.jsonl", `request 2`, `request 3`, "Q01"},
	{"transport, the number of requests", "../scripts.jsonl", `requests 1`, `requests 2`, "Q01"},
	{"transport, an answer", "../scripts.jsonl", `? 21..24 -> 1`, `? 21..24 -> 0`, "Q05"},
	{"transport, the number of gaps", "../scripts.jsonl", `"missing 18446744073709551612"`, `"missing 18446744073709551613"`, "Q15"},
}

func TestFalseAnswersAreReported(t *testing.T) {
	for _, c := range falsified {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // a figure that never comes is waited for
			lines, err := readLines(filepath.Join("testdata", c.file))
			if err != nil {
				t.Fatal(err)
			}
			changed := 0
			var b strings.Builder
			for _, l := range lines {
				s := string(l.data)
				if n := strings.Replace(s, c.old, c.new, 1); n != s && changed == 0 {
					s, changed = n, l.number
				}
				b.WriteString(s + "\n")
			}
			if changed == 0 {
				t.Fatalf("%s has no %s", c.file, c.old)
			}
			name := filepath.Join(t.TempDir(), "falsified.jsonl")
			if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), []string{name}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			f := r.Files[0]
			if r.OK() || f.Error != "" {
				t.Fatalf("passed, or an error: %+v", f)
			}
			if d := f.Differences[0]; d.Line != changed || !strings.Contains(d.Case, c.differs) {
				t.Errorf("difference in line %d, %s; want line %d, %s", d.Line, d.Case, changed, c.differs)
			}
		})
	}
}

// TestDamagedFiles plays files that no recorder would write: each is an error or
// a difference of its own, and ends nothing else.
func TestDamagedFiles(t *testing.T) {
	live := func(seq int) string {
		return fmt.Sprintf(`{"do":"live","frames":["","%016x","93cb41da2fdb8000000090c0"]}`, seq)
	}
	request := `{"do":"request","frames":["","0000000000000001"]}`
	for _, c := range []struct {
		name    string
		text    string
		timeout time.Duration
		want    string // in the error or the difference
	}{
		{"a peer's history without the size of a block",
			`{"kind":"head","id":"p","blocks":{"7":[1,2,3,4]}}` + "\n" +
				`{"kind":"event","worker_id":1,"event":{"data":{"stored":{"blocks":[{"block_hash":1,"tokens_hash":7}]}}}}` + "\n" +
				`{"kind":"query","worker_id":1,"tokens":[1,2,3,4],"expect":{"1/0":1}}`,
			0, "line 1, p: index_block 0: want the tokens of an index block"},
		{"a request that is not made again",
			`{"id":"r","steps":[` + live(0) + `,` + live(2) + `,` + request + `,` + request + `],"expect":{"history":"pending"}}`,
			0, "none"},
		{"a message too long for the time there is",
			`{"id":"l","seq":"0","seq_hex":"0000000000000000","payload_hex":"dd00100000` + strings.Repeat("c0", 1<<20) + `","expect":{"ok":false,"level":"batch"}}`,
			100 * time.Millisecond, "not done within"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := filepath.Join(t.TempDir(), "damaged.jsonl")
			if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), []string{name}, Options{Timeout: c.timeout})
			if err != nil {
				t.Fatal(err)
			}
			if f := r.Files[0]; !strings.Contains(fmt.Sprint(f.Error, f.Differences), c.want) {
				t.Errorf("want %q, got %+v", c.want, f)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, []string{"testdata/cases"}, Options{}); err == nil {
		t.Error("no error of an ended context")
	}
}
