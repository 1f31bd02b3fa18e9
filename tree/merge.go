package tree

import (
	"slices"
	"sync/atomic"
)

// Runs of which each leads to nothing but the next become one. They come about
// where a conversation goes on turn by turn, and where branches die: what parted
// there is gone, and what is left lies apart, each piece a step of every walk.
//
//	P ─ 4 blocks ──▶ C ─ 4 blocks ──▶ D ─ 2 blocks        A: 4 4 2   B: 4 1
//	M ─ 10 blocks                                         A: 10      B: 5
//
// It is done where it pays: when a prompt goes on from the end of a chain, which
// says that the chain is in use and will be walked. Blocks that come one by one
// are an answer that is being generated, and may be all that ever comes. What
// dead branches leave is written down and made one by and by.
//
//	new run ─ contents, names, lanes, link ─▶ child table: one word, the effect
//	parent  ─ version, the epoch at a root
//	old runs, root side first ─ link 0, version, child table ─▶ lanes 0 ─▶ free
//
// As in a move, old and new say the same until the version of the parent, or the
// epoch, moves; a walk that came by the old ones looks back at that and begins
// again, whatever it has found or missed since. Those that are done with by then
// tell by the versions of the old ones that they remember (Names).
//
// In its holders' logs the new run is the newest: somebody goes on from it, or it
// is what a dead branch has left of what somebody did.
//
// Nothing hangs behind the last run, for its children's links would have to
// change with it, all at one instant; and in none is anybody more than a number,
// or holds a block behind one that it does not.
const (
	// A run that is done away with may cost copying mergeBlocks, and all of them
	// mergeMost; a holder counts for some. None is taken in that is mergeFactor
	// times as long as what lies behind it, so that each block is copied a few times
	// while its chain grows, however long that becomes.
	mergeBlocks = 128
	mergeMost   = 512
	mergeHolder = 8
	mergeFactor = 4
	// maxLonely is how many runs are written down, the youngest; after mergeEvery
	// removed events one of them is looked at.
	maxLonely  = 1024
	mergeEvery = 32
)

// The ids of a run's children, all joined by exclusive or, are the upper half of
// its cell word: that of an only child, where there is one. The writer's own.
func joinChild(hd []atomic.Uint64, id uint32) {
	hd[hCell].Store(hd[hCell].Load() ^ uint64(id)<<32)
}

// setCell makes a cell a run's.
func setCell(hd []atomic.Uint64, ref uint32) {
	hd[hCell].Store(hd[hCell].Load()&^(1<<32-1) | uint64(ref))
}

// onlyChild is the run that hangs at the end of another and is its only child,
// or 0.
func (x *Index) onlyChild(hd []atomic.Uint64) uint32 {
	if metaOf(hd).children() != 1 {
		return 0
	}
	id := uint32(hd[hCell].Load() >> 32)
	if linkOffset(x.run(id)[hLink].Load()) != count(hd[hVersion].Load()) {
		return 0
	}
	return id
}

// leads is the run whose only child, at its end, a run is; or 0.
func (x *Index) leads(hd []atomic.Uint64) uint32 {
	parent := linkParent(hd[hLink].Load())
	if !metaOf(hd).last() || isRoot(parent) || x.onlyChild(x.run(parent)) == 0 {
		return 0
	}
	return parent
}

// noteLonely writes down a run that has lost its end or a child, and has one child
// left, if that hangs at its end.
func (x *Index) noteLonely(id uint32, hd []atomic.Uint64) {
	if lastChild(hd, classOf(id)) < count(hd[hVersion].Load()) {
		return
	}
	child := x.run(uint32(hd[hCell].Load() >> 32))
	child[hMeta].Store(child[hMeta].Load() | metaLast)
	if len(x.lonely) == maxLonely {
		x.lonely = x.lonely[:copy(x.lonely, x.lonely[maxLonely/2:])]
	}
	x.lonely = append(x.lonely, id)
}

// mergeLonely makes one run of one of the chains that were written down. It is
// called while nothing is half done.
func (x *Index) mergeLonely() {
	if len(x.lonely) == 0 {
		return
	}
	id := x.lonely[len(x.lonely)-1]
	x.lonely = x.lonely[:len(x.lonely)-1]
	if x.run(id)[hLink].Load() == 0 {
		return
	}
	for steps := 0; ; steps++ {
		child := x.onlyChild(x.run(id))
		if child == 0 {
			break
		}
		if steps == mergeMost/4 { // as many blocks at least as may be merged
			return
		}
		id = child
	}
	x.join(id)
}

// joinBefore makes one run of the chain that ends with the run of a place, where
// a prompt goes on, and has the place lie there; false if there is none to speak
// of.
func (x *Index) joinBefore(at *place) bool {
	if isRoot(at.run) {
		return false
	}
	last := count(x.run(at.run)[hVersion].Load())
	merged, n := x.join(at.run)
	if merged == 0 {
		return false
	}
	*at = place{merged, n - last + at.off}
	return true
}

// join makes one run of the chain that ends with a given run. It returns the run
// and how many blocks it has, 0 if there is no such chain or none that should be
// one.
func (x *Index) join(last uint32) (merged uint32, n int) {
	chain, n := x.chainTo(last)
	if len(chain) < 2 {
		return 0, 0
	}
	holders := metaOf(x.run(chain[0])).holders()
	if n+holders*mergeHolder > mergeBlocks*(len(chain)-1) || !x.oneLine(chain) {
		return 0, 0
	}
	to := uint32(0)
	for capOf(to) < n {
		to++
	}
	if x.budget.limit > 0 && (to > x.largestRun(0) || holders > inlineLanes || x.runs[to].spare(1)+x.logs.spare(holders) > 0) {
		return 0, 0 // it would be charged for
	}
	return x.merge(chain, n, to), n
}

