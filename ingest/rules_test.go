package ingest

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/content"
)

// vector returns the sequence and payload of one of the wire cases.
func vector(t *testing.T, id string) (uint64, []byte) {
	t.Helper()
	f, err := os.Open("testdata/wire.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var v struct {
			ID, Seq string
			Payload string `json:"payload_hex"`
		}
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if v.ID != id {
			continue
		}
		seq, err := strconv.ParseUint(v.Seq, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := hex.DecodeString(v.Payload)
		if err != nil {
			t.Fatal(err)
		}
		return seq, raw
	}
	t.Fatalf("no vector %s", id)
	return 0, nil
}

// W48 … W51: two domains, told apart by ownership alone.
func TestDomainsOfTheVectors(t *testing.T) {
	for _, c := range []struct {
		id                 string
		rank               int
		tokens             []uint32
		worker, workerAny  uint32
		owner              uint32
		countName, because string
	}{
		{"W48", 0, span(1, 8), 0, 0, 2, "", ""},
		{"W49", 0, span(1, 4), 1, 1, 0, "", ""},
		{"W50", 1, span(1, 4), 1, 1, 0, "", ""},
		{"W51", 0, span(5, 8), 1, 1, 0, "events_rejected", "owner_tier"},
	} {
		for _, pool := range []Pool{PoolEngineLocal, PoolDurable} {
			t.Run(c.id, func(t *testing.T) {
				r := newRig(t, 0)
				f := r.feed(Options{Pool: pool})
				_, raw := vector(t, c.id)
				f.raw(nil, be(0), raw)
				f.wait(0)
				q := query{tokens: c.tokens}
				r.expect(c.rank, Worker, q, c.worker, c.workerAny)
				r.expect(c.rank, CacheOwner, q, 0, c.owner)
				f.state(Worker, Exact, "")
				f.state(CacheOwner, Exact, "")
				if c.countName != "" && f.counted(c.countName, c.because) != 1 {
					t.Error(f.dump())
				}
			})
		}
	}
}

// Ownership that the source has no owner for, and owners that nobody knows.
func TestFaultsFenceUntilRestart(t *testing.T) {
	kvcr := store([]uint64{7}, nil, span(41, 44), 4, "medium", "CPU", "ownership", "kvcr")
	for _, c := range []struct {
		name  string
		pool  Pool
		event []byte
		cause Cause
	}{
		{"kvcr without a pool", PoolNone, kvcr, CauseNoPool},
		{"kvcr remove without a pool", PoolNone, remove([]uint64{7}, "medium", "CPU", "ownership", "kvcr"), CauseNoPool},
		{"kvcr clear without a pool", PoolNone, clearAll("ownership", "kvcr"), CauseNoPool},
		{"unknown owner on the device", PoolDurable, store([]uint64{7}, nil, span(41, 44), 4, "ownership", "fs-0"), CauseOwnership},
		{"unknown owner's clear", PoolEngineLocal, clearAll("ownership", "fs-0"), CauseOwnership},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			f := r.feed(Options{Pool: c.pool})
			f.live(0, storeAB)
			f.live(1, storeX, c.event, storeC)
			f.wait(1) // nothing of it, and nothing of before
			f.state(Worker, Fenced, c.cause)
			for _, tokens := range [][]uint32{span(1, 12), span(21, 24), span(41, 44)} {
				r.device(tokens, 0)
			}
			f.live(2, storeX)
			f.live(9, storeX) // a gap is no news
			f.wait(9)
			r.device(span(21, 24), 0)
			f.state(Worker, Fenced, c.cause)
			if f.counted("fences", "") != 1 || f.counted("messages_dropped", "fenced") != 2 {
				t.Error(f.dump())
			}
			f.live(0, storeX)
			f.restarted()
			f.wait(0)
			r.device(span(21, 24), 1)
			f.state(Worker, Exact, "")
			if c.pool == PoolEngineLocal {
				f.state(CacheOwner, Exact, "")
			}
		})
	}
}

