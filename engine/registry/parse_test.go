package registry

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine/identity"
	"github.com/cairn-kv/cairn/engine/validate"
)

const goodBody = `{"id":"w1","model":"m","worker_id":"18446744073709551615","producer_instance":9007199254740993,"target_host":7,
 "ingress_protocol":"sglang_hi_cache_v1","kv_state_endpoint":"s","kv_block_size":64,"image_token_id":5,"lease_ms":30000,
 "router_hint_worker_type":"agg","router_hint_source_control_endpoints":{"3":"tcp://10.0.0.7:23280"},
 "hint_carrier":"kv_transfer_params.kv_hint","hint_link":"rdma","hint_tp":2,
 "ranks":[{"dp_rank":3,"cache_owner_id":"01010101010101010101010101010101:02020202020202020202020202020202/00000000000000ff/00000000000000000000000000000001",
  "intent_incarnation":"9007199254740991","raw_zmq_endpoints":["tcp://10.0.0.7:5557","tcp://10.0.0.7:5567"],
  "raw_replay_endpoints":["tcp://10.0.0.7:6557","tcp://10.0.0.7:6567"],"raw_topic":"kv@3"}]}`

func TestParseWorker(t *testing.T) {
	w, err := ParseWorker("w1", []byte(goodBody))
	if err != nil {
		t.Fatal(err)
	}
	five := uint32(5)
	want := Worker{ID: "w1", Model: "m", Protocol: identity.HiCache, TTL: 30 * time.Second, WorkerType: "aggregated",
		HintEndpoints: map[string]string{"3": "tcp://10.0.0.7:23280"}, HintCarrier: "kv_transfer_params.kv_hint", HintLink: "rdma", HintTP: 2, WorkerID: math.MaxUint64, Producer: 1<<53 + 1, TargetHost: 7,
		StateEndpoint: "s", BlockSize: 64, ImageToken: &five,
		Ranks: []Rank{{Rank: 3, Endpoints: []string{"tcp://10.0.0.7:5557", "tcp://10.0.0.7:5567"},
			Replays: []string{"tcp://10.0.0.7:6557", "tcp://10.0.0.7:6567"}, Topic: "kv@3", Owner: ownerID(t, scopeA, 1), Incarnation: identity.MaxID}}}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("\n got %+v\nwant %+v", w, want)
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
	plain, err := ParseWorker("p1", []byte(`{"model":"m","ranks":[{"dp_rank":"0","raw_zmq_endpoint":"tcp://h:5557","raw_replay_endpoint":"tcp://h:6557"}]}`))
	if want := (Worker{ID: "p1", Model: "m", TTL: DefaultTTL, Ranks: []Rank{{Endpoints: []string{"tcp://h:5557"}, Replays: []string{"tcp://h:6557"}}}}); err != nil || !reflect.DeepEqual(plain, want) {
		t.Errorf("plain: %+v, %v", plain, err)
	}
}

