package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/identity"
)

// HintConfig is what a worker publishes about its part in hints.
type HintConfig struct {
	// WorkerType is aggregated (or agg), prefill or decode. Required: hints
	// pass between equal types only.
	WorkerType string
	// Endpoint is the control endpoint of rank 0, tcp://host:port, as peers
	// dial it (loopback is allowed, a wildcard is not). Empty: the source can
	// be a target, never a source.
	Endpoint string
	// Stride is the number of ports between two ranks' endpoints. 0 means 1;
	// engines with DP attention use tp_size / dp_size.
	Stride int
	// Endpoints are the control endpoints by dp rank, for engines whose ports
	// follow no stride: of all ranks or none. Exclusive with Endpoint. See
	// hint.Ports for what follows from an engine's settings.
	Endpoints map[int]string
	// TP is the number of TP shards that peers dial, at ports of their own
	// behind the endpoint. 0 means the number of Source.Shards, or unknown if
	// there are none. Hints do not pass between widths that are known to differ.
	TP int
	// Carrier is where in a request the worker wants its hints: one of
	// hint.Carriers. Empty means kv_hint.
	Carrier string
	// Link names the kind of link it is fetched over, to which costs are known
	// and learnt. Sources of one name share them.
	Link string

	// Ports, instead of Endpoint, Endpoints and Stride, are the engine's settings
	// that its endpoints and TP follow from. Ranks and First are the source's.
	Ports *hint.Ports
	// Metadata, instead of WorkerType and all that is about endpoints, is what the
	// worker publishes of itself: the JSON object with router_hint and the keys
	// beside it. Without the capability in it the source takes no part.
	Metadata string
}

func (h *HintConfig) stride() int { return max(h.Stride, 1) }

// clone is a copy that shares nothing with the caller's.
func (h *HintConfig) clone() *HintConfig {
	if h == nil {
		return nil
	}
	c := *h
	c.Endpoints = maps.Clone(h.Endpoints)
	if h.Ports != nil {
		p := *h.Ports
		p.List = slices.Clone(p.List)
		c.Ports = &p
	}
	return &c
}

// resolved returns a copy in which what follows from Ports and Metadata is
// spelt out: WorkerType, Endpoints, TP. It is nil without an error if the worker
// does not take part. field and want say what an error is about.
func (h *HintConfig) resolved(ranks int) (c *HintConfig, field string, err error) {
	if c = h.clone(); c == nil {
		return nil, "", nil
	}
	explicit := c.Endpoint != "" || len(c.Endpoints) > 0 || c.Stride != 0
	switch {
	case c.Metadata != "" && (explicit || c.Ports != nil || c.WorkerType != ""):
		return nil, "metadata", errors.New("stands beside worker_type, or endpoints in another form; give one of the two")
	case c.Ports != nil && explicit:
		return nil, "ports", errors.New("stands beside endpoint, endpoints or stride, which follow from it; give one of the two")
	case c.Metadata != "":
		known, err := hint.ParseCapability([]byte(c.Metadata), 0, ranks)
		if err != nil {
			return nil, "metadata", err
		}
		if known.Role == hint.NotCapable {
			return nil, "", nil
		}
		c.WorkerType, c.Endpoints = known.Role.String(), byRank(known.Endpoints)
	case c.Ports != nil:
		p := *c.Ports
		p.First, p.Ranks = 0, ranks
		all, err := p.Endpoints()
		if err != nil {
			return nil, "ports", err
		}
		c.Endpoints = byRank(all)
		if c.TP == 0 && p.SGLang {
			c.TP = p.Width()
		} else if c.TP == 0 {
			c.TP = p.TP
		}
	}
	c.Ports, c.Metadata = nil, ""
	return c, "", nil
}

func byRank(all []hint.RankedEndpoint) map[int]string {
	m := make(map[int]string, len(all))
	for _, e := range all {
		m[e.Rank] = e.Endpoint
	}
	return m
}

// hintOf is a source's part in hints, nil if it has none. A worker that takes
// hints and does not say of what type it is has none, which is worth a warning.
func (e *Engine) hintOf(s *Source) *HintConfig {
	c, _, err := s.Hint.resolved(s.ranks())
	if errors.Is(err, hint.ErrNoWorkerType) {
		e.opt.Logger.Warn("a worker takes no part in hints", "source", s.ID, "err", err)
	}
	return c // validate has seen any other error
}

// endpoint is the control endpoint of a rank, "" if it has none.
func (h *HintConfig) endpoint(rank int) string {
	if h.Endpoint == "" {
		return h.Endpoints[rank]
	}
	// A rank beyond the last port has no endpoint, and so is no source.
	ep, _ := hint.RankEndpoint(h.Endpoint, rank, h.stride())
	return ep
}

