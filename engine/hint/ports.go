package hint

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Ports are an engine's settings that its control endpoints follow from. Each
// dp rank owns a block of ports, one per TP shard; what is published is the
// first of it, and shard t of a target dials port + t, the peer of its own
// index. A wrong stride would fetch the wrong shard without a word.
type Ports struct {
	// SGLang counts ports by Stride and may advertise Host; otherwise the
	// engine is vLLM, one port a rank.
	SGLang bool
	// Host is control_advertise_host, Bind is control_host. Bind is advertised
	// by SGLang where Host is empty.
	Host, Bind string
	// Port is control_port. List is control_ports, vLLM's newer form: one port
	// per local rank, instead of Port.
	Port int
	List []int
	// First and Ranks are the global dp ranks of this process: First is
	// dp_start, Ranks the local dp size, 0 counts as 1.
	First, Ranks int
	// TP and DP are the sizes of the whole engine, 0 counts as 1. PP must be 1.
	TP, DP, PP int
	// DPAttention is SGLang's data-parallel attention.
	DPAttention bool
}

// Stride is the number of ports between two dp ranks.
func (p *Ports) Stride() (int, error) {
	tp, dp := max(p.TP, 1), max(p.DP, 1)
	if !p.SGLang || !p.DPAttention || dp == 1 {
		return 1, nil
	}
	if tp%dp != 0 {
		return 0, fmt.Errorf("tp_size %d with dp_size %d: a dp rank's block of ports is tp_size / dp_size, a whole number of at least 1", tp, dp)
	}
	return tp / dp, nil
}

// Endpoints returns the control endpoint of every local rank, by global rank.
// It is all of them or an error, for a partial map would name ranks that no
// peer can dial.
func (p *Ports) Endpoints() ([]RankedEndpoint, error) {
	if p.PP > 1 {
		return nil, fmt.Errorf("pp_size %d: hints are for engines without pipeline parallelism", p.PP)
	}
	host, err := p.advertised()
	if err != nil {
		return nil, err
	}
	ranks := max(p.Ranks, 1)
	stride, err := p.Stride()
	if err != nil {
		return nil, err
	}
	if p.List != nil && (p.SGLang || p.Port != 0 || len(p.List) != ranks) {
		return nil, fmt.Errorf("control_ports has %d ports: wants vLLM, no control_port beside it, and one port for each of %d local dp ranks", len(p.List), ranks)
	}
	all := make([]RankedEndpoint, 0, ranks)
	for l := range ranks {
		port := p.Port + l*stride
		if p.List != nil {
			port = p.List[l]
		}
		if port < 1 || port > 65535 || p.List == nil && p.Port < 1 {
			return nil, fmt.Errorf("dp rank %d: control port would be %d; wants 1 … 65535, an ephemeral port cannot be advertised", p.First+l, port)
		}
		all = append(all, RankedEndpoint{p.First + l, JoinEndpoint(host, port)})
	}
	for _, e := range all { // after the first ports, whose errors say more
		if _, err := ShardEndpoint(e.Endpoint, p.Width()-1); err != nil {
			return nil, fmt.Errorf("dp rank %d: its block of %d ports: %w", e.Rank, p.Width(), err)
		}
	}
	return all, nil
}

// Width is the number of TP shards of a dp rank that have a port of their own:
// SGLang has a library in every attention rank, vLLM one in the scheduler.
func (p *Ports) Width() int {
	tp, dp := max(p.TP, 1), max(p.DP, 1)
	switch {
	case !p.SGLang:
		return 1
	case p.DPAttention:
		return max(tp/dp, 1)
	}
	return tp
}

