package pair

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/engine/hint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const at = "tcp://10.0.0.7:23280"

var chain = []uint64{905019192701563378, 16844206292767112481, 7182366256570268908, 9390733088869768009}

func hinted(names ...uint64) []byte {
	return hint.RequestField.AppendRequest(nil, "req-42", at, names, hint.Numbers)
}

// stage is a library that holds the chain on every shard, and a target.
func stage(t *testing.T, shards int) (*Library, *Target) {
	t.Helper()
	n := NewNetwork(Default)
	t.Cleanup(n.Close)
	l, err := n.Add("127.0.0.1", at, shards)
	if err != nil {
		t.Fatal(err)
	}
	l.Store(-1, chain...)
	return l, n.Target(shards)
}

// TestFetch: what is restored is what the hint names, the target lacks, the
// engine may restore, and every shard really holds.
func TestFetch(t *testing.T) {
	block := Default.BlockBytes(1)
	if Default.TokenBytes() != 114_688 || block != 7_340_032 {
		t.Fatalf("a token has %d bytes, a block %d", Default.TokenBytes(), block)
	}
	cases := []struct {
		name   string
		shards int
		evict  func(l *Library)
		hint   []byte
		own    int
		seen   []Counts // by the library
		done   Report   // by the target
	}{
		{"all that may be restored", 1, nil, hinted(chain...), 0, []Counts{{1, 3, 6, 3 * block, 0}}, Report{Hints: 1, Fetches: 1, Blocks: 3, Tokens: 192, Bytes: 22_020_096}},
		{"on two shards", 2, nil, hinted(chain...), 0, []Counts{{1, 3, 6, 11_010_048, 0}, {1, 3, 6, 11_010_048, 0}}, Report{Hints: 1, Fetches: 2, Blocks: 3, Tokens: 192, Bytes: 22_020_096}},
		{"names in any order", 1, nil, hinted(chain[2], chain[0], chain[1]), 0, []Counts{{1, 3, 6, 3 * block, 0}}, Report{Hints: 1, Fetches: 1, Blocks: 3, Tokens: 192, Bytes: 3 * block}},
		{"behind what the target holds", 1, nil, hinted(chain...), 2, []Counts{{1, 1, 2, block, 0}}, Report{Hints: 1, Fetches: 1, Blocks: 1, Tokens: 64, Bytes: block}},
		{"a run alone, as ranges have it", 1, nil, hinted(chain[1:]...), 1, []Counts{{1, 2, 4, 2 * block, 0}}, Report{Hints: 1, Fetches: 1, Blocks: 2, Tokens: 128, Bytes: 2 * block}},
		{"nothing that the target lacks", 1, nil, hinted(chain[:2]...), 2, []Counts{{}}, Report{Hints: 1}},
		{"names of another prompt", 1, nil, hinted(1, 2), 0, []Counts{{}}, Report{Hints: 1}},
		{"evicted meanwhile", 1, func(l *Library) { l.Evict(-1, chain[1]) }, hinted(chain...), 0, []Counts{{1, 2, 4, 2 * block, 1}}, Report{Hints: 1, Fetches: 1, Failed: 1, Blocks: 1, Tokens: 64, Bytes: block}},
		{"evicted on one shard", 2, func(l *Library) { l.Evict(1, chain[2]) }, hinted(chain...), 0, []Counts{{1, 3, 6, 3 * block / 2, 0}, {1, 2, 4, block, 1}},
			Report{Hints: 1, Fetches: 2, Failed: 1, Blocks: 2, Tokens: 128, Bytes: 5 * block / 2}},
		{"cleared", 1, (*Library).Clear, hinted(chain...), 0, []Counts{{1, 0, 0, 0, 3}}, Report{Hints: 1, Fetches: 1, Failed: 1}},
		{"a dead peer", 1, (*Library).Close, hinted(chain...), 0, []Counts{{}}, Report{Hints: 1, Fetches: 1, Failed: 1}},
		{"an endpoint that is nobody's", 1, nil, hint.RequestField.AppendRequest(nil, "", "tcp://10.0.0.8:1", chain, hint.Numbers), 0, []Counts{{}}, Report{Hints: 1, Fetches: 1, Failed: 1}},
		{"no hint", 1, nil, []byte(`{"model":"m"}`), 0, []Counts{{}}, Report{None: 1}},
		{"a hint of strings", 1, nil, hint.RequestField.AppendRequest(nil, "", at, chain, hint.Strings), 0, []Counts{{}}, Report{Unread: 1}},
		{"another version", 1, nil, []byte(strings.Replace(string(hinted(chain[0])), `"0.1"`, `"0.9"`, 1)), 0, []Counts{{1, 1, 2, block, 0}}, Report{Hints: 1, Warnings: 1, Fetches: 1, Blocks: 1, Tokens: 64, Bytes: block}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			l, target := stage(t, tc.shards)
			if tc.evict != nil {
				tc.evict(l)
			}
			if got := target.Fetch(t.Context(), tc.hint, chain, 256, tc.own); got != tc.done.Blocks {
				t.Errorf("%d blocks restored, want %d", got, tc.done.Blocks)
			}
			if diff := cmp.Diff(tc.seen, l.Counts()); diff != "" {
				t.Errorf("the library saw, want -, got +:\n%s", diff)
			}
			if diff := cmp.Diff(tc.done, target.Report()); diff != "" {
				t.Errorf("the target did, want -, got +:\n%s", diff)
			}
		})
	}
}

