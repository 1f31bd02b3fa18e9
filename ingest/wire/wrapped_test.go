package wire

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/tree/content"
)

// The samples of the specification: TensorRT-LLM's, then Dynamo's.
const (
	j01 = `{"event_id":0,"data":{"type":"created","num_blocks_per_cache_level":[100,20]},"window_size":4096}`
	j02 = `{"event_id":1,"data":{"type":"stored","parent_hash":null,"blocks":[{"type":"stored_block","block_hash":18364758544493064720,"tokens":[{"type":"unique_token","token_id":1,"token_extra_id":0},{"type":"unique_token","token_id":2,"token_extra_id":0},{"type":"unique_token","token_id":3,"token_extra_id":0},{"type":"unique_token","token_id":4,"token_extra_id":0}],"cache_level":0,"priority":35,"mm_keys":[]}]},"window_size":4096}`
	j03 = `{"event_id":2,"data":{"type":"updated","block_hash":18364758544493064720,"cache_level":{"type":"event_diff","old_value":0,"new_value":1},"priority":null},"window_size":4096}`
	j04 = `{"event_id":3,"data":{"type":"removed","block_hashes":[18364758544493064720]},"window_size":4096}`
	j05 = `{"event_id":4,"data":{"type":"stored","parent_hash":null,"blocks":[{"type":"stored_block","block_hash":7,"tokens":[{"type":"unique_token","token_id":1,"token_extra_id":0}],"cache_level":0,"priority":35}]},"window_size":512,"attention_dp_rank":1}`
	j06 = `{"worker_id":42,"storage_tier":"device","event":{"event_id":0,"data":{"stored":{"parent_hash":null,"start_position":null,"blocks":[{"block_hash":18364758544493064720,"tokens_hash":14643705804678351452,"mm_extra_info":null}]}},"dp_rank":0}}`
	j07 = `{"worker_id":42,"storage_tier":"host_pinned","residency_domain":"worker","event":{"event_id":1,"data":{"stored":{"parent_hash":18364758544493064720,"start_position":1,"blocks":[{"block_hash":2,"tokens_hash":16777012769546811212,"mm_extra_info":null}]}},"dp_rank":0}}`
	j08 = `{"worker_id":42,"event":{"event_id":2,"data":{"removed":{"block_hashes":[18364758544493064720]}},"dp_rank":0}}`
	j09 = `{"worker_id":42,"event":{"event_id":3,"data":"cleared","dp_rank":1}}`
)

// summary is what matters of an event, in a line.
func summary(e *Event) string {
	s := e.Kind.String()
	if e.Kind == Skipped || e.Kind == Rejected {
		return s + " " + e.Reason.String()
	}
	if e.HasWorker {
		s += fmt.Sprintf(" w%d", e.Worker)
	}
	if e.HasRank {
		s += fmt.Sprintf(" r%d", e.Rank)
	}
	if e.HasID {
		s += fmt.Sprintf(" #%d", e.ID)
	}
	if e.Kind != Clear {
		s += fmt.Sprintf(" %s %x", e.Tier(), e.Hashes)
	}
	if e.HasParent {
		s += fmt.Sprintf(" behind %x", e.Parent)
	}
	if len(e.Tokens) > 0 {
		s += fmt.Sprintf(" %v/%d", e.Tokens, e.BlockSize)
	}
	if e.Contents != nil {
		s += fmt.Sprintf(" of %d/%d", e.Contents, e.BlockSize)
	}
	if e.Placeholder {
		s += " placed"
	}
	if len(e.Ownership) > 0 {
		s += " " + string(e.Ownership)
	}
	if len(e.Keys.Hashes) > 0 {
		s += fmt.Sprintf(" keys %v", e.Keys.Ends)
	}
	return s
}

func summaries(t *testing.T, d *Decoder, payload string) (list []string) {
	t.Helper()
	if err := Check([]byte(payload)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Reset([]byte(payload)); err != nil {
		t.Fatal(err)
	}
	var ev Event
	for {
		more, err := d.Next(&ev)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return list
		}
		list = append(list, summary(&ev))
	}
}

func trtBlock(hash int, level int, more string, tokens ...int) string {
	var list []string
	for _, v := range tokens {
		list = append(list, fmt.Sprintf(`{"token_id":%d,"token_extra_id":0}`, v))
	}
	return fmt.Sprintf(`{"block_hash":%d,"cache_level":%d%s,"tokens":[%s]}`, hash, level, more, strings.Join(list, ","))
}

func trtStored(parent string, blocks ...string) string {
	return fmt.Sprintf(`{"event_id":9,"data":{"type":"stored","parent_hash":%s,"blocks":[%s]}}`, parent, strings.Join(blocks, ","))
}

