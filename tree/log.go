package tree

import (
	"slices"
	"sync/atomic"
)

// The log of a lane id is the runs it came to, oldest first: what a cleared
// holder is cleaned out of, and the order in which one that must give way does.
// It lies in a chain of blocks from the arena of logs. Entries may be stale: the
// holder has left the run since, or come again behind.
//
//	logHead ──▶ next · – – r r r r … ──▶ next · r r r … ──▶ 0 · r r ◀── logTail
//	                    ↑ logFirst              ↑ hand, of the byte budget
const (
	logWords = 16 // next, then 15 words of two runs
	logRuns  = (logWords - 1) * 2
)

// logRun notes that a lane has come to a run.
func (x *Index) logRun(id, run uint32) {
	x.lanes[id].runs++
	x.came(id, run)
	x.relog(id, run)
}

// relog notes a run that a lane is in under another number.
func (x *Index) relog(id, run uint32) {
	ls := &x.lanes[id]
	if ls.logged >= 2*ls.runs+4*logRuns {
		x.compactLog(id)
	}
	x.pushLog(ls, run)
}

// leaveRun notes that a lane is gone from its run.
func (x *Index) leaveRun(l lane, hd []atomic.Uint64) {
	ls := &x.lanes[l.id()]
	ls.runs--
	if l.own() {
		ls.ownRuns--
	}
	x.went(l.id(), hd)
}

func (x *Index) pushLog(ls *laneState, run uint32) {
	at := (int(ls.logFirst) + ls.logged) % logRuns
	if at == 0 {
		ref := x.logs.alloc()
		x.logs.at(ref)[0].Store(0)
		if ls.logTail != 0 {
			x.logs.at(ls.logTail)[0].Store(uint64(ref))
		} else {
			ls.logHead = ref
		}
		ls.logTail = ref
	}
	w := &x.logs.at(ls.logTail)[1+at/2]
	if at%2 == 0 {
		w.Store(uint64(run))
	} else {
		w.Store(w.Load() | uint64(run)<<32)
	}
	ls.logged++
}

// logEntry is an entry of a block of a log.
func (x *Index) logEntry(block uint32, at int) uint32 {
	return uint32(x.logs.at(block)[1+at/2].Load() >> (32 * (at % 2)))
}

// popLog takes the oldest entry off a log; 0 is one that was struck out.
func (x *Index) popLog(ls *laneState) uint32 {
	run := x.logEntry(ls.logHead, int(ls.logFirst))
	ls.logFirst++
	ls.logged--
	if ls.hand > 0 {
		ls.hand--
	}
	if ls.logged > 0 && ls.logFirst < logRuns {
		return run
	}
	next := uint32(x.logs.at(ls.logHead)[0].Load())
	x.logs.release(ls.logHead)
	if ls.handBlock == ls.logHead {
		ls.handBlock = next
	}
	ls.logHead, ls.logFirst = next, 0
	if ls.logged == 0 {
		ls.logTail = 0
	}
	return run
}

// atHand is the run that a log's hand points at, the oldest one behind the
// newest; 0 if that entry was struck out. The log is not empty.
func (x *Index) atHand(ls *laneState) uint32 {
	if ls.hand >= ls.logged || ls.handBlock == 0 {
		ls.hand, ls.handBlock = 0, ls.logHead
	}
	return x.logEntry(ls.handBlock, (int(ls.logFirst)+ls.hand)%logRuns)
}

// passHand moves the hand to the next entry.
func (x *Index) passHand(ls *laneState) {
	ls.hand++
	if (int(ls.logFirst)+ls.hand)%logRuns == 0 {
		ls.handBlock = uint32(x.logs.at(ls.handBlock)[0].Load())
	}
}

// strike takes the entry at the hand out of the log, and moves to the next.
func (x *Index) strike(ls *laneState) {
	if ls.hand == 0 {
		x.popLog(ls)
		return
	}
	at := (int(ls.logFirst) + ls.hand) % logRuns
	w := &x.logs.at(ls.handBlock)[1+at/2]
	w.Store(w.Load() &^ (0xffffffff << (32 * (at % 2))))
	x.passHand(ls)
}

// compactLog leaves one entry a run that still has the lane, that of its last
// coming. They are in x.logScratch afterwards.
func (x *Index) compactLog(id uint32) {
	ls, ages := &x.lanes[id], x.logAges[:0]
	for age := uint64(0); ls.logged > 0; age++ {
		if run := x.popLog(ls); run != 0 {
			ages = append(ages, uint64(run)<<32|age)
		}
	}
	slices.Sort(ages)
	n := 0
	for i, a := range ages {
		run := uint32(a >> 32)
		if i+1 < len(ages) && uint32(ages[i+1]>>32) == run || x.laneIn(x.run(run), id) == 0 {
			continue
		}
		ages[n] = a<<32 | uint64(run)
		n++
	}
	slices.Sort(ages[:n])
	x.logAges, x.logScratch = ages, x.logScratch[:0]
	ls.hand, ls.handBlock = 0, 0
	for _, a := range ages[:n] {
		x.logScratch = append(x.logScratch, uint32(a))
		x.pushLog(ls, uint32(a))
	}
}
