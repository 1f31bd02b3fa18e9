package tree

import (
	"slices"
	"unsafe"
)

// waiting is one block kept aside because its parent is not known to the
// owner's shard, with its copies on each tier. A name waits once in a shard; it
// may be held there too, as the block it meant before: what waits changes
// nothing until its parent comes. A block of several units keeps its further
// contents in a chain of entries behind more.
type waiting struct {
	name    uint64
	parent  uint64
	content uint64
	seq     uint64 // order of arrival
	prev    uint32 // of the same lane, oldest first
	next    uint32
	more    uint32
	lane    uint16
	span    uint16
	shard   uint8
	n       [NumTiers]uint32
}

// waitWords is how many words of the arena of waiting blocks one takes.
const waitWords = int(unsafe.Sizeof(waiting{})+7) / 8

// waiter is a waiting block: a cell of an arena that readers never look into.
func (x *Index) waiter(k uint32) *waiting {
	return (*waiting)(unsafe.Pointer(&x.waits.at(k)[0]))
}

func (x *Index) newWaiting() uint32 {
	k := x.waits.alloc()
	*x.waiter(k) = waiting{}
	return k
}

// findWaiting is the entry of a name that waits on the event's shard, or 0.
func (x *Index) findWaiting(name uint64) uint32 {
	if x.lanes[x.op.lane].waiting == 0 {
		return 0
	}
	tag := uint64(x.op.lane)
	h := x.waitNames.hash(name, tag)
	for v, i := x.waitNames.next(h, h, name, tag); v != 0; v, i = x.waitNames.next(h, i, name, tag) {
		if k := uint32(v); x.waiter(k).shard == x.op.shard {
			return k
		}
	}
	return 0
}

// wait keeps blocks [i, n) of the event aside; the first behind parent, each
// further one behind the one before it. A name that waits already means this
// block from now on: its copies wait with it.
func (x *Index) wait(i, n int, parent uint64) {
	ls := x.op.lane
	for ; i < n; i++ {
		for x.waitingGone > 0 && (x.waitingAll+x.waitingGone >= x.waitBound || !x.waitFits()) {
			x.takeBack(reclaimPerStep)
		}
		for !x.waitFits() && x.lanes[ls].waiting > 0 {
			x.dropWaiting(x.lanes[ls].waitHead)
			x.op.out.Dropped++
		}
		if !x.waitFits() {
			x.refuse(n - i)
			return
		}
		name := x.op.name(i)
		var copies [NumTiers]uint32
		if k := x.findWaiting(name); k != 0 {
			copies = x.waiter(k).n
			x.dropWaiting(k)
		}
		x.addCopies(&copies, x.op.tier)
		x.enqueue(i, parent, copies)
		x.op.out.Waiting++
		parent = name
		for x.lanes[ls].waiting > x.waitLimit || x.waitingAll > x.waitBound {
			x.dropWaiting(x.lanes[ls].waitHead)
			x.op.out.Dropped++
		}
	}
}

func (x *Index) addCopies(n *[NumTiers]uint32, t Tier) {
	if x.op.rule == Copies || n[t] == 0 {
		n[t]++
	}
}

// enqueue makes block i of the event wait behind parent.
func (x *Index) enqueue(i int, parent uint64, copies [NumTiers]uint32) {
	id := x.op.lane
	more := uint32(0)
	for j := x.op.span; j > 1; j-- {
		m := x.newWaiting()
		x.waiter(m).content = x.op.pairs[i*x.op.stride+j]
		x.waiter(m).more = more
		more = m
	}
	k := x.newWaiting()
	x.waitSeq++
	ls := &x.lanes[id]
	*x.waiter(k) = waiting{
		name: x.op.name(i), parent: parent, content: x.op.content(i), seq: x.waitSeq,
		prev: ls.waitTail, more: more, lane: uint16(id), span: uint16(x.op.span),
		shard: x.op.shard, n: copies,
	}
	if ls.waitTail != 0 {
		x.waiter(ls.waitTail).next = k
	} else {
		ls.waitHead = k
	}
	ls.waitTail = k
	ls.waiting++
	x.waitingAll++
	val := uint64(id)<<tagShift | plainVal | uint64(k)
	x.waitParents.add(parent, val)
	x.waitNames.add(x.waiter(k).name, val)
}

