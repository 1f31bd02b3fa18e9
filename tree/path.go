package tree

import "sync/atomic"

// locate finds the blocks from i on at a place: k of them lie from here on; or
// none, k = 0, and fresh says how many may be put there at once.
func (x *Index) locate(at place, i, n int) (here spot, k, fresh int) {
	c := x.op.content(i)
	if isRoot(at.run) {
		if id := x.find(at.run, 0, c); id != 0 {
			here = spot{run: id, hd: x.run(id)}
			return here, x.common(here, i, n), 0
		}
		return spot{}, 0, n - i
	}
	hd, class := x.run(at.run), classOf(at.run)
	cnt := count(hd[hVersion].Load())
	here = spot{run: at.run, position: int32(at.off), hd: hd}
	if at.off < cnt {
		if k = x.common(here, i, n); k > 0 {
			return here, k, 0
		}
	}
	if childBit(hd, class, at.off) {
		if id := x.find(at.run, at.off, c); id != 0 {
			here = spot{run: id, hd: x.run(id)}
			return here, x.common(here, i, n), 0
		}
	}
	if at.off == cnt && open(hd, class) {
		return spot{}, 0, min(n-i, capOf(class)-cnt)
	}
	return spot{}, 0, n - i
}

// open reports whether a run takes more blocks at its end. Who shares it does
// not matter: engines that bring one long prompt in turns fill the same runs.
func open(hd []atomic.Uint64, class uint32) bool {
	return count(hd[hVersion].Load()) < capOf(class)
}

// common is how many blocks from i on lie at a spot one after the other.
func (x *Index) common(at spot, i, n int) int {
	cnt := count(at.hd[hVersion].Load())
	have := at.hd[hBody+at.pos() : hBody+cnt]
	k := 0
	for k < len(have) && i+k < n && have[k].Load() == x.op.content(i+k) {
		k++
	}
	return k
}

// growClass is how large a run may be that a chain which grows by little events
// goes on in: each is twice the one before, so no more than that one's size is
// wasted.
const growClass = 7

// extend makes room for at most n blocks from i on behind a place, in the run
// itself or in a new one, with their contents and without names; they are
// there for readers, held by nobody. want, at least n, is how many will come.
// k is 0 if there is no room for a run.
func (x *Index) extend(at place, i, n, want int) (here spot, k int) {
	class := classFor(want)
	if !isRoot(at.run) {
		hd, pc := x.run(at.run), classOf(at.run)
		w0 := hd[hVersion].Load()
		if cnt := count(w0); at.off == cnt {
			if open(hd, pc) {
				k = min(n, capOf(pc)-cnt)
				fillUnseen(hd[hBody+cnt:hBody+cnt+k], x.op.pairs[i*x.op.stride+1:], x.op.stride)
				x.mark(stepAppend)
				hd[hVersion].Store(w0 + uint64(k))
				x.mark(stepAppend)
				return spot{run: at.run, position: int32(cnt), hd: hd}, k
			}
			// The first to go on from a full run; who parts from it there
			// gets no more than it brings.
			if cnt == capOf(pc) && !childBit(hd, pc, at.off) {
				class = max(class, min(pc+1, growClass))
			}
		}
	}
	class, ok := x.affordable(class)
	if !ok {
		return spot{}, 0
	}
	id := x.newRun(class)
	hd := x.run(id)
	k = min(n, capOf(class))
	fillUnseen(hd[hBody:hBody+k], x.op.pairs[i*x.op.stride+1:], x.op.stride)
	hd[hVersion].Store(hd[hVersion].Load() + uint64(k))
	x.linkRun(id, at.run, at.off)
	return spot{run: id, hd: hd}, k
}
