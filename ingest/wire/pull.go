package wire

import (
	"math/bits"
	"strconv"

	"github.com/cairn-kv/cairn/tree/content"
)

// TensorRT-LLM's events, as its API gives them and files record them:
//
//	created  blocks of each cache level, once per window at the beginning
//	stored   parent_hash, blocks: [{block_hash, cache_level, mm_keys,
//	                                tokens: [{token_id, token_extra_id}]}]
//	removed  block_hashes, wherever they are
//	updated  block_hash, cache_level: {old_value, new_value}: moved
//
// They tell neither their block size nor which window holds whole prefixes, so a
// Decoder remembers the largest window, the largest block and the farthest level
// it has seen. Events of smaller windows are skipped. A smaller block is one that is
// not full: it and what comes behind it in its event is left out. "created" with
// event_id 0 begins anew, as the engine does.
//
// A block is on one level at a time. A move is two events, a location update and
// a removal; a removal is one for each level that there is; blocks of one event
// on several levels are an event each. What is still to come of one lies in
// Decoder.rest.

// pullState is what a Decoder remembers of TensorRT-LLM's events.
type pullState struct {
	window int64 // the largest, 0 before the first
	size   int   // tokens of a full block, 0 before the first
	far    int64 // the last level
}

// maxLevel bounds the levels that a removal is repeated for. There are two.
const maxLevel = 7

// rest is what the next call of Next returns before it goes on.
type rest struct {
	left   cursor // at the blocks that are still to come
	blocks int    // 0: those of the event before leave some levels
	from   int64  // the first of these
	to     int64  // and the last

	// of the event
	tag     []byte
	parent  uint64 // of the blocks
	rank    int64
	hasRank bool
	group   int64
	grouped bool
}

// levels are the media of cache levels.
var levels = [...][]byte{[]byte("GPU"), []byte("CPU")}

func level(v int64) []byte {
	if v >= 0 && v < int64(len(levels)) {
		return levels[v]
	}
	return strconv.AppendInt([]byte("CACHE_LEVEL_"), v, 10) // met nowhere yet
}

// pull reads the data of an event.
func (d *Decoder) pull(c *cursor, ev *Event) {
	var blocks, hash, moved int
	n, _ := c.pairs()
	for ; n > 0 && !c.bad(); n-- {
		switch string(c.key()) {
		case "type":
			ev.Tag = c.label()
		case "parent_hash":
			d.parent(c, ev)
		case "block_hashes":
			d.hashList(c, ev)
		case "lora_id":
			d.lora(c, ev)
		case "blocks":
			blocks = c.i
			c.skip(1)
		case "block_hash":
			hash = c.i
			c.skip(1)
		case "cache_level":
			moved = c.i
			c.skip(1)
		default:
			c.skip(1)
		}
	}
	if d.f.reason != ReasonNone {
		return
	}
	created := string(ev.Tag) == "created"
	if created && ev.HasID && ev.ID == 0 {
		d.pulled = pullState{}
	}
	if w := ev.SlidingWindow; ev.HasSlidingWindow {
		if w < d.pulled.window {
			d.reject(ReasonWindow)
			return
		}
		d.pulled.window = w
		ev.SlidingWindow, ev.HasSlidingWindow = 0, false // it holds whole prefixes
	}
	at := cursor{b: c.b}
	switch string(ev.Tag) {
	case "created":
		d.reject(ReasonNoEffect)
	case "stored":
		if at.i = blocks; blocks == 0 {
			d.reject(ReasonMissingField)
			return
		}
		n, ok := at.array()
		if !ok {
			d.reject(ReasonFieldType)
			return
		}
		d.pullBlocks(&at, ev, n)
	case "updated":
		d.move(c.b, ev, hash, moved)
	case "removed":
		ev.Medium, ev.HasMedium = level(0), true
		if d.pulled.far > 0 && d.f.hashed {
			d.rest = rest{from: 1, to: d.pulled.far}
			d.rest.of(ev)
		}
	}
}

// move makes a location update of an event, and leaves the removal to come.
func (d *Decoder) move(b []byte, ev *Event, hash, moved int) {
	if hash == 0 || moved == 0 {
		d.reject(ReasonMissingField)
		return
	}
	from, to, ok := d.levelDiff(&cursor{b: b, i: moved})
	if d.f.reason != ReasonNone {
		return
	}
	if !ok || from == to {
		d.reject(ReasonNoEffect) // a priority, perhaps
		return
	}
	d.hashes = append(d.hashes[:0], d.hash(&cursor{b: b, i: hash}))
	if d.f.reason != ReasonNone {
		return
	}
	d.f.hashed, d.f.moved = true, true
	ev.Hashes, ev.TokensNil = d.hashes, true
	ev.Medium, ev.HasMedium = level(to), true
	d.rest = rest{from: from, to: from}
	d.rest.of(ev)
	d.reach(to)
}

// reach notes that there is a level.
func (d *Decoder) reach(v int64) { d.pulled.far = max(d.pulled.far, min(v, maxLevel)) }

// of keeps what all parts of an event have in common.
func (r *rest) of(ev *Event) {
	r.tag, r.rank, r.hasRank, r.group, r.grouped = ev.Tag, ev.Rank, ev.HasRank, ev.Group, ev.HasGroup
}

