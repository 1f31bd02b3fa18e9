package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/llm-d/llm-d-kv-cache/pkg/kvevents"
	"github.com/llm-d/llm-d-kv-cache/pkg/kvevents/engineadapter"
	"github.com/tinylib/msgp/msgp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairn-kv/cairn/ingest/wire"
)

// stored is what every decoder must get out of a stored event.
type stored struct {
	hashes    []uint64
	hasParent bool
	parent    uint64
	tokens    []uint32
	size      int64
}

// Events of 32 blocks of 16 tokens. The payloads are too many for a processor to
// learn the lengths of their token ids by heart.
const (
	blocks   = 32
	size     = 16
	payloads = 512
)

// layout is a way to write an event: vLLM's array of 0.14 to 0.16 or its map of
// 0.26 to 0.32, hashes as integers or as digests.
type layout struct {
	name       string
	maps, bins bool
}

var layouts = []layout{{"array/int", false, false}, {"array/bin", false, true}, {"map/int", true, false}, {"map/bin", true, true}}

func (l layout) payloads() [][]byte {
	rng := rand.New(rand.NewPCG(32, 16))
	hash := func(b []byte) []byte {
		if !l.bins {
			return msgp.AppendUint64(b, rng.Uint64())
		}
		digest := make([]byte, 32)
		for i := range digest {
			digest[i] = byte(rng.Uint32())
		}
		return msgp.AppendBytes(b, digest)
	}
	list := make([][]byte, payloads)
	for i := range list {
		b := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 3), 1757376000.5)
		b = msgp.AppendArrayHeader(b, 1)
		key := func(name string) {
			if l.maps {
				b = msgp.AppendString(b, name)
			}
		}
		if l.maps {
			b = msgp.AppendMapHeader(b, 8)
		} else {
			b = msgp.AppendArrayHeader(b, 8)
		}
		key("type")
		b = msgp.AppendString(b, "BlockStored")
		key("block_hashes")
		b = msgp.AppendArrayHeader(b, blocks)
		for range blocks {
			b = hash(b)
		}
		key("parent_block_hash")
		b = hash(b)
		key("token_ids")
		b = msgp.AppendArrayHeader(b, blocks*size)
		for range blocks * size {
			b = msgp.AppendUint32(b, rng.Uint32N(128_000))
		}
		key("block_size")
		b = msgp.AppendInt(b, size)
		key("lora_id")
		b = msgp.AppendNil(b)
		key("medium")
		b = msgp.AppendString(b, "GPU")
		key("lora_name")
		b = msgp.AppendNil(b)
		list[i] = msgp.AppendInt(b, 0)
	}
	return list
}

// decoder reads the payload of one stored event.
type decoder interface {
	decode(payload []byte, into *stored) error
}

var decoders = []struct {
	name string
	make func() decoder
}{
	{"cairn", func() decoder { return new(cairn) }},
	{"msgp", func() decoder { return byMsgp{} }},
	{"vmihailenco", func() decoder { return &byVmihailenco{d: msgpack.NewDecoder(nil)} }},
	{"llm-d", func() decoder { return byLLMD{engineadapter.NewVLLMAdapter()} }},
}

type cairn struct {
	d  wire.Decoder
	ev wire.Event
}

func (c *cairn) decode(payload []byte, into *stored) error {
	if _, err := c.d.Reset(payload); err != nil {
		return err
	}
	for {
		more, err := c.d.Next(&c.ev)
		if err != nil || !more {
			return err
		}
		if c.ev.Kind != wire.Store {
			return fmt.Errorf("%v event: %v", c.ev.Kind, c.ev.Reason)
		}
		into.hashes, into.tokens, into.size = c.ev.Hashes, c.ev.Tokens, c.ev.BlockSize
		into.hasParent, into.parent = c.ev.HasParent, c.ev.Parent
	}
}

var errShape = errors.New("no stored event of the layouts here")

// byMsgp reads with tinylib/msgp.
type byMsgp struct{}

func (byMsgp) hash(b []byte) (uint64, []byte, error) {
	if msgp.NextType(b) == msgp.BinType {
		p, b, err := msgp.ReadBytesZC(b)
		if err != nil || len(p) < 8 {
			return 0, b, errShape
		}
		return binary.BigEndian.Uint64(p[len(p)-8:]), b, nil
	}
	return msgp.ReadUint64Bytes(b)
}

func (m byMsgp) decode(payload []byte, into *stored) error {
	_, b, err := msgp.ReadArrayHeaderBytes(payload)
	if err != nil {
		return err
	}
	if _, b, err = msgp.ReadFloat64Bytes(b); err != nil {
		return err
	}
	var events uint32
	if events, b, err = msgp.ReadArrayHeaderBytes(b); err != nil || events != 1 {
		return errShape
	}
	maps := msgp.NextType(b) == msgp.MapType
	var n uint32
	if maps {
		n, b, err = msgp.ReadMapHeaderBytes(b)
	} else {
		n, b, err = msgp.ReadArrayHeaderBytes(b)
	}
	for slot := uint32(0); slot < n && err == nil; slot++ {
		field := slot
		if maps {
			var key []byte
			if key, b, err = msgp.ReadStringZC(b); err != nil {
				return err
			}
			switch string(key) {
			case "block_hashes":
				field = 1
			case "parent_block_hash":
				field = 2
			case "token_ids":
				field = 3
			case "block_size":
				field = 4
			default:
				field = 9
			}
		}
		var count uint32
		switch field {
		case 1:
			if count, b, err = msgp.ReadArrayHeaderBytes(b); err != nil {
				return err
			}
			into.hashes = slices.Grow(into.hashes[:0], int(count))[:count]
			for i := range into.hashes {
				if into.hashes[i], b, err = m.hash(b); err != nil {
					return err
				}
			}
		case 2:
			into.hasParent = true
			into.parent, b, err = m.hash(b)
		case 3:
			if count, b, err = msgp.ReadArrayHeaderBytes(b); err != nil {
				return err
			}
			into.tokens = slices.Grow(into.tokens[:0], int(count))[:count]
			for i := range into.tokens {
				if into.tokens[i], b, err = msgp.ReadUint32Bytes(b); err != nil {
					return err
				}
			}
		case 4:
			into.size, b, err = msgp.ReadInt64Bytes(b)
		default:
			b, err = msgp.Skip(b)
		}
	}
	return err
}

