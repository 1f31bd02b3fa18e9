package tree

import (
	"runtime"
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
	pure  []pure
	mixed []mixed
	mark  []uint64 // by lane id: stamp of the walk that met it, and where it is
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
}

// pure is a holder that has held everything so far, on the device alone; most
// are, and there may be hundreds.
type pure struct {
	lane   uint32
	holder Holder
	step   int32 // last run it was whole in; -1 when it has stopped
}

// mixed is any other holder that has held everything so far in some view.
type mixed struct {
	lane   uint32
	holder Holder
	alive  uint8 // views that held everything so far
	host   bool  // the extension has left the device
	step   int32 // last run it was met in
	units  [NumViews]uint32
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
	epoch := x.epoch.Load()
	r.begin()
	parent, off, p := rootRun(root), 0, 0
	next := x.find(parent, 0, h[0])
	ended := false // by a missing child: then the last run must still be as it was
	for next != 0 {
		run := next
		hd := x.run(run)
		w0 := hd[hVersion].Load()
		link := hd[hLink].Load()
		if link != makeLink(parent, off) {
			ended = true
			break
		}
		cnt := count(w0)
		body := hd[hBody : hBody+cnt]
		rest := h[p:]
		if len(body) > len(rest) {
			body = body[:len(rest)]
		}
		rest = rest[:len(body)]
		m := agree(body, rest)
		if m == 0 {
			ended = true
			break
		}
		// Where the walk may go on is loaded now; it is looked up after the
		// lanes, for a child found before them might be too old.
		goesOn, hash := p+m < len(h) && childBit(hd, classOf(run), m), uint64(0)
		if goesOn {
			hash = mix(x.links.seed, makeLink(run, m), h[p+m])
			r.touched |= x.links.touch(x, hash)
		}
		r.pause()
		r.meet(hd, uint32(p), uint32(m))
		r.pause()
		if version(hd[hVersion].Load()) != version(w0) {
			return false
		}
		r.steps = append(r.steps, step{run: run, off: p, n: m, link: link, version: version(w0)})
		r.pause()
		p += m
		if len(r.pure)+len(r.mixed) == 0 || p == len(h) {
			ended = false
			break
		}
		ended = true
		next = 0
		if childBit(hd, classOf(run), m) {
			if !goesOn {
				hash = mix(x.links.seed, makeLink(run, m), h[p])
			}
			next = x.probe(hash, makeLink(run, m), h[p])
		}
		parent, off = run, m
		r.pause()
	}
	r.finish(uint32(p))
	check := len(r.steps)
	if !ended {
		check--
	}
	for i := 0; i < check; i++ {
		if version(x.run(r.steps[i].run)[hVersion].Load()) != r.steps[i].version {
			return false
		}
	}
	r.arrange()
	return x.epoch.Load() == epoch
}

func (r *reader) begin() {
	r.steps, r.pure, r.mixed = r.steps[:0], r.pure[:0], r.mixed[:0]
	r.done, r.fall = len(r.room), false
	if r.stamp++; r.stamp == 0 {
		clear(r.mark)
		r.stamp = 1
	}
}

// meet takes in the lanes of a run of which m units match, p units having been
// matched before it. In the first run every holder comes in; later only those
// that are still active go on, and those without a lane stop.
func (r *reader) meet(hd []atomic.Uint64, p, m uint32) {
	now := int32(len(r.steps))
	for i := hLane; i < hLane+inlineLanes; i++ {
		if l := lane(hd[i].Load()); l != 0 {
			r.meetLane(l, p, m, now)
		}
	}
	if ref := uint32(hd[hCell].Load()); ref != 0 {
		r.pause()
		c := r.x.cell(ref)
		for i := range c {
			if l := lane(c[i].Load()); l != 0 {
				r.meetLane(l, p, m, now)
			}
		}
	}
	if now > 0 {
		r.thin(p, now)
	}
}

func (r *reader) meetLane(l lane, p, m uint32, now int32) {
	id := l.id()
	if now > 0 {
		if int(id) < len(r.mark) && uint32(r.mark[id]>>32) == r.stamp {
			r.goOn(l, int32(r.mark[id]), p, m, now)
		}
		return
	}
	w := r.x.owners[id].Load()
	if w == 0 || w&1 != 0 {
		return
	}
	h := Holder(w >> 1)
	if l.shape() == shapeDevice {
		if reach := uint32(l.reach()); reach < m {
			r.give(h, reach)
			return
		}
		r.activate(id, int32(len(r.pure)))
		r.pure = append(r.pure, pure{})
		a := &r.pure[len(r.pure)-1]
		a.lane, a.holder = id, h
		return
	}
	r.activate(id, ^int32(len(r.mixed)))
	r.mixed = append(r.mixed, mixed{lane: id, holder: h, alive: allViews, step: now})
	r.apply(&r.mixed[len(r.mixed)-1], l, p, m)
}

func (r *reader) activate(id uint32, at int32) {
	if int(id) >= len(r.mark) {
		n := max(64, 2*len(r.mark))
		for n <= int(id) {
			n *= 2
		}
		r.mark = append(make([]uint64, 0, n), r.mark...)[:n]
	}
	r.mark[id] = uint64(r.stamp)<<32 | uint64(uint32(at))
}

// goOn meets an active holder in a further run.
func (r *reader) goOn(l lane, at int32, p, m uint32, now int32) {
	id := l.id()
	if at < 0 {
		if ^at >= int32(len(r.mixed)) || r.mixed[^at].lane != id {
			return // stopped in an earlier run
		}
		if a := &r.mixed[^at]; a.step != now {
			a.step = now
			r.apply(a, l, p, m)
		}
		return
	}
	if at >= int32(len(r.pure)) || r.pure[at].lane != id {
		return
	}
	a := &r.pure[at]
	if a.step == now || a.step < 0 {
		return
	}
	if l.shape() == shapeDevice {
		if reach := uint32(l.reach()); reach < m {
			r.give(a.holder, p+reach)
			a.step = -1
		} else {
			a.step = now
		}
		return
	}
	a.step = -1
	r.activate(id, ^int32(len(r.mixed)))
	r.mixed = append(r.mixed, mixed{lane: a.lane, holder: a.holder, alive: allViews &^ (1 << ViewHost), step: now})
	r.apply(&r.mixed[len(r.mixed)-1], l, p, m)
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

// thin leaves those active that were met in the last run and go on.
func (r *reader) thin(p uint32, now int32) {
	keep := r.pure[:0]
	for i := range r.pure {
		a := &r.pure[i]
		if a.step == now {
			r.activate(a.lane, int32(len(keep)))
			keep = append(keep, *a)
		} else if a.step >= 0 {
			r.give(a.holder, p)
		}
	}
	r.pure = keep
	some := r.mixed[:0]
	for i := range r.mixed {
		a := r.mixed[i]
		if a.step != now {
			a.stop(p)
		}
		if a.alive == 0 {
			r.giveMixed(&a)
			continue
		}
		r.activate(a.lane, ^int32(len(some)))
		some = append(some, a)
	}
	r.mixed = some
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
