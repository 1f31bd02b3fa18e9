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
	copies     int32 // announced
	prev, next int32
}

func newCache() *cache { return &cache{at: map[uint32]int32{}, first: -1, last: -1} }

func (c *cache) len() int { return len(c.at) }

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
func (c *cache) unpin(block uint32) {
	i := c.at[block]
	if c.all[i].pins--; c.all[i].pins == 0 {
		c.append(i)
	}
}

// insert puts a block in that is not there, pinned once.
func (c *cache) insert(block uint32) {
	var i int32
	if n := len(c.free); n > 0 {
		i, c.free = c.free[n-1], c.free[:n-1]
	} else {
		i = int32(len(c.all))
		c.all = append(c.all, entry{})
	}
	c.all[i] = entry{block: block, pins: 1, copies: 1, prev: -1, next: -1}
	c.at[block] = i
}

// evict takes the oldest block out that is not pinned, or one a little younger
// if random is given, and says how many copies of it were announced.
func (c *cache) evict(random *rand.Rand) (block uint32, copies int32, ok bool) {
	i := c.first
	if i < 0 {
		return 0, 0, false
	}
	if random != nil {
		for n := random.IntN(16); n > 0 && c.all[i].next >= 0; n-- {
			i = c.all[i].next
		}
	}
	block, copies = c.all[i].block, c.all[i].copies
	c.unlink(i)
	delete(c.at, block)
	c.free = append(c.free, i)
	return block, copies, true
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
