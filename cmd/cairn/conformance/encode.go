package conformance

import (
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// dialect is a way to say an event on the wire. An index trace is played once
// in each of them: the answers may not depend on it.
type dialect uint8

const (
	vllmArray   dialect = iota // vLLM 0.22: arrays of 12 and 4 elements
	vllmMap                    // vLLM 0.24: maps, defaults left out
	sglangArray                // SGLang 0.5.18: arrays of 7, salted ones with a map behind
	sglangMap                  // SGLang 0.5.23: maps
	vllmJSON                   // vLLM's maps as JSON
	pulledJSON                 // TensorRT-LLM's events as they are pulled, in lines
	routerJSON                 // Dynamo's router events, in lines
	numDialects
)

// traceBlock is the block size of traces in dialects that do not tell it.
const traceBlock = 4

func (d dialect) String() string {
	return [...]string{"vllm-array", "vllm-map", "sglang-array", "sglang-map", "vllm-json", "pulled-json", "router-json"}[d]
}

// event is what an operation of a trace says.
type event struct {
	op        string // store, remove, clear
	hashes    []name
	parent    *name
	tokens    []uint32
	blockSize int
	medium    string
	group     int
	grouped   bool // the trace names a group or a kind
	kind      string
	adapter   string
	adapterID *int64
	salt      string
	keys      []*string // per block: the identifier of an image, or nil
}

// can reports whether the dialect has words for the event.
func (d dialect) can(e *event) bool {
	switch d {
	case vllmArray, vllmMap:
		return true
	case sglangArray:
		return !e.grouped && e.keys == nil && e.adapter == ""
	case sglangMap:
		return !e.grouped && e.keys == nil
	case vllmJSON:
		return e.inJSON()
	case pulledJSON:
		// A removal is one on every tier there, and nothing is cleared.
		return e.inJSON() && e.evenSize(traceBlock) && !e.grouped && e.keys == nil && e.adapter == "" && e.adapterID == nil && e.salt == "" &&
			e.op != "clear" && e.medium == "GPU"
	case routerJSON:
		return e.inJSON() && e.evenSize(traceBlock) && !e.grouped && e.keys == nil && (e.op == "clear" || routerTiers[e.medium] != "")
	}
	return false
}

// batch encodes one batch of events that the dialect has words for, or of
// clears. Batches are arrays in all dialects but those of lines.
func (d dialect) batch(rank int, events ...event) []byte {
	var lines []string
	switch d {
	case vllmJSON:
		text, ok := asJSON(vllmMap.batch(rank, events...))
		if !ok {
			panic("a batch of our own has no form in JSON")
		}
		return text
	case pulledJSON:
		for i := range events {
			lines = append(lines, events[i].pulled(rank))
		}
		return []byte(strings.Join(lines, "\n"))
	case routerJSON:
		for i := range events {
			lines = append(lines, events[i].routed(rank))
		}
		return []byte(strings.Join(lines, "\n"))
	}
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, 1757376000.5)
	b = msgp.AppendArrayHeader(b, uint32(len(events)))
	for i := range events {
		switch d {
		case vllmArray, sglangArray:
			b = d.array(b, &events[i])
		default:
			b = d.fields(b, &events[i])
		}
	}
	return msgp.AppendInt(b, rank)
}

func (d dialect) array(b []byte, e *event) []byte {
	switch e.op {
	case "clear":
		b = msgp.AppendArrayHeader(b, 1)
		return msgp.AppendString(b, "AllBlocksCleared")
	case "remove":
		if d == vllmArray {
			b = msgp.AppendArrayHeader(b, 4)
		} else {
			b = msgp.AppendArrayHeader(b, 3)
		}
		b = msgp.AppendString(b, "BlockRemoved")
		b = appendNames(b, e.hashes)
		b = msgp.AppendString(b, e.medium)
		if d == vllmArray {
			b = msgp.AppendInt(b, e.group)
		}
		return b
	}
	size := uint32(12)
	if d == sglangArray {
		size = 7
		if e.salt != "" {
			size = 8
		}
	}
	b = msgp.AppendArrayHeader(b, size)
	b = msgp.AppendString(b, "BlockStored")
	b = appendNames(b, e.hashes)
	b = appendParent(b, e.parent)
	b = appendTokens(b, e.tokens)
	b = msgp.AppendInt(b, e.blockSize)
	b = appendID(b, e.adapterID)
	b = msgp.AppendString(b, e.medium)
	if d == sglangArray {
		if e.salt != "" {
			b = msgp.AppendMapHeader(b, 1)
			b = msgp.AppendString(b, "cache_salt")
			b = msgp.AppendString(b, e.salt)
		}
		return b
	}
	b = appendText(b, e.adapter)
	b = appendKeys(b, e)
	b = msgp.AppendInt(b, e.group)
	b = appendText(b, e.spec())
	return msgp.AppendNil(b) // sliding window
}

