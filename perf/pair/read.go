package pair

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Hint is what the consumer makes of a request: where to fetch, and which names.
type Hint struct {
	Endpoint string
	Names    map[uint64]bool
	// Version is the protocol version; another than Version is taken all the
	// same, with a warning.
	Version string
}

// Version is the protocol version that the consumer knows.
const Version = "0.1"

// ErrNone: the request carries no hint.
var ErrNone = errors.New("pair: no hint in the request")

// Read takes the hint out of a request, from the first place that has one: the
// field kv_hint, extra_args.kv_transfer_params.kv_hint, .router_hint there, the
// engine argument kv_hints.
func Read(request []byte) (*Hint, error) {
	top, err := fields(request)
	if err != nil {
		return nil, fmt.Errorf("pair: request: %w", err)
	}
	params := map[string]json.RawMessage{}
	if extra, err := fields(top["extra_args"]); err == nil {
		if p, err := fields(extra["kv_transfer_params"]); err == nil {
			params = p
		}
	}
	switch {
	case given(top["kv_hint"]):
		return envelope(top["kv_hint"])
	case given(params["kv_hint"]):
		return envelope(params["kv_hint"])
	case given(params["router_hint"]):
		h, err := fields(params["router_hint"])
		if err != nil {
			return nil, fmt.Errorf("pair: router_hint: %w", err)
		}
		if given(h["source_control_endpoint"]) || given(h["block_hashes"]) {
			return payload(h, Version)
		}
	}
	if given(top["kv_hints"]) {
		return envelope(top["kv_hints"])
	}
	return nil, ErrNone
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func fields(raw []byte) (map[string]json.RawMessage, error) {
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, errors.New("is no map")
	}
	return o, nil
}

// envelope takes the first kv.fetch of a message.
func envelope(raw []byte) (*Hint, error) {
	e, err := fields(raw)
	if err != nil {
		return nil, fmt.Errorf("pair: envelope: %w", err)
	}
	version := ""
	if err := json.Unmarshal(e["protocol_version"], &version); err != nil {
		return nil, fmt.Errorf("pair: protocol_version: %w", err)
	}
	var actions []json.RawMessage
	if err := json.Unmarshal(e["actions"], &actions); err != nil || actions == nil {
		return nil, fmt.Errorf("pair: actions is no list (%v)", err)
	}
	for _, raw := range actions {
		a, err := fields(raw)
		if err != nil {
			return nil, fmt.Errorf("pair: action: %w", err)
		}
		if string(a["action_type"]) != `"kv.fetch"` {
			continue
		}
		p, err := fields(a["payload"])
		if err != nil {
			return nil, fmt.Errorf("pair: payload: %w", err)
		}
		return payload(p, version)
	}
	return nil, errors.New("pair: no kv.fetch action")
}

// payload reads endpoint and names, and refuses what the consumer refuses.
func payload(p map[string]json.RawMessage, version string) (*Hint, error) {
	h := &Hint{Names: map[uint64]bool{}, Version: version}
	if err := json.Unmarshal(p["source_control_endpoint"], &h.Endpoint); err != nil || h.Endpoint == "" {
		return nil, fmt.Errorf("pair: source_control_endpoint %s: wants an endpoint", p["source_control_endpoint"])
	}
	var names []json.RawMessage
	if err := json.Unmarshal(p["block_hashes"], &names); err != nil || len(names) == 0 {
		return nil, fmt.Errorf("pair: block_hashes: wants a list that is not empty (%v)", err)
	}
	for _, raw := range names {
		v, err := strconv.ParseUint(string(bytes.TrimSpace(raw)), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("pair: block hash %s: wants an integer of 0 … 2^64-1", raw)
		}
		h.Names[v] = true
	}
	return h, nil
}
