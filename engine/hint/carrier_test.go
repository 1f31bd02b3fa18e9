package hint

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// exact are the values that a float64 on the way would change, and their
// neighbours.
var exact = []uint64{0, 1, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64, 1 << 63, math.MaxUint64}

const envelope = `{"protocol_version":"0.1","message_id":"req-42","actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0",` +
	`"payload":{"source_control_endpoint":"tcp://10.0.0.7:23280","block_hashes":[905019192701563378,16844206292767112481]}}]}`

// TestCarriers: every carrier is written as its readers expect it, and read.
func TestCarriers(t *testing.T) {
	cases := []struct {
		name    string
		carrier Carrier
		want    string
		id      string // what comes back: legacy hints have none
	}{
		{"request field kv_hint", RequestField, `{"kv_hint":` + envelope + `}`, "req-42"},
		{"extra_args.kv_transfer_params.kv_hint", TransferParams, `{"extra_args":{"kv_transfer_params":{"kv_hint":` + envelope + `}}}`, "req-42"},
		{"extra_args.kv_transfer_params.router_hint", RouterHint, `{"extra_args":{"kv_transfer_params":{"router_hint":{"source_control_endpoint":"tcp://10.0.0.7:23280","block_hashes":[905019192701563378,16844206292767112481]}}}}`, ""},
		{"engine argument kv_hints", EngineArgument, `{"kv_hints":` + envelope + `}`, "req-42"},
	}
	if len(cases) != int(NumCarriers) {
		t.Errorf("%d carriers are tested, there are %d", len(cases), NumCarriers)
	}
	names := []uint64{905019192701563378, 16844206292767112481}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got := string(tc.carrier.AppendRequest([]byte("x"), "req-42", "tcp://10.0.0.7:23280", names, Numbers))
			if got != "x"+tc.want {
				t.Errorf("\n got %s\nwant x%s", got, tc.want)
			}
			m, c, err := Find([]byte(got[1:]))
			if err != nil || c != tc.carrier {
				t.Fatalf("read as %v: %v", c, err)
			}
			f := m.FirstFetch()
			if diff := cmp.Diff(names, f.Names); diff != "" || f.Endpoint != "tcp://10.0.0.7:23280" || m.MessageID != tc.id || m.ProtocolVersion != "0.1" {
				t.Errorf("read %+v %+v", m, f)
			}
			if back, ok := ParseCarrier(tc.carrier.String()); !ok || back != tc.carrier {
				t.Errorf("%q is read as %v, %v", tc.carrier, back, ok)
			}
			buf := make([]byte, 0, 1024)
			if n := testing.AllocsPerRun(100, func() {
				buf = tc.carrier.AppendRequest(buf[:0], "req-42", "tcp://10.0.0.7:23280", names, Numbers)
			}); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
	if c, ok := ParseCarrier(""); !ok || c != RequestField {
		t.Errorf("no carrier is %v, %v", c, ok)
	}
	if _, ok := ParseCarrier("kv_hint2"); ok {
		t.Error("an unknown carrier is one")
	}
}

// TestNamesAreExactEverywhere: every listed value survives every carrier, as a
// number and, on request, as a string.
func TestNamesAreExactEverywhere(t *testing.T) {
	for c := range NumCarriers {
		data := c.AppendRequest(nil, "", "tcp://h:1", exact, Numbers)
		m, _, err := Find(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(exact, m.FirstFetch().Names); diff != "" {
			t.Errorf("%v: %s", c, diff)
		}
		if !strings.Contains(string(data), ",9007199254740993,") {
			t.Errorf("%v: 2^53+1 is not itself in %s", c, data)
		}
		quoted := c.AppendRequest(nil, "", "tcp://h:1", exact, Strings)
		if !strings.Contains(string(quoted), `["0","1","9007199254740991","9007199254740992","9007199254740993","9223372036854775807","9223372036854775808","18446744073709551615"]`) {
			t.Errorf("%v: strings are %s", c, quoted)
		}
		if !json.Valid(quoted) {
			t.Errorf("%v: not JSON: %s", c, quoted)
		}
		if _, _, err := Find(quoted); err == nil {
			t.Errorf("%v: a consumer takes strings", c)
		}
	}
}

func TestFind(t *testing.T) {
	older := strings.Replace(envelope, "req-42", "older", 1)
	legacy := `{"source_control_endpoint":"tcp://h:1","block_hashes":[7]}`
	params := func(s string) string { return `{"model":"m","extra_args":{"kv_transfer_params":{` + s + `}}}` }
	cases := []struct {
		name, request string
		carrier       Carrier
		id            string
		want          string // of an error
	}{
		{"newest first", `{"kv_hint":` + envelope + `,"extra_args":{"kv_transfer_params":{"kv_hint":` + older + `,"router_hint":` + legacy + `}}}`, RequestField, "req-42", ""},
		{"then the transfer parameters", params(`"router_hint":` + legacy + `,"kv_hint":` + older), TransferParams, "older", ""},
		{"a null is absent", `{"kv_hint":null,"extra_args":null,"kv_hints":` + older + `}`, EngineArgument, "older", ""},
		{"legacy beside speculative decoding", params(`"router_hint":{"source_control_endpoint":"tcp://h:1","block_hashes":[7],"speculative_decoding":{"x":1}}`), RouterHint, "", ""},
		{"speculative decoding alone is no hint", params(`"router_hint":{"speculative_decoding":{"x":1}}`), 0, "", "carries none"},
		{"legacy with an endpoint alone", params(`"router_hint":{"source_control_endpoint":"tcp://h:1"}`), RouterHint, "", "both or neither"},
		{"legacy with names alone", params(`"router_hint":{"block_hashes":[7]}`), RouterHint, "", "both or neither"},
		{"legacy with no names", params(`"router_hint":{"source_control_endpoint":"tcp://h:1","block_hashes":[]}`), RouterHint, "", "router_hint.block_hashes: the list is empty"},
		{"a broken hint is not passed over", `{"kv_hint":{"actions":7},"kv_hints":` + older + `}`, RequestField, "", "kv_hint: actions: is not a list"},
		{"nothing", `{"model":"m"}`, 0, "", "carries none"},
		{"other extra arguments", `{"extra_args":{"x":1}}`, 0, "", "carries none"},
		{"extra_args is a list", `{"extra_args":[]}`, 0, "", "extra_args: is not a JSON object"},
		{"no request", `[]`, 0, "", "request: is not a JSON object"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			m, c, err := Find([]byte(tc.request))
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || c != tc.carrier {
					t.Errorf("%v: %v does not say %q", c, err, tc.want)
				}
				return
			}
			if err != nil || c != tc.carrier || m.MessageID != tc.id || m.FirstFetch() == nil {
				t.Errorf("%v, %+v, %v", c, m, err)
			}
		})
	}
	if _, _, err := Find([]byte(`{}`)); !errors.Is(err, ErrNoHint) {
		t.Errorf("%v is not ErrNoHint", err)
	}
}
