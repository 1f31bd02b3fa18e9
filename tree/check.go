package tree

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// check walks everything and returns the first invariant that does not hold.
// It belongs to the writer, between two calls.
//
//	I1 a run that is linked is in the child table under its link, and its
//	   parent's child bit at that offset is set, exactly while a child is there
//	I2 what readers see of a holder in a run is what its rows say
//	I3 a position someone holds is in the name table under the run's name, or
//	   under the own name of each who holds it; a position nobody holds is not
//	I4 a run's count ends at a held position or a child
//	I5 a holder stands in a run once, every such run is in its log, what it has
//	   behind a run is counted, for the byte budget, and the sets of a dense cell
//	   say what its lanes say
//	I6 a block of several units is there whole
//	I7 a run has no child that continues it where its own content does
//	I8 a run's only child is known, and whether it hangs at the run's end
func (x *Index) check() error {
	c := checker{
		x: x, kids: map[uint32]map[int]int{}, joined: map[uint32]uint32{}, seen: map[uint32]bool{},
		logged: map[uint32]map[uint32]bool{}, behind: map[*uint8]int{}, units: map[block]int{},
	}
	for i := range x.links.tab {
		tab := x.links.segment(uint64(i))
		for k := range tab {
			if id := uint32(tab[k].Load()); id != 0 {
				if err := c.run(id); err != nil {
					return fmt.Errorf("run %#x: %w", id, err)
				}
			}
		}
	}
	return c.totals()
}

type checker struct {
	x       *Index
	kids    map[uint32]map[int]int
	joined  map[uint32]uint32 // ids of children, by exclusive or
	seen    map[uint32]bool
	shared  int // names that should be in the table
	own     map[uint32]int
	lanes   map[uint32]int
	ownRuns map[uint32]int
	logged  map[uint32]map[uint32]bool // by lane, read when first asked for
	behind  map[*uint8]int

	supported int           // entries of support lists
	units     map[block]int // by how many units each block of several is short
}

// block is a block of an owner.
type block struct {
	id    uint32
	name  uint64
	tier  Tier
	shard uint8
}

func (c *checker) run(id uint32) error {
	x := c.x
	if c.seen[id] {
		return fmt.Errorf("in the child table twice")
	}
	c.seen[id] = true
	hd, class := x.run(id), classOf(id)
	link := hd[hLink].Load()
	parent, off := linkParent(link), linkOffset(link)
	if link == 0 || x.find(parent, off, hd[hBody].Load()) != id {
		return fmt.Errorf("link %#x does not lead to it", link)
	}
	n := count(hd[hVersion].Load())
	if n == 0 || n > capOf(class) {
		return fmt.Errorf("count %d of %d", n, capOf(class))
	}
	if !isRoot(parent) {
		if c.kids[parent] == nil {
			c.kids[parent] = map[int]int{}
		}
		c.kids[parent][off]++
		c.joined[parent] ^= id
		ph := x.run(parent)
		pn := count(ph[hVersion].Load())
		if off == pn && metaOf(ph).children() == 1 && !metaOf(hd).last() {
			return fmt.Errorf("hangs at the end of its parent and does not say so")
		}
		if off > pn {
			return fmt.Errorf("hangs at %d of a parent with %d", off, pn)
		}
		if off < pn && ph[hBody+off].Load() == hd[hBody].Load() {
			return fmt.Errorf("begins as its parent goes on")
		}
	}
	return c.holders(id, hd, class, n)
}

