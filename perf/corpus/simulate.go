package corpus

import (
	"container/heap"
	"math/rand/v2"
	"slices"
)

// How fast the simulated engines are. Only the order of what happens depends on
// it; open-loop runs stretch all times to their window.
const (
	prefillNanosPerToken = 125_000    // 8,000 tokens a second
	prefillLeast         = 20_000_000 // a step, however short the prompt
	decodeNanosPerToken  = 20_000_000
	replicaDelay         = 20_000_000
)

// Simulate plays the trace of a shape on its engines and hands every operation
// to emit, in the order of time. Words are emit's for the call only.
//
// A request asks once, with all its blocks. Its engine pins what it has of the
// prompt, from the root on, and makes room for the rest: one remove with all
// that had to go, deepest first. When the prompt is computed, one store for
// every stretch the engine did not have in the meantime; while the answer is
// generated, one store of one block whenever one is full. In the end all of it
// is unpinned. A request that does not fit beside those under way is asked
// about and not cached.
func Simulate(shape Shape, emit func(*Op) error) error {
	shape, err := shape.defaults()
	if err != nil {
		return err
	}
	trace := byTime(shape.Trace())
	if shape.Requests > 0 {
		trace = trace[:min(len(trace), shape.Requests)]
	}
	s := &simulation{
		shape: &shape, emit: emit, paths: newPaths(&shape), last: map[uint32]int{},
		random: rand.New(rand.NewPCG(shape.Seed, uint64(shape.Engines))),
	}
	for range shape.Engines {
		s.engines = append(s.engines, newEngine())
	}
	for i, t := range trace {
		for w := range shape.Worlds {
			// Another world is the same a little later.
			at := t.Millis*1e6 + uint64(w)*7e6
			request := i*shape.Worlds + w
			s.at(at, func() { s.arrive(t, w, request) })
		}
		if err := s.run(t.Millis * 1e6); err != nil {
			return err
		}
	}
	return s.run(^uint64(0))
}

type simulation struct {
	shape   *Shape
	emit    func(*Op) error
	paths   *paths
	engines []*engine
	random  *rand.Rand
	last    map[uint32]int // where a path was last, by the last block of an id
	arrived int
	cleared int
	now     uint64
	queue   queue
	order   int
	err     error
	words   []uint64
}

// engine is one engine: its caches and how many blocks requests under way are
// promised.
type engine struct {
	device   *cache
	host     *cache
	reserved int
	life     int // goes up when it loses all
}

func newEngine() *engine { return &engine{device: newCache(), host: newCache()} }

// at has something done at a time; what is due at one time is done in order.
func (s *simulation) at(nanos uint64, do func()) {
	heap.Push(&s.queue, due{nanos, s.order, do})
	s.order++
}

// run does what is due before a time.
func (s *simulation) run(before uint64) error {
	for len(s.queue) > 0 && s.queue[0].nanos < before && s.err == nil {
		d := heap.Pop(&s.queue).(due)
		s.now = d.nanos
		d.do()
	}
	return s.err
}

// say emits an operation.
func (s *simulation) say(o *Op) {
	if s.err == nil {
		o.Nanos = s.now
		s.err = s.emit(o)
	}
}

// announce emits an operation of an engine, and later those of its replicas.
// Blocks must not change afterwards.
func (s *simulation) announce(e int, kind Kind, tier uint8, parent uint32, blocks []uint32) {
	for r := range s.shape.Replicas {
		holder := e + r*s.shape.Engines
		do := func() {
			o := &Op{Holder: holder, Kind: kind, Tier: tier}
			if kind == Store && parent != noBlock {
				o.HasParent, o.Parent = true, s.paths.name(holder, parent)
			}
			s.words = s.words[:0]
			for _, b := range blocks {
				s.words = append(s.words, s.paths.name(holder, b))
				if kind == Store {
					s.words = append(s.words, s.paths.contents[b])
				}
			}
			o.Words = s.words
			s.say(o)
		}
		if r == 0 {
			do()
		} else {
			s.at(s.now+uint64(r)*replicaDelay, do)
		}
	}
}

// request is a request that an engine works on.
type request struct {
	engine int
	life   int // of the engine when it began
	path   []uint32
	had    int
	own    []uint32 // blocks of the answer, behind path
	pinned []uint32
	copies []int32 // entries of its engine
}

func (s *simulation) arrive(t Trace, world, number int) {
	s.arrived++
	if s.shape.Clears > 0 && s.arrived%s.shape.Clears == 0 {
		s.clear(s.cleared % len(s.engines))
		s.cleared++
	}
	path := s.paths.of(t.IDs, world)
	r := &request{engine: s.choose(path), path: path}
	e := s.engines[r.engine]
	r.life = e.life
	s.words = s.words[:0]
	for _, b := range path {
		s.words = append(s.words, s.paths.contents[b])
	}
	s.say(&Op{Kind: Query, Holder: r.engine, Words: s.words})

	unit := TokensPerID / s.shape.Length
	answer := t.Output / unit
	if len(t.Answer) > 0 {
		answer = len(t.Answer) * s.shape.Length
	}
	for r.had < len(path) && e.device.has(path[r.had]) {
		e.device.pin(path[r.had])
		r.pinned = append(r.pinned, path[r.had])
		r.had++
	}
	need := len(path) - r.had + answer
	if e.device.len()-e.device.idle+e.reserved+need > s.shape.Capacity {
		s.finish(r)
		return
	}
	s.evict(r.engine, e.device.len()+e.reserved+need-s.shape.Capacity)
	e.reserved += need
	prefill := max(uint64(len(path)-r.had)*uint64(unit)*prefillNanosPerToken, prefillLeast)
	done := s.now + prefill
	s.at(done, func() { s.computed(r) })
	switch {
	case len(t.Answer) > 0:
		r.own = s.paths.of(slices.Concat(t.IDs, t.Answer), world)[len(path):]
	case answer > 0:
		r.own = s.paths.own(path[len(path)-1], answer, number)
	}
	for i := range answer {
		done += uint64(unit) * decodeNanosPerToken
		s.at(done, func() { s.generated(r, i) })
	}
	s.at(done, func() { s.finish(r) })
}

