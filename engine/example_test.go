package engine_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// announce makes a publisher that says, as vLLM does, that it stored the
// blocks of a prompt on its device, four tokens each. It sends as soon as
// somebody listens.
func announce(ctx context.Context, tokens []uint32) *zmtp.Publisher {
	pub, err := zmtp.Listen(ctx, "tcp://127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	b := msgp.AppendArrayHeader(nil, 3) // batch: time, events, rank
	b = msgp.AppendFloat64(b, 0)
	b = msgp.AppendArrayHeader(b, 1)
	b = msgp.AppendMapHeader(b, 6)
	b = msgp.AppendString(b, "type")
	b = msgp.AppendString(b, "BlockStored")
	b = msgp.AppendString(b, "block_hashes")
	b = msgp.AppendArrayHeader(b, uint32(len(tokens)/4))
	for i := range len(tokens) / 4 {
		b = msgp.AppendUint64(b, 1<<63+uint64(i))
	}
	b = msgp.AppendString(b, "parent_block_hash")
	b = msgp.AppendNil(b)
	b = msgp.AppendString(b, "token_ids")
	b = msgp.AppendArrayHeader(b, uint32(len(tokens)))
	for _, t := range tokens {
		b = msgp.AppendUint32(b, t)
	}
	b = msgp.AppendString(b, "block_size")
	b = msgp.AppendInt(b, 4)
	b = msgp.AppendString(b, "medium")
	b = msgp.AppendString(b, "GPU")
	b = msgp.AppendNil(b)
	go func() {
		if pub.WaitSubscribers(ctx, 1) == nil {
			pub.Send(nil, binary.BigEndian.AppendUint64(nil, 0), b)
		}
	}()
	return pub
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleOpen() {
	e, err := engine.Open(engine.Options{Shards: 1})
	must(err)
	fmt.Println(len(e.Sources()), "sources")
	must(e.Close(context.Background()))
	// Output: 0 sources
}

func ExampleEngine_AddSource() {
	ctx := context.Background()
	e, err := engine.Open(engine.Options{})
	must(err)
	defer e.Close(ctx)

	pub := announce(ctx, []uint32{1, 2, 3, 4})
	defer pub.Close()
	must(e.AddSource(ctx, engine.Source{ID: "w1", Model: "m", Endpoint: pub.Addr()}))

	err = e.AddSource(ctx, engine.Source{ID: "w2", Model: "m", Endpoint: "tcp://10.0.0.2"})
	fmt.Println(err)
	err = e.RemoveSource(ctx, "w1")
	fmt.Println(err)
	// Output:
	// source "w2": endpoint "tcp://10.0.0.2": is not host:port behind tcp:// (10.0.0.2: missing port in address)
	// <nil>
}

func ExampleEngine_Match() {
	ctx := context.Background()
	e, err := engine.Open(engine.Options{})
	must(err)
	defer e.Close(ctx)
	pub := announce(ctx, []uint32{1, 2, 3, 4, 5, 6, 7, 8})
	defer pub.Close()
	must(e.AddSource(ctx, engine.Source{ID: "w1", Model: "m", Endpoint: pub.Addr()}))
	must(e.WaitApplied(ctx, "w1", 0, 0))

	var a engine.Answer // keep it: its buffers are reused
	must(e.Match(&engine.Query{Model: "m", Tokens: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}}, &a))
	for _, h := range a.Holders {
		fmt.Printf("%s/%d %s: %d of %d tokens on the device, %s\n",
			h.Source, h.Rank, h.Domain, h.Tokens.Device, a.Tokens, h.Freshness.State)
	}
	// Output: w1/0 worker: 8 of 9 tokens on the device, exact
}

func ExampleEngine_Hint() {
	ctx := context.Background()
	e, err := engine.Open(engine.Options{})
	must(err)
	defer e.Close(ctx)
	hold, lack := announce(ctx, []uint32{1, 2, 3, 4, 5, 6, 7, 8}), announce(ctx, nil)
	defer hold.Close()
	defer lack.Close()
	must(e.AddSource(ctx, engine.Source{ID: "w1", Model: "m", Endpoint: hold.Addr(),
		Hint: &engine.HintConfig{WorkerType: "aggregated", Endpoint: "tcp://10.0.0.1:23280"}}))
	must(e.AddSource(ctx, engine.Source{ID: "w2", Model: "m", Endpoint: lack.Addr(),
		Hint: &engine.HintConfig{WorkerType: "aggregated"}}))
	must(e.WaitApplied(ctx, "w1", 0, 0))

	var h engine.HintAnswer
	q := &engine.Query{Model: "m", Tokens: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}}
	must(e.Hint(q, engine.Target{Source: "w2", MessageID: "req-42"}, &h))
	fmt.Printf("%s\n", h.JSON)
	must(e.Hint(q, engine.Target{Source: "w1"}, &h))
	fmt.Println(h.Reason)
	// Output:
	// {"protocol_version":"0.1","message_id":"req-42","actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":{"source_control_endpoint":"tcp://10.0.0.1:23280","block_hashes":[9223372036854775808,9223372036854775809]}}]}
	// no_longer_source
}

func ExampleEngine_WaitApplied() {
	ctx := context.Background()
	e, err := engine.Open(engine.Options{})
	must(err)
	defer e.Close(ctx)
	pub := announce(ctx, []uint32{1, 2, 3, 4})
	defer pub.Close()
	must(e.AddSource(ctx, engine.Source{ID: "w1", Model: "m", Endpoint: pub.Addr()}))

	// Everything that the publisher sent through sequence 0 is visible after it.
	fmt.Println(e.WaitApplied(ctx, "w1", 0, 0))
	fmt.Println(e.WaitApplied(ctx, "w9", 0, 0))
	// Output:
	// <nil>
	// engine: no source has this id
}

func ExampleEngine_Sources() {
	ctx := context.Background()
	e, err := engine.Open(engine.Options{})
	must(err)
	defer e.Close(ctx)
	pub := announce(ctx, []uint32{1, 2, 3, 4})
	defer pub.Close()
	must(e.AddSource(ctx, engine.Source{ID: "w1", Model: "m", Endpoint: pub.Addr()}))
	must(e.WaitApplied(ctx, "w1", 0, 0))

	for _, s := range e.Sources() {
		for _, st := range s.Streams {
			fmt.Println(s.ID, s.Protocol, s.BlockSizes, st.Rank, st.State, st.Connected, st.Applied)
		}
	}
	// Output: w1 framework_v1 [4] 0 exact true 0
}
