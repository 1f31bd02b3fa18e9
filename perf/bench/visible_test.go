package bench

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/content"
	"github.com/cairn-kv/cairn/tree/shard"
	"github.com/tinylib/msgp/msgp"
)

// Engines that stream events of eventBlocks blocks of blockTokens tokens. Those
// that are full keep eventsKept of them.
const (
	eventBlocks  = 32
	blockTokens  = 16
	eventEngines = 8
	eventsKept   = 512 // per engine
	eventsPlayed = 3 * eventsKept
	chainEvents  = 8 // events of one prompt, each behind the one before
)

// dialect is how a payload is written: vLLM's array form as of 0.14 to 0.16 or
// its map form as of 0.26 to 0.32.
type dialect struct {
	name string
	maps bool
	full bool // a store makes older blocks go
}

var dialects = []dialect{
	{"array-v3/stores", false, false},
	{"map-v8/stores", true, false},
	{"array-v3/stores-and-removes", false, true},
	{"map-v8/stores-and-removes", true, true},
}

// payloads are the batches of one engine in their order: one stored event and,
// of a full engine, a removed event with it, of the blocks stored first.
func (d dialect) payloads(engine int) [][]byte {
	var names [eventsPlayed][eventBlocks]uint64
	list := make([][]byte, eventsPlayed)
	for i := range list {
		for k := range names[i] {
			names[i][k] = scramble(uint64(engine)<<40 | uint64(i*eventBlocks+k))
		}
		events := uint32(1)
		if d.full && i >= eventsKept {
			events = 2
		}
		b := msgp.AppendArrayHeader(nil, 3)
		b = msgp.AppendFloat64(b, 1757376000+float64(i))
		b = msgp.AppendArrayHeader(b, events)
		if events == 2 {
			b = d.removed(b, names[i-eventsKept][:])
		}
		var parent *uint64
		if i%chainEvents > 0 {
			parent = &names[i-1][eventBlocks-1]
		}
		b = d.stored(b, names[i][:], parent)
		list[i] = msgp.AppendNil(b)
	}
	return list
}

func (d dialect) stored(b []byte, names []uint64, parent *uint64) []byte {
	key := func(name string) {
		if d.maps {
			b = msgp.AppendString(b, name)
		}
	}
	if d.maps {
		b = msgp.AppendMapHeader(b, 12)
	} else {
		b = msgp.AppendArrayHeader(b, 8)
	}
	key("type")
	b = msgp.AppendString(b, "BlockStored")
	key("block_hashes")
	b = appendNames(b, names)
	key("parent_block_hash")
	if parent != nil {
		b = msgp.AppendUint64(b, *parent)
	} else {
		b = msgp.AppendNil(b)
	}
	key("token_ids")
	b = msgp.AppendArrayHeader(b, uint32(len(names)*blockTokens))
	for _, name := range names {
		for k := range uint64(blockTokens) {
			b = msgp.AppendUint32(b, uint32(scramble(name+k)%128_000))
		}
	}
	key("block_size")
	b = msgp.AppendInt(b, blockTokens)
	key("lora_id")
	b = msgp.AppendNil(b)
	key("medium")
	b = msgp.AppendString(b, "GPU")
	key("lora_name")
	b = msgp.AppendNil(b)
	if d.maps {
		key("extra_keys")
		b = msgp.AppendArrayHeader(b, uint32(len(names)))
		for range names {
			b = msgp.AppendNil(b)
		}
		key("group_idx")
		b = msgp.AppendInt(b, 0)
		key("kv_cache_spec_kind")
		b = msgp.AppendString(b, "full_attention")
		key("locality")
		b = msgp.AppendString(b, "LOCAL")
	}
	return b
}

func (d dialect) removed(b []byte, names []uint64) []byte {
	leafFirst := make([]uint64, len(names))
	for i, name := range names {
		leafFirst[len(names)-1-i] = name
	}
	if !d.maps {
		b = msgp.AppendString(msgp.AppendArrayHeader(b, 3), "BlockRemoved")
		return msgp.AppendString(appendNames(b, leafFirst), "GPU")
	}
	b = msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(b, 4), "type"), "BlockRemoved")
	b = appendNames(msgp.AppendString(b, "block_hashes"), leafFirst)
	b = msgp.AppendString(msgp.AppendString(b, "medium"), "GPU")
	return msgp.AppendString(msgp.AppendString(b, "locality"), "LOCAL")
}

