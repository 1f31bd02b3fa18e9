package tree

import (
	"slices"
	"sync/atomic"
)

// Block is one block of one owner, as Dump gives it. Figures are those of the
// owner's TP shard alone: whether the holder has the block is for all its
// shards together to say.
type Block struct {
	Owner
	Root   Root
	Name   uint64
	Chain  uint64 // of all contents from the root to the block's end
	End    int    // units from the root to the block's end
	Span   int    // units of the block
	Copies int    // at least 1; under Set always 1
	// Waiting: the block is kept aside until Parent comes. Root and End are
	// not known then, and Chain is that of its own contents.
	Waiting bool
	Parent  uint64
}

// Dumper is an index that can tell everything it holds: *Index, and the
// reference model.
type Dumper interface {
	// Dump calls visit once for each block of each owner, in no order, hidden
	// holders included. What it gives follows from the calls made so far and
	// from nothing else: no table's layout shows. chain joins the chain before
	// a unit and the unit's content; a first unit's chain is its content.
	//
	// It belongs to the writer, which stands still meanwhile; readers do not.
	Dump(chain func(parent, content uint64) uint64, visit func(Block))
}

var _ Dumper = (*Index)(nil)

// hung is a run behind another one, or behind a root.
type hung struct {
	parent uint32
	id     uint32
}

// under is a run and what lies in front of it.
type under struct {
	id    uint32
	chain uint64
	units int
	root  Root
}

// Dump tells everything the index holds. See Dumper.
func (x *Index) Dump(chain func(parent, content uint64) uint64, visit func(Block)) {
	runs := x.linked()
	var open []under
	for _, h := range runs {
		if isRoot(h.parent) {
			open = append(open, under{id: h.id, root: Root(h.parent &^ (rootClass << 28))})
		}
	}
	var chains []uint64
	for len(open) > 0 {
		x.answerPlea()
		u := open[len(open)-1]
		open = open[:len(open)-1]
		hd := x.run(u.id)
		n := count(hd[hVersion].Load())
		chains = chains[:0]
		for p := range n {
			c := hd[hBody+p].Load()
			switch {
			case p > 0:
				c = chain(chains[p-1], c)
			case u.units > 0:
				c = chain(u.chain, c)
			}
			chains = append(chains, c)
		}
		x.dumpRun(&u, hd, chains, visit)
		at, _ := slices.BinarySearchFunc(runs, u.id, func(h hung, id uint32) int { return compare(h.parent, id) })
		for ; at < len(runs) && runs[at].parent == u.id; at++ {
			off := linkOffset(x.run(runs[at].id)[hLink].Load())
			open = append(open, under{id: runs[at].id, chain: chains[off-1], units: u.units + off, root: u.root})
		}
	}
	x.dumpWaiting(chain, visit)
}

// linked lists all runs, ordered by their parents.
func (x *Index) linked() []hung {
	all := make([]hung, 0, x.links.live)
	for i := range x.links.tab {
		tab := x.links.segment(uint64(i))
		for k := range tab {
			if id := uint32(tab[k].Load()); id != 0 {
				all = append(all, hung{linkParent(x.run(id)[hLink].Load()), id})
			}
		}
	}
	slices.SortFunc(all, func(a, b hung) int { return compare(a.parent, b.parent) })
	return all
}

func compare(a, b uint32) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// dumpRun gives the blocks that end in a run.
func (x *Index) dumpRun(u *under, hd []atomic.Uint64, chains []uint64, visit func(Block)) {
	outer := x.outer(hd)
	for i := -inlineLanes; i < len(outer); i++ {
		l := laneAt(hd, outer, i)
		if l == 0 {
			continue
		}
		if x.lanes[l.id()].retired {
			continue // cleared, and not cleaned away yet
		}
		holder := Holder(x.owners[l.id()].Load())
		for p, c := range chains {
			b := Block{Root: u.root, Chain: c, End: u.units + p + 1, Span: 1, Copies: 1}
			b.Holder = holder
			x.dumpPosition(spot{run: u.id, position: int32(p), hd: hd}, l, b, visit)
		}
	}
}

// dumpPosition gives the blocks of one holder that end at a position.
func (x *Index) dumpPosition(at spot, l lane, b Block, visit func(Block)) {
	class := at.class()
	if l.plain() && at.pos() >= l.reach() {
		return
	}
	if x.exceptional(l, class, at.pos()) {
		for i := x.supportsOf(l.id(), at.run, at.pos()); i != 0; i = x.listed(i).next {
			if v := x.listed(i); !v.inner {
				b.Name, b.Tier, b.Shard = v.name, v.tier, v.shard
				b.Span, b.Copies = int(v.span), int(v.n)
				visit(b)
			}
		}
		return
	}
	if !x.holds(l, class, at.pos(), -1) {
		return
	}
	b.Name = x.nameAt(l, at.hd, class, at.pos())
	if l.plain() {
		b.Tier = l.tier()
		visit(b)
		return
	}
	pl := &x.planes[planeOf(class)]
	for ref := uint32(x.side(l.ref())[sRows].Load()); ref != 0; {
		w := pl.at(ref)
		head := w[0].Load()
		if bit(w[1:], at.pos()) {
			b.Tier, b.Shard = rowTier(head), rowShard(head)
			visit(b)
		}
		ref = uint32(head)
	}
}

// dumpWaiting gives the blocks that wait for their parents.
func (x *Index) dumpWaiting(chain func(parent, content uint64) uint64, visit func(Block)) {
	for i := range x.holders {
		s := &x.holders[i]
		if s.lane == 0 {
			continue
		}
		for k := x.lanes[s.lane].waitHead; k != 0; k = x.waiter(k).next {
			w := x.waiter(k)
			b := Block{Name: w.name, Chain: w.content, Span: int(w.span), Waiting: true, Parent: w.parent}
			for m := w.more; m != 0; m = x.waiter(m).more {
				b.Chain = chain(b.Chain, x.waiter(m).content)
			}
			b.Holder, b.Shard = s.handle(uint32(i)), w.shard
			for t, n := range w.n {
				if n > 0 {
					b.Tier, b.Copies = Tier(t), int(n)
					visit(b)
				}
			}
		}
	}
}
