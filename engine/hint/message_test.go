package hint

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scenarioK is the message of acceptance scenario K, byte for byte.
const scenarioK = `{"protocol_version":"0.1","message_id":"sel-1","actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":{"source_control_endpoint":"tcp://10.0.0.7:23280","block_hashes":[905019192701563378,16844206292767112481,7182366256570268908,9390733088869768009]}}]}`

var namesK = []uint64{905019192701563378, 16844206292767112481, 7182366256570268908, 9390733088869768009}

func TestAppendFetchByteForByte(t *testing.T) {
	got := string(AppendFetch([]byte("x"), "sel-1", "tcp://10.0.0.7:23280", namesK))
	if got != "x"+scenarioK {
		t.Errorf("got  %s\nwant x%s", got, scenarioK)
	}
}

func TestAppendFetchDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		buf = AppendFetch(buf[:0], "sel-1", "tcp://10.0.0.7:23280", namesK)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNamesSurviveExactly(t *testing.T) {
	values := []uint64{0, 1, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64, 1 << 63, math.MaxUint64}
	data := AppendFetch(nil, "m", "tcp://h:1", values)
	if !strings.Contains(string(data), ",9007199254740993,") {
		t.Errorf("2^53+1 is not itself in %s", data)
	}
	m, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(values, m.FirstFetch().Names); diff != "" {
		t.Error(diff)
	}
	if again := m.Append(nil); string(again) != string(data) {
		t.Errorf("round trip:\n got %s\nwant %s", again, data)
	}
}

func TestMessageIDIsEscaped(t *testing.T) {
	for _, id := range []string{"", "plain", `q"b\s/`, "ctl\x00\x1f\n\t", "ümlaut 日本", "<&>", "\u2028"} {
		var got struct {
			MessageID string `json:"message_id"`
		}
		data := AppendFetch(nil, id, "tcp://h:1", []uint64{1})
		if err := json.Unmarshal(data, &got); err != nil || got.MessageID != id {
			t.Errorf("%q: %q, %v", id, got.MessageID, err)
		}
	}
	if data := AppendFetch(nil, "bad\xff", "tcp://h:1", []uint64{1}); !json.Valid(data) || !strings.Contains(string(data), "\ufffd") {
		t.Errorf("bad UTF-8: %s", data)
	}
}

