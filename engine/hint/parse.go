package hint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// ErrNoFetch: a message without a kv.fetch action has nothing to act on.
var ErrNoFetch = errors.New("hint: no kv.fetch action")

// Parse reads a hint strictly, as its consumer does: the envelope and the
// payload are objects, actions is a list with at least one kv.fetch, the
// endpoint is tcp://host:port, the names are a non-empty list of distinct
// unsigned integers below 2^64 in plain decimal (1e3, 1.0, -1 and true are
// refused). Unknown keys are ignored, unknown actions kept as they came.
func Parse(data []byte) (*Message, error) {
	env, err := object(data, "hint")
	if err != nil {
		return nil, err
	}
	m := &Message{}
	if m.ProtocolVersion, err = text(env, "protocol_version", false); err != nil {
		return nil, err
	}
	if m.MessageID, err = text(env, "message_id", false); err != nil {
		return nil, err
	}
	actions, err := list(env["actions"], "actions")
	if err != nil {
		return nil, err
	}
	fetches := 0
	for i, raw := range actions {
		a, err := action(raw, fmt.Sprintf("actions[%d]", i))
		if err != nil {
			return nil, err
		}
		if a.Fetch != nil {
			fetches++
		}
		m.Actions = append(m.Actions, a)
	}
	if fetches == 0 {
		return nil, ErrNoFetch
	}
	return m, nil
}

func action(raw json.RawMessage, path string) (a Action, err error) {
	o, err := object(raw, path)
	if err != nil {
		return a, err
	}
	if a.Type, err = text(o, "action_type", true); err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	if a.Type != FetchType {
		a.Raw = bytes.Clone(raw)
		return a, nil
	}
	if a.ID, err = text(o, "action_id", false); err == nil {
		a.Version, err = text(o, "action_version", false)
	}
	if err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	p, err := object(o["payload"], path+".payload")
	if err != nil {
		return a, err
	}
	a.Fetch, err = fetch(p, path+".payload")
	return a, err
}

// fetch reads the two fields that name what to fetch, and where.
func fetch(o map[string]json.RawMessage, path string) (*Fetch, error) {
	f := &Fetch{}
	var err error
	if f.Endpoint, err = text(o, keyEndpoint, true); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, _, err = SplitEndpoint(f.Endpoint); err != nil {
		return nil, fmt.Errorf("%s.%s: %w", path, keyEndpoint, err)
	}
	if f.Names, err = names(o[keyNames], path+"."+keyNames); err != nil {
		return nil, err
	}
	return f, nil
}

func names(raw json.RawMessage, path string) ([]uint64, error) {
	items, err := list(raw, path)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("%s: the list is empty; a fetch names at least one block", path)
	}
	out := make([]uint64, len(items))
	seen := make(map[uint64]int, len(items))
	for i, it := range items {
		v, err := ParseName(it)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", path, i, err)
		}
		if j, dup := seen[v]; dup {
			return nil, fmt.Errorf("%s[%d]: %d stands at %d already", path, i, v, j)
		}
		seen[v], out[i] = i, v
	}
	return out, nil
}

// ParseName reads one block name of a hint: digits alone, no sign, no
// fraction, no exponent, no leading zero, below 2^64.
func ParseName(b []byte) (uint64, error) {
	if len(b) == 0 || len(b) > 1 && b[0] == '0' {
		return 0, fmt.Errorf("%q is not an unsigned integer in plain decimal", b)
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is not an unsigned integer in plain decimal", b)
		}
	}
	v, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s does not fit 64 bits unsigned", b)
	}
	return v, nil
}

// object splits a JSON object into its members. encoding/json's struct
// decoding would fold the case of keys and let the last of two equal keys win;
// here a key is what it is and stands once.
func object(raw []byte, path string) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("%s: is not a JSON object", path)
	}
	o := make(map[string]json.RawMessage)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		key := t.(string) // the decoder yields nothing else in this place
		if _, dup := o[key]; dup {
			return nil, fmt.Errorf("%s: key %q stands twice", path, key)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("%s.%s: %w", path, key, err)
		}
		o[key] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s: something follows the object", path)
	}
	return o, nil
}

func list(raw json.RawMessage, path string) ([]json.RawMessage, error) {
	if b := bytes.TrimSpace(raw); len(b) == 0 || b[0] != '[' {
		return nil, fmt.Errorf("%s: is not a list", path)
	}
	var l []json.RawMessage
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

func text(o map[string]json.RawMessage, key string, required bool) (string, error) {
	raw, ok := o[key]
	if !ok && !required {
		return "", nil
	}
	if len(raw) == 0 || raw[0] != '"' {
		return "", fmt.Errorf("%s: is not a string", key)
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	if required && s == "" {
		return "", fmt.Errorf("%s: is empty", key)
	}
	return s, nil
}
