package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// MaxRanks bounds the ranks of a list.
const MaxRanks = 4096

// Publisher is where a dp rank's events are.
type Publisher struct {
	Rank     int
	Endpoint string // tcp://host:port
	Replay   string // tcp://host:port of the replay socket; "" if it has none
	Topic    string // what its messages are called; "" if nothing
}

// ErrNone: the engine answered, and publishes no events.
var ErrNone = errors.New("discover: the engine publishes no KV events over ZMQ")

// ListError says what in a list cannot be used.
type ListError struct {
	Field string // such as [1].endpoint
	Value string
	Want  string
}

// Error reads: discover: [1].endpoint "udp://h": wants tcp://host:port
func (e *ListError) Error() string {
	return fmt.Sprintf("discover: %s %s: wants %s", e.Field, e.Value, e.Want)
}

// vllmSource is an element of vLLM's list.
type vllmSource struct {
	Rank     *int    `json:"data_parallel_rank"`
	Endpoint string  `json:"endpoint"`
	Replay   *string `json:"replay_endpoint"`
	Topic    string  `json:"topic"`
}

// sglangInfo is the part of SGLang's server info that counts.
type sglangInfo struct {
	Events *struct {
		Publisher string `json:"publisher"`
		Host      string `json:"endpoint_host"`
		Port      int    `json:"endpoint_port_base"`
		Topic     string `json:"topic"`
		Ranks     int    `json:"dp_size"`
	} `json:"kv_events"`
}

// Parse reads a list in either shape. host is the host that was asked. The error
// is a *ListError, ErrNone, or what encoding/json says.
func Parse(body []byte, host string) ([]Publisher, error) {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '[' {
		return parseVLLM(body, host)
	}
	return parseSGLang(body, host)
}

func parseVLLM(body []byte, host string) ([]Publisher, error) {
	var sources []vllmSource
	if err := json.Unmarshal(body, &sources); err != nil {
		return nil, fmt.Errorf("discover: list of KV event sources: %w", err)
	}
	if len(sources) == 0 {
		return nil, ErrNone
	}
	list := make([]Publisher, 0, len(sources))
	seen := map[int]bool{}
	for i, s := range sources {
		p := Publisher{Topic: s.Topic}
		field := func(name string) string { return fmt.Sprintf("[%d].%s", i, name) }
		if s.Rank != nil {
			p.Rank = *s.Rank
		}
		switch {
		case p.Rank < 0 || p.Rank >= MaxRanks:
			return nil, &ListError{field("data_parallel_rank"), strconv.Itoa(p.Rank), fmt.Sprintf("0 … %d", MaxRanks-1)}
		case seen[p.Rank]:
			return nil, &ListError{field("data_parallel_rank"), strconv.Itoa(p.Rank), "each rank once"}
		}
		seen[p.Rank] = true
		var err error
		if p.Endpoint, err = reach(s.Endpoint, host, field("endpoint")); err != nil {
			return nil, err
		}
		if s.Replay != nil && *s.Replay != "" {
			if p.Replay, err = reach(*s.Replay, host, field("replay_endpoint")); err != nil {
				return nil, err
			}
		}
		list = append(list, p)
	}
	return list, nil
}

func parseSGLang(body []byte, host string) ([]Publisher, error) {
	var info sglangInfo
	if err := json.Unmarshal(body, &info); err != nil {
		return nil, fmt.Errorf("discover: server info: %w", err)
	}
	ev := info.Events
	if ev == nil || ev.Publisher != "zmq" {
		return nil, ErrNone
	}
	ranks := max(ev.Ranks, 1)
	if ev.Port < 1 || ranks > MaxRanks || ev.Port+ranks-1 > 65535 {
		return nil, &ListError{"kv_events.endpoint_port_base", strconv.Itoa(ev.Port), fmt.Sprintf("a port from 1 on with room for %d ranks up to 65535", ranks)}
	}
	list := make([]Publisher, ranks)
	for r := range list {
		ep, err := reach("tcp://"+net.JoinHostPort(strings.Trim(ev.Host, "[]"), strconv.Itoa(ev.Port+r)), host, "kv_events.endpoint_host")
		if err != nil {
			return nil, err
		}
		list[r] = Publisher{Rank: r, Endpoint: ep, Topic: ev.Topic}
	}
	return list, nil
}

// reach turns an endpoint as an engine announces it into one to connect to.
func reach(endpoint, host, field string) (string, error) {
	bad := func(want string) (string, error) {
		return "", &ListError{field, fmt.Sprintf("%.128q", endpoint), want}
	}
	addr, ok := strings.CutPrefix(endpoint, "tcp://")
	if !ok {
		return bad("tcp://host:port")
	}
	h, p, err := net.SplitHostPort(addr)
	if err != nil {
		return bad("tcp://host:port")
	}
	if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
		return bad("a port from 1 to 65535: the one that was bound")
	}
	if ip, err := netip.ParseAddr(h); h == "" || h == "*" || err == nil && ip.IsUnspecified() {
		h = host
	}
	return "tcp://" + net.JoinHostPort(h, p), nil
}