func appendNames(b []byte, names []uint64) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(names)))
	for _, name := range names {
		b = msgp.AppendUint64(b, name)
	}
	return b
}

// decoded is what both pipelines share: payload in, events with contents out.
type decoded struct {
	decoder  wire.Decoder
	event    wire.Event
	contents []uint64
	seeds    content.Seeds
}

// each calls f for every event of a payload. Of a store d.contents are the
// content hashes.
func (d *decoded) each(payload []byte, f func(*wire.Event) error) error {
	if _, err := d.decoder.Reset(payload); err != nil {
		return err
	}
	for {
		more, err := d.decoder.Next(&d.event)
		if err != nil || !more {
			return err
		}
		switch d.event.Kind {
		case wire.Store:
			first := d.seeds.First
			if d.event.HasParent {
				first = d.seeds.Rest
			}
			d.contents = content.Append(d.contents[:0], d.event.Tokens, blockTokens, 0, first, d.seeds.Rest, nil)
			if len(d.contents) != len(d.event.Hashes) {
				return fmt.Errorf("%d contents for %d names", len(d.contents), len(d.event.Hashes))
			}
		case wire.Remove:
		default:
			return fmt.Errorf("an event of kind %v (%v)", d.event.Kind, d.event.Reason)
		}
		if err := f(&d.event); err != nil {
			return err
		}
	}
}

// direct applies payloads of all engines in turn to a tree, on one thread.
func direct(tb testing.TB, p *player, streams [][][]byte) cost {
	d := decoded{seeds: content.MakeSeeds("", "")}
	pairs := make([]uint64, 0, 2*eventBlocks)
	return visible(tb, streams, ThreadCPU, func(engine int, payload []byte, _ uint64) error {
		o := p.owners[engine]
		return d.each(payload, func(ev *wire.Event) error {
			if ev.Kind == wire.Remove {
				p.index.Remove(o, ev.Hashes)
				return nil
			}
			pairs = pairs[:0]
			for i, name := range ev.Hashes {
				pairs = append(pairs, name, d.contents[i])
			}
			p.stored.HasParent, p.stored.Parent, p.stored.Pairs = ev.HasParent, ev.Parent, pairs
			p.index.Store(o, &p.stored)
			return nil
		})
	}, func() {})
}

// piped applies them through the rings of a shard, as streams do: this thread
// decodes, the shard's goroutine writes. The cost is that of both threads.
func piped(tb testing.TB, p *player, streams [][][]byte) cost {
	ctx, stop := context.WithTimeout(tb.Context(), time.Minute)
	defer stop()
	s := shard.New(shard.Options{Index: p.index})
	s.Start(ctx)
	defer s.Close()
	ports := make([]*shard.Port, eventEngines)
	heads := make([]shard.Head, eventEngines)
	for i := range ports {
		port, err := s.OpenPort(ctx)
		if err != nil {
			tb.Fatal(err)
		}
		ports[i], heads[i] = port, shard.Head{Holder: p.owners[i].Holder, Generation: s.Generation(p.owners[i].Holder)}
	}
	writer := func(f func()) {
		if err := s.Do(ctx, func(tree.Writer) { f() }); err != nil {
			tb.Fatal(err)
		}
	}
	writer(runtime.LockOSThread)
	both := func() (cpu time.Duration) {
		writer(func() { cpu = ThreadCPU() })
		return cpu + ThreadCPU()
	}
	d := decoded{seeds: content.MakeSeeds("", "")}
	return visible(tb, streams, both, func(engine int, payload []byte, seq uint64) error {
		port, h := ports[engine], heads[engine]
		err := d.each(payload, func(ev *wire.Event) error {
			if ev.Kind == wire.Remove {
				words, err := port.Remove(ctx, h, len(ev.Hashes))
				copy(words, ev.Hashes)
				return err
			}
			words, err := port.Store(ctx, h, shard.StoreHead{HasParent: ev.HasParent, Parent: ev.Parent, Span: 1}, len(ev.Hashes))
			if err != nil {
				return err
			}
			for i, name := range ev.Hashes {
				words[2*i], words[2*i+1] = name, d.contents[i]
			}
			return nil
		})
		if err != nil {
			return err
		}
		return port.Commit(seq)
	}, func() {
		for i, port := range ports {
			if err := port.WaitApplied(ctx, shard.Position{Seq: uint64(len(streams[i])) - 1, Any: true}); err != nil {
				tb.Fatal(err)
			}
		}
	})
}

