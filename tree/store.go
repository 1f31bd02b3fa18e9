package tree

import "sync/atomic"

// place is where the next block of a chain goes: at offset off of a run, that
// is behind its first off blocks.
type place struct {
	run uint32
	off int
}

// Store applies one stored event. See Writer.
func (x *Index) Store(o Owner, s *Store) Outcome {
	if !x.begin(o) {
		return x.op.out
	}
	x.budget.startEvent()
	x.op.span, x.op.stride, x.op.pairs = s.Span, 1+s.Span, s.Pairs
	n := s.blocks()
	if n < 0 || s.Root > MaxRoot {
		x.op.out.Reason = BadShape
		return x.op.out
	}
	if n == 0 {
		return x.op.out
	}
	if 2*n > reclaimPerEvent {
		x.takeBack(2 * n)
	}
	x.expectOwn(n, s.HasParent, s.Parent)
	x.begun()
	if r := x.duplicates(n, s.HasParent, s.Parent); r != Accepted {
		x.op.out.Reason = r
		return x.op.out
	}
	at := place{run: rootRun(s.Root)}
	known := true
	if s.HasParent {
		// A parent that waits under a newer meaning is not the block it was.
		if p, ok := x.resolveParent(s.Parent); ok && x.findWaiting(s.Parent) == 0 {
			if n == 1 && !s.KeepMeaning && x.appendOne(p) {
				return x.op.out
			}
			at = place{p.run, p.pos() + 1}
			x.ownParent(p)
		} else if known = s.Parent == 0 && !ok; !known && !s.KeepMeaning {
			x.wait(0, n, s.Parent)
			return x.op.out
		}
	}
	if s.KeepMeaning {
		x.keepMeaning(at, known, n, s)
	} else {
		x.chain(at, 0, n)
	}
	if x.lanes[x.op.lane].waiting > 0 {
		if !s.KeepMeaning {
			x.unwait(n)
		}
		x.attach(n)
	}
	return x.op.out
}

// blocks is how many blocks the event has, below 0 if it is misshapen.
func (s *Store) blocks() int {
	n := len(s.Pairs)
	switch {
	case s.Span == 1 && n%2 == 0: // nearly always, and a division takes its time
		return n / 2
	case s.Span < 1 || s.Span > maxCap || n%(1+s.Span) != 0:
		return -1
	}
	return n / (1 + s.Span)
}

// chain stores blocks [i, n) of the event from a place on.
func (x *Index) chain(at place, i, n int) {
	x.moves = x.moves[:0]
	asked, tries, goesOn := -1, 0, false
	for i < n {
		if x.op.span > 1 {
			if !x.admitSpanned() {
				if tries++; tries <= evictTries && x.makeMore(at.run) {
					continue
				}
				x.refuse(n - i)
				break
			}
			if !x.renameSpanned(i, at) {
				at = x.holdSpanned(at, i)
				i++
			}
			continue
		}
		here, k, fresh := x.locate(at, i, n)
		if x.tight() {
			k, fresh = min(k, pieceBlocks), min(fresh, pieceBlocks)
			if k == 0 && asked != i {
				if asked = i; x.makeRoom(at.run, fresh) {
					continue // look again: what was found may be gone
				}
			}
		}
		if k == 0 {
			want := n - i
			if want > 1 && !goesOn && x.joinBefore(&at) {
				continue // look again: the place is another
			}
			goesOn = true
			how, fresh := x.naming(at, i, min(fresh, len(x.homes)))
			if fresh == 0 {
				continue
			}
			if x.admit(at, here, 0, i, fresh, how == novel) {
				here, k = x.extend(at, i, fresh, want)
			}
			if k == 0 {
				if tries++; tries <= evictTries && x.makeMore(at.run) {
					continue
				}
				x.refuse(n - i)
				break
			}
			slot := x.laneHere(here)
			k = x.name(how, here, slot, k, i)
			x.claim(here, slot, k)
			x.gained(k)
		} else if !x.admit(at, here, k, i, 0, false) {
			if has := x.hasNamed(here, i, k); has > 0 {
				k = has
				x.loseCopies(k)
			} else if tries++; tries <= evictTries && (x.makeMore(at.run) || x.makeLane(here, i, k)) {
				continue // look again: the run may have lost its end
			} else {
				x.refuse(k) // they lie there all the same: what is behind them may find room
				x.budget.loose = true
			}
		} else if k = x.holdKnown(here, i, k); k == 0 {
			continue // a rename: look again
		}
		at = place{here.run, here.pos() + k}
		i += k
	}
	if i > 0 && !isRoot(at.run) {
		x.remember(x.op.name(i-1), at.run, at.off-1)
	}
	x.settleMoves()
}

// holdKnown adds k blocks that exist from here on to the holder; returns how
// many it did, 0 if a name that meant another block had to be moved first.
func (x *Index) holdKnown(here spot, i, k int) int {
	class, id := here.class(), x.op.lane
	slot := x.slot(here.hd, id)
	l := lane(0)
	if slot != nil {
		l = lane(slot.Load())
	}
	if x.lanes[id].ownRuns == 0 && !metaOf(here.hd).twin() {
		if n := x.sameNames(here, i, k); n > 0 {
			if n = x.untouched(l, class, here.pos(), n); n > 0 {
				if slot == nil {
					slot = x.newLane(here)
				}
				x.claim(here, slot, n)
				x.gained(n)
				return n
			}
		}
	}
	if k = min(k, maxHomes); k > 1 {
		x.warm(i, k)
	}
	if n := x.holdOwn(here, slot, i, k); n > 0 {
		return n
	}
	return x.holdSlow(here, i, k)
}

