package tree

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrFull says that an index has no id left for one more holder.
var ErrFull = errors.New("tree: no holder id left")

// holderState is what the writer knows of a holder. A Holder is the index of
// its state with a generation on top, so that it is never used again.
type holderState struct {
	lane   uint32 // its lane id now; 0: dropped
	gen    uint16
	rule   Policy
	shards uint8
	hidden bool
}

// laneState is what the writer knows of a lane id. A holder that is cleared
// goes on under another id; the old one is free when no lane carries it.
type laneState struct {
	shards      uint8     // of the holder; stays when the id is retired
	retired     bool      // nobody's any more, but lanes may carry it
	kin         bool      // another has been met that calls a block by the same own name
	met         uint8     // runs come to since it is private, for meetsKin
	own         *ownTable // names of its own, nil if there never were any
	runs        int       // runs with a lane of this id
	ownRuns     int       // those of them where its names are its own
	residencies int
	logHead     uint32 // the log of runs: its oldest block,
	logTail     uint32 // its newest,
	logFirst    uint8  // where in the oldest it begins,
	logged      int    // and its entries, stale ones included
	hand        int    // the byte budget's place in it, from the oldest entry on,
	handBlock   uint32 // the block that has it,
	tail        uint32 // and the run to go on from before, 0 if it does not matter
	waiting     int
	waitHead    uint32
	waitTail    uint32
}

// private reports whether nearly all names of a holder are its own, and nobody's
// else as far as is known. Those to come will be, too: its runs do not bear them,
// but it, so that its own table knows all of them and no other has to be asked.
func (ls *laneState) private() bool {
	return ls.ownRuns > 0 && !ls.kin && 4*ls.own.names() >= 3*ls.residencies
}

func (h *holderState) handle(i uint32) Holder { return Holder(uint32(h.gen)<<16 | i) }

// state finds a holder, nil if there is none.
func (x *Index) state(h Holder) *holderState {
	i := uint32(h) & 0xffff
	if int(i) >= len(x.holders) {
		return nil
	}
	s := &x.holders[i]
	if s.lane == 0 || s.handle(i) != h {
		return nil
	}
	return s
}

// AddHolder makes a holder. See Writer.
func (x *Index) AddHolder(p Policy, shards int) (Holder, error) {
	if shards < 1 || shards > MaxShards {
		return 0, fmt.Errorf("tree: %d TP shards: a holder has 1 to %d", shards, MaxShards)
	}
	x.called()
	i := uint32(0)
	if n := len(x.holdersFree); n > 0 {
		i = x.holdersFree[n-1]
	} else if len(x.holders) < 1<<16 {
		i = uint32(len(x.holders))
	} else {
		return 0, ErrFull
	}
	id, err := x.newLaneID(uint8(shards))
	if err != nil {
		return 0, err
	}
	if int(i) == len(x.holders) {
		x.holders = append(x.holders, holderState{})
	} else {
		x.holdersFree = x.holdersFree[:len(x.holdersFree)-1]
	}
	s := &x.holders[i]
	s.lane, s.gen, s.rule, s.shards, s.hidden = id, s.gen+1, p, uint8(shards), false
	x.whole(s.handle(i))
	x.publishOwner(s.handle(i), s)
	x.holdersLive++
	return s.handle(i), nil
}

// newLaneID finds an id that no lane carries, finishing deferred work for one
// if it must.
func (x *Index) newLaneID(shards uint8) (uint32, error) {
	id := uint32(0)
	for {
		if n := len(x.lanesFree); n > 0 {
			id = x.lanesFree[n-1]
			x.lanesFree = x.lanesFree[:n-1]
			break
		}
		if len(x.lanes) < maxLanes {
			id = uint32(len(x.lanes))
			x.lanes = append(x.lanes, laneState{})
			break
		}
		if !x.reclaim(1<<20) && len(x.lanesFree) == 0 {
			return 0, ErrFull
		}
	}
	x.lanes[id] = laneState{shards: shards}
	return id, nil
}

// retire takes a lane id out of all answers, in one store. Whose it was stands
// until the id has another holder: a walk that has found it shown may still ask.
func (x *Index) retire(id uint32) {
	x.setShown(id, false)
	x.mark(stepOwner)
	x.lanes[id].retired = true
	x.dropOwnNames(id)
	x.waitingAll -= x.lanes[id].waiting // nobody's: they go when its lanes do
	x.waitingGone += x.lanes[id].waiting
	x.retired = append(x.retired, id)
}

