package tree

import (
	"runtime"
	"slices"
	"sync/atomic"
)

// reader walks the index without a lock. Everything it reads are atomic words;
// whether they belonged together it learns from the versions of the runs it
// passed: a removal stores the lower figure first and then moves the run's
// version, so an answer whose versions still stand was true at one instant for
// each holder and view. Whose a lane is it may ask at once: the epoch tells at
// the end whether that has changed.
type reader struct {
	x     *Index
	query []uint64
	steps []step
	pure  []uint32 // lane ids of those that have held everything so far on the device alone
	mixed []mixed
	here  []lane   // of the run at hand
	mark  []uint64 // by lane id: stamp of the run that met it last, and where it is in here
	stamp uint32
	room  []Depths // the answer grows from its end down: who stops later is deeper
	done  int      // the answer begins here in room
	fall  bool     // somebody deeper was given before somebody less deep
	spare []Depths
	ranks []uint32
	plea  plea

	touched uint64 // keeps loads ahead of use from being optimised away
}

// step is one run the walk went through.
type step struct {
	run     uint32
	off     int // units before it
	n       int // units matched in it
	link    uint64
	version uint64
	word    *atomic.Uint64 // where the version stands
}

// mixed is a holder that has held everything so far in some view, but not all
// of it on the device.
type mixed struct {
	lane  uint32
	alive uint8 // views that held everything so far
	host  bool  // the extension has left the device
	units [NumViews]uint32
}

const allViews = 1<<NumViews - 1

// NewReader makes a reader of the index.
func (x *Index) NewReader() Reader {
	return &reader{x: x}
}

// retryYield and retryPlea are how many failed walks a reader takes before it
// yields its processor, and before it asks the writer to answer.
const (
	retryYield = 16
	retryPlea  = 256
)

// Match answers a query. See Reader.
func (r *reader) Match(root Root, contents []uint64) []Depths {
	r.query = contents
	if len(contents) == 0 || root > MaxRoot {
		r.steps = r.steps[:0]
		return nil
	}
	for try := 0; !r.walk(root); try++ {
		r.x.retries.Add(1)
		if try >= retryPlea {
			if r.ask(root) {
				break
			}
		} else if try >= retryYield {
			runtime.Gosched()
		}
	}
	return r.room[r.done:]
}

// walk goes down the trie once; false if what it saw does not belong together.
func (r *reader) walk(root Root) bool {
	x, h := r.x, r.query
	epoch, hook := x.epoch.Load(), x.readHook
	r.steps, r.pure, r.mixed = r.steps[:0], r.pure[:0], r.mixed[:0]
	r.done, r.fall = len(r.room), false
	p := 0
	link := makeLink(rootRun(root), 0)
	run, hd := x.probe(mix(x.links.seed, link, h[0]), link, h[0])
	ended := false // by a missing child: then the last run must still be as it was
	for run != 0 {
		w0 := hd[hVersion].Load()
		if hd[hLink].Load() != link {
			ended = true
			break
		}
		body := hd[hBody : hBody+count(w0)]
		rest := h[p:]
		if len(body) > len(rest) {
			body = body[:len(rest)]
		}
		m := agree(body, rest[:len(body)])
		if m == 0 {
			ended = true
			break
		}
		// Where the walk may go on is loaded now; it is looked up after the
		// lanes, for a child found before them might be too old.
		class, next := classOf(run), makeLink(run, m)
		goesOn, hash := p+m < len(h) && childBit(hd, class, m), uint64(0)
		if goesOn {
			hash = mix(x.links.seed, next, h[p+m])
			r.touched |= x.links.touch(x, hash)
		}
		if hook != nil {
			hook()
		}
		if p == 0 {
			r.enter(hd, uint32(m))
		} else {
			r.goOn(hd, uint32(p), uint32(m))
		}
		if hook != nil {
			hook()
		}
		// Where the count cut the match short, a run that has grown since may
		// have let reaches through that were never as short as the match.
		if w := hd[hVersion].Load(); version(w) != version(w0) || w != w0 && m == count(w0) && p+m < len(h) {
			return false
		}
		r.steps = append(r.steps, step{run: run, off: p, n: m, link: link, version: version(w0), word: &hd[hVersion]})
		if hook != nil {
			hook()
		}
		p += m
		if p == len(h) || len(r.pure)+len(r.mixed) == 0 {
			ended = false
			break
		}
		ended, run = true, 0
		if childBit(hd, class, m) {
			if !goesOn {
				hash = mix(x.links.seed, next, h[p])
			}
			link = next
			run, hd = x.probe(hash, next, h[p])
		}
		if hook != nil {
			hook()
		}
	}
	r.finish(uint32(p))
	check := len(r.steps)
	if !ended {
		check--
	}
	for i := 0; i < check; i++ {
		if st := &r.steps[i]; version(st.word.Load()) != st.version {
			return false
		}
	}
	r.arrange()
	return x.epoch.Load() == epoch
}

