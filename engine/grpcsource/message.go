package grpcsource

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// batch is a KvEventBatch.
type batch struct {
	seq     uint64
	seconds float64
	rank    int32
	hasRank bool
	events  []event
}

// event is a KvCacheEvent.
type event struct {
	kind      kind
	blocks    []block // stored
	parent    int64
	hasParent bool
	hashes    []int64 // removed
	level     int32
	hasLevel  bool
}

type kind uint8

const (
	unknown kind = iota
	stored
	removed
	cleared
)

// block is a KvBlock.
type block struct {
	hash     int64
	tokens   []uint32
	size     int32
	lora     int64
	hasLora  bool
	level    int32
	hasLevel bool
}

var errMessage = errors.New("grpcsource: a message that is none")

// fields calls take for every field of a message. take returns false for what
// is not of the type that the field has.
func fields(b []byte, take func(number protowire.Number, t protowire.Type, varint uint64, bytes []byte) bool) error {
	for len(b) > 0 {
		number, t, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errMessage, protowire.ParseError(n))
		}
		b = b[n:]
		var v uint64
		var p []byte
		switch t {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			v, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			p, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, t, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d: %w", errMessage, number, protowire.ParseError(n))
		}
		b = b[n:]
		if !take(number, t, v, p) {
			return fmt.Errorf("%w: field %d has wire type %d", errMessage, number, t)
		}
	}
	return nil
}

// parse reads a KvEventBatch.
func (m *batch) parse(b []byte) error {
	var inner error
	err := fields(b, func(number protowire.Number, t protowire.Type, v uint64, p []byte) bool {
		switch number {
		case 1:
			m.seq = v
			return t == protowire.VarintType
		case 2:
			m.seconds = math.Float64frombits(v)
			return t == protowire.Fixed64Type
		case 3:
			var e event
			inner = errors.Join(inner, e.parse(p))
			m.events = append(m.events, e)
			return t == protowire.BytesType
		case 4:
			m.rank, m.hasRank = int32(v), true
			return t == protowire.VarintType
		}
		return true
	})
	return errors.Join(err, inner)
}

func (e *event) parse(b []byte) error {
	var inner error
	err := fields(b, func(number protowire.Number, t protowire.Type, _ uint64, p []byte) bool {
		switch number {
		case 2:
			e.kind = stored
			inner = errors.Join(inner, e.parseStored(p))
		case 3:
			e.kind = removed
			inner = errors.Join(inner, e.parseRemoved(p))
		case 4:
			e.kind = cleared
		default:
			return true
		}
		return t == protowire.BytesType
	})
	return errors.Join(err, inner)
}

func (e *event) parseStored(b []byte) error {
	var inner error
	err := fields(b, func(number protowire.Number, t protowire.Type, v uint64, p []byte) bool {
		switch number {
		case 1:
			var k block
			inner = errors.Join(inner, k.parse(p))
			e.blocks = append(e.blocks, k)
			return t == protowire.BytesType
		case 2:
			e.parent, e.hasParent = int64(v), true
			return t == protowire.VarintType
		}
		return true
	})
	return errors.Join(err, inner)
}

func (e *event) parseRemoved(b []byte) error {
	return fields(b, func(number protowire.Number, t protowire.Type, v uint64, p []byte) bool {
		switch number {
		case 1:
			return numbers(t, v, p, func(v uint64) { e.hashes = append(e.hashes, int64(v)) })
		case 2:
			e.level, e.hasLevel = int32(v), true
			return t == protowire.VarintType
		}
		return true
	})
}

func (k *block) parse(b []byte) error {
	return fields(b, func(number protowire.Number, t protowire.Type, v uint64, p []byte) bool {
		switch number {
		case 1:
			k.hash = int64(v)
		case 2:
			return numbers(t, v, p, func(v uint64) { k.tokens = append(k.tokens, uint32(v)) })
		case 3:
			k.size = int32(v)
		case 4:
			k.lora, k.hasLora = int64(v), true
		case 5:
			k.level, k.hasLevel = int32(v), true
		default:
			return true
		}
		return t == protowire.VarintType
	})
}

// numbers reads one value of a repeated field, or all of a packed one.
func numbers(t protowire.Type, v uint64, packed []byte, take func(uint64)) bool {
	if t == protowire.VarintType {
		take(v)
		return true
	}
	for t == protowire.BytesType && len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return false
		}
		take(v)
		packed = packed[n:]
	}
	return t == protowire.BytesType
}

// request is a SubscribeKvEventsRequest.
func request(start uint64) []byte {
	if start == 0 {
		return []byte{} // a field at its default is not written
	}
	return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), start)
}
