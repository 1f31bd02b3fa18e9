package wire

// array decodes an event of n slots, which mean what their position says and
// are checked by type. What lies behind the slots of the layout is ignored.
func (d *Decoder) array(c *cursor, ev *Event, n int) {
	if n == 0 {
		return
	}
	tag, ok := c.str()
	if !ok {
		if n > 1 && c.class() == classInt {
			d.position(c, ev, n)
		} else {
			c.skip(n)
		}
		return
	}
	ev.Tag = tag
	rest := n - 1
	switch kind, _ := kindOf(tag); kind {
	case Store:
		rest -= d.storeArray(c, ev, n)
	case Remove:
		if n > 1 {
			d.hashList(c, ev)
		}
		if n > 2 {
			d.medium(c, ev)
		}
		if n > 3 {
			d.group(c, ev)
		}
		rest -= min(3, rest)
	}
	if !c.bad() {
		c.skip(rest)
	}
}

// storeSlots are the slots behind the tag of the longest known layout (V6).
const storeSlots = 11

// storeArray decodes the slots of a store and returns how many it has read.
func (d *Decoder) storeArray(c *cursor, ev *Event, n int) int {
	d.f.nine = n == 9
	if n < 5 {
		d.reject(ReasonMissingField)
	}
	read := min(n-1, storeSlots)
	for slot := 1; slot <= read && !c.bad(); slot++ {
		switch slot {
		case 1:
			d.hashList(c, ev)
		case 2:
			d.parent(c, ev)
		case 3:
			d.tokenList(c, ev)
		case 4:
			d.blockSize(c, ev)
		case 5: // lora_id; a fork has the adapter's name here
			d.lora(c, ev)
		case 6:
			d.medium(c, ev)
		case 7: // lora_name; SGLang has a map of what else there is, a fork a list
			d.slot7(c, ev)
		case 8:
			k := c.class()
			ev.KeysHaveSlot = k == classArray || k == classNil
			if ev.KeysHaveSlot {
				d.keyList(c, &d.f.extra)
			} else {
				c.skip(1)
			}
		case 9:
			d.group(c, ev)
		case 10:
			ev.SpecKind = d.name(c)
		case 11:
			d.window(c, ev)
		}
	}
	return read
}

// slot7 reads the adapter's name, or SGLang's map of optional fields.
func (d *Decoder) slot7(c *cursor, ev *Event) {
	switch c.class() {
	case classStr:
		ev.LoraName, _ = c.text()
	case classMap:
		n, _ := c.pairs()
		for ; n > 0 && !c.bad(); n-- {
			switch string(c.key()) {
			case "cache_salt":
				ev.Salt = salt(d.name(c))
			case "session_id":
				ev.SessionID = c.label()
			case "lora_name":
				ev.LoraName = d.name(c)
			default:
				c.skip(1)
			}
		}
	default:
		c.skip(1)
	}
}

