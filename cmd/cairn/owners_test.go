package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const ownersAnswer = `{"owners":[
 {"source":"w1","rank":0,"domain":"worker","model":"m","block_size":64,"freshness":{"state":"exact","seq":41,"applied":[41,41],"lag_ms":0,"age_ms":12}},
 {"source":"01010101010101010101010101010101:02020202020202020202020202abcdef/00000000000000ff/00000000000000000000000000000001","rank":0,"domain":"cache_owner","model":"m","block_size":64,
  "freshness":{"state":"exact","seq":41,"applied":[40,41],"lag_ms":2500,"age_ms":12000}}],
"slots":[
 {"owner":"01010101010101010101010101010101:02020202020202020202020202abcdef/00000000000000ff/00000000000000000000000000000001","slot":1,"rank":0,"model":"m",
  "state":"attached","outcome":"ready","schedulable":true,"hint_ready":true,"generation":2,"intents":[9007199254740991],
  "attachment":{"incarnation":9007199254740991,"worker":{"id":18446744073709551615,"rank":0}},"lease":"w1","lease_age_ms":3210},
 {"owner":"x","slot":2,"rank":1,"model":"m","state":"fenced","flags":["worker_failed","source_failed"],"outcome":"unavailable","generation":1,"intents":[71,72],
  "reason":"source fault: sequence 3\nafter 1","since_ms":61000}],
"hosts":[{"scope":"02020202020202020202020202abcdef","instance":9,"max_slots":8,"healthy":false,"error":"the watch ended","total_slots":2,"active_slots":1,"detached_slots":0,"failed_slots":1,"capacity_rejected_total":3}],
"workers":[{"id":"w1","scope":"02020202020202020202020202abcdef","owners":["x"],"out":["x"],"complete":true,"idle_ms":3210,"left_ms":11790,"renewals":7},
 {"id":"p1","protocol":"framework_v1","complete":false,"idle_ms":0,"renewals":0}],
"file":{"path":"workers.json","loaded":true,"workers":2,"problem":"body \"\": is no JSON","failed":{"w9":"no free slot"}}}`

const ownersTables = `SOURCE                           RANK  DOMAIN       MODEL  BLOCK  STATE  APPLIED  LAG   AGE
w1                               0     worker       m      64     exact  41       0s    12ms
…010101:…abcdef/…0000ff/…000001  0     cache_owner  m      64     exact  40–41    2.5s  12s

slots of cache owners:
OWNER                            RANK  STATE                               OUTCOME      HINT  GEN  WORKER                INCARNATION       LEASE  IDLE  REASON
…010101:…abcdef/…0000ff/…000001  0     attached                            ready        yes   2    18446744073709551615  9007199254740991  w1     3.2s  -
x                                1     fenced,worker_failed,source_failed  unavailable  no    1    -                     wants 71,72       -      -     source fault: sequence 3 after 1 (1m1s ago)

control scopes:
SCOPE    SLOTS  ACTIVE  DETACHED  FAILED  REJECTED  HEALTHY
…abcdef  2/8    1       0         1       3         no: the watch ended

registered workers:
ID  KIND      STATE      LEFT    IDLE  RENEWALS
w1  1 owners  1 out      12s     3.2s  7
p1  plain     under way  no end  0s    0

file of workers workers.json: 2 workers
  not taken as it is: body "": is no JSON
FAILED  WHY
w9      no free slot
`

func TestOwners(t *testing.T) {
	answer := ownersAnswer
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/owners" || r.Header.Get("Content-Type") != "" {
			t.Errorf("%s %s with content type %q", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
		}
		w.Write([]byte(answer))
	}))
	defer hs.Close()
	show := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(append([]string{"owners", "--server", hs.URL}, args...), nil, &out, &errs); code != exitOK {
			t.Errorf("exit %d: %s", code, errs.String())
		}
		return out.String()
	}
	if got := trimmed(show()); got != ownersTables {
		t.Errorf("\n got\n%s\nwant\n%s", got, ownersTables)
	}
	if wide := show("--wide"); !strings.Contains(wide, "01010101010101010101010101010101:02020202020202020202020202abcdef/00000000000000ff/00000000000000000000000000000001 ") {
		t.Errorf("wide:\n%s", wide)
	}
	if got := show("--json"); got != ownersAnswer {
		t.Errorf("json: %s", got)
	}
	answer = `{"owners":[],"workers":[{"id":"p1"}]}`
	if got := show(); !strings.HasPrefix(got, "no source is followed\n\nregistered workers:\n") {
		t.Errorf("tables stand together: %q", got)
	}
	answer = `{"owners":[]}`
	if got := show(); got != "no source is followed\n" {
		t.Errorf("empty: %q", got)
	}
}

// trimmed is a text without spaces at the ends of its lines.
func trimmed(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
