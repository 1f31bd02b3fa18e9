package validate

import (
	"errors"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/engine/identity"
)

const (
	domain2 = "01010101010101010101010101010101:02020202020202020202020202020202"
	domain3 = "01010101010101010101010101010101:03030303030303030303030303030303"
	slotA   = "/00000000000000ff/0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
	slotB   = "/00000000000000ff/0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"
)

func owner(t testing.TB, text string) identity.CacheOwnerID {
	t.Helper()
	id, err := identity.ParseCacheOwnerID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// descriptors are two ranks nothing is wrong with.
func descriptors(t testing.TB) []Descriptor {
	a, b := owner(t, domain2+slotA), owner(t, domain2+slotB)
	return []Descriptor{
		{Worker: 17, Rank: 0, Owner: a, Domain: a.Domain(), BlockSize: 64, Protocol: "sglang_hicache_v1", RawEndpoints: []string{"tcp://10.0.0.1:5557"}, RawTopic: "kv@1"},
		{Worker: 17, Rank: 1, Owner: b, Domain: b.Domain(), BlockSize: 64, Protocol: "sglang_hicache_v1", RawEndpoints: []string{"tcp://10.0.0.1:5558"}, RawTopic: "kv@2"},
	}
}

func TestDescriptors(t *testing.T) {
	if err := Descriptors("descriptors", 17, descriptors(t)); err != nil {
		t.Fatal(err)
	}
	const accepted = "vllm_residency_v1, sglang_hicache_v1"
	for _, c := range []struct {
		id     string
		name   string
		change func(d []Descriptor) []Descriptor
		field  string
		value  string
		refusal
	}{
		{"A1", "empty", func([]Descriptor) []Descriptor { return nil }, "descriptors", "[]",
			refusal{EmptyDescriptors, []string{"at least one global dp rank"}}},
		{"A2", "duplicate rank", func(d []Descriptor) []Descriptor { d[1].Rank = 0; return d }, "descriptors[1].dp_rank", "0",
			refusal{DuplicateRank, []string{"rank 0", "positions 0 and 1"}}},
		{"A3", "duplicate owner", func(d []Descriptor) []Descriptor { d[1].Owner = d[0].Owner; return d }, "descriptors[1].cache_owner_id", domain2 + slotA,
			refusal{DuplicateOwner, []string{"ranks 0 and 1"}}},
		{"A4", "block size 0", func(d []Descriptor) []Descriptor { d[1].BlockSize = 0; return d }, "descriptors[1].kv_block_size", "0",
			refusal{DescriptorSize, []string{"rank 1", "> 0"}}},
		{"A5", "another domain", func(d []Descriptor) []Descriptor {
			d[0].Domain = identity.IndexerDomain{Semantics: d[0].Domain.Semantics, Scope: [16]byte{3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}}
			return d
		}, "descriptors[0].indexer_domain_id", domain3,
			refusal{DescriptorDomain, []string{domain2, domain3}}},
		{"A6", "framework", func(d []Descriptor) []Descriptor { d[0].Protocol = "framework_v1"; return d }, "descriptors[0].ingress_protocol", "framework_v1",
			refusal{DescriptorProtocol, []string{accepted, "no residency"}}},
		{"A6", "no protocol", func(d []Descriptor) []Descriptor { d[0].Protocol = ""; return d }, "descriptors[0].ingress_protocol", "",
			refusal{DescriptorProtocol, []string{accepted}}},
		{"A7", "empty endpoint", func(d []Descriptor) []Descriptor { d[1].RawEndpoints[0] = ""; return d }, "descriptors[1].raw_zmq_endpoint", "",
			refusal{DescriptorEndpoint, []string{"rank 1", "tcp://host:port"}}},
		{"A7", "no endpoint", func(d []Descriptor) []Descriptor { d[1].RawEndpoints = nil; return d }, "descriptors[1].raw_zmq_endpoint", "",
			refusal{DescriptorEndpoint, []string{"rank 1", "tcp://host:port"}}},
		{"A7", "endpoint of a shard", func(d []Descriptor) []Descriptor {
			d[1].RawEndpoints = []string{"tcp://10.0.0.1:5558", ""}
			return d
		}, "descriptors[1].raw_zmq_endpoint[1]", "",
			refusal{DescriptorEndpoint, []string{"rank 1", "tcp://host:port"}}},
		{"A-worker", "another process", func(d []Descriptor) []Descriptor { d[1].Worker = 18; return d }, "descriptors[1].worker_id", "18",
			refusal{DescriptorWorker, []string{"17"}}},
		{"A-topic", "engine-local without topic", func(d []Descriptor) []Descriptor { d[1].RawTopic = ""; return d }, "descriptors[1].raw_topic", "",
			refusal{DescriptorTopic, []string{"rank 1", "engine incarnation"}}},
		{"D7", "loopback", func(d []Descriptor) []Descriptor { d[0].RawEndpoints[0] = "tcp://127.1:5557"; return d }, "descriptors[0].raw_zmq_endpoint", "tcp://127.1:5557",
			refusal{HostLoopbackAddress, []string{selfSubscribeText}}},
		{"E-scheme", "ipc", func(d []Descriptor) []Descriptor { d[0].RawEndpoints[0] = "ipc:///x"; return d }, "descriptors[0].raw_zmq_endpoint", "ipc:///x",
			refusal{EndpointScheme, []string{"ipc"}}},
	} {
		t.Run(c.id+"/"+c.name, func(t *testing.T) {
			if c.rule.ID() != c.id {
				t.Fatalf("row %s tests rule %s", c.id, c.rule.ID())
			}
			c.check(t, Descriptors("descriptors", 17, c.change(descriptors(t))), c.field, c.value)
		})
	}
}

// TestDescriptorsReportAll: whoever registers a worker mends it in one go.
func TestDescriptorsReportAll(t *testing.T) {
	d := descriptors(t)
	d[0].BlockSize, d[1].Rank, d[1].Protocol = 0, 0, "framework_v1"
	err := Descriptors("descriptors", 18, d)
	for _, r := range []Rule{DescriptorSize, DuplicateRank, DescriptorProtocol, DescriptorWorker} {
		if !errors.Is(err, r) {
			t.Errorf("%v is not among %v", r, err)
		}
	}
	if list := (Errors)(nil); !errors.As(err, &list) || len(list) != 5 {
		t.Errorf("%d errors, want 5: %v", len(list), err)
	}
}

// TestDurableNeedsNoTopic: for a durable owner an empty topic is legal.
func TestDurableNeedsNoTopic(t *testing.T) {
	d := descriptors(t)
	d[0].Protocol, d[0].RawTopic = "vllm_residency_v1", ""
	if err := Descriptors("descriptors", 17, d); err != nil {
		t.Error(err)
	}
}

func intent(t testing.TB) (HostView, *Intent) {
	o := owner(t, domain2+slotA)
	return HostView{Instance: 9, Scope: o.Scope}, &Intent{
		Topic: "kv-state-attachment-intents-v2", DiscoveryID: 72, TargetHost: 9, Incarnation: 72, Producer: 5, Worker: 17,
		Owner: o, Domain: o.Domain(), StateTarget: "m", BlockSize: 64, Protocol: "sglang_hicache_v1",
		RawEndpoints: []string{"tcp://10.0.0.1:5557"}, RawTopic: "kv@1",
	}
}

func TestIntents(t *testing.T) {
	h, in := intent(t)
	if err := h.Admit("intent.", in); err != nil {
		t.Fatal(err)
	}
	in.Topic = ""
	if err := h.Admit("intent.", in); err != nil {
		t.Fatalf("by a call: %v", err)
	}
	for _, c := range []struct {
		id     string
		name   string
		change func(in *Intent)
		field  string
		value  string
		refusal
	}{
		{"B1", "host incarnation", func(in *Intent) { in.TargetHost = 7 }, "intent.target_host", "7",
			refusal{IntentHost, []string{"9", "restart", "register"}}},
		{"B2", "incarnation", func(in *Intent) { in.Incarnation = 71 }, "intent.intent_incarnation", "71",
			refusal{IntentIncarnation, []string{"72"}}},
		{"B3", "block size", func(in *Intent) { in.BlockSize = 0 }, "intent.kv_block_size", "0",
			refusal{IntentSize, []string{domain2 + slotA, "> 0"}}},
		{"B4", "domain", func(in *Intent) { in.Domain, _ = identity.ParseIndexerDomain(domain3) }, "intent.indexer_domain_id", domain3,
			refusal{IntentDomain, []string{domain2, domain3}}},
		{"B5", "protocol", func(in *Intent) { in.Protocol = "framework_v1" }, "intent.ingress_protocol", "framework_v1",
			refusal{IntentProtocol, []string{"vllm_residency_v1, sglang_hicache_v1"}}},
		{"B6", "endpoint", func(in *Intent) { in.RawEndpoints[0] = "" }, "intent.raw_zmq_endpoint", "",
			refusal{IntentEmpty, []string{"raw_zmq_endpoint"}}},
		{"B6", "topic", func(in *Intent) { in.RawTopic = "" }, "intent.raw_topic", "",
			refusal{IntentEmpty, []string{"raw_topic"}}},
		{"B7", "ipc", func(in *Intent) { in.RawEndpoints[0] = "ipc:///x" }, "intent.raw_zmq_endpoint", "ipc:///x",
			refusal{IntentScheme, []string{`"ipc"`, "tcp://"}}},
		{"B7", "no scheme", func(in *Intent) { in.RawEndpoints[0] = "h:1" }, "intent.raw_zmq_endpoint", "h:1",
			refusal{IntentScheme, []string{"no scheme", "tcp://"}}},
		{"B-scope", "scope", func(in *Intent) {
			in.Owner.Scope[0]++
			in.Domain = in.Owner.Domain()
		}, "intent.cache_owner_id", strings.Replace(domain2, ":02", ":03", 1) + slotA,
			refusal{IntentScope, []string{"03020202", "02020202"}}},
		{"B-topic", "topic of discovery", func(in *Intent) { in.Topic = "kv-state-sources-v2" }, "intent.topic", "kv-state-sources-v2",
			refusal{IntentTopic, []string{"kv-state-attachment-intents-v2"}}},
		{"D1", "localhost", func(in *Intent) { in.RawEndpoints[0] = "tcp://w.localhost:1" }, "intent.raw_zmq_endpoint", "tcp://w.localhost:1",
			refusal{HostLoopbackName, []string{selfSubscribeText}}},
		{"E-port", "no port", func(in *Intent) { in.RawEndpoints[0] = "tcp://h" }, "intent.raw_zmq_endpoint", "tcp://h",
			refusal{EndpointPort, []string{"port"}}},
	} {
		t.Run(c.id+"/"+c.name, func(t *testing.T) {
			if c.rule.ID() != c.id {
				t.Fatalf("row %s tests rule %s", c.id, c.rule.ID())
			}
			h, in := intent(t)
			c.change(in)
			c.check(t, h.Admit("intent.", in), c.field, c.value)
		})
	}
}

func sourceRecord(t testing.TB) (RouterView, *Source) {
	o := owner(t, domain2+slotA)
	return RouterView{StateEndpoint: "m", BlockSize: 64, Domain: o.Domain()}, &Source{
		DiscoveryID: 42, Publisher: 42, Version: "v2", EventTopic: "kv-state-events-v2", StateEndpoint: "m", RecoveryTarget: 9,
		BlockSize: 64, Protocol: "vllm_residency_v1", Owner: o, Domain: o.Domain(),
	}
}

func TestSources(t *testing.T) {
	r, s := sourceRecord(t)
	if err := r.Believe(s); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id     string
		change func(s *Source)
		field  string
		value  string
		refusal
	}{
		{"C1", func(s *Source) { s.Publisher = 41 }, "source.publisher_id", "41", refusal{SourcePublisher, []string{"42"}}},
		{"C2", func(s *Source) { s.Version = "v1" }, "source.protocol_version", "v1", refusal{SourceVersion, []string{"v2"}}},
		{"C3", func(s *Source) { s.EventTopic = "kv-events" }, "source.event_topic", "kv-events", refusal{SourceTopic, []string{"kv-state-events-v2"}}},
		{"C4", func(s *Source) { s.StateEndpoint = "n" }, "source.kv_state_endpoint", "n", refusal{SourceEndpoint, []string{`"m"`}}},
		{"C5", func(s *Source) { s.BlockSize = 16 }, "source.kv_block_size", "16", refusal{SourceSize, []string{"64"}}},
		{"C6", func(s *Source) { s.Protocol = "framework_v1" }, "source.ingress_protocol", "framework_v1", refusal{SourceProtocol, []string{"vllm_residency_v1, sglang_hicache_v1"}}},
		{"C7", func(s *Source) { s.Domain, _ = identity.ParseIndexerDomain(domain3) }, "source.indexer_domain_id", domain3, refusal{SourceDomain, []string{domain2}}},
	} {
		t.Run(c.id, func(t *testing.T) {
			if c.rule.ID() != c.id {
				t.Fatalf("row %s tests rule %s", c.id, c.rule.ID())
			}
			r, s := sourceRecord(t)
			c.change(s)
			c.check(t, r.Believe(s), c.field, c.value)
		})
	}
}

