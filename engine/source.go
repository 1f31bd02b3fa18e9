package engine

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/cairn-kv/cairn/engine/identity"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
)

// Ingress protocols: what a source's word covers. These are the spellings that
// cairn writes; what else is taken for them stands in package identity.
const (
	// FrameworkV1 is a plain engine stream: the framework's own cache, no
	// residency of a cache library. The default.
	FrameworkV1 = "framework_v1"
	// VLLMResidencyV1 adds a cache owner whose pool outlives the engine.
	VLLMResidencyV1 = "vllm_residency_v1"
	// HiCacheV1 adds a cache owner whose pool dies with the engine.
	HiCacheV1 = "sglang_hicache_v1"
)

const protocols = FrameworkV1 + ", " + VLLMResidencyV1 + ", " + HiCacheV1

// Source describes one source: a worker with all its dp ranks, tiers and TP
// shards, and the cache owner beside it if its protocol has one.
type Source struct {
	// ID names the source in answers. Required, unique in the engine, at most
	// 256 bytes, no control characters. It is the worker id of the tie rule:
	// decimal ids are ordered by value.
	ID string
	// Model is what queries ask for. Required; it is not on the wire.
	Model string

	// Endpoint is where the publisher of rank 0 listens: tcp://host:port or
	// ipc://path. Rank r listens on port + r. Exclusive with Shards.
	Endpoint string
	// Shards lists the endpoints of the TP shards, one stream each, in shard
	// order (at most tree.MaxShards). A block is present while every shard
	// holds it. Rank r of each listens on its port + r.
	Shards []string
	// Replay is the endpoint of the replay socket of rank 0; rank r's is on
	// port + r. What a stream missed is asked for there, and the source hidden
	// until it has come. Without it a loss empties the source, which goes on
	// degraded.
	Replay string
	// ShardReplays is Replay for a source with Shards: one endpoint per TP
	// shard, in shard order, for each is a publisher of its own.
	ShardReplays []string
	// Push: there is no endpoint to connect to; batches are given to Push.
	Push bool
	// Discover says where the engine announces its publishers, which then have
	// no fixed ports. Instead of Endpoint, Shards and Replay.
	Discover *Discovery
	// Plain is the user and password that publishers want, by PLAIN. Nil: none.
	Plain *zmtp.Plain
	// Ranks is the number of data parallel ranks with a publisher of their
	// own, 1 … Options.MaxRanks. 0 means 1.
	Ranks int
	// Topic is the ZeroMQ subscription, compared with frame 0 for equality
	// unless it is empty, which accepts every topic.
	Topic string

	// Protocol is one of the ingress protocols above; empty means FrameworkV1.
	// The two with owned residency declare a cache owner and put the worker
	// into state-agent mode: its framework blocks are never offered in a hint.
	Protocol string
	// Policy says what repeated stores mean for the worker domain. The
	// cache-owner domain is always a set.
	Policy tree.Policy
	// MainGroup is the KV-cache group whose blocks count as the prefix.
	MainGroup int
	// FirstSeq is the sequence a publisher starts at: 0 for engines, 1 for a
	// Mooncake master and the llm-d file-system backend.
	FirstSeq uint64
	// NoPythonRoot takes the constant hash(()) for an ordinary parent. SGLang
	// 0.4.6 – 0.4.10 names the root by it instead of nil, and without this flag
	// it means the root.
	NoPythonRoot bool
	// BareMM: bare strings among a block's extra keys are multimodal
	// identifiers whatever their form.
	BareMM bool
	// BlockSize is how many tokens a block has where events do not say so: those
	// of Dynamo's routers, which have content hashes and no tokens. 0 takes that
	// of the source's other events.
	BlockSize int
	// ZeroParentUnknown takes a parent 0 for one that is not known, as LMCache
	// means it, instead of none.
	ZeroParentUnknown bool
	// Hybrid and InvisibleKeys say what no event does: that the engine's model has
	// windows or states beside full attention, which it may have forgotten where
	// the blocks are still there, or that it keeps blocks of one content apart by
	// keys that events leave out. Both are SGLang's. It may reuse less than an
	// answer says then, and answers are marked UpperBound.
	Hybrid        bool
	InvisibleKeys bool
	// TakeUnsound follows SGLang 0.5.1 – 0.5.5.post3, whose events do not say how
	// blocks hang together. Without it such a source is fenced.
	TakeUnsound bool

	// Hint declares that this source takes part in peer-fetch hints. Nil: it
	// is neither a target nor a source of hints.
	Hint *HintConfig
}