// sets compares the sets of a dense cell with its lanes. Those that the last
// call has changed find their group when the next begins.
func (c *checker) sets(hd []atomic.Uint64) error {
	ref := uint32(hd[hCell].Load())
	if ref == 0 || !isDense(ref) {
		return nil
	}
	cell := c.x.cell(ref)
	lanes, reaches, members := lanesIn(cell, ref), cell[denseReaches].Load(), [numGroups]int{}
	for id := range lanes {
		l, b := lane(lanes[id].Load()), uint64(1)<<(id&63)
		sets := cell[denseSets+setStride*(id>>6):]
		waits := slices.ContainsFunc(c.x.lifted, func(l lifted) bool { return l.ref == ref && int(l.id) == id })
		if present := sets[setPresent].Load()&b != 0; present != (l != 0) && !waits {
			return fmt.Errorf("lane %d is %#x, present %v", id, uint64(l), present)
		}
		if l != 0 && l.id() != uint32(id) {
			return fmt.Errorf("lane %d in the place of %d", l.id(), id)
		}
		groups := 0
		for k := range numGroups {
			reach := groupReach(reaches, k)
			alike := l.shape() == shapeDevice && l.reach() > 0 && uint32(l.reach()) == reach
			in := sets[setGroup+k].Load()&b != 0
			if in != alike && (in || !waits) {
				return fmt.Errorf("lane %d of reach %d: in the group of %d %v", id, l.reach(), reach, in)
			}
			if in {
				members[k]++
				groups++
			}
		}
		if groups > 1 {
			return fmt.Errorf("lane %d in %d groups", id, groups)
		}
	}
	for k, n := range members {
		if m := int(cell[denseMeta].Load() >> (16 * k) & 0xffff); m != n {
			return fmt.Errorf("group %d has %d members, counted %d", k, n, m)
		}
	}
	return nil
}

func (c *checker) holders(id uint32, hd []atomic.Uint64, class uint32, n int) error {
	x := c.x
	if err := c.sets(hd); err != nil {
		return err
	}
	outer := x.outer(hd)
	met, holders, top := map[uint32]bool{}, 0, 0
	needShared := make([]bool, n)
	held := make([]bool, n)
	for i := -inlineLanes; i < len(outer); i++ {
		l := laneAt(hd, outer, i)
		if l == 0 {
			continue
		}
		holders++
		if met[l.id()] {
			return fmt.Errorf("lane %d twice", l.id())
		}
		met[l.id()] = true
		if c.lanes == nil {
			c.lanes, c.own, c.ownRuns = map[uint32]int{}, map[uint32]int{}, map[uint32]int{}
		}
		c.lanes[l.id()]++
		if l.own() {
			c.ownRuns[l.id()]++
		}
		if !c.inLog(l.id(), id) && (id != x.partly || l.id() != x.retired[0]) {
			return fmt.Errorf("lane %d: the run is not in its log", l.id())
		}
		if parent := linkParent(hd[hLink].Load()); x.budget.limit > 0 && !isRoot(parent) {
			c.behind[x.behindOf(l.id(), parent)]++
		}
		if err := c.lane(id, hd, class, l, n); err != nil {
			return fmt.Errorf("lane %d: %w", l.id(), err)
		}
		for p := 0; p < n; p++ {
			if x.holds(l, class, p, -1) {
				held[p], top = true, max(top, p+1)
				if l.own() {
					if !x.exceptional(l, class, p) && !c.isOwnName(l.id(), x.nameAt(l, hd, class, p), id, p) {
						return fmt.Errorf("own name of position %d is not in the table", p)
					}
				} else {
					needShared[p] = true
					if x.nameAt(l, hd, class, p) != sharedNames(hd, class)[p].Load() {
						return fmt.Errorf("position %d: shared name is not the holder's", p)
					}
				}
			}
		}
	}
	for p := 0; p < n; p++ {
		in := named(hd, class, p)
		if needShared[p] && !in {
			return fmt.Errorf("position %d has no shared name", p)
		}
		if !held[p] && in {
			return fmt.Errorf("position %d is named, nobody holds it", p)
		}
		if in {
			c.shared++
			if !c.isShared(sharedNames(hd, class)[p].Load(), id, p) {
				return fmt.Errorf("name of position %d is not in the table", p)
			}
		}
	}
	m := metaOf(hd)
	if m.holders() != holders {
		return fmt.Errorf("%d holders, counted %d", holders, m.holders())
	}
	if end := max(top, lastChild(hd, class)); end != n {
		return fmt.Errorf("count %d, but the last reason ends at %d", n, end)
	}
	return nil
}

// lane checks one holder's figures in a run against its rows.
func (c *checker) lane(id uint32, hd []atomic.Uint64, class uint32, l lane, n int) error {
	x := c.x
	if l.id() >= uint32(len(x.lanes)) {
		return fmt.Errorf("no such lane id")
	}
	if l.plain() {
		if l.reach() == 0 || l.reach() > n {
			return fmt.Errorf("reach %d of %d", l.reach(), n)
		}
		return nil
	}
	s := x.side(l.ref())
	view, ext, res := s[sView].Load(), s[sExt].Load(), s[sRes].Load()
	empty, _, _ := x.figures(s, class, int(x.lanes[l.id()].shards))
	s[sRes].Store(res)
	if view != s[sView].Load() || ext != s[sExt].Load() {
		return fmt.Errorf("figures %#x %#x, rows say %#x %#x", view, ext, s[sView].Load(), s[sExt].Load())
	}
	if empty {
		return fmt.Errorf("holds nothing")
	}
	if top := x.rowsTop(l.ref(), class); top > n {
		return fmt.Errorf("holds %d of %d", top, n)
	}
	for p := 0; p < n; p++ {
		if err := c.supports(id, class, l, p); err != nil {
			return fmt.Errorf("position %d: %w", p, err)
		}
	}
	return nil
}

