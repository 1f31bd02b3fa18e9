package hint

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-kv/cairn/internal/jsontext"
)

// Capability is what a worker publishes about its part in hints.
type Capability struct {
	Role Role
	// Endpoints are the control endpoints by global dp rank, ascending: of all
	// ranks the worker manages, or none. Without any it is a target only.
	Endpoints []RankedEndpoint
}

// RankedEndpoint is the control endpoint of one global dp rank.
type RankedEndpoint struct {
	Rank     int
	Endpoint string
}

// Endpoint returns the endpoint of a rank, "" if there is none.
func (c *Capability) Endpoint(rank int) string {
	for _, e := range c.Endpoints {
		if e.Rank == rank {
			return e.Endpoint
		}
	}
	return ""
}

// The keys of a worker's metadata, each with the name that a branch of upstream
// uses for it.
var (
	capableKeys  = []string{"router_hint", "kv_hint.transfer.v1"}
	roleKeys     = []string{"router_hint_worker_type", "kv_hint_transfer_worker_type"}
	endpointKeys = []string{"router_hint_source_control_endpoints", "kv_hint_transfer_source_control_endpoints"}
)

// ErrNoWorkerType: a worker says that it takes hints and not of what type it is,
// as early SGLang builds do. It is to be treated as not capable, and said once.
var ErrNoWorkerType = errors.New("hint: the worker takes hints but declares no " + roleKeys[0] + "; it is treated as not capable")

// ParseCapability reads a worker's metadata, a JSON object of many keys, for the
// ranks first … first+ranks-1 that it manages. Values may be JSON or JSON
// inside a string, as registries store it. The capability key decides: while it
// is not true, whatever else is there is not yet whole, and the capability is
// empty. The error is ErrNoWorkerType or says which key is wrong.
func ParseCapability(metadata []byte, first, ranks int) (Capability, error) {
	var c Capability
	o, err := object(metadata, "metadata")
	if err != nil {
		return c, err
	}
	key, raw, err := either(o, capableKeys)
	if err != nil || raw == nil {
		return c, err
	}
	var capable bool
	if err := json.Unmarshal(raw, &capable); err != nil {
		return c, fmt.Errorf("%s: %s is not true or false", key, raw)
	}
	if !capable {
		return c, nil
	}
	if key, raw, err = either(o, roleKeys); err != nil {
		return c, err
	}
	role := ""
	if raw != nil {
		if err := json.Unmarshal(raw, &role); err != nil {
			return c, fmt.Errorf("%s: %s is not a string; wants one of %s", key, raw, Roles)
		}
	}
	if role == "" {
		return c, ErrNoWorkerType
	}
	r, ok := ParseRole(role)
	if !ok {
		return c, fmt.Errorf("%s: %q: wants one of %s", key, role, Roles)
	}
	if key, raw, err = either(o, endpointKeys); err != nil {
		return c, err
	}
	if raw != nil {
		if c.Endpoints, err = rankedEndpoints(raw, key); err != nil {
			return Capability{}, err
		}
		if err := managed(c.Endpoints, key, first, ranks); err != nil {
			return Capability{}, err
		}
	}
	c.Role = r
	return c, nil
}

// either returns the value of the first key that is there, nil if none is. Two
// that are there must agree.
func either(o map[string]json.RawMessage, keys []string) (string, json.RawMessage, error) {
	var found string
	var value json.RawMessage
	for _, key := range keys {
		raw, there := o[key]
		if !there || string(raw) == "null" {
			continue
		}
		raw = unwrapped(raw)
		switch {
		case value == nil:
			found, value = key, raw
		case compact(raw) != compact(value):
			return key, nil, fmt.Errorf("%s: %s stands beside %s %s; they mean the same and must agree", key, raw, found, value)
		}
	}
	return found, value, nil
}

// unwrapped returns the JSON that a string holds, or the value itself: the text
// of a word in quotes is a string, of a bare word it is not JSON and stays one.
func unwrapped(raw json.RawMessage) json.RawMessage {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil || !json.Valid([]byte(s)) {
		return raw
	}
	return json.RawMessage(s)
}

// compact is a value in one spelling, to compare.
func compact(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}

// rankedEndpoints reads a map "<rank>" → tcp://host:port.
func rankedEndpoints(raw []byte, path string) ([]RankedEndpoint, error) {
	o, err := object(raw, path)
	if err != nil {
		return nil, err
	}
	var all []RankedEndpoint
	for key, v := range o {
		rank, err := strconv.Atoi(key)
		if err != nil || rank < 0 || strconv.Itoa(rank) != key {
			return nil, fmt.Errorf("%s: key %q is not a dp rank in plain decimal", path, key)
		}
		var ep string
		if err := json.Unmarshal(v, &ep); err != nil {
			return nil, fmt.Errorf("%s[%s]: %s is not a string; expects tcp://host:port", path, key, v)
		}
		if _, _, err := SplitEndpoint(ep); err != nil {
			return nil, fmt.Errorf("%s[%s]: %w", path, key, err)
		}
		all = append(all, RankedEndpoint{rank, ep})
	}
	slices.SortFunc(all, func(a, b RankedEndpoint) int { return a.Rank - b.Rank })
	return all, nil
}

// managed checks that endpoints are of all managed ranks or of none.
func managed(all []RankedEndpoint, path string, first, ranks int) error {
	if len(all) == 0 {
		return nil
	}
	var missing, extra []string
	for r := first; r < first+ranks; r++ {
		if !slices.ContainsFunc(all, func(e RankedEndpoint) bool { return e.Rank == r }) {
			missing = append(missing, strconv.Itoa(r))
		}
	}
	for _, e := range all {
		if e.Rank < first || e.Rank >= first+ranks {
			extra = append(extra, strconv.Itoa(e.Rank))
		}
	}
	if len(missing)+len(extra) == 0 {
		return nil
	}
	say := func(ranks []string) string {
		if ranks == nil {
			return "none"
		}
		return strings.Join(ranks, ", ")
	}
	return fmt.Errorf("%s: wants all managed dp ranks (%d … %d) or none: missing %s, extra %s", path, first, first+ranks-1, say(missing), say(extra))
}

// AppendMetadata appends a capability as a worker publishes it: a JSON object
// whose last member is the capability key, so that who reads part of it takes
// the worker for not capable. A capability without a role is the empty object.
func (c *Capability) AppendMetadata(dst []byte) []byte {
	if c.Role == NotCapable {
		return append(dst, "{}"...)
	}
	dst = append(dst, '{')
	if len(c.Endpoints) > 0 {
		dst = append(dst, `"`+endpointKeys[0]+`":{`...)
		for i, e := range c.Endpoints {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(append(dst, '"'), int64(e.Rank), 10)
			dst = jsontext.AppendString(append(dst, `":`...), e.Endpoint)
		}
		dst = append(dst, "},"...)
	}
	dst = jsontext.AppendString(append(dst, `"`+roleKeys[0]+`":`...), c.Role.String())
	return append(dst, `,"`+capableKeys[0]+`":true}`...)
}