// enter takes in the lanes of the first run, of which m units match.
func (r *reader) enter(hd []atomic.Uint64, m uint32) {
	pure := r.pure
	for i := hLane; i < hLane+inlineLanes; i++ {
		if l := lane(hd[i].Load()); l.whole(m) {
			pure = append(pure, l.id())
		} else if l != 0 {
			r.enterOther(l, m)
		}
	}
	if ref := uint32(hd[hCell].Load()); ref != 0 {
		r.pause()
		c := r.x.cell(ref)
		for i := range c {
			if l := lane(c[i].Load()); l.whole(m) {
				pure = append(pure, l.id())
			} else if l != 0 {
				r.enterOther(l, m)
			}
		}
	}
	r.pure = pure
}

// whole reports whether a lane is of a holder that holds the first m units, and
// m is not 0, on the device and nowhere else.
func (l lane) whole(m uint32) bool {
	return l.shape() == shapeDevice && uint32(l.reach()) >= m
}

// enterOther takes in a lane of the first run that is not whole.
func (r *reader) enterOther(l lane, m uint32) {
	if l.shape() == shapeDevice {
		r.give(l.id(), uint32(l.reach()))
		return
	}
	a := r.another(l.id(), allViews)
	r.apply(a, l, 0, m)
	r.dropStopped(a)
}

// another makes one more mixed holder, in place: copied whole right after it
// was written in parts it would cost ten times as much.
func (r *reader) another(lane uint32, alive uint8) *mixed {
	n := len(r.mixed)
	if n == cap(r.mixed) {
		r.mixed = slices.Grow(r.mixed, 1)
	}
	r.mixed = r.mixed[:n+1]
	a := &r.mixed[n]
	a.lane, a.alive, a.host = lane, alive, false
	a.units = [NumViews]uint32{}
	return a
}

// dropStopped gives and forgets a, the last mixed holder, if no view of it
// goes on.
func (r *reader) dropStopped(a *mixed) {
	if a.alive == 0 {
		r.giveMixed(a)
		r.mixed = r.mixed[:len(r.mixed)-1]
	}
}

// goOn takes in the lanes of a further run of which m units match, p units
// having been matched before it. Who is still active and has a lane here may go
// on; the others stop at p.
func (r *reader) goOn(hd []atomic.Uint64, p, m uint32) {
	r.gather(hd)
	kept := 0
	for i := range r.mixed {
		a := &r.mixed[i]
		if l := r.laneOfActive(a.lane); l != 0 {
			r.apply(a, l, p, m)
		} else {
			a.stop(p)
		}
		if a.alive == 0 {
			r.giveMixed(a)
			continue
		}
		if kept != i {
			r.mixed[kept] = *a
		}
		kept++
	}
	r.mixed = r.mixed[:kept]
	stay := r.pure[:0]
	for _, id := range r.pure {
		switch l := r.laneOfActive(id); {
		case l == 0:
			r.give(id, p)
		case l.whole(m):
			stay = append(stay, id)
		case l.shape() == shapeDevice:
			r.give(id, p+uint32(l.reach()))
		default:
			a := r.another(id, allViews&^(1<<ViewHost)) // so far on the device alone
			r.apply(a, l, p, m)
			r.dropStopped(a)
		}
	}
	r.pure = stay
}

// gather notes the lanes of a run, and who has which.
func (r *reader) gather(hd []atomic.Uint64) {
	if r.stamp++; r.stamp == 0 {
		clear(r.mark)
		r.stamp = 1
	}
	r.here = r.here[:0]
	for i := hLane; i < hLane+inlineLanes; i++ {
		if l := lane(hd[i].Load()); l != 0 {
			r.note(l)
		}
	}
	if ref := uint32(hd[hCell].Load()); ref != 0 {
		r.pause()
		c := r.x.cell(ref)
		for i := range c {
			if l := lane(c[i].Load()); l != 0 {
				r.note(l)
			}
		}
	}
}