// levelDiff reads {old_value, new_value}; ok is false where there is nil.
func (d *Decoder) levelDiff(c *cursor) (from, to int64, ok bool) {
	if c.null() {
		return 0, 0, false
	}
	n, ok := c.pairs()
	if !ok {
		d.reject(ReasonFieldType)
		return 0, 0, false
	}
	var hasFrom, hasTo bool
	for ; n > 0 && !c.bad(); n-- {
		switch string(c.key()) {
		case "old_value":
			from, hasFrom = d.number(c)
		case "new_value":
			to, hasTo = d.number(c)
		default:
			c.skip(1)
		}
	}
	if !hasFrom || !hasTo {
		d.reject(ReasonMissingField)
	}
	return from, to, true
}

// pullBlocks reads the n blocks at c, or those of the first one's level, or
// those before one that is not full.
func (d *Decoder) pullBlocks(c *cursor, ev *Event, n int) {
	d.hashes, d.tokens = d.hashes[:0], d.tokens[:0]
	d.keys.Reset()
	d.f.hashed = true
	var on int64
	for k := range n {
		before, from := *c, len(d.tokens)
		b := d.pullBlock(c, ev)
		if d.f.reason != ReasonNone {
			return
		}
		if k > 0 && b.level != on {
			d.hashes, d.tokens = d.hashes[:k], d.tokens[:from]
			d.rest = rest{left: before, blocks: n - k, parent: d.hashes[k-1]}
			d.rest.of(ev)
			break
		}
		on = b.level
		if !d.full(len(d.tokens)-from, k == 0 && n == 1) {
			d.hashes, d.tokens = d.hashes[:k], d.tokens[:from]
			if k == 0 {
				d.reject(ReasonPartialBlock)
				return
			}
			break
		}
		d.keys.Ends = append(d.keys.Ends, len(d.keys.Hashes))
	}
	ev.Hashes, ev.Tokens = d.hashes, d.tokens
	ev.BlockSize, ev.HasBlockSize = int64(d.pulled.size), true
	ev.Medium, ev.HasMedium = level(on), true
	d.reach(on)
	d.keys.Ends = d.keys.Ends[:min(len(d.keys.Ends), len(d.hashes))]
	if end := len(d.keys.Ends); end > 0 && d.keys.Ends[end-1] > 0 {
		d.keys.Hashes = d.keys.Hashes[:d.keys.Ends[end-1]]
		ev.Keys = d.keys
	}
}

// full reports whether a block of so many tokens is a full one. Before the first
// is known, one that comes alone may be the end of a short prompt: full blocks
// have a power of two.
func (d *Decoder) full(tokens int, alone bool) bool {
	size := d.pulled.size
	switch {
	case tokens == 0 || tokens < size:
		return false
	case size == 0 && alone && (tokens == 1 || bits.OnesCount(uint(tokens)) != 1):
		return false
	}
	d.pulled.size = tokens
	return true
}

// pullBlock appends one block to hashes, tokens and keys, and returns its level.
func (d *Decoder) pullBlock(c *cursor, ev *Event) (b struct{ level int64 }) {
	n, ok := c.pairs()
	if !ok {
		d.reject(ReasonFieldType)
		return
	}
	named := false
	for ; n > 0 && !c.bad(); n-- {
		switch string(c.key()) {
		case "block_hash":
			if h := d.hash(c); !named {
				d.hashes = append(d.hashes, h)
			} else {
				d.hashes[len(d.hashes)-1] = h
			}
			named = true
		case "cache_level":
			b.level, _ = d.number(c)
		case "tokens":
			d.pullTokens(c)
		case "mm_keys":
			ev.KeysHaveSlot, ev.KeysStated = true, true
			if !c.null() {
				d.objects(c, "hash")
			}
		default:
			c.skip(1)
		}
	}
	if !named {
		d.reject(ReasonMissingField)
	}
	return
}

// pullTokens reads the tokens of a block: objects with token_id, or numbers. An
// extra id makes a token another one; all of a block are one opaque key of it.
func (d *Decoder) pullTokens(c *cursor) {
	n, ok := d.list(c, ReasonTokenType)
	if !ok {
		return
	}
	var extra canonizer
	for k := range n {
		m, ok := c.pairs()
		if !ok {
			d.tokens = append(d.tokens, d.token(c))
			continue
		}
		found := false
		for ; m > 0 && !c.bad(); m-- {
			switch string(c.key()) {
			case "token_id":
				v := d.token(c)
				if found {
					d.tokens = d.tokens[:len(d.tokens)-1]
				}
				d.tokens = append(d.tokens, v)
				found = true
			case "token_extra_id":
				if id, _ := d.number(c); id != 0 {
					extra.out = append(extra.out, fixArray+2)
					extra.integer(uint64(k), false)
					extra.integer(uint64(id), id < 0)
				}
			default:
				c.skip(1)
			}
		}
		if !found {
			d.reject(ReasonTokenType)
		}
	}
	if len(extra.out) > 0 {
		d.keys.Hashes = append(d.keys.Hashes, content.Opaque(extra.out))
	}
}

// resume decodes what is left of the event before.
func (d *Decoder) resume(ev *Event) {
	r := d.rest
	d.rest = rest{}
	ev.Tag, ev.Rank, ev.HasRank, ev.Group, ev.HasGroup = r.tag, r.rank, r.hasRank, r.group, r.grouped
	if r.blocks == 0 {
		ev.Kind, ev.Hashes = Remove, d.hashes // which nobody has touched
		ev.Medium, ev.HasMedium = level(r.from), true
		if r.from < r.to {
			r.from++
			d.rest = r
		}
		return
	}
	ev.Parent, ev.HasParent = r.parent, true
	d.pullBlocks(&r.left, ev, r.blocks)
	d.decide(&r.left, ev, Store)
}
