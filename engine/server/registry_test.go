package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/registry"
	"github.com/cairn-kv/cairn/engine/residency"
)

// plane is a data plane whose every step succeeds, but for the start of the
// stream of a bad rank.
type plane struct {
	mu       sync.Mutex
	sources  map[residency.SlotID]residency.Source
	attached map[residency.SlotID]residency.Attachment
	barriers map[residency.SlotID]residency.Cursor
	cleared  []residency.Domains
	bad      int64 // rank, -1: none
	// started, if there is one, has the start of a stream say so and then wait
	// until it is given up.
	started chan struct{}
}

func (p *plane) Build(_ context.Context, s residency.Source) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sources[s.Slot] = s
	return nil
}

func (p *plane) Barrier(_ context.Context, s residency.SlotID, _ uint64, _ residency.Domains) (residency.Cursor, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.barriers[s]++
	return p.barriers[s], nil
}

func (p *plane) Open(_ context.Context, a residency.Attachment) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attached[a.Slot] = a
	return nil
}

func (p *plane) Start(ctx context.Context, a residency.Attachment) error {
	if p.started != nil {
		close(p.started)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if int64(a.Rank) == p.bad {
		return errors.New("no route to host")
	}
	return nil
}

func (p *plane) Stop(_ context.Context, s residency.SlotID, _ uint64, _ residency.Domains) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.attached, s)
	return nil
}

func (p *plane) Clear(_ context.Context, _ residency.SlotID, d residency.Domains) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleared = append(p.cleared, d)
	return nil
}

func (p *plane) Status(s residency.SlotID) residency.PlaneStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, open := p.attached[s]
	st := residency.PlaneStatus{Owner: p.sources[s].Owner, Applied: p.barriers[s]}
	if open {
		st.Record, st.Worker, st.Generation, st.Reachable = a.Record, a.Worker, a.Generation, true
	}
	return st
}

func (p *plane) Advertise(context.Context, residency.Attachment) error { return nil }
func (p *plane) Withdraw(context.Context, residency.Attachment) error  { return nil }
func (p *plane) Remove(context.Context, residency.SlotID) error        { return nil }
func (p *plane) Fence(residency.SlotID, uint64) error                  { return nil }
func (p *plane) Publish(uint64, []residency.Route, []residency.SlotID) {}

// plainSources is an engine's list of sources.
type plainSources struct{ ids []string }

func (f *plainSources) AddSource(_ context.Context, s engine.Source) error {
	if slices.Contains(f.ids, s.ID) {
		return engine.ErrSourceExists
	}
	f.ids = append(f.ids, s.ID)
	return nil
}

func (f *plainSources) RemoveSource(_ context.Context, id string) error {
	f.ids = slices.DeleteFunc(f.ids, func(s string) bool { return s == id })
	return nil
}

// registryRig is a server with a registrar over a real control plane.
type registryRig struct {
	*Server
	plane   *plane
	control *residency.Registry
	reg     *registry.Registrar
}