// maxBlockSize bounds Source.BlockSize.
const maxBlockSize = 1 << 16

// FieldError says which field of a source or an option cannot be used, with
// the value it had and what would be right.
type FieldError struct {
	Source string // id of the source, "" if there is none
	Field  string // as in the configuration: endpoint, shards[1], hint.stride
	Value  string
	Want   string
}

// Error reads: source "w1": ranks 65: wants 1 … 64.
func (e *FieldError) Error() string {
	s := ""
	if e.Source != "" {
		s = fmt.Sprintf("source %q: ", e.Source)
	}
	return s + e.Field + " " + e.Value + ": " + e.Want
}

// protocol is the source's ingress protocol, and known whether there is such a
// one.
func (s *Source) protocol() (p identity.Protocol, known bool) {
	if s.Protocol == "" {
		return identity.Framework, true
	}
	return identity.ParseProtocol(s.Protocol)
}

// Validate checks a source against the default limits without adding it. The
// error is a *FieldError, or joins one for everything that is wrong.
func (s *Source) Validate() error {
	return s.validate(DefaultMaxRanks)
}

func (s *Source) validate(maxRanks int) error {
	return joined(s.problems(maxRanks, true))
}

// problems are all that is wrong with a source. The publisher of one that is not
// reached by itself connects to a listener.
func (s *Source) problems(maxRanks int, reach bool) (all []*FieldError) {
	bad := func(field, value, want string) error {
		e := &FieldError{Source: s.ID, Field: field, Value: value, Want: want}
		all = append(all, e)
		return e
	}
	switch {
	case s.ID == "":
		bad("id", `""`, "a source needs a name that is unique in the engine")
	case len(s.ID) > maxID || strings.ContainsFunc(s.ID, control):
		bad("id", strconv.Quote(s.ID), fmt.Sprintf("wants at most %d bytes without control characters", maxID))
	}
	if s.Model == "" {
		bad("model", `""`, "names the model that queries ask for; it is not on the wire")
	}
	if s.MainGroup < 0 {
		bad("main_group", strconv.Itoa(s.MainGroup), "groups count from 0")
	}
	if s.Policy > tree.Set {
		bad("policy", strconv.Itoa(int(s.Policy)), "wants copies or set")
	}
	if s.BlockSize < 0 || s.BlockSize > maxBlockSize {
		bad("block_size", strconv.Itoa(s.BlockSize), fmt.Sprintf("wants 1 … %d, or 0 if it is not known", maxBlockSize))
	}
	if s.FirstSeq > 1 {
		bad("first_seq", strconv.FormatUint(s.FirstSeq, 10), "publishers start at 0 (engines) or 1 (Mooncake master, llm-d fs backend)")
	}
	if _, known := s.protocol(); !known {
		bad("protocol", strconv.Quote(s.Protocol), "wants one of "+protocols)
	}
	if s.Ranks < 0 || s.Ranks > maxRanks {
		bad("ranks", strconv.Itoa(s.Ranks), fmt.Sprintf("wants 1 … %d", maxRanks))
		return all // endpoints are checked rank by rank
	}
	if reach {
		s.validateEndpoints(bad)
	}
	s.validateHint(bad)
	return all
}

