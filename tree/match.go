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
// each holder and view.
type reader struct {
	x       *Index
	query   []uint64
	steps   []step
	active  []active
	mark    []uint32 // by lane id: stamp of the walk that met it
	at      []int32  // by lane id: where in active
	stamp   uint32
	done    []Depths
	stopped []stopped
	plea    plea
}

// step is one run the walk went through.
type step struct {
	run     uint32
	off     int // units before it
	n       int // units matched in it
	link    uint64
	version uint64
}

// active is a holder met by the walk, as far as it is still in it.
type active struct {
	lane  uint32
	alive uint8 // views that held everything so far
	host  bool  // the extension has left the device
	step  int32 // last run it was met in
	units [NumViews]uint32
}

// stopped is a finished holder: its lane, until the end says whose it is.
type stopped struct {
	lane  uint32
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
		r.done = r.done[:0]
		r.steps = r.steps[:0]
		return r.done
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
	return r.done
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
		m := 0
		for m < len(body) && body[m].Load() == rest[m] {
			m++
		}
		if m == 0 {
			ended = true
			break
		}
		r.pause()
		r.meet(hd, classOf(run), uint32(p), uint32(m))
		r.pause()
		if version(hd[hVersion].Load()) != version(w0) {
			return false
		}
		r.steps = append(r.steps, step{run: run, off: p, n: m, link: link, version: version(w0)})
		r.pause()
		p += m
		if len(r.active) == 0 || p == len(h) {
			ended = false
			break
		}
		ended = true
		next = 0
		if class := classOf(run); childBit(hd, class, m) {
			if main := mainOf(hd[hMain].Load()); main != 0 && r.isChild(main, run, m, h[p]) {
				next = main
			} else {
				next = x.find(run, m, h[p])
			}
		}
		parent, off = run, m
		r.pause()
	}
	for i := range r.active {
		r.stop(&r.active[i], uint32(p), allViews)
	}
	check := len(r.steps)
	if !ended {
		check--
	}
	for i := 0; i < check; i++ {
		if version(x.run(r.steps[i].run)[hVersion].Load()) != r.steps[i].version {
			return false
		}
	}
	r.emit()
	return x.epoch.Load() == epoch
}

func (r *reader) begin() {
	r.steps, r.active, r.done, r.stopped = r.steps[:0], r.active[:0], r.done[:0], r.stopped[:0]
	if r.stamp++; r.stamp == 0 {
		clear(r.mark)
		r.stamp = 1
	}
}

// isChild reports whether run id hangs at offset off of parent and begins with
// content.
func (r *reader) isChild(id, parent uint32, off int, content uint64) bool {
	hd := r.x.run(id)
	return hd[hLink].Load() == makeLink(parent, off) && hd[hBody].Load() == content
}

// meet takes in the lanes of a run of which m units match, p units having been
// matched before it. In the first run every holder comes in; later only those
// that are still active go on, and those without a lane stop.
func (r *reader) meet(hd []atomic.Uint64, class uint32, p, m uint32) {
	now := int32(len(r.steps))
	from := len(r.stopped)
	for i := hLane; i < hLane+inlineLanes; i++ {
		if l := lane(hd[i].Load()); l != 0 {
			r.meetLane(l, p, m, now)
		}
	}
	if ref := cellOf(hd[hMain].Load()); ref != 0 {
		r.pause()
		for c, i := r.x.cell(ref), 0; i < len(c); i++ {
			if l := lane(c[i].Load()); l != 0 {
				r.meetLane(l, p, m, now)
			}
		}
	}
	keep := r.active[:0]
	for i := range r.active {
		a := r.active[i]
		if a.step != now {
			r.stop(&a, p, allViews)
		}
		if a.alive == 0 {
			r.stopped = append(r.stopped, stopped{a.lane, a.units})
			continue
		}
		r.at[a.lane] = int32(len(keep))
		keep = append(keep, a)
	}
	r.active = keep
	if s := r.stopped[from:]; len(s) > 1 {
		slices.SortFunc(s, func(a, b stopped) int { return int(a.units[ViewAny]) - int(b.units[ViewAny]) })
	}
}