// choose says which engine a request goes to.
func (s *simulation) choose(path []uint32) int {
	chosen := s.random.IntN(len(s.engines))
	if !s.shape.Affine {
		return chosen
	}
	if s.random.IntN(8) > 0 {
		for i := len(path); i > 0; i -= s.shape.Length {
			if e, ok := s.last[path[i-1]]; ok {
				chosen = e
				break
			}
		}
	}
	for i := len(path); i > 0; i -= s.shape.Length {
		s.last[path[i-1]] = chosen
	}
	return chosen
}

// evict takes n blocks from an engine's device, to its host tier if it has one.
func (s *simulation) evict(e, n int) {
	if n <= 0 {
		return
	}
	var random *rand.Rand
	if s.shape.Holes {
		random = s.random
	}
	device := s.engines[e].device
	var gone, copies []uint32
	for range n {
		out, ok := device.evict(random)
		switch {
		case !ok:
		case out.copy:
			copies = append(copies, out.block)
		default:
			gone = append(gone, out.block)
		}
	}
	if s.shape.Host > 0 {
		s.demote(e, gone)
	}
	for _, blocks := range [][]uint32{gone, copies} {
		if len(blocks) > 0 {
			s.announce(e, Remove, 0, noBlock, blocks)
		}
	}
}

// demote stores blocks on the host tier that leave the device, deepest first.
func (s *simulation) demote(e int, gone []uint32) {
	host := s.engines[e].host
	var fresh []uint32 // root first
	for i := len(gone) - 1; i >= 0; i-- {
		if !host.has(gone[i]) {
			fresh = append(fresh, gone[i])
		}
	}
	for _, block := range gone { // the deepest are the oldest
		if host.has(block) {
			host.pin(block)
		} else {
			host.insert(block)
		}
		host.unpin(block)
	}
	var out []uint32
	for host.len() > s.shape.Host {
		oldest, _ := host.evict(nil)
		out = append(out, oldest.block)
	}
	for len(fresh) > 0 {
		n := 1
		for n < len(fresh) && s.paths.parents[fresh[n]] == fresh[n-1] {
			n++
		}
		s.announce(e, Store, 1, s.paths.parents[fresh[0]], fresh[:n:n])
		fresh = fresh[n:]
	}
	if len(out) > 0 {
		s.announce(e, Remove, 1, noBlock, out)
	}
}

// alive says whether the engine still has what a request pinned.
func (s *simulation) alive(r *request) bool { return s.engines[r.engine].life == r.life }

// computed puts the prompt of a request into its engine.
func (s *simulation) computed(r *request) {
	if !s.alive(r) {
		return
	}
	e := s.engines[r.engine]
	e.reserved -= len(r.path) - r.had
	var from int // of the stretch to announce
	flush := func(to int) {
		if from < to {
			parent := noBlock
			if from > 0 {
				parent = r.path[from-1]
			}
			s.announce(r.engine, Store, 0, parent, r.path[from:to:to])
		}
		from = to + 1
	}
	from = r.had
	for i := r.had; i < len(r.path); i++ {
		b := r.path[i]
		if e.device.has(b) && s.shape.Copies {
			r.copies = append(r.copies, e.device.double(b))
			continue
		}
		r.pinned = append(r.pinned, b)
		if !e.device.has(b) {
			e.device.insert(b)
			continue
		}
		e.device.pin(b)
		flush(i)
	}
	flush(len(r.path))
}

// generated puts block i of the answer into its engine.
func (s *simulation) generated(r *request, i int) {
	if !s.alive(r) {
		return
	}
	e := s.engines[r.engine]
	e.reserved--
	e.device.insert(r.own[i])
	r.pinned = append(r.pinned, r.own[i])
	parent := r.path[len(r.path)-1]
	if i > 0 {
		parent = r.own[i-1]
	}
	s.announce(r.engine, Store, 0, parent, r.own[i:i+1:i+1])
}

// finish lets go of all that a request pinned, deepest first.
func (s *simulation) finish(r *request) {
	if !s.alive(r) {
		return
	}
	device := s.engines[r.engine].device
	for i := len(r.pinned) - 1; i >= 0; i-- {
		device.unpin(r.pinned[i])
	}
	for i := len(r.copies) - 1; i >= 0; i-- {
		device.release(r.copies[i])
	}
}

// clear has an engine lose all, requests under way included.
func (s *simulation) clear(e int) {
	life := s.engines[e].life
	s.engines[e] = newEngine()
	s.engines[e].life = life + 1
	s.announce(e, Clear, 0, noBlock, nil)
}

// due is something to do at a time.
type due struct {
	nanos uint64
	order int
	do    func()
}

type queue []due

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].nanos < q[j].nanos || q[i].nanos == q[j].nanos && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(due)) }
func (q *queue) Pop() any {
	old := *q
	d := old[len(old)-1]
	old[len(old)-1] = due{}
	*q = old[:len(old)-1]
	return d
}
