package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
)

const goodListeners = `
sources:
  - id: w0
    model: m
    discover: {url: "http://10.0.0.7:8000/kv_event_sources", token_env: ENGINE_TOKEN, replay: true}
    plain: {user: cairn, password_file: /run/kv}
listeners:
  - id: fleet
    bind: "tcp://*:5557"
    topic: kv@{source}@{model}
    protocol: sglang_hicache_v1
    policy: set
    first_seq: 1
    max_sources: 20
    max_streams: 40
    forget_after: 1h
    users:
      - {user: engine, password_file: /run/a}
      - {user: other, password_env: KV_PASSWORD}
    max_connections: 30
    max_message: 1MiB
    max_memory: 64MiB
    handshake_timeout: 2s
    sources:
      - id: w1
        model: m
        ranks: 2
        replay: tcp://10.0.0.1:5558
        hint: {worker_type: decode, endpoint: tcp://10.0.0.1:23280}
  - id: relay
    connect: tcp://relay:5557
    plain: {user: cairn, password_env: KV_PASSWORD}
    topic: ""
    source: pool
    model: m
    only_known: true
`

func TestParseListeners(t *testing.T) {
	got, err := Parse("cairn.yaml", []byte(goodListeners))
	if err != nil {
		t.Fatal(err)
	}
	fleet := defaultListener()
	fleet.ID, fleet.Bind, fleet.Topic = "fleet", "tcp://*:5557", "kv@{source}@{model}"
	fleet.Source = engine.Source{Protocol: "sglang_hicache_v1", Policy: tree.Set, FirstSeq: 1}
	fleet.MaxSources, fleet.MaxStreams, fleet.ForgetAfter = 20, 40, time.Hour
	fleet.Users = []zmtp.Plain{{User: "engine", Password: FileSecret("/run/a")}, {User: "other", Password: EnvSecret("KV_PASSWORD")}}
	fleet.MaxConns, fleet.MaxMessage, fleet.MaxMemory, fleet.HandshakeTimeout = 30, 1<<20, 64<<20, 2*time.Second
	fleet.Sources = []engine.Source{{ID: "w1", Model: "m", Ranks: 2, Replay: "tcp://10.0.0.1:5558", Protocol: engine.FrameworkV1,
		Hint: &engine.HintConfig{WorkerType: "decode", Endpoint: "tcp://10.0.0.1:23280"}}}
	relay := defaultListener()
	relay.ID, relay.Connect = "relay", "tcp://relay:5557"
	relay.Plain = &zmtp.Plain{User: "cairn", Password: EnvSecret("KV_PASSWORD")}
	relay.Source.ID, relay.Source.Model, relay.MaxSources = "pool", "m", -1
	if d := cmp.Diff([]engine.Listener{fleet, relay}, got.Listeners); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	w0 := []engine.Source{{ID: "w0", Model: "m", Ranks: 1, Protocol: engine.FrameworkV1,
		Discover: &engine.Discovery{URL: "http://10.0.0.7:8000/kv_event_sources", Token: EnvSecret("ENGINE_TOKEN"), Replay: true},
		Plain:    &zmtp.Plain{User: "cairn", Password: FileSecret("/run/kv")}}}
	if d := cmp.Diff(w0, got.Sources); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}

	out, err := got.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("printed.yaml", out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if d := cmp.Diff(got, again); d != "" {
		t.Errorf("(-want +got)\n%s\n%s", d, out)
	}
}

