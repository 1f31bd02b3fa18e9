package residency

import (
	"slices"
	"time"
)

// OwnerID is a cache owner's identity, semantics:scope/dc/slot. This package
// only compares it.
type OwnerID string

// Worker is the process that serves a data-parallel rank now. Ranks are global.
type Worker struct {
	ID   uint64
	Rank uint32
}

// Host is the supervisor of the slots of one control scope: exactly one per
// scope at any time.
type Host struct {
	// Scope names the control scope. Required.
	Scope string
	// Instance is this life of the host; intents name it as their target.
	// Required.
	Instance uint64
	// MaxSlots bounds the slots of the scope, detached ones included. 0 means
	// DefaultMaxSlots.
	MaxSlots int
}

// HintSource is what an owner publishes about its part in hints.
type HintSource struct {
	// ControlEndpoint is where peers fetch from, tcp://host:port of the rank.
	ControlEndpoint string
	// WorkerType is aggregated, prefill or decode.
	WorkerType string
	// Carrier is where in a request the worker wants its hints, Link the kind of
	// link it is fetched over, TP the width that peers dial; "" and 0 leave them to
	// the defaults. They are ours, and in no upstream record.
	Carrier, Link string
	TP            int
}

// Intent is one rank's wish to have its owner attached to its raw stream. What
// the fields must look like is judged by package validate; the registry judges
// only what depends on what is registered already.
type Intent struct {
	// TargetHost is the instance of the scope's host.
	TargetHost uint64
	// Producer is the life of the process that sends the intent.
	Producer uint64
	// Incarnation is this wish: random, 1 … 2⁵³-1, unique in its scope.
	Incarnation uint64
	Owner       OwnerID
	Worker      Worker
	// Model is what queries ask for; it is not on the wire.
	Model string
	// KVStateEndpoint, Domain (indexer_domain_id), BlockSize, Protocol and the
	// worker's rank never change during the life of a slot.
	KVStateEndpoint string
	Domain          string
	BlockSize       int // tokens
	Protocol        Protocol
	// Endpoints are the raw publishers, one per TP shard in shard order; one
	// for a stream that speaks for all shards.
	Endpoints []string
	// Replays are the replay endpoints of those publishers, as many and in the
	// same order; none if they keep nothing for replay.
	Replays []string
	// Topic is compared with frame 0 for equality; empty takes any, which only
	// durable protocols may.
	Topic string
	// ImageToken and VideoToken are the model's placeholder tokens.
	ImageToken, VideoToken *uint32
	// Hint is the owner's part in hints; nil if it has none.
	Hint *HintSource
}

// clone returns a copy that shares nothing with i.
func (i Intent) clone() Intent {
	i.Endpoints, i.Replays = slices.Clone(i.Endpoints), slices.Clone(i.Replays)
	i.ImageToken, i.VideoToken = copied(i.ImageToken), copied(i.VideoToken)
	i.Hint = copied(i.Hint)
	return i
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// Registration is the wish of a worker to have all its ranks attached, all or
// none.
type Registration struct {
	// ID names one life of one worker, and its lease. Registering the same ID
	// with the same content again is a renewal; another content is refused.
	ID string
	// Scope is the control scope whose host is to serve it.
	Scope string
	// TTL is how long the lease lasts without a renewal. 0: until Release.
	TTL time.Duration
	// Intents are those of all ranks, in any order; they are attached in the
	// order of ranks.
	Intents []Intent
}

// Lease is what a registration holds.
type Lease struct {
	ID    string
	Scope string
	Host  uint64 // instance of the scope's host
	// TTL is how long it lasts from a renewal on, 0 without an end.
	TTL time.Duration
	// Expires is when it ends unless it is renewed; zero if never.
	Expires time.Time
	// Owners are those that it keeps attached, in the order of ranks.
	Owners []OwnerID
	// Out are those of them that are not attached and ready now. A quarantined
	// one comes back when the same is registered again, a fenced one when the
	// worker restarts and registers a new incarnation; one whose owner others
	// claim, too, when they no longer do.
	Out []OwnerID
}

// SlotID names a slot during the life of the process; no two ever share one.
type SlotID uint64

// Source is what a slot is, apart from who is attached: it outlives detachment.
type Source struct {
	Slot            SlotID
	Scope           string
	Owner           OwnerID
	Rank            uint32 // global
	Model           string
	KVStateEndpoint string
	Domain          string
	BlockSize       int // tokens
	Protocol        Protocol
	Shards          int    // TP shards: streams per attachment
	Publisher       uint64 // id of the socket the slot is counted on
}

// Attachment is one generation's live binding of a slot to a worker.
type Attachment struct {
	Source
	Generation  uint64
	Record      uint64 // id of the attachment record, see Options.RecordID
	Producer    uint64
	Incarnation uint64
	Worker      Worker
	Endpoints   []string
	Replays     []string // as many, or none
	Topic       string
	ReadyAt     Cursor // the barrier that must be applied
	Hint        *HintSource
	ImageToken  *uint32
	VideoToken  *uint32
}

// Cursor counts the barriers of a slot.
type Cursor uint64