func (r *reader) meetLane(l lane, p, m uint32, now int32) {
	id := l.id()
	if int(id) >= len(r.mark) {
		r.room(int(id))
	}
	if now == 0 {
		if r.mark[id] == r.stamp {
			return // moved to another place during the scan: one sight is enough
		}
		r.mark[id] = r.stamp
		r.at[id] = int32(len(r.active))
		r.active = append(r.active, active{lane: id, alive: allViews, step: -1})
	} else if r.mark[id] != r.stamp || r.at[id] >= int32(len(r.active)) || r.active[r.at[id]].lane != id {
		return
	}
	a := &r.active[r.at[id]]
	if a.step == now {
		return
	}
	a.step = now
	reach := uint32(l.reach())
	switch l.shape() {
	case shapeDevice:
		a.limit(ViewHost, 0, p, m)
		if reach < m {
			a.limit(ViewDevice, reach, p, m)
			a.limit(ViewAny, reach, p, m)
			a.limit(ViewDeviceHost, reach, p, m)
		}
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
func (a *active) limit(v View, k, p, m uint32) {
	if k < m && a.alive>>v&1 != 0 {
		a.alive &^= 1 << v
		a.units[v] = p + k
	}
}

// extend is limit for the extension: on the device while that is whole, then
// on the host.
func (a *active) extend(dev, host, end, p, m uint32) {
	switch {
	case a.host:
		a.limit(ViewExtension, host, p, m)
	case dev >= m:
	default:
		a.host = true
		a.limit(ViewExtension, end, p, m)
	}
}

// stop ends the given views of a holder at p units.
func (r *reader) stop(a *active, p uint32, views uint8) {
	for v := View(0); v < NumViews; v++ {
		if a.alive&views>>v&1 != 0 {
			a.units[v] = p
		}
	}
	a.alive &^= views
}

func (r *reader) room(id int) {
	n := max(64, 2*len(r.mark))
	for n <= id {
		n *= 2
	}
	mark, at := make([]uint32, n), make([]int32, n)
	copy(mark, r.mark)
	copy(at, r.at)
	r.mark, r.at = mark, at
}

// emit writes the answer, deepest first: who is active to the end is deepest,
// then those who stopped, last first. A holder whose views were read at two
// instants may have stopped in one view before another: it is put in order.
func (r *reader) emit() {
	for i := range r.active {
		r.give(r.active[i].lane, &r.active[i].units)
	}
	for i := len(r.stopped) - 1; i >= 0; i-- {
		r.give(r.stopped[i].lane, &r.stopped[i].units)
	}
	for i := 1; i < len(r.done); i++ {
		for k := i; k > 0 && r.done[k].Units[ViewAny] > r.done[k-1].Units[ViewAny]; k-- {
			r.done[k], r.done[k-1] = r.done[k-1], r.done[k]
		}
	}
}

func (r *reader) give(id uint32, units *[NumViews]uint32) {
	if units[ViewAny] == 0 {
		return
	}
	w := r.x.owners[id].Load()
	if w == 0 || w&1 != 0 {
		return
	}
	r.done = append(r.done, Depths{Holder: Holder(w >> 1), Units: *units})
}

// Names gives the names of a holder's leading blocks. See Reader.
func (r *reader) Names(dst []uint64, h Holder, v View, depth int) []uint64 {
	if v >= ViewExtension {
		return dst
	}
	for i := range r.steps {
		st := &r.steps[i]
		if st.off >= depth {
			break
		}
		n := min(st.n, depth-st.off)
		var k int
		var ok bool
		dst, k, ok = r.names(dst, st, h, v, n)
		if !ok || k < st.n {
			break
		}
	}
	return dst
}

// names appends what one run gives of the first n positions; k is how many
// positions the holder has there, ok that nothing has changed and a block has
// not been left out.
func (r *reader) names(dst []uint64, st *step, h Holder, v View, n int) (out []uint64, k int, ok bool) {
	x, was := r.x, len(dst)
	hd, class := x.run(st.run), classOf(st.run)
	w0 := hd[hVersion].Load()
	if hd[hLink].Load() != st.link || count(w0) < n {
		return dst, 0, false
	}
	if version(w0) != st.version {
		for i := 0; i < n; i++ {
			if hd[hBody+i].Load() != r.query[st.off+i] {
				return dst, 0, false
			}
		}
	}
	l := r.laneOf(hd, h)
	if l == 0 {
		return dst, 0, false
	}
	k = min(n, r.reachIn(l, v))
	names := sharedNames(hd, class)
	var nameless []atomic.Uint64
	if l.own() {
		names = x.ownNames(l.ref(), class)
		if ref := uint32(x.side(l.ref())[sNameless].Load()); ref != 0 {
			nameless = x.plane(class, ref)
		}
	}
	whole := true
	for i := 0; i < k && whole; i++ {
		if whole = nameless == nil || !bit(nameless, i); whole {
			dst = append(dst, names[i].Load())
		}
	}
	r.pause()
	if version(hd[hVersion].Load()) != version(w0) || x.ownerOf(l) != h {
		return dst[:was], 0, false
	}
	return dst, k, whole
}

// laneOf finds the lane of a holder in a run, 0 if it has none.
func (r *reader) laneOf(hd []atomic.Uint64, h Holder) lane {
	for i := hLane; i < hLane+inlineLanes; i++ {
		if l := lane(hd[i].Load()); l != 0 && r.x.ownerOf(l) == h {
			return l
		}
	}
	if ref := cellOf(hd[hMain].Load()); ref != 0 {
		c := r.x.cell(ref)
		for i := range c {
			if l := lane(c[i].Load()); l != 0 && r.x.ownerOf(l) == h {
				return l
			}
		}
	}
	return 0
}

// ownerOf is the visible holder a lane belongs to, 0 if none.
func (x *Index) ownerOf(l lane) Holder {
	w := x.owners[l.id()].Load()
	if w&1 != 0 {
		return 0
	}
	return Holder(w >> 1)
}

// reachIn is how many leading units of a run a lane holds in a view.
func (r *reader) reachIn(l lane, v View) int {
	reach := l.reach()
	switch l.shape() {
	case shapeDevice:
		if v == ViewHost {
			return 0
		}
		return reach
	case shapeHost:
		if v == ViewDevice {
			return 0
		}
		return reach
	case shapeOther:
		if v != ViewAny {
			return 0
		}
		return reach
	}
	s := r.x.side(l.ref())
	switch w := s[sView].Load(); v {
	case ViewDevice:
		return int(w & 0xffff)
	case ViewAny:
		return int(w >> 16 & 0xffff)
	case ViewDeviceHost:
		return int(w >> 32 & 0xffff)
	}
	return int(s[sExt].Load() >> 16 & 0xffff)
}

// pause is where tests let the writer go on in the middle of a walk.
func (r *reader) pause() {
	if r.x.readHook != nil {
		r.x.readHook()
	}
}
