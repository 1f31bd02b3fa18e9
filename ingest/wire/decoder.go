package wire

import "github.com/cairn-kv/cairn/tree/content"

// Decoder decodes payloads, one after the other. The zero value is ready. It is
// not safe for concurrent use; a stream keeps one for its life, because the
// buffers inside are what makes decoding free of allocations.
type Decoder struct {
	// BareMultimodal: every bare string among the extra keys that is not the
	// adapter's name is a multimodal identifier, also where it does not look
	// like one. Set it before the first Reset, for sources known to send such.
	BareMultimodal bool

	c    cursor
	env  envelope
	left int // events still to come

	hashes    []uint64
	tokens    []uint32
	lookahead []uint32
	keys      content.Keys
	canon     canonizer
	contents  []uint64
	seen      hashSet
	json      transcoder

	f      fields
	pulled pullState
	rest   rest
}

// fields is what is known of the event that is being decoded, beside what is in
// the Event already. Offsets are 0 where there is no such field: no field lies
// at the beginning of its text.
type fields struct {
	reason    Reason // the first thing wrong with the event
	alias     []byte // event_type, beside type
	nine      bool   // an array of 9 elements: bare strings may be multimodal ids
	hashed    bool   // has a list of hashes
	parented  bool   // has parent_block_hash
	seqHashes int    // seq_hashes
	parent    int    // parent_hash
	inner     int    // event: a router event's own
	data      int    // data: of a router event or one of TensorRT-LLM
	behind    bool   // the chain has something before the first block
	moved     bool   // a location update, and more to come
	extra     keyList
	mm        keyList
	infos     keyList
	looks     int  // entries of lookahead_token_ids; 0 if it says nothing
	uneven    bool // of different lengths
}

// keyList is a list with one entry per block that was passed over, because what
// it means depends on fields that may follow it.
type keyList struct {
	first int // offset of the first entry that is not nil, 0 if all are
	nils  int // entries before it
	n     int // entries in all
}

// Reset begins the payload of a message and returns its envelope. An error is
// an *Error; nothing of the batch may be applied then. Reset does not look at
// the events: that the batch is sound is known when Next returns false and no
// error.
//
// A payload is MessagePack, or JSON text of the same: its first byte tells. What
// an *Error says about JSON text that could be read is about its MessagePack.
//
// The Decoder keeps payload until the next Reset.
func (d *Decoder) Reset(payload []byte) (Batch, error) {
	d.rest, d.left = rest{}, 0
	if isJSON(payload) {
		var err error
		if payload, err = d.json.run(payload); err != nil {
			d.c = cursor{}
			d.c.fail(err.(*Error).Reason)
			d.c.at = err.(*Error).Offset
			return Batch{}, err
		}
	}
	d.c = cursor{b: payload}
	d.env = d.c.open(false)
	if d.c.bad() {
		return Batch{}, d.c.err()
	}
	d.left = d.env.Events
	d.c.i = d.env.events
	d.shrink()
	return d.env.Batch, nil
}

// Next decodes the next event into ev. It returns false behind the last one,
// with an *Error if the batch is undecodable; nothing that came before may be
// applied then. It stays there when called again.
func (d *Decoder) Next(ev *Event) (bool, error) {
	if d.rest.tag != nil {
		*ev = Event{}
		d.f = fields{}
		d.resume(ev)
		return true, nil
	}
	if d.left == 0 {
		return false, d.finish()
	}
	d.left--
	*ev = Event{}
	d.f = fields{}
	d.event(&d.c, ev, true)
	if len(ev.Contents) > 0 && !ev.HasBlockSize && d.env.BlockSize > 0 {
		ev.BlockSize, ev.HasBlockSize = d.env.BlockSize, true
	}
	if d.c.bad() {
		d.left = 0
		return false, d.c.err()
	}
	return true, nil
}

// finish checks what lies behind the events of an array batch, once. A map
// batch was read to its end in Reset.
func (d *Decoder) finish() error {
	if c := &d.c; !c.bad() && !d.env.whole {
		// The rank is what Reset said: see lastRank. Only that there is one, and
		// that the payload ends where it should, is left to find out.
		c.behind(&d.env)
		d.env.whole = true
	}
	return d.c.err()
}

