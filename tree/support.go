package tree

import (
	"sync/atomic"
	"unsafe"
)

// A position is exceptional for a holder if its residencies are not simply "one
// copy of the position's name on each tier whose bit is set": several copies,
// several names for one block, blocks longer than a unit. Then a list says them
// all: (name, tier, shard) with a number of copies. A bit of a row is set while
// any entry of the list stands behind it.
type support struct {
	name  uint64
	next  uint32
	n     uint32 // copies
	tier  Tier
	shard uint8
	span  uint16 // units of the block
	inner bool   // not the last position of the block
}

// plainVal is the non-zero bit of table values that carry a small number.
const plainVal = 1 << 48

func supportKey(run uint32, pos int) uint64 { return uint64(run)<<16 | uint64(pos) }

// supportsOf is the index of a position's first support, 0 if it has none.
func (x *Index) supportsOf(id, run uint32, pos int) uint32 {
	return uint32(x.exceptions.first(supportKey(run, pos), uint64(id)))
}

func (x *Index) setSupports(id, run uint32, pos int, old, head uint32) {
	key, tag := supportKey(run, pos), uint64(id)<<tagShift|plainVal
	switch {
	case old == head:
	case old == 0:
		x.exceptions.add(key, tag|uint64(head))
	case head == 0:
		x.exceptions.remove(key, tag|uint64(old))
	default:
		x.exceptions.replace(key, tag|uint64(old), tag|uint64(head))
	}
}

// listed is an entry of a list: a cell of an arena that readers never look into.
func (x *Index) listed(i uint32) *support {
	return (*support)(unsafe.Pointer(&x.supports.at(i)[0]))
}

// supportWords is how many words of the arena an entry takes.
const supportWords = int(unsafe.Sizeof(support{})+7) / 8

func (x *Index) newSupport(v support) uint32 {
	i := x.supports.alloc()
	*x.listed(i) = v
	return i
}

func (x *Index) freeSupport(i uint32) { x.supports.release(i) }

// findSupport returns the support of (name, tier, shard) at a position.
func (x *Index) findSupport(head uint32, name uint64, t Tier, shard uint8) *support {
	for i := head; i != 0; i = x.listed(i).next {
		if s := x.listed(i); s.name == name && s.tier == t && s.shard == shard {
			return s
		}
	}
	return nil
}

// supportsName reports whether a block of that name ends where the list is, on
// shard, or on any if negative.
func (x *Index) supportsName(head uint32, name uint64, shard int) bool {
	for i := head; i != 0; i = x.listed(i).next {
		if s := x.listed(i); s.name == name && !s.inner && (shard < 0 || int(s.shard) == shard) {
			return true
		}
	}
	return false
}

// makeExceptional writes down as a list what the bits of a position say.
func (x *Index) makeExceptional(at spot, slot *atomic.Uint64) {
	l, s := x.needRows(slot, at.class())
	if x.marked(s, at.class(), sExc, at.pos()) {
		return
	}
	names, head := x.namesOf(l, at.hd, at.class()), uint32(0)
	pl := &x.planes[planeOf(at.class())]
	for ref := uint32(s[sRows].Load()); ref != 0; {
		w := pl.at(ref)
		h := w[0].Load()
		if bit(w[1:], at.pos()) {
			head = x.newSupport(support{name: names[at.pos()].Load(), next: head, n: 1, tier: rowTier(h), shard: rowShard(h), span: 1})
		}
		ref = uint32(h)
	}
	x.setSupports(l.id(), at.run, at.pos(), 0, head)
	x.setMark(s, at.class(), sExc, at.pos(), true)
}

