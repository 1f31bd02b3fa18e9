package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/identity"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/engine/validate"
)

// Worker is one life of a worker process, with all the dp ranks it manages.
type Worker struct {
	// ID names the registration and its lease: at most 256 bytes, no slash, no
	// control characters. A plain worker's source has it as its id.
	ID string
	// Model is what queries ask for. Required; it is not on the wire.
	Model string
	// Protocol is the ingress protocol. Owned ones have a cache owner per rank.
	Protocol identity.Protocol
	// TTL is how long the lease lasts without a renewal; 0: until Release.
	TTL time.Duration

	// WorkerType is the part in hints: aggregated, prefill or decode; "" for none.
	WorkerType string
	// HintEndpoints are the control endpoints by rank in decimal, of all ranks
	// or of none.
	HintEndpoints map[string]string
	// HintCarrier is where in a request the worker wants its hints, one of
	// hint.Carriers; HintLink names the kind of link it is fetched over, to which
	// costs are known; HintTP is the number of TP shards that peers dial. "" and 0
	// are the defaults: kv_hint, no name, the number of raw endpoints.
	HintCarrier, HintLink string
	HintTP                int

	// Ranks are the managed ranks, at least one.
	Ranks []Rank

	// What follows is for protocols with owned residency.

	WorkerID uint64 // id of the process, the same for all ranks
	Producer uint64 // instance of the process that registers
	// TargetHost is the host incarnation the worker found; 0 takes the one that
	// runs.
	TargetHost    uint64
	StateEndpoint string
	BlockSize     uint32 // tokens, > 0
	// Domain is the indexer domain; the zero value takes the owners'.
	Domain                 *identity.IndexerDomain
	ImageToken, VideoToken *uint32

	// Metadata and Settings are what the engine itself publishes at start-up. If
	// Metadata is stated, it must be whole and agree with Ranks.
	Metadata map[string]json.RawMessage
	Settings validate.Settings
}

// Rank is one dp rank of a worker.
type Rank struct {
	Rank uint32 // global
	// Endpoints are the raw publishers, tcp://host:port: one, or one for every
	// TP shard in shard order.
	Endpoints []string
	// Replays are the replay endpoints of those publishers, as many and in the
	// same order; none if they keep nothing for replay. What was missed is asked
	// for there, of owned protocols only if engine.OwnerOptions.OnGap says so.
	Replays []string
	// Topic is compared with frame 0 for equality; "" takes any, which
	// engine-local owners may not.
	Topic string
	// Owner and Incarnation are of the rank's intent; for owned protocols. The
	// incarnation is 1 … identity.MaxID and new for every life of the engine.
	Owner       identity.CacheOwnerID
	Incarnation uint64
}

const wantIncarnation = "a number of 1 … 9007199254740991, drawn anew for every rank and every life of the engine"

// MaxRanks is how many ranks one worker may register.
const MaxRanks = 64

// maxTP bounds the TP width that a worker may state.
const maxTP = 1024

