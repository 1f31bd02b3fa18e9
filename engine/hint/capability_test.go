package hint

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCapability(t *testing.T) {
	full := Capability{Role: Decode, Endpoints: []RankedEndpoint{{2, "tcp://10.0.0.7:23280"}, {3, "tcp://10.0.0.7:23284"}}}
	cases := []struct {
		name, metadata string
		want           Capability
		err            string
	}{
		{"router_hint", `{"kv_cache_block_size":64,"router_hint":true,"router_hint_worker_type":"decode","router_hint_source_control_endpoints":{"3":"tcp://10.0.0.7:23284","2":"tcp://10.0.0.7:23280"}}`, full, ""},
		{"branch aliases", `{"kv_hint.transfer.v1":true,"kv_hint_transfer_worker_type":"decode","kv_hint_transfer_source_control_endpoints":{"2":"tcp://10.0.0.7:23280","3":"tcp://10.0.0.7:23284"}}`, full, ""},
		{"JSON inside strings, as registries store it", `{"router_hint":"true","router_hint_worker_type":"\"decode\"","router_hint_source_control_endpoints":"{\"2\":\"tcp://10.0.0.7:23280\",\"3\":\"tcp://10.0.0.7:23284\"}"}`, full, ""},
		{"both spellings that agree", `{"router_hint":true,"kv_hint.transfer.v1":true,"router_hint_worker_type":"prefill","kv_hint_transfer_worker_type":"prefill"}`, Capability{Role: Prefill}, ""},
		{"both spellings that do not", `{"router_hint":true,"router_hint_worker_type":"prefill","kv_hint_transfer_worker_type":"decode"}`, Capability{}, "must agree"},
		{"agg is aggregated", `{"router_hint":true,"router_hint_worker_type":"agg"}`, Capability{Role: Aggregated}, ""},
		{"a target needs only the type", `{"router_hint":true,"router_hint_worker_type":"aggregated"}`, Capability{Role: Aggregated}, ""},
		{"no capability key: not capable, whatever else stands there", `{"router_hint_worker_type":"nonsense","router_hint_source_control_endpoints":7}`, Capability{}, ""},
		{"capability false", `{"router_hint":false,"router_hint_worker_type":"decode"}`, Capability{}, ""},
		{"capability null", `{"router_hint":null}`, Capability{}, ""},
		{"capability is a number", `{"router_hint":1}`, Capability{}, "not true or false"},
		{"type absent", `{"router_hint":true}`, Capability{}, "not capable"},
		{"type empty", `{"router_hint":true,"router_hint_worker_type":""}`, Capability{}, "not capable"},
		{"type unknown", `{"router_hint":true,"router_hint_worker_type":"encode"}`, Capability{}, `"encode": wants one of aggregated`},
		{"type is a number", `{"router_hint":true,"router_hint_worker_type":3}`, Capability{}, "not a string"},
		{"a rank missing", `{"router_hint":true,"router_hint_worker_type":"decode","router_hint_source_control_endpoints":{"2":"tcp://h:1"}}`, Capability{}, "missing 3, extra none"},
		{"a rank too many", `{"router_hint":true,"router_hint_worker_type":"decode","router_hint_source_control_endpoints":{"2":"tcp://h:1","3":"tcp://h:2","4":"tcp://h:3"}}`, Capability{}, "missing none, extra 4"},
		{"a rank that is no plain decimal", `{"router_hint":true,"router_hint_worker_type":"decode","router_hint_source_control_endpoints":{"02":"tcp://h:1"}}`, Capability{}, `"02"`},
		{"an endpoint nobody can dial", `{"router_hint":true,"router_hint_worker_type":"decode","router_hint_source_control_endpoints":{"2":"tcp://0.0.0.0:1","3":"tcp://h:1"}}`, Capability{}, "bind-only"},
		{"endpoints is a list", `{"router_hint":true,"router_hint_worker_type":"decode","router_hint_source_control_endpoints":[]}`, Capability{}, "not a JSON object"},
		{"not an object", `7`, Capability{}, "metadata"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseCapability([]byte(tc.metadata), 2, 2)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v does not say %q", err, tc.err)
				}
			} else if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := ParseCapability([]byte(`{"router_hint":true}`), 0, 1); !errors.Is(err, ErrNoWorkerType) {
		t.Errorf("%v is not ErrNoWorkerType", err)
	}
	if full.Endpoint(3) != "tcp://10.0.0.7:23284" || full.Endpoint(1) != "" {
		t.Errorf("endpoints of 3 and 1: %q %q", full.Endpoint(3), full.Endpoint(1))
	}
}