func TestListenerErrors(t *testing.T) {
	with := func(lines ...string) string {
		base := []string{"id: in", `bind: "tcp://*:1"`, "topic: kv@{source}@{model}"}
		return "listeners:\n  - " + strings.Join(append(base, lines...), "\n    ") + "\n"
	}
	for name, c := range map[string]struct{ in, want string }{
		"unknown key":       {with("max_source: 3"), `c.yaml:5:5: listeners[0].max_source: is not a known key; want max_sources`},
		"no list":           {"listeners: {id: a}\n", `listeners: is a mapping; want a list of listeners`},
		"nothing":           {"listeners: [{}]\n", `c.yaml:1:13: listeners[0].id: "": a listener needs a name`},
		"topic":             {"listeners:\n  - id: in\n    bind: \"tcp://*:1\"\n    topic: kv@{pod}\n", `c.yaml:4:12: listeners[0].topic: "kv@{pod}": at byte 3 {pod} is no placeholder; want {source}, {model}`},
		"bind":              {"listeners: [{id: in, bind: 'tcp://h', topic: '{source}', model: m}]", `listeners[0].bind: "tcp://h": wants tcp://host:port`},
		"size":              {with("max_message: 1TiB"), `c.yaml:5:18: listeners[0].max_message: "1TiB" is not a size; want a size from 1KiB to 1GiB`},
		"duration":          {with("forget_after: 0s"), `listeners[0].forget_after: "0s" is out of range`},
		"time-out":          {with("handshake_timeout: 5"), `listeners[0].handshake_timeout: 5 is a number; want a duration such as 30s`},
		"users":             {with("users: engine"), `listeners[0].users: "engine" is a string; want a list of users`},
		"no password":       {with("users: [{user: engine}]"), `c.yaml:5:13: listeners[0].users[0].password_file: is missing; want a file with the password, or password_env`},
		"a password":        {with("users: [{user: engine, password: s3cret}]"), `listeners[0].users[0].password: is not a known key; want user, password_file or password_env`},
		"two passwords":     {with("users: [{user: e, password_file: a, password_env: B}]"), `listeners[0].users[0].password_env: stands beside password_file; want one of them`},
		"no variable":       {with(`users: [{user: e, password_env: ""}]`), `listeners[0].users[0].password_env: "" names no variable`},
		"no user":           {with(`users: [{password_env: B}]`), `listeners[0].users[0].user: is missing`},
		"long user":         {with("users: [{user: " + strings.Repeat("x", 256) + ", password_env: B}]"), `is longer than the 255 bytes`},
		"plain for bind":    {with("plain: {user: u, password_env: B}"), `c.yaml:5:12: listeners[0].plain: "u": is for connect`},
		"known source":      {with("sources:", "  - {id: a, model: m}", "  - {id: b, protocol: x}"), `c.yaml:7:27: listeners[0].sources[1].protocol: "x": wants one of`},
		"known with a way":  {with("sources: [{id: a, model: m, endpoint: 'tcp://h:1'}]"), `listeners[0].sources[0].endpoint: "tcp://h:1": is not for a listener`},
		"id of a source":    {"sources: [{id: a, model: m, endpoint: 'tcp://h:1'}]\n" + with("sources: [{id: a, model: m}]"), `listeners[0].sources[0].id: "a" is the id of sources[0] too`},
		"the one source":    {"sources: [{id: a, model: m, endpoint: 'tcp://h:1'}]\nlisteners: [{id: i, bind: 'tcp://*:1', source: a, model: m}]", `listeners[0].source: "a" is the id of sources[0] too`},
		"listener twice":    {with() + "  - {id: in, bind: 'tcp://*:2', topic: '{source}', model: m}\n", `listeners[1].id: "in" is the id of listeners[0] too`},
		"address twice":     {with() + "  - {id: i2, bind: 'tcp://*:1', topic: '{source}', model: m}\n", `listeners[1].bind: "tcp://*:1" is the bind of listeners[0] too`},
		"no such file":      {with("users: [{user: e, password_file: /no/such}]"), `listeners[0].users[0].password_file: "/no/such" cannot be read`},
		"no such variable":  {"sources: [{id: a, model: m, endpoint: 'tcp://h:1', plain: {user: u, password_env: CAIRN_TEST_NONE}}]", `sources[0].plain.password_env: "CAIRN_TEST_NONE" cannot be read: environment variable CAIRN_TEST_NONE is not set`},
		"discover":          {"sources: [{id: a, model: m, discover: {url: 'h:1'}}]", `c.yaml:1:45: sources[0].discover.url: "h:1": wants http://host:port/kv_event_sources`},
		"discover and more": {"sources: [{id: a, model: m, discover: {url: 'http://h'}, endpoint: 'tcp://h:1'}]", `sources[0].endpoint: "tcp://h:1": stands beside discover`},
		"discover's token":  {"sources: [{id: a, model: m, discover: {url: 'http://h', token: x}}]", `sources[0].discover.token: is not a known key; want url, token_file, token_env or replay`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse("c.yaml", []byte(c.in))
			if err == nil {
				err = got.Validate()
			}
			if err == nil {
				t.Fatalf("no error for\n%s", c.in)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("a password is shown: %v", err)
			}
		})
	}
}

// TestEngineReportsEveryProblem: what the engine says of several sources and
// listeners comes at once, each with its position.
func TestEngineReportsEveryProblem(t *testing.T) {
	_, err := Parse("c.yaml", []byte(`sources:
  - id: a
    endpoint: tcp://h
    protocol: x
    hint: {worker_type: y}
  - id: b
    model: m
    shards: [tcp://h:0, udp://h:1]
listeners:
  - id: in
    topic: kv@{pod}
    sources: [{id: c, model: m, topic: t}]
`))
	for _, want := range []string{
		`c.yaml:2:7: sources[0].model: ""`, `c.yaml:3:15: sources[0].endpoint: "tcp://h"`, `c.yaml:4:15: sources[0].protocol: "x"`, `c.yaml:5:11: sources[0].hint.worker_type: "y"`,
		`c.yaml:8:13: sources[1].shards[0]: "tcp://h:0"`, `c.yaml:8:13: sources[1].shards[1]: "udp://h:1"`,
		`c.yaml:10:7: listeners[0].bind: ""`, `c.yaml:11:12: listeners[0].topic: "kv@{pod}"`, `c.yaml:12:40: listeners[0].sources[0].topic: "t"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in\n%v", want, err)
		}
	}
}

func TestSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	for content, want := range map[string]string{"s3cret": "s3cret", "s3cret\n": "s3cret", "s3cret\r\n": "s3cret", " s3cret ": " s3cret ", "": "", strings.Repeat("x", maxSecret+1): "error"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := FileSecret(file).Secret()
		if (want == "error") != (err != nil) || err == nil && got != want {
			t.Errorf("%.20q: got %.20q, %v", content, got, err)
		}
	}
	t.Setenv("CAIRN_TEST_SECRET", "s3cret")
	if got, err := EnvSecret("CAIRN_TEST_SECRET").Secret(); err != nil || got != "s3cret" {
		t.Error(got, err)
	}
	if err := checkSecret("k", "token", EnvSecret("CAIRN_TEST_SECRET")); err != nil {
		t.Error(err)
	}
	t.Setenv("CAIRN_TEST_SECRET", "")
	if err := checkSecret("k", "token", EnvSecret("CAIRN_TEST_SECRET")); err == nil || !strings.Contains(err.Error(), `k.token_env: "CAIRN_TEST_SECRET" is empty`) {
		t.Error(err)
	}
}