func (r *reader) note(l lane) {
	id := l.id()
	if int(id) >= len(r.mark) {
		n := max(64, 2*len(r.mark))
		for n <= int(id) {
			n *= 2
		}
		r.mark = append(make([]uint64, 0, n), r.mark...)[:n]
	}
	r.mark[id] = uint64(r.stamp)<<32 | uint64(len(r.here))
	r.here = append(r.here, l)
}

// laneOfActive is a holder's lane in the run at hand, 0 if it has none.
func (r *reader) laneOfActive(id uint32) lane {
	if int(id) < len(r.mark) {
		if w := r.mark[id]; uint32(w>>32) == r.stamp {
			return r.here[uint32(w)]
		}
	}
	return 0
}

// apply takes in what a lane says of a mixed holder.
func (r *reader) apply(a *mixed, l lane, p, m uint32) {
	reach := uint32(l.reach())
	switch l.shape() {
	case shapeDevice:
		a.limit(ViewHost, 0, p, m)
		a.limit(ViewDevice, reach, p, m)
		a.limit(ViewAny, reach, p, m)
		a.limit(ViewDeviceHost, reach, p, m)
		a.extend(reach, 0, reach, p, m)
	case shapeHost:
		a.limit(ViewDevice, 0, p, m)
		a.limit(ViewHost, reach, p, m)
		a.limit(ViewAny, reach, p, m)
		a.limit(ViewDeviceHost, reach, p, m)
		a.extend(0, reach, reach, p, m)
	case shapeOther:
		a.limit(ViewDevice, 0, p, m)
		a.limit(ViewHost, 0, p, m)
		a.limit(ViewAny, reach, p, m)
		a.limit(ViewDeviceHost, 0, p, m)
		a.extend(0, 0, 0, p, m)
	default:
		s := r.x.side(l.ref())
		v := s[sView].Load()
		r.pause()
		e := s[sExt].Load()
		a.limit(ViewDevice, uint32(v&0xffff), p, m)
		a.limit(ViewAny, uint32(v>>16&0xffff), p, m)
		a.limit(ViewDeviceHost, uint32(v>>32&0xffff), p, m)
		a.limit(ViewHost, uint32(e>>16&0xffff), p, m)
		a.extend(uint32(e&0xffff), uint32(e>>16&0xffff), uint32(e>>32&0xffff), p, m)
	}
}

// limit ends a view that has only k of m units here.
func (a *mixed) limit(v View, k, p, m uint32) {
	if k < m && a.alive>>v&1 != 0 {
		a.alive &^= 1 << v
		a.units[v] = p + k
	}
}

// extend is limit for the extension: on the device while that is whole, then
// on the host.
func (a *mixed) extend(dev, host, end, p, m uint32) {
	switch {
	case a.host:
		a.limit(ViewExtension, host, p, m)
	case dev >= m:
	default:
		a.host = true
		a.limit(ViewExtension, end, p, m)
	}
}

// stop ends all views of a holder at p units.
func (a *mixed) stop(p uint32) {
	for v := range a.units {
		if a.alive>>v&1 != 0 {
			a.units[v] = p
		}
	}
	a.alive = 0
}

// pause is where tests let the writer go on in the middle of a walk.
func (r *reader) pause() {
	if r.x.readHook != nil {
		r.x.readHook()
	}
}

// agree is how many leading words are equal. b is as long as a. Eight at a time
// are compared without a branch between them.
func agree(a []atomic.Uint64, b []uint64) int {
	b = b[:len(a)]
	m := 0
	for ; m+8 <= len(a); m += 8 {
		c, d := a[m:m+8:m+8], b[m:m+8:m+8]
		// Parentheses: in Go ^ binds no tighter than |.
		if (c[0].Load()^d[0])|(c[1].Load()^d[1])|(c[2].Load()^d[2])|(c[3].Load()^d[3])|
			(c[4].Load()^d[4])|(c[5].Load()^d[5])|(c[6].Load()^d[6])|(c[7].Load()^d[7]) != 0 {
			break
		}
	}
	for m < len(a) && a[m].Load() == b[m] {
		m++
	}
	return m
}