func (c *checker) supports(id, class uint32, l lane, p int) error {
	x := c.x
	head := x.supportsOf(l.id(), id, p)
	if (head != 0) != x.exceptional(l, class, p) {
		return fmt.Errorf("list %d, marked %v", head, x.exceptional(l, class, p))
	}
	if head == 0 {
		return nil
	}
	names := map[uint64]bool{}
	for i := head; i != 0; i = x.listed(i).next {
		v := x.listed(i)
		c.supported++
		if b := (block{l.id(), v.name, v.tier, v.shard}); v.inner {
			c.units[b]--
		} else {
			c.units[b] += int(v.span) - 1
		}
		if !x.holdsOn(l, class, p, v.tier, v.shard) {
			return fmt.Errorf("supported on tier %d shard %d, bit is not set", v.tier, v.shard)
		}
		if v.n == 0 {
			return fmt.Errorf("no copies")
		}
		if !v.inner && !names[v.name] && l.own() {
			names[v.name] = true
			if !c.isOwnName(l.id(), v.name, id, p) {
				return fmt.Errorf("name %d is not in the table", v.name)
			}
		}
	}
	for sh := 0; sh < int(x.lanes[l.id()].shards); sh++ {
		for t := Device; t < NumTiers; t++ {
			if _, ok := x.supportOn(l.id(), spot{run: id, position: int32(p)}, t, uint8(sh)); !ok && x.holdsOn(l, class, p, t, uint8(sh)) {
				return fmt.Errorf("bit of tier %d shard %d without support", t, sh)
			}
		}
	}
	return nil
}

func (c *checker) isShared(name uint64, run uint32, pos int) bool {
	n, h := 0, c.x.names.hash(name)
	for e, i := c.x.names.first(h); e != 0; e, i = c.x.names.next(h, i) {
		if e == nameEntry(h, run, pos) && c.x.nameOf(e) == name {
			n++
		}
	}
	return n == 1
}

// isOwnName reports whether a name is in its holder's table, once, or whether
// the holder's id is retired: then there is no table any more.
func (c *checker) isOwnName(id uint32, name uint64, run uint32, pos int) bool {
	t := c.x.lanes[id].own
	if c.x.lanes[id].retired {
		return t == nil
	}
	c.own[id]++
	n, h := 0, c.x.names.hash(name)
	if t == nil {
		return false
	}
	for e, i := t.first(h); e != 0; e, i = t.next(h, i) {
		if e == makeEntry(h, run, pos) {
			n++
		}
	}
	return n == 1
}

// inLog reports whether a run is in a lane's log.
func (c *checker) inLog(id, run uint32) bool {
	x := c.x
	if c.logged[id] == nil {
		c.logged[id] = map[uint32]bool{}
		ls := &x.lanes[id]
		block := ls.logHead
		for i := range ls.logged {
			at := (int(ls.logFirst) + i) % logRuns
			if i > 0 && at == 0 {
				block = uint32(x.logs.at(block)[0].Load())
			}
			c.logged[id][x.logEntry(block, at)] = true
		}
	}
	return c.logged[id][run]
}

