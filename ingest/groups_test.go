package ingest

import "testing"

// vLLM 0.32 with blocks of 32 and 16 tokens in two groups of full attention, in
// small: 8 and 4. Hashes are those of the finest group, so both groups announce
// one name for another block each, behind another parent.
func TestOneNameInTwoGroups(t *testing.T) {
	main := []any{"lora_name", nil, "group_idx", 0, "kv_cache_spec_kind", "full_attention"}
	fine := []any{"lora_name", nil, "group_idx", 1, "kv_cache_spec_kind", "full_attention"}
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0,
		store([]uint64{102, 104}, nil, span(1, 16), 8, main...),
		store([]uint64{101, 102, 103, 104}, nil, span(1, 16), 4, fine...))
	f.live(1,
		store([]uint64{106}, 104, span(17, 24), 8, main...),
		store([]uint64{105, 106}, 104, span(17, 24), 4, fine...),
		remove([]uint64{101, 102, 103}, "group_idx", 1)) // none of these names group 0's
	f.wait(1)
	r.device(span(1, 24), 3)
	f.live(2, remove([]uint64{104}, "group_idx", 0))
	f.wait(2)
	r.device(span(1, 24), 1)
	f.state(Worker, Exact, "")
}

// From 0.24 on vLLM announces the last block of a prompt though it is not full,
// by the granularity of its hashes. It is none of the prefix, and no reason to
// step by its size.
func TestPartialBlocks(t *testing.T) {
	v7 := []any{"lora_name", nil}
	whole := store([]uint64{101, 102}, nil, span(1, 16), 8, v7...)
	partial := store([]uint64{109}, 102, span(17, 20), 4, v7...)
	full := store([]uint64{103}, 102, span(17, 24), 8, v7...)
	t.Run("behind full ones", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.live(0, whole, partial, full)
		f.live(1, remove([]uint64{109}))
		f.live(2, clearAll())
		f.live(3, partial, whole, full) // a clear changes no block size
		f.wait(3)
		if u := r.learned.Unit(); u != 8 {
			t.Errorf("unit %d, want 8", u)
		}
		r.device(span(1, 24), 3)
		f.state(Worker, Exact, "")
		if f.counted("events_skipped", "partial_block") != 2 {
			t.Error(f.dump())
		}
	})
	t.Run("before any full one", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.live(0, store([]uint64{109}, nil, span(1, 4), 4, v7...), whole, partial, full)
		f.wait(0)
		r.expect(0, Worker, query{tokens: span(1, 24)}, 6, 6)
		f.state(Worker, Exact, "")
	})
	t.Run("smaller blocks of another tier", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.live(0, store([]uint64{101}, nil, span(1, 8), 8, "medium", "CPU", "lora_name", nil, "extra_keys", []any{nil}))
		f.live(1, store([]uint64{111}, nil, span(1, 4), 4, v7...))
		f.wait(1)
		r.device(span(1, 8), 1)
		f.state(Worker, Degraded, CauseGeometry)
	})
	t.Run("smaller blocks of a new process", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.live(0, whole)
		f.live(1, full)
		f.live(0, store([]uint64{111}, nil, span(1, 4), 4, v7...))
		f.restarted()
		f.wait(0)
		r.device(span(1, 8), 1)
	})
	t.Run("smaller blocks in a run", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.live(0, whole)
		f.live(1, store([]uint64{111, 112}, nil, span(1, 8), 4, v7...))
		f.wait(1)
		r.device(span(1, 8), 2)
		f.state(Worker, Degraded, CauseGeometry)
	})
	t.Run("nodes of SGLang 0.4.7", func(t *testing.T) { // one block each, of any length
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.live(0, store([]uint64{111}, nil, span(1, 8), 8))
		f.live(1, store([]uint64{112}, 111, span(9, 12), 4))
		f.wait(1)
		if f.counted("events_skipped", "partial_block") != 0 {
			t.Error(f.dump())
		}
	})
}
