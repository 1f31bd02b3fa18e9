package corpus

import "math/rand/v2"

// cache is what one tier of an engine keeps, least recently used first to go.
// Blocks that a request is working with are pinned: they are not in the order
// and stay. Of one request the deeper blocks are older, so leaves go first.
type cache struct {
	at    map[uint32]int32 // block → entry
	all   []entry
	free  []int32
	first int32 // oldest unpinned, -1: none
	last  int32
	idle  int // unpinned
}

type entry struct {
	block      uint32
	pins       int32
	copy       bool // of a block that is there already: not found, and evicted by itself
	prev, next int32
}

func newCache() *cache { return &cache{at: map[uint32]int32{}, first: -1, last: -1} }

// len counts copies too.
func (c *cache) len() int { return len(c.all) - len(c.free) }

func (c *cache) has(block uint32) bool {
	_, ok := c.at[block]
	return ok
}

// pin keeps a block that is there.
func (c *cache) pin(block uint32) {
	i := c.at[block]
	if c.all[i].pins == 0 {
		c.unlink(i)
	}
	c.all[i].pins++
}

// unpin lets a block go that was pinned; it is the youngest then.
func (c *cache) unpin(block uint32) { c.release(c.at[block]) }

func (c *cache) release(i int32) {
	if c.all[i].pins--; c.all[i].pins == 0 {
		c.append(i)
	}
}

// insert puts a block in that is not there, pinned once.
func (c *cache) insert(block uint32) { c.at[block] = c.add(entry{block: block, pins: 1}) }

// double puts a copy of a block in that is there, pinned once; release lets it
// go.
func (c *cache) double(block uint32) int32 { return c.add(entry{block: block, pins: 1, copy: true}) }

func (c *cache) add(e entry) int32 {
	var i int32
	if n := len(c.free); n > 0 {
		i, c.free = c.free[n-1], c.free[:n-1]
	} else {
		i = int32(len(c.all))
		c.all = append(c.all, entry{})
	}
	e.prev, e.next = -1, -1
	c.all[i] = e
	return i
}

// evict takes the oldest block out that is not pinned. With random given, one
// time in four it is any block that is not pinned, which leaves a hole if others
// are behind it.
func (c *cache) evict(random *rand.Rand) (e entry, ok bool) {
	i := c.first
	if i < 0 {
		return entry{}, false
	}
	if random != nil && random.IntN(4) == 0 {
		for range 8 {
			if k := int32(random.IntN(len(c.all))); c.all[k].pins == 0 && c.has(c.all[k].block) && c.at[c.all[k].block] == k {
				i = k
				break
			}
		}
	}
	e = c.all[i]
	c.unlink(i)
	if !e.copy {
		delete(c.at, e.block)
	}
	c.free = append(c.free, i)
	return e, true
}

func (c *cache) unlink(i int32) {
	e := &c.all[i]
	if e.prev >= 0 {
		c.all[e.prev].next = e.next
	} else {
		c.first = e.next
	}
	if e.next >= 0 {
		c.all[e.next].prev = e.prev
	} else {
		c.last = e.prev
	}
	c.idle--
}

func (c *cache) append(i int32) {
	e := &c.all[i]
	e.prev, e.next = c.last, -1
	if c.last >= 0 {
		c.all[c.last].next = i
	} else {
		c.first = i
	}
	c.last = i
	c.idle++
}