// sameNames is how many blocks have the run's shared names.
func (x *Index) sameNames(here spot, i, k int) int {
	class := here.class()
	names := sharedNames(here.hd, class)[here.pos():]
	n := 0
	for n < k && names[n].Load() == x.op.name(i+n) {
		n++
	}
	for n > 0 && !allNamed(here.hd, class, here.pos(), here.pos()+n) {
		n = n / 2
	}
	return n
}

// untouched is how many of n positions the holder has neither on the event's
// tier and shard nor in a support list; where the first one is not, the answer
// is 0.
func (x *Index) untouched(l lane, class uint32, pos, n int) int {
	if l.plain() {
		switch r := l.reach(); {
		case l == 0 || r <= pos:
			return n
		case l.tier() == x.op.tier:
			return 0
		default:
			return n
		}
	}
	s := x.side(l.ref())
	row := x.row(s, class, x.op.tier, x.op.shard, false)
	var exc []atomic.Uint64
	if ref := uint32(s[sExc].Load()); ref != 0 {
		exc = x.plane(class, ref)
	}
	for k := 0; k < n; k++ {
		if row != nil && bit(row, pos+k) || exc != nil && bit(exc, pos+k) {
			return k
		}
	}
	return n
}

// holdSlow is holdKnown for everything that is not plain: own names, twins,
// copies, of at most maxHomes blocks. It claims stretches the holder does not
// have, under names that mean nothing to it, at once.
func (x *Index) holdSlow(here spot, i, k int) int {
	class, from := here.class(), here.pos()
	strange := 0 // blocks whose names are known to mean nothing, done ones among them
	for done := 0; done < k; {
		here.position = int32(from + done)
		if strange <= done {
			var old spot
			var must bool
			if strange, old, must = x.strange(i+done, k-done, here); must {
				x.take(old, i+done)
				return done
			}
			strange += done
		}
		slot := x.laneHere(here)
		l, m := lane(slot.Load()), 0
		for done+m < strange && !x.holds(l, class, from+done+m, -1) {
			m++
		}
		if m == 0 {
			x.holdOne(here, i+done, 1)
			done++
			continue
		}
		x.nameSpan(here, slot, m, i+done)
		x.claim(here, slot, m)
		x.gained(m)
		done += m
	}
	return k
}

// keepMeaning applies a store that states no extra keys: a name that is known,
// or waits, gains the tier and keeps what it means.
func (x *Index) keepMeaning(at place, known bool, n int, s *Store) {
	x.moves = x.moves[:0]
	parent := s.Parent
	for i := 0; i < n; i++ {
		name := x.op.name(i)
		if old, ok := x.resolve(name); ok {
			if !x.admitMore(old) {
				x.refuse(1)
				continue
			}
			x.placeOne(old, i)
			at, known = place{old.run, old.pos() + 1}, true
		} else if s.SkipUnknown {
			x.op.out.Unknown++
			known = false
		} else if k := x.findWaiting(name); k != 0 {
			x.addCopies(&x.waiter(k).n, x.op.tier)
			x.op.out.Waiting++
			known = false
		} else if !known {
			x.wait(i, i+1, parent)
		} else if x.op.span > 1 {
			if !x.admitSpanned() {
				x.refuse(n - i)
				return
			}
			at = x.holdSpanned(at, i)
		} else {
			here, k, fresh := x.locate(at, i, i+1)
			if !x.admit(at, here, k, i, fresh, false) && x.makeMore(at.run) {
				here, k, fresh = x.locate(at, i, i+1)
			}
			if !x.admit(at, here, k, i, fresh, false) {
				x.refuse(n - i)
				return
			}
			if k == 0 {
				if here, k = x.extend(at, i, fresh, fresh); k == 0 {
					x.refuse(n - i)
					return
				}
			}
			x.holdOne(here, i, 1)
			at = place{here.run, here.pos() + 1}
		}
		parent = name
	}
}

// Place adds a tier to names the owner knows. See Writer.
func (x *Index) Place(o Owner, names []uint64) Outcome {
	if !x.begin(o) {
		return x.op.out
	}
	x.budget.startEvent()
	x.op.span, x.op.stride, x.op.pairs = 1, 1, names
	for i := range names {
		if at, ok := x.resolve(names[i]); ok {
			if !x.admitMore(at) {
				x.refuse(1)
				continue
			}
			x.placeOne(at, i)
		} else {
			x.op.out.Unknown++
		}
	}
	return x.op.out
}

// placeOne adds the event's tier to a block the holder has.
func (x *Index) placeOne(at spot, i int) {
	slot := x.slot(at.hd, x.op.lane)
	l := lane(slot.Load())
	if x.exceptional(l, at.class(), at.pos()) {
		if n := x.spanAt(at, x.op.name(i)); n > 1 {
			x.op.span, n = n, x.op.span
			x.addSpanned(at, i, 1)
			x.op.span = n
			return
		}
	}
	x.holdOne(at, i, 1)
}