func TestWrapped(t *testing.T) {
	for _, c := range []struct {
		name     string
		payloads []string // of one stream
		want     []string
	}{
		{"TensorRT-LLM", []string{j01, j02, j03, j04, j05}, []string{
			"skipped no_effect",
			"store #1 device [fedcba9876543210] [1 2 3 4]/4",
			"store #2 host [fedcba9876543210] placed",
			"remove device [fedcba9876543210]",
			"remove #3 device [fedcba9876543210]",
			"remove host [fedcba9876543210]", // where it is
			"skipped smaller_window"}},
		{"as lines", []string{j01 + "\n" + j02 + "\n" + j05}, []string{
			"skipped no_effect", "store #1 device [fedcba9876543210] [1 2 3 4]/4", "skipped smaller_window"}},
		{"as a list", []string{"[" + j01 + "," + j02 + "]"}, []string{
			"skipped no_effect", "store #1 device [fedcba9876543210] [1 2 3 4]/4"}},
		{"as a batch", []string{`{"ts":1.5,"events":[` + j02 + `],"attn_dp_rank":3}`}, []string{
			"store #1 device [fedcba9876543210] [1 2 3 4]/4"}},
		{"a partial block ends an event", []string{trtStored("null", trtBlock(1, 0, "", 1, 2, 3, 4), trtBlock(2, 0, "", 5, 6, 7), trtBlock(3, 0, "", 8, 9, 10, 11)), trtStored("1", trtBlock(2, 0, "", 5, 6))}, []string{
			"store #9 device [1] [1 2 3 4]/4", "skipped partial_block"}},
		{"short prompts before the size is known", []string{trtStored("null", trtBlock(1, 0, "", 1)), trtStored("null", trtBlock(1, 0, "", 1, 2, 3)), trtStored("null", trtBlock(1, 0, "", 1, 2, 3, 4))}, []string{
			"skipped partial_block", "skipped partial_block", "store #9 device [1] [1 2 3 4]/4"}},
		{"levels of their own", []string{trtStored("5", trtBlock(1, 0, "", 1, 2), trtBlock(2, 0, "", 3, 4), trtBlock(3, 1, "", 5, 6), trtBlock(4, 7, "", 7, 8), trtBlock(6, 0, "", 9))}, []string{
			"store #9 device [1 2] behind 5 [1 2 3 4]/2", "store host [3] behind 2 [5 6]/2", "store unknown [4] behind 3 [7 8]/2", "skipped partial_block"}},
		{"images, extra ids", []string{trtStored("null", trtBlock(1, 0, `,"mm_keys":[{"type":"mm_key","hash":"image-1","start_offset":2}]`, 1, 2), trtBlock(2, 0, "", 1, 2),
			`{"block_hash":3,"tokens":[{"token_id":1,"token_extra_id":7},{"token_id":2}],"cache_level":0}`)}, []string{
			"store #9 device [1 2 3] [1 2 1 2 1 2]/2 keys [1 1 2]"}},
		{"bad ones", []string{
			trtStored("1", trtBlock(1, 0, "", 1, 2)),
			trtStored("null", trtBlock(1, 0, "", 1, 2), trtBlock(1, 0, "", 1, 2)),
			trtStored("null", trtBlock(1, 0, "", -1, 2)),
			trtStored("null", `{"tokens":[],"cache_level":0}`),
			trtStored("null", `7`),
			trtStored(`"x"`, trtBlock(1, 0, "", 1, 2)),
			trtStored("null", `{"block_hash":1,"tokens":[{"id":1}]}`),
			`{"event_id":1,"data":{"type":"stored"}}`, `{"event_id":1,"data":{"type":"moved"}}`, `{"event_id":1,"data":7}`, `{"event_id":1,"data":{}}`,
			`{"event_id":1,"data":{"type":"updated","block_hash":1,"cache_level":null,"priority":{"old_value":1,"new_value":2}}}`,
			`{"event_id":1,"data":{"type":"updated","block_hash":1,"cache_level":{"old_value":0}}}`,
			`{"event_id":1,"data":{"type":"updated","cache_level":{"old_value":0,"new_value":1}}}`,
			`{"event_id":1,"data":{"type":"updated","block_hash":"x","cache_level":{"old_value":0,"new_value":1}}}`,
			`{"event_id":1,"data":{"type":"removed"}}`,
		}, []string{
			"rejected self_parent", "rejected duplicate_hash", "rejected token_range", "rejected missing_field", "rejected field_type", "rejected hash_type", "rejected token_type",
			"rejected missing_field", "skipped unknown_tag", "rejected field_type", "rejected no_tag", "skipped no_effect", "rejected missing_field", "rejected missing_field", "rejected hash_type", "rejected missing_field"}},
		{"windows without a beginning", []string{
			`{"data":{"type":"removed","block_hashes":[1]},"window_size":512}`, `{"data":{"type":"removed","block_hashes":[2]},"window_size":1024}`, `{"data":{"type":"removed","block_hashes":[3]},"window_size":512}`,
			j01, // a new process
			`{"event_id":1,"data":{"type":"created"},"window_size":512}`, `{"data":{"type":"removed","block_hashes":[4]},"window_size":512}`, `{"data":{"type":"removed","block_hashes":[5]}}`}, []string{
			"remove device [1]", "remove device [2]", "skipped smaller_window", "skipped no_effect", "skipped smaller_window", "skipped smaller_window", "remove device [5]"}},

		{"Dynamo", []string{j06, j07, j08, j09}, []string{
			"store w42 r0 #0 device [fedcba9876543210] of [14643705804678351452]/0",
			"store w42 r0 #1 host [2] behind fedcba9876543210 of [16777012769546811212]/0",
			"remove w42 r0 #2 device [fedcba9876543210]",
			"clear w42 r1 #3"}},
		{"Dynamo's dump", []string{`{"block_size":16,"events":[` + j06 + "," + j09 + `]}`}, []string{
			"store w42 r0 #0 device [fedcba9876543210] of [14643705804678351452]/16", "clear w42 r1 #3"}},
		{"without the worker", []string{`{"event_id":5,"data":{"removed":{"block_hashes":[1,2]}},"dp_rank":2}`}, []string{"remove r2 #5 device [1 2]"}},
		{"an owner's", []string{`{"worker_id":42,"storage_tier":"host_pinned","residency_domain":"cache_owner","event":{"event_id":2,"data":{"removed":{"block_hashes":[1]}},"dp_rank":0}}`}, []string{
			"remove w42 r0 #2 host [1] kvcr"}},
		{"bad router events", []string{
			`{"worker_id":42,"event":{"event_id":1,"data":{"stored":{"parent_hash":null,"start_position":3,"blocks":[{"block_hash":1,"tokens_hash":2}]}}}}`,
			`{"worker_id":42,"event":{"event_id":1,"data":{"stored":{"parent_hash":null,"blocks":[{"block_hash":1}]}}}}`,
			`{"worker_id":42,"event":{"event_id":1,"data":{"stored":{"parent_hash":null,"blocks":7}}}}`,
			`{"worker_id":42,"event":{"event_id":1,"data":{"stored":{"parent_hash":1,"blocks":[{"block_hash":1,"tokens_hash":2}]}}}}`,
			`{"worker_id":42,"event":{"event_id":1,"data":{"stored":7}}}`,
			`{"worker_id":42,"event":{"event_id":1,"data":"emptied"}}`,
			`{"worker_id":42,"event":{"event_id":1}}`, `{"worker_id":42,"event":7}`, `{"worker_id":"a","event":{"data":"cleared"}}`,
			`{"worker_id":42,"residency_domain":"rack","event":{"data":"cleared"}}`,
			`{"worker_id":42,"event":{"dp_rank":"0","data":"cleared"}}`,
			`{"worker_id":42,"event":{"event_id":1,"data":{"stored":{"parent_hash":null,"blocks":[]}}}}`,
		}, []string{
			"rejected no_parent", "rejected missing_field", "rejected field_type", "rejected self_parent", "rejected field_type", "skipped unknown_tag",
			"rejected missing_field", "rejected field_type", "rejected field_type", "rejected field_type", "rejected field_type", "store w42 #1 device []"}},

		{"masked, and not what it should be", []string{
			`{"type":"BlockStored","block_hashes":[1,2],"content_hashes":[3,4],"block_size":4}`,
			`{"type":"BlockStored","block_hashes":[1,2],"content_hashes":[3,4,5,6],"content_unit":2,"block_size":4}`,
			`{"type":"BlockStored","block_hashes":[1,2],"content_hashes":[3],"block_size":4}`,
			`{"type":"BlockStored","block_hashes":[1,2],"content_hashes":[3,4,5],"content_unit":2,"block_size":4}`,
			`{"type":"BlockStored","block_hashes":[1,2],"content_hashes":[3,4],"content_unit":8,"block_size":4}`,
			`{"type":"BlockStored","block_hashes":[1],"content_hashes":[],"token_ids":[1,2],"block_size":2}`,
			`{"type":"BlockStored","block_hashes":[1],"content_hashes":[],"content_unit":2}`}, []string{
			"store device [1 2] of [3 4]/4", "store device [1 2] of [3 4 5 6]/4", "rejected token_count", "rejected token_count", "rejected token_count",
			"store device [1] [1 2]/2", "store device [1] placed"}},

		{"Mooncake's push", []string{
			`{"event_id":7,"timestamp":1757376000500,"event_type":"stored","model_name":"m","block_size":2,"additional_salt":"s","lora_name":null,"tenant_id":"default","backend_id":"pool-0","medium":"cpu","dp_rank":1,"seq_hashes":[1,2],"base_block_idx":0,"parent_hash":null,"token_ids":[1,2,3,4]}`,
			`{"event_id":8,"event_type":"stored","block_size":2,"medium":"cpu","seq_hashes":[3],"base_block_idx":2,"parent_hash":null,"token_ids":[5,6]}`,
			`{"event_type":"removed","dp_rank":"0","seq_hashes":[1]}`,
			`{"event_id":9,"event_type":"removed","medium":"cpu","dp_rank":null,"seq_hashes":[1]}`, `{"event_id":10,"event_type":"cleared","dp_rank":1}`}, []string{
			"store r1 #7 host [1 2] [1 2 3 4]/2", "rejected no_parent", "rejected field_type", "remove #9 host [1]", "clear r1 #10"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			var got []string
			for _, p := range c.payloads {
				got = append(got, summaries(t, &d, p)...)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestRouterEventsByPosition are those of older versions, as Rust's MessagePack
// library packs structures.
func TestRouterEventsByPosition(t *testing.T) {
	stored := func(inner ...any) any { return []any{5, pairs{"stored", inner}, 1} }
	block := []any{9, uint64(14643705804678351452), nil}
	for _, c := range []struct {
		name  string
		event any
		want  string
	}{
		{"stored", []any{42, "device", stored(nil, nil, []any{block})}, "store w42 r1 #5 device [9] of [14643705804678351452]/0"},
		{"without a position", []any{42, "disk", stored(8, []any{block})}, "store w42 r1 #5 disk [9] behind 8 of [14643705804678351452]/0"},
		{"without a rank", []any{42, "device", []any{5, pairs{"removed", []any{[]any{1, 2}}}}}, "remove w42 #5 device [1 2]"},
		{"cleared", []any{42, "device", []any{5, "cleared", 0}}, "clear w42 r0 #5"},
		{"a tier's clear", []any{42, "external", []any{5, "cleared", 0}}, "clear w42 r0 #5"},
		{"names inside", []any{42, "device", pairs{"event_id", 5, "data", pairs{"stored", pairs{"blocks", []any{pairs{"tokens_hash", 3, "block_hash", 9}}}}}}, "store w42 #5 device [9] of [3]/0"},
		{"no tier", []any{42, pairs{"event_id", 5, "data", "cleared"}}, "clear w42 #5"},
		{"too short", []any{42, "device", []any{5}}, "rejected missing_field"},
		{"nothing inside", []any{42, "device"}, "rejected no_tag"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			for form, payload := range map[string][]byte{"alone": pack(c.event), "in a batch": batchOf(c.event), "packed": pack([]any{pack(c.event)})} {
				if got := summaries(t, &d, string(payload)); len(got) != 1 || got[0] != c.want {
					t.Errorf("%s: %q, want %q", form, got, c.want)
				}
			}
			var text bytes.Buffer
			if !asJSON(&text, c.event) {
				t.Fatal("no JSON")
			}
			if got := summaries(t, &d, text.String()); len(got) != 1 || got[0] != c.want {
				t.Errorf("JSON: %q, want %q", got, c.want)
			}
		})
	}
}

// TestWrappedPrefixes: no strict prefix of a payload passes for one.
func TestWrappedPrefixes(t *testing.T) {
	for _, text := range []string{j01, j02, j03, j04, j05, j06, j07, j08, j09} {
		var tr transcoder
		packed, err := tr.run([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range [][]byte{[]byte(text), packed} {
			for n := range p {
				var d Decoder
				err := run(&d, p[:n])
				if err == nil || Check(p[:n]) == nil {
					t.Fatalf("%d bytes of %q were taken", n, p)
				}
			}
		}
	}
}

func TestExtraIDs(t *testing.T) {
	key := func(ids ...int) uint64 {
		var list []string
		for k, id := range ids {
			list = append(list, fmt.Sprintf(`{"token_id":%d,"token_extra_id":%d}`, k+1, id))
		}
		_, events, err := Describe([]byte(trtStored("null", `{"block_hash":1,"tokens":[`+strings.Join(list, ",")+`],"cache_level":0}`)))
		if err != nil || len(events) != 1 || events[0].Kind != Store {
			t.Fatal(err, events)
		}
		k := events[0].Keys
		c := content.Append(nil, events[0].Tokens, int(events[0].BlockSize), 0, 1, 1, &k)
		return c[0]
	}
	seen := map[uint64]bool{}
	for _, ids := range [][]int{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {-1, 0}} {
		if h := key(ids...); seen[h] {
			t.Errorf("%v is the content of another", ids)
		} else {
			seen[h] = true
		}
	}
}
