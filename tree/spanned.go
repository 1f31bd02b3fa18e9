package tree

// Blocks longer than a unit take several positions; the block's name belongs to
// the last one. They are kept in the support lists of all their positions: a
// source that mixes block sizes is rare, and so every plain path may take one
// name a position for granted.

// holdSpanned stores the event's block i from a place on and returns the place
// behind it.
func (x *Index) holdSpanned(at place, i int) place {
	contents := x.op.pairs[i*x.op.stride+1 : (i+1)*x.op.stride]
	x.path = x.path[:0]
	for j := 0; j < len(contents); {
		here, k, fresh := x.locateUnits(at, contents[j:])
		if k == 0 {
			here, k = x.extendUnits(at, contents[j:], fresh)
		}
		for n := 0; n < k; n++ {
			x.path = append(x.path, spot{run: here.run, position: int32(here.pos() + n), hd: here.hd})
		}
		at = place{here.run, here.pos() + k}
		j += k
	}
	x.addPath(i, 1)
	return at
}

// locateUnits and extendUnits are locate and extend for the units of one block:
// they look at the event as if each content were a block.
func (x *Index) locateUnits(at place, c []uint64) (spot, int, int) {
	pairs, stride := x.op.pairs, x.op.stride
	x.op.pairs, x.op.stride = x.asPairs(c), 2
	here, k, fresh := x.locate(at, 0, len(c))
	x.op.pairs, x.op.stride = pairs, stride
	return here, k, fresh
}

func (x *Index) extendUnits(at place, c []uint64, n int) (spot, int) {
	pairs, stride := x.op.pairs, x.op.stride
	x.op.pairs, x.op.stride = x.asPairs(c), 2
	here, k := x.extend(at, 0, n, n)
	x.op.pairs, x.op.stride = pairs, stride
	return here, k
}

func (x *Index) asPairs(c []uint64) []uint64 {
	x.units = x.units[:0]
	for _, v := range c {
		x.units = append(x.units, 0, v)
	}
	return x.units
}

// addSpanned adds n copies of block i, which ends at a spot the holder knows.
func (x *Index) addSpanned(at spot, i int, n uint32) {
	x.path = x.path[:0]
	for k := 0; k < x.op.span; k++ {
		x.path = append(x.path, at)
		if k+1 < x.op.span {
			at, _ = x.before(at)
		}
	}
	for a, b := 0, len(x.path)-1; a < b; a, b = a+1, b-1 {
		x.path[a], x.path[b] = x.path[b], x.path[a]
	}
	x.addPath(i, n)
}

// addPath puts n copies of block i into the lists of all positions of x.path.
func (x *Index) addPath(i int, n uint32) {
	for k, at := range x.path {
		x.list(at, x.laneHere(at), support{
			name: x.op.name(i), n: n, tier: x.op.tier, shard: x.op.shard,
			span: uint16(len(x.path)), inner: k+1 < len(x.path),
		})
	}
}

// renameSpanned is rename for a block of several units: where the name is known
// already it must end a block of the same contents behind the same place.
func (x *Index) renameSpanned(i int, at place) bool {
	old, ok := x.resolve(x.op.name(i))
	if !ok {
		return false
	}
	first, same := old, true
	for k := x.op.span - 1; same && k >= 0; k-- {
		same = first.hd[hBody+first.pos()].Load() == x.op.pairs[i*x.op.stride+1+k]
		if same && k > 0 {
			first, same = x.before(first)
		}
	}
	if same {
		prev, ok := x.before(first)
		if ok {
			same = prev.run == at.run && prev.pos() == at.off-1
		} else {
			same = linkParent(linkOf(first)) == at.run
		}
	}
	if same && x.spanAt(old, x.op.name(i)) == x.op.span {
		return false
	}
	x.take(old, i)
	return true
}

// spanAt is how many units the block of that name has that ends at a spot, as
// the event's shard knows it; another shard may mean one of another length.
func (x *Index) spanAt(at spot, name uint64) int {
	for k := x.supportsOf(x.op.lane, at.run, at.pos()); k != 0; k = x.listed(k).next {
		if v := x.listed(k); v.name == name && v.shard == x.op.shard && !v.inner {
			return int(v.span)
		}
	}
	return 1
}
