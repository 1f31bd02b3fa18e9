package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
)

// hinter is a fake engine that takes part in the routes about hints.
type hinter struct {
	fake
	status engine.HintStatus
	told   string
	err    error
}

func (h *hinter) HintStatus() engine.HintStatus { return h.status }

func (h *hinter) tell(format string, args ...any) error {
	h.told += fmt.Sprintf(format, args...) + ";"
	return h.err
}

func (h *hinter) SetPeerLoad(s string, r int, l engine.PeerLoad) error {
	return h.tell("load %s/%d %d %g", s, r, l.Waiting, l.Backlog)
}
func (h *hinter) FetchStarted(s string, r int) error { return h.tell("started %s/%d", s, r) }
func (h *hinter) FetchEnded(s string, r int) error   { return h.tell("ended %s/%d", s, r) }
func (h *hinter) ObservePrefill(m string, from, to int, b float64, d time.Duration) error {
	return h.tell("prefill %s %d-%d %g %v", m, from, to, b, d)
}
func (h *hinter) ObserveTransfer(s string, r, tokens int, bytes int64, others int, d time.Duration) error {
	return h.tell("transfer %s/%d %d %d %d %v", s, r, tokens, bytes, others, d)
}

// TestHintWording: numbers or strings, in the target's carrier or another.
func TestHintWording(t *testing.T) {
	const message = `{"protocol_version":"0.1","message_id":"m","actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":{"source_control_endpoint":"tcp://h:1","block_hashes":[9007199254740993,18446744073709551615]}}]}`
	quoted := strings.NewReplacer("9007199254740993", `"9007199254740993"`, "18446744073709551615", `"18446744073709551615"`).Replace(message)
	const rest = `,"source":{"source":"w1","rank":0,"domain":"worker"},"depth":2,"threshold":0,"block_size":4,"applied":[0,0],"revision":0}`
	cases := []struct {
		name    string
		carrier hint.Carrier // that the target declared
		fields  string
		want    string
	}{
		{"as it is", hint.RequestField, ``, `{"hint":` + message + rest},
		{"numbers, said", hint.RequestField, `,"hashes":"number"`, `{"hint":` + message + rest},
		{"strings", hint.RequestField, `,"hashes":"string"`, `{"hint":` + quoted + rest},
		{"the target's carrier", hint.EngineArgument, ``, `{"hint":` + message + `,"carrier":"kv_hints","request":{"kv_hints":` + message + `}` + rest},
		{"another carrier", hint.EngineArgument, `,"carrier":"kv_transfer_params.kv_hint"`, `{"hint":` + message + `,"carrier":"kv_transfer_params.kv_hint","request":{"extra_args":{"kv_transfer_params":{"kv_hint":` + message + `}}}` + rest},
		{"the default carrier, said", hint.RequestField, `,"carrier":"kv_hint"`, `{"hint":` + message + `,"carrier":"kv_hint","request":{"kv_hint":` + message + `}` + rest},
		{"strings in a legacy carrier", hint.RouterHint, `,"hashes":"string"`, `{"hint":` + quoted + `,"carrier":"kv_transfer_params.router_hint","request":{"extra_args":{"kv_transfer_params":{"router_hint":{"source_control_endpoint":"tcp://h:1","block_hashes":["9007199254740993","18446744073709551615"]}}}}` + rest},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			f := &fake{hint: engine.HintAnswer{JSON: []byte(message), Names: []uint64{1<<53 + 1, 1<<64 - 1}, Endpoint: "tcp://h:1", MessageID: "m", Carrier: tc.carrier,
				Best: engine.Place{Source: "w1", Depth: 2, BlockSize: 4}}}
			code, body := do(t, newServer(t, Options{Engine: f}).Handler(), "POST", "/v1/hint", `{"model":"m","tokens":[1],"target":{"source":"w2"}`+tc.fields+`}`)
			if code != 200 || body != tc.want {
				t.Errorf("%d\n got %s\nwant %s", code, body, tc.want)
			}
		})
	}
	for _, tc := range []struct{ fields, code, field string }{
		{`,"hashes":"hex"`, "bad_hashes", "hashes"}, {`,"carrier":"header"`, "bad_carrier", "carrier"}, {`,"hashes":1`, "wrong_type", "hashes"},
	} {
		_, body := do(t, newServer(t, Options{Engine: &fake{}}).Handler(), "POST", "/v1/hint", `{"model":"m","tokens":[1],"target":{"source":"w2"}`+tc.fields+`}`)
		if !strings.Contains(body, `"code":"`+tc.code+`","field":"`+tc.field+`"`) {
			t.Errorf("%s: %s", tc.fields, body)
		}
	}
	if code, _ := do(t, newServer(t, Options{Engine: &fake{}}).Handler(), "POST", "/v1/match", `{"model":"m","tokens":[1],"hashes":"string"}`); code != 400 {
		t.Errorf("a match takes the wording of hints: %d", code)
	}
}

