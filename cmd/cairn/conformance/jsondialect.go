package conformance

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/tree/content"
)

// Dialects in JSON. They say less than vLLM's maps, and some of it in another
// way.

// evenSize is whether a store has whole blocks, as dialects without a block size
// must.
func (e *event) evenSize(size int) bool {
	return e.op != "store" || e.blockSize == size && len(e.tokens) == size*len(e.hashes)
}

// inJSON reports whether all names of an event are numbers.
func (e *event) inJSON() bool {
	for _, n := range e.hashes {
		if n.bytes != nil {
			return false
		}
	}
	return e.parent == nil || e.parent.bytes == nil
}

// asJSON writes msgpack as the same in JSON; not ok if there is no such thing,
// as for a key that is nil.
func asJSON(packed []byte) (text []byte, ok bool) {
	var b bytes.Buffer
	_, err := msgp.UnmarshalAsJSON(&b, packed)
	return b.Bytes(), err == nil
}

func (n *name) json() string {
	switch {
	case n == nil:
		return "null"
	case n.negative:
		return strconv.FormatInt(int64(n.value), 10)
	}
	return strconv.FormatUint(n.value, 10)
}

func namesInJSON(names []name) string {
	var list []string
	for i := range names {
		list = append(list, names[i].json())
	}
	return "[" + strings.Join(list, ",") + "]"
}

// pulled writes an event as TensorRT-LLM's interface gives it. That has no
// clear, so to empty a source another dialect's is used.
func (e *event) pulled(rank int) string {
	if e.op == "clear" {
		return fmt.Sprintf(`{"type":"AllBlocksCleared","dp_rank":%d}`, rank)
	}
	data := `"type":"removed","block_hashes":` + namesInJSON(e.hashes)
	if e.op == "store" {
		var blocks []string
		for i := range e.hashes {
			var tokens []string
			for _, t := range e.tokens[i*e.blockSize : (i+1)*e.blockSize] {
				tokens = append(tokens, fmt.Sprintf(`{"type":"unique_token","token_id":%d,"token_extra_id":0}`, t))
			}
			blocks = append(blocks, fmt.Sprintf(`{"type":"stored_block","block_hash":%s,"tokens":[%s],"cache_level":0,"priority":35,"mm_keys":[]}`,
				e.hashes[i].json(), strings.Join(tokens, ",")))
		}
		data = fmt.Sprintf(`"type":"stored","parent_hash":%s,"blocks":[%s]`, e.parent.json(), strings.Join(blocks, ","))
	}
	return fmt.Sprintf(`{"event_id":1,"data":{%s},"window_size":4096,"attention_dp_rank":%d}`, data, rank)
}

// routerTiers are Dynamo's names of tiers.
var routerTiers = map[string]string{"GPU": "device", "CPU": "host_pinned", "FS": "disk"}

// routed writes an event as Dynamo's router has it: with the content of blocks,
// and no tokens.
func (e *event) routed(rank int) string {
	data := `"cleared"`
	switch e.op {
	case "remove":
		data = `{"removed":{"block_hashes":` + namesInJSON(e.hashes) + `}}`
	case "store":
		seeds := content.MakeSeeds(e.adapter, e.salt)
		first := seeds.First
		if e.parent != nil {
			first = seeds.Rest
		}
		var blocks []string
		for i, c := range content.Append(nil, e.tokens, e.blockSize, 0, first, seeds.Rest, nil) {
			blocks = append(blocks, fmt.Sprintf(`{"block_hash":%s,"tokens_hash":%d,"mm_extra_info":null}`, e.hashes[i].json(), c))
		}
		data = fmt.Sprintf(`{"stored":{"parent_hash":%s,"start_position":null,"blocks":[%s]}}`, e.parent.json(), strings.Join(blocks, ","))
	}
	return fmt.Sprintf(`{"worker_id":42,"storage_tier":%q,"event":{"event_id":1,"data":%s,"dp_rank":%d}}`, routerTiers[e.medium], data, rank)
}
