package hint

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-kv/cairn/internal/jsontext"
)

// Carrier is where in a request to a worker the hint travels. Which one a worker
// understands is for it to declare; a reader accepts all of them.
type Carrier uint8

const (
	// RequestField is the request's own field kv_hint. The default.
	RequestField Carrier = iota
	// TransferParams is extra_args.kv_transfer_params.kv_hint, the way vLLM's
	// handlers let through.
	TransferParams
	// RouterHint is extra_args.kv_transfer_params.router_hint, of older workers:
	// endpoint and names without an envelope. It may sit beside an unrelated
	// speculative_decoding.
	RouterHint
	// EngineArgument is the engine argument kv_hints of SGLang builds that have
	// it.
	EngineArgument
	NumCarriers
)

// Names of the places, which are all that is uncertain about them.
const (
	keyHint       = "kv_hint"
	keyHints      = "kv_hints"
	keyRouterHint = "router_hint"
	keyExtra      = "extra_args"
	keyParams     = "kv_transfer_params"
	keyEndpoint   = "source_control_endpoint"
	keyNames      = "block_hashes"
)

var carrierNames = [NumCarriers]string{"kv_hint", "kv_transfer_params.kv_hint", "kv_transfer_params.router_hint", "kv_hints"}

// Carriers are the spellings ParseCarrier knows, for error texts.
var Carriers = strings.Join(carrierNames[:], ", ")

// String returns the carrier as configurations and answers spell it.
func (c Carrier) String() string {
	if c < NumCarriers {
		return carrierNames[c]
	}
	return "unknown"
}

// ParseCarrier reads a declared carrier. The empty string is the default; ok is
// false for a word that is none of Carriers.
func ParseCarrier(s string) (c Carrier, ok bool) {
	if s == "" {
		return RequestField, true
	}
	for i, name := range carrierNames {
		if s == name {
			return Carrier(i), true
		}
	}
	return RequestField, false
}

// Form is how block names are written.
type Form uint8

const (
	// Numbers writes plain JSON integers, as consumers want them.
	Numbers Form = iota
	// Strings writes them in quotes, for readers whose numbers are float64. A
	// consumer refuses them.
	Strings
)

// AppendRequest appends a JSON object with what the request to the worker has to
// carry, to be merged into it. Like AppendFetch it allocates only if dst is too
// small.
func (c Carrier) AppendRequest(dst []byte, messageID, endpoint string, names []uint64, form Form) []byte {
	nested := c == TransferParams || c == RouterHint
	if nested {
		dst = append(dst, `{"`+keyExtra+`":{"`+keyParams+`":`...)
	}
	switch c {
	case RouterHint:
		dst = append(dst, `{"`+keyRouterHint+`":{"`+keyEndpoint+`":`...)
		dst = jsontext.AppendString(dst, endpoint)
		dst = append(dst, `,"`+keyNames+`":`...)
		dst = append(AppendNames(dst, names, form), '}')
	case EngineArgument:
		dst = AppendFetchAs(append(dst, `{"`+keyHints+`":`...), messageID, endpoint, names, form)
	default:
		dst = AppendFetchAs(append(dst, `{"`+keyHint+`":`...), messageID, endpoint, names, form)
	}
	dst = append(dst, '}')
	if nested {
		dst = append(dst, "}}"...)
	}
	return dst
}

// ErrNoHint: a request carries no hint in any of the places that are known.
var ErrNoHint = errors.New("hint: the request carries none (looked for " + Carriers + ")")

// Find takes the hint out of a request, whichever carrier it came by; of several
// the newest counts, in the order of the constants but for the engine argument,
// which comes last. A legacy hint becomes a message of one fetch. A hint that is
// there and cannot be read is an error, never passed over for an older one.
func Find(request []byte) (*Message, Carrier, error) {
	top, err := object(request, "request")
	if err != nil {
		return nil, 0, err
	}
	params, err := within(top, keyExtra, keyParams)
	if err != nil {
		return nil, 0, err
	}
	for _, at := range []struct {
		in      map[string]json.RawMessage
		key     string
		carrier Carrier
	}{{top, keyHint, RequestField}, {params, keyHint, TransferParams}, {params, keyRouterHint, RouterHint}, {top, keyHints, EngineArgument}} {
		raw, there := at.in[at.key]
		if !there || string(raw) == "null" {
			continue
		}
		var m *Message
		if at.carrier == RouterHint {
			if m, err = legacy(raw); m == nil && err == nil {
				continue // it is about something else
			}
		} else {
			m, err = Parse(raw)
		}
		if err != nil {
			return nil, at.carrier, fmt.Errorf("%s: %w", at.carrier, err)
		}
		return m, at.carrier, nil
	}
	return nil, 0, ErrNoHint
}

// within goes down nested objects; one that is absent or null is empty.
func within(o map[string]json.RawMessage, keys ...string) (map[string]json.RawMessage, error) {
	for i, key := range keys {
		raw, there := o[key]
		if !there || string(raw) == "null" {
			return nil, nil
		}
		var err error
		if o, err = object(raw, strings.Join(keys[:i+1], ".")); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// legacy reads a router_hint: endpoint and names, both or neither.
func legacy(raw []byte) (*Message, error) {
	o, err := object(raw, keyRouterHint)
	if err != nil {
		return nil, err
	}
	_, endpoint := o[keyEndpoint]
	_, hashes := o[keyNames]
	switch {
	case !endpoint && !hashes:
		return nil, nil
	case !endpoint:
		return nil, fmt.Errorf("%s stands without %s; a hint has both or neither", keyNames, keyEndpoint)
	case !hashes:
		return nil, fmt.Errorf("%s stands without %s; a hint has both or neither", keyEndpoint, keyNames)
	}
	f, err := fetch(o, keyRouterHint)
	if err != nil {
		return nil, err
	}
	return &Message{ProtocolVersion: ProtocolVersion,
		Actions: []Action{{ID: FetchID, Type: FetchType, Version: FetchVersion, Fetch: f}}}, nil
}
