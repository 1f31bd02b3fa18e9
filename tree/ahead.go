package tree

import (
	"sync/atomic"
	"unsafe"
)

// Most of what an event costs is waiting for memory: the line of the name
// table where a name stands, the header of the run, the ends of its contents
// and names, each found by way of the one before. So lines are fetched ahead:
// those of an event's later names while the earlier ones are worked on, and
// those of later events while earlier ones are applied, if the caller tells of
// them:
//
//	Coming(16th from now)   lines of the tables: parent, first names, root
//	  the 8th from now      what stands there now: header and end of the run
//	Store(this one)         finds all of it near
//
// What is fetched is a guess. Nothing depends on it, and an index that is told
// nothing, or something else than what comes, does the same.

const (
	// lead is how many names of an event are fetched ahead of those that are
	// worked on.
	lead = maxHomes
	// fetchStep is how many are fetched between two pieces of that work, no more
	// than processors have under way.
	fetchStep = 16
	// Foresight is how many events ahead of its turn Coming and ComingRemove
	// should tell of one.
	Foresight = 16
	// comingNames is how many names of a later event are fetched.
	comingNames = 16
	// recentEnds is how many ends of chains are remembered.
	recentEnds = 8192
)

// coming is a later event whose run is not known yet.
type coming struct {
	hash uint64 // of a name, or of a link if link is set
	link bool
}

// Coming tells of a stored event some events ahead. See Foreseer.
func (x *Index) Coming(o Owner, s *Store) {
	if s.Span < 1 || len(s.Pairs) <= s.Span || x.notForetold(o) {
		return
	}
	x.untold = 0
	x.foresee()
	lines, stride := x.lines[:0], 1+s.Span
	x.names.ask(s.Pairs, stride, min(len(s.Pairs)/stride, comingNames))
	if !s.HasParent {
		h := mix(x.links.seed, makeLink(rootRun(s.Root), 0), s.Pairs[1])
		lines = append(lines, x.links.line(h))
		x.foreseen(coming{h, true})
	} else if h := x.names.hash(s.Parent); x.recent(h) != 0 {
		lines = x.end(lines, x.recent(h))
	} else {
		lines = append(lines, x.names.line(h))
		x.foreseen(coming{h, false})
	}
	fetchLines(&lines[0], len(lines))
}

// ComingRemove tells of a removed event some events ahead. See Foreseer.
func (x *Index) ComingRemove(o Owner, names []uint64) {
	if len(names) == 0 || x.notForetold(o) {
		return
	}
	x.untold = 0
	x.foresee()
	x.names.ask(names, 1, min(len(names), comingNames))
	x.foreseen(coming{x.names.hash(names[0]), false})
}

// notForetold reports whether it does not pay to be told ahead of a holder's events:
// there is no such holder, or it calls most blocks by names of its own, whose table
// is small enough to be near.
func (x *Index) notForetold(o Owner) bool {
	s := x.state(o.Holder)
	if s == nil {
		return true
	}
	ls := &x.lanes[s.lane]
	return ls.own != nil && 2*ls.own.live > ls.residencies
}

// foreseen notes an event whose place is in a line that is just being fetched.
func (x *Index) foreseen(c coming) { x.comings[x.comingNext%Foresight] = c }

// foresee looks for the place of the event of half of Foresight calls ago, and
// fetches what will be needed there.
func (x *Index) foresee() {
	x.comingNext++
	c := &x.comings[(x.comingNext+Foresight/2)%Foresight]
	lines := x.lines[:0]
	switch {
	case c.hash == 0:
		return
	case c.link:
		if run := x.links.guess(c.hash); run != 0 {
			hd := x.run(run)
			lines = append(lines, address(&hd[hVersion]), address(&hd[hBody]))
		}
	default:
		if e, _ := x.names.first(c.hash); e != 0 {
			lines = x.end(lines, e)
		}
	}
	c.hash = 0
	if len(lines) > 0 {
		fetchLines(&lines[0], len(lines))
	}
}

// end adds the lines that are looked at where a chain goes on behind the block
// of an entry of the name table.
func (x *Index) end(lines []uintptr, e uint64) []uintptr {
	run, pos := entryRun(e), entryPos(e)
	hd, class := x.run(run), classOf(run)
	c := capOf(class)
	lines = append(lines, address(&hd[hVersion]), address(&hd[hBody+min(pos+1, c-1)]), address(&hd[hBody+c+pos]))
	if class > 3 {
		lines = append(lines, address(&hd[hBody+2*c+pos>>6]))
	}
	return lines
}

func address(w *atomic.Uint64) uintptr { return uintptr(unsafe.Pointer(w)) }

// recent is the entry of a name that was the last of an event, by its hash, if
// it is still remembered; 0 if not. It may be out of date.
func (x *Index) recent(hash uint64) uint64 {
	if e := x.recents[hash>>32%recentEnds]; e>>entryTag == hash<<nameCut>>entryTag {
		return e
	}
	return 0
}

// remember notes where an event's last block lies: what comes next is most
// likely the block behind it.
func (x *Index) remember(name uint64, run uint32, pos int) {
	h := x.names.hash(name)
	x.recents[h>>32%recentEnds] = nameEntry(h, run, pos)
}

// begun fetches what a stored event needs first, but for one that follows so soon on
// what was told that it is most likely foreseen.
func (x *Index) begun() {
	if ls := &x.lanes[x.op.lane]; x.untold > Foresight && (ls.ownRuns == 0 || ls.ownRuns < ls.runs) {
		x.fetch(0, lead)
	}
	x.untold++
}

// fetch asks for the lines of the name table that the names of blocks [i, end)
// of the event are sought at, but for those it has asked for already. end may
// lie behind the event's last block.
func (x *Index) fetch(i, end int) {
	pairs, stride := x.op.pairs, x.op.stride
	if i, end = max(i, x.fetched), min(end, len(pairs)/stride); i < end {
		x.names.ask(pairs[i*stride:], stride, end-i)
		x.fetched = end
	}
}