func (s *Source) validateHint(bad func(field, value, want string) error) error {
	h, field, err := s.Hint.resolved(s.ranks())
	if err != nil && !errors.Is(err, hint.ErrNoWorkerType) {
		value := "of port " + strconv.Itoa(portOf(s.Hint.Ports))
		if field == "metadata" {
			value = strconv.Quote(s.Hint.Metadata)
		}
		return bad("hint."+field, value, err.Error())
	}
	if h == nil {
		return nil
	}
	plain := *s
	plain.Hint = h
	return plain.validatePart(bad)
}

func portOf(p *hint.Ports) int {
	switch {
	case p == nil:
		return 0
	case len(p.List) > 0:
		return p.List[0]
	}
	return p.Port
}

// validatePart checks a part in hints that is spelt out.
func (s *Source) validatePart(bad func(field, value, want string) error) error {
	h := s.Hint
	if r, ok := hint.ParseRole(h.WorkerType); !ok || r == hint.NotCapable {
		return bad("hint.worker_type", strconv.Quote(h.WorkerType), "wants one of "+hint.Roles)
	}
	if h.Stride < 0 || h.Stride > 65535 {
		return bad("hint.stride", strconv.Itoa(h.Stride), "wants the ports between two ranks, at least 1")
	}
	if _, ok := hint.ParseCarrier(h.Carrier); !ok {
		return bad("hint.carrier", strconv.Quote(h.Carrier), "wants one of "+hint.Carriers)
	}
	if len(h.Link) > 256 {
		return bad("hint.link", strconv.Quote(h.Link[:40]+"…"), "wants at most 256 bytes")
	}
	if n := len(s.Shards); h.TP < 0 || n > 0 && h.TP > 0 && h.TP != n {
		return bad("hint.tp", strconv.Itoa(h.TP), fmt.Sprintf("wants the number of TP shards, %d of which are listed in shards", n))
	}
	if len(h.Endpoints) > 0 {
		return s.validateEndpointsOfRanks(bad)
	}
	if h.Endpoint == "" {
		return nil
	}
	last, err := hint.RankEndpoint(h.Endpoint, s.ranks()-1, h.stride())
	if err == nil {
		_, err = hint.ShardEndpoint(last, max(s.width(), 1)-1)
	}
	if err != nil {
		return bad("hint.endpoint", strconv.Quote(h.Endpoint), err.Error())
	}
	return nil
}

// validateEndpointsOfRanks checks endpoints that are given rank by rank.
func (s *Source) validateEndpointsOfRanks(bad func(field, value, want string) error) error {
	h := s.Hint
	if h.Endpoint != "" {
		return bad("hint.endpoint", strconv.Quote(h.Endpoint), "stands beside endpoints: give one endpoint, or one per dp rank")
	}
	var missing []string
	for r := range s.ranks() {
		if h.Endpoints[r] == "" {
			missing = append(missing, strconv.Itoa(r))
		}
	}
	if len(missing) > 0 {
		return bad("hint.endpoints", fmt.Sprintf("%d endpoints", len(h.Endpoints)), "wants all dp ranks or none; missing: "+strings.Join(missing, ", "))
	}
	for _, r := range slices.Sorted(maps.Keys(h.Endpoints)) {
		field, ep := fmt.Sprintf("hint.endpoints[%d]", r), h.Endpoints[r]
		if r < 0 || r >= s.ranks() {
			return bad(field, strconv.Quote(ep), fmt.Sprintf("is not a dp rank of the source, which has %d", s.ranks()))
		}
		if _, err := hint.ShardEndpoint(ep, max(s.width(), 1)-1); err != nil {
			return bad(field, strconv.Quote(ep), err.Error())
		}
	}
	return nil
}

// width is the number of TP shards that peers dial, 0 while unknown.
func (s *Source) width() int {
	if s.Hint != nil && s.Hint.TP > 0 {
		return s.Hint.TP
	}
	return len(s.Shards)
}

// candidate is what decisions see of a rank in a domain. Depth, block size, load
// and what freshness says are per query.
func (s *source) candidate(rank int, d Domain) hint.Candidate {
	at := hint.Place{Source: s.spec.ID, Rank: rank}
	c := hint.Candidate{Place: at, Domain: d, Role: s.role, Width: s.spec.width()}
	if s.spec.Hint != nil {
		c.Endpoint = s.spec.Hint.endpoint(rank)
	}
	if d == hint.Worker {
		c.StateAgent = s.owned
		return c
	}
	c.Key = ownerKey(s.engine.opt.Scope, s.spec.ID, rank)
	// Declared statically: attached to its worker for as long as it is known.
	c.Attached, c.AttachedTo, c.Projected = true, at, true
	protocol, _ := s.spec.protocol()
	c.EngineLocal = protocol != identity.VLLMResidency
	return c
}
