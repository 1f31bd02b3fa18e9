package conformance

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/tree/content"
)

// vector is one line of wire.jsonl: a live message with its meaning.
type vector struct {
	ID           string        `json:"id"`
	Topic        string        `json:"topic"`
	Seq          *string       `json:"seq"`
	SeqHex       string        `json:"seq_hex"`
	PayloadHex   string        `json:"payload_hex"`
	Expect       meaning       `json:"expect"`
	Alternatives []alternative `json:"alternatives"`

	line    int
	frame   []byte // sequence frame
	payload []byte
	seq     uint64
	numbers bool // the sequence frame holds a sequence
}

// meaning is what a message says.
type meaning struct {
	OK     *bool           `json:"ok"`
	Level  string          `json:"level"` // message, batch
	TS     json.Number     `json:"ts"`
	TSUnit string          `json:"ts_unit"`
	Rank   *int64          `json:"rank"`
	Events []expectedEvent `json:"events"`
	After  after           `json:"after"`
}

// after is the state after the message on an empty index.
type after struct {
	Resident []struct {
		Hash   string `json:"hash"`
		Tier   string `json:"tier"`
		Group  int    `json:"group"`
		Domain string `json:"domain"`
	} `json:"resident"`
	Orphans []string `json:"orphans"`
}

// alternative is another right outcome.
type alternative struct {
	At    int            `json:"at"`
	Event *expectedEvent `json:"event"`
	After *after         `json:"after"`
	Note  string         `json:"note"`
}

// expectedEvent is one event of a message. What is not there is absent or nil.
type expectedEvent struct {
	Event         string              `json:"event"`
	Tag           *string             `json:"tag"`
	Hashes        []string            `json:"hashes"`
	Parent        *string             `json:"parent"`
	Tokens        []json.RawMessage   `json:"tokens"`
	Bigram        bool                `json:"bigram"`
	BlockSize     *int64              `json:"block_size"`
	Medium        *string             `json:"medium"`
	Tier          string              `json:"tier"`
	LoraID        *int64              `json:"lora_id"`
	LoraName      string              `json:"lora_name"`
	Salt          string              `json:"salt"`
	SessionID     string              `json:"session_id"`
	BlockKeys     [][]json.RawMessage `json:"block_keys"`
	Group         *int64              `json:"group"`
	SpecKind      string              `json:"spec_kind"`
	SlidingWindow *int64              `json:"sliding_window"`
	Locality      string              `json:"locality"`
	Ownership     string              `json:"ownership"`
	Domain        string              `json:"domain"`
	Placeholder   bool                `json:"placeholder"`
	Prefix        bool                `json:"prefix"`
	Why           string              `json:"why"`

	// Sent and understood, and nothing that cairn keeps.
	Skipped   *json.RawMessage `json:"skipped"`
	TenantID  string           `json:"tenant_id"`
	BackendID string           `json:"backend_id"`
	ObjectKey string           `json:"object_key"`
}

func parseVector(l line) (*vector, error) {
	v := &vector{line: l.number}
	if err := l.decode(v); err != nil {
		return nil, err
	}
	fail := func(key string, err error) (*vector, error) {
		return nil, fmt.Errorf("line %d, %s: %s: %w", l.number, v.ID, key, err)
	}
	if v.Expect.OK == nil {
		return fail("expect.ok", fmt.Errorf("is missing"))
	}
	var err error
	if v.payload, err = hex.DecodeString(v.PayloadHex); err != nil {
		return fail("payload_hex", err)
	}
	if v.frame, err = hex.DecodeString(v.SeqHex); err != nil {
		return fail("seq_hex", err)
	}
	if v.Seq != nil {
		v.numbers = true
		if v.seq, err = sequence(*v.Seq); err != nil {
			return fail("seq", err)
		}
		if !bytes.Equal(v.frame, sequenceFrame(v.seq)) {
			return fail("seq_hex", fmt.Errorf("%s is not sequence %d", v.SeqHex, v.seq))
		}
	}
	return v, nil
}

// field is one fact about an event, as text.
type field struct{ key, value string }

