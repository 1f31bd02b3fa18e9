package wire

import "bytes"

// An event of Dynamo's router and one that is pulled from TensorRT-LLM have what
// they say inside of something else:
//
//	{worker_id, storage_tier, residency_domain,              RouterEvent
//	 event: {event_id, dp_rank, data: …}}                    KvCacheEvent
//	[worker_id, storage_tier, [event_id, data, dp_rank]]     the same by position
//	{event_id, window_size, attention_dp_rank, data: …}      TensorRT-LLM
//
//	data: {"stored": {parent_hash, start_position, blocks: [{block_hash, tokens_hash}]}}
//	    | {"removed": {block_hashes}} | "cleared"                     Dynamo
//	    | {"type": "stored", …}                                       see pull.go
//
// Dynamo's blocks are told by the hash of their content, not by tokens:
// [Event.Contents]. Both give a rank to each event instead of to the batch.

// wrapped finds out what an event without a tag of its own says.
func (d *Decoder) wrapped(c *cursor, ev *Event) {
	if d.f.inner != 0 {
		in := cursor{b: c.b, i: d.f.inner}
		d.kvEvent(&in, ev)
	}
	if d.f.reason != ReasonNone {
		return
	}
	if d.f.data == 0 {
		d.reject(ReasonMissingField)
		return
	}
	in := cursor{b: c.b, i: d.f.data}
	switch in.class() {
	case classStr: // a variant without content
		ev.Tag, _ = in.text()
		if string(ev.Tag) == "cleared" && ev.Tier() == TierDevice {
			// The device is the tier that a router event has if it says none,
			// so this is no clear of one tier.
			ev.Medium, ev.HasMedium = nil, false
		}
	case classMap:
		d.data(&in, ev)
	default:
		d.reject(ReasonFieldType)
	}
}

// kvEvent reads the event within a router event.
func (d *Decoder) kvEvent(c *cursor, ev *Event) {
	d.f.data = 0
	switch c.class() {
	case classMap:
		n, _ := c.pairs()
		for ; n > 0 && !c.bad(); n-- {
			switch string(c.key()) {
			case "event_id":
				d.id(c, ev)
			case "data":
				d.f.data = c.i
				c.skip(1)
			case "dp_rank":
				d.ownRank(c, ev)
			default:
				c.skip(1)
			}
		}
	case classArray:
		n, _ := c.array()
		if n < 2 {
			d.reject(ReasonMissingField)
			return
		}
		d.id(c, ev)
		d.f.data = c.i
		c.skip(1)
		if n > 2 {
			d.ownRank(c, ev)
		}
	default:
		d.reject(ReasonFieldType)
	}
}

// position decodes a router event of n slots: the worker's id, its tier, what
// happened. Tags are text, so the number in front tells it.
func (d *Decoder) position(c *cursor, ev *Event, n int) {
	d.worker(c, ev)
	rest := n - 1
	tiered := c.class() == classStr
	if tiered {
		d.medium(c, ev)
		rest--
	}
	if rest > 0 {
		if k := c.class(); k == classMap || tiered && k == classArray {
			d.f.inner = c.i
		}
	}
	if !c.bad() {
		c.skip(rest)
	}
}

// data reads a map of data, with a variant or a type.
func (d *Decoder) data(c *cursor, ev *Event) {
	begin := c.i
	n, _ := c.pairs()
	for ; n > 0 && !c.bad(); n-- {
		switch key := c.key(); string(key) {
		case "stored":
			ev.Tag = key
			d.variant(c, ev, d.storedField)
		case "removed":
			ev.Tag = key
			d.variant(c, ev, d.removedField)
		case "cleared":
			ev.Tag = key
			c.skip(1)
		case "type":
			in := cursor{b: c.b, i: begin}
			d.pull(&in, ev)
			return
		default:
			c.skip(1)
		}
	}
}

