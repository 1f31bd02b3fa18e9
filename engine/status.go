package engine

import (
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/tree"
)

// SourceStatus describes one source as it is now.
type SourceStatus struct {
	ID       string
	Model    string
	Protocol string
	Policy   string // copies or set
	// Shard is the index shard the source lives on.
	Shard int
	// WorkerType is the declared hint role, "" if the source takes no part.
	WorkerType string
	// State is the worst of its streams'.
	State State
	// BlockSizes are the engine block sizes met, ascending; Lookahead are the
	// look-aheads of its hashes, ascending ({0} for most).
	BlockSizes []int
	Lookahead  []int
	Streams    []StreamStatus // by rank, then TP shard
}

// StreamStatus describes one stream of a source: one connection, one sequence.
type StreamStatus struct {
	Rank     int
	TPShard  int
	Endpoint string
	// State is the worse of the domains', and Cause why it is not exact.
	State State
	Cause string
	// Connected: the link is up and the handshake done.
	Connected bool
	Silent    bool
	// Seq is the last sequence received, Received whether there was one.
	Seq      uint64
	Received bool
	// Applied is the last sequence wholly visible, Visible whether there is one.
	Applied     uint64
	Visible     bool
	Incarnation uint32 // publisher restarts seen
	Epoch       uint32 // connections made
	Age         time.Duration
	// LastError is why there is no link: why it went down, or why the last
	// attempt to connect failed. "" while Connected.
	LastError string
	// Counters are everything that was counted, by name, in a fixed order:
	// messages, batches, blocks, drops by reason.
	Counters []Counter
}

// Counter is one named count.
type Counter struct {
	Name string
	// Reason divides a name, "" if it is not divided.
	Reason string
	Value  uint64
}

// OwnerStatus describes one holder: what an answer can name.
type OwnerStatus struct {
	Source     string
	Rank       int
	Domain     Domain
	Model      string
	BlockSize  int
	WorkerType string
	Endpoint   string // hint control endpoint, "" if it has none
	// AttachedTo is, for a cache owner, the worker it is attached to.
	AttachedTo string
	// StateAgent: a worker whose framework blocks are never offered in a hint.
	StateAgent bool
	Freshness  Freshness
}

// Stats are the engine's own figures.
type Stats struct {
	Sources int
	Streams int
	Holders int
	Shards  []tree.Stats // per index shard
	Matches uint64
	// Hints counts calls by outcome, hints[hint.Hinted] the hints made.
	Hints [hint.NumReasons]uint64
	// Ineligible counts the details of reason ineligible.
	Ineligible [hint.NumDetails]uint64
	// QueueStalls counts how often a stream waited for room in its ring.
	QueueStalls uint64
	// StaleDrops counts records that a raised generation made void.
	StaleDrops uint64
	Revision   uint64
}
