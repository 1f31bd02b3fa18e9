package tree

import (
	"runtime"
	"sync/atomic"
)

// reader walks the index without a lock. Everything it reads are atomic words;
// whether they belonged together it learns from the versions of the runs it
// passed: a removal stores the lower figure first and then moves the run's
// version, unless its holder is told of no more, so an answer whose versions
// still stand was true at one instant for each holder and view. Whose a lane is
// it may ask at once: the epoch tells at the end whether that has changed.
type reader struct {
	x     *Index
	query []uint64
	steps []step
	active
	answer
	known uint32 // lane id of the holder whose names are asked for, once met
	plea  plea

	begun   [firstRuns]firstRun // by what a prompt begins with
	touched uint64              // keeps loads ahead of use from being optimised away
}

// step is one run the walk went through.
type step struct {
	run     uint32
	off     uint32 // units before it
	n       uint32 // units matched in it
	link    uint64
	version uint64
	word    *atomic.Uint64 // where the version stands
}

// firstRun is a run in which a walk has begun: most prompts begin as others did, and
// its own link and content tell whether it still is what it was. Its words are there
// as long as they are remembered.
type firstRun struct {
	id uint32
	hd []atomic.Uint64
}

const firstRuns = 8

// NewReader makes a reader of the index.
func (x *Index) NewReader() Reader {
	return &reader{
		x: x, steps: make([]step, 0, 16), active: active{crowd: make([]uint64, nearWords)},
		answer: answer{holders: make([]Holder, 0, 16), sets: make([]uint64, 0, 8), levels: make([]Level, 0, 8)},
	}
}

// retryYield and retryPlea are how many failed walks a reader takes before it
// yields its processor, and before it asks the writer to answer.
const (
	retryYield = 16
	retryPlea  = 256
)

// Levels answers a query. See Reader.
func (r *reader) Levels(root Root, contents []uint64) []Level {
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
	return r.levels
}

// Match answers a query. See Reader.
func (r *reader) Match(root Root, contents []uint64) []Depths {
	return r.flatten(r.Levels(root, contents))
}

// walk goes down the trie once; false if what it saw does not belong together.
func (r *reader) walk(root Root) bool {
	x, h := r.x, r.query
	epoch, hook := x.epoch.Load(), x.readHook
	r.steps = r.steps[:0]
	r.begin()
	r.reset()
	p := 0
	link := makeLink(rootRun(root), 0)
	run, hd := r.root(link, h[0])
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
		// Where the walk may go on is loaded now: nearly all that go on do so where
		// the first child hangs, before which nobody has parted. Whether it is that
		// is asked after the lanes, for what is true before them might be too old.
		class, ahead, hash := classOf(run), uint32(0), uint64(0)
		var then []atomic.Uint64
		off := firstChild(hd, class)
		if off != 0 && p+off < len(h) {
			hash = mix(x.links.seed, makeLink(run, off), h[p+off])
			if ahead = x.links.guess(hash); ahead != 0 {
				then = x.run(ahead)
				r.touched |= then[hVersion].Load() | then[hBody].Load()
			}
		}
		m := agree(body, rest[:len(body)])
		if m == 0 {
			ended = true
			break
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
		r.steps = append(r.steps, step{run: run, off: uint32(p), n: uint32(m), link: link, version: version(w0), word: &hd[hVersion]})
		if hook != nil {
			hook()
		}
		p += m
		if p == len(h) || r.nobody() {
			ended = false
			break
		}
		ended, link, run = true, makeLink(run, m), 0
		if childBit(hd, class, m) {
			if m != off {
				hash, ahead = mix(x.links.seed, link, h[p]), 0
			}
			if ahead != 0 && then[hLink].Load() == link && then[hBody].Load() == h[p] {
				run, hd = ahead, then
			} else {
				run, hd = x.probe(hash, link, h[p])
			}
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

// root finds the run that hangs at a root, by its link, and begins with content.
func (r *reader) root(link, content uint64) (uint32, []atomic.Uint64) {
	c := &r.begun[content%firstRuns]
	if c.id != 0 && c.hd[hLink].Load() == link && c.hd[hBody].Load() == content {
		return c.id, c.hd
	}
	id, hd := r.x.probe(mix(r.x.links.seed, link, content), link, content)
	if id != 0 {
		*c = firstRun{id, hd}
	}
	return id, hd
}

// pause is where tests let the writer go on in the middle of a walk.
func (r *reader) pause() {
	if r.x.readHook != nil {
		r.x.readHook()
	}
}

// agree is how many leading words of a run's contents and of a query are equal. b is
// as long as a, and a begins where a run's body does.
func agree(a []atomic.Uint64, b []uint64) int {
	b = b[:len(a)]
	m := 0
	if len(a) >= 8 {
		m = agreeEights(&a[0], &b[0], len(a))
	}
	for m < len(a) && a[m].Load() == b[m] {
		m++
	}
	return m
}
