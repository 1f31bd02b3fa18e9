package fleet

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Domain is a residency domain.
type Domain uint8

const (
	Worker     Domain = iota // the engine's own cache
	CacheOwner               // its pool (ownership kvcr)
)

// String returns the name that answers use.
func (d Domain) String() string {
	if d == CacheOwner {
		return "cache_owner"
	}
	return "worker"
}

// Holder is what an answer names.
type Holder struct {
	Source string
	Rank   int
	Domain Domain
}

// String returns source/rank/domain.
func (h Holder) String() string { return fmt.Sprintf("%s/%d/%s", h.Source, h.Rank, h.Domain) }

// View is what a depth counts.
type View uint8

const (
	OnDevice     View = iota // device alone
	OnHost                   // host alone
	OnAny                    // each block on any tier of the holder's own
	OnDeviceHost             // each block on device or host
	Extension                // a device prefix, then host blocks right behind it
	NumViews
)

// String returns the view's name in reports.
func (v View) String() string {
	if v < NumViews {
		return [...]string{"device", "host", "any", "device_host", "host_extension"}[v]
	}
	return fmt.Sprintf("view(%d)", uint8(v))
}

// Errors of a judgement that cannot be made.
var (
	// ErrForgotten: the interval begins before what the history keeps.
	ErrForgotten = errors.New("fleet: interval begins before what is remembered")
	// ErrFuture: the interval names a sequence that was never published.
	ErrFuture = errors.New("fleet: interval names a sequence that was not published")
	// ErrUnknown: there is no such holder.
	ErrUnknown = errors.New("fleet: no such holder")
)

// Match says how a figure agrees with the truth.
type Match uint8

const (
	False  Match = iota // the truth at no instant of the interval
	Inside              // the truth at an instant inside a batch
	Whole               // the truth after a whole batch
)

// Allowed is the set of depths, in blocks, that were true within an interval.
type Allowed struct {
	whole, inside []uint64 // bitsets
	// Bounds: so much happened within the interval that only the least and
	// the greatest possible depth were worked out.
	Bounds bool
}

// Match reports how a depth agrees with the truth.
func (a *Allowed) Match(depth int) Match {
	has := func(set []uint64) bool {
		return depth >= 0 && depth/64 < len(set) && set[depth/64]>>(depth%64)&1 == 1
	}
	switch {
	case has(a.whole):
		return Whole
	case has(a.inside):
		return Inside
	}
	return False
}

// Min and Max are the least and the greatest allowed depth.
func (a *Allowed) Min() int {
	for i := range max(len(a.whole), len(a.inside)) {
		if w := at(a.whole, i) | at(a.inside, i); w != 0 {
			return i*64 + bits.TrailingZeros64(w)
		}
	}
	return 0
}

// Max is the greatest allowed depth.
func (a *Allowed) Max() int {
	for i := max(len(a.whole), len(a.inside)) - 1; i >= 0; i-- {
		if w := at(a.whole, i) | at(a.inside, i); w != 0 {
			return i*64 + 63 - bits.LeadingZeros64(w)
		}
	}
	return 0
}

// Clone returns a copy that outlives the judge's next call.
func (a *Allowed) Clone() Allowed {
	return Allowed{slices.Clone(a.whole), slices.Clone(a.inside), a.Bounds}
}

func at(set []uint64, i int) uint64 {
	if i < len(set) {
		return set[i]
	}
	return 0
}

func (a *Allowed) reset() { a.whole, a.inside, a.Bounds = a.whole[:0], a.inside[:0], false }

func insert(set []uint64, depth int) []uint64 {
	for depth/64 >= len(set) {
		set = append(set, 0)
	}
	set[depth/64] |= 1 << (depth % 64)
	return set
}

// tiers of a domain, in the order of its slots.
const tiers = 3

// lane is what one TP shard held of a prompt during an interval.
type lane struct {
	start  [][tiers]bool // per block, at the beginning
	moves  []move
	states int           // distinct instants, the beginning included
	now    [][tiers]bool // walking
}

type move struct {
	at    instant
	block int
	tier  int
	on    bool
}

// Judge works out truths. It is one goroutine's.
type Judge struct {
	fleet *Fleet
	lanes []lane
	ids   []prefix
	out   [NumViews]Allowed
	// work bounds what one truth may cost before it falls back to bounds.
	work int
}

// Judge makes a judge.
func (f *Fleet) Judge() *Judge { return &Judge{fleet: f, work: 1 << 21} }

// Truth works out the allowed depths of a prompt at a holder, per view, while
// between from and to batches of each TP shard were applied: from = to = n
// means after sequence n-1, with 0 before anything came. from and to have one
// element per shard, or one for all. Instants inside the batches count as
// well, and so does any skew of the shards within the interval. The result is
// the judge's own, valid until its next call.
func (j *Judge) Truth(h Holder, p *Prompt, from, to []uint64) (*[NumViews]Allowed, error) {
	n, err := j.gather(h, p, from, to)
	if err != nil {
		return nil, err
	}
	for v := range j.out {
		j.out[v].reset()
	}
	cost := n + 1
	for i := range j.lanes {
		if cost *= j.lanes[i].states; cost > j.work {
			j.bound(n)
			return &j.out, nil
		}
	}
	j.walk(0, n, true)
	return &j.out, nil
}