func (s *Source) validateEndpoints(bad func(field, value, want string) error) {
	if s.Plain != nil {
		if want := plainProblem(s.Plain); want != "" {
			bad("plain", strconv.Quote(s.Plain.User), want)
		}
	}
	if s.Discover != nil {
		s.validateDiscovery(bad)
		return
	}
	switch {
	case s.Push && s.Endpoint != "":
		bad("push", "true", "stands beside endpoint: its events come by themselves, or from there")
	case s.Push && len(s.Shards) > 0:
		bad("push", "true", "stands beside shards: a source whose events are pushed has one stream per rank")
	case s.Push && s.Replay != "":
		bad("push", "true", "stands beside replay: nothing can be asked for again")
	case s.Push:
	case s.Endpoint == "" && len(s.Shards) == 0:
		bad("endpoint", `""`, "wants tcp://host:port or ipc://path of the publisher, or shards with one endpoint per TP shard")
	case s.Endpoint != "" && len(s.Shards) > 0:
		bad("endpoint", strconv.Quote(s.Endpoint), "stands beside shards: give one endpoint, or one per TP shard")
	case len(s.Shards) > tree.MaxShards:
		bad("shards", strconv.Itoa(len(s.Shards))+" endpoints", fmt.Sprintf("a source has at most %d TP shards", tree.MaxShards))
		return
	}
	type use struct{ field, base string }
	seen := map[string]use{} // resolved endpoint → who listens there
	check := func(field, base string) {
		for r := range s.ranks() {
			ep, err := RankEndpoint(base, r)
			if err != nil {
				bad(field, strconv.Quote(base), err.Error())
				return
			}
			if u, taken := seen[ep]; taken {
				bad(field, strconv.Quote(base), fmt.Sprintf("rank %d would be %s, where %s %q listens already; rank r listens on port + r", r, ep, u.field, u.base))
				return
			}
			seen[ep] = use{field, base}
		}
	}
	if s.Endpoint != "" {
		check("endpoint", s.Endpoint)
	}
	for i, ep := range s.Shards {
		check(fmt.Sprintf("shards[%d]", i), ep)
	}
	switch {
	case s.Replay != "" && len(s.Shards) > 1:
		bad("replay", strconv.Quote(s.Replay), fmt.Sprintf("serves one publisher, and %d shards are as many; give shard_replays, one per shard", len(s.Shards)))
	case len(s.ShardReplays) > 0 && len(s.ShardReplays) != len(s.Shards):
		bad("shard_replays", strconv.Itoa(len(s.ShardReplays))+" endpoints", fmt.Sprintf("wants one for each of %d shards", len(s.Shards)))
	case len(s.ShardReplays) > 0 && s.Replay != "":
		bad("replay", strconv.Quote(s.Replay), "stands beside shard_replays: give one of the two")
	}
	for i, ep := range s.ShardReplays {
		check(fmt.Sprintf("shard_replays[%d]", i), ep)
	}
	if s.Replay != "" {
		check("replay", s.Replay)
	}
}

func (s *Source) ranks() int { return max(s.Ranks, 1) }

// endpoints returns the shard endpoints, one for an aggregated source.
func (s *Source) endpoints() []string {
	if len(s.Shards) > 0 {
		return s.Shards
	}
	return []string{s.Endpoint}
}

// RankEndpoint returns where the publisher of a dp rank listens, given rank
// 0's endpoint: port + rank for tcp. Other schemes have no port to add to and
// serve rank 0 only.
func RankEndpoint(base string, rank int) (string, error) {
	if path, ok := strings.CutPrefix(base, "ipc://"); ok {
		switch {
		case path == "":
			return "", fmt.Errorf("has no path; wants ipc://path")
		case rank > 0:
			return "", fmt.Errorf("an ipc endpoint has no port to count ranks on; wants tcp://host:port, or one source per rank")
		}
		return base, nil
	}
	addr, ok := strings.CutPrefix(base, "tcp://")
	if !ok {
		return "", fmt.Errorf("wants tcp://host:port or ipc://path")
	}
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("is not host:port behind tcp:// (%s)", strings.TrimPrefix(err.Error(), "address "))
	}
	if host == "" || host == "*" {
		return "", fmt.Errorf("names no host to dial; an address to bind is not an address to connect to")
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil || port == 0 {
		return "", fmt.Errorf("port %q: wants 1 … 65535", p)
	}
	if int(port)+rank > 65535 {
		return "", fmt.Errorf("rank %d would be port %d; the highest is 65535", rank, int(port)+rank)
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(int(port)+rank)), nil
}