func TestUnknownActionsAreKept(t *testing.T) {
	data := `{"protocol_version":"0.9","message_id":"m","actions":[{"action_type":"kv.deref","x":[1e3, 18446744073709551615]},` +
		`{"action_id":"b","action_type":"kv.fetch","action_version":"2.0","payload":{"source_control_endpoint":"tcp://[::1]:7","block_hashes":[3]}}]}`
	m, err := Parse([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	if f := m.FirstFetch(); f == nil || f.Endpoint != "tcp://[::1]:7" || len(f.Names) != 1 {
		t.Errorf("first fetch %+v", f)
	}
	if got := string(m.Append(nil)); got != data {
		t.Errorf("round trip:\n got %s\nwant %s", got, data)
	}
}

func TestParseRefuses(t *testing.T) {
	env := func(payload string) string {
		return `{"protocol_version":"0.1","message_id":"","actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":` + payload + `}]}`
	}
	hashes := func(h string) string { return env(`{"source_control_endpoint":"tcp://h:1","block_hashes":` + h + `}`) }
	cases := []struct{ name, data, want string }{
		{"not JSON", `{`, "hint"},
		{"envelope is a list", `[]`, "not a JSON object"},
		{"envelope is null", `null`, "not a JSON object"},
		{"something behind it", scenarioK + "}", "follows"},
		{"a second value", scenarioK + scenarioK, "follows"},
		{"a key twice", `{"actions":[],"actions":[]}`, "twice"},
		{"actions missing", `{"protocol_version":"0.1"}`, "actions: is not a list"},
		{"actions is a map", `{"actions":{}}`, "actions: is not a list"},
		{"actions empty", `{"actions":[]}`, "no kv.fetch"},
		{"no fetch among them", `{"actions":[{"action_type":"kv.deref"}]}`, "no kv.fetch"},
		{"action is a number", `{"actions":[1]}`, "actions[0]"},
		{"action without type", `{"actions":[{}]}`, "action_type"},
		{"keys are case sensitive", `{"ACTIONS":[{"action_type":"kv.fetch"}]}`, "actions: is not a list"},
		{"version is a number", strings.Replace(scenarioK, `"0.1"`, `0.1`, 1), "protocol_version"},
		{"payload missing", `{"actions":[{"action_type":"kv.fetch"}]}`, "payload"},
		{"payload is a list", env(`[]`), "payload"},
		{"endpoint missing", env(`{"block_hashes":[1]}`), "source_control_endpoint"},
		{"endpoint null", env(`{"source_control_endpoint":null,"block_hashes":[1]}`), "source_control_endpoint"},
		{"endpoint empty", env(`{"source_control_endpoint":"","block_hashes":[1]}`), "source_control_endpoint"},
		{"endpoint of another scheme", env(`{"source_control_endpoint":"ipc://x","block_hashes":[1]}`), "tcp://"},
		{"hashes missing", env(`{"source_control_endpoint":"tcp://h:1"}`), "block_hashes"},
		{"hashes empty", hashes(`[]`), "empty"},
		{"hashes null", hashes(`null`), "block_hashes"},
		{"exponent", hashes(`[1e3]`), "1e3"},
		{"fraction", hashes(`[1.0]`), "1.0"},
		{"negative", hashes(`[-1]`), "-1"},
		{"negative zero", hashes(`[-0]`), "-0"},
		{"boolean", hashes(`[true]`), "true"},
		{"string", hashes(`["1"]`), "plain decimal"},
		{"null", hashes(`[null]`), "null"},
		{"2^64", hashes(`[18446744073709551616]`), "64 bits"},
		{"duplicate", hashes(`[5,6,5]`), "[2]"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			m, err := Parse([]byte(tc.data))
			if err == nil || m != nil {
				t.Fatalf("accepted: %+v", m)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q does not say %q", err, tc.want)
			}
		})
	}
	if _, err := Parse([]byte(`{"actions":[]}`)); !errors.Is(err, ErrNoFetch) {
		t.Errorf("%v is not ErrNoFetch", err)
	}
}

func TestEveryStrictPrefixIsRefused(t *testing.T) {
	if _, err := Parse([]byte(scenarioK)); err != nil {
		t.Fatal(err)
	}
	for i := range len(scenarioK) {
		if _, err := Parse([]byte(scenarioK[:i])); err == nil {
			t.Fatalf("the first %d bytes are accepted", i)
		}
	}
}

func TestEndpoints(t *testing.T) {
	for _, tc := range []struct {
		base         string
		rank, stride int
		want         string
	}{
		{"tcp://10.0.0.7:23280", 0, 4, "tcp://10.0.0.7:23280"},
		{"tcp://10.0.0.7:23280", 1, 4, "tcp://10.0.0.7:23284"},
		{"tcp://10.0.0.7:23280", 2, 1, "tcp://10.0.0.7:23282"},
		{"tcp://[::1]:5", 1, 1, "tcp://[::1]:6"},
		{"tcp://host.example:1", 0, 1, "tcp://host.example:1"},
		{"tcp://127.0.0.1:65535", 0, 4, "tcp://127.0.0.1:65535"},
	} {
		if got, err := RankEndpoint(tc.base, tc.rank, tc.stride); err != nil || got != tc.want {
			t.Errorf("%v: %q, %v", tc, got, err)
		}
	}
	for _, tc := range []struct{ base, want string }{
		{"", "tcp://"}, {"10.0.0.7:23280", "tcp://"}, {"ipc://x", "tcp://"}, {"tcp://h", "no port"}, {"tcp://[::1]", "no port"},
		{"tcp://h:0", `"0"`}, {"tcp://h:70000", `"70000"`}, {"tcp://h:x", `"x"`}, {"tcp://h:+5", `"+5"`}, {"tcp://h:", `""`},
		{"tcp://:5", "no host"}, {"tcp://*:5", "no host"}, {"tcp://0.0.0.0:5", "bind-only"}, {"tcp://[::]:5", "bind-only"},
		{"tcp://fe80::1:5", "bracket"}, {"tcp://[h]:5", "IPv6"}, {"tcp://[10.0.0.1]:5", "IPv6"}, {"tcp://h/x:5", "not a host"},
	} {
		if _, err := RankEndpoint(tc.base, 0, 1); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v does not say %q", tc.base, err, tc.want)
		}
	}
	if _, err := RankEndpoint("tcp://h:65534", 1, 4); err == nil || !strings.Contains(err.Error(), "65538") {
		t.Errorf("overflow: %v", err)
	}
	if _, err := RankEndpoint("tcp://h:1", 0, 0); err == nil {
		t.Error("stride 0 is accepted")
	}
	if _, err := RankEndpoint("tcp://h:1", math.MaxInt/2, 2); err == nil {
		t.Error("an absurd rank is accepted")
	}
}

func ExampleAppendFetch() {
	fmt.Printf("%s\n", AppendFetch(nil, "req-42", "tcp://10.0.0.7:23280", []uint64{905019192701563378}))
	// Output: {"protocol_version":"0.1","message_id":"req-42","actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":{"source_control_endpoint":"tcp://10.0.0.7:23280","block_hashes":[905019192701563378]}}]}
}
