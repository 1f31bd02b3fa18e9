package engine

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/engine/identity"
)

func TestValidate(t *testing.T) {
	good := func(set func(*Source)) Source {
		s := Source{ID: "w1", Model: "m", Endpoint: "tcp://127.0.0.1:5557"}
		if set != nil {
			set(&s)
		}
		return s
	}
	hinted := func(h HintConfig) func(*Source) { return func(s *Source) { s.Hint = &h } }
	t.Run("accepted", func(t *testing.T) {
		for name, set := range map[string]func(*Source){
			"the least":            nil,
			"ipc":                  func(s *Source) { s.Endpoint = "ipc:///tmp/x" },
			"IPv6":                 func(s *Source) { s.Endpoint = "tcp://[::1]:5557" },
			"two shards":           func(s *Source) { s.Endpoint, s.Shards = "", []string{"tcp://h:5557", "tcp://h:5567"} },
			"ranks":                func(s *Source) { s.Ranks, s.Replay = 8, "tcp://127.0.0.1:6557" },
			"the other spelling":   func(s *Source) { s.Protocol = "sglang_hi_cache_v1" },
			"a durable pool":       func(s *Source) { s.Protocol = VLLMResidencyV1 },
			"agg, target only":     hinted(HintConfig{WorkerType: "agg"}),
			"loopback for hints":   hinted(HintConfig{WorkerType: "decode", Endpoint: "tcp://127.0.0.1:23280", Stride: 4}),
			"a pool's first batch": func(s *Source) { s.FirstSeq = 1 },
		} {
			s := good(set)
			if err := s.Validate(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	cases := []struct {
		name  string
		set   func(*Source)
		field string
		says  string
	}{
		{"no id", func(s *Source) { s.ID = "" }, "id", "needs a name"},
		{"a line break in the id", func(s *Source) { s.ID = "a\nb" }, "id", `"a\nb"`},
		{"a long id", func(s *Source) { s.ID = strings.Repeat("x", 257) }, "id", "256"},
		{"no model", func(s *Source) { s.Model = "" }, "model", "queries ask for"},
		{"no endpoint", func(s *Source) { s.Endpoint = "" }, "endpoint", "tcp://host:port"},
		{"both", func(s *Source) { s.Shards = []string{"tcp://h:1"} }, "endpoint", "beside shards"},
		{"another scheme", func(s *Source) { s.Endpoint = "udp://h:1" }, "endpoint", "udp://h:1"},
		{"no port", func(s *Source) { s.Endpoint = "tcp://h" }, "endpoint", "port"},
		{"port 0", func(s *Source) { s.Endpoint = "tcp://h:0" }, "endpoint", `"0"`},
		{"a wildcard", func(s *Source) { s.Endpoint = "tcp://*:5557" }, "endpoint", "dial"},
		{"ranks over the last port", func(s *Source) { s.Endpoint, s.Ranks = "tcp://h:65530", 8 }, "endpoint", "65536"},
		{"ranks on ipc", func(s *Source) { s.Endpoint, s.Ranks = "ipc:///x", 2 }, "endpoint", "ranks"},
		{"too many ranks", func(s *Source) { s.Ranks = 65 }, "ranks", "65"},
		{"negative ranks", func(s *Source) { s.Ranks = -1 }, "ranks", "-1"},
		{"equal shards", func(s *Source) { s.Endpoint, s.Shards = "", []string{"tcp://h:1", "tcp://h:1"} }, "shards[1]", "already"},
		{"shards that meet with ranks", func(s *Source) { s.Endpoint, s.Shards, s.Ranks = "", []string{"tcp://h:1", "tcp://h:2"}, 2 }, "shards[1]", "rank 0 would be tcp://h:2"},
		{"too many shards", func(s *Source) { s.Endpoint, s.Shards = "", make([]string, 17) }, "shards", "16"},
		{"replay on a rank's port", func(s *Source) { s.Replay, s.Ranks = "tcp://127.0.0.1:5558", 2 }, "replay", "already"},
		{"replay without port", func(s *Source) { s.Replay = "tcp://h" }, "replay", "port"},
		{"an unknown protocol", func(s *Source) { s.Protocol = "framework_v2" }, "protocol", "framework_v2"},
		{"an unknown policy", func(s *Source) { s.Policy = 7 }, "policy", "7"},
		{"a negative group", func(s *Source) { s.MainGroup = -1 }, "main_group", "-1"},
		{"an odd first sequence", func(s *Source) { s.FirstSeq = 2 }, "first_seq", "2"},
		{"no worker type", hinted(HintConfig{Endpoint: "tcp://h:1"}), "hint.worker_type", "aggregated"},
		{"an unknown worker type", hinted(HintConfig{WorkerType: "router"}), "hint.worker_type", `"router"`},
		{"a hint endpoint to bind", hinted(HintConfig{WorkerType: "agg", Endpoint: "tcp://0.0.0.0:1"}), "hint.endpoint", "0.0.0.0"},
		{"a negative stride", hinted(HintConfig{WorkerType: "agg", Stride: -1}), "hint.stride", "-1"},
		{"a stride over the last port", func(s *Source) {
			s.Ranks, s.Hint = 2, &HintConfig{WorkerType: "agg", Endpoint: "tcp://h:65534", Stride: 4}
		}, "hint.endpoint", "65538"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := good(tc.set)
			err := s.Validate()
			var f *FieldError
			if !errors.As(err, &f) {
				t.Fatalf("%v is no *FieldError", err)
			}
			if f.Field != tc.field || !strings.Contains(err.Error(), tc.says) || f.Want == "" {
				t.Errorf("%v: field %q, want %q saying %q", err, f.Field, tc.field, tc.says)
			}
		})
	}
}

// TestProtocolSpellings holds our constants against the one table of spellings.
func TestProtocolSpellings(t *testing.T) {
	for text, want := range map[string]identity.Protocol{
		"": identity.Framework, FrameworkV1: identity.Framework, VLLMResidencyV1: identity.VLLMResidency, HiCacheV1: identity.HiCache,
		identity.HiCacheProtocol.All()[1]: identity.HiCache,
	} {
		s := Source{Protocol: text}
		if p, known := s.protocol(); !known || p != want {
			t.Errorf("%q is %v, %v", text, p, known)
		}
	}
	for p, text := range []string{FrameworkV1, VLLMResidencyV1, HiCacheV1} {
		if identity.Protocol(p).String() != text {
			t.Errorf("%v is written %q", identity.Protocol(p), text)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"shards":      {Shards: -1},
		"ring_bytes":  {RingBytes: 100},
		"max_ranks":   {MaxRanks: 5000},
		"stale_after": {StaleAfter: -1},
	} {
		_, err := Open(o)
		var f *FieldError
		if !errors.As(err, &f) || f.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOwnerKeys(t *testing.T) {
	// A key decides between owners of equal depth, in every process alike: it
	// may not change from release to release.
	const want = "5fda7db85dc5724814846a9aa48541ab"
	if got := ownerKey("", "w1", 0); hex.EncodeToString(got[:]) != want {
		t.Errorf("%x, was %s", got, want)
	}
	seen := map[[16]byte]string{}
	for _, k := range []struct {
		scope, source string
		rank          int
	}{{"", "w1", 0}, {"", "w1", 1}, {"", "w2", 0}, {"w", "1", 0}, {"s", "w1", 0}, {"", "w1", 256}} {
		key := ownerKey(k.scope, k.source, k.rank)
		if other, taken := seen[key]; taken {
			t.Errorf("%v has the key of %s", k, other)
		}
		seen[key] = k.source
	}
}
