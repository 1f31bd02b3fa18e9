package soak

import (
	"sync"
	"sync/atomic"

	"github.com/cairn-kv/cairn/tree"
)

// maxTiers is how many tiers a soak uses: device, host and disk.
const maxTiers = 3

// What a word says of a block, or of a whole holder. The event it came to be so
// in stands above.
const (
	absent   = 0
	changing = 1
	present  = 2

	stateBits = 2
	stateMask = 1<<stateBits - 1
)

// slot is one holder's place in the truth. Another holder takes it when the
// first is dropped.
type slot struct {
	handle tree.Holder
	shards []shardTruth
	total  int // names on tiers, over all shards
	hidden bool

	// Read by all: what may be counted on the device and on any tier.
	device, any []atomic.Uint64
	shown       atomic.Uint64 // present while the holder is visible
}

// shardTruth is what one TP shard holds.
type shardTruth struct {
	names map[uint64]meaning
	on    []uint32 // by node: how many names on each tier, 8 bits each
	last  []uint64 // by node: a name that was given to it, where names say nothing
}

// meaning is what a name means, and its copies.
type meaning struct {
	node   int32
	copies [maxTiers]uint32
}

func (m *meaning) none() bool { return m.copies == [maxTiers]uint32{} }

// truth is all of it.
type truth struct {
	world *world
	slots []*slot
	of    sync.Map     // tree.Holder → int, the slot it has or had
	ended atomic.Int64 // events that are done, words included
}

func newSlot(p Profile, w *world) *slot {
	s := &slot{
		shards: make([]shardTruth, p.Shards),
		device: make([]atomic.Uint64, len(w.content)),
		any:    make([]atomic.Uint64, len(w.content)),
	}
	for i := range s.shards {
		s.shards[i] = shardTruth{names: map[uint64]meaning{}, on: make([]uint32, len(w.content))}
		if p.Pool > 0 {
			s.shards[i].last = make([]uint64, len(w.content))
		}
	}
	return s
}

// tiers is on which tiers every shard holds a node, bit t for tier t.
func (s *slot) tiers(node int32) (all uint8) {
	for i := range s.shards {
		here, w := uint8(0), s.shards[i].on[node]
		for t := range maxTiers {
			if w>>(8*t)&0xff != 0 {
				here |= 1 << t
			}
		}
		if i == 0 {
			all = here
		} else {
			all &= here
		}
	}
	return all
}

// depths is the truth about a path now. The writer's own.
func (s *slot) depths(nodes []int32) (d [tree.NumViews]uint32) {
	if s.hidden {
		return d
	}
	alive := [tree.NumViews]bool{true, true, true, true, true}
	onHost := false
	for i, n := range nodes {
		t := s.tiers(n)
		dev, host := t&1 != 0, t&2 != 0
		onHost = onHost || !dev
		ok := [tree.NumViews]bool{
			tree.ViewDevice: dev, tree.ViewHost: host, tree.ViewAny: t != 0,
			tree.ViewDeviceHost: dev || host, tree.ViewExtension: dev && !onHost || host && onHost,
		}
		for v := range d {
			if alive[v] = alive[v] && ok[v]; alive[v] {
				d[v] = uint32(i + 1)
			}
		}
		if !alive[tree.ViewAny] {
			break
		}
	}
	return d
}

// mark notes that nodes are about to change in an event.
func (s *slot) mark(nodes []int32, event int64) {
	w := uint64(event)<<stateBits | changing
	for _, n := range nodes {
		s.device[n].Store(w)
		s.any[n].Store(w)
	}
}

// settle notes what has become of them.
func (s *slot) settle(nodes []int32, event int64) {
	w := uint64(event) << stateBits
	for _, n := range nodes {
		t := s.tiers(n)
		s.device[n].Store(w | present*uint64(t&1))
		if t != 0 {
			s.any[n].Store(w | present)
		} else {
			s.any[n].Store(w)
		}
	}
}

// possible reports whether a word leaves room for a block that was there at some
// instant since an event, sure whether it was there all the time.
func possible(w uint64, since int64) bool {
	return w&stateMask != absent || int64(w>>stateBits) > since
}

func sure(w uint64, since int64) bool {
	return w&stateMask == present && int64(w>>stateBits) <= since
}

// give adds copies of a name on a tier; the name may have meant another block.
func (s *slot) give(sh *shardTruth, name uint64, node int32, tier int, set bool) {
	m, ok := sh.names[name]
	if ok && m.node != node {
		for t, n := range m.copies {
			if n > 0 {
				sh.on[m.node] -= 1 << (8 * t)
				sh.on[node] += 1 << (8 * t)
			}
		}
	}
	m.node = node
	if m.copies[tier] == 0 {
		sh.on[node] += 1 << (8 * tier)
		s.total++
		m.copies[tier] = 1
	} else if !set {
		m.copies[tier]++
	}
	sh.names[name] = m
	if sh.last != nil {
		sh.last[node] = name
	}
}

// lose takes a copy of a name from a tier.
func (s *slot) lose(sh *shardTruth, name uint64, tier int, set bool) {
	m, ok := sh.names[name]
	if !ok || m.copies[tier] == 0 {
		return
	}
	if m.copies[tier]--; set {
		m.copies[tier] = 0
	}
	if m.copies[tier] == 0 {
		sh.on[m.node] -= 1 << (8 * tier)
		s.total--
	}
	if m.none() {
		delete(sh.names, name)
	} else {
		sh.names[name] = m
	}
}

// nodes appends every node that some shard holds, some of them more than once.
func (s *slot) nodes(dst []int32) []int32 {
	for i := range s.shards {
		for _, m := range s.shards[i].names {
			dst = append(dst, m.node)
		}
	}
	return dst
}

// clear empties the holder.
func (s *slot) clear() {
	for i := range s.shards {
		clear(s.shards[i].names)
		clear(s.shards[i].on)
	}
	s.total = 0
}

// residencies counts (tier, name) that every shard holds for one block.
func (s *slot) residencies() (n int) {
	for name, m := range s.shards[0].names {
		for t := range maxTiers {
			all := m.copies[t] > 0
			for i := 1; i < len(s.shards) && all; i++ {
				o, ok := s.shards[i].names[name]
				all = ok && o.node == m.node && o.copies[t] > 0
			}
			if all {
				n++
			}
		}
	}
	return n
}