// advertised is the host that peers dial, without brackets.
func (p *Ports) advertised() (string, error) {
	host, field := p.Host, "control_advertise_host"
	if host == "" && p.SGLang {
		host, field = p.Bind, "control_host"
	}
	if host == "" {
		return "", errors.New("control_advertise_host: is empty; wants the host that peers dial")
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if a, err := netip.ParseAddr(bare); err == nil && a.Is6() {
		host = bare
	}
	if _, _, err := SplitEndpoint(JoinEndpoint(host, 1)); err != nil {
		return "", fmt.Errorf("%s: %q cannot be advertised; wants one host that peers dial, no wildcard, scheme or port", field, host)
	}
	return host, nil
}

// ErrWidth: peers of unequal TP widths would fetch each other's wrong shards.
var ErrWidth = errors.New("hint: hints need equal TP widths")

// CheckWidths refuses a source for a target of another TP width.
func CheckWidths(source, target int) error {
	if source != target {
		return fmt.Errorf("%w: the source has %d shards, the target %d", ErrWidth, source, target)
	}
	return nil
}

// ParsePort reads a control port of a configuration: a whole number, or its
// digits in a string. Booleans are refused, though languages count with them.
func ParsePort(raw []byte) (int, error) {
	digits := string(raw)
	if len(raw) > 1 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &digits); err != nil {
			return 0, fmt.Errorf("port %s: %w", raw, err)
		}
	}
	port, err := strconv.Atoi(digits)
	if err != nil || strings.HasPrefix(digits, "+") || port < 1 || port > 65535 {
		return 0, fmt.Errorf("port %s: wants a whole number of 1 … 65535", raw)
	}
	return port, nil
}

// tierCapabilities is where a vLLM tier lists what it can do.
const tierCapabilities = "router_capabilities"

// VLLMPorts reads a vLLM kv_transfer_config for the secondary tier that takes
// hints. It is nil if there is none; more than one is refused, for a hint could
// only mean one of them. Ranks and sizes are the caller's to fill in.
func VLLMPorts(config []byte) (*Ports, error) {
	top, err := object(config, "kv_transfer_config")
	if err != nil {
		return nil, err
	}
	extra, err := within(top, "kv_connector_extra_config")
	if err != nil || extra["secondary_tiers"] == nil {
		return nil, err
	}
	tiers, err := list(extra["secondary_tiers"], "secondary_tiers")
	if err != nil {
		return nil, err
	}
	var found *Ports
	at := 0
	for i, raw := range tiers {
		path := fmt.Sprintf("secondary_tiers[%d]", i)
		o, err := object(raw, path)
		if err != nil {
			return nil, err
		}
		if capable, err := takesHints(o); err != nil {
			return nil, fmt.Errorf("%s.%s: %w", path, tierCapabilities, err)
		} else if !capable {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("secondary_tiers[%d] and [%d] both take hints; a hint can mean one tier only", at, i)
		}
		if found, err = tierPorts(o, path); err != nil {
			return nil, err
		}
		at = i
	}
	return found, nil
}

// takesHints reports whether a tier declares the capability, under either name.
func takesHints(tier map[string]json.RawMessage) (bool, error) {
	raw, there := tier[tierCapabilities]
	if !there {
		return false, nil
	}
	var words []string
	if err := json.Unmarshal(raw, &words); err != nil {
		return false, fmt.Errorf("%s is not a list of strings", raw)
	}
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(capableKeys, w) }), nil
}

func tierPorts(o map[string]json.RawMessage, path string) (*Ports, error) {
	p := &Ports{}
	var err error
	if p.Host, err = text(o, "control_advertise_host", false); err == nil {
		p.Bind, err = text(o, "control_host", false)
	}
	if err != nil {
		return nil, fmt.Errorf("%s.%w", path, err)
	}
	if raw, there := o["control_ports"]; there {
		ports, err := list(raw, path+".control_ports")
		if err != nil {
			return nil, err
		}
		p.List = []int{}
		for i, raw := range ports {
			port, err := ParsePort(raw)
			if err != nil {
				return nil, fmt.Errorf("%s.control_ports[%d]: %w", path, i, err)
			}
			p.List = append(p.List, port)
		}
		return p, nil
	}
	if p.Port, err = ParsePort(o["control_port"]); err != nil {
		return nil, fmt.Errorf("%s.control_port: %w", path, err)
	}
	return p, nil
}
