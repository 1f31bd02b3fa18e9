package hint

import (
	"bytes"
	"slices"
	"testing"
)

// FuzzFind reads requests of anybody's: whatever is accepted is a fetch that may
// be acted on, and is the same when it is written and read again, in every
// carrier.
func FuzzFind(f *testing.F) {
	names := []uint64{0, 1<<53 + 1, 1<<64 - 1}
	for c := range NumCarriers {
		f.Add(c.AppendRequest(nil, "req-42", "tcp://10.0.0.7:23280", names, Numbers))
		f.Add(c.AppendRequest(nil, "q\"\\\x00", "tcp://[::1]:1", names[:1], Strings))
	}
	f.Add([]byte(`{"kv_hint":{"protocol_version":"0.9","actions":[{"action_type":"kv.deref","x":[1e3]},{"action_type":"kv.fetch","payload":{"source_control_endpoint":"tcp://h:1","block_hashes":[7]}}]}}`))
	f.Add([]byte(`{"extra_args":{"kv_transfer_params":{"router_hint":{"block_hashes":[1]}}}}`))
	f.Fuzz(func(t *testing.T, request []byte) {
		m, c, err := Find(request)
		if err != nil {
			if m != nil {
				t.Fatalf("%v, and yet a message", err)
			}
			return
		}
		fetch := m.FirstFetch()
		if fetch == nil || len(fetch.Names) == 0 {
			t.Fatalf("accepted %+v of %q", m, request)
		}
		if _, _, err := SplitEndpoint(fetch.Endpoint); err != nil {
			t.Fatalf("accepted endpoint: %v", err)
		}
		if sorted := slices.Sorted(slices.Values(fetch.Names)); len(slices.Compact(sorted)) != len(fetch.Names) {
			t.Fatalf("accepted a name twice: %v", fetch.Names)
		}
		again, err := Parse(m.Append(nil))
		if err != nil {
			t.Fatalf("%q is written as %q: %v", request, m.Append(nil), err)
		}
		if !bytes.Equal(again.Append(nil), m.Append(nil)) {
			t.Fatalf("%q, then %q", m.Append(nil), again.Append(nil))
		}
		for other := range NumCarriers {
			back, as, err := Find(other.AppendRequest(nil, m.MessageID, fetch.Endpoint, fetch.Names, Numbers))
			if err != nil || as != other || !slices.Equal(back.FirstFetch().Names, fetch.Names) || back.FirstFetch().Endpoint != fetch.Endpoint {
				t.Fatalf("from %v to %v: %+v, %v", c, other, back, err)
			}
		}
	})
}

// FuzzParseCapability reads metadata of anybody's: what is accepted is the same
// when it is published and read again.
func FuzzParseCapability(f *testing.F) {
	f.Add([]byte(`{"router_hint":true,"router_hint_worker_type":"decode","router_hint_source_control_endpoints":{"0":"tcp://h:1","1":"tcp://h:2"}}`))
	f.Add([]byte(`{"kv_hint.transfer.v1":"true","kv_hint_transfer_worker_type":"\"agg\""}`))
	f.Add([]byte(`{"router_hint":true}`))
	f.Fuzz(func(t *testing.T, metadata []byte) {
		c, err := ParseCapability(metadata, 0, 2)
		if err != nil {
			if c.Role != NotCapable || c.Endpoints != nil {
				t.Fatalf("%v, and yet %+v", err, c)
			}
			return
		}
		if c.Role == NotCapable {
			return
		}
		if len(c.Endpoints) != 0 && len(c.Endpoints) != 2 {
			t.Fatalf("some ranks and not others: %+v", c)
		}
		back, err := ParseCapability(c.AppendMetadata(nil), 0, 2)
		if err != nil || back.Role != c.Role || !slices.Equal(back.Endpoints, c.Endpoints) {
			t.Fatalf("%+v is published as %s and read as %+v, %v", c, c.AppendMetadata(nil), back, err)
		}
	})
}
