package grpcsource

import (
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// payload writes a batch as the engines' own publishers would: [ts, events,
// rank] in MessagePack.
func payload(b []byte, m *batch) []byte {
	b = msgp.AppendArrayHeader(b, 3)
	b = msgp.AppendFloat64(b, m.seconds)
	n := 0
	for i := range m.events {
		n += m.events[i].parts()
	}
	b = msgp.AppendArrayHeader(b, uint32(n))
	for i := range m.events {
		b = m.events[i].append(b)
	}
	if !m.hasRank {
		return msgp.AppendNil(b)
	}
	return msgp.AppendInt32(b, m.rank)
}

// parts is how many events an event becomes: blocks of one store may differ in
// size, tier or adapter.
func (e *event) parts() int {
	if e.kind != stored {
		return 1
	}
	n := 0
	for i := range e.blocks {
		if i == 0 || !e.blocks[i].alike(&e.blocks[i-1]) {
			n++
		}
	}
	return n
}

// alike reports whether two blocks can stand in one event.
func (k *block) alike(o *block) bool {
	return k.size == o.size && k.lora == o.lora && k.hasLora == o.hasLora && k.medium() == o.medium()
}

// medium is the name of the block's tier.
func (k *block) medium() string { return medium(k.level, k.hasLevel) }

// medium names a cache level: those that are known, and others by a name that
// nobody takes for one of them.
func medium(level int32, has bool) string {
	switch {
	case !has || level == 0:
		return "GPU"
	case level == 1:
		return "CPU"
	}
	return fmt.Sprintf("CACHE_LEVEL_%d", level)
}

func (e *event) append(b []byte) []byte {
	switch e.kind {
	case stored:
		for i := 0; i < len(e.blocks); {
			end := i + 1
			for end < len(e.blocks) && e.blocks[end].alike(&e.blocks[i]) {
				end++
			}
			parent, has := e.parent, e.hasParent
			if i > 0 {
				parent, has = e.blocks[i-1].hash, true
			}
			b = appendStored(b, e.blocks[i:end], parent, has)
			i = end
		}
		return b
	case removed:
		b = msgp.AppendMapHeader(b, 3)
		b = msgp.AppendString(msgp.AppendString(b, "type"), "BlockRemoved")
		b = msgp.AppendArrayHeader(msgp.AppendString(b, "block_hashes"), uint32(len(e.hashes)))
		for _, h := range e.hashes {
			b = msgp.AppendInt64(b, h)
		}
		return msgp.AppendString(msgp.AppendString(b, "medium"), medium(e.level, e.hasLevel))
	case cleared:
		b = msgp.AppendMapHeader(b, 1)
		return msgp.AppendString(msgp.AppendString(b, "type"), "AllBlocksCleared")
	}
	b = msgp.AppendMapHeader(b, 1) // counted as what it is
	return msgp.AppendString(msgp.AppendString(b, "type"), "UnknownKvCacheEvent")
}

func appendStored(b []byte, blocks []block, parent int64, hasParent bool) []byte {
	n := uint32(6)
	if blocks[0].hasLora {
		n++
	}
	b = msgp.AppendMapHeader(b, n)
	b = msgp.AppendString(msgp.AppendString(b, "type"), "BlockStored")
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "block_hashes"), uint32(len(blocks)))
	tokens := 0
	for i := range blocks {
		b = msgp.AppendInt64(b, blocks[i].hash)
		tokens += len(blocks[i].tokens)
	}
	b = msgp.AppendString(b, "parent_block_hash")
	if hasParent {
		b = msgp.AppendInt64(b, parent)
	} else {
		b = msgp.AppendNil(b)
	}
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "token_ids"), uint32(tokens))
	for i := range blocks {
		for _, t := range blocks[i].tokens {
			b = msgp.AppendUint32(b, t)
		}
	}
	b = msgp.AppendInt32(msgp.AppendString(b, "block_size"), blocks[0].size)
	b = msgp.AppendString(msgp.AppendString(b, "medium"), blocks[0].medium())
	if blocks[0].hasLora {
		b = msgp.AppendInt64(msgp.AppendString(b, "lora_id"), blocks[0].lora)
	}
	return b
}