// support adds n copies of a name to a position the holder holds already, or
// whose bit the caller sets next. The position becomes exceptional.
func (x *Index) support(at spot, slot *atomic.Uint64, v support) {
	x.makeExceptional(at, slot)
	l := lane(slot.Load())
	head := x.supportsOf(l.id(), at.run, at.pos())
	if s := x.findSupport(head, v.name, v.tier, v.shard); s != nil {
		if x.op.rule == Copies {
			s.n += v.n
		}
		return
	}
	if l.own() || head == 0 || v.inner || v.name != x.nameAt(l, at.hd, at.class(), at.pos()) {
		l = x.makeOwn(at, slot, at.pos()+1)
	}
	if l.own() && !v.inner && !x.supportsName(head, v.name, -1) {
		x.addOwnName(l.id(), v.name, at)
	}
	v.next = head
	x.setSupports(l.id(), at.run, at.pos(), head, x.newSupport(v))
	if l.own() {
		x.nameExceptional(at, l)
	}
}

// nameExceptional picks the name that readers see at an exceptional position:
// one that stands behind every bit, whatever tier and shard a view asks about.
// Positions without such a name, those inside longer blocks among them, end a
// list of names: a reader could not tell which block goes on how far.
func (x *Index) nameExceptional(at spot, l lane) {
	s, class := x.side(l.ref()), at.class()
	head := x.supportsOf(l.id(), at.run, at.pos())
	good := uint32(0)
	for i := head; i != 0 && good == 0; i = x.listed(i).next {
		if x.listed(i).inner {
			continue
		}
		good = i
		for k := head; k != 0; k = x.listed(k).next {
			v := x.listed(k)
			if f := x.findSupport(head, x.listed(i).name, v.tier, v.shard); f == nil || f.inner {
				good = 0
				break
			}
		}
	}
	if good != 0 {
		x.ownNames(l)[at.pos()].Store(x.listed(good).name)
	}
	x.setMark(s, class, sNameless, at.pos(), good == 0)
}

// unsupport takes n copies of (name, tier, shard) from an exceptional position,
// all of them if n is 0, and reports how many it took, and whether the bit of
// (tier, shard) has lost its last support. The name table follows.
func (x *Index) unsupport(at spot, l lane, name uint64, t Tier, shard uint8, n uint32) (took uint32, ended, bare bool) {
	head := x.supportsOf(l.id(), at.run, at.pos())
	v := x.findSupport(head, name, t, shard)
	if v == nil {
		return 0, false, false
	}
	if n == 0 || n >= v.n {
		took, ended = v.n, true
	} else {
		v.n -= n
		took = n
	}
	if ended {
		newHead, inner := head, v.inner
		for i, prev := head, uint32(0); i != 0; prev, i = i, x.listed(i).next {
			if x.listed(i) != v {
				continue
			}
			if prev == 0 {
				newHead = v.next
			} else {
				x.listed(prev).next = v.next
			}
			x.freeSupport(i)
			break
		}
		x.setSupports(l.id(), at.run, at.pos(), head, newHead)
		head = newHead
		if l.own() && !inner && !x.supportsName(head, name, -1) {
			x.dropOwnName(l.id(), name, at)
		}
		bare = true
		for i := head; i != 0; i = x.listed(i).next {
			if x.listed(i).tier == t && x.listed(i).shard == shard {
				bare = false
				break
			}
		}
		if head != 0 && l.own() {
			x.nameExceptional(at, l)
		}
	}
	x.simplify(at, l, head)
	return took, ended, bare
}

// simplify makes a position plain again if its list has become what bits say.
func (x *Index) simplify(at spot, l lane, head uint32) {
	s := x.side(l.ref())
	if head != 0 {
		name := x.nameAt(l, at.hd, at.class(), at.pos())
		for i := head; i != 0; i = x.listed(i).next {
			if v := x.listed(i); v.n != 1 || v.span != 1 || v.name != name {
				return
			}
		}
		x.setSupports(l.id(), at.run, at.pos(), head, 0)
		for i := head; i != 0; {
			next := x.listed(i).next
			x.freeSupport(i)
			i = next
		}
	}
	x.setMark(s, at.class(), sExc, at.pos(), false)
	x.setMark(s, at.class(), sNameless, at.pos(), false)
}
