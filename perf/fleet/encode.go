package fleet

import (
	"encoding/binary"

	"github.com/tinylib/msgp/msgp"
)

// encoder turns batches into payloads, the way the engine's publisher does.
type encoder struct {
	engine *Engine
	seed   uint64 // of private names
	rank   int64
	buf    []byte
}

// newEncoder makes the encoder of one stream. Names are a function of the
// prefix: the same on all engines, as where the hash has no seed of its own,
// or the engine's own.
func newEncoder(e *Engine, rank int) encoder {
	enc := encoder{engine: e, rank: int64(rank)}
	if e.PrivateNames {
		enc.seed = 1
		for _, c := range []byte(e.ID) {
			enc.seed = enc.seed*257 + uint64(c)
		}
	}
	return enc
}

// name is what the engine calls a block.
func (e *encoder) name(id prefix) uint64 { return scramble(uint64(id) ^ e.seed<<32) }

// batch encodes events as one payload. It is valid until the next call.
func (e *encoder) batch(seconds float64, events []event) []byte {
	b := msgp.AppendArrayHeader(e.buf[:0], 3)
	b = msgp.AppendFloat64(b, seconds)
	b = msgp.AppendArrayHeader(b, uint32(len(events)))
	for i := range events {
		b = e.event(b, &events[i])
	}
	if e.engine.Dialect.sglang() || e.engine.Ranks > 1 {
		b = msgp.AppendInt64(b, e.rank)
	} else {
		b = msgp.AppendNil(b)
	}
	e.buf = b
	return b
}

func (e *encoder) event(b []byte, ev *event) []byte {
	array := e.engine.Dialect == VLLMArray12 || e.engine.Dialect == VLLMArray8 || e.engine.Dialect == SGLangArray
	switch {
	case array && ev.kind == cleared:
		return msgp.AppendString(msgp.AppendArrayHeader(b, 1), "AllBlocksCleared")
	case array && ev.kind == removed:
		return e.removedArray(b, ev)
	case array:
		return e.storedArray(b, ev)
	case ev.kind == cleared:
		return e.clearedMap(b, ev)
	case ev.kind == removed:
		return e.removedMap(b, ev)
	}
	return e.storedMap(b, ev)
}

func (e *encoder) storedArray(b []byte, ev *event) []byte {
	size := uint32(12)
	switch e.engine.Dialect {
	case VLLMArray8:
		size = 8
	case SGLangArray:
		size = 7
	}
	b = msgp.AppendString(msgp.AppendArrayHeader(b, size), "BlockStored")
	b = e.names(b, ev)
	b = e.parent(b, ev)
	b = e.tokens(b, ev)
	b = msgp.AppendInt(b, e.blockSize(ev))
	b = msgp.AppendNil(b) // lora_id
	b = msgp.AppendString(b, e.medium(ev.slot))
	if size >= 8 {
		b = optional(b, ev.blocks[0].adapter)
	}
	if size == 12 {
		b = e.extraKeys(b, ev)
		b = msgp.AppendInt(b, 0) // group
		b = msgp.AppendString(b, "full_attention")
		b = msgp.AppendNil(b) // sliding window
	}
	return b
}

func (e *encoder) removedArray(b []byte, ev *event) []byte {
	size := uint32(3)
	if e.engine.Dialect == VLLMArray12 {
		size = 4
	}
	b = msgp.AppendString(msgp.AppendArrayHeader(b, size), "BlockRemoved")
	b = e.names(b, ev)
	b = msgp.AppendString(b, e.medium(ev.slot))
	if size == 4 {
		b = msgp.AppendInt(b, 0)
	}
	return b
}

func (e *encoder) storedMap(b []byte, ev *event) []byte {
	vllm := !e.engine.Dialect.sglang()
	n := uint32(7)
	named := vllm || ev.blocks[0].adapter != "" // vLLM writes the key always
	if named {
		n++
	}
	if vllm {
		n += 3 // group, kind, locality
		if ev.slot == onDevice {
			n++ // extra keys
		}
	}
	if ev.slot.pool() {
		n++
	}
	b = msgp.AppendMapHeader(b, n)
	b = pair(b, "type", "BlockStored")
	b = e.names(msgp.AppendString(b, "block_hashes"), ev)
	b = e.parent(msgp.AppendString(b, "parent_block_hash"), ev)
	b = e.tokens(msgp.AppendString(b, "token_ids"), ev)
	b = msgp.AppendInt(msgp.AppendString(b, "block_size"), e.blockSize(ev))
	b = msgp.AppendNil(msgp.AppendString(b, "lora_id"))
	b = pair(b, "medium", e.medium(ev.slot))
	if named {
		b = optional(msgp.AppendString(b, "lora_name"), ev.blocks[0].adapter)
	}
	if vllm {
		if ev.slot == onDevice {
			b = e.extraKeys(msgp.AppendString(b, "extra_keys"), ev)
		}
		b = msgp.AppendInt(msgp.AppendString(b, "group_idx"), 0)
		b = pair(b, "kv_cache_spec_kind", "full_attention")
		b = pair(b, "locality", "LOCAL")
	}
	return e.ownership(b, ev)
}

