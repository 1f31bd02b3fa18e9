package validate

import (
	"github.com/cairn-kv/cairn/engine/identity"
)

// Source is the record of a slot's publisher, as a router sees it. It outlives
// detachment.
type Source struct {
	DiscoveryID    uint64 // id it was found under
	Publisher      uint64
	Version        string
	EventTopic     string
	StateEndpoint  string // kv_state_endpoint
	RecoveryTarget uint64
	Rank           uint32
	BlockSize      uint32
	Protocol       string
	Owner          identity.CacheOwnerID
	Domain         identity.IndexerDomain
}

// RouterView is what a router expects of the sources of one model.
type RouterView struct {
	StateEndpoint string
	BlockSize     uint32
	Domain        identity.IndexerDomain
}

// Believe checks a source at its router. Fields are named source.… . The error
// is nil or Errors.
func (r RouterView) Believe(s *Source) error {
	var f findings
	equal := func(rule Rule, field, got, want, other string) {
		if got != want {
			f.add(rule, "source."+field, got, "is not "+other+", "+quote(want), quote(want))
		}
	}
	equal(SourcePublisher, "publisher_id", number(s.Publisher), number(s.DiscoveryID), "the id it was found under")
	equal(SourceVersion, "protocol_version", s.Version, identity.ProtocolVersion.Text(), "the version we speak")
	equal(SourceTopic, "event_topic", s.EventTopic, identity.TopicEvents.Text(), "the topic of events")
	equal(SourceEndpoint, "kv_state_endpoint", s.StateEndpoint, r.StateEndpoint, "this model's endpoint")
	equal(SourceSize, "kv_block_size", number(s.BlockSize), number(r.BlockSize), "this model's block size")
	owned(&f, SourceProtocol, "source.ingress_protocol", s.Protocol)
	equal(SourceDomain, "indexer_domain_id", s.Domain.String(), r.Domain.String(), "this model's indexer domain")
	return f.err()
}

// Attachment is the record that binds a slot to a worker for one generation.
type Attachment struct {
	RecordID       uint64
	Generation     uint64
	Version        string
	Publisher      uint64
	Rank           uint32
	RecoveryTarget uint64
	Protocol       string
}

// Binds checks an attachment against the source it attaches to. Fields are
// named attachment.… . The error is nil or Errors.
func (s *Source) Binds(a *Attachment) error {
	var f findings
	if want := identity.AttachmentRecord(a.Publisher, a.Generation); a.RecordID != want {
		f.add(AttachmentID, "attachment.record_id", number(a.RecordID), "publisher "+number(a.Publisher)+" in generation "+number(a.Generation)+" derives "+number(want), number(want))
	}
	for _, c := range []struct{ field, got, want string }{
		{"protocol_version", a.Version, s.Version},
		{"publisher_id", number(a.Publisher), number(s.Publisher)},
		{"dp_rank", number(a.Rank), number(s.Rank)},
		{"recovery_control_target", number(a.RecoveryTarget), number(s.RecoveryTarget)},
		{"ingress_protocol", canonical(a.Protocol), canonical(s.Protocol)},
	} {
		if c.got != c.want {
			f.add(AttachmentField, "attachment."+c.field, c.got, "its source has "+quote(c.want), quote(c.want))
		}
	}
	return f.err()
}
