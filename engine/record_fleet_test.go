package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest/journal"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/perf/fleet"
)

// cutter is a network that can be cut.
type cutter struct {
	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

var errCut = errors.New("the network is cut")

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return nil, errCut
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		c.conns[conn] = true
	}
	return conn, err
}

// cut ends all connections there are, and lets none be made.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = true
	for conn := range c.conns {
		conn.Close()
		delete(c.conns, conn)
	}
}

// mend lets connections be made again.
func (c *cutter) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = false
}

// TestFleetIncident records a simulated fleet of several dialects, with tiers,
// pools, TP shards, dp ranks and resets, whose connections are cut again and
// again: some losses are repaired, some are for good. Whatever became of them,
// the replay ends with the dump that was made beside the recording.
func TestFleetIncident(t *testing.T) {
	for _, tc := range []struct {
		name    string
		archive int // batches that publishers keep for replays
		hashed  bool
	}{
		{"repaired", 1 << 12, false},
		{"lost for good", 0, false},
		{"repaired, without prompts", 1 << 12, true},
		{"lost for good, without prompts", 4, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, file, gaps := incident(t, tc.archive, tc.hashed)
			for try := 0; gaps == 0 && try < 5; try++ { // a busy machine may lose nothing to a cut
				want, file, gaps = incident(t, tc.archive, tc.hashed)
			}
			if held := strings.Count(want, "\nblock ") + strings.Count(want, "\nwaits "); gaps == 0 || held < 20 {
				t.Fatalf("%d gaps, %d blocks: the test shows little", gaps, held)
			}
			for _, speed := range []float64{0, 20} {
				got := replayFile(t, file, speed)
				if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); d != "" {
					t.Fatalf("at speed %v the dumps differ (- recorded, + replayed):\n%.4000s", speed, d)
				}
			}
		})
	}
}

func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// incident runs a fleet whose connections are cut, and returns what was held in
// the end, the recording, and how many gaps there were.
func incident(t *testing.T, archive int, hashed bool) (dump string, file []byte, gaps uint64) {
	t.Helper()
	ctx := limit(t)
	sim, err := fleet.New(fleet.Config{Seed: 7, Replay: archive, Engines: []fleet.Engine{
		{ID: "vllm", Model: "m", Dialect: fleet.VLLMMap, Protocol: fleet.Residency, BlockSize: 16, Shards: 2, Device: 300, Pool: 400, PoolDisk: 200, PrivateNames: true, ResetEvery: 41},
		{ID: "sglang", Model: "m", Dialect: fleet.SGLangMap, Protocol: fleet.HiCache, BlockSize: 16, Device: 300, Host: 500, Pool: 300},
		{ID: "ranks", Model: "m", Dialect: fleet.VLLMArray12, BlockSize: 16, Ranks: 2, Device: 300, Host: 300, Disk: 300, PrivateNames: true},
		{ID: "wide", Model: "other", Dialect: fleet.VLLMArray8, BlockSize: 32, Device: 300, WideNames: true, ResetEvery: 50},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	sources, err := sim.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cutter := &cutter{conns: map[net.Conn]bool{}}
	e, err := engine.Open(engine.Options{Shards: 2, DialContext: cutter.dial, Backoff: zmtp.Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(ctx)
	var out bytes.Buffer
	rec, err := e.Record(&out, engine.RecordOptions{Wait: true, Hashed: hashed})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Stop()
	for _, s := range sources {
		src := engine.Source{ID: s.ID, Model: s.Model, Protocol: s.Protocol, Ranks: s.Ranks, Shards: s.Endpoints, ShardReplays: s.Replays}
		if len(s.Endpoints) == 1 {
			src.Endpoint, src.Shards = s.Endpoints[0], nil
			if len(s.Replays) == 1 {
				src.Replay, src.ShardReplays = s.Replays[0], nil
			}
		}
		if err := e.AddSource(ctx, src); err != nil {
			t.Fatal(err)
		}
	}
	if err := sim.WaitSubscribers(ctx); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	submit := func(s *fleet.Source) {
		t.Helper()
		ids := []uint32{uint32(r.IntN(3)), uint32(r.IntN(4)), uint32(r.IntN(8)), uint32(r.IntN(300))}
		adapter := ""
		if s.Adapters && r.IntN(4) == 0 {
			adapter = fmt.Sprint("lora", r.IntN(2))
		}
		if err := sim.Submit(ctx, s.ID, r.IntN(s.Ranks), sim.Prompt(adapter, ids[:1+r.IntN(4)]), r.IntN(3)); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 4 {
		for n := range 100 {
			submit(&sources[n%len(sources)])
		}
		if err := sim.Quiesce(ctx); err != nil {
			t.Fatal(err)
		}
		if round == 3 {
			break
		}
		before := epochs(e)
		cutter.cut()
		for n := range 20 { // what nobody hears
			submit(&sources[n%len(sources)])
		}
		if err := sim.Quiesce(ctx); err != nil {
			t.Fatal(err)
		}
		cutter.mend()
		connected(ctx, t, e, before)
		if err := sim.WaitSubscribers(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// Most of it arrives soon. Where a repair takes its time, that is where the
	// recording ends.
	soon, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, s := range sources {
		for rank := range s.Ranks {
			for _, n := range sim.Published(nil, s.ID, rank) {
				if err := e.WaitApplied(soon, s.ID, rank, n-1); err != nil && soon.Err() == nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := e.Quiesce(ctx); err != nil {
		t.Fatal(err)
	}
	for _, s := range e.Sources() {
		for _, st := range s.Streams {
			for _, c := range st.Counters {
				if c.Name == "gaps" {
					gaps += c.Value
				}
			}
		}
	}
	var text bytes.Buffer
	if err := e.Dump(ctx, &text); err != nil {
		t.Fatal(err)
	}
	if err := rec.Stop(); err != nil {
		t.Fatal(err)
	}
	return text.String(), out.Bytes(), gaps
}

// epochs are how many connections each stream has had.
func epochs(e *engine.Engine) (all []uint32) {
	for _, s := range e.Sources() {
		for i := range s.Streams {
			all = append(all, s.Streams[i].Epoch)
		}
	}
	return all
}

// connected waits until every stream has another connection than before.
func connected(ctx context.Context, t *testing.T, e *engine.Engine, before []uint32) {
	t.Helper()
	for {
		up, n := true, 0
		for _, s := range e.Sources() {
			for i := range s.Streams {
				up = up && s.Streams[i].Connected && s.Streams[i].Epoch > before[n]
				n++
			}
		}
		if up {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the streams do not connect again")
		}
	}
}

func replayFile(t *testing.T, file []byte, speed float64) string {
	t.Helper()
	ctx := limit(t)
	r, err := journal.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	e, err := engine.Open(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(ctx)
	report, err := e.Replay(ctx, r, engine.ReplayOptions{Speed: speed})
	if err != nil || !report.Whole() || report.Torn != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	var text bytes.Buffer
	if err := e.Dump(ctx, &text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