func TestOtherOwnersOffTheDeviceAreSkipped(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	_, remote := vector(t, "W17")
	f.raw(nil, be(0), remote)
	f.live(1,
		store([]uint64{101, 102}, nil, span(1, 8), 4),
		store([]uint64{101, 102}, nil, span(1, 8), 4, "medium", "FS", "ownership", "fs-0"),
		store([]uint64{101}, nil, span(1, 4), 4, "ownership", "fs-0", "locality", "REMOTE"),
		store([]uint64{101}, nil, span(1, 4), 4, "medium", "CPU", "locality", "REMOTE"),
		remove([]uint64{101}, "locality", "REMOTE"),
		remove([]uint64{101}, "medium", "FS", "ownership", "fs-0"))
	f.wait(1)
	r.device(span(1, 8), 2)
	f.state(Worker, Exact, "")
	if f.counted("events_skipped", "unknown_ownership") != 4 || f.counted("events_skipped", "non_local_locality") != 2 {
		t.Error(f.dump())
	}
}

// What a loss means for a source with a pool.
func TestLossWithAPool(t *testing.T) {
	pool := store([]uint64{101, 102}, nil, span(1, 8), 4, "medium", "CPU", "ownership", "kvcr")
	q := query{tokens: span(1, 8)}
	t.Run("engine-local is fenced", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{Pool: PoolEngineLocal})
		f.live(0, storeAB, pool)
		f.live(1)
		f.wait(1)
		r.expect(0, CacheOwner, q, 0, 2)
		f.live(3, storeX)
		f.wait(3)
		f.state(Worker, Fenced, CauseGap)
		f.state(CacheOwner, Fenced, CauseGap)
		r.expect(0, CacheOwner, q, 0, 0)
		r.expect(0, Worker, q, 0, 0)
		r.device(span(21, 24), 0)
		f.raw(nil, be(0), payload(nil, storeAB, pool)[:20])
		f.restarted()
		f.wait(0)
		f.state(Worker, Fenced, CauseUndecodable)
	})
	t.Run("engine-local that is met late is degraded", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{Pool: PoolEngineLocal})
		f.live(41, pool)
		f.wait(41)
		f.state(CacheOwner, Degraded, CauseLateJoin)
		r.expect(0, CacheOwner, q, 0, 2)
	})
	t.Run("durable loses both and goes on", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{Pool: PoolDurable})
		f.live(0, storeAB, pool)
		f.live(3, storeX)
		f.wait(3)
		f.state(Worker, Degraded, CauseGap)
		f.state(CacheOwner, Degraded, CauseGap)
		r.expect(0, CacheOwner, q, 0, 0)
		r.device(span(21, 24), 1)
		// Each domain is made whole by its own clear.
		f.live(4, clearAll("ownership", "kvcr"), pool)
		f.wait(4)
		f.state(Worker, Degraded, CauseGap)
		f.state(CacheOwner, Exact, "")
		r.expect(0, CacheOwner, q, 0, 2)
		f.live(5, clearAll())
		f.wait(5)
		f.state(Worker, Exact, "")
		f.state(CacheOwner, Exact, "")
		r.expect(0, CacheOwner, q, 0, 2)
	})
	t.Run("a durable pool outlives a restart that cleared it here", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{Pool: PoolDurable})
		f.live(0, storeAB, pool)
		f.live(1)
		f.live(0, storeX)
		f.restarted()
		f.wait(0)
		f.state(Worker, Exact, "")
		f.state(CacheOwner, Degraded, CauseRestart)
		r.expect(0, CacheOwner, q, 0, 0)
	})
}

func TestClears(t *testing.T) {
	pool := store([]uint64{101, 102}, nil, span(1, 8), 4, "medium", "CPU", "ownership", "kvcr")
	for _, c := range []struct {
		name          string
		event         []byte
		worker, owner uint32
		ambiguous     uint64
	}{
		{"no ownership", clearAll(), 0, 2, 0},
		{"kvcr", clearAll("ownership", "kvcr"), 2, 0, 0},
		{"kvcr with a medium", clearAll("ownership", "kvcr", "medium", "CPU"), 2, 0, 0},
		{"a medium alone", clearAll("medium", "GPU"), 2, 2, 1},
		{"an empty medium", clearAll("medium", ""), 0, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			f := r.feed(Options{Pool: PoolDurable})
			f.live(0, storeAB, pool)
			f.live(1, c.event)
			f.wait(1)
			q := query{tokens: span(1, 8)}
			r.expect(0, Worker, q, c.worker, c.worker)
			r.expect(0, CacheOwner, q, 0, c.owner)
			if got := f.counted("events_skipped", "ambiguous_scoped_clear"); got != c.ambiguous {
				t.Error(f.dump())
			}
		})
	}
}

