package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/engine/hint"
)

func TestPrintHint(t *testing.T) {
	const source = `"source":{"source":"w1","rank":0,"domain":"cache_owner"},"depth":4,"threshold":1`
	for _, tc := range []struct {
		name, body string
		want       []string
	}{
		{"a hint", `{"hint":{"message_id":"m"},` + source + `}`, []string{"fetch from w1/0 (cache_owner): it holds 4 blocks, the target 1\n", "{\n  \"message_id\": \"m\"\n}\n"}},
		{"in a carrier", `{"hint":{},"carrier":"kv_hints","request":{"kv_hints":{"block_hashes":[18446744073709551615]}},` + source + `,"eligible":3}`,
			[]string{"3 sources might have served\n", "to merge into the request (kv_hints):\n", "18446744073709551615"}},
		{"what it saves", `{"hint":{},` + source + `,"estimate":{"gain_ms":1.049,"recompute_ms":4.811,"transfer_ms":3.762},"note":"cost_unknown"}`,
			[]string{"recompute 4.811 ms, transfer 3.762 ms, gain +1.049 ms\n", "note: cost_unknown\n"}},
		{"too dear", `{"reason":"cost","best":{"source":"w1","rank":0,"depth":4},"estimate":{"gain_ms":-2.474}}`,
			[]string{"no hint: cost\n", "longest holder: w1/0 with 4 blocks\n", "gain -2.474 ms"}},
		{"who may not", `{"reason":"ineligible","detail":"state_agent","best":{"source":"w1","rank":1,"depth":4}}`,
			[]string{"no hint: ineligible (state_agent)\nlongest holder: w1/1 with 4 blocks\n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printHint(&out, []byte(tc.body)); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, &out)
				}
			}
		})
	}
}

// TestHintWho lists who takes part, and why others do not.
func TestHintWho(t *testing.T) {
	w1, w2 := listenPublisher(t), listenPublisher(t)
	s := startServe(t, `
sources:
  - {id: w1, model: m, endpoint: "`+w1.Addr()+`", protocol: sglang_hicache_v1, hint: {worker_type: aggregated, endpoint: "tcp://127.0.0.1:23280"}}
  - {id: w2, model: n, endpoint: "`+w2.Addr()+`"}
`)
	send(t, w1, 0, stored(7))
	s.applied(t, "w1", 0, 0)
	lines := func(args ...string) (all []string) {
		out := cairn(t, append([]string{"hint", "--server", s.url}, args...)...)
		for line := range strings.Lines(out) {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
		return all
	}
	all := strings.Join(lines("--who"), "\n")
	for _, want := range []string{
		"w1/0 worker m aggregated yes no: state_agent tcp://127.0.0.1:23280 0",
		"w1/0 cache_owner m aggregated no yes tcp://127.0.0.1:23280 0",
		"w2/0 worker n - no no: role - 0",
		"0 hints: 0 of workers, 0 of cache owners",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	cairn(t, "hint", "--server", s.url, "--model", "m", "--tokens", "1,2,3,4", "--target", "w1")
	all = strings.Join(lines("--who", "--model", "m"), "\n")
	if strings.Contains(all, "w2") || !strings.Contains(all, "no hint, no_longer_source: 1") {
		t.Errorf("of model m alone:\n%s", all)
	}
	if out := cairn(t, "hint", "--server", s.url, "--who", "--json"); !strings.HasPrefix(out, `{"options":{"min_gain_blocks":1,`) {
		t.Errorf("as JSON: %s", out)
	}
	out := cairn(t, "hint", "--server", s.url, "--model", "m", "--tokens", "1,2,3,4", "--target", "w1", "--carrier", "kv_hints", "--hashes", "string")
	if !strings.Contains(out, "no hint") {
		t.Errorf("%s", out)
	}
}

// TestHintRead reads what requests carry, digit by digit, and says what is wrong.
func TestHintRead(t *testing.T) {
	names := []uint64{9007199254740993, 18446744073709551615}
	read := func(request string) (string, error) {
		path := filepath.Join(t.TempDir(), "request.json")
		if err := os.WriteFile(path, []byte(request), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c := newHint()
		c.SetOut(&out)
		c.SetArgs([]string{"--read", path})
		err := c.Execute()
		return out.String(), err
	}
	for c := range hint.NumCarriers {
		out, err := read(string(c.AppendRequest(nil, "m", "tcp://10.0.0.7:23280", names, hint.Numbers)))
		if want := "carried as " + c.String() + ": fetch 2 blocks from tcp://10.0.0.7:23280\n9007199254740993\n18446744073709551615\n"; err != nil || out != want {
			t.Errorf("%v, %q, want %q", err, out, want)
		}
	}
	alone := string(hint.AppendFetch(nil, "m", "tcp://h:1", names[:1]))
	if out, err := read(alone); err != nil || !strings.HasPrefix(out, "a hint alone: fetch 1 blocks") {
		t.Errorf("%v, %q", err, out)
	}
	odd := strings.Replace(strings.Replace(alone, `"0.1"`, `"0.9"`, 1), `"actions":[`, `"actions":[{"action_type":"kv.deref"},`, 1)
	if out, err := read(`{"kv_hint":` + odd + `}`); err != nil || !strings.Contains(out, `protocol version "0.9"`) || !strings.Contains(out, `action "kv.deref" is not understood`) {
		t.Errorf("%v, %q", err, out)
	}
	for request, want := range map[string]string{
		`{"model":"m"}`: "carries none",
		`{"kv_hint":` + string(hint.AppendFetchAs(nil, "m", "tcp://h:1", names, hint.Strings)) + `}`: "plain decimal",
		`[`: "not a JSON object",
	} {
		if out, err := read(request); err == nil || !strings.Contains(err.Error(), want) || out != "" && !strings.Contains(out, "Usage") {
			t.Errorf("%s: %v does not say %q; %q", request, err, want, out)
		}
	}
	if _, err := read(""); err == nil {
		t.Error("an empty request carries a hint")
	}
}