// fields lists the facts that an event must show. Reasons are examples of
// words, so only that something is refused counts.
func (e *expectedEvent) fields() []field {
	switch e.Event {
	case "skipped", "rejected":
		return []field{{"event", e.Event}, {"tag", text(e.Tag)}}
	case "clear":
		return []field{{"event", e.Event}, {"domain", domainName(e.Ownership)}}
	}
	list := []field{
		{"event", e.Event}, {"hashes", fmt.Sprint(e.Hashes)}, {"medium", text(e.Medium)}, {"tier", e.Tier},
		{"group", whole(e.Group)}, {"locality", e.Locality}, {"ownership", e.Ownership}, {"domain", domainName(e.Ownership)},
	}
	if e.Event == "remove" {
		return list
	}
	tokens := "nil"
	if e.Tokens != nil {
		tokens = "["
		for i, t := range e.Tokens {
			if i > 0 {
				tokens += " "
			}
			tokens += string(t)
		}
		tokens += "]"
	}
	why := e.Why
	if e.Prefix {
		why = ""
	}
	return append(list,
		field{"parent", text(e.Parent)}, field{"tokens", tokens}, field{"bigram", fmt.Sprint(e.Bigram)},
		field{"block_size", whole(e.BlockSize)}, field{"lora_id", whole(e.LoraID)}, field{"lora_name", e.LoraName},
		field{"session_id", e.SessionID}, field{"spec_kind", e.SpecKind}, field{"sliding_window", whole(e.SlidingWindow)},
		field{"placeholder", fmt.Sprint(e.Placeholder)}, field{"prefix", fmt.Sprint(e.Prefix) + " " + why})
}

// decoded lists the same facts of a decoded event.
func decoded(e *wire.Event) []field {
	switch e.Kind {
	case wire.Skipped, wire.Rejected:
		return []field{{"event", e.Kind.String()}, {"tag", string(e.Tag)}}
	case wire.Clear:
		return []field{{"event", e.Kind.String()}, {"domain", domainName(string(e.Ownership))}}
	}
	hashes := []string{}
	for _, h := range e.Hashes {
		hashes = append(hashes, strconv.FormatUint(h, 10))
	}
	list := []field{
		{"event", e.Kind.String()}, {"hashes", fmt.Sprint(hashes)}, {"medium", nilOr(e.HasMedium, string(e.Medium))}, {"tier", e.Tier().String()},
		{"group", nilOr(e.HasGroup, strconv.FormatInt(e.Group, 10))}, {"locality", string(e.Locality)}, {"ownership", string(e.Ownership)}, {"domain", domainName(string(e.Ownership))},
	}
	if e.Kind == wire.Remove {
		return list
	}
	reason := why(e)
	return append(list,
		field{"parent", nilOr(e.HasParent, strconv.FormatUint(e.Parent, 10))}, field{"tokens", nilOr(!e.TokensNil, fmt.Sprint(e.Tokens))}, field{"bigram", fmt.Sprint(e.Bigram)},
		field{"block_size", nilOr(e.HasBlockSize, strconv.FormatInt(e.BlockSize, 10))}, field{"lora_id", nilOr(e.HasLoraID, strconv.FormatInt(e.LoraID, 10))}, field{"lora_name", string(e.LoraName)},
		field{"session_id", string(e.SessionID)}, field{"spec_kind", string(e.SpecKind)}, field{"sliding_window", nilOr(e.HasSlidingWindow, strconv.FormatInt(e.SlidingWindow, 10))},
		field{"placeholder", fmt.Sprint(e.Placeholder)}, field{"prefix", fmt.Sprint(reason == "") + " " + reason})
}

// why says what keeps a store from giving prefix residency, "" if nothing.
func why(e *wire.Event) string {
	switch {
	case e.OpaqueTokens:
		return "opaque_tokens"
	case e.Placeholder:
		return "placeholder"
	case e.Remote():
		return "remote_locality"
	case e.Class() == wire.Sparse:
		return "sparse_group"
	case e.Group != 0:
		return "not_main_group"
	}
	return ""
}

// difference compares one event, and returns the first fact that differs.
func (e *expectedEvent) difference(got *wire.Event) (key, expected, seen string, same bool) {
	want, have := e.fields(), decoded(got)
	for i := range max(len(want), len(have)) {
		switch {
		case i >= len(want) || i >= len(have):
			return "event", e.Event, got.Kind.String(), false
		case want[i].key == "tokens" && got.OpaqueTokens:
			// Text among the tokens: what they are cannot be kept.
		case want[i] != have[i]:
			return want[i].key, want[i].value, have[i].value, false
		}
	}
	if e.Event == "store" {
		if expected, seen, same := e.keysOf(got); !same {
			return "salt and block_keys", expected, seen, false
		}
	}
	return "", "", "", true
}

