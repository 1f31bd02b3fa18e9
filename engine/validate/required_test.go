package validate

import (
	"errors"
	"testing"

	"github.com/cairn-kv/cairn/engine/identity"
)

// The regressions that must stay mended, by their numbers in the specification.

// TestR8Localhost: what only reaches the host itself is refused however it is
// spelt, as host and inside an endpoint, and by the one rule it breaks.
func TestR8Localhost(t *testing.T) {
	for host, rule := range map[string]Rule{
		"localhost": HostLoopbackName, "LOCALHOST.": HostLoopbackName, "worker.localhost": HostLoopbackName, "*": HostLoopbackName, "::": HostLoopbackName,
		"tcp://h": HostScheme, "[::1": HostBracket, "[abc]": HostBracketed, "[10.0.0.1]": HostBracketedIPv4, "h:5557": HostExtra, "127.1": HostLoopbackAddress,
	} {
		if _, err := Host("host", host); !errors.Is(err, rule) {
			t.Errorf("%q: %v, want %v", host, err, rule)
		}
		if _, err := Endpoint("endpoint", "tcp://"+host+":5557"); err == nil {
			t.Errorf("%q is accepted in an endpoint", host)
		}
	}
}

// TestR9ProtocolMatrix: both owned protocols are accepted everywhere, in every
// spelling; any other is refused everywhere, even if all else matches.
func TestR9ProtocolMatrix(t *testing.T) {
	for protocol, owned := range map[string]bool{
		"vllm_residency_v1": true, "sglang_hicache_v1": true, "sglang_hi_cache_v1": true,
		"framework_v1": false, "": false, "VLLM_RESIDENCY_V1": false, "vllm_residency_v2": false, "sglang_hicache_v1 ": false,
	} {
		d := descriptors(t)
		d[0].Protocol, d[1].Protocol = protocol, protocol
		h, in := intent(t)
		in.Protocol = protocol
		r, s := sourceRecord(t)
		s.Protocol = protocol
		for _, c := range []struct {
			what string
			err  error
			rule Rule
		}{
			{"descriptor", Descriptors("descriptors", 17, d), DescriptorProtocol},
			{"intent", h.Admit("", in), IntentProtocol},
			{"source", r.Believe(s), SourceProtocol},
		} {
			if owned && c.err != nil || !owned && !errors.Is(c.err, c.rule) {
				t.Errorf("%s with %q: %v", c.what, protocol, c.err)
			}
		}
		if p, _ := identity.ParseProtocol(protocol); p.Owned() != owned {
			t.Errorf("%q has owned residency: %v", protocol, p.Owned())
		}
	}
}