func (e *encoder) removedMap(b []byte, ev *event) []byte {
	n := uint32(3)
	if ev.slot.pool() {
		n++
	}
	b = msgp.AppendMapHeader(b, n)
	b = pair(b, "type", "BlockRemoved")
	b = e.names(msgp.AppendString(b, "block_hashes"), ev)
	b = pair(b, "medium", e.medium(ev.slot))
	return e.ownership(b, ev)
}

func (e *encoder) clearedMap(b []byte, ev *event) []byte {
	n := uint32(1)
	if ev.slot.pool() {
		n++
	}
	b = pair(msgp.AppendMapHeader(b, n), "type", "AllBlocksCleared")
	return e.ownership(b, ev)
}

func (e *encoder) ownership(b []byte, ev *event) []byte {
	if ev.slot.pool() {
		b = pair(b, "ownership", "kvcr")
	}
	return b
}

func pair(b []byte, key, value string) []byte {
	return msgp.AppendString(msgp.AppendString(b, key), value)
}

func optional(b []byte, s string) []byte {
	if s == "" {
		return msgp.AppendNil(b)
	}
	return msgp.AppendString(b, s)
}

// extraKeys states that no block has any, which only device stores do.
func (e *encoder) extraKeys(b []byte, ev *event) []byte {
	if ev.slot != onDevice {
		return msgp.AppendNil(b)
	}
	b = msgp.AppendArrayHeader(b, uint32(len(ev.blocks)))
	for i := range ev.blocks {
		if a := ev.blocks[i].adapter; a != "" { // the adapter's name is one
			b = msgp.AppendString(msgp.AppendArrayHeader(b, 1), a)
		} else {
			b = msgp.AppendNil(b)
		}
	}
	return b
}

func (e *encoder) blockSize(ev *event) int {
	if ev.kind == located {
		return 0
	}
	return e.engine.BlockSize
}

func (e *encoder) names(b []byte, ev *event) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(ev.blocks)))
	for i := range ev.blocks {
		b = e.hash(b, ev.blocks[i].id)
	}
	return b
}

func (e *encoder) parent(b []byte, ev *event) []byte {
	if p := ev.blocks[0].parent; p != 0 && ev.kind == stored {
		return e.hash(b, p)
	}
	return msgp.AppendNil(b)
}

func (e *encoder) hash(b []byte, id prefix) []byte {
	n := e.name(id)
	switch {
	case e.engine.WideNames: // a digest, of which the last 8 bytes count
		var d [32]byte
		for i := range 3 {
			binary.BigEndian.PutUint64(d[8*i:], scramble(n+uint64(i)))
		}
		binary.BigEndian.PutUint64(d[24:], n)
		return msgp.AppendBytes(b, d[:])
	case e.engine.Dialect.sglang():
		return msgp.AppendInt64(b, int64(n))
	}
	return msgp.AppendUint64(b, n)
}

func (e *encoder) tokens(b []byte, ev *event) []byte {
	if ev.kind == located {
		return msgp.AppendArrayHeader(b, 0)
	}
	b = msgp.AppendArrayHeader(b, uint32(len(ev.blocks)*e.engine.BlockSize))
	for i := range ev.blocks {
		for _, t := range ev.blocks[i].tokens {
			b = msgp.AppendUint32(b, t)
		}
	}
	return b
}

// medium is how the engine calls a place.
func (e *encoder) medium(s slot) string {
	switch s {
	case onDevice:
		return "GPU"
	case onHost:
		if e.engine.Dialect.sglang() {
			return "CPU_PINNED"
		}
		return "CPU"
	case onDisk:
		if e.engine.Dialect.sglang() {
			return "DISK"
		}
		return "FS"
	case poolMemory:
		return "CPU"
	}
	return "STORAGE"
}
