package wire

import (
	"encoding/binary"
	"math"
)

// A masked batch is a batch of ours: what a recording keeps where prompts must
// not be kept. It says of every event what decides about residency, and has
// hashes of the content in the place of tokens, adapters, salts, extra keys and
// sessions, none of which stand in it.
//
//	[ts, [event, …], rank]
//	event = {type, block_hashes, parent_block_hash, block_size,
//	         content_hashes, content_unit, content_lookahead, content_keys,
//	         medium, group_idx, kv_cache_spec_kind, locality, ownership,
//	         dp_rank, worker_id}
//
// content_hashes are those of every unit of content_unit tokens, which divides
// the block size; content_keys says what else the index must know of the keys
// that they contain.

// The bits of content_keys.
const (
	keysHaveSlot  = 1 << iota // Event.KeysHaveSlot
	keysStated                // Event.KeysStated
	keysKeyed                 // Event.Keyed
	keysSelfNamed             // Event.SelfNamed
)

// masked reads a field that only masked events have.
func (d *Decoder) masked(c *cursor, ev *Event, key string) {
	if key == "content_hashes" {
		n, ok := d.list(c, ReasonHashType)
		if !ok {
			return
		}
		d.contents = d.contents[:0]
		for ; n > 0 && !c.bad(); n-- {
			d.contents = append(d.contents, d.hash(c))
		}
		ev.Contents = d.contents
		return
	}
	v, has := d.number(c)
	if !has || v < 0 || v > math.MaxInt32 {
		d.reject(ReasonFieldType)
		return
	}
	switch key {
	case "content_unit":
		ev.ContentUnit = v
	case "content_lookahead":
		ev.Lookahead = int(v)
	case "content_keys":
		ev.KeysHaveSlot, ev.KeysStated, ev.Keyed = v&keysHaveSlot != 0, v&keysStated != 0, v&keysKeyed != 0
		ev.SelfNamed = v&keysSelfNamed != 0
	}
}

// maskedShape checks the content hashes of an event against its blocks.
func (d *Decoder) maskedShape(ev *Event) {
	switch u := ev.ContentUnit; {
	case u == 0 && len(ev.Contents) == len(ev.Hashes):
	case u > 0 && ev.BlockSize >= u && ev.BlockSize%u == 0 && ev.Even():
	default:
		d.reject(ReasonTokenCount)
	}
}

// Masking builds a masked batch. The zero value is ready; it is used again and
// again by one goroutine.
type Masking struct {
	b      []byte
	list   int // where the length of the list of events stands
	events uint32
}

// Begin begins a batch as it was sent, without its events.
func (m *Masking) Begin(b *Batch) {
	m.b, m.events = append(m.b[:0], 0x93), 0
	if b.IsMillis {
		m.b = appendUint(m.b, b.Millis)
	} else {
		m.b = binary.BigEndian.AppendUint64(append(m.b, mFloat64), math.Float64bits(b.Seconds))
	}
	m.list = len(m.b)
	m.b = append(m.b, mArray32, 0, 0, 0, 0)
}

// Event adds an event. contents are the content hashes of a store with tokens,
// one for every unit tokens; nil where there are none.
func (m *Masking) Event(ev *Event, contents []uint64, unit int) {
	m.events++
	head := len(m.b)
	m.b = append(m.b, mMap16, 0, 0)
	pairs := 0
	key := func(k string) {
		pairs++
		m.b = appendStr(m.b, k)
	}
	text := func(k string, v []byte) {
		if len(v) > 0 {
			key(k)
			m.b = appendStr(m.b, string(v))
		}
	}
	number := func(k string, has bool, v int64) {
		if has {
			key(k)
			m.b = binary.BigEndian.AppendUint64(append(m.b, mInt64), uint64(v))
		}
	}
	key("type")
	switch ev.Kind {
	case Store:
		m.b = appendStr(m.b, "BlockStored")
	case Remove:
		m.b = appendStr(m.b, "BlockRemoved")
	case Clear:
		m.b = appendStr(m.b, "AllBlocksCleared")
	default:
		// Unknown here, and so skipped again: what was wrong with it must not
		// be told, for its tokens may be.
		m.b = appendStr(m.b, "masked:"+ev.Reason.String())
	}
	if ev.Kind == Store || ev.Kind == Remove {
		key("block_hashes")
		m.b = appendHashes(m.b, ev.Hashes)
	}
	if ev.Kind == Store {
		if ev.HasParent {
			key("parent_block_hash")
			m.b = appendUint(m.b, ev.Parent)
		}
		switch {
		case contents != nil:
			key("content_hashes")
			m.b = appendHashes(m.b, contents)
			number("content_unit", unit > 0, int64(unit))
			number("content_lookahead", ev.Lookahead > 0, int64(ev.Lookahead))
		case ev.OpaqueTokens: // matches nothing, and is counted as such
			key("token_ids")
			m.b = appendStr(append(m.b, 0x91), "")
		}
		number("block_size", ev.HasBlockSize, ev.BlockSize)
		keys := int64(0)
		flag := func(on bool, bit int64) {
			if on {
				keys |= bit
			}
		}
		flag(ev.KeysHaveSlot, keysHaveSlot)
		flag(ev.KeysStated, keysStated)
		flag(ev.keyed(), keysKeyed)
		flag(ev.SelfNamed, keysSelfNamed)
		number("content_keys", keys != 0, keys)
	}
	if ev.HasMedium {
		key("medium")
		m.b = appendStr(m.b, string(ev.Medium))
	}
	number("group_idx", ev.HasGroup, ev.Group)
	text("kv_cache_spec_kind", ev.SpecKind)
	text("locality", ev.Locality)
	text("ownership", ev.Ownership)
	number("dp_rank", ev.HasRank, ev.Rank)
	if ev.HasWorker {
		key("worker_id")
		m.b = appendUint(m.b, ev.Worker)
	}
	binary.BigEndian.PutUint16(m.b[head+1:], uint16(pairs))
}

// keyed reports whether the event's blocks have salts or extra keys.
func (e *Event) keyed() bool { return e.Keyed || len(e.Salt) > 0 || len(e.Keys.Hashes) > 0 }

// End returns the batch, valid until the next Begin.
func (m *Masking) End(b *Batch) []byte {
	binary.BigEndian.PutUint32(m.b[m.list+1:], m.events)
	if !b.HasRank {
		return append(m.b, mNil)
	}
	return binary.BigEndian.AppendUint64(append(m.b, mInt64), uint64(b.Rank))
}

func appendHashes(b []byte, hashes []uint64) []byte {
	b = binary.BigEndian.AppendUint32(append(b, mArray32), uint32(len(hashes)))
	for _, h := range hashes {
		b = appendUint(b, h)
	}
	return b
}

func appendUint(b []byte, v uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, mUint64), v)
}

// appendStr writes a text; names are short, and the longest that the wire can
// carry fits.
func appendStr(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(append(b, mStr32), uint32(len(s)))
	return append(b, s...)
}
