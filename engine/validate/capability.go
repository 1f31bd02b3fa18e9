package validate

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/cairn-kv/cairn/engine/identity"
)

// HintCapability is a worker's part in hints, as it publishes it.
type HintCapability struct {
	// WorkerType is aggregated, prefill or decode: hints pass between equals.
	WorkerType string
	// Endpoints are the control endpoints by rank; nil if the worker can be a
	// target only.
	Endpoints map[uint32]string
}

// ReadHintCapability reads a worker's capability keys. ok is false, without an
// error, if the worker is not capable: its capable key is absent or false, or
// it states no worker type. Endpoints are those of all managed ranks or of
// none; a rank that is left out is named. The error is nil or Errors.
func ReadHintCapability(metadata map[string]json.RawMessage, managed []uint32) (c HintCapability, ok bool, err error) {
	var f findings
	switch field, raw := pick(metadata, identity.HintCapableKey); string(raw) {
	case "", "false", "null":
		return HintCapability{}, false, nil
	case "true":
	default:
		f.add(MetadataShape, field, string(raw), "is no truth value", "true or false")
	}
	field, raw := pick(metadata, identity.HintWorkerTypeKey)
	if len(raw) > 0 && string(raw) != "null" {
		if err := json.Unmarshal(raw, &c.WorkerType); err != nil {
			f.add(MetadataShape, field, string(raw), "is no string", wantWorkerType())
		} else if c.WorkerType != "" {
			t, err := WorkerType(field, c.WorkerType)
			f.note(err)
			c.WorkerType = t
		}
	}
	field, raw = pick(metadata, identity.HintEndpointsKey)
	if len(raw) > 0 && string(raw) != "null" {
		var byRank map[string]string
		if err := json.Unmarshal(raw, &byRank); err != nil {
			f.add(MetadataShape, field, string(raw), "is no object of strings", `an object: {"0": "tcp://host:port", …}`)
		}
		c.Endpoints, err = HintEndpoints(field, byRank, managed)
		f.note(err)
	}
	if err := f.err(); err != nil {
		return HintCapability{}, false, err
	}
	if c.WorkerType == "" {
		return HintCapability{}, false, nil
	}
	return c, true, nil
}

// pick finds a member under any of its spellings, ours first.
func pick(in map[string]json.RawMessage, s identity.Spelling) (key string, raw []byte) {
	for _, key := range s.All() {
		if raw, ok := in[key]; ok {
			return key, bytes.TrimSpace(raw)
		}
	}
	return s.Text(), nil
}

var workerTypes = []identity.Spelling{identity.WorkerAggregated, identity.WorkerPrefill, identity.WorkerDecode}

func wantWorkerType() string {
	var all []string
	for _, t := range workerTypes {
		all = append(all, t.Text())
	}
	return "one of " + strings.Join(all, ", ")
}

// WorkerType reads a worker type in any of its spellings and gives ours. The
// error is an *Error for field.
func WorkerType(field, s string) (string, error) {
	for _, t := range workerTypes {
		if t.Is(s) {
			return t.Text(), nil
		}
	}
	return "", &Error{HintWorkerType, field, s, "is no worker type", wantWorkerType()}
}