func TestParseWorkerRefuses(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		rule           validate.Rule
		field          string
	}{
		{"another id", `"id":"w1"`, `"id":"w2"`, validate.JSONType, "id"},
		{"no model", `"model":"m",`, ``, validate.JSONMissing, "model"},
		{"no worker id", `"worker_id":"18446744073709551615",`, ``, validate.JSONMissing, "worker_id"},
		{"no block size", `"kv_block_size":64,`, ``, validate.JSONMissing, "kv_block_size"},
		{"block size 0", `"kv_block_size":64`, `"kv_block_size":0`, validate.JSONNumber, "kv_block_size"},
		{"no owner", `"cache_owner_id"`, `"x_cache_owner_id"`, validate.JSONMissing, "ranks[0].cache_owner_id"},
		{"owner misspelt", `/00000000000000ff/`, `/00000000000000FF/`, validate.OwnerSpelling, "ranks[0].cache_owner_id"},
		{"domain misspelt", `"model":"m"`, `"model":"m","indexer_domain_id":"x"`, validate.OwnerSpelling, "indexer_domain_id"},
		{"no protocol", `sglang_hi_cache_v1`, `sglang_v1`, validate.DescriptorProtocol, "ingress_protocol"},
		{"no worker type", `"agg"`, `"both"`, validate.JSONType, "router_hint_worker_type"},
		{"no rank", `"dp_rank":3,`, ``, validate.JSONMissing, "ranks[0].dp_rank"},
		{"rank too large", `"dp_rank":3`, `"dp_rank":2147483648`, validate.JSONNumber, "ranks[0].dp_rank"},
		{"incarnation 0", `"9007199254740991"`, `0`, validate.JSONNumber, "ranks[0].intent_incarnation"},
		{"incarnation of 54 bits", `"9007199254740991"`, `9007199254740992`, validate.JSONNumber, "ranks[0].intent_incarnation"},
		{"both endpoints", `"raw_topic"`, `"raw_zmq_endpoint":"tcp://h:1","raw_topic"`, validate.JSONTwice, "ranks[0].raw_zmq_endpoint"},
		{"both replay endpoints", `"raw_topic"`, `"raw_replay_endpoint":"tcp://h:1","raw_topic"`, validate.JSONTwice, "ranks[0].raw_replay_endpoint"},
		{"lease too short", `30000`, `999`, validate.JSONNumber, "lease_ms"},
		{"lease too long", `30000`, `600001`, validate.JSONNumber, "lease_ms"},
		{"unknown field", `"model":"m"`, `"model":"m","Model":"m"`, validate.JSONUnknown, "Model"},
		{"token too large", `"image_token_id":5`, `"image_token_id":4294967296`, validate.JSONNumber, "image_token_id"},
	} {
		text := strings.Replace(goodBody, c.old, c.new, 1)
		if text == goodBody {
			t.Fatalf("%s changes nothing", c.name)
		}
		_, err := ParseWorker("w1", []byte(text))
		var list validate.Errors
		if !errors.As(err, &list) || !slices.ContainsFunc(list, func(e *validate.Error) bool { return e.Rule == c.rule && e.Field == c.field }) {
			t.Errorf("%s: %v is not %v of %s", c.name, err, c.rule, c.field)
		}
	}
}

func TestParseFile(t *testing.T) {
	without := strings.Replace(strings.Replace(goodBody, `"intent_incarnation":"9007199254740991",`, "", 1), `"lease_ms":30000,`, "", 1)
	file := func(bodies ...string) []byte { return []byte(`{"workers":[` + strings.Join(bodies, ",") + `]}`) }
	all, err := ParseFile(file(without, strings.Replace(without, `"w1"`, `"w2"`, 1)))
	if err != nil || len(all) != 2 || all[0].TTL != 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	first, second := all[0].Ranks[0].Incarnation, all[1].Ranks[0].Incarnation
	if first < 1 || first > identity.MaxID || first == second {
		t.Errorf("incarnations %d and %d", first, second)
	}
	again, _ := ParseFile(file(without))
	if again[0].Ranks[0].Incarnation != first {
		t.Error("the same content has another incarnation")
	}
	for _, change := range [][2]string{{"9007199254740993", "9007199254740992"}, {"kv@3", "kv@4"}, {":23280", ":23281"}, {`"kv_block_size":64`, `"kv_block_size":65`}, {"10.0.0.7:5567", "10.0.0.7:5568"}} {
		other, err := ParseFile(file(strings.Replace(without, change[0], change[1], 1)))
		if err != nil || other[0].Ranks[0].Incarnation == first {
			t.Errorf("%v leaves the incarnation as it was, %v", change, err)
		}
	}
	for name, c := range map[string]struct {
		text  []byte
		rule  validate.Rule
		field string
	}{
		"twice":   {file(without, without), validate.JSONTwice, "workers[1].id"},
		"no id":   {file(strings.Replace(without, `"id":"w1",`, "", 1)), validate.JSONMissing, "workers[0].id"},
		"a lease": {file(goodBody), validate.JSONUnknown, "workers[0].lease_ms"},
		"no list": {[]byte(`{}`), validate.JSONMissing, "workers"},
		"inside":  {file(strings.Replace(without, `"dp_rank":3`, `"dp_rank":-3`, 1)), validate.JSONNumber, "workers[0].ranks[0].dp_rank"},
	} {
		_, err := ParseFile(c.text)
		var list validate.Errors
		if !errors.As(err, &list) || !slices.ContainsFunc(list, func(e *validate.Error) bool { return e.Rule == c.rule && e.Field == c.field }) {
			t.Errorf("%s: %v is not %v of %s", name, err, c.rule, c.field)
		}
	}
	if all, err := ParseFile([]byte(`{"workers":[]}`)); err != nil || len(all) != 0 {
		t.Errorf("empty: %v, %v", all, err)
	}
}
