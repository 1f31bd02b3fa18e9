package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
)

// fake is an engine that answers what a test wants and keeps what it was asked.
type fake struct {
	query  engine.Query
	target engine.Target
	asked  int

	answer  engine.Answer
	hint    engine.HintAnswer
	err     error
	sources []engine.SourceStatus
	owners  []engine.OwnerStatus
	stats   engine.Stats
}

func (f *fake) keep(q *engine.Query) {
	f.asked++
	f.query = *q
	f.query.Tokens = append([]uint32(nil), q.Tokens...)
}

func (f *fake) Match(q *engine.Query, a *engine.Answer) error {
	f.keep(q)
	*a = f.answer
	return f.err
}

func (f *fake) Hint(q *engine.Query, t engine.Target, h *engine.HintAnswer) error {
	f.keep(q)
	f.target = t
	*h = f.hint
	return f.err
}

func (f *fake) Sources() []engine.SourceStatus { return f.sources }
func (f *fake) Owners() []engine.OwnerStatus   { return f.owners }
func (f *fake) Stats() engine.Stats            { return f.stats }

func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func do(t *testing.T, h http.Handler, method, path, body string, set ...func(*http.Request)) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, f := range set {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestMatchExample(t *testing.T) {
	f := &fake{answer: engine.Answer{Tokens: 9, Holders: []engine.HolderAnswer{{
		Source: "w1", Domain: hint.Worker, BlockSize: 4, Tokens: engine.Depths{Device: 8, Any: 8},
		Freshness: engine.Freshness{State: engine.Exact, Seq: 41, Applied: [2]uint64{41, 41}, Age: 12 * time.Millisecond, Epoch: 1},
	}}}}
	code, body := do(t, newServer(t, Options{Engine: f}).Handler(), "POST", "/v1/match",
		`{"model":"m","tokens":[1,2,3,4,5,6,7,8,9],"adapter":"","salt":""}`)
	want := `{"tokens":9,"holders":[{"source":"w1","rank":0,"domain":"worker","block_size":4,` +
		`"tokens":{"device":8,"host":0,"any":8,"host_extension":0},` +
		`"freshness":{"state":"exact","seq":41,"applied":[41,41],"lag_ms":0,"age_ms":12,"epoch":1}}]}`
	if code != 200 || body != want {
		t.Errorf("%d\n got %s\nwant %s", code, body, want)
	}
	if fmt.Sprint(f.query.Tokens) != "[1 2 3 4 5 6 7 8 9]" || f.query.Model != "m" {
		t.Errorf("asked %+v", f.query)
	}
}

func TestMatchFlagsAndShards(t *testing.T) {
	const big = 1<<64 - 1
	f := &fake{answer: engine.Answer{Tokens: 1, Flagged: []engine.HolderAnswer{{
		Source: `a"b`, Rank: 3, Domain: hint.CacheOwner, UpperBound: true,
		Freshness: engine.Freshness{State: engine.Disconnected, Cause: "disconnected", Hidden: true, Silent: true, Seq: big, Applied: [2]uint64{1<<53 + 1, big},
			Streams: []engine.StreamPosition{{Seq: 7, Applied: [2]uint64{6, 7}, Incarnation: [2]uint32{1, 2}}, {Seq: big}}},
	}}}}
	_, body := do(t, newServer(t, Options{Engine: f}).Handler(), "POST", "/v1/match", `{"model":"m","tokens":[]}`)
	want := `{"tokens":1,"holders":[],"flagged":[{"source":"a\"b","rank":3,"domain":"cache_owner","block_size":0,"upper_bound":true,` +
		`"freshness":{"state":"disconnected","cause":"disconnected","seq":18446744073709551615,"applied":[9007199254740993,18446744073709551615],` +
		`"lag_ms":0,"age_ms":0,"epoch":0,"silent":true,"hidden":true,"streams":[` +
		`{"seq":7,"applied":[6,7],"incarnation":[1,2]},{"seq":18446744073709551615,"applied":[0,0],"incarnation":[0,0]}]}}]}`
	if body != want {
		t.Errorf("\n got %s\nwant %s", body, want)
	}
}

func TestHintAnswers(t *testing.T) {
	w1 := engine.Place{Source: "w1", Domain: hint.CacheOwner, Depth: 4, BlockSize: 4}
	// at makes the positions of one stream for every two sequences.
	at := func(seqs ...uint64) (all []engine.StreamPosition) {
		for i := 0; i < len(seqs); i += 2 {
			all = append(all, engine.StreamPosition{Seq: seqs[i+1], Applied: [2]uint64{seqs[i], seqs[i+1]}, Any: [2]bool{true, true}})
		}
		return all
	}
	cases := []struct {
		name string
		ans  engine.HintAnswer
		want string
	}{
		{"a hint", engine.HintAnswer{JSON: []byte(`{"protocol_version":"0.1"}`), Best: w1, Threshold: 1, Applied: [2]uint64{9, 10}, Revision: 5,
			Streams: at(9, 10), TargetApplied: [2]uint64{3, 3}, TargetStreams: at(3, 3)},
			`{"hint":{"protocol_version":"0.1"},"source":{"source":"w1","rank":0,"domain":"cache_owner"},"depth":4,"threshold":1,"block_size":4,` +
				`"applied":[9,10],"target":{"applied":[3,3]},"revision":5}`},
		{"TP shards", engine.HintAnswer{JSON: []byte(`{}`), Best: w1, Applied: [2]uint64{7, 10}, Streams: at(9, 10, 7, 7),
			TargetApplied: [2]uint64{3, 5}, TargetStreams: at(3, 3, 5, 5)},
			`{"hint":{},"source":{"source":"w1","rank":0,"domain":"cache_owner"},"depth":4,"threshold":0,"block_size":4,` +
				`"applied":[7,10],"streams":[{"seq":10,"applied":[9,10],"incarnation":[0,0]},{"seq":7,"applied":[7,7],"incarnation":[0,0]}],` +
				`"target":{"applied":[3,5],"streams":[{"seq":3,"applied":[3,3],"incarnation":[0,0]},{"seq":5,"applied":[5,5],"incarnation":[0,0]}]},"revision":0}`},
		{"not admitted", engine.HintAnswer{Reason: hint.NotAdmitted}, `{"reason":"not_admitted"}`},
		{"nobody beats the target", engine.HintAnswer{Reason: hint.NoLongerSource, TargetApplied: [2]uint64{3, 4}, TargetStreams: at(3, 4)},
			`{"reason":"no_longer_source","target":{"applied":[3,4]}}`},
		{"somebody does and may not", engine.HintAnswer{Reason: hint.Ineligible, Detail: hint.DetailStateAgent, Best: w1, Cause: "gap", TargetCause: "late_join",
			Applied: [2]uint64{9, 9}, Streams: at(9, 9), TargetApplied: [2]uint64{3, 4}, TargetStreams: at(3, 4)},
			`{"reason":"ineligible","detail":"state_agent","best":{"source":"w1","rank":0,"domain":"cache_owner","depth":4,"cause":"gap","applied":[9,9]},"target":{"applied":[3,4],"cause":"late_join"}}`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			f := &fake{hint: tc.ans}
			code, body := do(t, newServer(t, Options{Engine: f}).Handler(), "POST", "/v1/hint",
				`{"model":"m","tokens":[1],"target":{"source":"w2","rank":1},"message_id":"req-42","query_only":true}`)
			if code != 200 || body != tc.want {
				t.Errorf("%d\n got %s\nwant %s", code, body, tc.want)
			}
			if want := (engine.Target{Source: "w2", Rank: 1, MessageID: "req-42", QueryOnly: true}); f.target != want {
				t.Errorf("asked for %+v", f.target)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	jsonType := func(r *http.Request) {}
	plain := func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }
	none := func(r *http.Request) { r.Header.Del("Content-Type") }
	cases := []struct {
		name, method, path, body string
		set                      func(*http.Request)
		status                   int
		code, field, text        string
	}{
		{"a token beyond 32 bits", "POST", "/v1/match", `{"model":"m","tokens":[1,2,3,4294967296]}`, nil, 400, "bad_token", "tokens[3]", "tokens[3]: 4294967296 is not a 32-bit token id"},
		{"a token beyond 64 bits", "POST", "/v1/match", `{"model":"m","tokens":[99999999999999999999999]}`, nil, 400, "bad_token", "tokens[0]", "99999999999999999999999 is not"},
		{"a negative token", "POST", "/v1/match", `{"model":"m","tokens":[-1]}`, nil, 400, "bad_token", "tokens[0]", "-1 is not"},
		{"a fraction", "POST", "/v1/match", `{"model":"m","tokens":[1.0]}`, nil, 400, "bad_token", "tokens[0]", "1.0 is not"},
		{"an exponent", "POST", "/v1/match", `{"model":"m","tokens":[5, 1e3]}`, nil, 400, "bad_token", "tokens[1]", "1e3 is not"},
		{"a leading zero", "POST", "/v1/match", `{"model":"m","tokens":[01]}`, nil, 400, "bad_token", "tokens[0]", "01 is not"},
		{"a token that is a string", "POST", "/v1/match", `{"model":"m","tokens":["1"]}`, nil, 422, "wrong_type", "tokens[0]", "is a string"},
		{"a token that is true", "POST", "/v1/match", `{"model":"m","tokens":[true]}`, nil, 422, "wrong_type", "tokens[0]", "truth value"},
		{"tokens that are a string", "POST", "/v1/match", `{"model":"m","tokens":"1"}`, nil, 422, "wrong_type", "tokens", "wants a list"},
		{"a model that is a number", "POST", "/v1/match", `{"model":1,"tokens":[1]}`, nil, 422, "wrong_type", "model", "is a number"},
		{"a salt that is null", "POST", "/v1/match", `{"model":"m","tokens":[1],"salt":null}`, nil, 422, "wrong_type", "salt", "is null"},
		{"a list for a request", "POST", "/v1/match", `[]`, nil, 422, "wrong_type", "", "wants an object"},
		{"no model", "POST", "/v1/match", `{"tokens":[1]}`, nil, 400, "missing_field", "model", "required"},
		{"an empty model", "POST", "/v1/match", `{"model":"","tokens":[1]}`, nil, 400, "missing_field", "model", "required"},
		{"no tokens", "POST", "/v1/match", `{"model":"m"}`, nil, 400, "missing_field", "tokens", "content_hashes"},
		{"an unknown field", "POST", "/v1/match", `{"model":"m","tokens":[1],"lora":"x"}`, nil, 400, "unknown_field", "lora", "not a field"},
		{"a field of the other route", "POST", "/v1/match", `{"model":"m","tokens":[1],"target":{"source":"w"}}`, nil, 400, "unknown_field", "target", "not a field"},
		{"fields are case sensitive", "POST", "/v1/match", `{"Model":"m","tokens":[1]}`, nil, 400, "unknown_field", "Model", "not a field"},
		{"a field twice", "POST", "/v1/match", `{"model":"m","model":"n","tokens":[1]}`, nil, 400, "repeated_field", "model", "twice"},
		{"both forms", "POST", "/v1/match", `{"model":"m","tokens":[1],"content_hashes":[1],"block_size":4}`, nil, 400, "both_forms", "content_hashes", "give one of tokens and content_hashes, not both"},
		{"hashes without a size", "POST", "/v1/match", `{"model":"m","content_hashes":[1]}`, nil, 400, "missing_field", "block_size", "required"},
		{"a size without hashes", "POST", "/v1/match", `{"model":"m","tokens":[1],"block_size":4}`, nil, 400, "bad_block_size", "block_size", "content_hashes"},
		{"a hash beyond 64 bits", "POST", "/v1/match", `{"model":"m","content_hashes":[1,18446744073709551616],"block_size":4}`, nil, 400, "bad_hash", "content_hashes[1]", "64-bit"},
		{"a hash below 64 bits", "POST", "/v1/match", `{"model":"m","content_hashes":[-9223372036854775809],"block_size":4}`, nil, 400, "bad_hash", "content_hashes[0]", "64-bit"},
		{"a key of both kinds", "POST", "/v1/match", `{"model":"m","tokens":[1],"keys":[{"id":"a","hash":1,"length":4}]}`, nil, 400, "bad_key", "keys[0]", "one of id and hash"},
		{"a key of an unknown shape", "POST", "/v1/match", `{"model":"m","tokens":[1],"keys":[{"id":"a","at":4}]}`, nil, 400, "unknown_field", "keys[0].at", "not a field"},
		{"broken JSON", "POST", "/v1/match", `{"model":"m","tokens":[1,}`, nil, 400, "bad_json", "", "byte"},
		{"JSON that ends early", "POST", "/v1/match", `{"model":"m","tokens":[1`, nil, 400, "bad_json", "", "byte"},
		{"an empty body", "POST", "/v1/match", ``, nil, 400, "bad_json", "", "byte"},
		{"something behind it", "POST", "/v1/match", `{"model":"m","tokens":[1]} {}`, nil, 400, "bad_json", "", "follows"},
		{"bad UTF-8", "POST", "/v1/match", "{\"model\":\"\xff\",\"tokens\":[1]}", nil, 400, "bad_json", "model", "UTF-8"},
		{"another content type", "POST", "/v1/match", `{}`, plain, 415, "bad_content_type", "", "application/json"},
		{"no content type", "POST", "/v1/match", `{}`, none, 415, "bad_content_type", "", "application/json"},
		{"GET where POST is", "GET", "/v1/match", ``, nil, 405, "bad_method", "", "POST"},
		{"POST where GET is", "POST", "/v1/owners", ``, nil, 405, "bad_method", "", "GET"},
		{"no such route", "GET", "/v2/match", ``, nil, 404, "unknown_route", "", "no route /v2/match; there are /v1/match, /v1/hint, "},
		{"a body over the limit", "POST", "/v1/match", `{"model":"` + strings.Repeat("m", 300) + `"}`, jsonType, 413, "too_large", "", "256"},
		{"the same without a length", "POST", "/v1/match", `{"model":"` + strings.Repeat("m", 300) + `"}`,
			func(r *http.Request) { r.ContentLength, r.Body = -1, io.NopCloser(r.Body) }, 413, "too_large", "", "256"},
		{"no target", "POST", "/v1/hint", `{"model":"m","tokens":[1]}`, nil, 400, "missing_field", "target", "required"},
		{"a target without source", "POST", "/v1/hint", `{"model":"m","tokens":[1],"target":{}}`, nil, 400, "missing_field", "target.source", "required"},
		{"a target that is a string", "POST", "/v1/hint", `{"model":"m","tokens":[1],"target":"w"}`, nil, 422, "wrong_type", "target", "wants an object"},
		{"a negative rank", "POST", "/v1/hint", `{"model":"m","tokens":[1],"target":{"source":"w","rank":-1}}`, nil, 400, "bad_rank", "target.rank", "-1"},
		{"an unknown field inside", "POST", "/v1/hint", `{"model":"m","tokens":[1],"target":{"id":"w"}}`, nil, 400, "unknown_field", "target.id", "not a field"},
		{"a flag that is a number", "POST", "/v1/hint", `{"model":"m","tokens":[1],"target":{"source":"w"},"query_only":1}`, nil, 422, "wrong_type", "query_only", "true or false"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			f := &fake{}
			s := newServer(t, Options{Engine: f, MaxBody: 256})
			set := tc.set
			if set == nil {
				set = jsonType
			}
			code, body := do(t, s.Handler(), tc.method, tc.path, tc.body, set)
			var e struct{ Error, Code, Field string }
			if err := json.Unmarshal([]byte(body), &e); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			if code != tc.status || e.Code != tc.code || e.Field != tc.field || !strings.Contains(e.Error, tc.text) {
				t.Errorf("%d %+v\nwant %d %s %q …%s…", code, e, tc.status, tc.code, tc.field, tc.text)
			}
			if f.asked != 0 {
				t.Error("the engine was asked all the same")
			}
		})
	}
}

func TestEngineErrors(t *testing.T) {
	cases := []struct {
		err    error
		status int
		code   string
	}{
		{engine.ErrUnknownModel, 404, "unknown_model"},
		{engine.ErrClosed, 503, "closed"},
		{engine.ErrSaltedHashes, 400, "salted_hashes"},
		{engine.ErrKeys, 400, "bad_key"},
		{engine.ErrBlockSize, 400, "bad_query"},
	}
	for _, tc := range cases {
		t.Run(tc.code, func(t *testing.T) {
			s := newServer(t, Options{Engine: &fake{err: tc.err}})
			code, body := do(t, s.Handler(), "POST", "/v1/match", `{"model":"m","tokens":[1]}`)
			if code != tc.status || !strings.Contains(body, `"code":"`+tc.code+`"`) {
				t.Errorf("%d %s", code, body)
			}
		})
	}
}

func TestRequestForms(t *testing.T) {
	f := &fake{}
	h := newServer(t, Options{Engine: f}).Handler()
	do(t, h, "POST", "/v1/match", ` { "tokens" : [ 0 , 4294967295 ] , "model" : "a\u00e4\n" , "adapter":"x","salt":"y",
		"keys":[{"hash":18446744073709551615,"offset":3,"length":2},{"id":"image-1","length":1}] } `)
	image, _ := engine.MultimodalKey("image-1")
	want := engine.Query{Model: "aä\n", Tokens: []uint32{0, 4294967295}, Adapter: "x", Salt: "y",
		Keys: []engine.Key{{Hash: 1<<64 - 1, Offset: 3, Length: 2}, {Hash: image, Length: 1}}}
	if fmt.Sprintf("%#v", f.query) != fmt.Sprintf("%#v", want) {
		t.Errorf("asked %#v\nwant  %#v", f.query, want)
	}
	do(t, h, "POST", "/v1/match", `{"model":"m","content_hashes":[-3803038269031200164,14643705804678351452,0],"block_size":4}`)
	if c := f.query.Contents; len(c) != 3 || c[0] != c[1] || c[0] != 14643705804678351452 || f.query.BlockSize != 4 || len(f.query.Keys) != 0 {
		t.Errorf("asked %#v", f.query)
	}
}

func TestEveryStrictPrefixIsRefused(t *testing.T) {
	const whole = `{"model":"m\"","tokens":[1,20],"keys":[{"id":"a","length":1}],"target":{"source":"w","rank":0},"query_only":false}`
	var r request
	if e := r.parse([]byte(whole), true); e != nil {
		t.Fatal(e)
	}
	for i := range len(whole) {
		r.reset()
		if r.parse([]byte(whole[:i]), true) == nil {
			t.Errorf("the first %d bytes are accepted", i)
		}
	}
}

func TestParseDoesNotAllocatePerToken(t *testing.T) {
	body := []byte(`{"model":"m","tokens":[` + strings.Repeat("123456,", 10000) + `7]}`)
	var r request
	n := testing.AllocsPerRun(20, func() {
		r.reset()
		if e := r.parse(body, false); e != nil {
			t.Fatal(e)
		}
	})
	if n > 8 {
		t.Errorf("%v allocations", n)
	}
}

func TestReady(t *testing.T) {
	stream := func(connected bool, s engine.State) engine.SourceStatus {
		return engine.SourceStatus{Streams: []engine.StreamStatus{{Connected: connected, State: s}}}
	}
	cases := []struct {
		name    string
		sources []engine.SourceStatus
		status  int
		text    string
	}{
		{"no source is configured", nil, 200, `"ready":true`},
		{"nothing is connected", []engine.SourceStatus{stream(false, engine.Connecting)}, 503, `"ready":false`},
		{"one of two is", []engine.SourceStatus{stream(false, engine.Connecting), stream(true, engine.Exact)}, 200, `"exact":1`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			code, body := do(t, newServer(t, Options{Engine: &fake{sources: tc.sources}}).Handler(), "GET", "/ready", "")
			if code != tc.status || !strings.Contains(body, tc.text) || !json.Valid([]byte(body)) {
				t.Errorf("%d %s", code, body)
			}
		})
	}
}

func TestStatusRoutes(t *testing.T) {
	f := &fake{
		sources: []engine.SourceStatus{{ID: "w1", Model: "m", Protocol: "framework_v1", Policy: "copies", State: engine.Degraded,
			BlockSizes: []int{16}, Lookahead: []int{0}, Streams: []engine.StreamStatus{{Endpoint: "tcp://h:1", State: engine.Degraded, Cause: "gap",
				Seq: 1<<53 + 1, Received: true, LastError: "refused",
				Counters: []engine.Counter{{Name: "events", Reason: "store", Value: 3}, {Name: "gaps", Value: 0}}}}}},
		owners: []engine.OwnerStatus{{Source: "w1", Domain: hint.CacheOwner, Model: "m", BlockSize: 16, AttachedTo: "w1", WorkerType: "prefill", Endpoint: "tcp://h:2",
			Freshness: engine.Freshness{State: engine.Fenced, Cause: "ownership"}}},
	}
	h := newServer(t, Options{Engine: f, Version: "v1"}).Handler()
	for _, tc := range []struct{ path, want string }{
		{"/v1/sources", `{"sources":[{"id":"w1","model":"m","protocol":"framework_v1","policy":"copies","shard":0,"state":"degraded","block_sizes":[16],"lookahead":[0],` +
			`"streams":[{"rank":0,"tp_shard":0,"endpoint":"tcp://h:1","state":"degraded","cause":"gap","connected":false,"silent":false,"seq":9007199254740993,"applied":null,` +
			`"incarnation":0,"epoch":0,"age_ms":0,"last_error":"refused","counters":{"events.store":3}}]}]}`},
		{"/v1/owners", `{"owners":[{"source":"w1","rank":0,"domain":"cache_owner","model":"m","block_size":16,"worker_type":"prefill","endpoint":"tcp://h:2","attached_to":"w1",` +
			`"freshness":{"state":"fenced","cause":"ownership","seq":0,"applied":[0,0],"lag_ms":0,"age_ms":0,"epoch":0}}]}`},
		{"/health", `{"status":"ok","version":"v1"}`},
	} {
		if code, body := do(t, h, "GET", tc.path, ""); code != 200 || body != tc.want {
			t.Errorf("%s: %d\n got %s\nwant %s", tc.path, code, body, tc.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	f := &fake{sources: []engine.SourceStatus{{ID: `w"1`, Streams: []engine.StreamStatus{{Seq: 7, State: engine.Degraded, Cause: "gap",
		Counters: []engine.Counter{{Name: "events", Reason: "store", Value: 3}, {Name: "events", Reason: "clear"}, {Name: "gaps"}}}}}}}
	f.stats.Hints[hint.Ineligible] = 5
	f.stats.Ineligible[hint.DetailStateAgent] = 5
	f.stats.Shards = append(f.stats.Shards, f.stats.Shards...)
	h := newServer(t, Options{Engine: f, Version: "v1"}).Handler()
	do(t, h, "POST", "/v1/match", "{")
	code, body := do(t, h, "GET", "/metrics", "")
	if code != 200 {
		t.Fatal(code)
	}
	for _, line := range []string{
		`cairn_build_info{version="v1"} 1`,
		`cairn_hints_total{outcome="ineligible"} 5`,
		`cairn_hints_total{outcome="not_admitted"} 0`,
		`cairn_hints_ineligible_total{detail="state_agent"} 5`,
		`cairn_stream_sequence{source="w\"1",rank="0",tp_shard="0"} 7`,
		`cairn_stream_state{source="w\"1",rank="0",tp_shard="0",state="degraded"} 1`,
		`cairn_stream_cause{source="w\"1",rank="0",tp_shard="0",cause="gap"} 1`,
		`cairn_stream_events_total{source="w\"1",rank="0",tp_shard="0",reason="store"} 3`,
		`cairn_stream_gaps_total{source="w\"1",rank="0",tp_shard="0"} 0`,
		`# TYPE cairn_stream_events_total counter`,
		`cairn_http_request_duration_seconds_bucket{route="/v1/match",le="10"} 1`,
		`cairn_http_errors_total{route="/v1/match",code="400"} 1`,
		`cairn_http_request_duration_seconds_count{route="/v1/match"} 1`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, none := range []string{`reason="clear"`, "cairn_stream_connections_total"} {
		if strings.Contains(body, none) {
			t.Errorf("%s is there", none)
		}
	}
	if n := strings.Count(body, `cairn_http_request_duration_seconds_bucket{route="/v1/match"`); n != len(durations)+1 {
		t.Errorf("%d buckets", n)
	}
}

func TestTokensAndRoles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# who may what\nread reader\nadmin boss\n")
	tokens, err := LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Options{Engine: &fake{}, Tokens: tokens})
	bearer := func(tok string) func(*http.Request) {
		return func(r *http.Request) {
			if tok != "" {
				r.Header.Set("Authorization", "Bearer "+tok)
			}
		}
	}
	const ask = `{"model":"m","tokens":[1]}`
	cases := []struct {
		name, method, path, token string
		handler                   http.Handler
		status                    int
	}{
		{"health is open", "GET", "/health", "", s.Handler(), 200},
		{"a query is not", "POST", "/v1/match", "", s.Handler(), 401},
		{"nor are metrics", "GET", "/metrics", "", s.Handler(), 401},
		{"nor are unknown routes", "GET", "/x", "", s.Handler(), 401},
		{"a wrong token", "POST", "/v1/match", "readers", s.Handler(), 401},
		{"a part of one", "POST", "/v1/match", "read", s.Handler(), 401},
		{"the right one", "POST", "/v1/match", "reader", s.Handler(), 200},
		{"a higher one", "POST", "/v1/match", "boss", s.Handler(), 200},
		{"profiles need admin", "GET", "/debug/pprof/cmdline", "reader", s.Admin(), 403},
		{"and have it", "GET", "/debug/pprof/cmdline", "boss", s.Admin(), 200},
		{"no profiles on the query listener", "GET", "/debug/pprof/", "boss", s.Handler(), 404},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if code, body := do(t, tc.handler, tc.method, tc.path, ask, bearer(tc.token)); code != tc.status {
				t.Errorf("%d %s, want %d", code, body, tc.status)
			}
		})
	}

	for header, status := range map[string]int{
		"bearer reader": 200, "BEARER reader": 200, "Bearer   reader": 200,
		"Basic reader": 401, "Bearerreader": 401, "Bearer": 401, "Bearer ": 401, "reader": 401,
	} {
		set := func(r *http.Request) { r.Header.Set("Authorization", header) }
		if code, body := do(t, s.Handler(), "POST", "/v1/match", ask, set); code != status {
			t.Errorf("%q: %d %s, want %d", header, code, body, status)
		}
	}

	t.Run("a changed file counts", func(t *testing.T) {
		write("read other-one\n")
		tokens.checked = time.Time{} // the next look is due
		if code, _ := do(t, s.Handler(), "POST", "/v1/match", ask, bearer("reader")); code != 401 {
			t.Errorf("the old token: %d", code)
		}
		if code, _ := do(t, s.Handler(), "POST", "/v1/match", ask, bearer("other-one")); code != 200 {
			t.Errorf("the new token: %d", code)
		}
	})
	t.Run("a broken file changes nothing", func(t *testing.T) {
		write("king x\n")
		tokens.checked = time.Time{}
		if code, _ := do(t, s.Handler(), "POST", "/v1/match", ask, bearer("other-one")); code != 200 {
			t.Errorf("the old token: %d", code)
		}
	})
	for _, bad := range []string{"", "# nothing\n", "king x\n", "read a b\n"} {
		write(bad)
		if _, err := LoadTokens(path); err == nil {
			t.Errorf("a file %q is accepted", bad)
		}
	}
}

func TestCheckBind(t *testing.T) {
	cases := []struct {
		addr                 string
		token, tls, insecure bool
		exposed, ok          bool
	}{
		{"127.0.0.1:8090", false, false, false, false, true},
		{"[::1]:8090", false, false, false, false, true},
		{"localhost:8090", false, false, false, false, true},
		{"[::ffff:127.0.0.1]:1", false, false, false, false, true},
		{":8090", false, false, false, false, false},
		{"0.0.0.0:8090", true, false, false, false, false},
		{"0.0.0.0:8090", false, true, false, false, false},
		{"10.0.0.1:8090", true, true, false, false, true},
		{"10.0.0.1:8090", false, false, true, true, true},
		{"[::]:8090", false, false, false, false, false},
		{"worker.localhost:1", false, false, false, false, false},
		{"nonsense", true, true, true, false, false},
	}
	for _, tc := range cases {
		exposed, err := CheckBind(tc.addr, tc.token, tc.tls, tc.insecure)
		if exposed != tc.exposed || (err == nil) != tc.ok {
			t.Errorf("%+v: %v %v", tc, exposed, err)
		}
	}
}

func TestServeOverTheWire(t *testing.T) {
	f := &fake{answer: engine.Answer{Tokens: 1}}
	s := newServer(t, Options{Engine: f})
	hs := HTTPServer(s.Handler(), slog.New(slog.DiscardHandler))
	ts := httptest.NewUnstartedServer(hs.Handler)
	ts.Config = hs
	ts.Start()
	defer ts.Close()
	req, err := http.NewRequestWithContext(context.Background(), "POST", ts.URL+"/v1/match", strings.NewReader(`{"model":"m","tokens":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := ts.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || string(body) != `{"tokens":1,"holders":[]}` || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s %s", resp.Status, resp.Header.Get("Content-Type"), body)
	}
}