// registering runs a test in time of its own, beside such a server.
func registering(t *testing.T, f func(t *testing.T, g *registryRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &plane{sources: map[residency.SlotID]residency.Source{}, attached: map[residency.SlotID]residency.Attachment{}, barriers: map[residency.SlotID]residency.Cursor{}, bad: -1}
		g := &registryRig{plane: p, control: residency.New(p, residency.Options{AmbiguityWait: -1})}
		var err error
		if g.reg, err = registry.New(registry.Options{Control: g.control, Sources: &plainSources{}, MaxSlots: 2}); err != nil {
			t.Fatal(err)
		}
		g.Server = newServer(t, Options{Engine: &fake{}, Registry: g.reg, Registration: true})
		f(t, g)
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(g.reg.Close(ctx), g.control.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
}

// ask sends JSON and reads the answer.
func (g *registryRig) ask(t *testing.T, method, path, body string, want int) map[string]any {
	t.Helper()
	code, text := do(t, g.Handler(), method, path, body, func(r *http.Request) { r.Header.Set("Content-Type", "application/json") })
	if code != want {
		t.Errorf("%s %s: %d, want %d: %s", method, path, code, want, text)
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var answer map[string]any
	if err := dec.Decode(&answer); err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	return answer
}

const testOwner = "01010101010101010101010101010101:02020202020202020202020202020202/00000000000000ff/0000000000000000000000000000000"

// workerBody is a worker of two ranks.
func workerBody(change ...string) string {
	body := `{"model":"m","worker_id":"18446744073709551615","ingress_protocol":"sglang_hicache_v1","kv_block_size":64,"router_hint_worker_type":"agg",
 "router_hint_source_control_endpoints":{"0":"tcp://10.0.0.1:23280","1":"tcp://10.0.0.1:23284"},
 "ranks":[{"dp_rank":0,"cache_owner_id":"` + testOwner + `1","intent_incarnation":9007199254740991,"raw_zmq_endpoint":"tcp://10.0.0.1:5557","raw_topic":"kv@0",
   "raw_replay_endpoint":"tcp://10.0.0.1:6557"},
  {"dp_rank":1,"cache_owner_id":"` + testOwner + `2","intent_incarnation":"72","raw_zmq_endpoint":"tcp://10.0.0.1:5558","raw_topic":"kv@1"}]}`
	return strings.NewReplacer(change...).Replace(body)
}

func TestWorkersRegister(t *testing.T) {
	registering(t, func(t *testing.T, g *registryRig) {
		a := g.ask(t, "PUT", "/v1/workers/w1", workerBody(), 200)
		if a["id"] != "w1" || a["scope"] != "02020202020202020202020202020202" || fmt.Sprint(a["owners"]) != "["+testOwner+"1 "+testOwner+"2]" || a["lease_ms"] != json.Number("15000") || a["renew_ms"] != json.Number("5000") {
			t.Errorf("answer %v", a)
		}
		time.Sleep(10 * time.Second)
		if b := g.ask(t, "PUT", "/v1/workers/w1", workerBody(), 200); fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("again: %v", b)
		}
		time.Sleep(10 * time.Second)
		if b := g.ask(t, "POST", "/v1/workers/w1/renew", "", 200); b["renewed"] != true || fmt.Sprint(b["owners"]) != fmt.Sprint(a["owners"]) || b["renew_ms"] != json.Number("5000") || b["out"] != nil {
			t.Errorf("renewed: %v", b)
		}
		time.Sleep(3 * time.Second)

		owners := g.ask(t, "GET", "/v1/owners", "", 200)
		slot := owners["slots"].([]any)[0].(map[string]any)
		for field, want := range map[string]any{
			"owner": testOwner + "1", "state": "attached", "outcome": "ready", "schedulable": true, "hint_ready": true, "generation": json.Number("1"),
			"intents": []any{json.Number("9007199254740991")}, "lease": "w1", "lease_age_ms": json.Number("3000"), "protocol": "sglang_hicache_v1", "block_size": json.Number("64"),
		} {
			if fmt.Sprint(slot[field]) != fmt.Sprint(want) {
				t.Errorf("%s is %v, want %v", field, slot[field], want)
			}
		}
		at := slot["attachment"].(map[string]any)
		if at["incarnation"] != json.Number("9007199254740991") || fmt.Sprint(at["worker"]) != "map[id:18446744073709551615 rank:0]" || at["topic"] != "kv@0" ||
			fmt.Sprint(at["endpoints"]) != "[tcp://10.0.0.1:5557]" || fmt.Sprint(at["replay_endpoints"]) != "[tcp://10.0.0.1:6557]" {
			t.Errorf("attachment %v", at)
		}
		host := owners["hosts"].([]any)[0].(map[string]any)
		if host["active_slots"] != json.Number("2") || host["healthy"] != true || host["max_slots"] != json.Number("2") {
			t.Errorf("host %v", host)
		}
		lease := owners["workers"].([]any)[0].(map[string]any)
		if lease["left_ms"] != json.Number("12000") || lease["complete"] != true {
			t.Errorf("lease %v", lease)
		}
		if all := g.ask(t, "GET", "/v1/workers", "", 200)["workers"].([]any); len(all) != 1 || fmt.Sprint(all[0]) != fmt.Sprint(lease) {
			t.Errorf("workers %v", all)
		}
		_, metrics := do(t, g.Handler(), "GET", "/metrics", "")
		for _, line := range []string{
			`cairn_scope_slots{scope="02020202020202020202020202020202",condition="active"} 2`, `cairn_slots{state="attached"} 2`, `cairn_slot_outcomes{outcome="ready"} 2`,
			`cairn_registrations_total{outcome="registered"} 2`, `cairn_registrations_total{outcome="renewed"} 1`, `cairn_registered_workers 1`, `cairn_lease_idle_seconds_max 3`,
			`kv_state_agent_slots{state="active"} 2`, `kv_state_agent_capacity_rejected_total 0`, `cairn_slots_schedulable 2`,
			`cairn_scope_attaches_total{scope="02020202020202020202020202020202"} 2`, `cairn_scope_fences_total{scope="02020202020202020202020202020202"} 0`,
		} {
			if !strings.Contains(metrics, line+"\n") {
				t.Errorf("metrics do not say %s", line)
			}
		}

		time.Sleep(registry.DefaultTTL)
		synctest.Wait()
		if e := g.ask(t, "POST", "/v1/workers/w1/renew", "", 404); e["code"] != "unknown_worker" {
			t.Errorf("renewal of what expired: %v", e)
		}
		if _, metrics := do(t, g.Handler(), "GET", "/metrics", ""); !strings.Contains(metrics, `cairn_scope_leases_expired_total{scope="02020202020202020202020202020202"} 1`+"\n") {
			t.Error("metrics do not say that a lease expired")
		}
		g.ask(t, "PUT", "/v1/workers/w1", workerBody("9007199254740991", "81", `"72"`, "82"), 200)
		g.ask(t, "DELETE", "/v1/workers/w1", "", 200)
		g.ask(t, "DELETE", "/v1/workers/w1", "", 404)
		if len(g.plane.attached) != 0 {
			t.Errorf("attached: %v", g.plane.attached)
		}
		// A plain worker, whose id has something to escape.
		g.ask(t, "PUT", "/v1/workers/p%201", `{"model":"m","ranks":[{"dp_rank":0,"raw_zmq_endpoint":"tcp://10.1.0.1:5557"}]}`, 200)
		if all := g.reg.Registrations(); len(all) != 1 || all[0].ID != "p 1" {
			t.Errorf("registrations %+v", all)
		}
		g.ask(t, "DELETE", "/v1/workers/p%201", "", 200)
	})
}

func TestRegistrationErrors(t *testing.T) {
	registering(t, func(t *testing.T, g *registryRig) {
		g.plane.bad = 1
		for _, c := range []struct {
			name, method, path, body string
			status                   int
			code, field, says        string
		}{
			{"no JSON", "PUT", "/v1/workers/w1", `{`, 400, "bad_json", "body", "JSON"},
			{"wrong type", "PUT", "/v1/workers/w1", workerBody(`"model":"m"`, `"model":1`), 422, "wrong_type", "model", "a string"},
			{"unknown field", "PUT", "/v1/workers/w1", workerBody(`"model":"m"`, `"model":"m","x":1`), 400, "bad_registration", "x", "no field"},
			{"loopback", "PUT", "/v1/workers/w1", workerBody("10.0.0.1:5558", "0x7f.1:5558"), 400, "bad_registration", "ranks[1].raw_zmq_endpoint", "still report ready"},
			{"R7 rank without hint endpoint", "PUT", "/v1/workers/w1", workerBody(`,"1":"tcp://10.0.0.1:23284"`, ""), 400, "bad_registration", "router_hint_source_control_endpoints", "rank 1 has no hint endpoint"},
			{"rank that cannot be attached", "PUT", "/v1/workers/w1", workerBody(), 503, "attach_failed", "ranks[1]", "no route to host"},
			{"unknown lease", "POST", "/v1/workers/w9/renew", "", 404, "unknown_worker", "", "w9"},
			{"method", "PATCH", "/v1/workers/w1", "", 405, "bad_method", "", "PUT"},
			{"R13 null domain", "POST", "/v1/owners/clear", `{"owner":"` + testOwner + `1","domain":null}`, 422, "wrong_type", "domain", "a string"},
			{"unknown domain", "POST", "/v1/owners/clear", `{"owner":"` + testOwner + `1","domain":"both"}`, 422, "wrong_type", "domain", `"worker" or "cache_owner"`},
			{"no owner", "POST", "/v1/owners/clear", `{}`, 400, "bad_registration", "owner", "not stated"},
			{"misspelt owner", "POST", "/v1/owners/forget", `{"owner":"x"}`, 400, "bad_registration", "owner", "semantics:scope/dc/slot"},
			{"unknown owner", "POST", "/v1/owners/forget", `{"owner":"` + testOwner + `9"}`, 404, "unknown_owner", "", ""},
		} {
			e := g.ask(t, c.method, c.path, c.body, c.status)
			field, _ := e["field"].(string)
			if e["code"] != c.code || field != c.field || !strings.Contains(e["error"].(string), c.says) {
				t.Errorf("%s: %v", c.name, e)
			}
		}
		// All that is wrong, in one answer.
		e := g.ask(t, "PUT", "/v1/workers/w1", workerBody("tcp://10.0.0.1:5557", "ipc:///x", "10.0.0.1:5558", "*:5558"), 400)
		var rules []string
		for _, p := range e["problems"].([]any) {
			p := p.(map[string]any)
			rules = append(rules, fmt.Sprint(p["rule"], " ", p["field"], " ", p["value"]))
		}
		if want := []string{"E-scheme ranks[0].raw_zmq_endpoint ipc:///x", "D1 ranks[1].raw_zmq_endpoint tcp://*:5558"}; !slices.Equal(rules, want) {
			t.Errorf("problems %q, want %q", rules, want)
		}
		if len(g.plane.attached) != 0 || len(g.reg.Registrations()) != 0 {
			t.Errorf("left: %v, %v", g.plane.attached, g.reg.Registrations())
		}
	})
}

func TestRegistrationConflicts(t *testing.T) {
	registering(t, func(t *testing.T, g *registryRig) {
		g.ask(t, "PUT", "/v1/workers/w1", workerBody(), 200)
		for _, c := range []struct{ name, id, body, code string }{
			{"changed body", "w1", workerBody("kv@1", "kv@2"), "changed_intent"},
			{"known incarnation", "w2", workerBody(), "changed_intent"},
			{"over capacity", "w2", workerBody(testOwner+"1", testOwner+"3", testOwner+"2", testOwner+"4", "9007199254740991", "91", `"72"`, "92"), "no_free_slot"},
			{"block size of a slot", "w2", workerBody(":64", ":16", "9007199254740991", "91", `"72"`, "92"), "immutable_field"},
			{"host that was", "w2", workerBody(`"model":"m"`, `"model":"m","target_host":7`, "9007199254740991", "91", `"72"`, "92"), ""},
		} {
			want := 409
			if c.code == "" {
				want, c.code = 400, "bad_registration"
			}
			if e := g.ask(t, "PUT", "/v1/workers/"+c.id, c.body, want); e["code"] != c.code {
				t.Errorf("%s: %v", c.name, e)
			}
		}
		if e := g.ask(t, "POST", "/v1/owners/forget", `{"owner":"`+testOwner+`1"}`, 409); e["code"] != "in_use" {
			t.Errorf("forget: %v", e)
		}
		g.ask(t, "POST", "/v1/owners/clear", `{"owner":"`+testOwner+`1"}`, 200)
		g.ask(t, "POST", "/v1/owners/clear", `{"owner":"`+testOwner+`1","domain":"worker"}`, 200)
		if want := []residency.Domains{residency.BothDomains, residency.WorkerDomain}; !slices.Equal(g.plane.cleared, want) {
			t.Errorf("cleared %v, want %v", g.plane.cleared, want)
		}
		if len(g.plane.attached) != 2 {
			t.Errorf("attached: %v", g.plane.attached)
		}
	})
}

// TestCallerIsGone: a worker that hangs up while it is attached leaves nothing.
func TestCallerIsGone(t *testing.T) {
	p := &plane{sources: map[residency.SlotID]residency.Source{}, attached: map[residency.SlotID]residency.Attachment{}, barriers: map[residency.SlotID]residency.Cursor{}, bad: -1,
		started: make(chan struct{})}
	control := residency.New(p, residency.Options{})
	reg, err := registry.New(registry.Options{Control: control})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	s := newServer(t, Options{Engine: &fake{}, Registry: reg, Registration: true})
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(answered)
		s.Handler().ServeHTTP(w, r)
	}))
	defer hs.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-p.started
		cancel()
	}()
	r, err := http.NewRequestWithContext(ctx, "PUT", hs.URL+"/v1/workers/w1", strings.NewReader(workerBody()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if _, err := http.DefaultClient.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	<-answered
	if err := errors.Join(reg.Close(t.Context()), control.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if len(p.attached) != 0 || len(reg.Registrations()) != 0 || reg.Count(registry.Failed) != 1 {
		t.Errorf("left: %v, %v", p.attached, reg.Registrations())
	}
}

// TestRegistrationRoles: what changes state needs the write role.
func TestRegistrationRoles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("read r\nwrite w\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := LoadTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.New(registry.Options{Sources: &plainSources{}})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Options{Engine: &fake{}, Registry: reg, Registration: true, Tokens: tokens})
	for _, c := range []struct {
		method, path string
		read, write  int
	}{
		{"GET", "/v1/workers", 200, 200},
		{"PUT", "/v1/workers/w1", 403, 415},
		{"DELETE", "/v1/workers/w1", 403, 404},
		{"POST", "/v1/workers/w1/renew", 403, 404},
		{"POST", "/v1/owners/clear", 403, 400},
		{"POST", "/v1/owners/forget", 403, 400},
	} {
		for token, want := range map[string]int{"": 401, "r": c.read, "w": c.write} {
			code, body := do(t, s.Handler(), c.method, c.path, "", func(r *http.Request) {
				if token != "" {
					r.Header.Set("Authorization", "Bearer "+token)
				}
			})
			if code != want {
				t.Errorf("%s %s with token %q: %d, want %d: %s", c.method, c.path, token, code, want, body)
			}
		}
	}
}

// TestWithoutRegistration: workers of a file are shown, and nobody registers.
func TestWithoutRegistration(t *testing.T) {
	reg, err := registry.New(registry.Options{Sources: &plainSources{}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "workers.json")
	s := newServer(t, Options{Engine: &fake{}, Registry: reg, WorkersFile: registry.NewWatcher(reg, file, nil)})
	for _, path := range []string{"/v1/workers/w1", "/v1/owners/clear"} {
		if code, _ := do(t, s.Handler(), "PUT", path, "{}"); code != 404 {
			t.Errorf("PUT %s: %d", path, code)
		}
	}
	if code, body := do(t, s.Handler(), "GET", "/v1/workers", ""); code != 200 || body != `{"workers":[]}` {
		t.Errorf("%d %s", code, body)
	}
	want := fmt.Sprintf(`{"owners":[],"slots":[],"hosts":[],"workers":[],"file":{"path":%q,"loaded":false,"workers":0,"failed":{}}}`, file)
	if _, body := do(t, s.Handler(), "GET", "/v1/owners", ""); body != want {
		t.Errorf("owners %s, want %s", body, want)
	}
	if _, body := do(t, s.Handler(), "GET", "/metrics", ""); !strings.Contains(body, "cairn_workers_file_taken 0\n") {
		t.Error("metrics do not tell of the file")
	}
}

// TestWithoutRegistry: an index of static sources has no such routes.
func TestWithoutRegistry(t *testing.T) {
	s := newServer(t, Options{Engine: &fake{}})
	if code, body := do(t, s.Handler(), "PUT", "/v1/workers/w1", "{}"); code != 404 || strings.Count(body, "/v1/workers") != 1 || !strings.Contains(body, "/v1/match, ") {
		t.Errorf("status %d, %s", code, body)
	}
	if _, body := do(t, s.Handler(), "GET", "/v1/owners", ""); body != `{"owners":[]}` {
		t.Errorf("owners %s", body)
	}
}