// TestHintExplained: options leave their marks in an answer.
func TestHintExplained(t *testing.T) {
	w1 := engine.Place{Source: "w1", Depth: 4, BlockSize: 64}
	estimate := hint.Estimate{Recompute: 4.8110592e-3, Transfer: 3.7616e-3, Confidence: 0.5}
	for _, tc := range []struct {
		name string
		ans  engine.HintAnswer
		want string
	}{
		{"a hint that pays", engine.HintAnswer{JSON: []byte(`{}`), Best: w1, Estimate: estimate, Eligible: 3},
			`{"hint":{},"source":{"source":"w1","rank":0,"domain":"worker"},"depth":4,"threshold":0,"block_size":64,"eligible":3,` +
				`"estimate":{"gain_ms":1.049,"recompute_ms":4.811,"transfer_ms":3.762,"confidence":0.5},"applied":[0,0],"revision":0}`},
		{"a range", engine.HintAnswer{JSON: []byte(`{}`), Best: w1, Start: 2},
			`{"hint":{},"source":{"source":"w1","rank":0,"domain":"worker"},"depth":4,"threshold":0,"block_size":64,"start":2,"applied":[0,0],"revision":0}`},
		{"costs unknown", engine.HintAnswer{JSON: []byte(`{}`), Best: w1, Note: hint.CostUnknown},
			`{"hint":{},"source":{"source":"w1","rank":0,"domain":"worker"},"depth":4,"threshold":0,"block_size":64,"note":"cost_unknown","applied":[0,0],"revision":0}`},
		{"too dear", engine.HintAnswer{Reason: hint.Cost, Best: w1, Estimate: hint.Estimate{Recompute: 1e-3, Transfer: 2e-3}},
			`{"reason":"cost","best":{"source":"w1","rank":0,"domain":"worker","depth":4,"applied":[0,0]},"estimate":{"gain_ms":-1.000,"recompute_ms":1.000,"transfer_ms":2.000,"confidence":0}}`},
		{"a policy's", engine.HintAnswer{Reason: hint.PolicySkip}, `{"reason":"policy_skip"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, body := do(t, newServer(t, Options{Engine: &fake{hint: tc.ans}}).Handler(), "POST", "/v1/hint", `{"model":"m","tokens":[1],"target":{"source":"w2"}}`)
			if body != tc.want {
				t.Errorf("\n got %s\nwant %s", body, tc.want)
			}
		})
	}
}

func TestHintStatusRoute(t *testing.T) {
	h := &hinter{status: engine.HintStatus{Options: engine.HintOptions{Spread: true, SpreadWindowBlocks: 2, Cost: engine.CostOptions{Enabled: true, MinGain: 2 * time.Millisecond, MinConfidence: 0.5}},
		Domains: [2]uint64{3, 4}, Blocks: 70, BadChoices: 1,
		Peers: []engine.HintPeer{{Source: "w1", Model: "m", WorkerType: "decode", Target: true, WhyNot: "state_agent", Endpoint: "tcp://h:1", TP: 2, Carrier: hint.EngineArgument, Link: "ib",
			Fetches: 2, Waiting: -1, Backlog: 0.5, Hinted: 7, Cost: hint.Coefficients{PerToken: 25e-6, PerPosition: 0.6e-9, Bytes: 114688, Bandwidth: 12.5e9, Setup: 0.002, Confidence: 0.5}},
			{Source: "w1", Domain: hint.CacheOwner, Model: "m", WorkerType: "decode", Serves: true, Waiting: 3}}}}
	h.status.Outcomes[hint.Hinted], h.status.Outcomes[hint.Cost], h.status.Ineligible[hint.DetailRole], h.status.Notes[hint.CostUnknown] = 7, 5, 2, 9
	srv := newServer(t, Options{Engine: h}).Handler()
	code, body := do(t, srv, "GET", "/v1/hints", "")
	want := `{"options":{"min_gain_blocks":1,"spread_window_blocks":2,"cost":{"enabled":true,"min_gain_seconds":0.002,"min_confidence":0.5},"suffix_ranges":false,"policy":false},` +
		`"hints":7,"blocks":70,"domains":{"worker":3,"cache_owner":4},` +
		`"reasons":{"not_admitted":0,"no_capable_worker":0,"index_not_local":0,"target_incapable":0,"no_longer_source":0,"ineligible":0,"policy_skip":0,"cost":5},` +
		`"ineligible":{"role":2,"endpoint":0,"self":0,"state_agent":0},"cost_unknown":9,"bad_choices":1,"peers":[` +
		`{"source":"w1","rank":0,"domain":"worker","model":"m","worker_type":"decode","target":true,"serves":false,"why_not":"state_agent","endpoint":"tcp://h:1","tp":2,"carrier":"kv_hints","link":"ib",` +
		`"fetches":2,"waiting":null,"backlog":0.5,"hinted":7,"cost":{"per_token":2.5e-05,"per_position":6e-10,"bytes_per_token":114688,"bytes_per_second":1.25e+10,"setup_seconds":0.002,"confidence":0.5}},` +
		`{"source":"w1","rank":0,"domain":"cache_owner","model":"m","worker_type":"decode","target":false,"serves":true,"carrier":"kv_hint","fetches":0,"waiting":3,"backlog":0,"hinted":0}]}`
	if code != 200 || body != want {
		t.Errorf("%d\n got %s\nwant %s", code, body, want)
	}
	_, metrics := do(t, srv, "GET", "/metrics", "")
	for _, line := range []string{`cairn_hint_sources_total{domain="cache_owner"} 4`, `cairn_hint_blocks_total 70`, `cairn_hint_notes_total{note="cost_unknown"} 9`,
		`cairn_hint_bad_choices_total 1`, `cairn_hint_named_total{source="w1",rank="0"} 7`, `cairn_hint_fetches_in_flight{source="w1",rank="0"} 2`} {
		if strings.Count(metrics, line+"\n") != 1 {
			t.Errorf("the metrics have not one %s", line)
		}
	}
	if code, _ := do(t, newServer(t, Options{Engine: &fake{}}).Handler(), "GET", "/v1/hints", ""); code != 404 {
		t.Errorf("an engine without status answers %d", code)
	}
}

func TestTelling(t *testing.T) {
	cases := []struct {
		name, path, body string
		told             string
		err              error
		code             int
		want             string
	}{
		{"load", "load", `{"source":"w1","rank":1,"waiting":3,"backlog":0.5}`, "load w1/1 3 0.5;", nil, 200, `{"status":"ok"}`},
		{"load unknown", "load", `{"source":"w1"}`, "load w1/0 -1 0;", nil, 200, ""},
		{"started", "fetch", `{"source":"w1","state":"started"}`, "started w1/0;", nil, 200, ""},
		{"ended", "fetch", `{"source":"w1","state":"ended"}`, "ended w1/0;", nil, 200, ""},
		{"ended, measured", "fetch", `{"source":"w1","state":"ended","tokens":192,"bytes":22020096,"seconds":3.5e-3,"others":2}`, "transfer w1/0 192 22020096 2 3.5ms;ended w1/0;", nil, 200, ""},
		{"prefill", "prefill", `{"model":"m","from":64,"to":256,"seconds":0.005,"backlog":1}`, "prefill m 64-256 1 5ms;", nil, 200, ""},

		{"unknown source", "load", `{"source":"x"}`, "load x/0 -1 0;", engine.ErrUnknownSource, 404, "unknown_source"},
		{"unknown rank", "fetch", `{"source":"w1","rank":9,"state":"started"}`, "started w1/9;", engine.ErrUnknownRank, 404, "unknown_rank"},
		{"refused value", "load", `{"source":"w1"}`, "load w1/0 -1 0;", &engine.FieldError{Field: "backlog", Value: "-1", Want: "wants more"}, 400, `"code":"bad_value","field":"backlog"`},
		{"refused figures leave the fetch", "fetch", `{"source":"w1","state":"ended","tokens":1}`, "transfer w1/0 1 0 0 0s;", errors.New("0 bytes"), 400, "bad_observation"},
		{"no source", "load", `{}`, "", nil, 400, `"field":"source"`},
		{"no state", "fetch", `{"source":"w1"}`, "", nil, 400, `"field":"state"`},
		{"bad state", "fetch", `{"source":"w1","state":"done"}`, "", nil, 400, "bad_state"},
		{"measured too early", "fetch", `{"source":"w1","state":"started","seconds":1}`, "", nil, 400, "bad_state"},
		{"negative time", "prefill", `{"model":"m","to":1,"seconds":-1}`, "", nil, 400, "bad_number"},
		{"no number", "prefill", `{"model":"m","to":1,"seconds":1.2.3}`, "", nil, 400, "bad_number"},
		{"an endless time", "prefill", `{"model":"m","to":1,"seconds":1e400}`, "", nil, 400, "bad_number"},
		{"no model", "prefill", `{"to":1,"seconds":1}`, "", nil, 400, `"field":"model"`},
		{"unknown field", "load", `{"source":"w1","x":1}`, "", nil, 400, "unknown_field"},
		{"something behind it", "load", `{"source":"w1"}x`, "", nil, 400, "bad_json"},
		{"a word for a number", "load", `{"source":"w1","backlog":"1"}`, "", nil, 422, "wrong_type"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			h := &hinter{err: tc.err}
			code, body := do(t, newServer(t, Options{Engine: h}).Handler(), "POST", "/v1/hints/"+tc.path, tc.body)
			if code != tc.code || !strings.Contains(body, tc.want) || h.told != tc.told {
				t.Errorf("%d %s, told %q; want %d, %q", code, body, h.told, tc.code, tc.told)
			}
		})
	}
}

// TestTellingNeedsWrite: who may only read may not tell.
func TestTellingNeedsWrite(t *testing.T) {
	h := &hinter{}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("read reader\nwrite writer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	srv := newServer(t, Options{Engine: h, Tokens: tokens}).Handler()
	bearer := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	for token, want := range map[string]int{"reader": 403, "writer": 200} {
		code, body := do(t, srv, "POST", "/v1/hints/fetch", `{"source":"w1","state":"started"}`, bearer(token))
		if code != want {
			t.Errorf("%s: %d %s", token, code, body)
		}
	}
	if code, _ := do(t, srv, "GET", "/v1/hints", "", bearer("reader")); code != 200 {
		t.Errorf("reading is refused: %d", code)
	}
}

// TestHintStatusOfAnEngine: a real engine has all of the routes.
func TestHintStatusOfAnEngine(t *testing.T) {
	e, err := engine.Open(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	if _, body := do(t, newServer(t, Options{Engine: e}).Handler(), "GET", "/v1/hints", ""); !strings.HasPrefix(body, `{"options":{"min_gain_blocks":1,"spread_window_blocks":null,`) {
		t.Errorf("%s", body)
	}
}
