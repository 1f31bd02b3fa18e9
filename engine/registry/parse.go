package registry

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/identity"
	"github.com/cairn-kv/cairn/engine/validate"
)

// Leases of registrations over HTTP.
const (
	DefaultTTL = 15 * time.Second
	MinTTL     = time.Second
	MaxTTL     = 10 * time.Minute
)

// ParseWorker reads the JSON of one worker. id is what the request names it
// by; the JSON may repeat it. Without lease_ms the lease is DefaultTTL. The
// error is validate.Errors.
func ParseWorker(id string, body []byte) (Worker, error) {
	o := validate.ReadObject(body)
	w := parseWorker(o)
	if o.Has("id") && w.ID != id {
		o.Add(&validate.Error{Rule: validate.JSONType, Field: "id", Value: w.ID, Why: "is not the id of the request, " + fmt.Sprintf("%q", id), Want: "the same, or none"})
	}
	w.ID = id
	w.TTL = DefaultTTL
	if ms, ok := o.Uint("lease_ms", uint64(MinTTL/time.Millisecond), uint64(MaxTTL/time.Millisecond)); ok {
		w.TTL = time.Duration(ms) * time.Millisecond
	}
	o.End()
	if err := o.Err(); err != nil {
		return Worker{}, err
	}
	return w, nil
}

// ParseFile reads the JSON of a watched file: {"workers": [ … ]}, each with an
// id. Their leases have no end, and an incarnation that is left out follows
// from everything else that is said of the rank. The error is validate.Errors.
func ParseFile(data []byte) ([]Worker, error) {
	o := validate.ReadObject(data)
	o.Require("workers")
	var all []Worker
	seen := map[string]bool{}
	for _, sub := range o.Objects("workers") {
		sub.Require("id")
		w := parseWorker(sub)
		sub.End()
		if w.ID != "" && seen[w.ID] {
			o.Add(&validate.Error{Rule: validate.JSONTwice, Field: sub.Path("id"), Value: w.ID, Why: "stands twice", Want: "an id of its own for every worker"})
		}
		seen[w.ID] = true
		for i := range w.Ranks {
			if w.Ranks[i].Incarnation == 0 && w.Protocol.Owned() {
				w.Ranks[i].Incarnation = w.derive(i)
			}
		}
		all = append(all, w)
	}
	o.End()
	if err := o.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

// derive makes an incarnation of what is said of a rank: another content is
// another incarnation.
func (w *Worker) derive(i int) uint64 {
	r := &w.Ranks[i]
	parts := []any{w.ID, w.Model, w.Protocol.String(), w.WorkerType, w.HintEndpoints, w.HintCarrier, w.HintLink, w.HintTP, w.WorkerID, w.Producer,
		w.TargetHost, w.StateEndpoint, w.BlockSize, w.ImageToken, w.VideoToken, r.Rank, r.Endpoints, r.Topic, r.Owner}
	if len(r.Replays) > 0 {
		parts = append(parts, r.Replays)
	}
	content, err := json.Marshal(parts)
	if err != nil {
		panic(err) // texts, numbers and lists of them
	}
	return max(xxhash.Sum64(content)&identity.MaxID, 1)
}

// parseWorker reads what HTTP and files have in common.
func parseWorker(o *validate.Object) Worker {
	w := Worker{ID: o.Text("id"), Model: o.Text("model"), StateEndpoint: o.Text("kv_state_endpoint")}
	o.Require("model", "ranks")
	if name := o.Text("ingress_protocol"); o.Has("ingress_protocol") {
		p, ok := identity.ParseProtocol(name)
		if !ok {
			o.Add(&validate.Error{Rule: validate.DescriptorProtocol, Field: o.Path("ingress_protocol"), Value: name, Why: "is no protocol",
				Want: fmt.Sprint("one of ", append(identity.OwnedProtocols(), identity.Framework.String()))})
		}
		w.Protocol = p
	}
	if name := o.Text("router_hint_worker_type"); name != "" {
		role, ok := hint.ParseRole(name)
		if !ok || role == hint.NotCapable {
			o.Add(&validate.Error{Rule: validate.JSONType, Field: o.Path("router_hint_worker_type"), Value: name, Why: "is no worker type", Want: "one of " + hint.Roles})
		}
		w.WorkerType = role.String()
	}
	w.HintEndpoints = o.ByName("router_hint_source_control_endpoints")
	w.HintCarrier, w.HintLink = o.Text("hint_carrier"), o.Text("hint_link")
	width, _ := o.Uint("hint_tp", 1, maxTP)
	w.HintTP = int(width)
	w.WorkerID, _ = o.Uint("worker_id", 0, math.MaxUint64)
	w.Producer, _ = o.Uint("producer_instance", 0, math.MaxUint64)
	w.TargetHost, _ = o.Uint("target_host", 1, math.MaxUint64)
	size, _ := o.Uint("kv_block_size", 1, math.MaxInt32)
	w.BlockSize = uint32(size)
	if text := o.Text("indexer_domain_id"); o.Has("indexer_domain_id") {
		d, err := validate.Domain(o.Path("indexer_domain_id"), text)
		o.Add(err)
		w.Domain = &d
	}
	w.ImageToken, w.VideoToken = token(o, "image_token_id"), token(o, "video_token_id")
	w.Metadata, w.Settings = o.Raw("metadata"), o.Raw("settings")
	if w.Protocol.Owned() {
		o.Require("worker_id", "kv_block_size")
	}
	for _, sub := range o.Objects("ranks") {
		w.Ranks = append(w.Ranks, parseRank(sub, w.Protocol.Owned()))
	}
	return w
}

func token(o *validate.Object, key string) *uint32 {
	n, ok := o.Uint(key, 0, math.MaxUint32)
	if !ok {
		return nil
	}
	t := uint32(n)
	return &t
}

// oneOrMore reads what is one text under a key, or a list under its plural.
func oneOrMore(o *validate.Object, key string) []string {
	many, one := o.Texts(key+"s"), o.Text(key)
	if !o.Has(key) {
		return many
	}
	if o.Has(key + "s") {
		o.Add(&validate.Error{Rule: validate.JSONTwice, Field: o.Path(key), Value: one, Why: "stands beside " + key + "s", Want: "one of the two"})
	}
	return []string{one}
}

func parseRank(o *validate.Object, owned bool) Rank {
	o.Require("dp_rank")
	n, _ := o.Uint("dp_rank", 0, math.MaxInt32)
	r := Rank{Rank: uint32(n), Endpoints: oneOrMore(o, "raw_zmq_endpoint"), Replays: oneOrMore(o, "raw_replay_endpoint"), Topic: o.Text("raw_topic")}
	if owned {
		o.Require("cache_owner_id")
	}
	if text := o.Text("cache_owner_id"); o.Has("cache_owner_id") {
		id, err := validate.Owner(o.Path("cache_owner_id"), text)
		o.Add(err)
		r.Owner = id
	}
	r.Incarnation, _ = o.Uint("intent_incarnation", 1, identity.MaxID)
	o.End()
	return r
}
