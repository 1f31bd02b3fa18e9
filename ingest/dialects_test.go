package ingest

import (
	"fmt"
	"strings"
	"testing"
)

// pulled is TensorRT-LLM's stored event with blocks of 4 tokens, as JSON.
func pulled(parent string, first uint32, hashes ...int) string {
	var blocks []string
	for _, h := range hashes {
		var tokens []string
		for _, v := range span(first, first+3) {
			tokens = append(tokens, fmt.Sprintf(`{"type":"unique_token","token_id":%d,"token_extra_id":0}`, v))
		}
		first += 4
		blocks = append(blocks, fmt.Sprintf(`{"type":"stored_block","block_hash":%d,"tokens":[%s],"cache_level":0,"priority":35,"mm_keys":[]}`, h, strings.Join(tokens, ",")))
	}
	return fmt.Sprintf(`{"event_id":1,"data":{"type":"stored","parent_hash":%s,"blocks":[%s]},"window_size":4096,"attention_dp_rank":1}`, parent, strings.Join(blocks, ","))
}

func TestPulledEvents(t *testing.T) {
	const moved = `{"event_id":2,"data":{"type":"updated","block_hash":102,"cache_level":{"old_value":0,"new_value":1}},"window_size":4096,"attention_dp_rank":1}`
	r := newRig(t, 0)
	f := r.feed(Options{})
	send := func(n uint64, lines ...string) {
		f.raw(nil, be(n), []byte(strings.Join(lines, "\n")))
		f.wait(n)
	}
	rank1 := func(device, anyTier uint32) {
		t.Helper()
		r.expect(1, Worker, query{tokens: span(1, 12)}, device, anyTier)
	}
	send(0, `{"event_id":0,"data":{"type":"created","num_blocks_per_cache_level":[100,20]},"window_size":4096}`, pulled("null", 1, 101, 102, 103))
	rank1(3, 3)
	send(1, moved)
	rank1(1, 3)
	send(2, `{"event_id":3,"data":{"type":"removed","block_hashes":[102]},"window_size":512,"attention_dp_rank":1}`,
		`{"event_id":4,"data":{"type":"stored","parent_hash":103,"blocks":[{"block_hash":9,"tokens":[{"token_id":13}],"cache_level":0}]},"attention_dp_rank":1}`)
	rank1(1, 3)
	// Moved and back, it is one copy on the device again, and none on the host.
	send(3, strings.NewReplacer(`"old_value":0`, `"old_value":1`, `"new_value":1`, `"new_value":0`).Replace(moved))
	rank1(3, 3)
	send(4, `{"event_id":6,"data":{"type":"removed","block_hashes":[102]},"window_size":4096,"attention_dp_rank":1}`)
	rank1(1, 1)
	// A removal takes a block away wherever it is.
	send(5, strings.Replace(moved, "102", "101", 1))
	rank1(0, 1)
	send(6, `{"event_id":8,"data":{"type":"removed","block_hashes":[101]},"window_size":4096,"attention_dp_rank":1}`)
	rank1(0, 0)
	f.state(Worker, Exact, "")
	for reason, want := range map[string]uint64{"no_effect": 1, "smaller_window": 1, "partial_block": 1} {
		if got := f.counted("events_skipped", reason); got != want {
			t.Errorf("%s %d, want %d", reason, got, want)
		}
	}
}

// Contents of 1..4 and 5..8, as hashes.md and Dynamo itself have them.
const router = `{"worker_id":%d,"storage_tier":%q,"event":{"event_id":1,"data":{"stored":{"parent_hash":%s,"start_position":null,"blocks":[{"block_hash":%d,"tokens_hash":%s}]}},"dp_rank":%d}}`

func TestRouterEvents(t *testing.T) {
	first := func(worker, rank int) string {
		return fmt.Sprintf(router, worker, "device", "null", 101, "14643705804678351452", rank)
	}
	second := fmt.Sprintf(router, 42, "host_pinned", "101", 102, "16777012769546811212", 0)
	t.Run("a size that is configured", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{BlockSize: 4})
		f.raw(nil, be(0), []byte(first(42, 0)+second))
		f.wait(0)
		r.expect(0, Worker, query{tokens: span(1, 8)}, 1, 2)
		f.raw(nil, be(1), []byte(`{"worker_id":42,"event":{"event_id":2,"data":"cleared","dp_rank":0}}`))
		f.wait(1)
		r.device(span(1, 8), 0)
		f.state(Worker, Exact, "")
	})
	t.Run("a size that is stated with the events", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.raw(nil, be(0), []byte(`{"block_size":4,"events":[`+first(42, 0)+`]}`))
		f.wait(0)
		r.device(span(1, 8), 1)
	})
	t.Run("a size that other events tell", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.raw(nil, be(0), []byte(first(42, 0)))
		f.live(1, storeX)
		f.raw(nil, be(2), []byte(first(42, 0)))
		f.wait(2)
		r.device(span(1, 8), 1)
		if f.counted("events_skipped", "unknown_block_size") != 1 {
			t.Error(f.dump())
		}
	})
	t.Run("a size that the unit divides", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{BlockSize: 8})
		f.live(0, storeX)
		f.raw(nil, be(1), []byte(first(42, 0)))
		f.wait(1)
		r.device(span(21, 24), 1)
		f.state(Worker, Exact, "")
		if f.counted("events_skipped", "unknown_block_size") != 1 {
			t.Error(f.dump())
		}
	})
	t.Run("ranks and workers", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{BlockSize: 4, MaxRanks: 2})
		f.raw(nil, be(0), []byte("["+first(42, 1)+","+first(43, 0)+","+first(42, 2)+"]"))
		f.wait(0)
		r.device(span(1, 4), 0)
		r.expect(1, Worker, query{tokens: span(1, 4)}, 1, 1)
		if f.counted("events_skipped", "other_worker") != 1 || f.counted("events_skipped", "rank") != 1 {
			t.Error(f.dump())
		}
		f.raw(nil, be(1), []byte("[]x")) // no JSON
		f.wait(1)
		f.raw(nil, be(0), []byte(first(43, 0))) // a new process has a new id
		f.restarted()
		f.wait(0)
		r.device(span(1, 4), 1)
	})
}

// LMCache announces a chunk behind one that it did not store with a parent 0.
func TestZeroParentUnknown(t *testing.T) {
	chunk := store([]uint64{103}, 0, span(9, 12), 4, "medium", "cpu")
	for unknown, want := range map[bool]uint32{false: 1, true: 0} {
		r := newRig(t, 0)
		f := r.feed(Options{ZeroParentUnknown: unknown})
		f.live(0, chunk)
		f.wait(0)
		r.expect(0, Worker, query{tokens: span(9, 12)}, 0, want)
		// Where 0 is a name, it is the parent in either case.
		f.live(1, store([]uint64{0}, nil, span(5, 8), 4, "medium", "cpu"), chunk)
		f.wait(1)
		r.expect(0, Worker, query{tokens: span(5, 12)}, 0, 2)
		f.live(2, remove([]uint64{0}, "medium", "cpu"))
		f.wait(2)
		r.expect(0, Worker, query{tokens: span(5, 12)}, 0, 0)
	}
}