func TestAttachments(t *testing.T) {
	_, s := sourceRecord(t)
	s.Publisher = 41
	good := Attachment{RecordID: 6630049642736882, Generation: 1, Version: "v2", Publisher: 41, RecoveryTarget: 9, Protocol: "vllm_residency_v1"}
	if err := s.Binds(&good); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id     string
		change func(a *Attachment)
		field  string
		value  string
		refusal
	}{
		{"C-record", func(a *Attachment) { a.Generation = 2 }, "attachment.record_id", "6630049642736882", refusal{AttachmentID, []string{"4743735865508233"}}},
		{"C-attachment", func(a *Attachment) { a.Version = "v1" }, "attachment.protocol_version", "v1", refusal{AttachmentField, []string{"v2"}}},
		{"C-attachment", func(a *Attachment) { a.Rank = 1 }, "attachment.dp_rank", "1", refusal{AttachmentField, []string{`"0"`}}},
		{"C-attachment", func(a *Attachment) { a.RecoveryTarget = 7 }, "attachment.recovery_control_target", "7", refusal{AttachmentField, []string{`"9"`}}},
		{"C-attachment", func(a *Attachment) { a.Protocol = "framework_v1" }, "attachment.ingress_protocol", "framework_v1", refusal{AttachmentField, []string{"vllm_residency_v1"}}},
		{"C-attachment", func(a *Attachment) {
			a.Publisher = 43
			a.RecordID = identity.AttachmentRecord(43, 1)
		}, "attachment.publisher_id", "43", refusal{AttachmentField, []string{`"41"`}}},
	} {
		t.Run(c.id+"/"+c.field, func(t *testing.T) {
			a := good
			c.change(&a)
			c.check(t, s.Binds(&a), c.field, c.value)
		})
	}
}
