package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cairn-kv/cairn/engine/identity"
	"github.com/cairn-kv/cairn/internal/memnet"
)

const workerFile = `{"id":"w 1","model":"m","worker_id":18446744073709551615,"ingress_protocol":"sglang_hicache_v1",
 "ranks":[{"dp_rank":0,"raw_topic":"a"},{"dp_rank":1,"intent_incarnation":72}]}`

// registrar answers calls as a test says, and tells the test of each.
type registrar struct {
	calls chan string // method and path

	mu      sync.Mutex
	answers []answer // in turn; the last one for ever
	bodies  []string
}

type answer struct {
	status int
	body   string
}

func (r *registrar) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	a := r.answers[0]
	if len(r.answers) > 1 {
		r.answers = r.answers[1:]
	}
	r.bodies = append(r.bodies, string(body))
	r.mu.Unlock()
	r.calls <- q.Method + " " + q.URL.EscapedPath()
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

const leaseAnswer = `{"id":"w 1","owners":["x","y"],"lease_ms":30,"renew_ms":10}`

// keep starts a registration that ends with cancel; wait gives its end. It
// belongs into a bubble: leases are short, and their time is the tests'.
func keep(t *testing.T, r http.Handler) (k *registration, out *bytes.Buffer, cancel func(), wait func() error) {
	t.Helper()
	network := memnet.New()
	hs := httptest.NewUnstartedServer(r)
	hs.Listener.Close()
	hs.Listener = network.Listen(80)
	hs.Start()
	way := &http.Transport{DialContext: network.Dial}
	t.Cleanup(func() {
		way.CloseIdleConnections()
		hs.Close()
	})
	var id string
	body, err := readWorker("-", strings.NewReader(workerFile), &id)
	if err != nil {
		t.Fatal(err)
	}
	out = new(bytes.Buffer)
	k = &registration{client: &client{server: hs.URL, timeout: patience, transport: way}, id: id, body: body, out: out}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.run(ctx) }()
	return k, out, cancel, func() error { return <-ended }
}

func (r *registrar) expect(t *testing.T, calls ...string) {
	t.Helper()
	for _, want := range calls {
		if got := <-r.calls; got != want {
			t.Fatalf("the call is %s, want %s", got, want)
		}
	}
}

func TestRegisterKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := answer{200, leaseAnswer}
		r := &registrar{calls: make(chan string), answers: []answer{
			{409, `{"error":"all 8 slots are taken","code":"no_free_slot"}`}, {200, leaseAnswer}, ok, ok, {503, `{"error":"starting","code":"closed"}`}, ok, {404, `{"error":"no such lease","code":"unknown_worker"}`}, {200, leaseAnswer}, ok,
		}}
		_, out, cancel, wait := keep(t, r)
		const put, renew = "PUT /v1/workers/w%201", "POST /v1/workers/w%201/renew"
		r.expect(t, put, put, renew, renew, renew, renew, renew, put, renew)
		cancel()
		for call := range r.calls { // renewals that were on their way
			if call == "DELETE /v1/workers/w%201" {
				break
			} else if call != renew {
				t.Errorf("the call is %s", call)
			}
		}
		if err := wait(); err != nil {
			t.Error(err)
		}
		want := "the server refused (409 no_free_slot): all 8 slots are taken; trying again\n" +
			"registered w 1: 2 cache owners, lease 30ms, renewed every 10ms\n" +
			"the server refused (503 closed): starting; trying again\n" +
			"the lease of w 1 is gone; registering anew\n" +
			"registered w 1: 2 cache owners, lease 30ms, renewed every 10ms\n" +
			"released w 1\n"
		if out.String() != want {
			t.Errorf("said\n%swant\n%s", out, want)
		}
		if r.bodies[0] != r.bodies[7] {
			t.Error("it registered as another life of the worker")
		}
	})
}