// gather fills a lane per shard and returns the number of leading blocks that
// were there at all, on each shard, at some instant.
func (j *Judge) gather(h Holder, p *Prompt, from, to []uint64) (int, error) {
	r := j.fleet.ranks[place{h.Source, h.Rank}]
	if r == nil || h.Domain == CacheOwner && r.engine.Pool == 0 {
		return 0, fmt.Errorf("%w: %s", ErrUnknown, h)
	}
	j.ids = p.at(j.ids[:0], r.engine.BlockSize)
	j.lanes = slices.Grow(j.lanes[:0], len(r.shards))[:len(r.shards)]
	first := onDevice
	if h.Domain == CacheOwner {
		first = poolMemory - 1 // no device
	}
	n := len(j.ids)
	for i, s := range r.shards {
		a, b := from[min(i, len(from)-1)], to[min(i, len(to)-1)]
		m, err := j.lanes[i].read(s.history, j.ids[:n], first, h.Domain == CacheOwner, a, b)
		if err != nil {
			return 0, fmt.Errorf("%w: %s shard %d, %d to %d", err, h, i, a, b)
		}
		n = min(n, m)
	}
	return n, nil
}

// read fills the lane from a history, up to the first block that was nowhere.
func (l *lane) read(h *history, ids []prefix, first slot, pool bool, from, to uint64) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.start, l.moves, l.states = l.start[:0], l.moves[:0], 1
	switch {
	case to > h.next:
		return 0, ErrFuture
	case from < h.horizon || from > to:
		return 0, ErrForgotten
	}
	for i, id := range ids {
		r := h.blocks[id]
		if r == nil {
			break
		}
		var start [tiers]bool
		ever := false
		for t := range tiers {
			if pool && t == 0 {
				continue
			}
			on := r.base[first+slot(t)] > 0
			begun := false
			for _, c := range r.log {
				if c.slot != first+slot(t) {
					continue
				}
				if c.at.seq() >= to {
					break
				}
				if c.at.seq() >= from {
					if !begun {
						begun, start[t] = true, on
					}
					ever = ever || on
					if on != (c.copies > 0) {
						l.moves = append(l.moves, move{at: c.at, block: i, tier: t, on: !on})
					}
				}
				on = c.copies > 0
			}
			if !begun {
				start[t] = on
			}
			ever = ever || on
		}
		if !ever {
			break
		}
		l.start = append(l.start, start)
	}
	slices.SortFunc(l.moves, func(a, b move) int {
		if a.at != b.at {
			if a.at < b.at {
				return -1
			}
			return 1
		}
		return a.block - b.block
	})
	for i, m := range l.moves {
		if i == 0 || m.at != l.moves[i-1].at {
			l.states++
		}
	}
	return len(l.start), nil
}

// ever and always tell about one block and tier over the whole interval.
func (l *lane) ever(block, tier int) bool {
	return l.start[block][tier] || slices.ContainsFunc(l.moves, func(m move) bool {
		return m.block == block && m.tier == tier && m.on
	})
}

func (l *lane) always(block, tier int) bool {
	return l.start[block][tier] && !slices.ContainsFunc(l.moves, func(m move) bool {
		return m.block == block && m.tier == tier && !m.on
	})
}

// walk visits every combination of the shards' states.
func (j *Judge) walk(shard, n int, whole bool) {
	if shard == len(j.lanes) {
		j.note(j.depths(n, func(l *lane, block, tier int) bool { return l.now[block][tier] }), whole)
		return
	}
	l := &j.lanes[shard]
	l.now = append(l.now[:0], l.start...)
	j.walk(shard+1, n, whole)
	for i := 0; i < len(l.moves); {
		at := l.moves[i].at
		for ; i < len(l.moves) && l.moves[i].at == at; i++ {
			l.now[l.moves[i].block][l.moves[i].tier] = l.moves[i].on
		}
		last := i == len(l.moves) || l.moves[i].at.seq() != at.seq()
		j.walk(shard+1, n, whole && last)
	}
}

// depths works out all views of one state.
func (j *Judge) depths(n int, on func(l *lane, block, tier int) bool) (d [NumViews]int) {
	open := [NumViews]bool{true, true, true, true, true}
	device := true // of Extension: still in its device part
	for i := range n {
		var held [tiers]bool
		for t := range tiers {
			held[t] = true
			for l := range j.lanes {
				held[t] = held[t] && on(&j.lanes[l], i, t)
			}
		}
		device = device && held[0]
		now := [NumViews]bool{
			OnDevice:     held[0],
			OnHost:       held[1],
			OnAny:        held[0] || held[1] || held[2],
			OnDeviceHost: held[0] || held[1],
			Extension:    device || held[1],
		}
		for v := range d {
			if open[v] = open[v] && now[v]; open[v] {
				d[v]++
			}
		}
		if !open[OnAny] {
			break
		}
	}
	return d
}

func (j *Judge) note(d [NumViews]int, whole bool) {
	for v := range d {
		if whole {
			j.out[v].whole = insert(j.out[v].whole, d[v])
		} else {
			j.out[v].inside = insert(j.out[v].inside, d[v])
		}
	}
}

// bound notes every depth between what was held all the time and what was
// held at some time.
func (j *Judge) bound(n int) {
	lo := j.depths(n, (*lane).always)
	hi := j.depths(n, (*lane).ever)
	for v := range j.out {
		j.out[v].Bounds = true
		for d := lo[v]; d <= hi[v]; d++ {
			j.out[v].inside = insert(j.out[v].inside, d)
		}
	}
}