// TestWarnsOnce: another version is taken, and said once.
func TestWarnsOnce(t *testing.T) {
	_, target := stage(t, 1)
	odd := []byte(strings.Replace(string(hinted(chain[0])), `"0.1"`, `"0.9"`, 1))
	for range 3 {
		target.Fetch(t.Context(), odd, chain, 256, 0)
	}
	if r := target.Report(); r.Warnings != 1 || r.Blocks != 3 {
		t.Errorf("%+v", r)
	}
}

// TestReadsEveryCarrier: the consumer, which is not the product's reader, takes
// what the product writes, and both refuse the same.
func TestReadsEveryCarrier(t *testing.T) {
	exact := []uint64{0, 1, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64, 1 << 63, math.MaxUint64}
	for c := range hint.NumCarriers {
		h, err := Read(c.AppendRequest(nil, "m", at, exact, hint.Numbers))
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		for _, n := range exact {
			if !h.Names[n] {
				t.Errorf("%v: %d is lost", c, n)
			}
		}
		if h.Endpoint != at || len(h.Names) != len(exact) || h.Version != Version {
			t.Errorf("%v: %+v", c, h)
		}
	}
	wrap := func(payload string) string {
		return `{"kv_hint":{"protocol_version":"0.1","message_id":"","actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":` + payload + `}]}}`
	}
	names := func(s string) string {
		return wrap(`{"source_control_endpoint":"tcp://h:1","block_hashes":` + s + `}`)
	}
	for name, request := range map[string]string{
		"envelope is a list":   `{"kv_hint":[]}`,
		"actions is a map":     `{"kv_hint":{"protocol_version":"0.1","actions":{}}}`,
		"no fetch action":      `{"kv_hint":{"protocol_version":"0.1","actions":[{"action_type":"kv.deref"}]}}`,
		"older drafts' action": `{"kv_hint":{"protocol_version":"0.1","actions":[{"action_type":"kv.source_locations","action_version":"1.0","payload":{}}]}}`,
		"payload is a list":    wrap(`[]`),
		"empty endpoint":       wrap(`{"source_control_endpoint":"","block_hashes":[1]}`),
		"empty list":           names(`[]`),
		"a boolean":            names(`[true]`),
		"a negative":           names(`[-1]`),
		"2^64":                 names(`[18446744073709551616]`),
		"an exponent":          names(`[1e3]`),
		"a fraction":           names(`[1.0]`),
		"half a legacy hint":   `{"extra_args":{"kv_transfer_params":{"router_hint":{"block_hashes":[1]}}}}`,
	} {
		if h, err := Read([]byte(request)); err == nil || errors.Is(err, ErrNone) {
			t.Errorf("%s: the consumer reads %+v, %v", name, h, err)
		}
		if m, _, err := hint.Find([]byte(request)); err == nil || errors.Is(err, hint.ErrNoHint) {
			t.Errorf("%s: the product reads %+v, %v", name, m, err)
		}
	}
	for _, request := range []string{`{}`, `{"kv_hint":null}`, `{"extra_args":{"kv_transfer_params":{"router_hint":{"speculative_decoding":{}}}}}`} {
		if _, err := Read([]byte(request)); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", request, err)
		}
	}
}
