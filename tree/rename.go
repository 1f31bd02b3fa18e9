package tree

// move is a name that came to mean another block: its copies on each tier, to
// be added at the new block.
type move struct {
	block int
	n     [NumTiers]uint32
}

// renames looks whether names of blocks [i, i+n), which do not exist yet, mean
// other blocks to the holder's shard, and if so takes all their copies from
// there: the last announcement decides. They are added at the new blocks when
// the event is done.
func (x *Index) renames(i, n int) bool {
	if n > 1 {
		x.warm(i, n)
	}
	any := false
	for j := i; j < i+n; j++ {
		if old, ok := x.resolve(x.op.name(j)); ok {
			x.take(old, j)
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
		if at, ok := x.resolve(x.op.name(x.moves[k].block)); ok && x.admitMore(at) {
			x.addAll(at, x.moves[k].block, &x.moves[k].n)
		}
	}
	x.op.out = out
	x.moves = x.moves[:0]
}
