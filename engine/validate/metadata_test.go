package validate

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/engine/identity"
)

type object = map[string]json.RawMessage

func parse(t testing.TB, text string) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// plainSettings are those that every row asks for.
func plainSettings(rows []setting) Settings {
	s := Settings{}
	for _, row := range rows {
		s[row.name.Text()] = json.RawMessage(row.need)
	}
	return s
}

func agentText(host, owners string) string {
	return `{"dynamo_state_agent":{"raw_advertise_host":` + host + `,"cache_owner_ids":` + owners + `}}`
}

const goodOwners = `{"0":"` + domain2 + slotA + `","1":"` + domain2 + slotB + `"}`

var managed = []uint32{0, 1}

func TestVLLM(t *testing.T) {
	a, ok, err := VLLM(parse(t, agentText(`"W1.example."`, goodOwners)), plainSettings(vllmSettings), managed)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if a.Host != "w1.example" || a.Protocol != identity.VLLMResidency || a.Owners[0] != owner(t, domain2+slotA) || a.Owners[1] != owner(t, domain2+slotB) {
		t.Errorf("agent is %+v", a)
	}
	for name, text := range map[string]string{"absent": `{}`, "null": `{"dynamo_state_agent":null}`} {
		if _, ok, err := VLLM(parse(t, text), nil, managed); ok || err != nil {
			t.Errorf("%s: %v, %v: a plain worker needs no settings", name, ok, err)
		}
	}
	const at = "dynamo_state_agent.cache_owner_ids"
	for _, c := range []struct {
		name, text, field, value string
		refusal
	}{
		{"no object", `{"dynamo_state_agent":true}`, "dynamo_state_agent", "true", refusal{MetadataShape, []string{"object"}}},
		{"another field", `{"dynamo_state_agent":{"raw_advertise_host":"h","cache_owner_ids":` + goodOwners + `,"rank":1}}`, "dynamo_state_agent.rank", "1", refusal{MetadataShape, []string{"raw_advertise_host and cache_owner_ids"}}},
		{"no host", `{"dynamo_state_agent":{"cache_owner_ids":` + goodOwners + `}}`, "dynamo_state_agent.raw_advertise_host", "", refusal{HostRequired, []string{"required"}}},
		{"host no string", agentText(`7`, goodOwners), "dynamo_state_agent.raw_advertise_host", "7", refusal{HostRequired, []string{"required", "no string"}}},
		{"host blank", agentText(`" "`, goodOwners), "dynamo_state_agent.raw_advertise_host", " ", refusal{HostRequired, []string{"required"}}},
		{"host null", agentText(`null`, goodOwners), "dynamo_state_agent.raw_advertise_host", "", refusal{HostRequired, []string{"required"}}},
		{"host loopback", agentText(`"127.1"`, goodOwners), "dynamo_state_agent.raw_advertise_host", "127.1", refusal{HostLoopbackAddress, []string{selfSubscribeText}}},
		{"no owners", `{"dynamo_state_agent":{"raw_advertise_host":"h"}}`, at, "", refusal{SettingMissing, []string{"not stated"}}},
		{"owners no object", agentText(`"h"`, `[]`), at, "[]", refusal{MetadataShape, []string{"object"}}},
		{"owners null", agentText(`"h"`, `null`), at, "null", refusal{MetadataShape, []string{"object"}}},
		{"owner no string", agentText(`"h"`, `{"0":1}`), at, `{"0":1}`, refusal{MetadataShape, []string{"strings"}}},
		{"rank missing", agentText(`"h"`, `{"0":"`+domain2+slotA+`"}`), at, "1", refusal{OwnerRankMissing, []string{"rank 1 has no cache owner", "ranks given: [0]", "[0 1]"}}},
		{"rank extra", agentText(`"h"`, `{"0":"`+domain2+slotA+`","1":"`+domain2+slotB+`","5":"`+domain3+slotB+`"}`), at, "5", refusal{OwnerRankUnknown, []string{"rank 5", "[0 1]"}}},
		{"owner shared", agentText(`"h"`, `{"0":"`+domain2+slotA+`","1":"`+domain2+slotA+`"}`), at + "[1]", domain2 + slotA, refusal{OwnerShared, []string{"ranks 0 and 1"}}},
		{"owner misspelt", agentText(`"h"`, `{"0":"`+domain2+slotA+`","1":"x"}`), at + "[1]", "x", refusal{OwnerSpelling, []string{"semantics:scope/dc/slot"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := VLLM(parse(t, c.text), plainSettings(vllmSettings), managed)
			c.check(t, err, c.field, c.value)
		})
	}
	for _, spelt := range []string{"00", "+0", "-1", " 0", "0x0", "4294967296", "", "zero"} {
		t.Run("rank "+spelt, func(t *testing.T) {
			_, err := RankOwners("f", map[string]string{spelt: domain2 + slotA}, nil)
			refusal{RankSpelling, []string{"plain decimal"}}.check(t, err, "f", spelt)
		})
	}
}

func hiCacheText(extra string) string {
	return strings.Replace(agentText(`"h"`, goodOwners), "{\"raw", "{"+extra+"\"raw", 1)
}

func TestHiCache(t *testing.T) {
	const yes = `"publish_inventory":true,`
	a, ok, err := HiCache(parse(t, hiCacheText(yes)), plainSettings(hiCacheSettings), managed)
	if err != nil || !ok || a.Protocol != identity.HiCache || len(a.Owners) != 2 || a.Host != "h" {
		t.Fatalf("%+v, %v, %v", a, ok, err)
	}
	for name, text := range map[string]string{
		"absent": `{}`, "null": `{"dynamo_state_agent":null}`,
		"disabled": `{"dynamo_state_agent":{"publish_inventory":false}}`,
	} {
		if _, ok, err := HiCache(parse(t, text), nil, managed); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	for _, c := range []struct {
		name, text, field, value string
		refusal
	}{
		{"not stated", hiCacheText(""), "dynamo_state_agent.publish_inventory", "", refusal{SettingMissing, []string{"not stated"}}},
		{"no truth value", hiCacheText(`"publish_inventory":1,`), "dynamo_state_agent.publish_inventory", "1", refusal{MetadataShape, []string{"truth value"}}},
		{"no host", `{"dynamo_state_agent":{"publish_inventory":true,"cache_owner_ids":` + goodOwners + `}}`, "dynamo_state_agent.raw_advertise_host", "", refusal{HostRequired, []string{"required"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := HiCache(parse(t, c.text), plainSettings(hiCacheSettings), managed)
			c.check(t, err, c.field, c.value)
		})
	}
}

// TestSettings takes every setting away in turn, renames it, and gives it a
// value that rules residency out.
func TestSettings(t *testing.T) {
	for _, engine := range []struct {
		name  string
		rows  []setting
		check func(s Settings) error
	}{
		{"vllm", vllmSettings, func(s Settings) error {
			_, _, err := VLLM(parse(t, agentText(`"h"`, goodOwners)), s, managed)
			return err
		}},
		{"hicache", hiCacheSettings, func(s Settings) error {
			_, _, err := HiCache(parse(t, hiCacheText(`"publish_inventory":true,`)), s, managed)
			return err
		}},
	} {
		for _, row := range engine.rows {
			name := row.name.Text()
			t.Run(engine.name+"/"+name, func(t *testing.T) {
				s := plainSettings(engine.rows)
				wrong := `2`
				switch row.need {
				case "true":
					wrong = "false"
				case "false":
					wrong = "true"
				}
				s[name] = json.RawMessage(wrong)
				refusal{SettingUnfit, []string{row.why, row.need}}.check(t, engine.check(s), name, wrong)

				renamed := maps.Clone(s)
				delete(renamed, name)
				renamed["new_"+name] = json.RawMessage(row.need)
				missing := refusal{SettingMissing, []string{"not stated"}}
				missing.check(t, engine.check(renamed), name, "")
				s[name] = json.RawMessage("null")
				missing.check(t, engine.check(s), name, "")
			})
		}
	}
}

func TestHintCapability(t *testing.T) {
	const both = `"router_hint_source_control_endpoints":{"0":"tcp://127.0.0.1:23280","1":"tcp://H:23284"}`
	for _, c := range []struct {
		name, text string
		ok         bool
		want       HintCapability
	}{
		{"source and target", `{"router_hint":true,"router_hint_worker_type":"agg",` + both + `}`, true,
			HintCapability{"aggregated", map[uint32]string{0: "tcp://127.0.0.1:23280", 1: "tcp://h:23284"}}},
		{"target only", `{"router_hint":true,"router_hint_worker_type":"decode"}`, true, HintCapability{WorkerType: "decode"}},
		{"target only, empty map", `{"router_hint":true,"router_hint_worker_type":"decode","router_hint_source_control_endpoints":{}}`, true, HintCapability{WorkerType: "decode"}},
		{"branch aliases", `{"kv_hint.transfer.v1":true,"kv_hint_transfer_worker_type":"prefill","kv_hint_transfer_source_control_endpoints":{"0":"tcp://h:1","1":"tcp://h:2"}}`, true,
			HintCapability{"prefill", map[uint32]string{0: "tcp://h:1", 1: "tcp://h:2"}}},
		{"absent", `{}`, false, HintCapability{}},
		{"off", `{"router_hint":false,"router_hint_worker_type":"nonsense"}`, false, HintCapability{}},
		{"not yet written", `{"router_hint_worker_type":"agg",` + both + `}`, false, HintCapability{}},
		{"no type", `{"router_hint":true,` + both + `}`, false, HintCapability{}},
		{"empty type", `{"router_hint":true,"router_hint_worker_type":""}`, false, HintCapability{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok, err := ReadHintCapability(parse(t, c.text), managed)
			if err != nil || ok != c.ok || got.WorkerType != c.want.WorkerType || !maps.Equal(got.Endpoints, c.want.Endpoints) {
				t.Errorf("%+v, %v, %v", got, ok, err)
			}
		})
	}
	const eps = "router_hint_source_control_endpoints"
	capable := func(endpoints string) string {
		return `{"router_hint":true,"router_hint_worker_type":"agg","` + eps + `":` + endpoints + `}`
	}
	for _, c := range []struct {
		name, text, field, value string
		refusal
	}{
		{"R7 rank without endpoint", capable(`{"0":"tcp://h:1"}`), eps, "1", refusal{HintRankMissing, []string{"rank 1 has no hint endpoint", "ranks given: [0]", "[0 1]"}}},
		{"unmanaged rank", capable(`{"0":"tcp://h:1","1":"tcp://h:2","2":"tcp://h:3"}`), eps, "2", refusal{HintRankUnknown, []string{"rank 2", "[0 1]"}}},
		{"bare rank", capable(`{"0":"tcp://h:1","1":"tcp://h:2","01":"tcp://h:3"}`), eps, "01", refusal{RankSpelling, []string{"plain decimal"}}},
		{"bind-only", capable(`{"0":"tcp://h:1","1":"tcp://0.0.0.0:2"}`), eps + "[1]", "tcp://0.0.0.0:2", refusal{HintUnspecified, []string{"peer"}}},
		{"empty endpoint", capable(`{"0":"tcp://h:1","1":""}`), eps + "[1]", "", refusal{HostRequired, []string{"required"}}},
		{"no object", capable(`["tcp://h:1"]`), eps, `["tcp://h:1"]`, refusal{MetadataShape, []string{"object"}}},
		{"no truth value", `{"router_hint":1}`, "router_hint", "1", refusal{MetadataShape, []string{"truth"}}},
		{"type no string", `{"router_hint":true,"router_hint_worker_type":1}`, "router_hint_worker_type", "1", refusal{MetadataShape, []string{"aggregated"}}},
		{"unknown type", `{"router_hint":true,"router_hint_worker_type":"both"}`, "router_hint_worker_type", "both", refusal{HintWorkerType, []string{"aggregated, prefill, decode"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, ok, err := ReadHintCapability(parse(t, c.text), managed)
			if ok {
				t.Error("is capable all the same")
			}
			c.check(t, err, c.field, c.value)
		})
	}
}

func TestPort(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "65535": 65535, "5000": 5000, `"5003"`: 5003, " 7 ": 7} {
		if got, err := Port("p", json.RawMessage(text)); err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"true": "truth value", "false": "truth value", "0": "no port", "65536": "no port", "-1": "no port", "1.0": "no port", "1e3": "no port",
		`"0"`: "no port", `"x"`: "no port", `""`: "not stated", "null": "not stated", "": "not stated", "[1]": "no port", `"01"`: "no port", "'5'": "no port",
	} {
		value := strings.Trim(text, `"`)
		_, err := Port("p", json.RawMessage(text))
		t.Run(text, func(t *testing.T) { refusal{EndpointPort, []string{says, "65535"}}.check(t, err, "p", value) })
	}
}