// A pool has no device tier, neither to store to nor to remove from.
func TestPoolHasNoDeviceTier(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{Pool: PoolDurable})
	f.live(0, storeAB,
		store([]uint64{101}, nil, span(1, 4), 4, "ownership", "kvcr"),
		remove([]uint64{101}, "ownership", "kvcr"))
	f.wait(0)
	r.device(span(1, 8), 2)
	r.expect(0, CacheOwner, query{tokens: span(1, 8)}, 0, 0)
	if f.counted("events_rejected", "owner_tier") != 2 || f.counted("blocks", "removed") != 0 {
		t.Error(f.dump())
	}
	f.state(CacheOwner, Exact, "")
}

func TestTiers(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, storeAB,
		store([]uint64{101, 102}, nil, span(1, 8), 4, "medium", "CPU_PINNED"),
		store([]uint64{103}, 102, span(9, 12), 4, "medium", "nvme"),
		store([]uint64{104}, 103, span(13, 16), 4, "medium", "tape"),
		remove([]uint64{102}))
	f.wait(0)
	q := query{tokens: span(1, 16)}
	d := r.depths(0, Worker, q)
	if d[tree.ViewDevice] != 1 || d[tree.ViewHost] != 2 || d[tree.ViewAny] < 3 {
		t.Fatalf("%v", d)
	}
	if f.counted("events_noted", "unknown_medium") != 1 {
		t.Error(f.dump())
	}
	f.state(Worker, Exact, "")
}

func TestPlaceholders(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, storeAB,
		store([]uint64{101, 102, 999}, nil, nil, 0, "medium", "CPU"),
		remove([]uint64{101, 102}))
	f.wait(0)
	r.expect(0, Worker, query{tokens: span(1, 8)}, 0, 2)
	if f.counted("blocks", "placed") != 3 || f.port.Counters().Blocks.Unknown != 1 {
		t.Error(f.dump())
	}
	// A placeholder alone is no error, in integers of milliseconds (W28).
	g := r.feed(Options{Source: "pool", Rank: 3, FirstSeq: 1})
	seq, raw := vector(t, "W28")
	g.raw(nil, be(seq), raw)
	g.wait(seq)
	g.state(Worker, Exact, "")
	if st := g.now(Worker); st.Lag != 0 {
		t.Error("a lag out of milliseconds", st.Lag)
	}
}

func TestGroups(t *testing.T) {
	full, window := []any{"group_idx", 0, "kv_cache_spec_kind", "full_attention"}, []any{"group_idx", 1, "kv_cache_spec_kind", "sliding_window"}
	t.Run("W11", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		_, raw := vector(t, "W11")
		f.raw(nil, be(0), raw)
		f.wait(0)
		r.device(span(1, 8), 2)
		if f.counted("events_skipped", "non_main_attention_kind") != 1 {
			t.Error(f.dump())
		}
	})
	t.Run("removes of other groups", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.live(0, store([]uint64{101, 102}, nil, span(1, 8), 4, full...),
			store([]uint64{102}, nil, span(1, 8), 4, window...),
			store([]uint64{102}, nil, span(1, 4), 4, "group_idx", 2, "kv_cache_spec_kind", "full_attention"),
			remove([]uint64{101, 102}, "group_idx", 1))
		f.wait(0)
		r.device(span(1, 8), 2)
		f.live(1, remove([]uint64{102}, "group_idx", 0))
		f.wait(1)
		r.device(span(1, 8), 1)
		if f.counted("events_skipped", "non_main_attention_group") != 2 {
			t.Error(f.dump())
		}
	})
	t.Run("another main group", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{MainGroup: 1})
		f.live(0,
			store([]uint64{101}, nil, span(1, 4), 4, "group_idx", 0, "kv_cache_spec_kind", "mamba"),
			store([]uint64{101, 102}, nil, span(1, 8), 4, "group_idx", 1, "kv_cache_spec_kind", "mla_attention"),
			remove([]uint64{101}, "group_idx", 0), remove([]uint64{101}))
		f.wait(0)
		r.device(span(1, 8), 2)
	})
	t.Run("a group above 0 without a kind", func(t *testing.T) {
		for main, want := range map[int64]uint32{0: 0, 1: 2} {
			r := newRig(t, 0)
			f := r.feed(Options{MainGroup: main})
			v5 := func(tokens []uint32) []byte {
				return fields{"BlockStored", []uint64{101, 102}, nil, tokens, 4, nil, "GPU", nil, nil, 1}.array()
			}
			f.live(0, v5(span(1, 8)), v5(span(1, 12)))
			f.wait(0)
			r.unitOr(4)
			r.device(span(1, 8), want)
			f.state(Worker, Exact, "")
		}
	})
}

