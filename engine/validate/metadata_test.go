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

func TestHintEndpoints(t *testing.T) {
	got, err := HintEndpoints("f", map[string]string{"0": "tcp://127.0.0.1:23280", "1": "tcp://H:23284"}, managed)
	if want := map[uint32]string{0: "tcp://127.0.0.1:23280", 1: "tcp://h:23284"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := HintEndpoints("f", nil, managed); got != nil || err != nil {
		t.Errorf("a worker that is a target only: %v, %v", got, err)
	}
	const eps = "router_hint_source_control_endpoints"
	for _, c := range []struct {
		name         string
		endpoints    map[string]string
		field, value string
		refusal
	}{
		{"R7 rank without endpoint", map[string]string{"0": "tcp://h:1"}, eps, "1", refusal{HintRankMissing, []string{"rank 1 has no hint endpoint", "ranks given: [0]", "[0 1]"}}},
		{"unmanaged rank", map[string]string{"0": "tcp://h:1", "1": "tcp://h:2", "2": "tcp://h:3"}, eps, "2", refusal{HintRankUnknown, []string{"rank 2", "[0 1]"}}},
		{"misspelt rank", map[string]string{"0": "tcp://h:1", "1": "tcp://h:2", "01": "tcp://h:3"}, eps, "01", refusal{RankSpelling, []string{"plain decimal"}}},
		{"bind-only", map[string]string{"0": "tcp://h:1", "1": "tcp://0.0.0.0:2"}, eps + "[1]", "tcp://0.0.0.0:2", refusal{HintUnspecified, []string{"peer"}}},
		{"empty endpoint", map[string]string{"0": "tcp://h:1", "1": ""}, eps + "[1]", "", refusal{HostRequired, []string{"required"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := HintEndpoints(eps, c.endpoints, managed)
			c.check(t, err, c.field, c.value)
		})
	}
}
