package wire

import (
	"fmt"
	"slices"
)

// Description is an event with everything that was sent, for tools and tests.
type Description struct {
	Event // its slices are copies

	// Fields are the event's fields as sent, under the names that map events
	// have. Of an array event, slots behind those that have a name are left
	// out; SGLang's map of optional fields is merged in. Values are nil, bool,
	// int64, uint64 (from 2^63 on), float64, string, []byte, []any and
	// map[string]any.
	Fields map[string]any

	HashBytes   [][]byte // of each hash that was sent as bytes; nil if none was
	ParentBytes []byte   // the parent, if it was sent as bytes

	// BlockKeys are, for each block, its extra keys as sent, without the
	// adapter's name but with the salt; nil if no block has any.
	BlockKeys [][]any
}

// Describe decodes a payload and returns its envelope and all its events. It
// makes the same decisions as a Decoder, allocates freely, and is safe for
// concurrent use. An error is an *Error.
func Describe(payload []byte) (Batch, []Description, error) {
	var d Decoder
	batch, err := d.Reset(payload)
	if err != nil {
		return Batch{}, nil, err
	}
	var all []Description
	for {
		var e Description
		from := d.c.i
		more, err := d.Next(&e.Event)
		if err != nil {
			return Batch{}, nil, err
		}
		if !more {
			return batch, all, nil
		}
		e.own()
		e.Fields = fieldsOf(d.c.b[from:d.c.i])
		e.raw()
		all = append(all, e)
	}
}

// own replaces everything that lies in the Decoder or in the payload.
func (e *Description) own() {
	for _, p := range []*[]byte{&e.Tag, &e.Backend, &e.Model, &e.Medium, &e.LoraName, &e.Salt, &e.SessionID, &e.SpecKind, &e.Locality, &e.Ownership} {
		*p = slices.Clone(*p)
	}
	e.Hashes = slices.Clone(e.Hashes)
	e.Tokens = slices.Clone(e.Tokens)
	e.Contents = slices.Clone(e.Contents)
	e.LookaheadTokens = slices.Clone(e.LookaheadTokens)
	e.Keys.Hashes = slices.Clone(e.Keys.Hashes)
	e.Keys.Ends = slices.Clone(e.Keys.Ends)
}

// raw fills what is derived from Fields.
func (e *Description) raw() {
	hashes, _ := e.Fields["block_hashes"].([]any)
	for i, h := range hashes {
		if b, ok := h.([]byte); ok {
			if e.HashBytes == nil {
				e.HashBytes = make([][]byte, len(hashes))
			}
			e.HashBytes[i] = b
		}
	}
	e.ParentBytes, _ = e.Fields["parent_block_hash"].([]byte)

	keys := make([][]any, len(hashes))
	found := false
	for _, name := range []string{"extra_keys", "mm_keys", "block_mm_infos"} {
		list, _ := e.Fields[name].([]any)
		for i, v := range list {
			if v == nil || i >= len(keys) {
				continue
			}
			items, ok := v.([]any)
			if name != "extra_keys" || !ok {
				items = []any{v}
			}
			adapter := string(e.LoraName)
			for _, item := range items {
				if s, ok := item.(string); ok && s != "" && s == adapter {
					adapter = "" // once, see extraKeys
					continue
				}
				keys[i] = append(keys[i], item)
				found = true
			}
		}
	}
	if found {
		e.BlockKeys = keys
	}
}

// slotNames are the names of the slots of an array event, by tag.
var slotNames = map[Kind][]string{
	Store: {"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium",
		"lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"},
	Remove: {"type", "block_hashes", "medium", "group_idx"},
	Clear:  {"type"},
}

// fieldsOf reads the fields of one event, or none where it is no event.
func fieldsOf(text []byte) map[string]any {
	c := cursor{b: text}
	v := c.value(0)
	if packed, ok := v.([]byte); ok {
		c = cursor{b: packed}
		v = c.value(0)
	}
	switch v := v.(type) {
	case map[string]any:
		return v
	case []any:
		fields := map[string]any{}
		if len(v) == 0 {
			return fields
		}
		tag, _ := v[0].(string)
		kind, _ := kindOf([]byte(tag))
		names := slotNames[kind]
		if names == nil {
			names = slotNames[Clear]
		}
		for i, name := range names[:min(len(names), len(v))] {
			switch slot := v[i].(type) {
			case map[string]any:
				if name == "lora_name" {
					for k, x := range slot {
						fields[k] = x
					}
					continue
				}
			case string:
				if name == "lora_id" {
					name = "lora_name"
				}
			case []any:
				if name == "lora_name" {
					continue
				}
			case nil:
				if fields[name] != nil {
					continue
				}
			}
			fields[name] = v[i]
		}
		return fields
	}
	return nil
}

// maxValueDepth bounds the recursion of value; deeper values read as nil.
const maxValueDepth = 64

// value reads one value of any type.
func (c *cursor) value(depth int) any {
	switch k := c.class(); k {
	case classNil:
		c.skip(1)
	case classBool:
		c.i++
		return c.b[c.i-1] == mTrue
	case classInt:
		v, below, _ := c.integer()
		if !below && v > 1<<63-1 {
			return v
		}
		return int64(v)
	case classFloat:
		return c.float()
	case classStr:
		p, _ := c.text()
		return string(p)
	case classBin:
		p, _ := c.text()
		return slices.Clone(p)
	case classArray, classMap:
		if depth == maxValueDepth {
			c.skip(1)
			return nil
		}
		if k == classArray {
			n, _ := c.array()
			list := make([]any, 0, n)
			for ; n > 0 && !c.bad(); n-- {
				list = append(list, c.value(depth+1))
			}
			return list
		}
		n, _ := c.pairs()
		m := make(map[string]any, n)
		for ; n > 0 && !c.bad(); n-- {
			key := c.value(depth + 1)
			s, ok := key.(string)
			if !ok {
				s = fmt.Sprint(key)
			}
			m[s] = c.value(depth + 1)
		}
		return m
	case classExt:
		from := c.i
		c.skip(1)
		return slices.Clone(c.b[from:c.i])
	}
	return nil
}
