package config

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/tree"
)

const good = `
listen: 127.0.0.1:8090
stale_after: 45s
ring_bytes: 64KiB
log: {level: debug, format: json}
sources:
  - id: w1
    model: m
    endpoint: tcp://10.0.0.1:5557
    replay: tcp://10.0.0.1:5558
    ranks: 1
  - id: w2
    model: m
    protocol: sglang_hicache_v1
    shards: [tcp://10.0.0.2:5557, tcp://10.0.0.2:5567]
    hint: {worker_type: aggregated, endpoint: tcp://10.0.0.2:23280}
  - id: pool
    model: m
    endpoint: ipc:///run/pool.sock
    topic: kv@
    policy: set
    main_group: 2
    first_seq: 1
    python_root: false
    mm_ids: bare
    block_size: 16
    zero_parent: unknown
    hybrid: true
    extra_keys: invisible
    unsound: take
`

func TestParse(t *testing.T) {
	got, err := Parse("cairn.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.StaleAfter = 45 * time.Second
	want.RingBytes = 64 << 10
	want.Log = Log{Level: "debug", Format: "json"}
	want.Sources = []engine.Source{
		{ID: "w1", Model: "m", Endpoint: "tcp://10.0.0.1:5557", Replay: "tcp://10.0.0.1:5558", Ranks: 1, Protocol: "framework_v1"},
		{ID: "w2", Model: "m", Shards: []string{"tcp://10.0.0.2:5557", "tcp://10.0.0.2:5567"}, Ranks: 1, Protocol: "sglang_hicache_v1",
			Hint: &engine.HintConfig{WorkerType: "aggregated", Endpoint: "tcp://10.0.0.2:23280"}},
		{ID: "pool", Model: "m", Endpoint: "ipc:///run/pool.sock", Ranks: 1, Protocol: "framework_v1", Topic: "kv@",
			Policy: tree.Set, MainGroup: 2, FirstSeq: 1, NoPythonRoot: true, BareMM: true,
			BlockSize: 16, ZeroParentUnknown: true, Hybrid: true, InvisibleKeys: true, TakeUnsound: true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("Validate: %v", err)
	}
}

func TestYAMLIsReadBack(t *testing.T) {
	want, err := Parse("cairn.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want.Insecure, want.Shards, want.Admin = true, 3, None
	out, err := want.YAML()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("printed.yaml", out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s\n%s", d, out)
	}
}

// source wraps one source's lines into a file.
func source(lines ...string) string {
	return "sources:\n  - " + strings.Join(lines, "\n    ") + "\n"
}

func TestParseErrors(t *testing.T) {
	base := []string{"id: w1", "model: m", "endpoint: tcp://h:5557"}
	with := func(lines ...string) string { return source(append(append([]string{}, base...), lines...)...) }
	for name, c := range map[string]struct{ in, want string }{
		"unknown key":           {"lisen: 127.0.0.1:1\n", `c.yaml:1:1: lisen: is not a known key; want listen (known here: listen, admin,`},
		"unknown key, no guess": {"colour: red\n", `c.yaml:1:1: colour: is not a known key; want listen, admin,`},
		"unknown nested key":    {"log:\n  levle: info\n", `c.yaml:2:3: log.levle: is not a known key; want level (known here: level, format)`},
		"unknown word":          {with("mm_ids: bar"), `sources[0].mm_ids: "bar" is not known; want auto or bare (bare?)`},
		"no shards":             {source("id: a", "model: m", "shards: []"), `sources[0].shards: is empty; want one endpoint per TP shard`},
		"unknown source key":    {with("rank: 2"), `c.yaml:5:5: sources[0].rank: is not a known key; want ranks`},
		"number for text":       {source("id: 7", "model: m", "endpoint: tcp://h:1"), `c.yaml:2:9: sources[0].id: 7 is a number; want a string (quote it: "7")`},
		"text for number":       {with(`ranks: "2"`), `sources[0].ranks: "2" is a string; want a whole number from 1 to 64`},
		"fraction for number":   {with("ranks: 1.5"), `sources[0].ranks: 1.5 is a fraction; want a whole number from 1 to 64`},
		"number out of range":   {with("ranks: 65"), `sources[0].ranks: 65 is out of range; want a whole number from 1 to 64`},
		"negative number":       {with("main_group: -1"), `sources[0].main_group: -1 is out of range`},
		"sequence end marker":   {with("first_seq: 18446744073709551615"), `sources[0].first_seq: 18446744073709551615 is out of range; want a whole number from 0 to 1`},
		"no value":              {with("topic:"), `sources[0].topic: has no value; want a string`},
		"truth value for text":  {with("topic: true"), `sources[0].topic: true is a truth value; want a string`},
		"text for truth value":  {with("python_root: yes please"), `sources[0].python_root: "yes please" is a string; want true or false`},
		"list for text":         {"listen: [a]\n", `listen: is a list; want a string`},
		"mapping for list":      {"sources: {id: a}\n", `sources: is a mapping; want a list of sources`},
		"text for mapping":      {"log: info\n", `log: "info" is a string; want a mapping with the keys level, format`},
		"text for source":       {"sources: [w1]\n", `sources[0]: "w1" is a string; want a mapping with the keys id, model`},
		"list for document":     {"- a\n", `document: is a list; want a mapping with the keys listen`},
		"duration without unit": {"stale_after: 30\n", `stale_after: 30 is a number; want a duration such as 30s`},
		"not a duration":        {"stale_after: soon\n", `stale_after: "soon" is not a duration; want a duration from 1ms to 24h0m0s, such as 30s`},
		"duration out of range": {"stale_after: 0s\n", `stale_after: "0s" is out of range`},
		"size out of range":     {"ring_bytes: 1GiB\n", `ring_bytes: "1GiB" is out of range; want a size from 4KiB to 64MiB, such as 128KiB`},
		"not a size":            {"ring_bytes: lots\n", `ring_bytes: "lots" is not a size`},
		"shards of the index":   {"shards: 0\n", `shards: 0 is out of range; want a whole number from 1 to 256`},
		"listen without port":   {"listen: localhost\n", `listen: "localhost" is not an address to listen on; want host:port`},
		"listen without host":   {`listen: ":8090"`, `listen: ":8090" names no host`},
		"listen port":           {"listen: localhost:99999\n", `listen: "localhost:99999" has no port from 0 to 65535`},
		"log level":             {"log: {level: inf}\n", `log.level: "inf" is not known; want debug, info, warn or error (info?)`},
		"endpoint without tcp":  {source("id: a", "model: m", "endpoint: h:5557"), `sources[0].endpoint: "h:5557": wants tcp://host:port or ipc://path`},
		"endpoint scheme":       {source("id: a", "model: m", "endpoint: udp://h:5557"), `sources[0].endpoint: "udp://h:5557": wants tcp://host:port or ipc://path`},
		"endpoint wildcard":     {source("id: a", "model: m", `endpoint: "tcp://*:5557"`), `c.yaml:4:15: sources[0].endpoint: "tcp://*:5557": names no host to dial`},
		"endpoint port":         {source("id: a", "model: m", "endpoint: tcp://h:0"), `sources[0].endpoint: "tcp://h:0": port "0": wants 1 … 65535`},
		"ranks beyond ports":    {source("id: a", "model: m", "endpoint: tcp://h:65530", "ranks: 8"), `sources[0].endpoint: "tcp://h:65530": rank 6 would be port 65536; the highest is 65535`},
		"ranks over ipc":        {source("id: a", "model: m", "endpoint: ipc:///s", "ranks: 2"), `sources[0].endpoint: "ipc:///s": an ipc endpoint has no port to count ranks on`},
		"missing id":            {source("model: m", "endpoint: tcp://h:1"), `c.yaml:2:10: sources[0].id: "": a source needs a name`},
		"missing endpoint":      {source("id: a", "model: m"), `sources[0].endpoint: "": wants tcp://host:port or ipc://path of the publisher, or shards`},
		"endpoint and shards":   {with("shards: [tcp://h:1, tcp://h:2]"), `sources[0].endpoint: "tcp://h:5557": stands beside shards`},
		"shard twice":           {source("id: a", "model: m", "shards: [tcp://h:1, tcp://h:1]"), `sources[0].shards[1]: "tcp://h:1": rank 0 would be tcp://h:1, where shards[0] "tcp://h:1" listens already`},
		"empty id":              {source(`id: ""`, "model: m", "endpoint: tcp://h:1"), `sources[0].id: "": a source needs a name`},
		"protocol":              {with("protocol: hicache"), `c.yaml:5:15: sources[0].protocol: "hicache": wants one of framework_v1, vllm_residency_v1, sglang_hicache_v1`},
		"policy":                {with("policy: sets"), `sources[0].policy: "sets" is not known; want copies or set (set?)`},
		"worker type":           {with("hint: {worker_type: worker}"), `sources[0].hint.worker_type: "worker": wants one of aggregated`},
		"worker type missing":   {with("hint: {endpoint: tcp://h:1}"), `sources[0].hint.worker_type: "": wants one of aggregated`},
		"control endpoint":      {with("hint: {worker_type: decode, endpoint: http://h}"), `c.yaml:5:11: sources[0].hint.endpoint: "http://h"`},
		"anchor":                {"log: &a {level: info}\n", `log: uses an anchor, alias or merge key`},
		"two documents":         {"listen: a:1\n---\nlisten: a:2\n", `document: is one of several in the file`},
		"not yaml":              {"listen: [\n", `c.yaml:`},
		"key twice":             {"shards: 1\nshards: 2\n", `c.yaml:2:1: yaml: mapping key "shards" already defined`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("c.yaml", []byte(c.in))
			if err == nil {
				t.Fatalf("no error for\n%s", c.in)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestValuesAreToldOnce: the engine's words about an endpoint begin with it.
func TestValuesAreToldOnce(t *testing.T) {
	for _, source := range []string{
		"{id: w1, model: m, endpoint: 'tcp://h:1', hint: {worker_type: aggregated, endpoint: 'VALUE'}}",
		"{id: w1, model: m, endpoint: 'VALUE'}",
	} {
		for _, value := range []string{"tcp://0.0.0.0:0", "tcp://*:1", "h:1", "tcp://h", "tcp://h:x"} {
			_, err := Parse("c.yaml", []byte("sources: ["+strings.Replace(source, "VALUE", value, 1)+"]"))
			if err == nil || strings.Count(err.Error(), strconv.Quote(value)) != 1 {
				t.Errorf("%s: want the value once: %v", value, err)
			}
		}
	}
}

func TestParseReportsEveryProblem(t *testing.T) {
	_, err := Parse("c.yaml", []byte("lisen: a\nshards: x\nsources:\n  - id: a\n  - {id: b, ranks: no, policy: x}\n"))
	for _, key := range []string{"lisen:", "shards:", "sources[0].model:", "sources[1].ranks:", "sources[1].policy:"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not reported in\n%v", key, err)
		}
	}
}

func TestValidate(t *testing.T) {
	ok := func() Config {
		c := Default()
		c.Sources = []engine.Source{{ID: "w1", Model: "m", Endpoint: "tcp://h:1", Ranks: 1}}
		return c
	}
	for name, c := range map[string]struct {
		change func(*Config)
		want   string // "" = no error
	}{
		"good":       {func(*Config) {}, ""},
		"no sources": {func(c *Config) { c.Sources = nil }, "sources: is empty"},
		"same id":    {func(c *Config) { c.Sources = append(c.Sources, c.Sources[0]) }, `sources[1].id: "w1" is the id of sources[0] too`},
		"same endpoint": {func(c *Config) {
			c.Sources = append(c.Sources, engine.Source{ID: "w2", Model: "m", Endpoint: "tcp://h:1"})
		}, `sources[1].endpoint: "tcp://h:1" has rank 0 on tcp://h:1, which sources[0].endpoint follows too; want a publisher of its own`},
		"same endpoint by rank": {func(c *Config) {
			c.Sources[0].Ranks = 3
			c.Sources = append(c.Sources, engine.Source{ID: "w2", Model: "m", Shards: []string{"tcp://g:1", "tcp://h:3"}})
		}, `sources[1].shards[1]: "tcp://h:3" has rank 0 on tcp://h:3, which sources[0].endpoint follows too`},
		"same endpoint, all topics": {func(c *Config) {
			c.Sources = append(c.Sources, engine.Source{ID: "w2", Model: "m", Endpoint: "tcp://h:1", Topic: "b"})
		}, `which sources[0].endpoint follows too`},
		"same endpoint, other topic": {func(c *Config) {
			c.Sources[0].Topic = "a"
			c.Sources = append(c.Sources, engine.Source{ID: "w2", Model: "m", Endpoint: "tcp://h:1", Topic: "b"})
		}, ""},
		"neighbouring endpoints": {func(c *Config) {
			c.Sources[0].Ranks = 2
			c.Sources = append(c.Sources, engine.Source{ID: "w2", Model: "m", Endpoint: "tcp://h:3", Ranks: 2})
		}, ""},
		"open listener":         {func(c *Config) { c.Listen = "0.0.0.0:8090" }, `listen: "0.0.0.0:8090" can be reached from other machines`},
		"open, token only":      {func(c *Config) { c.Listen, c.TokenFile = "0.0.0.0:8090", "t" }, "can be reached from other machines"},
		"open, token and tls":   {func(c *Config) { c.Listen, c.TokenFile, c.TLSCert, c.TLSKey = "0.0.0.0:8090", "t", "c", "k" }, ""},
		"open, insecure":        {func(c *Config) { c.Listen, c.Insecure = "0.0.0.0:8090", true }, ""},
		"loopback of version 6": {func(c *Config) { c.Listen = "[::1]:8090" }, ""},
		"a name is not trusted": {func(c *Config) { c.Listen = "worker.localhost:8090" }, "can be reached"},
		"open admin":            {func(c *Config) { c.Admin = "10.0.0.1:8091" }, `admin: "10.0.0.1:8091" can be reached`},
		"no admin":              {func(c *Config) { c.Admin = None }, ""},
		"same address":          {func(c *Config) { c.Admin = c.Listen }, "is the address of listen too"},
		"certificate alone":     {func(c *Config) { c.TLSCert = "c" }, "tls_key: is missing"},
		"key alone":             {func(c *Config) { c.TLSKey = "k" }, "tls_cert: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			conf := ok()
			c.change(&conf)
			err := conf.Validate()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("unexpected: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	e, err := ReadEnvironment([]string{
		"CAIRN_CONFIG=/etc/cairn.yaml", "CAIRN_LISTEN=127.0.0.1:9", "CAIRN_ADMIN=none", "CAIRN_TOKEN_FILE=", "CAIRN_LOG_LEVEL=warn",
		"CAIRN_PORT=tcp://10.0.0.1:8090", "HOME=/",
	})
	if err != nil {
		t.Fatal(err)
	}
	if e.File == nil || *e.File != "/etc/cairn.yaml" {
		t.Errorf("CAIRN_CONFIG: %v", e.File)
	}
	c := Default()
	if err := c.Override(e); err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:9" || c.Admin != None || c.Log.Level != "warn" || c.Shards != DefaultShards {
		t.Errorf("got %+v", c)
	}
	e, _ = ReadEnvironment([]string{"CAIRN_SHARDS=many", "CAIRN_INSECURE=perhaps"})
	err = c.Override(e)
	for _, want := range []string{
		`CAIRN_SHARDS: shards: "many" is not a whole number; want a whole number from 1 to 256`,
		`CAIRN_INSECURE: insecure: "perhaps" is not a truth value; want true or false`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestEverySettingHasAVariable holds the struct that the environment is read
// into against the table of settings.
func TestEverySettingHasAVariable(t *testing.T) {
	variables := map[string]string{}
	v := reflect.TypeFor[Environment]()
	for i := range v.NumField() {
		if key, ok := v.Field(i).Tag.Lookup("key"); ok {
			variables[key] = Prefix + v.Field(i).Tag.Get("env")
		}
	}
	for _, s := range Settings {
		if variables[s.Key] != s.Variable() {
			t.Errorf("%s: variable %q, want %q", s.Key, variables[s.Key], s.Variable())
		}
		delete(variables, s.Key)
	}
	if len(variables) > 0 {
		t.Errorf("variables without a setting: %v", variables)
	}
}

// TestSettingsAreDocumented holds the tables of docs/configuration.md against
// the settings and the keys of a source.
func TestSettingsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	for _, s := range Settings {
		row := fmt.Sprintf("| `%s` | `%s` | `--%s` | `%s` |", s.Key, s.Variable(), s.Flag(), s.Get(&c))
		if s.Get(&c) == "" {
			row = strings.Replace(row, "``", "", 1)
		}
		if !strings.Contains(strings.ReplaceAll(string(text), "|  |", "| |"), strings.ReplaceAll(row, "|  |", "| |")) {
			t.Errorf("no row %s", row)
		}
	}
	_, listeners, _ := strings.Cut(string(text), "\n## Listeners\n")
	for _, key := range append(sourceKeys[:len(sourceKeys)-1:len(sourceKeys)-1], "hint.worker_type", "hint.endpoint", "hint.stride") {
		if !strings.Contains(string(text), "\n| `"+key+"` |") {
			t.Errorf("no row of the source's key %s", key)
		}
	}
	for _, key := range listenerKeys {
		if !strings.Contains(listeners, "\n| `"+key+"`") && !strings.Contains(listeners, "`, `"+key+"`") {
			t.Errorf("no row of the listener's key %s", key)
		}
	}
	l := defaultListener()
	for _, row := range []string{
		fmt.Sprintf("`max_sources` | `%d`", l.MaxSources), fmt.Sprintf("`max_streams` | `%d`", l.MaxStreams),
		fmt.Sprintf("`forget_after` | `%v`", l.ForgetAfter),
		fmt.Sprintf("`max_connections` | `%d`", l.MaxConns), fmt.Sprintf("`max_message` | `%s`", formatBytes(int64(l.MaxMessage))),
		fmt.Sprintf("`max_memory` | `%s`", formatBytes(l.MaxMemory)), fmt.Sprintf("`handshake_timeout` | `%v`", l.HandshakeTimeout),
	} {
		if !strings.Contains(listeners, row) {
			t.Errorf("no row %s", row)
		}
	}
}

// FuzzParse: a file is refused with problems or read, and what is read is
// printed and read back as the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(goodListeners))
	f.Add([]byte("sources: [{id: 7, model: [m], shards: {a: 1}}]\nlog: &a {level: *a}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f.yaml", data)
		if err != nil {
			return
		}
		out, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("printed.yaml", out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if d := cmp.Diff(c, again, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("(-read +read back)\n%s", d)
		}
	})
}