// variant reads the content of a variant: fields by name, or by position under
// the number that they have then.
func (d *Decoder) variant(c *cursor, ev *Event, field func(*cursor, *Event, string, int)) {
	switch c.class() {
	case classMap:
		n, _ := c.pairs()
		for ; n > 0 && !c.bad(); n-- {
			field(c, ev, string(c.key()), -1)
		}
	case classArray:
		n, _ := c.array()
		for k := range n {
			field(c, ev, "", k)
		}
	default:
		d.reject(ReasonFieldType)
		c.skip(1)
	}
}

func (d *Decoder) removedField(c *cursor, ev *Event, key string, slot int) {
	if key == "block_hashes" || slot == 0 {
		d.hashList(c, ev)
		return
	}
	c.skip(1)
}

// storedField reads a field of a stored variant. By position the parent comes
// first and the blocks last; older versions have nothing between the two.
func (d *Decoder) storedField(c *cursor, ev *Event, key string, slot int) {
	switch {
	case key == "parent_hash" || slot == 0:
		d.parent(c, ev)
	case key == "start_position" || slot > 0 && c.class() != classArray:
		d.start(c)
	case key == "blocks" || slot > 0:
		d.contentBlocks(c, ev)
	default:
		c.skip(1)
	}
}

// contentBlocks reads blocks that are told by their content hashes.
func (d *Decoder) contentBlocks(c *cursor, ev *Event) {
	n, ok := d.list(c, ReasonFieldType)
	if !ok {
		return
	}
	d.hashes, d.contents = d.hashes[:0], d.contents[:0]
	for ; n > 0; n-- {
		has := [2]bool{}
		field := func(k int, list *[]uint64) {
			if has[k] {
				*list = (*list)[:len(*list)-1] // the last counts
			}
			has[k] = true
			*list = append(*list, d.hash(c))
		}
		switch c.class() {
		case classMap:
			m, _ := c.pairs()
			for ; m > 0 && !c.bad(); m-- {
				switch string(c.key()) {
				case "block_hash":
					field(0, &d.hashes)
				case "tokens_hash":
					field(1, &d.contents)
				default:
					c.skip(1)
				}
			}
		case classArray:
			m, _ := c.array()
			for k := range m {
				switch k {
				case 0:
					field(0, &d.hashes)
				case 1:
					field(1, &d.contents)
				default:
					c.skip(1)
				}
			}
		default:
			c.skip(1)
		}
		if has != [2]bool{true, true} {
			d.reject(ReasonMissingField)
			c.skip(n - 1)
			return
		}
	}
	d.f.hashed = true
	ev.Hashes, ev.Contents, ev.TokensNil = d.hashes, d.contents, true
}

// Fields that only such events have.

func (d *Decoder) worker(c *cursor, ev *Event) {
	if c.null() {
		return
	}
	ev.Worker, _, ev.HasWorker = c.integer()
	if !ev.HasWorker && !c.bad() {
		d.reject(ReasonFieldType)
		c.skip(1)
	}
}

func (d *Decoder) id(c *cursor, ev *Event) {
	var below bool
	if ev.ID, below, ev.HasID = c.integer(); below {
		ev.ID, ev.HasID = 0, false
	} else if !ev.HasID && !c.bad() {
		c.skip(1) // information only
	}
}

// ownRank reads the rank of one event.
func (d *Decoder) ownRank(c *cursor, ev *Event) {
	ev.Rank, ev.HasRank = d.number(c)
}

// start reads how many blocks or tokens a chain has before the event's first
// block. Only whether it has any counts.
func (d *Decoder) start(c *cursor) {
	v, has := d.number(c)
	d.f.behind = has && v != 0
}

// domainOf turns a residency domain into the ownership that means the same.
func (d *Decoder) domainOf(c *cursor, ev *Event) {
	switch name := d.name(c); {
	case len(name) == 0 || string(name) == "worker":
		ev.Ownership = nil
	case string(name) == "cache_owner":
		ev.Ownership = cacheOwner
	default:
		d.reject(ReasonFieldType)
	}
}

// cacheOwner is the ownership of a cache owner's blocks.
var cacheOwner = []byte("kvcr")

// owned reports whether an event is a cache owner's.
func (e *Event) owned() bool { return bytes.Equal(e.Ownership, cacheOwner) }