// unitOr makes queries possible where nothing was learnt.
func (r *rig) unitOr(unit int) { r.learned.fit(unit) }

func TestAdaptersAndSalts(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{Source: "w9"})
	tokens := span(1, 8)
	array := func(h uint64, id any, name any) []byte {
		return fields{"BlockStored", []uint64{h, h + 1}, nil, tokens, 4, id, "GPU", name}.array()
	}
	f.live(0,
		array(10, nil, nil),
		array(20, 7, "sql"),
		array(30, 7, nil),
		array(40, 0, nil),
		store([]uint64{50, 51}, nil, tokens, 4, "cache_salt", "tenant-a"),
		store([]uint64{52}, 51, span(9, 12), 4),
		store([]uint64{53}, 52, span(13, 16), 4, "cache_salt", "tenant-a")) // said again: it is in block 0
	f.wait(0)
	for _, c := range []struct {
		q    query
		want uint32
	}{
		{query{tokens: tokens}, 2},
		{query{tokens: tokens, adapter: "sql"}, 2},
		{query{tokens: tokens, adapter: "id:7@w9"}, 2},
		{query{tokens: tokens, adapter: "id:7@w1"}, 0},
		{query{tokens: tokens, adapter: "id:0@w9"}, 0},
		{query{tokens: span(1, 16), salt: "tenant-a"}, 4},
		{query{tokens: span(1, 16), salt: "tenant-b"}, 0},
		{query{tokens: span(1, 16)}, 2},
	} {
		r.expect(0, Worker, c.q, c.want, c.want)
	}
}

// A store off the device that does not state its keys changes no meaning, and
// introduces nothing once salts or images were seen.
func TestUnstatedKeysKeepTheMeaning(t *testing.T) {
	tokens := span(1, 8)
	host := func(h ...uint64) []byte { // a layout with a slot, and no list in it
		return fields{"BlockStored", h, nil, tokens[:4*len(h)], 4, nil, "CPU", nil, nil}.array()
	}
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, host(1, 2)) // nothing salted yet: indexed
	f.wait(0)
	r.expect(0, Worker, query{tokens: tokens}, 0, 2)
	f.live(1,
		fields{"BlockStored", []uint64{11, 12}, nil, tokens, 4, nil, "GPU", nil, []any{[]any{"tenant-a"}, nil}}.array(),
		host(11, 12),
		host(21, 22),
		remove([]uint64{1, 2}, "medium", "CPU"),
		remove([]uint64{11, 12}))
	f.wait(1)
	r.expect(0, Worker, query{tokens: tokens, salt: "tenant-a"}, 0, 2)
	r.expect(0, Worker, query{tokens: tokens}, 0, 0)
	if !r.learned.Keyed() || f.port.Counters().Blocks.Unknown != 2 && f.port.Counters().Blocks.New == 0 {
		t.Error(f.dump())
	}
}

func TestImages(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	id := "image-1"
	f.live(0, store([]uint64{1, 2}, nil, span(1, 8), 4, "extra_keys", []any{nil, []any{[]any{id, -2}}}))
	f.wait(0)
	mm, _ := content.MultimodalID([]byte(id))
	r.device(span(1, 8), 1)
	r.expect(0, Worker, query{tokens: span(1, 8), keys: &content.Keys{Hashes: []uint64{mm}, Ends: []int{0, 1}}}, 2, 2)
	if !r.learned.Keyed() {
		t.Error("images were not noticed")
	}
}

// W22: EAGLE's pairs make windows with one token more.
func TestLookahead(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	_, raw := vector(t, "W22")
	f.raw(nil, be(0), raw)
	f.wait(0)
	r.expect(0, Worker, query{tokens: span(1, 5), lookahead: 1}, 1, 1)
	r.expect(0, Worker, query{tokens: span(1, 4), lookahead: 1}, 0, 0)
	if got := r.sizes[key{0, Worker}]; got != [2]int{4, 1} {
		t.Errorf("learned %v", got)
	}
}

func TestPythonRoot(t *testing.T) {
	for _, c := range []struct {
		off  bool
		want uint32
	}{{false, 1}, {true, 0}} {
		r := newRig(t, 0)
		f := r.feed(Options{NoPythonRoot: c.off})
		f.live(0, fields{"BlockStored", []uint64{9}, uint64(pythonRoot), span(1, 4), 4, nil}.array())
		f.wait(0)
		r.device(span(1, 4), c.want)
	}
}

