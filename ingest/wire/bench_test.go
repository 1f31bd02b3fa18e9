package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/tinylib/msgp/msgp"
)

// payloadShape is a dialect for the payload of the benchmarks and the allocation
// test: one store of 32 blocks of 16 tokens, as a busy engine sends it.
type payloadShape struct {
	name     string
	maps     bool
	bin      bool
	mixed    bool // keys that are not all nil
	lookable bool // with look-ahead tokens
}

var payloadShapes = []payloadShape{
	{name: "array/int"},
	{name: "array/bin", bin: true},
	{name: "map/int", maps: true},
	{name: "map/bin", maps: true, bin: true},
}

func payloadOf(s payloadShape) []byte {
	const blocks, size = 32, 16
	rng := rand.New(rand.NewPCG(1, 2))
	hash := func(b []byte) []byte {
		var seed [8]byte
		binary.BigEndian.PutUint64(seed[:], rng.Uint64())
		digest := sha256.Sum256(seed[:])
		if s.bin {
			return msgp.AppendBytes(b, digest[:])
		}
		return msgp.AppendUint64(b, binary.BigEndian.Uint64(digest[24:]))
	}
	hashes := func(b []byte) []byte {
		b = msgp.AppendArrayHeader(b, blocks)
		for range blocks {
			b = hash(b)
		}
		return b
	}
	var ids [blocks*size + 1]uint32
	for k := range ids {
		ids[k] = rng.Uint32N(128_000)
	}
	tokens := func(b []byte) []byte {
		b = msgp.AppendArrayHeader(b, blocks*size)
		for _, id := range ids[:blocks*size] {
			b = msgp.AppendUint32(b, id)
		}
		return b
	}
	lookaheads := func(b []byte) []byte {
		b = msgp.AppendArrayHeader(b, blocks)
		for k := range blocks {
			b = msgp.AppendUint32(msgp.AppendArrayHeader(b, 1), ids[(k+1)*size])
		}
		return b
	}
	keys := func(b []byte) []byte {
		b = msgp.AppendArrayHeader(b, blocks)
		for k := range blocks {
			if s.mixed && k%2 == 0 {
				b = msgp.AppendArrayHeader(b, 4)
				b = msgp.AppendString(b, "sql-adapter")
				b = msgp.AppendArrayHeader(b, 2)
				b = msgp.AppendString(b, "image-1")
				b = msgp.AppendInt(b, -3)
				b = msgp.AppendString(b, "tenant-a")
				b = msgp.AppendBytes(b, []byte("digest"))
				continue
			}
			b = msgp.AppendNil(b)
		}
		return b
	}
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, 1757376000.5)
	b = msgp.AppendArrayHeader(b, 1)
	if s.maps {
		n := uint32(11)
		if s.lookable {
			n++
		}
		b = msgp.AppendMapHeader(b, n)
		b = msgp.AppendString(msgp.AppendString(b, "type"), "BlockStored")
		b = hashes(msgp.AppendString(b, "block_hashes"))
		b = hash(msgp.AppendString(b, "parent_block_hash"))
		b = tokens(msgp.AppendString(b, "token_ids"))
		b = msgp.AppendInt(msgp.AppendString(b, "block_size"), size)
		b = msgp.AppendNil(msgp.AppendString(b, "lora_id"))
		b = msgp.AppendString(msgp.AppendString(b, "medium"), "GPU")
		b = msgp.AppendString(msgp.AppendString(b, "lora_name"), "sql-adapter")
		b = keys(msgp.AppendString(b, "extra_keys"))
		b = msgp.AppendInt(msgp.AppendString(b, "group_idx"), 0)
		b = msgp.AppendString(msgp.AppendString(b, "kv_cache_spec_kind"), "full_attention")
		if s.lookable {
			b = lookaheads(msgp.AppendString(b, "lookahead_token_ids"))
		}
	} else {
		b = msgp.AppendArrayHeader(b, 12)
		b = msgp.AppendString(b, "BlockStored")
		b = hash(hashes(b))
		b = msgp.AppendInt(tokens(b), size)
		b = msgp.AppendString(msgp.AppendNil(b), "GPU")
		b = keys(msgp.AppendString(b, "sql-adapter"))
		b = msgp.AppendInt(b, 0)
		b = msgp.AppendNil(msgp.AppendString(b, "full_attention"))
	}
	return msgp.AppendInt(b, 0)
}

func TestAllocations(t *testing.T) {
	shapes := append([]payloadShape{}, payloadShapes...)
	shapes = append(shapes,
		payloadShape{name: "array/keys", mixed: true},
		payloadShape{name: "map/keys", maps: true, mixed: true},
		payloadShape{name: "map/look-ahead", maps: true, lookable: true},
	)
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			payload := payloadOf(s)
			var d Decoder
			var ev Event
			n := testing.AllocsPerRun(100, func() {
				if _, err := d.Reset(payload); err != nil {
					t.Fatal(err)
				}
				if more, err := d.Next(&ev); !more || err != nil {
					t.Fatal(more, err)
				}
				if ev.Kind != Store || len(ev.Hashes) != 32 || len(ev.Tokens) != 512+ev.Lookahead {
					t.Fatalf("%v %v, %d hashes, %d tokens", ev.Kind, ev.Reason, len(ev.Hashes), len(ev.Tokens))
				}
				if (ev.Lookahead == 1) != s.lookable || (len(ev.Keys.Hashes) > 0) != s.mixed {
					t.Fatalf("look-ahead %d, keys %d", ev.Lookahead, len(ev.Keys.Hashes))
				}
				if more, err := d.Next(&ev); more || err != nil {
					t.Fatal(more, err)
				}
			})
			if n != 0 {
				t.Errorf("%v allocations", n)
			}
			if n := testing.AllocsPerRun(100, func() {
				if err := Check(payload); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("Check: %v allocations", n)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, s := range payloadShapes {
		b.Run(s.name, func(b *testing.B) {
			payload := payloadOf(s)
			var d Decoder
			var ev Event
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				if err := decodeAll(&d, &ev, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func decodeAll(d *Decoder, ev *Event, payload []byte) error {
	if _, err := d.Reset(payload); err != nil {
		return err
	}
	for {
		if more, err := d.Next(ev); !more {
			return err
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	payload := payloadOf(payloadShapes[0])
	for b.Loop() {
		if err := Check(payload); err != nil {
			b.Fatal(err)
		}
	}
}
