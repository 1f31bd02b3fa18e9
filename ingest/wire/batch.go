package wire

// envelope is what surrounds the events of a batch.
type envelope struct {
	Batch
	events int  // offset of the first event, 0 if the payload is one
	tail   int  // values behind the events: the rank and whatever follows it
	whole  bool // read to its end
}

// open reads the envelope of a payload, which is
//
//	[ts, [event, …], rank, …]                   engines
//	{ts, events: [event, …], rank, block_size}  the same with names
//	[event, …]                                  a list of events, maps or packed ones
//	event                                       alone: a map, or one that begins
//	                                            with a known tag or a worker's id
//
// The rank of an array batch lies behind
// the events; it is looked up from the end of the payload where that is certain
// (see lastRank), and by skipping over the events otherwise. With full set it
// is always the latter, which also checks the structure of all of them.
func (c *cursor) open(full bool) (e envelope) {
	switch c.class() {
	case classArray:
		begin := c.i
		n, _ := c.array()
		switch c.loose(n) {
		case looseList:
			e.Events, e.events = n, c.i
		case looseEvent:
			c.i = begin
			e.Events, e.events = 1, c.i
		}
		if e.Events > 0 {
			if full {
				c.skip(e.Events)
				c.behind(&e)
				e.whole = true
			}
			return
		}
		if n < 2 {
			c.fail(ReasonBatchShape)
			return
		}
		c.time(&e)
		e.Events = c.list()
		e.events = c.i
		e.tail = n - 2
		if c.bad() {
			return
		}
		if !full && (e.tail == 0 || e.tail == 1 && lastRank(c.b[c.i:], &e)) {
			return
		}
		c.skip(e.Events)
		c.behind(&e)
		e.whole = true
	case classMap:
		n, _ := c.pairs()
		found, event := false, false
		rank := 0 // where it stands: of a batch, or of the event
		for ; n > 0 && !c.bad(); n-- {
			switch string(c.key()) {
			case "ts":
				c.time(&e)
			case "events":
				e.Events = c.list()
				e.events = c.i
				c.skip(e.Events)
				found = true
			case "data_parallel_rank", "attn_dp_rank", "dp_rank":
				rank = c.i
				c.skip(1)
			case "block_size":
				if v, ok := c.int64(); ok {
					e.BlockSize = max(0, v)
				} else if !c.bad() && c.class() != classInt {
					c.skip(1)
				}
			case "type", "event_type", "event", "data":
				event = true
				c.skip(1)
			default:
				c.skip(1)
			}
		}
		switch {
		case found:
			if in := (cursor{b: c.b, i: rank}); rank != 0 && !c.bad() {
				if in.rank(&e); in.bad() {
					c.i = in.at
					c.fail(in.why)
				}
			}
		case event:
			e = envelope{Batch: Batch{Events: 1}}
		default:
			c.fail(ReasonBatchShape)
		}
		c.over()
		e.whole = true
	default:
		c.fail(ReasonBatchShape)
	}
	return
}

// loose tells what an array of n, the first of which comes next, is instead of
// a batch.
func (c *cursor) loose(n int) looseness {
	if n == 0 || c.bad() {
		return looseNot
	}
	switch in := *c; c.class() {
	case classMap, classBin, classArray:
		return looseList
	case classStr:
		tag, _ := in.text()
		if _, known := kindOf(tag); known {
			return looseEvent
		}
	case classInt:
		in.integer()
		if n > 1 && (in.class() == classStr || in.class() == classMap) {
			return looseEvent
		}
	}
	return looseNot
}

// looseness is how events come without an envelope.
type looseness uint8

const (
	looseNot looseness = iota
	looseList
	looseEvent
)

// behind reads what an array batch has behind its events.
func (c *cursor) behind(e *envelope) {
	if e.tail > 0 {
		c.rank(e)
		c.skip(e.tail - 1)
	}
	c.over()
}

// over fails unless the payload ends here.
func (c *cursor) over() {
	if c.i != len(c.b) {
		c.fail(ReasonTrailingBytes)
	}
}

// list reads the header of the event list.
func (c *cursor) list() int {
	n, ok := c.array()
	if !ok {
		c.fail(ReasonBatchShape)
		return 0
	}
	return n
}

// time reads the time of a batch: float seconds, or integer milliseconds. It is
// information only; anything else is passed over.
func (c *cursor) time(e *envelope) {
	e.Seconds, e.Millis, e.IsMillis = 0, 0, false
	switch c.class() {
	case classFloat:
		// NaN and the infinities are no times, and not even equal to themselves.
		if s := c.float(); s-s == 0 {
			e.Seconds = s
		}
	case classInt:
		ms, below, _ := c.integer()
		e.IsMillis = true
		if !below {
			e.Millis = ms
		}
	default:
		c.skip(1)
	}
}

// rank reads the rank of a batch. One that cannot be read makes the batch
// undecodable: its blocks belong to nobody.
func (c *cursor) rank(e *envelope) {
	e.HasRank, e.Rank = false, 0
	if c.null() || c.bad() {
		return
	}
	v, ok := c.int64()
	if !ok {
		c.fail(ReasonRank)
	}
	e.HasRank, e.Rank = ok, v
}

// lastRank reads the rank, the last value of the payload whose events begin at
// b, from the payload's end. It returns false where only a walk can tell.
//
// If the value is nil or a one-byte integer, it is the last byte. If it is a
// longer integer, its header lies 1, 2, 4 or 8 bytes before that. So where none
// of these places holds such a header, the last byte is the value, or the
// payload is not sound, or the value no rank; the end of the batch finds both.
func lastRank(b []byte, e *envelope) bool {
	n := len(b)
	if n == 0 {
		return false
	}
	for k, header := range [...][2]byte{{mUint8, mInt8}, {mUint16, mInt16}, {mUint32, mInt32}, {mUint64, mInt64}} {
		if i := n - 1 - 1<<k; i >= 0 && (b[i] == header[0] || b[i] == header[1]) {
			return false
		}
	}
	switch t := b[n-1]; {
	case t == mNil:
		e.HasRank, e.Rank = false, 0
	case classes[t] == classInt && sizes[t] == 1:
		e.HasRank, e.Rank = true, int64(int8(t))
	default:
		return false
	}
	return true
}

// Check walks the structure of a payload without decoding its events. It
// returns an *Error exactly where Reset or a run of Next to the end would, so
// that a batch may be committed piece by piece behind it. It does not allocate
// unless it fails or the payload is JSON, and is safe for concurrent use.
func Check(payload []byte) error {
	if isJSON(payload) {
		var t transcoder
		var err error
		if payload, err = t.run(payload); err != nil {
			return err
		}
	}
	c := cursor{b: payload}
	c.open(true)
	return c.err()
}

// err returns what went wrong, or nil.
func (c *cursor) err() error {
	if !c.bad() {
		return nil
	}
	return &Error{Reason: c.why, Offset: c.at, Len: len(c.b)}
}