func TestParentZero(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, store([]uint64{5}, 0, span(1, 4), 4), store([]uint64{0}, 5, span(5, 8), 4), store([]uint64{6}, 0, span(9, 12), 4))
	f.wait(0)
	r.device(span(1, 12), 3)
}

func TestOpaqueTokens(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, fields{"type", "BlockStored", "block_hashes", []uint64{1}, "parent_block_hash", nil,
		"token_ids", []any{1, 2, "<img>", 4}, "block_size", 4, "lora_id", nil}.pack(), storeX)
	f.wait(0)
	r.device(span(21, 24), 1)
	if f.counted("events_skipped", "opaque_tokens") != 1 {
		t.Error(f.dump())
	}
}

// Larger blocks span units; a size that the unit does not divide makes the
// unit smaller, at the price of what was taught, on every stream of the source.
func TestGeometry(t *testing.T) {
	r := newRig(t, 0)
	f, g := r.feed(Options{}), r.feed(Options{Rank: 1})
	f.live(0, storeAB,
		store([]uint64{201, 202}, 102, span(9, 24), 8), // two units each
		store([]uint64{203}, 202, span(25, 28), 4))
	f.wait(0)
	r.device(span(1, 28), 7)
	r.device(span(1, 15), 3)
	g.live(0, storeAB)
	g.wait(0)
	r.expect(1, Worker, query{tokens: span(1, 8)}, 2, 2)

	f.live(1, remove([]uint64{201}), store([]uint64{301}, nil, span(1, 6), 6), store([]uint64{302}, 301, span(7, 8), 2))
	f.wait(1)
	f.state(Worker, Degraded, CauseGeometry)
	if got := r.learned.Unit(); got != 2 {
		t.Fatalf("unit %d, want 2", got)
	}
	r.device(span(1, 8), 4)
	r.expect(0, Worker, query{tokens: span(1, 28), unit: 4}, 0, 0)

	g.state(Worker, Exact, "") // it has not met the change
	g.live(1, remove([]uint64{102}))
	g.wait(1)
	r.expect(1, Worker, query{tokens: span(1, 8), unit: 4}, 1, 1)
	g.live(2, storeX)
	g.wait(2)
	g.state(Worker, Degraded, CauseGeometry)
	r.expect(1, Worker, query{tokens: span(21, 24)}, 2, 2)
	r.expect(1, Worker, query{tokens: span(1, 8), unit: 4}, 0, 0)
}

// An image in a block of several units is a key of each of them.
func TestKeysOfWideBlocks(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, storeX, store([]uint64{1, 2}, nil, span(1, 16), 8, "extra_keys", []any{nil, []any{[]any{"image-1", 0}}}))
	f.wait(0)
	mm, _ := content.MultimodalID([]byte("image-1"))
	r.expect(0, Worker, query{tokens: span(1, 16), keys: &content.Keys{Hashes: []uint64{mm, mm}, Ends: []int{0, 0, 1, 2}}}, 4, 4)
	r.device(span(1, 16), 2)
}

// Blocks beyond what is hashed at once, for every alignment.
func TestLongStores(t *testing.T) {
	for _, c := range []struct{ blocks, size, unit int }{
		{63, 4, 4}, {64, 4, 4}, {65, 4, 4}, {129, 4, 4}, {40, 8, 4}, {3, 400, 4}, {2, 4, 4}, {200, 1, 1},
	} {
		r := newRig(t, 0)
		f := r.feed(Options{})
		hashes := make([]uint64, c.blocks)
		for i := range hashes {
			hashes[i] = uint64(i + 1)
		}
		r.learned.fit(c.unit)
		tokens := span(1, uint32(c.blocks*c.size))
		f.live(0, store(hashes, nil, tokens, c.size))
		f.wait(0)
		r.device(tokens, uint32(len(tokens)/c.unit))
		f.live(1, remove(hashes[c.blocks-1:]))
		f.wait(1)
		r.device(tokens, uint32((c.blocks-1)*c.size/c.unit))
	}
}

func TestLearnedFit(t *testing.T) {
	var l Learned
	for _, c := range [][2]int{{64, 64}, {128, 64}, {64, 64}, {48, 16}, {64, 16}, {24, 8}, {1, 1}, {64, 1}} {
		if got := l.fit(c[0]); got != c[1] || l.Unit() != got {
			t.Fatalf("blocks of %d: unit %d, want %d", c[0], got, c[1])
		}
	}
}
