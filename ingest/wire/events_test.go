package wire

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/tree/content"
)

// one decodes a batch with one event.
func one(t *testing.T, event any) Description {
	t.Helper()
	_, events, err := Describe(batchOf(event))
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 {
		t.Fatalf("%d events, want 1", len(events))
	}
	return events[0]
}

// stored is a map store of one block of 4 tokens with some fields set or
// replaced.
func stored(fields ...any) pairs {
	m := pairs{"type", "BlockStored", "block_hashes", []any{5}, "parent_block_hash", nil,
		"token_ids", []any{1, 2, 3, 4}, "block_size", 4, "lora_id", nil, "medium", "GPU", "lora_name", nil}
	for i := 0; i < len(fields); i += 2 {
		at := -1
		for k := 0; k < len(m); k += 2 {
			if m[k] == fields[i] {
				at = k
			}
		}
		if at >= 0 {
			m[at+1] = fields[i+1]
		} else {
			m = append(m, fields[i], fields[i+1])
		}
	}
	return m
}

func many(from, n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = from + i
	}
	return list
}

// TestRejects: each event is wrong in one way, and stands between two good
// ones, which must come through.
func TestRejects(t *testing.T) {
	deep := any(7)
	for range 40 {
		deep = []any{deep}
	}
	for _, c := range []struct {
		name  string
		event any
		want  Reason
	}{
		{"nil hash", stored("block_hashes", []any{nil}), ReasonHashNil},
		{"text hash", stored("block_hashes", []any{"0x0a"}), ReasonHashType},
		{"float hash", stored("block_hashes", []any{1.0}), ReasonHashType},
		{"boolean hash", stored("block_hashes", []any{true}), ReasonHashType},
		{"list as a hash", stored("block_hashes", []any{[]any{1, 2}}), ReasonHashType},
		{"hashes that are no list", stored("block_hashes", 5), ReasonHashType},
		{"hashes nil", stored("block_hashes", nil), ReasonHashType},
		{"short bin hash", stored("block_hashes", []any{[]byte{1, 2, 3}}), ReasonHashLength},
		{"empty bin hash", stored("block_hashes", []any{[]byte{}}), ReasonHashLength},
		{"text parent", stored("parent_block_hash", "5"), ReasonHashType},
		{"short bin parent", stored("parent_block_hash", []byte{1}), ReasonHashLength},
		{"bad hash in a remove", []any{"BlockRemoved", []any{1, "x"}, "GPU"}, ReasonHashType},
		{"no hashes", pairs{"type", "BlockStored", "token_ids", []any{}}, ReasonMissingField},
		{"remove without hashes", pairs{"type", "BlockRemoved", "medium", "GPU"}, ReasonMissingField},
		{"store array too short", []any{"BlockStored", []any{1}, nil}, ReasonMissingField},
		{"remove array too short", []any{"BlockRemoved"}, ReasonMissingField},
		{"negative token", stored("token_ids", []any{1, 2, 3, -4}), ReasonTokenRange},
		{"token of 33 bits", stored("token_ids", []any{1, 2, 3, 1 << 32}), ReasonTokenRange},
		{"float token", stored("token_ids", []any{1, 2, 3, 4.0}), ReasonTokenType},
		{"nil token", stored("token_ids", []any{1, 2, 3, nil}), ReasonTokenType},
		{"tokens that are no list", stored("token_ids", 7), ReasonTokenType},
		{"number among pairs", stored("token_ids", []any{[]any{1, 2}, 3, []any{3, 4}, []any{4, 5}}), ReasonTokenType},
		{"pair among numbers", stored("token_ids", []any{1, []any{1, 2}, 3, 4}), ReasonTokenType},
		{"triple", stored("token_ids", []any{[]any{1, 2}, []any{2, 3, 4}, []any{3, 4}, []any{4, 5}}), ReasonTokenType},
		{"pairs that do not continue", stored("token_ids", []any{[]any{1, 2}, []any{3, 4}, []any{4, 5}, []any{5, 6}}), ReasonBigram},
		{"pair out of range", stored("token_ids", []any{[]any{1, 2}, []any{2, 3}, []any{3, 4}, []any{4, -1}}), ReasonTokenRange},
		{"a pair too few", stored("token_ids", []any{[]any{1, 2}, []any{2, 3}, []any{3, 4}}), ReasonTokenCount},
		{"own parent", stored("parent_block_hash", 5), ReasonSelfParent},
		{"parent further on", stored("parent_block_hash", 6, "block_hashes", []any{5, 6}, "token_ids", many(0, 8)), ReasonSelfParent},
		{"twice", stored("block_hashes", []any{5, 5}, "token_ids", many(0, 8)), ReasonDuplicateHash},
		{"twice in another form", stored("block_hashes", []any{-1, uint64(1<<64 - 1)}, "token_ids", many(0, 8)), ReasonDuplicateHash},
		{"twice, far apart", stored("block_hashes", append(many(0, 2000), 0), "token_ids", many(0, 8004)), ReasonDuplicateHash},
		{"too few tokens", stored("token_ids", []any{1, 2, 3}), ReasonTokenCount},
		{"too many tokens", stored("token_ids", many(0, 5)), ReasonTokenCount},
		{"a block too many", stored("block_hashes", []any{5, 6}), ReasonTokenCount},
		{"the last block lacks tokens", stored("block_hashes", []any{5, 6}, "token_ids", many(0, 6)), ReasonTokenCount},
		{"no tokens, block size", stored("token_ids", []any{}), ReasonTokenCount},
		{"tokens nil, block size", stored("token_ids", nil), ReasonTokenCount},
		{"dense kind in another group", stored("token_ids", many(0, 5), "group_idx", 3, "kv_cache_spec_kind", "mla_attention"), ReasonTokenCount},
		{"tokens without block size", stored("block_size", nil), ReasonBlockSize},
		{"tokens, block size 0", stored("block_size", 0), ReasonBlockSize},
		{"negative block size", stored("block_size", -4), ReasonBlockSize},
		{"smallest block size", stored("block_size", int64(-1<<63)), ReasonBlockSize},
		{"largest block size", stored("block_size", int64(1<<63-1)), ReasonTokenCount},
		{"block size of 64 bits", stored("block_size", uint64(1<<63)), ReasonFieldType},
		{"block size in text", stored("block_size", "4"), ReasonFieldType},
		{"medium a number", stored("medium", 1), ReasonFieldType},
		{"group in text", stored("group_idx", "0"), ReasonFieldType},
		{"salt a number", stored("cache_salt", 1), ReasonFieldType},
		{"adapter a number", stored("lora_name", 1), ReasonFieldType},
		{"ownership a list", stored("ownership", []any{}), ReasonFieldType},
		{"keys no list", stored("extra_keys", "tenant"), ReasonFieldType},
		{"keys for another number of blocks", stored("extra_keys", []any{nil, nil}), ReasonKeyCount},
		{"objects for another number of blocks", stored("mm_keys", []any{nil, nil}), ReasonKeyCount},
		{"key without end", stored("extra_keys", []any{[]any{deep}}), ReasonKeyDepth},
		{"look-ahead no list", stored("lookahead_token_ids", 3), ReasonLookahead},
		{"look-ahead entry no list", stored("lookahead_token_ids", []any{3}), ReasonLookahead},
		{"look-ahead of another number of blocks", stored("lookahead_token_ids", []any{[]any{5}, []any{6}}), ReasonLookahead},
		{"look-ahead uneven", stored("block_hashes", []any{5, 6}, "token_ids", many(0, 8), "lookahead_token_ids", []any{[]any{4}, []any{8, 9}}), ReasonLookahead},
		{"look-ahead against the tokens", stored("block_hashes", []any{5, 6}, "token_ids", many(0, 8), "lookahead_token_ids", []any{[]any{9}, []any{8}}), ReasonLookahead},
		{"look-ahead out of range", stored("lookahead_token_ids", []any{[]any{-1}}), ReasonTokenRange},
		{"look-ahead and pairs", stored("token_ids", []any{[]any{1, 2}, []any{2, 3}, []any{3, 4}, []any{4, 5}}, "lookahead_token_ids", []any{[]any{5}}), ReasonLookahead},
		{"look-ahead but too few tokens", stored("token_ids", []any{1, 2, 3}, "lookahead_token_ids", []any{[]any{4}}), ReasonTokenCount},
		{"look-ahead behind no tokens, the event before having some", pairs{"type", "BlockStored", "block_hashes", []any{5}, "block_size", 4, "lookahead_token_ids", []any{[]any{5}}}, ReasonTokenCount},
		{"cache owner on the device", stored("ownership", "kvcr"), ReasonOwnerTier},
		{"a number", 7, ReasonEventShape},
		{"nil", nil, ReasonEventShape},
		{"text", "BlockStored", ReasonEventShape},
		{"no tag in an array", []any{}, ReasonNoTag},
		{"a number for a tag", []any{1, []any{2}}, ReasonNoTag},
		{"no tag in a map", pairs{"block_hashes", []any{1}}, ReasonNoTag},
		{"packed nothing", []byte{}, ReasonPackedEvent},
		{"packed half", pack(stored())[:40], ReasonPackedEvent},
		{"packed and something behind", append(pack(stored()), 0), ReasonPackedEvent},
		{"packed twice", pack(pack(stored())), ReasonPackedEvent},
		{"packed and wrong", pack(stored("block_hashes", []any{nil})), ReasonHashNil},
	} {
		t.Run(c.name, func(t *testing.T) {
			payload := batchOf(stored("block_hashes", []any{101}), c.event, stored("block_hashes", []any{102}))
			_, events, err := Describe(payload)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) != 3 {
				t.Fatalf("%d events, want 3", len(events))
			}
			for i, hash := range map[int]uint64{0: 101, 2: 102} {
				if e := events[i]; e.Kind != Store || !slices.Equal(e.Hashes, []uint64{hash}) {
					t.Errorf("sibling %d: %v %v %d", i, e.Kind, e.Reason, e.Hashes)
				}
			}
			if e := events[1]; e.Kind != Rejected || e.Reason != c.want {
				t.Errorf("%v, %v; want rejected, %v", e.Kind, e.Reason, c.want)
			}
			if err := Check(payload); err != nil {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

func TestAccepts(t *testing.T) {
	hex64 := strings.Repeat("0011223344556677", 4)
	for _, c := range []struct {
		name  string
		event any
		check func(e *Description) bool
	}{
		{"unknown tag", []any{"BlockInactive", []any{nil}, 1.5}, func(e *Description) bool {
			return e.Kind == Skipped && e.Reason == ReasonUnknownTag && string(e.Tag) == "BlockInactive"
		}},
		{"unknown tag with fields of other types", stored("type", "BlockUpdated", "block_hashes", "x", "medium", 3), func(e *Description) bool {
			return e.Kind == Skipped && e.Reason == ReasonUnknownTag
		}},
		{"no hashes is no error", stored("block_hashes", []any{}, "token_ids", []any{1, 2, 3}), func(e *Description) bool {
			return e.Kind == Store && len(e.Hashes) == 0 && len(e.Tokens) == 0
		}},
		{"the same hash twice in a remove", []any{"BlockRemoved", []any{3, 3}}, func(e *Description) bool {
			return e.Kind == Remove && len(e.Hashes) == 2
		}},
		{"sparse group", stored("token_ids", many(0, 8), "group_idx", 1, "kv_cache_spec_kind", "mamba"), func(e *Description) bool {
			return e.Kind == Store && e.Class() == Sparse && len(e.Tokens) == 8
		}},
		{"unknown kind", stored("token_ids", many(0, 8), "kv_cache_spec_kind", "new_attention"), func(e *Description) bool {
			return e.Kind == Store && e.Class() == Sparse
		}},
		{"group without a kind, even", stored("group_idx", 1), func(e *Description) bool {
			return e.Kind == Store && e.Class() == Unstated && e.Even()
		}},
		{"group without a kind, uneven", stored("group_idx", 1, "token_ids", many(0, 8)), func(e *Description) bool {
			return e.Kind == Store && e.Class() == Unstated && !e.Even()
		}},
		{"sink attention is dense", stored("kv_cache_spec_kind", "sink_full_attention", "group_idx", 2), func(e *Description) bool {
			return e.Kind == Store && e.Class() == Dense
		}},
		{"placeholder, both nil", stored("token_ids", nil, "block_size", nil), func(e *Description) bool {
			return e.Kind == Store && e.Placeholder && e.TokensNil
		}},
		{"placeholder with keys of any number", stored("token_ids", []any{}, "block_size", 0, "extra_keys", []any{nil, nil}), func(e *Description) bool {
			return e.Kind == Store && e.Placeholder && !e.TokensNil
		}},
		{"text among the tokens", stored("token_ids", []any{"<mm>", 2, 3, 4}), func(e *Description) bool {
			return e.Kind == Store && e.OpaqueTokens && len(e.Tokens) == 0 && !e.Placeholder
		}},
		{"hashes of every form", stored("block_hashes", []any{-5, uint64(1 << 63), bytes.Repeat([]byte{9}, 32), 300}, "token_ids", many(0, 16)), func(e *Description) bool {
			return slices.Equal(e.Hashes, []uint64{1<<64 - 5, 1 << 63, 0x0909090909090909, 300})
		}},
		{"bin of 300 bytes", stored("block_hashes", []any{append(make([]byte, 292), 0, 0, 0, 0, 0, 0, 1, 2)}), func(e *Description) bool {
			return slices.Equal(e.Hashes, []uint64{258})
		}},
		{"pairs", stored("block_hashes", []any{5, 6}, "block_size", 2, "token_ids", []any{[]any{1, 2}, []any{2, 3}, []any{3, 4}, []any{4, 5}}), func(e *Description) bool {
			return e.Kind == Store && e.Bigram && e.Lookahead == 1 && slices.Equal(e.Tokens, []uint32{1, 2, 3, 4, 5})
		}},
		{"look-ahead", stored("block_hashes", []any{5, 6}, "token_ids", many(0, 8), "lookahead_token_ids", []any{[]any{4}, []any{8}}), func(e *Description) bool {
			return e.Kind == Store && e.Lookahead == 1 && slices.Equal(e.Tokens, []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8}) &&
				slices.Equal(e.LookaheadTokens, []uint32{4, 8}) && e.Even()
		}},
		{"look-ahead longer than a block", stored("block_hashes", []any{5, 6}, "block_size", 1, "token_ids", []any{1, 2}, "lookahead_token_ids", []any{[]any{2, 3}, []any{3, 4}}), func(e *Description) bool {
			return e.Kind == Store && e.Lookahead == 2 && slices.Equal(e.Tokens, []uint32{1, 2, 3, 4})
		}},
		{"look-ahead of nobody", stored("lookahead_token_ids", []any{nil}), func(e *Description) bool {
			return e.Kind == Store && e.Lookahead == 0 && len(e.Tokens) == 4
		}},
		{"look-ahead nil", stored("lookahead_token_ids", nil), func(e *Description) bool {
			return e.Kind == Store && e.Lookahead == 0
		}},
		{"look-ahead of a sparse group is kept as it is", stored("group_idx", 1, "kv_cache_spec_kind", "sliding_window", "token_ids", many(0, 8), "lookahead_token_ids", []any{[]any{7}}), func(e *Description) bool {
			return e.Kind == Store && e.Lookahead == 1 && !e.Even()
		}},
		{"ints in the slot of the adapter", []any{"BlockStored", []any{5}, nil, []any{1, 2, 3, 4}, 4, nil, "GPU", 12}, func(e *Description) bool {
			return e.Kind == Store && e.LoraName == nil
		}},
		{"adapter in the slot of its number, medium behind", []any{"BlockStored", []any{5}, nil, []any{1, 2, 3, 4}, 4, "sql", "CPU"}, func(e *Description) bool {
			return string(e.LoraName) == "sql" && e.Tier() == TierHost && !e.HasLoraID
		}},
		{"array longer than any layout", append([]any{"BlockStored", []any{5}, nil, []any{1, 2, 3, 4}, 4, nil, "GPU", "sql", []any{nil}, 0, "full_attention", 8}, many(0, 40)...), func(e *Description) bool {
			return e.Kind == Store && e.HasSlidingWindow && e.SlidingWindow == 8 && string(e.LoraName) == "sql"
		}},
		{"the names of Mooncake", pairs{"event_type", "stored", "seq_hashes", []any{7}, "parent_hash", 3, "token_ids", nil, "additional_salt", "x"}, func(e *Description) bool {
			return e.Kind == Store && e.Placeholder && slices.Equal(e.Hashes, []uint64{7}) && e.Parent == 3 && string(e.Salt) == "x"
		}},
		{"parent_block_hash goes before parent_hash", stored("parent_hash", 3, "parent_block_hash", 4), func(e *Description) bool { return e.Parent == 4 }},
		{"parent_hash behind a parent_block_hash of nil", stored("parent_hash", 3), func(e *Description) bool { return e.Parent == 3 }},
		{"type goes before event_type", stored("event_type", "removed"), func(e *Description) bool { return e.Kind == Store }},
		{"event_type helps an unknown type", stored("type", "Block", "event_type", "removed"), func(e *Description) bool { return e.Kind == Remove }},
		{"packed", raw(pack(pack(stored("block_hashes", []any{9})))), func(e *Description) bool {
			return e.Kind == Store && e.Hashes[0] == 9
		}},
		{"a clear with an owner", pairs{"type", "AllBlocksCleared", "ownership", "kvcr"}, func(e *Description) bool {
			return e.Kind == Clear && string(e.Ownership) == "kvcr"
		}},
		{"keys that are no text in a map", append(stored(), 7, []any{"x"}, nil, pairs{}), func(e *Description) bool { return e.Kind == Store }},
		{"the last of two equal names counts", append(stored(), "block_hashes", []any{77}), func(e *Description) bool { return e.Hashes[0] == 77 }},
		{"keys not stated, place for them", stored("medium", "CPU"), func(e *Description) bool { return !e.KeysStated && e.KeysHaveSlot }},
		{"keys stated as none", stored("extra_keys", []any{nil}), func(e *Description) bool {
			return e.KeysStated && e.KeysHaveSlot && len(e.Keys.Hashes) == 0
		}},
		{"no place for keys in a short array", []any{"BlockStored", []any{5}, nil, []any{1, 2, 3, 4}, 4, nil, "CPU"}, func(e *Description) bool {
			return !e.KeysStated && !e.KeysHaveSlot
		}},
		{"keys nil in an array", []any{"BlockStored", []any{5}, nil, []any{1, 2, 3, 4}, 4, nil, "CPU", nil, nil}, func(e *Description) bool {
			return !e.KeysStated && e.KeysHaveSlot
		}},
		{"SGLang has no place for keys", pairs{"type", "BlockStored", "block_hashes", []any{5}, "token_ids", []any{1}, "block_size", 1, "medium", "CPU"}, func(e *Description) bool {
			return e.Kind == Store && !e.KeysHaveSlot
		}},
		{"salt on top", stored("cache_salt", "dynamo-cache-salt:ns"), func(e *Description) bool { return string(e.Salt) == "ns" }},
		{"salt among the keys", stored("extra_keys", []any{[]any{"dynamo-cache-salt:ns"}}), func(e *Description) bool {
			return string(e.Salt) == "ns" && len(e.Keys.Hashes) == 0
		}},
		{"a text behind block 0 is no salt", stored("parent_block_hash", 1, "extra_keys", []any{[]any{"t"}}), func(e *Description) bool {
			return len(e.Salt) == 0 && slices.Equal(e.Keys.Hashes, []uint64{content.Opaque(pack("t"))})
		}},
		{"parent 0 may be the root", stored("parent_block_hash", 0, "extra_keys", []any{[]any{"t"}}), func(e *Description) bool {
			return string(e.Salt) == "t" && e.HasParent
		}},
		{"the last text is the salt", stored("lora_name", "sql", "extra_keys", []any{[]any{"sql", "a", "b"}}), func(e *Description) bool {
			return string(e.Salt) == "b" && slices.Equal(e.Keys.Hashes, []uint64{content.Opaque(pack("a"))})
		}},
		{"a salt that is called like the adapter", stored("lora_name", "sql", "extra_keys", []any{[]any{"sql", "sql"}}), func(e *Description) bool {
			return string(e.Salt) == "sql" && len(e.Keys.Hashes) == 0
		}},
		{"a text that is not the salt on top", stored("cache_salt", "s", "extra_keys", []any{[]any{"t"}}), func(e *Description) bool {
			return string(e.Salt) == "s" && slices.Equal(e.Keys.Hashes, []uint64{content.Opaque(pack("t"))})
		}},
		{"64 digits in a map are a salt", stored("extra_keys", []any{[]any{hex64}}), func(e *Description) bool {
			return string(e.Salt) == hex64 && len(e.Keys.Hashes) == 0
		}},
		{"64 digits in 9 slots are an image", []any{"BlockStored", []any{5}, nil, []any{1, 2, 3, 4}, 4, nil, "GPU", nil, []any{[]any{hex64}}}, func(e *Description) bool {
			return len(e.Salt) == 0 && slices.Equal(e.Keys.Hashes, []uint64{0x0011223344556677})
		}},
		{"a pair is an image, its offset nothing", stored("block_hashes", []any{5, 6}, "token_ids", many(0, 8), "extra_keys", []any{[]any{[]any{"image-1", -3}}, []any{[]any{"image-1", 9}}}), func(e *Description) bool {
			return slices.Equal(e.Keys.Hashes, []uint64{9764656481613128169, 9764656481613128169}) && slices.Equal(e.Keys.Ends, []int{1, 2})
		}},
		{"keys of the second block alone", stored("block_hashes", []any{5, 6}, "token_ids", many(0, 8), "extra_keys", []any{nil, []any{[]byte{1}}}), func(e *Description) bool {
			return slices.Equal(e.Keys.Hashes, []uint64{content.Opaque(pack([]byte{1}))}) && slices.Equal(e.Keys.Ends, []int{0, 1})
		}},
		{"objects of two dialects", stored(
			"mm_keys", []any{[]any{pairs{"type", "mm_key", "hash", hex64, "start_offset", 0}}},
			"block_mm_infos", []any{pairs{"mm_objects", []any{pairs{"mm_hash", uint64(42), "offsets", []any{}}}}}), func(e *Description) bool {
			return slices.Equal(e.Keys.Hashes, []uint64{0x0011223344556677, 42})
		}},
		{"objects that are none", stored("mm_keys", []any{[]any{7, pairs{"x", 1}}}, "block_mm_infos", []any{pairs{"x", 1}}), func(e *Description) bool {
			return len(e.Keys.Hashes) == 3
		}},
		{"a key that is no list", stored("extra_keys", []any{7}), func(e *Description) bool {
			return slices.Equal(e.Keys.Hashes, []uint64{content.Opaque(pack(7))})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := one(t, c.event)
			if !c.check(&e) {
				t.Errorf("%v %v %+v", e.Kind, e.Reason, e.Event)
			}
		})
	}
}

// TestBareMultimodal: a source that is known to send multimodal identifiers of
// its own form has no salts among its bare strings.
func TestBareMultimodal(t *testing.T) {
	d := Decoder{BareMultimodal: true}
	payload := batchOf(stored("lora_name", "sql", "extra_keys", []any{[]any{"sql", "image-1"}}))
	if _, err := d.Reset(payload); err != nil {
		t.Fatal(err)
	}
	var ev Event
	if more, err := d.Next(&ev); !more || err != nil {
		t.Fatal(more, err)
	}
	if len(ev.Salt) != 0 || !slices.Equal(ev.Keys.Hashes, []uint64{9764656481613128169}) {
		t.Errorf("salt %q, keys %d", ev.Salt, ev.Keys.Hashes)
	}
}

// TestCanonical: one value has one name, however it was written.
func TestCanonical(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b raw
	}{
		{"integers", raw{mUint64, 0, 0, 0, 0, 0, 0, 0, 10}, raw{10}},
		{"negative integers", raw{mInt64, 255, 255, 255, 255, 255, 255, 255, 255}, raw{0xff}},
		{"text", raw{mStr32, 0, 0, 0, 1, 'x'}, raw{fixStr + 1, 'x'}},
		{"bin", raw{mBin16, 0, 1, 'x'}, raw{mBin8, 1, 'x'}},
		{"lists", raw{mArray16, 0, 1, 7}, raw{fixArray + 1, 7}},
		{"floats", raw{mFloat32, 0x3f, 0xc0, 0, 0}, raw(pack(1.5))},
		{"maps in another order", raw(pack(pairs{"b", pairs{"y", 1, "x", 2}, "a", 3})), raw(pack(pairs{"a", 3, "b", pairs{"x", 2, "y", 1}}))},
	} {
		t.Run(c.name, func(t *testing.T) {
			// In a list, so that text is no salt.
			a := one(t, stored("extra_keys", []any{[]any{[]any{c.a, 0, 0}}}))
			b := one(t, stored("extra_keys", []any{[]any{[]any{c.b, 0, 0}}}))
			if len(a.Keys.Hashes) != 1 || !slices.Equal(a.Keys.Hashes, b.Keys.Hashes) {
				t.Errorf("%x and %x are named %d and %d", c.a, c.b, a.Keys.Hashes, b.Keys.Hashes)
			}
		})
	}
}

func TestMedium(t *testing.T) {
	for tier, names := range map[Tier][]string{
		TierDevice:  {"", "GPU", "gpu", "Device", "CUDA", "HBM", "npu", "device(type='cuda', index=0)", "DEVICE(TYPE='CUDA')"},
		TierHost:    {"CPU", "cpu_pinned", "CPU_TIER1", "host", "DRAM", "device(type='cpu')", "device(type='cpu', index=0)"},
		TierDisk:    {"CPU_TIER2", "disk", "NVMe", "SSD", "STORAGE", "fs", "LOCAL_DISK"},
		TierShared:  {"EXTERNAL", "NETWORK", "REMOTE", "shared", "SHARED_STORAGE", "OBJECT_STORE", "obj"},
		TierUnknown: {"GPU2", "tape", "CPU ", "SHARED_STORAGE_OF_SOMEBODY", "device(type='xpu')", strings.Repeat("GPU", 99)},
	} {
		for _, name := range names {
			if got := Medium([]byte(name)); got != tier {
				t.Errorf("Medium(%q) = %v, want %v", name, got, tier)
			}
		}
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range NumReasons {
		if s := r.String(); s == "" || seen[s] {
			t.Errorf("reason %d is called %q", r, s)
		} else {
			seen[s] = true
		}
	}
}
