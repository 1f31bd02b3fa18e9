package validate

import (
	"fmt"
	"strings"

	"github.com/cairn-kv/cairn/engine/identity"
)

// Intent is a worker's wish to attach to a slot of a host, as the host sees it.
type Intent struct {
	Topic       string // discovery topic that brought it; "" for a call
	DiscoveryID uint64 // id it was found under
	TargetHost  uint64 // host incarnation it is meant for
	Incarnation uint64
	Producer    uint64 // instance of the process that wrote it
	Worker      uint64
	Rank        uint32
	Owner       identity.CacheOwnerID
	Domain      identity.IndexerDomain
	StateTarget string // kv_state_endpoint
	BlockSize   uint32
	Protocol    string
	// RawEndpoints are the worker's publishers: one, or one for every TP shard.
	RawEndpoints []string
	RawTopic     string
}

// HostView is what a host knows of itself.
type HostView struct {
	Instance uint64   // its incarnation
	Scope    [16]byte // its control scope
}

// Admit checks an intent at its host. at is what stands before the names of
// its fields where it came from, such as intent. or nothing. The error is nil
// or Errors.
func (h HostView) Admit(at string, in *Intent) error {
	var f findings
	if in.TargetHost != h.Instance {
		f.add(IntentHost, at+"target_host", number(in.TargetHost), "this host is incarnation "+number(h.Instance), "the incarnation that runs: restart the worker or register it anew")
	}
	if in.Incarnation != in.DiscoveryID {
		f.add(IntentIncarnation, at+"intent_incarnation", number(in.Incarnation), "it was found as "+number(in.DiscoveryID), "the id it is found under")
	}
	if in.Topic != "" && !identity.TopicIntents.Is(in.Topic) {
		f.add(IntentTopic, at+"topic", in.Topic, "intents do not come on this topic", identity.TopicIntents.Text())
	}
	if in.Owner.Scope != h.Scope {
		f.add(IntentScope, at+"cache_owner_id", in.Owner.String(), fmt.Sprintf("is of control scope %x, this host of %x", in.Owner.Scope, h.Scope), "an owner of this host's scope, or the host of the owner's")
	}
	if in.BlockSize == 0 {
		f.add(IntentSize, at+"kv_block_size", "0", "owner "+in.Owner.String()+" has no block size", "tokens per block, > 0")
	}
	if in.Owner.Domain() != in.Domain {
		f.add(IntentDomain, at+"indexer_domain_id", in.Domain.String(), "its owner is of domain "+in.Owner.Domain().String(), "the domain of the owner, which stands before the first / of its id")
	}
	p, known := owned(&f, IntentProtocol, at+"ingress_protocol", in.Protocol)
	if known && p.EngineLocal() && in.RawTopic == "" {
		f.add(IntentEmpty, at+"raw_topic", "", "is empty, and an engine-local owner would take the events of the process before it", "a topic that no other engine incarnation has")
	}
	for field, ep := range rawEndpoints(at, in.RawEndpoints) {
		f.note(intentEndpoint(field, ep))
	}
	return f.err()
}

func intentEndpoint(field, endpoint string) error {
	if strings.TrimSpace(endpoint) == "" {
		return &Error{IntentEmpty, field, endpoint, "is empty", "tcp://host:port of the worker's publisher"}
	}
	scheme, _, ok := strings.Cut(endpoint, "://")
	if !ok {
		return &Error{IntentScheme, field, endpoint, "has no scheme", "scheme tcp://"}
	}
	if scheme != "tcp" {
		return &Error{IntentScheme, field, endpoint, "has scheme " + quote(scheme), "scheme tcp://"}
	}
	_, err := Endpoint(field, endpoint)
	return err
}

// canonical makes the spellings of one protocol equal.
func canonical(protocol string) string {
	if p, ok := identity.ParseProtocol(protocol); ok {
		return p.String()
	}
	return protocol
}
