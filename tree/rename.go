package tree

// move is a name that came to mean another block: its copies on each tier, to
// be added at the new block.
type move struct {
	block int
	n     [NumTiers]uint32
}

// mustRename reports whether the holder's shard calls another block by the name
// of the event's block i, and where that one ends. at is where the name shall
// lie, if it exists yet.
func (x *Index) mustRename(i int, at spot, exists bool) (spot, bool) {
	old, ok := x.resolve(x.op.name(i))
	if ok && exists && old.run == at.run && old.pos() == at.pos() {
		// The same place, but perhaps the end of a longer block till now.
		ok = x.lanes[x.op.lane].own > 0 && x.spanAt(old, x.op.name(i)) != 1
	}
	return old, ok
}

// rename looks whether block i's name means another block to the holder's
// shard, and if so takes all its copies from there: the last announcement
// decides. They are added at the new block when the event is done.
func (x *Index) rename(i int, at spot, exists bool) bool {
	old, ok := x.mustRename(i, at, exists)
	if ok {
		x.take(old, i)
	}
	return ok
}

// novel looks up the names of blocks [i, i+n), all at once, and reports whether
// none of them is in the name table, so that nothing can mean another block.
// What it learned of their places there is left in x.homes.
func (x *Index) novel(i, n int) bool {
	own, tag := x.lanes[x.op.lane].own > 0, uint64(x.op.lane)
	homes, pairs, stride := x.homes[:n], x.op.pairs[i*x.op.stride:], x.op.stride
	x.fetch(i, i+n+lead)
	if own {
		touched := uint64(0)
		for j := range homes {
			touched |= x.own.touch(x.own.hash(pairs[j*stride], tag))
		}
		x.touched = touched
	}
	for j := range homes {
		h := x.names.hash(pairs[j*stride])
		homes[j].hash = h
		e, i := x.names.next(h, home(h))
		for ; e != 0; e, i = x.names.next(h, i) {
			if x.nameOf(e) == pairs[j*stride] {
				return false
			}
		}
		homes[j].free = i
		if own && x.own.first(pairs[j*stride], tag) != 0 {
			return false
		}
	}
	x.grown = x.names.grown
	return true
}

// renames is rename for blocks [i, i+n) that do not exist yet.
func (x *Index) renames(i, n int) bool {
	any := false
	for j := i; j < i+n; j++ {
		if x.rename(j, spot{}, false) {
			any = true
		}
	}
	return any
}

// take removes every copy of block i's name from a spot, on all tiers of the
// event's shard, and notes them as a move.
func (x *Index) take(at spot, i int) {
	m := move{block: i}
	for t := Device; t < NumTiers; t++ {
		if x.laneIn(at.hd, x.op.lane) == 0 || linkOf(at) == 0 {
			break
		}
		m.n[t] = x.release(at, x.op.name(i), t, true)
	}
	x.op.out.Moved++
	x.moves = append(x.moves, m)
}

func linkOf(at spot) uint64 { return at.hd[hLink].Load() }

// settleMoves adds the copies of moved names at their new blocks.
func (x *Index) settleMoves() {
	if len(x.moves) == 0 {
		return
	}
	out := x.op.out
	for k := range x.moves {
		if at, ok := x.resolve(x.op.name(x.moves[k].block)); ok && x.admitOne(at) {
			x.addAll(at, x.moves[k].block, &x.moves[k].n)
		}
	}
	x.op.out = out
	x.moves = x.moves[:0]
}