// dropWaiting forgets a waiting block.
func (x *Index) dropWaiting(k uint32) {
	w := *x.waiter(k)
	val := uint64(w.lane)<<tagShift | plainVal | uint64(k)
	x.waitParents.remove(w.parent, val)
	x.waitNames.remove(w.name, val)
	ls := &x.lanes[w.lane]
	if w.prev != 0 {
		x.waiter(w.prev).next = w.next
	} else {
		ls.waitHead = w.next
	}
	if w.next != 0 {
		x.waiter(w.next).prev = w.prev
	} else {
		ls.waitTail = w.prev
	}
	ls.waiting--
	if ls.retired {
		x.waitingGone--
	} else {
		x.waitingAll--
	}
	for m := k; m != 0; {
		more := x.waiter(m).more
		x.waits.release(m)
		m = more
	}
}

// withdraw takes one copy of a waiting block away, all of them under Set.
func (x *Index) withdraw(name uint64) bool {
	k := x.findWaiting(name)
	if k == 0 || x.waiter(k).n[x.op.tier] == 0 {
		return false
	}
	n := &x.waiter(k).n
	if n[x.op.tier]--; x.op.rule == Set {
		n[x.op.tier] = 0
	}
	if *n == ([NumTiers]uint32{}) {
		x.dropWaiting(k)
	}
	return true
}

// unwait moves copies that wait under a name of the event's blocks to where the
// event has put the name: the last announcement decides for them too.
func (x *Index) unwait(n int) {
	for i := 0; i < n; i++ {
		k := x.findWaiting(x.op.name(i))
		if k == 0 {
			continue
		}
		if at, ok := x.resolve(x.op.name(i)); ok && x.admitMore(at) {
			copies := x.waiter(k).n
			x.dropWaiting(k)
			x.addAll(at, i, &copies)
		}
	}
}

// addAll adds copies on all tiers of block i, which ends at a spot the holder
// knows or has just been given.
func (x *Index) addAll(at spot, i int, copies *[NumTiers]uint32) {
	tier := x.op.tier
	for t, n := range copies {
		if n == 0 {
			continue
		}
		x.op.tier = Tier(t)
		if x.op.span > 1 {
			x.addSpanned(at, i, n)
		} else {
			x.holdOne(at, i, n)
		}
	}
	x.op.tier = tier
}

// attach stores what waits behind the event's n blocks, and what waits behind
// that, oldest first, by a work list.
func (x *Index) attach(n int) {
	id := x.op.lane
	x.work = x.work[:0]
	for i := 0; i < n; i++ {
		x.work = append(x.work, x.op.name(i))
	}
	keep := x.op
	for w := 0; w < len(x.work) && x.lanes[id].waiting > 0; w++ {
		parent := x.work[w]
		x.waitQueue = x.waitQueue[:0]
		h, tag := x.waitParents.hash(parent, uint64(id)), uint64(id)
		for v, i := x.waitParents.next(h, h, parent, tag); v != 0; v, i = x.waitParents.next(h, i, parent, tag) {
			if k := uint32(v); x.waiter(k).shard == x.op.shard {
				x.waitQueue = append(x.waitQueue, k)
			}
		}
		if len(x.waitQueue) == 0 {
			continue
		}
		slices.SortFunc(x.waitQueue, func(a, b uint32) int { return int(x.waiter(a).seq) - int(x.waiter(b).seq) })
		for _, k := range x.waitQueue {
			at, ok := x.resolve(parent)
			if !ok {
				break
			}
			x.attachOne(place{at.run, at.pos() + 1}, k)
		}
	}
	x.op.tier, x.op.span, x.op.stride, x.op.pairs = keep.tier, keep.span, keep.stride, keep.pairs
}

// attachOne stores one waiting block at its place.
func (x *Index) attachOne(at place, k uint32) {
	w := *x.waiter(k)
	x.pair = append(x.pair[:0], w.name, w.content)
	for m := w.more; m != 0; m = x.waiter(m).more {
		x.pair = append(x.pair, x.waiter(m).content)
	}
	x.dropWaiting(k)
	x.op.span, x.op.stride, x.op.pairs = int(w.span), 1+int(w.span), x.pair
	first := Device
	for w.n[first] == 0 {
		first++
	}
	x.op.tier = first
	x.chain(at, 0, 1)
	w.n[first]--
	if end, ok := x.resolve(w.name); ok && x.admitMore(end) {
		x.addAll(end, 0, &w.n)
	}
	x.work = append(x.work, w.name)
}