// check judges what does not depend on what is registered already. The error
// is nil or validate.Errors.
func (w *Worker) check() error {
	var p problems
	switch {
	case w.ID == "":
		p.add(validate.JSONMissing, "id", "", "is empty", "a name that is the worker's own")
	case len(w.ID) > 256 || !slices.ContainsFunc([]rune(w.ID), func(r rune) bool { return r != '.' }) || slices.ContainsFunc([]rune(w.ID), func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' }):
		p.add(validate.JSONType, "id", w.ID, "cannot name a route", "at most 256 bytes, not only dots, without slashes and control characters")
	}
	if w.Model == "" {
		p.add(validate.JSONMissing, "model", "", "is empty", "what queries ask for; it is not on the wire")
	}
	if w.TTL < 0 {
		p.add(validate.JSONNumber, "lease_ms", w.TTL.String(), "is negative", "a duration, or 0 for no end")
	}
	if len(w.Ranks) > MaxRanks {
		p.add(validate.JSONNumber, "ranks", fmt.Sprint(len(w.Ranks)), "are too many", fmt.Sprintf("at most %d", MaxRanks))
		return p.err()
	}
	managed := make([]uint32, len(w.Ranks))
	for i := range w.Ranks {
		managed[i] = w.Ranks[i].Rank
	}
	_, err := validate.HintEndpoints("router_hint_source_control_endpoints", w.HintEndpoints, managed)
	p.note(err)
	if len(w.HintEndpoints) > 0 && w.WorkerType == "" {
		p.add(validate.JSONMissing, "router_hint_worker_type", "", "is not stated, and without it the endpoints make no one capable", "aggregated, prefill or decode")
	}
	p.note(w.checkReplays())
	p.note(w.checkHints())
	if w.Protocol.Owned() {
		p.note(w.checkOwned(managed))
	} else {
		p.note(w.checkPlain())
	}
	return p.err()
}

// checkHints judges what goes beyond the worker's type and endpoints.
func (w *Worker) checkHints() error {
	var p problems
	if _, ok := hint.ParseCarrier(w.HintCarrier); !ok {
		p.add(validate.JSONType, "hint_carrier", w.HintCarrier, "is no carrier", "one of "+hint.Carriers)
	}
	if len(w.HintLink) > 256 {
		p.add(validate.JSONType, "hint_link", w.HintLink[:40]+"…", "is too long", "at most 256 bytes")
	}
	for i := range w.Ranks {
		if n := len(w.Ranks[i].Endpoints); n > 1 && w.HintTP != 0 && w.HintTP != n {
			p.add(validate.JSONNumber, "hint_tp", fmt.Sprint(w.HintTP), fmt.Sprintf("is not the number of raw endpoints of ranks[%d], %d", i, n), fmt.Sprintf("%d, or none", n))
			break
		}
	}
	if w.WorkerType == "" && (w.HintCarrier != "" || w.HintLink != "" || w.HintTP != 0) {
		p.add(validate.JSONMissing, "router_hint_worker_type", "", "is not stated, and without it the worker takes no part in hints", "aggregated, prefill or decode")
	}
	return p.err()
}

// checkOwned judges the descriptors and the engine's own metadata.
func (w *Worker) checkOwned(managed []uint32) error {
	var p problems
	all := make([]validate.Descriptor, len(w.Ranks))
	for i := range w.Ranks {
		r := &w.Ranks[i]
		all[i] = validate.Descriptor{Worker: w.WorkerID, Rank: r.Rank, Owner: r.Owner, Domain: w.domain(r),
			BlockSize: w.BlockSize, Protocol: w.Protocol.String(), RawEndpoints: r.Endpoints, RawTopic: r.Topic}
		if r.Incarnation == 0 || r.Incarnation > identity.MaxID {
			p.add(validate.JSONNumber, fmt.Sprintf("ranks[%d].intent_incarnation", i), fmt.Sprint(r.Incarnation), "is no incarnation", wantIncarnation)
		} else if j := slices.IndexFunc(w.Ranks[:i], func(o Rank) bool { return o.Incarnation == r.Incarnation }); j >= 0 {
			p.add(validate.JSONTwice, fmt.Sprintf("ranks[%d].intent_incarnation", i), fmt.Sprint(r.Incarnation), fmt.Sprintf("is the incarnation of ranks[%d] too", j), wantIncarnation)
		}
	}
	p.note(validate.Descriptors("ranks", w.WorkerID, all))
	if w.Metadata != nil {
		p.note(w.checkMetadata(managed))
	}
	return p.err()
}

func (w *Worker) domain(r *Rank) identity.IndexerDomain {
	if w.Domain != nil {
		return *w.Domain
	}
	return r.Owner.Domain()
}

// checkMetadata judges what the engine published at start-up, and whether it
// is the same that is registered.
func (w *Worker) checkMetadata(managed []uint32) error {
	start := validate.VLLM
	if w.Protocol == identity.HiCache {
		start = validate.HiCache
	}
	agent, ok, err := start(w.Metadata, w.Settings, managed)
	if err != nil {
		return err
	}
	var p problems
	if !ok {
		p.add(validate.MetadataShape, "metadata", "", "says that the engine owns no residency", "no metadata, or that of an engine started for "+w.Protocol.String())
	}
	for i := range w.Ranks {
		r := &w.Ranks[i]
		if ok && agent.Owners[r.Rank] != r.Owner {
			p.add(validate.MetadataShape, fmt.Sprintf("ranks[%d].cache_owner_id", i), r.Owner.String(), fmt.Sprintf("is not the owner %s that the engine's metadata has for rank %d", agent.Owners[r.Rank], r.Rank), "the same owner in both")
		}
	}
	return p.err()
}

// intents are the worker's wishes at a host.
func (w *Worker) intents(h residency.Host) []residency.Intent {
	all := make([]residency.Intent, len(w.Ranks))
	for i := range w.Ranks {
		r := &w.Ranks[i]
		all[i] = residency.Intent{
			TargetHost: w.target(h), Producer: w.Producer, Incarnation: r.Incarnation,
			Owner: residency.OwnerID(r.Owner.String()), Worker: residency.Worker{ID: w.WorkerID, Rank: r.Rank},
			Model: w.Model, KVStateEndpoint: w.StateEndpoint, Domain: w.domain(r).String(), BlockSize: int(w.BlockSize),
			Protocol: w.Protocol, Endpoints: slices.Clone(r.Endpoints), Replays: slices.Clone(r.Replays), Topic: r.Topic,
			ImageToken: w.ImageToken, VideoToken: w.VideoToken,
		}
		if w.WorkerType != "" {
			all[i].Hint = &residency.HintSource{WorkerType: w.WorkerType, ControlEndpoint: w.HintEndpoints[fmt.Sprint(r.Rank)],
				Carrier: w.HintCarrier, Link: w.HintLink, TP: w.HintTP}
		}
	}
	return all
}

func (w *Worker) target(h residency.Host) uint64 {
	if w.TargetHost != 0 {
		return w.TargetHost
	}
	return h.Instance
}

// admit judges the worker's intents at their host.
func (w *Worker) admit(h residency.Host, scope [16]byte) error {
	view := validate.HostView{Instance: h.Instance, Scope: scope}
	var p problems
	for i := range w.Ranks {
		r := &w.Ranks[i]
		in := validate.Intent{DiscoveryID: r.Incarnation, TargetHost: h.Instance, Incarnation: r.Incarnation, Producer: w.Producer,
			Worker: w.WorkerID, Rank: r.Rank, Owner: r.Owner, Domain: w.domain(r), StateTarget: w.StateEndpoint, BlockSize: w.BlockSize,
			Protocol: w.Protocol.String(), RawEndpoints: r.Endpoints, RawTopic: r.Topic}
		at := fmt.Sprintf("ranks[%d].", i)
		if i == 0 && w.TargetHost != 0 && w.TargetHost != h.Instance {
			at, in.TargetHost = "", w.TargetHost // it is the worker's, not the rank's
		}
		p.note(view.Admit(at, &in))
	}
	return p.err()
}

// equal reports whether two workers are the same registration.
func (w *Worker) equal(o *Worker) bool {
	return w.Model == o.Model && w.Protocol == o.Protocol && w.WorkerType == o.WorkerType &&
		w.HintCarrier == o.HintCarrier && w.HintLink == o.HintLink && w.HintTP == o.HintTP && maps.Equal(w.HintEndpoints, o.HintEndpoints) &&
		slices.EqualFunc(w.Ranks, o.Ranks, func(a, b Rank) bool {
			return a.Rank == b.Rank && a.Topic == b.Topic && a.Owner == b.Owner && a.Incarnation == b.Incarnation && slices.Equal(a.Endpoints, b.Endpoints) && slices.Equal(a.Replays, b.Replays)
		})
}

// clone returns a worker that shares nothing with w that its owner may change.
func (w Worker) clone() Worker {
	w.HintEndpoints = maps.Clone(w.HintEndpoints)
	w.Ranks = slices.Clone(w.Ranks)
	for i := range w.Ranks {
		w.Ranks[i].Endpoints, w.Ranks[i].Replays = slices.Clone(w.Ranks[i].Endpoints), slices.Clone(w.Ranks[i].Replays)
	}
	w.Metadata, w.Settings = nil, nil // they were judged and are needed no more
	return w
}

// problems collects validate.Errors.
type problems struct{ list validate.Errors }

func (p *problems) add(r validate.Rule, field, value, why, want string) {
	p.list = append(p.list, &validate.Error{Rule: r, Field: field, Value: value, Why: why, Want: want})
}

func (p *problems) note(err error) {
	switch err := err.(type) {
	case nil:
	case *validate.Error:
		p.list = append(p.list, err)
	case validate.Errors:
		p.list = append(p.list, err...)
	}
}

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	return p.list
}
