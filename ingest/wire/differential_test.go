package wire

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/tinylib/msgp/msgp"
)

// generator makes random well-formed batches in every dialect.
type generator struct {
	*rand.Rand
}

func (g generator) hash() any {
	switch g.IntN(6) {
	case 0:
		return g.IntN(300) + 1
	case 1:
		return int64(g.Uint64())
	case 2, 3:
		b := make([]byte, 8<<g.IntN(4))
		for i := range b {
			b[i] = byte(g.Uint32())
		}
		return b
	}
	return g.Uint64()
}

func (g generator) hashes(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = g.hash()
	}
	return list
}

func (g generator) token() any { return g.Uint32() >> g.IntN(32) }

func (g generator) tokens(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = g.token()
	}
	return list
}

func (g generator) pairsOf(n int) []any {
	t := g.tokens(n + 1)
	list := make([]any, n)
	for i := range list {
		list[i] = []any{t[i], t[i+1]}
	}
	return list
}

// or returns v, or nil now and then.
func (g generator) or(v any) any {
	if g.IntN(3) == 0 {
		return nil
	}
	return v
}

func (g generator) medium() any {
	return g.or([]string{"GPU", "CPU", "CPU_PINNED", "fs", "tape"}[g.IntN(5)])
}

func (g generator) keys(blocks int) any {
	list := make([]any, blocks)
	for i := range list {
		if g.IntN(3) == 0 {
			list[i] = []any{"sql", []any{"image", -g.IntN(9)}, "salt", []byte{1, 2}}
		}
	}
	return g.or(list)
}

// event returns a random event of a random generation.
func (g generator) event() any {
	blocks, size := 1+g.IntN(20), 1+g.IntN(20)
	if g.IntN(10) == 0 {
		blocks, size = 1, 0 // placeholder
	}
	hashes, parent, tokens := g.hashes(blocks), g.or(g.hash()), g.tokens(blocks*size)
	if g.IntN(6) == 0 && size > 0 {
		tokens = g.pairsOf(blocks * size)
	}
	lora := g.or("sql")
	store := []any{"BlockStored", hashes, parent, tokens, size, g.or(7), g.medium(), lora, g.keys(blocks), g.or(0), g.or("full_attention"), g.or(128)}
	switch g.IntN(16) {
	case 0: // V0, V1, S1
		return store[:6]
	case 1: // V2, S2
		return store[:7]
	case 2: // V3
		return store[:8]
	case 3: // V4
		return store[:9]
	case 4: // V5
		return store[:10]
	case 5: // V6
		return store
	case 6: // S3
		store[7] = pairs{"cache_salt", "tenant", "session_id", "s"}
		return store[:8]
	case 7: // forks
		if g.IntN(2) == 0 {
			store[5] = "sql"
			return store[:7]
		}
		store[7] = []any{"full", "swa"}
		return store[:8]
	case 8:
		n := 1 + g.IntN(4)
		return []any{"BlockRemoved", hashes, g.medium(), g.or(1)}[:max(n, 2)]
	case 9:
		return g.shuffled(pairs{"type", "BlockRemoved", "block_hashes", hashes, "medium", g.medium(), "locality", g.or("LOCAL"), "ownership", g.or("fs-0")})
	case 10:
		if g.IntN(2) == 0 {
			return []any{"AllBlocksCleared"}
		}
		return pairs{"type", "AllBlocksCleared"}
	case 11:
		return g.shuffled(pairs{"type", "BlockInactive", "block_hashes", []any{nil, "x"}, "later", []any{1.5, true}})
	case 12: // Mooncake
		return g.shuffled(pairs{"event_type", "stored", "type", "BlockStored", "seq_hashes", hashes[:1], "block_hashes", hashes[:1],
			"token_ids", nil, "block_size", nil, "parent_hash", nil, "parent_block_hash", nil, "medium", "cpu", "tenant_id", "default"})
	case 13: // packed
		return raw(packer{g.Rand}.append(nil, packer{g.Rand}.append(nil, store)))
	}
	// V7 to V10, S4
	m := pairs{"type", "BlockStored", "block_hashes", hashes, "parent_block_hash", parent, "token_ids", tokens, "block_size", size, "lora_id", nil}
	for _, f := range []pairs{
		{"medium", g.medium()}, {"lora_name", lora}, {"extra_keys", g.keys(blocks)}, {"group_idx", 0},
		{"kv_cache_spec_kind", "full_attention"}, {"kv_cache_spec_sliding_window", 64}, {"locality", "REMOTE"}, {"ownership", "fs-0"},
		{"session_id", "s"}, {"cache_salt", "tenant"}, {"skipped_token_ids", tokens}, {"skipped_parent_block_hash", parent},
		{"later", pairs{"x", []any{nil, 1.5, true, "y", []byte{1}}}},
	} {
		if g.IntN(2) == 0 {
			m = append(m, f...)
		}
	}
	return g.shuffled(m)
}

