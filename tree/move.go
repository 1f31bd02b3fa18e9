package tree

// A run whose tail died and of which less than a quarter lives moves to a
// smaller class: what a long prompt leaves behind when its end is evicted shall
// not take what the prompt did. It is written down when its end dies, and moves
// when the next call of the writer begins, while nothing is half done.
//
//	new run ─ contents, names, lanes, link ─▶ child table: one word, the effect
//	parent  ─ version, the epoch at a root
//	old run ─ link 0, version, lanes 0 ─▶ free
//
// Both runs say the same until the old one's version moves, so a reader that is
// in the old one either was done before, or begins again and finds the new one.
// One that has the old one's number, but not yet its link, finds nothing there,
// and begins again for the parent's version. Runs on which others hang stay, and
// those in which somebody is more than a number: what lies beside them is of
// their class.
const (
	// moveFrom is the smallest class that moves: 128 blocks. Of smaller ones
	// there is not much to be had.
	moveFrom = 5
	// maxShrunk is how many runs are written down, movesPerCall how many move.
	maxShrunk    = 64
	movesPerCall = 2
)

// noteShrunk writes down a run whose end has died at n, if it should move.
func (x *Index) noteShrunk(id uint32, n int) {
	if class := classOf(id); class >= x.moveFrom && n*4 <= capOf(class) && len(x.shrunk) < maxShrunk {
		x.shrunk = append(x.shrunk, id)
	}
}

// moveShrunk moves some of the runs that were written down.
func (x *Index) moveShrunk() {
	for k := 0; k < movesPerCall && len(x.shrunk) > 0; k++ {
		id := x.shrunk[len(x.shrunk)-1]
		x.shrunk = x.shrunk[:len(x.shrunk)-1]
		if class, ok := x.smaller(id); ok {
			x.move(id, class)
		}
	}
}

// smaller is the class that a run can move to, if it can and should.
func (x *Index) smaller(id uint32) (uint32, bool) {
	hd, class := x.run(id), classOf(id)
	n, m := count(hd[hVersion].Load()), metaOf(hd)
	if hd[hLink].Load() == 0 || n == 0 || n*4 > capOf(class) || m.children() > 0 {
		return 0, false
	}
	outer := x.outer(hd)
	for i := -inlineLanes; i < len(outer); i++ {
		if l := laneAt(hd, outer, i); l != 0 && (!l.plain() || l.ref() != 0) {
			return 0, false
		}
	}
	to := uint32(0)
	for capOf(to) < n {
		to++
	}
	return to, !x.tight() || x.runs[to].spare(1)+x.logs.spare(m.holders()) == 0
}

// move makes a run anew in another class.
func (x *Index) move(id, to uint32) {
	hd, class := x.run(id), classOf(id)
	n, link := count(hd[hVersion].Load()), hd[hLink].Load()
	moved := x.newRun(to)
	nh := x.run(moved)
	copyUnseen(nh[hBody:], hd[hBody:hBody+n])
	names := sharedNames(hd, class)[:n]
	copyUnseen(sharedNames(nh, to), names)
	for p := range names {
		if named(hd, class, p) {
			h := x.names.hash(names[p].Load())
			x.names.remove(h, id, p)
			x.names.add(h, moved, p)
			setNamed(nh, to, p, p+1)
		}
	}
	for i := hLane; i < hLane+inlineLanes; i++ {
		nh[i].Store(hd[i].Load())
	}
	nh[hCell].Store(hd[hCell].Load())
	nh[hMeta].Store(hd[hMeta].Load())
	nh[hVersion].Store(nh[hVersion].Load() + uint64(n))
	nh[hLink].Store(link)
	x.mark(stepLink)
	x.links.replace(link, hd[hBody].Load(), id, moved)
	x.mark(stepLink)
	if parent := linkParent(link); isRoot(parent) {
		x.epoch.Add(1)
	} else {
		ph := x.run(parent)
		joinChild(ph, id^moved)
		ph[hVersion].Store(ph[hVersion].Load() + version1)
	}
	x.mark(stepVersion)
	hd[hLink].Store(0)
	x.mark(stepUnlink)
	hd[hVersion].Store((version(hd[hVersion].Load()) + 1) << countBits)
	x.mark(stepUnlink)
	for i := hLane; i < hLane+inlineLanes; i++ {
		hd[i].Store(0)
	}
	hd[hCell].Store(0)
	hd[hMeta].Store(0)
	x.mark(stepUnlink)
	x.runs[class].release(id & (1<<28 - 1))
	outer := x.outer(nh)
	for i := -inlineLanes; i < len(outer); i++ {
		if l := laneAt(nh, outer, i); l != 0 {
			x.relog(l.id(), moved)
		}
	}
}
