package corpus

import (
	"fmt"
	"math/bits"
)

// Truth plays a corpus and knows the right answers: plain maps from names to
// places, and a set of holders for every place. It shares no code with an
// index, and none with the engines that a corpus was simulated by.
type Truth struct {
	holders int
	width   int // words of a set of holders
	tiers   bool
	copies  bool

	places map[step]uint32 // place and content → the next place; 0 is the root
	names  []map[uint64]*named
	any    []uint64 // by place: the set of its holders, on any tier
	device []uint64 // the same on tier 0; nil without tiers
	held   int      // memberships: (holder, tier, name)
	peak   int
	alive  []uint64
}

// step is one block of a path.
type step struct {
	place   uint32
	content uint64
}

// named is what a holder's name means, and how many copies there are by tier.
type named struct {
	place  uint32
	copies [2]uint32
}

// NewTruth makes the truth of a corpus with this header, before its first
// operation.
func NewTruth(h Header) *Truth {
	t := &Truth{
		holders: h.Holders, width: (h.Holders + 63) / 64, tiers: h.Factors&Tiers != 0, copies: h.Factors&Copies != 0,
		places: map[step]uint32{}, names: make([]map[uint64]*named, h.Holders),
	}
	for i := range t.names {
		t.names[i] = map[uint64]*named{}
	}
	t.alive = make([]uint64, t.width)
	t.grow()
	return t
}

// grow makes room for one more place.
func (t *Truth) grow() {
	for range t.width {
		t.any = append(t.any, 0)
		if t.tiers {
			t.device = append(t.device, 0)
		}
	}
}

func (t *Truth) set(of []uint64, place uint32) []uint64 {
	return of[int(place)*t.width:][:t.width]
}

// Play takes an operation in. It returns the right answer of a query and the
// class of a store, and an error if the operation breaks a promise of the
// format.
func (t *Truth) Play(o *Op) (Answer, Class, error) {
	if o.Kind != Query && (o.Holder < 0 || o.Holder >= t.holders) {
		return Answer{}, 0, fmt.Errorf("corpus: %v of holder %d; want 0 … %d", o.Kind, o.Holder, t.holders-1)
	}
	if o.Tier > 1 || o.Tier == 1 && !t.tiers {
		return Answer{}, 0, fmt.Errorf("corpus: %v on tier %d of a corpus whose factors do not allow it", o.Kind, o.Tier)
	}
	var class Class
	var err error
	switch o.Kind {
	case Query:
		return t.match(o.Words), 0, nil
	case Store:
		class, err = t.store(o)
	case Remove:
		err = t.remove(o)
	case Clear:
		t.clear(o.Holder)
	default:
		err = fmt.Errorf("corpus: %v; want less than %d", o.Kind, NumKinds)
	}
	t.peak = max(t.peak, t.held)
	return Answer{}, class, err
}

func (t *Truth) store(o *Op) (Class, error) {
	names, at := t.names[o.Holder], uint32(0)
	if len(o.Words)%2 != 0 || len(o.Words) == 0 {
		return 0, fmt.Errorf("corpus: store of %d words; want pairs, one at least", len(o.Words))
	}
	if o.HasParent {
		p := names[o.Parent]
		if p == nil {
			return 0, fmt.Errorf("corpus: holder %d stores behind %#x, which it does not hold", o.Holder, o.Parent)
		}
		at = p.place
	}
	known := 0
	for i := 0; i < len(o.Words); i += 2 {
		name := o.Words[i]
		next := t.places[step{at, o.Words[i+1]}]
		if next == 0 {
			next = uint32(len(t.places) + 1)
			t.places[step{at, o.Words[i+1]}] = next
			t.grow()
		}
		at = next
		for _, w := range t.set(t.any, at) {
			if w != 0 {
				known++
				break
			}
		}
		n := names[name]
		if n == nil {
			if t.set(t.any, at)[o.Holder/64]>>(o.Holder%64)&1 != 0 {
				return 0, fmt.Errorf("corpus: holder %d gives a second name %#x to a block", o.Holder, name)
			}
			n = &named{place: at}
			names[name] = n
		}
		if n.place != at {
			return 0, fmt.Errorf("corpus: holder %d gives name %#x to a second block", o.Holder, name)
		}
		if n.copies[o.Tier] > 0 && !t.copies {
			return 0, fmt.Errorf("corpus: holder %d stores %#x again in a corpus whose factors do not allow copies", o.Holder, name)
		}
		if n.copies[o.Tier]++; n.copies[o.Tier] == 1 {
			t.held++
			t.mark(o.Holder, n)
		}
	}
	switch known {
	case 0:
		return New, nil
	case len(o.Words) / 2:
		return Known, nil
	}
	return Mixed, nil
}

// mark makes the sets of a place say what a holder has there.
func (t *Truth) mark(holder int, n *named) {
	put := func(of []uint64, held bool) {
		w, bit := &t.set(of, n.place)[holder/64], uint64(1)<<(holder%64)
		if *w &^= bit; held {
			*w |= bit
		}
	}
	put(t.any, n.copies[0]+n.copies[1] > 0)
	if t.tiers {
		put(t.device, n.copies[0] > 0)
	}
}

func (t *Truth) remove(o *Op) error {
	names := t.names[o.Holder]
	for _, name := range o.Words {
		n := names[name]
		if n == nil || n.copies[o.Tier] == 0 {
			return fmt.Errorf("corpus: holder %d removes %#x from tier %d, where it is not", o.Holder, name, o.Tier)
		}
		if n.copies[o.Tier]--; n.copies[o.Tier] == 0 {
			t.held--
			t.mark(o.Holder, n)
		}
		if n.copies == [2]uint32{} {
			delete(names, name)
		}
	}
	return nil
}

func (t *Truth) clear(holder int) {
	for _, n := range t.names[holder] {
		for tier := range n.copies {
			if n.copies[tier] > 0 {
				t.held--
			}
		}
		n.copies = [2]uint32{}
		t.mark(holder, n)
	}
	t.names[holder] = map[uint64]*named{}
}

func (t *Truth) match(contents []uint64) Answer {
	var a Answer
	a.Any, a.Holders, a.Deepest = t.walk(t.any, contents)
	if a.Device = a.Any; t.tiers {
		a.Device, _, _ = t.walk(t.device, contents)
	}
	return a
}

// walk follows contents and gives the digest, the holders and the deepest.
func (t *Truth) walk(of []uint64, contents []uint64) (digest uint64, holders, deepest int) {
	for i := range t.alive {
		t.alive[i] = ^uint64(0)
	}
	emit := func(word int, dropped uint64, depth int) {
		for ; dropped != 0 && depth > 0; dropped &= dropped - 1 {
			digest += Digest(64*word+bits.TrailingZeros64(dropped), depth)
			holders++
			deepest = max(deepest, depth)
		}
	}
	place := uint32(0)
	for depth, c := range contents {
		next := t.places[step{place, c}]
		left := uint64(0)
		for i, w := range t.alive {
			held := uint64(0)
			if next != 0 {
				held = of[int(next)*t.width+i]
			}
			if gone := w &^ held; gone != 0 {
				emit(i, gone, depth)
			}
			t.alive[i] = w & held
			left |= t.alive[i]
		}
		if left == 0 {
			return digest, holders, deepest
		}
		place = next
	}
	for i, w := range t.alive {
		emit(i, w, len(contents))
	}
	return digest, holders, deepest
}