// TestMetadataWrittenInOrder: no beginning of what a worker writes looks capable.
func TestMetadataWrittenInOrder(t *testing.T) {
	c := Capability{Role: Decode, Endpoints: []RankedEndpoint{{0, "tcp://h:1"}, {1, "tcp://h:2"}}}
	want := `{"router_hint_source_control_endpoints":{"0":"tcp://h:1","1":"tcp://h:2"},"router_hint_worker_type":"decode","router_hint":true}`
	data := string(c.AppendMetadata(nil))
	if data != want {
		t.Errorf("\n got %s\nwant %s", data, want)
	}
	if got, err := ParseCapability([]byte(data), 0, 2); err != nil || cmp.Diff(c, got) != "" {
		t.Errorf("read back %+v, %v", got, err)
	}
	for i, b := range data { // members that are already written, as an object
		if b != ',' {
			continue
		}
		if got, err := ParseCapability([]byte(data[:i]+"}"), 0, 2); err == nil && got.Role != NotCapable {
			t.Errorf("%s} is capable", data[:i])
		}
	}
	if got := string((&Capability{}).AppendMetadata(nil)); got != "{}" {
		t.Errorf("no capability is written as %s", got)
	}
}

// TestPorts are the examples of the specification and what it refuses.
func TestPorts(t *testing.T) {
	cases := []struct {
		name  string
		ports Ports
		want  string // "rank→port …"
		dial  [3]int // rank, shard, port that it dials; all zero: not asked
		err   string
	}{
		{"tp 8, dp 2, DP attention, port 23280", Ports{SGLang: true, Host: "10.0.0.7", Port: 23280, Ranks: 2, TP: 8, DP: 2, DPAttention: true}, "0→23280 1→23284", [3]int{1, 2, 23286}, ""},
		{"second node, dp_start 2, one local rank", Ports{SGLang: true, Host: "10.0.0.7", Port: 23280, First: 2, TP: 8, DP: 4, DPAttention: true}, "2→23280", [3]int{}, ""},
		{"tp 2, dp 1", Ports{SGLang: true, Host: "10.0.0.7", Port: 23280, TP: 2}, "0→23280", [3]int{0, 1, 23281}, ""},
		{"control_ports of vLLM, dp_start 4", Ports{Host: "10.0.0.7", List: []int{5000, 5003}, First: 4, Ranks: 2, DP: 2}, "4→5000 5→5003", [3]int{}, ""},
		{"control_port 65534, stride 4, two ranks", Ports{SGLang: true, Host: "10.0.0.7", Port: 65534, Ranks: 2, TP: 8, DP: 2, DPAttention: true}, "", [3]int{}, "dp rank 1: control port would be 65538"},
		{"vLLM, older", Ports{Host: "10.0.0.7", Port: 23280, Ranks: 3, First: 1, TP: 4, DP: 4}, "1→23280 2→23281 3→23282", [3]int{}, ""},
		{"without DP attention the stride is 1", Ports{SGLang: true, Host: "10.0.0.7", Port: 7, Ranks: 2, TP: 8, DP: 2}, "0→7 1→8", [3]int{}, ""},
		{"dp 1 with DP attention", Ports{SGLang: true, Host: "10.0.0.7", Port: 7, TP: 8, DP: 1, DPAttention: true}, "0→7", [3]int{}, ""},
		{"SGLang advertises its own host if it must", Ports{SGLang: true, Bind: "10.0.0.7", Port: 7}, "0→7", [3]int{}, ""},
		{"and its advertised host first", Ports{SGLang: true, Host: "10.0.0.7", Bind: "0.0.0.0", Port: 7}, "0→7", [3]int{}, ""},

		{"a block beyond the last port", Ports{SGLang: true, Host: "10.0.0.7", Port: 65535, TP: 2}, "", [3]int{}, "shard 1 would dial port 65536"},
		{"tp that dp does not divide", Ports{SGLang: true, Host: "10.0.0.7", Port: 7, Ranks: 3, TP: 8, DP: 3, DPAttention: true}, "", [3]int{}, "tp_size 8 with dp_size 3"},
		{"more ranks than shards", Ports{SGLang: true, Host: "10.0.0.7", Port: 7, Ranks: 2, TP: 1, DP: 2, DPAttention: true}, "", [3]int{}, "tp_size 1 with dp_size 2"},
		{"pipeline parallelism", Ports{Host: "10.0.0.7", Port: 7, PP: 2}, "", [3]int{}, "pp_size 2"},
		{"a list of another length", Ports{Host: "10.0.0.7", List: []int{5000}, Ranks: 2}, "", [3]int{}, "each of 2 local dp ranks"},
		{"an empty list", Ports{Host: "10.0.0.7", List: []int{}}, "", [3]int{}, "0 ports"},
		{"a list beside a port", Ports{Host: "10.0.0.7", List: []int{5000}, Port: 5000}, "", [3]int{}, "no control_port beside it"},
		{"a list of SGLang", Ports{SGLang: true, Host: "10.0.0.7", List: []int{5000}}, "", [3]int{}, "wants vLLM"},
		{"a listed port of 0", Ports{Host: "10.0.0.7", List: []int{5000, 0}, Ranks: 2}, "", [3]int{}, "dp rank 1: control port would be 0"},
		{"port 0", Ports{Host: "10.0.0.7"}, "", [3]int{}, "ephemeral"},
		{"port 0 of the first of two ranks", Ports{Host: "10.0.0.7", Ranks: 2}, "", [3]int{}, "dp rank 0"},
		{"no host", Ports{Port: 7}, "", [3]int{}, "control_advertise_host: is empty"},
		{"vLLM does not advertise what it binds", Ports{Bind: "10.0.0.7", Port: 7}, "", [3]int{}, "control_advertise_host: is empty"},
		{"a wildcard", Ports{SGLang: true, Bind: "0.0.0.0", Port: 7}, "", [3]int{}, `control_host: "0.0.0.0"`},
		{"a wildcard of six", Ports{Host: "::", Port: 7}, "", [3]int{}, "cannot be advertised"},
		{"a star", Ports{Host: "*", Port: 7}, "", [3]int{}, "cannot be advertised"},
		{"a host with scheme", Ports{Host: "tcp://h", Port: 7}, "", [3]int{}, "cannot be advertised"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			all, err := tc.ports.Endpoints()
			if tc.err != "" {
				if err == nil || all != nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, %v does not say %q", all, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range all {
				got = append(got, strings.Replace(e.text(), "tcp://10.0.0.7:", "", 1))
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("%s, want %s", s, tc.want)
			}
			if d := tc.dial; d != [3]int{} {
				c := Capability{Endpoints: all}
				if ep, err := ShardEndpoint(c.Endpoint(d[0]), d[1]); err != nil || ep != JoinEndpoint("10.0.0.7", d[2]) {
					t.Errorf("shard %d of rank %d dials %q, %v; want port %d", d[1], d[0], ep, err, d[2])
				}
			}
		})
	}
	six := Ports{Host: "fd00::7", Port: 7}
	if all, err := six.Endpoints(); err != nil || all[0].Endpoint != "tcp://[fd00::7]:7" {
		t.Errorf("%v, %v", all, err)
	}
	six.Host = "[fd00::7]"
	if all, err := six.Endpoints(); err != nil || all[0].Endpoint != "tcp://[fd00::7]:7" {
		t.Errorf("in brackets: %v, %v", all, err)
	}
	if err := CheckWidths(2, 4); !errors.Is(err, ErrWidth) || !strings.Contains(err.Error(), "2 shards, the target 4") {
		t.Errorf("unequal widths: %v", err)
	}
	if err := CheckWidths(2, 2); err != nil {
		t.Errorf("equal widths: %v", err)
	}
	for _, tc := range []struct {
		base  string
		shard int
	}{{"tcp://h:65535", 1}, {"tcp://h:1", -1}, {"h:1", 0}} {
		if ep, err := ShardEndpoint(tc.base, tc.shard); err == nil {
			t.Errorf("%v dials %q", tc, ep)
		}
	}
}