// Clear empties a holder. See Writer. Its new id is in no run, so it holds
// nothing from the moment the old one is retired.
func (x *Index) Clear(h Holder) {
	s := x.state(h)
	if s == nil {
		return
	}
	x.called()
	old := s.lane
	if ls := &x.lanes[old]; ls.runs == 0 && ls.waiting == 0 {
		x.whole(h)
		return
	}
	x.retire(old)
	id, err := x.newLaneID(s.shards)
	for err != nil { // every id is in use: wait for our own to come free
		x.reclaim(1 << 20)
		id, err = x.newLaneID(s.shards)
	}
	s.lane = id
	x.noteWeight(h)
	x.whole(h)
	x.publishOwner(h, s)
}

// publishOwner says whose a lane id is now, and whether it is seen. The epoch
// moves on both sides: a walk that began before this ends as if before, and one
// that begins in between finds what it will find behind, for nothing else
// changes meanwhile. An id that is new to its holder counts as well: a walk may
// have met it under the holder before.
func (x *Index) publishOwner(h Holder, s *holderState) {
	x.epoch.Add(1)
	x.mark(stepOwner)
	if x.owners[s.lane].Load() != uint32(h) {
		x.owners[s.lane].Store(uint32(h))
		x.mark(stepOwner)
		x.seats.Add(1)
	}
	x.mark(stepOwner)
	x.setShown(s.lane, !s.hidden)
	x.mark(stepOwner)
	x.epoch.Add(1)
	x.mark(stepOwner)
}

func (x *Index) setShown(id uint32, on bool) {
	w, b := &x.shown[id>>6], uint64(1)<<(id&63)
	if on {
		w.Store(w.Load() | b)
	} else {
		w.Store(w.Load() &^ b)
	}
}

// visible reports whether the holder of a lane id may be told of. Any goroutine.
func (x *Index) visible(id uint32) bool { return x.shown[id>>6].Load()>>(id&63)&1 != 0 }

// Drop takes a holder away. See Writer.
func (x *Index) Drop(h Holder) {
	s := x.state(h)
	if s == nil {
		return
	}
	x.called()
	x.retire(s.lane)
	s.lane = 0
	x.noteWeight(h)
	x.holdersLive--
	if s.gen < 1<<16-1 { // a holder's number that has used up its generations is given up
		x.holdersFree = append(x.holdersFree, uint32(h)&0xffff)
	}
}

// Hide takes a holder out of all answers. See Writer.
func (x *Index) Hide(h Holder) { x.setHidden(h, true) }

// Show brings a hidden holder back. See Writer.
func (x *Index) Show(h Holder) { x.setHidden(h, false) }

func (x *Index) setHidden(h Holder, hidden bool) {
	if s := x.state(h); s != nil && s.hidden != hidden {
		x.called()
		s.hidden = hidden
		x.publishOwner(h, s)
	}
}

// begin sets up the event of an owner; false, with a reason, if there is none.
func (x *Index) begin(o Owner) bool {
	x.called()
	x.op, x.fetched, x.expected = op{}, 0, 0
	s := x.state(o.Holder)
	if s == nil || o.Tier >= NumTiers || o.Shard >= s.shards {
		x.op.out.Reason = BadOwner
		return false
	}
	x.op.lane, x.op.tier, x.op.shard = s.lane, o.Tier, o.Shard
	x.noteWeight(o.Holder)
	x.op.shards, x.op.rule = int(s.shards), s.rule
	x.takeBack(reclaimPerEvent)
	return true
}

// takeBack is reclaim within an event.
func (x *Index) takeBack(n int) {
	if len(x.retired) > 0 {
		keep := x.op
		x.reclaim(n)
		x.op = keep
	}
}

// reclaimPerEvent is how many blocks of cleared holders an event takes with it,
// about, and twice as many as it brings; reclaimPerStep how many a step does; a run counts for some however
// few it has, and a waiting block for some.
const (
	reclaimPerEvent = 64
	reclaimPerStep  = 512
	reclaimPerRun   = 8
	reclaimPerWait  = 2
)

// reclaim drops lanes of retired ids, or parts of them, as much as n blocks are,
// and reports whether any was left.
func (x *Index) reclaim(n int) bool {
	for len(x.retired) > 0 && n > 0 {
		id := x.retired[0]
		ls := &x.lanes[id]
		for ; ls.waiting > 0 && n > 0; n -= reclaimPerWait {
			x.dropWaiting(ls.waitHead)
		}
		for (ls.logged > 0 || x.partly != 0) && n > 0 {
			run := x.partly
			if x.partly = 0; run == 0 {
				run = x.popLog(ls)
			}
			if run != 0 {
				n -= x.dropSome(spot{run: run, hd: x.run(run)}, id, n)
			}
			n -= reclaimPerRun
		}
		if ls.waiting == 0 && ls.logged == 0 && x.partly == 0 {
			x.retired = append(x.retired[:0], x.retired[1:]...)
			x.lanesFree = append(x.lanesFree, id)
			n--
		}
	}
	return len(x.retired) > 0
}