// keysOf compares the salt and the identity of each block. An engine may send
// the salt among the keys of block 0: then it is no key any more.
func (e *expectedEvent) keysOf(got *wire.Event) (expected, seen string, same bool) {
	keys := make([][]json.RawMessage, len(e.BlockKeys))
	copy(keys, e.BlockKeys)
	salt := e.Salt
	if salt == "" && len(got.Salt) > 0 && len(keys) > 0 {
		keys[0] = slices.DeleteFunc(slices.Clone(keys[0]), func(k json.RawMessage) bool {
			var s string
			if salt != "" || json.Unmarshal(k, &s) != nil || s != string(got.Salt) && s != "dynamo-cache-salt:"+string(got.Salt) {
				return false
			}
			salt = string(got.Salt)
			return true
		})
	}
	if salt != string(got.Salt) {
		return "salt " + salt, "salt " + string(got.Salt), false
	}
	for i := range got.Hashes {
		var block []json.RawMessage
		if i < len(keys) {
			block = keys[i]
		}
		hashes := keysOfBlock(&got.Keys, i)
		if len(block) != len(hashes) {
			return fmt.Sprintf("%d keys of block %d", len(block), i), fmt.Sprintf("%d", len(hashes)), false
		}
		for j, k := range block {
			names := keyNames(k)
			if !slices.ContainsFunc(hashes, func(h uint64) bool { return slices.Contains(names, h) }) {
				return fmt.Sprintf("key %d of block %d as one of %v", j, i, names), fmt.Sprint(hashes), false
			}
		}
	}
	return "", "", true
}

func keysOfBlock(k *content.Keys, i int) []uint64 {
	if i >= len(k.Ends) {
		return nil
	}
	from := 0
	if i > 0 {
		from = k.Ends[i-1]
	}
	return k.Hashes[from:k.Ends[i]]
}

// keyNames lists the hashes that an extra key may have: those of the
// identifiers of images in it, and that of its canonical bytes.
func keyNames(raw json.RawMessage) []uint64 {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	names := imageNames(nil, v)
	switch v := v.(type) {
	case string:
		names = append(names, content.Opaque(msgp.AppendString(nil, v)))
	case json.Number:
		if bits, negative, err := integer(v.String()); err == nil {
			b := msgp.AppendUint64(nil, bits)
			if negative {
				b = msgp.AppendInt64(nil, int64(bits))
			}
			names = append(names, content.Opaque(b))
		}
	case map[string]any:
		if s, ok := v["bin"].(string); ok {
			if b, err := hex.DecodeString(s); err == nil {
				names = append(names, content.Opaque(msgp.AppendBytes(nil, b)))
			}
		}
	}
	return names
}

// imageNames appends the hash of every identifier of an image in v: a string,
// alone or beside its offset, or under hash, mm_hash or mm_objects. Files have
// hashes of 64 bits as decimal strings.
func imageNames(names []uint64, v any) []uint64 {
	switch v := v.(type) {
	case string:
		if h, ok := content.MultimodalID([]byte(v)); ok {
			names = append(names, h)
		}
		if h, err := strconv.ParseUint(v, 10, 64); err == nil {
			names = append(names, h)
		}
	case []any:
		for _, x := range v {
			names = imageNames(names, x)
		}
	case map[string]any:
		for _, key := range []string{"hash", "mm_hash", "mm_objects"} {
			names = imageNames(names, v[key])
		}
	}
	return names
}

func text(s *string) string {
	if s == nil {
		return "nil"
	}
	return *s
}

func whole(n *int64) string {
	if n == nil {
		return "nil"
	}
	return strconv.FormatInt(*n, 10)
}

func nilOr(has bool, s string) string {
	if !has {
		return "nil"
	}
	return s
}

// domainName is the residency domain that an ownership stands for.
func domainName(ownership string) string {
	if ownership == kvcr {
		return "cache_owner"
	}
	return "worker"
}

// kvcr is the ownership of the cache library's pool.
const kvcr = "kvcr"