func (g generator) shuffled(m pairs) pairs {
	g.Shuffle(len(m)/2, func(i, j int) {
		m[2*i], m[2*j] = m[2*j], m[2*i]
		m[2*i+1], m[2*j+1] = m[2*j+1], m[2*i+1]
	})
	return m
}

func (g generator) batch() []byte {
	var events []any
	for range g.IntN(6) {
		events = append(events, g.event())
	}
	if events == nil {
		events = []any{}
	}
	p := packer{}
	if g.IntN(2) == 0 {
		p.wide = g.Rand
	}
	var rank any = g.or(g.IntN(400))
	switch g.IntN(5) {
	case 0:
		return p.append(nil, []any{1.5, events})
	case 1:
		return p.append(nil, []any{1757376000500, events, rank, "later"})
	case 2:
		return p.append(nil, g.shuffled(pairs{"ts", 1.5, "events", events, "data_parallel_rank", rank}))
	}
	return p.append(nil, []any{1.5, events, rank})
}

// TestAgainstMsgp decodes random batches with a general decoder that shares no
// code with this package, reads the meaning from its tree in the plainest way,
// and compares.
func TestAgainstMsgp(t *testing.T) {
	rounds := 1500
	if testing.Short() {
		rounds = 500
	}
	seen := map[Kind]int{}
	for seed := range rounds {
		g := generator{rand.New(rand.NewPCG(uint64(seed), 1))}
		payload := g.batch()
		tree, rest, err := msgp.ReadIntfBytes(payload)
		if err != nil || len(rest) != 0 {
			t.Fatalf("seed %d: msgp: %v, %d bytes left", seed, err, len(rest))
		}
		batch, events, err := Describe(payload)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		list, rank := envelopeOf(tree)
		if has := rank != nil; has != batch.HasRank || has && fmt.Sprint(rank) != fmt.Sprint(batch.Rank) {
			t.Fatalf("seed %d: rank %v %d, want %v", seed, batch.HasRank, batch.Rank, rank)
		}
		if len(list) != len(events) {
			t.Fatalf("seed %d: %d events, want %d", seed, len(events), len(list))
		}
		for i, x := range list {
			seen[events[i].Kind]++
			want, got := meant(x), found(&events[i])
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("seed %d, event %d:\n got %v\nwant %v", seed, i, got, want)
			}
		}
	}
	for k := range NumKinds {
		if k != Rejected && seen[k] == 0 {
			t.Errorf("no event of kind %v in all these batches", k)
		}
	}
}

// envelopeOf finds events and rank in a general tree.
func envelopeOf(tree any) (events []any, rank any) {
	switch b := tree.(type) {
	case []any:
		if len(b) > 2 {
			rank = b[2]
		}
		events, _ = b[1].([]any)
	case map[string]any:
		events, _ = b["events"].([]any)
		rank = b["data_parallel_rank"]
	}
	return
}

