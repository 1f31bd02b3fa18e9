package server

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine"
)

// pushServer is a server over an engine with sources to push to.
func pushServer(t *testing.T) http.Handler {
	t.Helper()
	e, err := engine.Open(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(func() {
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	})
	for _, s := range []engine.Source{
		{ID: "w1", Model: "m", Push: true},
		{ID: "w2", Model: "m", Push: true, Ranks: 2},
		{ID: "socket", Model: "m", Endpoint: "tcp://127.0.0.1:1"},
	} {
		if err := e.AddSource(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	return newServer(t, Options{Engine: e}).Handler()
}

func typed(content string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Content-Type", content) }
}

// deviceTokens asks how many tokens a holder has.
func deviceTokens(t *testing.T, h http.Handler, tokens, source string, rank int) int {
	t.Helper()
	code, body := do(t, h, "POST", "/v1/match", `{"model":"m","tokens":[`+tokens+`]}`)
	var a struct {
		Holders []struct {
			Source string
			Rank   int
			Tokens struct{ Device, Any int }
		}
	}
	if err := json.Unmarshal([]byte(body), &a); code != 200 || err != nil {
		t.Fatalf("%d %s", code, body)
	}
	for _, x := range a.Holders {
		if x.Source == source && x.Rank == rank {
			return x.Tokens.Any
		}
	}
	return 0
}

// TestPushDialects pushes one block in the dialects that are JSON or MessagePack
// by nature, and in some that are only made to be the other.
func TestPushDialects(t *testing.T) {
	hexOf := func(s string) string {
		b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tc := range []struct{ name, content, body string }{
		{"vLLM's arrays in MessagePack", "application/msgpack",
			hexOf("93 cb41da2fdb80200000 91 96 ab426c6f636b53746f726564 91 07 c0 94 01 02 03 04 04 c0 c0")},
		{"the same as JSON", "application/json", `[1757376000.5,[["BlockStored",[7],null,[1,2,3,4],4,null]],null]`},
		{"vLLM's maps as JSON", "application/json; charset=utf-8",
			`{"ts":1.5,"events":[{"type":"BlockStored","block_hashes":[18446744073709551615],"parent_block_hash":null,"token_ids":[1,2,3,4],"block_size":4,"lora_id":null,"medium":"GPU","lora_name":null}]}`},
		{"an event alone", "application/json", `{"type":"BlockStored","block_hashes":[-1],"parent_block_hash":null,"token_ids":[1,2,3,4],"block_size":4,"medium":"GPU"}`},
		{"TensorRT-LLM's events, a line each", "application/x-ndjson",
			`{"event_id":0,"data":{"type":"created","num_blocks_per_cache_level":[100,20]},"window_size":4096}` + "\n" +
				`{"event_id":1,"data":{"type":"stored","parent_hash":null,"blocks":[{"type":"stored_block","block_hash":18364758544493064720,"tokens":[{"type":"unique_token","token_id":1,"token_extra_id":0},{"type":"unique_token","token_id":2,"token_extra_id":0},{"type":"unique_token","token_id":3,"token_extra_id":0},{"type":"unique_token","token_id":4,"token_extra_id":0}],"cache_level":0,"priority":35,"mm_keys":[]}]},"window_size":4096}` + "\n"},
		{"Dynamo's router events", "application/json",
			`{"block_size":4,"events":[{"worker_id":42,"storage_tier":"device","event":{"event_id":0,"data":{"stored":{"parent_hash":null,"start_position":null,"blocks":[{"block_hash":18364758544493064720,"tokens_hash":14643705804678351452,"mm_extra_info":null}]}},"dp_rank":0}}]}`},
		{"Mooncake's", "application/json",
			`{"event_type":"stored","model_name":"m","block_size":4,"backend_id":"w1","medium":"gpu","dp_rank":0,"seq_hashes":[9],"base_block_idx":0,"parent_hash":null,"token_ids":[1,2,3,4]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pushServer(t)
			code, body := do(t, h, "POST", "/v1/events?source=w1&wait=applied", tc.body, typed(tc.content))
			if code != 200 || !strings.Contains(body, `"seq":0,"verdict":"next","missing":0,`) || !strings.Contains(body, `"rejected":[],`) || !strings.Contains(body, `"state":"exact"}`) {
				t.Fatalf("%d %s", code, body)
			}
			if got := deviceTokens(t, h, "1,2,3,4,5", "w1", 0); got != 4 {
				t.Errorf("the block counts %d tokens, want 4", got)
			}
		})
	}
}

// TestPushAnswers is what becomes of batches, as callers see it.
func TestPushAnswers(t *testing.T) {
	const block = `[1,[["BlockStored",[7],null,[1,2,3,4],4,null]],null]`
	h := pushServer(t)
	for _, tc := range []struct {
		name, url, body string
		set             func(*http.Request)
		code            int
		want            string
	}{
		{"accepted", "?source=w1", block, nil, 202, `{"source":"w1","rank":0,"seq":0,"verdict":"next","missing":0,"events":1,"accepted":1,"rejected":[],"state":"exact"}`},
		{"one bad event", "?source=w1&wait=applied", `[1,[["BlockStored",[8,9],null,[1],4,null],["BlockRemoved",[7]],["What",1]],null]`, nil, 200,
			`{"source":"w1","rank":0,"seq":1,"verdict":"next","missing":0,"events":3,"accepted":1,"rejected":[{"index":0,"reason":"token_count"}],"skipped":[{"index":2,"reason":"unknown_tag"}],"state":"exact"}`},
		{"again", "?source=w1&seq=1&wait=accepted", block, nil, 202, `{"source":"w1","rank":0,"seq":1,"verdict":"duplicate","missing":0,"events":1,"accepted":0,"rejected":[],"state":"exact"}`},
		{"a gap", "?source=w1&wait=applied", block, func(r *http.Request) { r.Header.Set("Cairn-Sequence", "5") }, 200,
			`{"source":"w1","rank":0,"seq":5,"verdict":"gap","missing":3,"events":1,"accepted":1,"rejected":[],"state":"degraded","cause":"gap"}`},
		{"a restart", "?source=w1&wait=applied&seq=0", block, nil, 200, `{"source":"w1","rank":0,"seq":0,"verdict":"restart","missing":0,"events":1,"accepted":1,"rejected":[],"state":"exact"}`},
		{"another rank", "?source=w2&rank=1&wait=applied", block, nil, 200, `{"source":"w2","rank":1,"seq":0,"verdict":"next","missing":0,"events":1,"accepted":1,"rejected":[],"state":"exact"}`},

		{"no source", "", block, nil, 400, `{"error":"source: is required: the source whose events are pushed","code":"missing_field","field":"source"}`},
		{"an unknown source", "?source=x", block, nil, 404, `{"error":"source: there is no source \"x\"","code":"unknown_source","field":"source"}`},
		{"a source with an endpoint", "?source=socket", block, nil, 409, `"code":"not_a_push_source"`},
		{"a rank that is none", "?source=w1&rank=x", block, nil, 400, `{"error":"rank: x is not a whole number from 0","code":"bad_rank","field":"rank"}`},
		{"a rank too many", "?source=w2&rank=2", block, nil, 400, `{"error":"rank: 2 wants 0 … 1: the source is configured with ranks 2","code":"bad_rank","field":"rank"}`},
		{"a sequence that is none", "?source=w1&seq=-1", block, nil, 400, `"code":"bad_seq","field":"seq"`},
		{"the end marker", "?source=w1&seq=18446744073709551615", block, nil, 400, `"code":"bad_seq","field":"seq"`},
		{"two sequences", "?source=w1&seq=1", block, func(r *http.Request) { r.Header.Set("Cairn-Sequence", "1") }, 400, `"code":"repeated_field","field":"seq"`},
		{"two sources", "?source=w1&source=w2", block, nil, 400, `"code":"repeated_field","field":"source"`},
		{"an unknown parameter", "?source=w1&sequence=1", block, nil, 400, `"code":"unknown_field","field":"sequence"`},
		{"a wait that is none", "?source=w1&wait=yes", block, nil, 400, `"code":"bad_wait","field":"wait"`},
		{"another type", "?source=w1", block, typed("text/plain"), 415, `"code":"bad_content_type"`},
		{"cut", "?source=w1", block[:20], nil, 400, `"code":"undecodable"`},
		{"no batch", "?source=w1", `"text"`, nil, 400, `"code":"undecodable"`},
		{"too long", "?source=w1", strings.Repeat(" ", 9<<20), nil, 413, `"code":"too_large"`},
		{"another method", "?source=w1", block, func(r *http.Request) { r.Method = "PUT" }, 405, `"code":"bad_method"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var set []func(*http.Request)
			if tc.set != nil {
				set = append(set, tc.set)
			}
			code, body := do(t, h, "POST", "/v1/events"+tc.url, tc.body, set...)
			if code != tc.code || !strings.Contains(body, tc.want) {
				t.Errorf("%d %s\nwant %d %s", code, body, tc.code, tc.want)
			}
		})
	}
}

// TestPushEnvelopes is Mooncake's route: each event says whose it is.
func TestPushEnvelopes(t *testing.T) {
	h := pushServer(t)
	event := func(fields string) string {
		return `{"event_id":1,"timestamp":null,"event_type":"stored","block_size":4,"additional_salt":null,"lora_name":null,"tenant_id":"default","medium":"gpu",` + fields + `}`
	}
	block := `"model_name":"m","seq_hashes":[9],"base_block_idx":0,"parent_hash":null,"token_ids":[1,2,3,4],`
	all := []string{
		0: event(block + `"backend_id":"w1","dp_rank":0`),
		1: event(block + `"backend_id":"w2","dp_rank":1`),
		2: event(block + `"backend_id":"w2","dp_rank":5`), // a rank without a stream of its own
		3: event(block + `"backend_id":"x","dp_rank":0`),
		4: event(block + `"dp_rank":0`),
		5: event(strings.Replace(block, `"m"`, `"another"`, 1) + `"backend_id":"w1","dp_rank":0`),
		6: event(block + `"backend_id":"socket","dp_rank":0`),
		7: event(strings.Replace(block, "4],", "4,5],", 1) + `"backend_id":"w1","dp_rank":0`),
		8: `7`,
		9: event(strings.Replace(block, "[9]", "[10]", 1) + `"backend_id":"w1","dp_rank":0`),
	}
	code, body := do(t, h, "POST", "/events?wait=applied", "["+strings.Join(all, ",")+"]")
	want := `{"accepted":4,"rejected":[{"index":3,"reason":"unknown_source"},{"index":4,"reason":"no_backend_id"},{"index":5,"reason":"bad_model_name"},` +
		`{"index":6,"reason":"not_a_push_source"},{"index":7,"reason":"token_count"},{"index":8,"reason":"field_type"}]}`
	if code != 200 || body != want {
		t.Errorf("%d %s\nwant %s", code, body, want)
	}
	for _, x := range []struct {
		source string
		rank   int
	}{{"w1", 0}, {"w2", 1}, {"w2", 5}} {
		if got := deviceTokens(t, h, "1,2,3,4", x.source, x.rank); got != 4 {
			t.Errorf("%s/%d has %d tokens, want 4", x.source, x.rank, got)
		}
	}
	remove := `{"event_id":2,"event_type":"removed","model_name":"m","backend_id":"w1","medium":"gpu","dp_rank":0,"seq_hashes":[9,10]}`
	for _, body := range []string{remove, `{"events":[` + remove + `]}`, `[]`} {
		if code, got := do(t, h, "POST", "/events", body); code != 202 || !strings.HasSuffix(got, `"rejected":[]}`) {
			t.Errorf("%s: %d %s", body, code, got)
		}
	}
	for body, want := range map[string]int{`[`: 400, `{"events":7}`: 422, ``: 400} {
		if code, got := do(t, h, "POST", "/events", body); code != want {
			t.Errorf("%q: %d %s, want %d", body, code, got, want)
		}
	}
	if code, _ := do(t, h, "POST", "/events?source=w1", `[]`); code != 400 {
		t.Errorf("a parameter that the route has not: %d", code)
	}
}

// TestPushNeedsItsRole: a token that may only read pushes nothing.
func TestPushNeedsItsRole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("read r\nwrite w\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	h := newServer(t, Options{Engine: e, Tokens: tokens}).Handler()
	for token, want := range map[string]int{"": 401, "r": 403, "w": 404} {
		for _, url := range []string{"/v1/events?source=w1", "/events"} {
			if url == "/events" && token == "w" {
				want = 202
			}
			code, body := do(t, h, "POST", url, "[]", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
			if code != want {
				t.Errorf("%s with token %q: %d %s, want %d", url, token, code, body, want)
			}
		}
	}
}

// TestNoPushRoutes: an engine that takes no batches has no routes for them.
func TestNoPushRoutes(t *testing.T) {
	h := newServer(t, Options{Engine: &fake{}}).Handler()
	if code, _ := do(t, h, "POST", "/v1/events?source=w1", "[]"); code != 404 {
		t.Errorf("%d, want 404", code)
	}
}