// keepBuffers is how many elements a buffer may keep beyond one batch. Real
// events stay far below; one giant must not stay resident for every stream.
const keepBuffers = 1 << 16

func (d *Decoder) shrink() {
	if cap(d.hashes) > keepBuffers {
		d.hashes = nil
	}
	if cap(d.tokens) > keepBuffers {
		d.tokens = nil
	}
	if cap(d.lookahead) > keepBuffers {
		d.lookahead = nil
	}
	if cap(d.contents) > keepBuffers {
		d.contents = nil
	}
	if cap(d.keys.Hashes) > keepBuffers || cap(d.keys.Ends) > keepBuffers {
		d.keys = content.Keys{}
	}
	if cap(d.canon.out) > keepBuffers {
		d.canon = canonizer{}
	}
	if len(d.seen.slots) > keepBuffers {
		d.seen = hashSet{}
	}
}

// reject records what is wrong with the event. The first reason stays.
func (d *Decoder) reject(r Reason) {
	if d.f.reason == ReasonNone {
		d.f.reason = r
	}
}

// event decodes one event and leaves the cursor behind it, whatever it is.
func (d *Decoder) event(c *cursor, ev *Event, mayPack bool) {
	switch c.class() {
	case classArray:
		n, _ := c.array()
		d.array(c, ev, n)
	case classMap:
		n, _ := c.pairs()
		d.pairs(c, ev, n)
	case classBin:
		p, _ := c.text()
		if c.bad() {
			return
		}
		if !mayPack {
			d.refuse(ev, ReasonPackedEvent)
			return
		}
		in := cursor{b: p}
		d.event(&in, ev, false)
		if in.over(); in.bad() {
			d.refuse(ev, ReasonPackedEvent)
		}
		return
	default:
		c.skip(1)
		d.refuse(ev, ReasonEventShape)
		return
	}
	if !c.bad() {
		d.settle(c, ev)
	}
}

// refuse makes ev a rejected event, or a skipped one.
func (d *Decoder) refuse(ev *Event, r Reason) {
	ev.Kind, ev.Reason = Rejected, r
	if r.Harmless() {
		ev.Kind = Skipped
	}
	d.rest = rest{}
}

// settle decides what a decoded event is. c is the text it lies in.
func (d *Decoder) settle(c *cursor, ev *Event) {
	if ev.Tag == nil && d.f.alias == nil && d.f.inner|d.f.data != 0 {
		d.wrapped(c, ev)
		switch {
		case d.f.reason != ReasonNone:
			d.refuse(ev, d.f.reason)
			return
		case d.f.moved:
			d.decide(c, ev, Store)
			return
		}
	}
	kind, known := kindOf(ev.Tag)
	if !known && d.f.alias != nil {
		if k, ok := kindOf(d.f.alias); ok || ev.Tag == nil {
			kind, known = k, ok
			ev.Tag = d.f.alias
		}
	}
	if !known {
		if ev.Tag == nil {
			d.refuse(ev, ReasonNoTag)
		} else {
			d.refuse(ev, ReasonUnknownTag)
		}
		return
	}
	d.decide(c, ev, kind)
}

// decide makes a decoded event one of a kind.
func (d *Decoder) decide(c *cursor, ev *Event, kind Kind) {
	ev.Kind = kind
	if kind != Clear {
		d.aliases(c, ev)
		if !d.f.hashed {
			d.reject(ReasonMissingField)
		}
	}
	if kind == Store && d.f.reason == ReasonNone {
		d.store(c, ev)
	}
	if d.f.reason != ReasonNone {
		d.refuse(ev, d.f.reason)
	}
}

// aliases reads what stands under another name only.
func (d *Decoder) aliases(c *cursor, ev *Event) {
	if !d.f.hashed && d.f.seqHashes != 0 {
		in := cursor{b: c.b, i: d.f.seqHashes}
		d.hashList(&in, ev)
	}
	if !d.f.parented && d.f.parent != 0 {
		in := cursor{b: c.b, i: d.f.parent}
		d.parent(&in, ev)
	}
}

// kindOf maps the tags of all dialects.
func kindOf(tag []byte) (Kind, bool) {
	switch string(tag) {
	case "BlockStored", "stored":
		return Store, true
	case "BlockRemoved", "removed":
		return Remove, true
	case "AllBlocksCleared", "cleared":
		return Clear, true
	}
	return Skipped, false
}