// meant reads from a general tree what an event means, as text by name.
func meant(x any) map[string]string {
	if packed, ok := x.([]byte); ok {
		x, _, _ = msgp.ReadIntfBytes(packed)
	}
	f, ok := x.(map[string]any)
	if !ok {
		slots := x.([]any)
		names := []string{"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind", "window"}
		if slots[0] == "BlockRemoved" {
			names = []string{"type", "block_hashes", "medium", "group_idx"}
		}
		f = map[string]any{}
		for i, v := range slots {
			f[names[i]] = v
		}
		if m, ok := f["lora_name"].(map[string]any); ok {
			f["cache_salt"] = m["cache_salt"]
		}
		if _, ok := f["lora_name"].(string); !ok {
			f["lora_name"] = nil
		}
		if s, ok := f["lora_id"].(string); ok {
			f["lora_name"] = s
		}
	}
	m := map[string]string{"tag": f["type"].(string)}
	switch m["tag"] {
	default:
		m["kind"] = "skipped"
		return m
	case "AllBlocksCleared":
		m["kind"] = "clear"
		return m
	case "BlockRemoved":
		m["kind"] = "remove"
	case "BlockStored":
		m["kind"] = "store"
	}
	var hashes []uint64
	for _, h := range f["block_hashes"].([]any) {
		hashes = append(hashes, bitsOf(h))
	}
	m["medium"], m["group"] = textOf(f["medium"]), textOf(f["group_idx"])
	m["ownership"] = textOf(f["ownership"])
	if m["kind"] == "store" {
		if p := f["parent_block_hash"]; p != nil {
			m["parent"] = fmt.Sprint(bitsOf(p))
			if slices.Contains(hashes, bitsOf(p)) {
				return map[string]string{"tag": m["tag"], "kind": "rejected", "reason": "self_parent"}
			}
		}
		once := slices.Sorted(slices.Values(hashes))
		if len(slices.Compact(once)) != len(hashes) {
			return map[string]string{"tag": m["tag"], "kind": "rejected", "reason": "duplicate_hash"}
		}
		var tokens []uint64
		list, _ := f["token_ids"].([]any)
		for i, x := range list {
			if pair, ok := x.([]any); ok {
				tokens = append(tokens, bitsOf(pair[0]))
				if i == len(list)-1 {
					tokens = append(tokens, bitsOf(pair[1]))
				}
				continue
			}
			tokens = append(tokens, bitsOf(x))
		}
		m["tokens"] = fmt.Sprint(tokens)
		m["block_size"] = textOf(f["block_size"])
		m["lora_name"] = textOf(f["lora_name"])
		m["kind_of_group"] = textOf(f["kv_cache_spec_kind"])
		m["keys"] = fmt.Sprint(f["extra_keys"] != nil)
		if f["cache_salt"] != nil {
			m["salt"] = textOf(f["cache_salt"])
		}
	}
	m["hashes"] = fmt.Sprint(hashes)
	return m
}

// found says of a decoded event what meant says of a tree.
func found(e *Description) map[string]string {
	m := map[string]string{"tag": string(e.Tag), "kind": e.Kind.String()}
	if e.Kind == Rejected {
		m["reason"] = e.Reason.String()
	}
	if e.Kind != Store && e.Kind != Remove {
		return m
	}
	m["medium"], m["group"], m["ownership"] = string(e.Medium), "", string(e.Ownership)
	if e.HasGroup {
		m["group"] = fmt.Sprint(e.Group)
	}
	m["hashes"] = fmt.Sprint(e.Hashes)
	if e.Kind == Remove {
		return m
	}
	if e.HasParent {
		m["parent"] = fmt.Sprint(e.Parent)
	}
	m["tokens"] = fmt.Sprint(e.Tokens)
	m["block_size"] = ""
	if e.HasBlockSize {
		m["block_size"] = fmt.Sprint(e.BlockSize)
	}
	m["lora_name"] = string(e.LoraName)
	m["kind_of_group"] = string(e.SpecKind)
	m["keys"] = fmt.Sprint(e.KeysStated)
	if e.Fields["cache_salt"] != nil {
		m["salt"] = string(e.Salt)
	}
	return m
}

func bitsOf(v any) uint64 {
	switch v := v.(type) {
	case int64:
		return uint64(v)
	case uint64:
		return v
	case []byte:
		return binary.BigEndian.Uint64(v[len(v)-8:])
	}
	panic(fmt.Sprintf("%T is no number", v))
}

func textOf(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