func (c *checker) totals() error {
	x := c.x
	for i := range x.budget.behind {
		n := &x.budget.behind[i]
		if want := c.behind[n]; int(*n) != want && *n != manyBehind {
			return fmt.Errorf("%d runs behind others, counted %d", want, *n)
		}
	}
	if x.budget.limit > 0 && len(x.holders) > 0 {
		most := 0
		for i := range x.holders {
			most = max(most, x.weight(uint32(i)))
		}
		x.budget.ranks.refresh(len(x.holders), x.weight)
		if _, n := x.budget.ranks.first(); n != most {
			return fmt.Errorf("who has most has %d, ranked with %d", most, n)
		}
	}
	live, own := 0, 0
	for class := range x.runs {
		live += x.runs[class].live
	}
	if live != len(c.seen) {
		return fmt.Errorf("%d runs alive, %d linked", live, len(c.seen))
	}
	for id, n := range c.own {
		own += n
		if x.lanes[id].own.names() != n {
			return fmt.Errorf("lane %d: %d own names, its table has %d", id, n, x.lanes[id].own.names())
		}
	}
	if x.names.live != c.shared {
		return fmt.Errorf("%d shared names in the table, %d have a reason", x.names.live, c.shared)
	}
	if x.ownNamesLive != own {
		return fmt.Errorf("%d own names in tables, %d have a reason", x.ownNamesLive, own)
	}
	for id, n := range c.lanes {
		if x.lanes[id].runs != n {
			return fmt.Errorf("lane %d: in %d runs, counted %d", id, n, x.lanes[id].runs)
		}
		if x.lanes[id].ownRuns != c.ownRuns[id] {
			return fmt.Errorf("lane %d: own names in %d runs, counted %d", id, c.ownRuns[id], x.lanes[id].ownRuns)
		}
	}
	extra := 0
	for run := range c.seen {
		hd, class, kids, first, last := x.run(run), classOf(run), 0, maxCap+1, 0
		for off := 1; off <= capOf(class); off++ {
			n := c.kids[run][off]
			kids += n
			extra += max(0, min(1, n-1))
			if childBit(hd, class, off) != (n > 0) {
				return fmt.Errorf("run %#x: %d children at %d, bit %v", run, n, off, n == 0)
			}
			if n > 0 {
				first, last = min(first, off), off
			}
		}
		if f, l := firstChild(hd, class), lastChild(hd, class); l != last || f != first && kids > 0 || f != 0 && kids == 0 {
			return fmt.Errorf("run %#x: children from %d to %d, it says %d to %d", run, first, last, f, l)
		}
		if joined := uint32(hd[hCell].Load() >> 32); joined != c.joined[run] {
			return fmt.Errorf("run %#x: its children are %#x, joined %#x", run, c.joined[run], joined)
		}
		if metaOf(hd).children() != kids {
			return fmt.Errorf("run %#x: %d children, counted %d", run, kids, metaOf(hd).children())
		}
	}
	if bytes, free := x.measure(); bytes != x.meter.bytes || free != x.meter.free {
		return fmt.Errorf("%d bytes with %d free, charged %d and %d", bytes, free, x.meter.bytes, x.meter.free)
	}
	if b := &x.budget; b.limit > 0 && x.meter.bytes > b.limit {
		return fmt.Errorf("%d bytes charged, the budget is %d", x.meter.bytes, b.limit)
	}
	if x.supports.live != c.supported {
		return fmt.Errorf("%d supports alive, %d in lists", x.supports.live, c.supported)
	}
	for b, n := range c.units {
		if n != 0 && !x.lanes[b.id].retired { // cleared holders are cleaned run by run
			return fmt.Errorf("a block of lane %d, name %d, lacks %d of its units", b.id, b.name, n)
		}
	}
	if x.siblings.live != extra {
		return fmt.Errorf("%d sibling counts, %d have a reason", x.siblings.live, extra)
	}
	return nil
}

// measure counts what the meter has been told of.
func (x *Index) measure() (bytes, free int) {
	add := func(a *slab) {
		bytes += a.bytes()
		free += (a.chunks()<<a.shift - a.live) * int(a.stride) * 8
	}
	for c := range x.runs {
		add(&x.runs[c])
		add(&x.nameArrays[c])
	}
	for k := range x.cells {
		add(&x.cells[k])
	}
	for k := range x.planes {
		add(&x.planes[k])
	}
	add(&x.sides)
	add(&x.logs)
	add(&x.supports)
	add(&x.waits)
	for _, t := range []*table{&x.exceptions, &x.siblings, &x.waitParents, &x.waitNames} {
		bytes += t.bytes()
	}
	for i := range x.lanes {
		if t := x.lanes[i].own; t != nil {
			bytes += t.bytes()
		}
	}
	return bytes + x.names.bytes() + x.links.bytes() + len(x.owners)*4 + (len(x.shown)+len(x.thinned)+len(x.recents))*8 + len(x.budget.behind) + x.meter.nothings, free
}