func (e RankedEndpoint) text() string {
	return strconv.Itoa(e.Rank) + "→" + e.Endpoint
}

func TestVLLMPorts(t *testing.T) {
	tiers := func(s string) string {
		return `{"kv_connector":"x","kv_connector_extra_config":{"secondary_tiers":[` + s + `]}}`
	}
	one := `{"type":"kvcr","router_capabilities":["router_hint"],"control_host":"0.0.0.0","control_advertise_host":"10.0.0.7","control_port":"23280"}`
	cases := []struct {
		name, config string
		want         *Ports
		err          string
	}{
		{"one tier takes hints", tiers(`{"type":"fs"},` + one), &Ports{Host: "10.0.0.7", Bind: "0.0.0.0", Port: 23280}, ""},
		{"under the name of a branch", tiers(strings.Replace(one, "router_hint", "kv_hint.transfer.v1", 1)), &Ports{Host: "10.0.0.7", Bind: "0.0.0.0", Port: 23280}, ""},
		{`control_ports [5000, "5003"]`, tiers(`{"router_capabilities":["router_hint"],"control_advertise_host":"10.0.0.7","control_ports":[5000,"5003"]}`), &Ports{Host: "10.0.0.7", List: []int{5000, 5003}}, ""},
		{"none takes hints", tiers(`{"type":"fs"}`), nil, ""},
		{"no tiers", `{"kv_connector":"x"}`, nil, ""},
		{"more than one tier takes hints", tiers(one + "," + one), nil, "secondary_tiers[0] and [1] both take hints"},
		{"a port that is true", tiers(`{"router_capabilities":["router_hint"],"control_port":true}`), nil, "control_port: port true"},
		{"a listed port that is true", tiers(`{"router_capabilities":["router_hint"],"control_ports":[true]}`), nil, "control_ports[0]: port true"},
		{"a port of 0", tiers(`{"router_capabilities":["router_hint"],"control_port":0}`), nil, "1 … 65535"},
		{"a port of words", tiers(`{"router_capabilities":["router_hint"],"control_port":"http"}`), nil, `port "http"`},
		{"no port", tiers(`{"router_capabilities":["router_hint"]}`), nil, "control_port"},
		{"a host that is a number", tiers(`{"router_capabilities":["router_hint"],"control_advertise_host":7,"control_port":1}`), nil, "control_advertise_host: is not a string"},
		{"capabilities that are a word", tiers(`{"router_capabilities":"router_hint"}`), nil, "list of strings"},
		{"a tier that is a word", tiers(`"fs"`), nil, "secondary_tiers[0]"},
		{"not an object", `[]`, nil, "kv_transfer_config"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := VLLMPorts([]byte(tc.config))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v does not say %q", err, tc.err)
				}
			} else if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