// fields encodes an event as a map. vLLM leaves keys out that are at their
// default; its salt stands among the extra keys, SGLang's at the top level.
func (d dialect) fields(b []byte, e *event) []byte {
	type field struct {
		key    string
		append func([]byte) []byte
	}
	var fields []field
	add := func(key string, f func([]byte) []byte) { fields = append(fields, field{key, f}) }
	text := func(s string) func([]byte) []byte { return func(b []byte) []byte { return appendText(b, s) } }
	whole := func(n int) func([]byte) []byte { return func(b []byte) []byte { return msgp.AppendInt(b, n) } }
	switch e.op {
	case "clear":
		add("type", text("AllBlocksCleared"))
	case "remove":
		add("type", text("BlockRemoved"))
		add("block_hashes", func(b []byte) []byte { return appendNames(b, e.hashes) })
		add("medium", text(e.medium))
		if d == vllmMap {
			add("group_idx", whole(e.group))
		}
	default:
		add("type", text("BlockStored"))
		add("block_hashes", func(b []byte) []byte { return appendNames(b, e.hashes) })
		add("parent_block_hash", func(b []byte) []byte { return appendParent(b, e.parent) })
		add("token_ids", func(b []byte) []byte { return appendTokens(b, e.tokens) })
		add("block_size", whole(e.blockSize))
		add("lora_id", func(b []byte) []byte { return appendID(b, e.adapterID) })
		add("medium", text(e.medium))
		if d == sglangMap {
			if e.salt != "" {
				add("cache_salt", text(e.salt))
			}
			if e.adapter != "" {
				add("lora_name", text(e.adapter))
			}
			break
		}
		add("lora_name", text(e.adapter))
		add("extra_keys", func(b []byte) []byte { return appendKeys(b, e) })
		add("group_idx", whole(e.group))
		add("kv_cache_spec_kind", text(e.spec()))
	}
	b = msgp.AppendMapHeader(b, uint32(len(fields)))
	for _, f := range fields {
		b = f.append(msgp.AppendString(b, f.key))
	}
	return b
}

// spec is the kind of the event's cache group; engines that have one group
// say full attention.
func (e *event) spec() string {
	if e.kind == "" && !e.grouped {
		return "full_attention"
	}
	return e.kind
}

func appendText(b []byte, s string) []byte {
	if s == "" {
		return msgp.AppendNil(b)
	}
	return msgp.AppendString(b, s)
}

func appendID(b []byte, id *int64) []byte {
	if id == nil {
		return msgp.AppendNil(b)
	}
	return msgp.AppendInt64(b, *id)
}

func appendName(b []byte, n name) []byte {
	switch {
	case n.bytes != nil:
		return msgp.AppendBytes(b, n.bytes)
	case n.negative:
		return msgp.AppendInt64(b, int64(n.value))
	}
	return msgp.AppendUint64(b, n.value)
}

func appendNames(b []byte, names []name) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(names)))
	for _, n := range names {
		b = appendName(b, n)
	}
	return b
}

func appendParent(b []byte, n *name) []byte {
	if n == nil {
		return msgp.AppendNil(b)
	}
	return appendName(b, *n)
}

func appendTokens(b []byte, tokens []uint32) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(tokens)))
	for _, t := range tokens {
		b = msgp.AppendUint32(b, t)
	}
	return b
}

// appendKeys writes vLLM's extra keys: per block a list or nil. The salt is
// the last key of the chain's first block, as the engine sends it; behind a
// parent it is not said again.
func appendKeys(b []byte, e *event) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(e.hashes)))
	for i := range e.hashes {
		var image *string
		if i < len(e.keys) {
			image = e.keys[i]
		}
		salted := i == 0 && e.parent == nil && e.salt != ""
		n := uint32(0)
		if image != nil {
			n++
		}
		if salted {
			n++
		}
		if n == 0 {
			b = msgp.AppendNil(b)
			continue
		}
		b = msgp.AppendArrayHeader(b, n)
		if image != nil {
			b = msgp.AppendArrayHeader(b, 2)
			b = msgp.AppendString(b, *image)
			b = msgp.AppendInt(b, 0)
		}
		if salted {
			b = msgp.AppendString(b, e.salt)
		}
	}
	return b
}
