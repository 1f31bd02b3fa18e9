package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// Domain is a residency domain: whose memory holds a block.
type Domain uint8

const (
	Worker     Domain = iota // the serving framework's cache
	CacheOwner               // the cache library's pool (KVCR)
	NumDomains
)

// String returns worker or cache_owner.
func (d Domain) String() string {
	if d == CacheOwner {
		return "cache_owner"
	}
	return "worker"
}

// Pool says whether a source has a cache owner beside the worker, and how long
// the owner's blocks live. It follows from the source's ingress protocol.
type Pool uint8

const (
	PoolNone        Pool = iota // framework_v1: no owned residency
	PoolEngineLocal             // sglang_hicache_v1: dies with the engine
	PoolDurable                 // vllm_residency_v1: outlives it
)

// ErrRank is what an Owner returns for a rank it has no holder for, and will
// have none.
var ErrRank = errors.New("ingest: rank out of range")

// Owner is who a stream belongs to: it turns ranks into holders and geometries
// into roots. Each stream asks an Owner of its own or shares one; the methods
// are called on the stream's goroutine, which keeps the answers, so they may
// wait for the shard's writer. An error other than the end of the context or
// shard.ErrClosed makes the stream drop the event and count it.
type Owner interface {
	// Holder returns the holder of a rank in a domain, made if need be, and the
	// generation its records must carry. The owner domain's policy is always
	// tree.Set. It is asked once per rank and domain, and again when the
	// publisher has restarted, because a fence may have raised the generation.
	Holder(rank int, d Domain) (h tree.Holder, generation uint32, err error)
	// Root returns the trie of a unit and look-ahead, made if need be.
	Root(unit, lookahead int) (tree.Root, error)
	// Learned tells which block size and look-ahead a rank's events have now.
	// It is called before the first event of that kind is visible.
	Learned(rank int, d Domain, blockSize, lookahead int)
}

// DefaultMaxRanks is the number of dp ranks a stream accepts from batches.
const DefaultMaxRanks = 64

// Options of a Stream. Zero values mean the defaults.
type Options struct {
	// Source names the source in logs and in adapters that have only a number.
	Source string
	// Endpoint is the publisher: tcp://host:port or ipc:///path. With Dial it
	// is only a name, for logs.
	Endpoint string
	// Dial makes the next link to the publisher; ctx ends it, also later. It is
	// called on the stream's goroutine, again after a link has ended, with
	// Backoff between; an error is one attempt that failed. ErrEnd says that
	// there will be none. Nil connects to Endpoint over ZMTP.
	Dial func(ctx context.Context, h Hooks) (Link, error)
	// Topic is subscribed to, and compared with frame 0: for equality, unless
	// TopicPrefix is set. Empty accepts every topic.
	Topic       string
	TopicPrefix bool

	// Rank is the dp rank of batches that state none.
	Rank int
	// MaxRanks bounds the ranks that batches may state: 0 … MaxRanks-1.
	MaxRanks int
	// TPShard is which TP shard of the source the stream is; 0 if it has none.
	TPShard uint8

	// Pool says whether there is a cache owner.
	Pool Pool
	// MainGroup is the cache group whose blocks count as the prefix.
	MainGroup int64
	// FirstSeq is the sequence a publisher starts at: 0 for engines, 1 for a
	// Mooncake master and the llm-d file-system backend.
	FirstSeq uint64
	// NoPythonRoot takes SGLang's hash(()) for an ordinary parent. Without it
	// that constant (releases 0.4.6 to 0.4.10) is no parent.
	NoPythonRoot bool
	// BareMultimodal: bare strings among a block's extra keys are multimodal
	// identifiers whatever their form.
	BareMultimodal bool

	// BlockSize is how many tokens a block has whose event does not say so: of
	// router events, which tell content hashes and no tokens. 0 takes that of the
	// source's other events, and leaves such events out before there are any.
	BlockSize int
	// ZeroParentUnknown takes a parent 0 for one that is not known, as LMCache
	// means it, and not for none.
	ZeroParentUnknown bool
	// TakeUnsound follows releases whose events cannot be put together again:
	// see CauseUnsound, with which they are fenced otherwise.
	TakeUnsound bool

	// Attached, if set, binds the stream to an attachment of a slot.
	Attached *Attached

	// Learned is shared by all streams of one source. Required.
	Learned *Learned
	// Owner answers for the stream's source. Required.
	Owner Owner
	// Port is the stream's way into its shard. Required; Run closes it.
	Port *shard.Port

	// Changes, if set, counts what happens to Exact, Status and Settled but by
	// positions: see Changes. Streams share one.
	Changes *Changes

	// Transport sets time-outs and limits of the connection that Dial does not
	// make. Its Endpoint, Topics and Heartbeat are the stream's own.
	Transport zmtp.Options
	// Repair says how what was missed is made up for. The replay endpoint is
	// connected to with the dialer and credentials of Transport.
	Repair Repair
	// Backoff is the delay between attempts to connect.
	Backoff zmtp.Backoff
	// Logger gets state changes, each once. Nil logs nothing.
	Logger *slog.Logger
}

// check refuses options a stream cannot work with.
func (o *Options) check() error {
	switch {
	case o.Port == nil:
		return errors.New("ingest: Options.Port is nil: want the port of the stream's shard")
	case o.Owner == nil:
		return errors.New("ingest: Options.Owner is nil: want who knows holders and roots")
	case o.Learned == nil:
		return errors.New("ingest: Options.Learned is nil: want what the streams of the source share")
	case o.MaxRanks < 0 || o.MaxRanks > 1<<16:
		return fmt.Errorf("ingest: Options.MaxRanks is %d: want 1 … 65536, or 0 for %d", o.MaxRanks, DefaultMaxRanks)
	case o.Rank < 0 || o.Rank >= o.maxRanks():
		return fmt.Errorf("ingest: Options.Rank is %d: want 0 … %d", o.Rank, o.maxRanks()-1)
	case o.BlockSize < 0 || o.BlockSize > maxBlockSize:
		return fmt.Errorf("ingest: Options.BlockSize is %d: want 1 … %d, or 0 if it is not known", o.BlockSize, maxBlockSize)
	case o.TPShard >= tree.MaxShards:
		return fmt.Errorf("ingest: Options.TPShard is %d: want 0 … %d", o.TPShard, tree.MaxShards-1)
	case o.Attached != nil && (o.Attached.Fault == nil || o.Pool == PoolNone):
		return errors.New("ingest: Options.Attached wants a Fault and a Pool: want who hears of faults, and a cache owner")
	case o.Pool > PoolDurable:
		return fmt.Errorf("ingest: Options.Pool is %d: want 0 … %d", o.Pool, PoolDurable)
	}
	return nil
}

func (o *Options) maxRanks() int {
	if o.MaxRanks == 0 {
		return DefaultMaxRanks
	}
	return o.MaxRanks
}