// TestRegisterAttachesWhatIsOut: what a renewal calls out is registered again at
// once; as long as that is refused, the lease is renewed for the others.
func TestRegisterAttachesWhatIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok, out := answer{200, leaseAnswer}, answer{200, strings.Replace(leaseAnswer, "{", `{"out":["y"],`, 1)}
		fenced := answer{409, `{"error":"until the worker restarts","code":"fenced"}`}
		r := &registrar{calls: make(chan string), answers: []answer{ok, out, ok, ok, out, fenced, out, fenced, ok}}
		_, said, cancel, wait := keep(t, r)
		const put, renew = "PUT /v1/workers/w%201", "POST /v1/workers/w%201/renew"
		r.expect(t, put, renew, put, renew, renew, put, renew, put, renew, renew)
		cancel()
		for call := range r.calls {
			if call == "DELETE /v1/workers/w%201" {
				break
			}
		}
		if err := wait(); err != nil {
			t.Error(err)
		}
		want := "registered w 1: 2 cache owners, lease 30ms, renewed every 10ms\n" +
			"owners of w 1 that are out: y; attaching them again\n" +
			"all owners of w 1 are attached again\n" +
			"owners of w 1 that are out: y; attaching them again\n" +
			"the server refused (409 fenced): until the worker restarts\n" +
			"all owners of w 1 are attached again\n" +
			"released w 1\n"
		if said.String() != want {
			t.Errorf("said\n%swant\n%s", said, want)
		}
	})
}

// TestRegisterIsInterrupted: who leaves while its registration is under way may
// be registered all the same, and takes it back.
func TestRegisterIsInterrupted(t *testing.T) {
	for _, c := range []struct {
		name    string
		release answer
		says    string
		err     string
	}{
		{"carried out", answer{200, `{"released":true}`}, "released w 1\n", ""},
		{"undone", answer{404, `{"error":"no such lease","code":"unknown_worker"}`}, "", ""},
		{"not known", answer{503, `{"error":"starting","code":"closed"}`}, "", "w 1 is not released, its lease will end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				under := make(chan bool)
				k, said, cancel, wait := keep(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					io.Copy(io.Discard, q.Body) // so that the server sees the client go
					if q.Method == http.MethodPut {
						under <- true
						<-q.Context().Done()
						return
					}
					w.WriteHeader(c.release.status)
					io.WriteString(w, c.release.body)
				}))
				<-under
				cancel()
				if err := wait(); c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				if said.String() != c.says || k.registered {
					t.Errorf("said %q, want %q", said.String(), c.says)
				}
			})
		})
	}
}

func TestRegisterEndsWhereItIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			answer
			says string
		}{
			"wrong":    {answer{400, `{"error":"ranks[0].raw_zmq_endpoint \"\": …","code":"bad_registration"}`}, "ranks[0].raw_zmq_endpoint"},
			"conflict": {answer{409, `{"error":"the slot has 64","code":"immutable_field"}`}, "immutable_field"},
			"no route": {answer{404, `{"error":"no route","code":"unknown_route"}`}, "no route"},
			"no lease": {answer{200, `{}`}, "no lease"},
		} {
			r := &registrar{calls: make(chan string, 9), answers: []answer{c.answer}}
			_, _, _, wait := keep(t, r)
			if err := wait(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestReadWorker(t *testing.T) {
	read := func() map[string]any {
		var id string
		body, err := readWorker("-", strings.NewReader(workerFile), &id)
		if err != nil || id != "w 1" {
			t.Fatal(id, err)
		}
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		var w map[string]any
		if err := dec.Decode(&w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	a, b := read(), read()
	if a["id"] != nil || a["worker_id"] != json.Number("18446744073709551615") {
		t.Errorf("worker %v", a)
	}
	incarnation := func(w map[string]any, rank int) string {
		return fmt.Sprint(w["ranks"].([]any)[rank].(map[string]any)["intent_incarnation"])
	}
	if incarnation(a, 0) == incarnation(b, 0) || incarnation(a, 1) != "72" {
		t.Errorf("incarnations %s and %s, %s", incarnation(a, 0), incarnation(b, 0), incarnation(a, 1))
	}
	n := json.Number(incarnation(a, 0))
	if v, err := n.Int64(); err != nil || v < 1 || v > identity.MaxID {
		t.Errorf("incarnation %s", n)
	}
	id := "other"
	if _, err := readWorker("-", strings.NewReader(workerFile), &id); err != nil || id != "other" {
		t.Error(id, err)
	}
	for text, says := range map[string]string{"": "no JSON object", "[]": "no JSON object", `{"model":"m"}`: "no id"} {
		id = ""
		if _, err := readWorker("-", strings.NewReader(text), &id); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	var errs bytes.Buffer
	if code := run([]string{"register"}, nil, io.Discard, &errs); code != exitUsage || !strings.Contains(errs.String(), "--worker") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}