// byVmihailenco reads with vmihailenco/msgpack.
type byVmihailenco struct {
	d *msgpack.Decoder
	r bytes.Reader
}

func (v *byVmihailenco) hash() (uint64, error) {
	c, err := v.d.PeekCode()
	if err != nil {
		return 0, err
	}
	if c >= 0xc4 && c <= 0xc6 {
		p, err := v.d.DecodeBytes()
		if err != nil || len(p) < 8 {
			return 0, errShape
		}
		return binary.BigEndian.Uint64(p[len(p)-8:]), nil
	}
	return v.d.DecodeUint64()
}

func (v *byVmihailenco) decode(payload []byte, into *stored) error {
	v.r.Reset(payload)
	v.d.Reset(&v.r)
	if _, err := v.d.DecodeArrayLen(); err != nil {
		return err
	}
	if _, err := v.d.DecodeFloat64(); err != nil {
		return err
	}
	if n, err := v.d.DecodeArrayLen(); err != nil || n != 1 {
		return errShape
	}
	code, err := v.d.PeekCode()
	if err != nil {
		return err
	}
	maps := code >= 0x80 && code <= 0x8f || code == 0xde || code == 0xdf
	var n int
	if maps {
		n, err = v.d.DecodeMapLen()
	} else {
		n, err = v.d.DecodeArrayLen()
	}
	for slot := 0; slot < n && err == nil; slot++ {
		field := slot
		if maps {
			var key string
			if key, err = v.d.DecodeString(); err != nil {
				return err
			}
			field = slices.Index([]string{"type", "block_hashes", "parent_block_hash", "token_ids", "block_size"}, key)
		}
		var count int
		switch field {
		case 1:
			if count, err = v.d.DecodeArrayLen(); err != nil {
				return err
			}
			into.hashes = slices.Grow(into.hashes[:0], count)[:count]
			for i := range into.hashes {
				if into.hashes[i], err = v.hash(); err != nil {
					return err
				}
			}
		case 2:
			into.hasParent = true
			into.parent, err = v.hash()
		case 3:
			if count, err = v.d.DecodeArrayLen(); err != nil {
				return err
			}
			into.tokens = slices.Grow(into.tokens[:0], count)[:count]
			for i := range into.tokens {
				if into.tokens[i], err = v.d.DecodeUint32(); err != nil {
					return err
				}
			}
		case 4:
			into.size, err = v.d.DecodeInt64()
		default:
			err = v.d.Skip()
		}
	}
	return err
}

// byLLMD is llm-d's own way.
type byLLMD struct{ *engineadapter.VLLMAdapter }

func (l byLLMD) decode(payload []byte, into *stored) error {
	_, _, batch, err := l.ParseMessage(&kvevents.RawMessage{Topic: "kv@pod@model", Payload: payload})
	if err != nil {
		return err
	}
	for _, e := range batch.Events {
		ev, ok := e.(*kvevents.BlockStoredEvent)
		if !ok {
			return errShape
		}
		*into = stored{ev.BlockHashes, ev.ParentHash != 0, ev.ParentHash, ev.Tokens, int64(ev.BlockSize)}
	}
	return nil
}

func TestAllReadTheSame(t *testing.T) {
	for _, l := range layouts {
		list := l.payloads()
		for _, p := range []int{0, 1, payloads - 1} {
			var want stored
			for i, d := range decoders {
				var got stored
				if err := d.make().decode(list[p], &got); err != nil {
					t.Fatalf("%s, %s: %v", l.name, d.name, err)
				}
				if i == 0 {
					want = got
				}
				if len(got.hashes) != blocks || len(got.tokens) != blocks*size || got.size != size || !got.hasParent ||
					got.parent != want.parent || !slices.Equal(got.hashes, want.hashes) || !slices.Equal(got.tokens, want.tokens) {
					t.Errorf("%s: %s reads something else than %s", l.name, d.name, decoders[0].name)
				}
			}
		}
	}
}

// BenchmarkDecode is of one event of 32 blocks an operation.
func BenchmarkDecode(b *testing.B) {
	for _, l := range layouts {
		list := l.payloads()
		for _, d := range decoders {
			b.Run(l.name+"/"+d.name, func(b *testing.B) {
				dec := d.make()
				var into stored
				b.ReportAllocs()
				b.SetBytes(int64(len(list[0])))
				i := 0
				for b.Loop() {
					if err := dec.decode(list[i%payloads], &into); err != nil {
						b.Fatal(err)
					}
					i++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*blocks), "ns/block")
			})
		}
	}
}