// visible plays the streams, batch by batch in turn, and measures the second
// half of them until all is visible.
func visible(tb testing.TB, streams [][][]byte, clock func() time.Duration, apply func(engine int, payload []byte, seq uint64) error, drain func()) cost {
	play := func(from, to int) {
		for seq := from; seq < to; seq++ {
			for engine := range streams {
				if err := apply(engine, streams[engine][seq], uint64(seq)); err != nil {
					tb.Fatalf("engine %d, batch %d: %v", engine, seq, err)
				}
			}
		}
	}
	const half = eventsPlayed / 2
	play(0, half)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	from := clock()
	play(half, eventsPlayed)
	drain()
	took := clock() - from
	runtime.ReadMemStats(&after)
	calls := len(streams) * (eventsPlayed - half)
	return cost{cpu: took, blocks: calls * eventBlocks, calls: calls, allocs: after.Mallocs - before.Mallocs, bytes: after.TotalAlloc - before.TotalAlloc}
}

// BenchmarkVisible takes payloads to a tree that readers can ask: decoder,
// content hashes and index. The index gets them through the rings of its shard,
// the map tree right away. Figures are per block stored; with removes each goes
// with the removal of another.
func BenchmarkVisible(b *testing.B) {
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) {
			streams := make([][][]byte, eventEngines)
			for i := range streams {
				streams[i] = d.payloads(i)
			}
			compare(b, "block", cost.perBlock, func(newTree func() tree.Interface) cost {
				p := newPlayer(newTree(), eventEngines)
				if _, ok := p.index.(*tree.Index); ok {
					return piped(b, p, streams)
				}
				return direct(b, p, streams)
			})
		})
	}
}

// TestVisible checks that both pipelines end with the same blocks.
func TestVisible(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			streams := make([][][]byte, eventEngines)
			for i := range streams {
				streams[i] = d.payloads(i)
			}
			x, m := newPlayer(newIndex(), eventEngines), newPlayer(newMapTree(), eventEngines)
			piped(t, x, streams)
			direct(t, m, streams)
			want := eventEngines * eventsPlayed * eventBlocks
			if d.full {
				want = eventEngines * eventsKept * eventBlocks
			}
			if got := x.index.Stats(); got.Residencies != want || got.Waiting != 0 {
				t.Errorf("the index has %d blocks, %d wait; want %d, 0", got.Residencies, got.Waiting, want)
			}
			if got := m.index.Stats(); got.Residencies != want || got.Waiting != 0 {
				t.Errorf("the map tree has %d blocks, %d wait; want %d, 0", got.Residencies, got.Waiting, want)
			}
			tokens := make([]uint32, chainEvents*eventBlocks*blockTokens)
			for i := range tokens { // the last whole prompt of engine 3
				block := (eventsPlayed-chainEvents)*eventBlocks + i/blockTokens
				tokens[i] = uint32(scramble(scramble(3<<40|uint64(block))+uint64(i%blockTokens)) % 128_000)
			}
			seeds := content.MakeSeeds("", "")
			query := content.Append(nil, tokens, blockTokens, 0, seeds.First, seeds.Rest, nil)
			for name, p := range map[string]*player{"index": x, "map tree": m} {
				a := p.reader.Match(0, query)
				if len(a) != 1 || a[0].Holder != p.owners[3].Holder || int(a[0].Units[tree.ViewDevice]) != len(query) {
					t.Errorf("%s answers %v, want holder %d with all %d blocks", name, a, p.owners[3].Holder, len(query))
				}
			}
		})
	}
}
