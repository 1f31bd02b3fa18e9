package wire

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vector is one line of testdata/wire.jsonl: a payload and what it means.
type vector struct {
	ID      string `json:"id"`
	Payload string `json:"payload_hex"`
	Expect  struct {
		OK     bool             `json:"ok"`
		Level  string           `json:"level"`
		Reason string           `json:"reason"`
		TS     json.Number      `json:"ts"`
		Unit   string           `json:"ts_unit"`
		Rank   *json.Number     `json:"rank"`
		Events []map[string]any `json:"events"`
	} `json:"expect"`
	payload []byte
}

func vectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/wire.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	sc := bufio.NewScanner(bytes.NewReader(text))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var v vector
		dec := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if v.payload, err = hex.DecodeString(v.Payload); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if len(all) != 51 {
		t.Fatalf("%d vectors, want 51", len(all))
	}
	return all
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			batch, events, err := Describe(v.payload)
			if !v.Expect.OK && v.Expect.Level == "batch" {
				var e *Error
				if !errors.As(err, &e) || e.Reason.String() != v.Expect.Reason {
					t.Fatalf("error %v, want reason %s", err, v.Expect.Reason)
				}
				if Check(v.payload) == nil {
					t.Error("Check finds nothing wrong")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(v.payload); err != nil {
				t.Errorf("Check: %v", err)
			}
			if !v.Expect.OK { // wrong outside the payload, which is W02's
				if len(events) != 3 {
					t.Errorf("%d events, want 3", len(events))
				}
				return
			}
			ts, unit := fmt.Sprint(batch.Millis), "ms"
			if !batch.IsMillis {
				ts, unit = strconv.FormatFloat(batch.Seconds, 'f', -1, 64), "s"
			}
			if ts != v.Expect.TS.String() || unit != v.Expect.Unit {
				t.Errorf("time %s %s, want %s %s", ts, unit, v.Expect.TS, v.Expect.Unit)
			}
			if want := v.Expect.Rank; batch.HasRank != (want != nil) || want != nil && fmt.Sprint(batch.Rank) != want.String() {
				t.Errorf("rank %d (stated: %v), want %v", batch.Rank, batch.HasRank, want)
			}
			if batch.Events != len(v.Expect.Events) || len(events) != batch.Events {
				t.Fatalf("%d events announced, %d decoded, want %d", batch.Events, len(events), len(v.Expect.Events))
			}
			for i, want := range v.Expect.Events {
				got := meaning(&events[i])
				delete(want, "level") // where a reason is found is free
				for k, x := range want {
					if x == nil {
						delete(want, k) // absent and nil are one
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("event %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// meaning writes an event in the words of wire.jsonl.
func meaning(e *Description) map[string]any {
	m := map[string]any{"event": e.Kind.String()}
	put := func(key string, v any) {
		if v = plain(v); v != nil && v != "" {
			m[key] = v
		}
	}
	if e.Kind == Rejected || e.Kind == Skipped {
		put("reason", e.Reason.String())
		put("tag", string(e.Tag))
		return m
	}
	if e.Kind != Clear {
		var hashes []any
		for _, h := range e.Hashes {
			hashes = append(hashes, strconv.FormatUint(h, 10))
		}
		put("hashes", hashes)
		put("medium", string(e.Medium))
		put("tier", e.Tier().String())
		if e.HasGroup {
			put("group", e.Group)
		}
	}
	for _, k := range []string{"session_id", "locality", "ownership", "tenant_id", "backend_id", "object_key"} {
		put(k, e.Fields[k])
	}
	if string(e.Ownership) == "kvcr" {
		put("domain", "cache_owner")
	}
	if e.Kind != Store {
		return m
	}
	if e.HasParent {
		put("parent", strconv.FormatUint(e.Parent, 10))
	}
	switch {
	case e.Bigram:
		m["bigram"] = true
		put("tokens", numbers(e.Tokens))
	case e.OpaqueTokens:
		put("tokens", e.Fields["token_ids"])
	case !e.TokensNil:
		put("tokens", numbers(e.Tokens))
	}
	if e.HasBlockSize {
		put("block_size", e.BlockSize)
	}
	if e.HasLoraID {
		put("lora_id", e.LoraID)
	}
	put("lora_name", string(e.LoraName))
	if e.Fields["cache_salt"] != nil { // otherwise inferred from the keys, which show it
		put("salt", string(e.Salt))
	}
	put("spec_kind", string(e.SpecKind))
	if e.HasSlidingWindow {
		put("sliding_window", e.SlidingWindow)
	}
	for _, k := range []string{"extra_keys", "mm_keys", "block_mm_infos"} {
		put(k, e.Fields[k])
	}
	if e.BlockKeys != nil {
		var blocks []any
		for _, b := range e.BlockKeys {
			blocks = append(blocks, append([]any{}, b...))
		}
		put("block_keys", blocks)
	}
	if e.HashBytes != nil {
		var list []any
		for _, b := range e.HashBytes {
			list = append(list, hex.EncodeToString(b))
		}
		put("hash_bytes", list)
	}
	if e.ParentBytes != nil {
		put("parent_bytes", hex.EncodeToString(e.ParentBytes))
	}
	skipped := map[string]any{}
	for _, k := range []string{"token_ids", "extra_keys", "parent_block_hash"} {
		if x := e.Fields["skipped_"+k]; x != nil {
			if k == "parent_block_hash" {
				x = fmt.Sprint(x)
			}
			skipped[k] = plain(x)
		}
	}
	if len(skipped) > 0 {
		m["skipped"] = skipped
	}
	why := ""
	switch {
	case e.Placeholder:
		m["placeholder"] = true
		why = "placeholder"
	case e.OpaqueTokens:
		why = "opaque_tokens"
	case e.Class() == Sparse:
		why = "sparse_group"
	case e.Group != 0:
		why = "not_main_group"
	case e.Remote():
		why = "remote_locality"
	}
	put("why", why)
	m["prefix"] = why == ""
	return m
}

func numbers(tokens []uint32) []any {
	list := []any{}
	for _, t := range tokens {
		list = append(list, int64(t))
	}
	return list
}

// plain turns a value as sent into what JSON has for it in wire.jsonl.
func plain(v any) any {
	switch v := v.(type) {
	case int64:
		if v >= 1<<53 || v <= -1<<53 {
			return fmt.Sprint(v)
		}
		return json.Number(fmt.Sprint(v))
	case uint64:
		return fmt.Sprint(v)
	case []byte:
		return map[string]any{"bin": hex.EncodeToString(v)}
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = plain(x)
		}
		return list
	case map[string]any:
		m := map[string]any{}
		for k, x := range v {
			m[k] = plain(x)
		}
		return m
	}
	return v
}

// TestPrefixes cuts every payload at every byte. Nothing that is cut is sound.
func TestPrefixes(t *testing.T) {
	var d Decoder
	for _, v := range vectors(t) {
		for n := range v.payload {
			cut := v.payload[:n:n]
			if err := run(&d, cut); err == nil {
				t.Errorf("%s: the first %d of %d bytes are taken for a batch", v.ID, n, len(v.payload))
			}
			if err := Check(cut); err == nil {
				t.Errorf("%s: Check takes the first %d of %d bytes for a batch", v.ID, n, len(v.payload))
			}
		}
		more := append(append([]byte{}, v.payload...), mNil)
		if err := run(&d, more); err == nil && v.Expect.OK {
			t.Errorf("%s: a byte behind the batch goes unnoticed", v.ID)
		}
	}
}

// run decodes a payload to its end.
func run(d *Decoder, payload []byte) error {
	b, err := d.Reset(payload)
	if err != nil {
		return err
	}
	var ev Event
	for n := 0; ; n++ {
		more, err := d.Next(&ev)
		if err != nil {
			return err
		}
		if !more {
			if n != b.Events {
				return fmt.Errorf("%d events announced, %d decoded", b.Events, n)
			}
			return nil
		}
	}
}

// TestSameIdentity holds the cross-checks between vectors.
func TestSameIdentity(t *testing.T) {
	first := map[string]uint64{}
	for _, v := range vectors(t) {
		if _, events, err := Describe(v.payload); err == nil && len(events) > 0 && len(events[0].Hashes) > 0 {
			first[v.ID] = events[0].Hashes[0]
		}
	}
	for _, same := range []string{"W03 W04", "W01 W06", "W01 W27"} {
		a, b, _ := strings.Cut(same, " ")
		if first[a] != first[b] || first[a] == 0 {
			t.Errorf("%s names %d, %s names %d", a, first[a], b, first[b])
		}
	}
}