// dropSome takes a retired id out of a run, or no more than about n blocks of
// it, leaf side first: then the run is the next to go on with. It returns how
// many blocks it took.
func (x *Index) dropSome(at spot, id uint32, n int) int {
	slot := x.slot(at.hd, id)
	if slot == nil {
		return 0
	}
	l := lane(slot.Load())
	top := l.reach()
	if !l.plain() {
		top = x.rowsTop(l.ref(), at.class())
	}
	if n = max(n, reclaimPerRun); top <= n {
		x.dropLane(at, slot)
		return top
	}
	x.partly = at.run
	if at.position = int32(top - n); l.plain() {
		x.lower(at, slot, n, l.tier(), 0)
	} else {
		x.cutRows(at, slot, l, top-n)
	}
	return n
}

// dropLane takes a holder out of a run altogether.
func (x *Index) dropLane(at spot, slot *atomic.Uint64) {
	l, class := lane(slot.Load()), at.class()
	cnt := count(at.hd[hVersion].Load())
	if !l.plain() {
		s := x.side(l.ref())
		for p := 0; p < cnt; p++ {
			if at.position = int32(p); x.marked(s, class, sExc, p) {
				x.dropSupports(at, l)
			}
		}
		x.lanes[l.id()].residencies -= int(s[sRes].Load())
	}
	slot.Store(0)
	x.vacate(at.hd, l.id())
	at.hd[hMeta].Store(at.hd[hMeta].Load() - metaHolder)
	x.leaveRun(l, at.hd)
	x.mark(stepLower)
	if l.own() {
		x.forgetOwn(at, l, 0, cnt)
	}
	at.position = int32(0)
	x.settle(at.run, l, x.bury(at, 0, cnt))
	x.freeRefs(l, class)
}

// dropSupports frees the list of a position with the names in it.
func (x *Index) dropSupports(at spot, l lane) {
	head := x.supportsOf(l.id(), at.run, at.pos())
	x.setSupports(l.id(), at.run, at.pos(), head, 0)
	for i := head; i != 0; {
		v := *x.listed(i)
		if l.own() && !v.inner && !x.supportsName(v.next, v.name, -1) {
			x.dropOwnName(l.id(), v.name, at)
		}
		x.freeSupport(i)
		i = v.next
	}
}

// ClearShard empties one TP shard of a holder. See Writer. The holder is hidden
// from answers meanwhile.
func (x *Index) ClearShard(h Holder, shard int) {
	s := x.state(h)
	if s == nil || shard < 0 || shard >= int(s.shards) {
		return
	}
	if s.shards == 1 {
		x.Clear(h)
		return
	}
	x.called()
	hidden := s.hidden
	if !hidden {
		x.setHidden(h, true)
	}
	x.op = op{lane: s.lane, shard: uint8(shard), shards: int(s.shards), rule: s.rule}
	ls := &x.lanes[s.lane]
	x.noteWeight(h)
	for k := ls.waitHead; k != 0; {
		next := x.waiter(k).next
		if int(x.waiter(k).shard) == shard {
			x.dropWaiting(k)
		}
		k = next
	}
	x.compactLog(s.lane)
	for _, run := range x.logScratch {
		at := spot{run: run, hd: x.run(run)}
		for t := Device; t < NumTiers; t++ {
			slot := x.slot(at.hd, s.lane)
			if slot == nil {
				break
			}
			x.clearRow(at, slot, t, uint8(shard))
		}
	}
	if !hidden {
		x.setHidden(h, false)
	}
}

// clearRow empties one row of a holder in a run.
func (x *Index) clearRow(at spot, slot *atomic.Uint64, t Tier, shard uint8) {
	class := at.class()
	l := lane(slot.Load())
	if l.plain() {
		return
	}
	row := x.row(x.side(l.ref()), class, t, shard, false)
	if row == nil {
		return
	}
	for p := 0; p < capOf(class); p++ {
		if !bit(row, p) {
			continue
		}
		at.position = int32(p)
		if x.exceptional(l, class, p) {
			for {
				name, ok := x.supportOn(l.id(), at, t, shard)
				if !ok {
					break
				}
				if _, _, bare := x.unsupport(at, l, name, t, shard, 0); bare {
					break
				}
			}
		}
		x.lower(at, slot, 1, t, shard)
		if lane(slot.Load()).id() != l.id() {
			return
		}
	}
}

// supportOn is some name that stands behind (tier, shard) at a position.
func (x *Index) supportOn(id uint32, at spot, t Tier, shard uint8) (uint64, bool) {
	for i := x.supportsOf(id, at.run, at.pos()); i != 0; i = x.listed(i).next {
		if v := x.listed(i); v.tier == t && v.shard == shard {
			return v.name, true
		}
	}
	return 0, false
}