// chainTo is the runs that should become one with a given run behind them, root
// side first, and how many blocks they have.
func (x *Index) chainTo(id uint32) (chain []uint32, n int) {
	hd := x.run(id)
	if metaOf(hd).children() > 0 {
		return nil, 0
	}
	chain, n = append(x.line[:0], id), count(hd[hVersion].Load())
	for {
		if id = x.leads(hd); id == 0 {
			break
		}
		hd = x.run(id)
		k := count(hd[hVersion].Load())
		if n+k > mergeMost || len(chain) > 1 && k > mergeFactor*n {
			break
		}
		chain, n = append(chain, id), n+k
	}
	slices.Reverse(chain)
	x.line = chain
	return chain, n
}

// oneLine finds the lanes that a chain's holders have in it as one run, and
// reports whether each can have one.
func (x *Index) oneLine(chain []uint32) bool {
	if n := len(x.lanes) - len(x.joinedAt); n > 0 {
		x.joinedAt = append(x.joinedAt, make([]uint16, n)...)
	}
	lanes, base := x.joined[:0], 0
	for i, id := range chain {
		hd := x.run(id)
		outer := x.outer(hd)
		for k := -inlineLanes; k < len(outer); k++ {
			l := laneAt(hd, outer, k)
			if l == 0 {
				continue
			}
			if !l.plain() || l.ref() != 0 {
				return false
			}
			at := int(x.joinedAt[l.id()])
			if i == 0 {
				x.joinedAt[l.id()] = uint16(len(lanes))
				lanes = append(lanes, l)
			} else if at >= len(lanes) || lanes[at].id() != l.id() || lanes[at].reach() != base || lanes[at].tier() != l.tier() {
				return false
			} else {
				lanes[at] = l.withReach(base + l.reach())
			}
		}
		base += count(hd[hVersion].Load())
	}
	x.joined = lanes
	return true
}

// merge makes one run of a chain that has n blocks, with the lanes that oneLine
// found.
func (x *Index) merge(chain []uint32, n int, to uint32) uint32 {
	merged := x.newRun(to)
	nh := x.run(merged)
	keep, base := metaOf(x.run(chain[0]))&metaLast, 0
	for _, id := range chain {
		hd := x.run(id)
		k := count(hd[hVersion].Load())
		copyUnseen(nh[hBody+base:], hd[hBody:hBody+k])
		x.moveNames(id, merged, base, k)
		keep |= metaOf(hd) & metaTwin
		base += k
	}
	nh[hMeta].Store(uint64(keep))
	for _, l := range x.joined {
		x.newSlot(l.id(), nh).Store(uint64(l))
	}
	nh[hVersion].Store(nh[hVersion].Load() + uint64(n))

	first := x.run(chain[0])
	link, content := first[hLink].Load(), first[hBody].Load()
	nh[hLink].Store(link)
	x.mark(stepLink)
	x.links.replace(link, content, chain[0], merged)
	x.mark(stepLink)
	if parent := linkParent(link); isRoot(parent) {
		x.epoch.Add(1)
	} else {
		ph := x.run(parent)
		joinChild(ph, chain[0]^merged)
		ph[hVersion].Store(ph[hVersion].Load() + version1)
	}
	x.mark(stepVersion)
	x.leaveChain(chain)
	for _, l := range x.joined {
		x.relog(l.id(), merged)
	}
	return merged
}

// moveNames copies the names of a run's k blocks to where they lie in another,
// base blocks behind its begin, and has the name table lead there.
func (x *Index) moveNames(id, to uint32, base, k int) {
	hd, nh := x.run(id), x.run(to)
	names := sharedNames(hd, classOf(id))[:k]
	copyUnseen(sharedNames(nh, classOf(to))[base:], names)
	for p := 0; p < k; {
		end := min(k, p+len(x.lines))
		for i := p; i < end; i++ {
			x.lines[i-p] = x.names.line(x.names.hash(names[i].Load()))
		}
		fetchLines(&x.lines[0], end-p)
		for ; p < end; p++ {
			if named(hd, classOf(id), p) {
				x.names.replace(x.names.hash(names[p].Load()), id, p, to, base+p)
				setNamed(nh, classOf(to), base+p, base+p+1)
			}
		}
	}
}

// leaveChain frees the runs of a chain, to which nothing leads any more but the
// links of each other.
func (x *Index) leaveChain(chain []uint32) {
	for i, id := range chain {
		hd := x.run(id)
		if i > 0 {
			outer := x.outer(hd)
			for k := -inlineLanes; k < len(outer); k++ {
				if l := laneAt(hd, outer, k); l != 0 {
					x.leaveRun(l, hd)
				}
			}
		}
		link := hd[hLink].Load()
		hd[hLink].Store(0)
		x.mark(stepUnlink)
		hd[hVersion].Store((version(hd[hVersion].Load()) + 1) << countBits)
		x.mark(stepUnlink)
		if i > 0 {
			x.links.remove(link, hd[hBody].Load(), id)
			x.mark(stepUnlink)
		}
	}
	for _, id := range chain {
		hd := x.run(id)
		for i := hLane; i < hLane+inlineLanes; i++ {
			hd[i].Store(0)
		}
		cell := uint32(hd[hCell].Load())
		hd[hCell].Store(0)
		hd[hMeta].Store(0)
		x.mark(stepUnlink)
		if cell != 0 {
			x.freeCell(cell)
		}
		x.runs[classOf(id)].release(id & (1<<28 - 1))
	}
}