// pairs decodes an event of n fields with names, in any order. Unknown ones are
// ignored. Of a name that occurs twice the last counts.
func (d *Decoder) pairs(c *cursor, ev *Event, n int) {
	named, salted := false, false
	for ; n > 0 && !c.bad(); n-- {
		switch key := c.key(); string(key) {
		case "type":
			ev.Tag = c.label()
		case "event_type":
			d.f.alias = c.label()
		case "block_hashes":
			d.hashList(c, ev)
		case "seq_hashes":
			d.f.seqHashes = c.i
			c.skip(1)
		case "parent_block_hash":
			d.parent(c, ev)
			d.f.parented = ev.HasParent
		case "parent_hash":
			d.f.parent = c.i
			c.skip(1)
		case "token_ids":
			d.tokenList(c, ev)
		case "block_size":
			d.blockSize(c, ev)
		case "lora_id":
			d.lora(c, ev)
		case "lora_name":
			ev.LoraName = d.name(c)
			named = true
		case "medium":
			d.medium(c, ev)
		case "extra_keys":
			ev.KeysHaveSlot = true
			d.keyList(c, &d.f.extra)
		case "mm_keys":
			ev.KeysHaveSlot = true
			d.keyList(c, &d.f.mm)
		case "block_mm_infos":
			ev.KeysHaveSlot = true
			d.keyList(c, &d.f.infos)
		case "group_idx":
			d.group(c, ev)
		case "kv_cache_spec_kind":
			ev.SpecKind = d.name(c)
		case "kv_cache_spec_sliding_window":
			d.window(c, ev)
		case "cache_salt":
			ev.Salt = salt(d.name(c))
			salted = true
		case "additional_salt":
			if s := d.name(c); len(s) > 0 {
				ev.Salt = salt(s)
			}
		case "session_id":
			ev.SessionID = c.label()
		case "locality":
			ev.Locality = d.name(c)
		case "ownership":
			ev.Ownership = d.name(c)
		case "lookahead_token_ids":
			d.lookaheads(c)
		case "event":
			d.f.inner = c.i
			c.skip(1)
		case "data":
			d.f.data = c.i
			c.skip(1)
		case "worker_id":
			d.worker(c, ev)
		case "storage_tier":
			d.medium(c, ev)
		case "residency_domain":
			d.domainOf(c, ev)
		case "event_id":
			d.id(c, ev)
		case "dp_rank", "attention_dp_rank":
			d.ownRank(c, ev)
		case "window_size":
			d.window(c, ev)
		case "layer_group_id":
			d.group(c, ev)
		case "backend_id":
			ev.Backend = c.label()
		case "model_name":
			ev.Model = c.label()
		case "base_block_idx":
			d.start(c)
		case "content_hashes", "content_unit", "content_lookahead", "content_keys":
			d.masked(c, ev, string(key))
		default:
			c.skip(1)
		}
	}
	// vLLM leaves extra_keys out where it does not know them, and writes
	// lora_name always. SGLang has no such list, but names its salts.
	if named && !salted {
		ev.KeysHaveSlot = true
	}
}

// label reads a text that is information only, or passes over what is none.
func (c *cursor) label() []byte {
	p, ok := c.text()
	if !ok && !c.bad() {
		c.skip(1)
	}
	return p
}

// name reads a text that the meaning of the event depends on: nil is none, any
// other type makes the event a bad one.
func (d *Decoder) name(c *cursor) []byte {
	if c.null() {
		return nil
	}
	p, ok := c.text()
	if !ok && !c.bad() {
		d.reject(ReasonFieldType)
		c.skip(1)
	}
	return p
}

func (d *Decoder) medium(c *cursor, ev *Event) {
	if c.null() {
		ev.Medium, ev.HasMedium = nil, false
		return
	}
	ev.Medium = d.name(c)
	ev.HasMedium = true
}

// number reads an integer that the meaning of the event depends on.
func (d *Decoder) number(c *cursor) (v int64, has bool) {
	if c.null() {
		return 0, false
	}
	if c.class() != classInt {
		if !c.bad() {
			d.reject(ReasonFieldType)
			c.skip(1)
		}
		return 0, false
	}
	v, ok := c.int64()
	if !ok {
		d.reject(ReasonFieldType)
	}
	return v, ok
}

func (d *Decoder) blockSize(c *cursor, ev *Event) {
	ev.BlockSize, ev.HasBlockSize = d.number(c)
}

func (d *Decoder) group(c *cursor, ev *Event) {
	ev.Group, ev.HasGroup = d.number(c)
}

// window reads the sliding window, which no answer depends on.
func (d *Decoder) window(c *cursor, ev *Event) {
	if c.class() != classInt {
		ev.SlidingWindow, ev.HasSlidingWindow = 0, false
		c.skip(1)
		return
	}
	ev.SlidingWindow, ev.HasSlidingWindow = c.int64()
}

// lora reads the adapter's number, or its name where a fork has that.
func (d *Decoder) lora(c *cursor, ev *Event) {
	ev.LoraID, ev.HasLoraID = 0, false
	switch c.class() {
	case classInt:
		ev.LoraID, ev.HasLoraID = c.int64()
	case classStr:
		ev.LoraName, _ = c.text()
	default:
		c.skip(1)
	}
}

// saltPrefix is what Dynamo puts in front of a namespace to make it a salt.
const saltPrefix = "dynamo-cache-salt:"

// salt returns the salt that a text means.
func salt(p []byte) []byte {
	if len(p) >= len(saltPrefix) && string(p[:len(saltPrefix)]) == saltPrefix {
		return p[len(saltPrefix):]
	}
	return p
}
