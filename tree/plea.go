package tree

import (
	"runtime"
	"sync/atomic"
)

// A reader that has failed too often, because the writer lowered something in
// its runs during every walk, asks the writer: between two events nothing
// moves, and the answer is exact. A writer that has gone idle meanwhile leaves
// the reader to itself. Expected never; counted.
type plea struct {
	root Root
	by   *reader
	done atomic.Bool
}

// ask hands the reader's query to the writer and waits for it to take it up or
// to go quiet; true if the writer has answered.
func (r *reader) ask(root Root) bool {
	p := &r.plea
	p.root, p.by = root, r
	p.done.Store(false)
	if !r.x.pleas.CompareAndSwap(nil, p) {
		runtime.Gosched()
		return false
	}
	for i := 0; i < retryYield; i++ {
		if p.done.Load() {
			return true
		}
		runtime.Gosched()
	}
	if r.x.pleas.CompareAndSwap(p, nil) {
		return false // not taken up: try again
	}
	for !p.done.Load() {
		runtime.Gosched()
	}
	return true
}

// called is what every call of the writer begins with, when nothing is half
// done.
func (x *Index) called() {
	x.names.shrunk = 0
	if len(x.lifted) > 0 {
		x.regroup()
	}
	if len(x.shrunk) > 0 {
		x.moveShrunk()
	}
	x.answerPlea()
}

// answerPlea lets a waiting reader have its answer.
func (x *Index) answerPlea() {
	p := x.pleas.Load()
	if p == nil || !x.pleas.CompareAndSwap(p, nil) {
		return
	}
	p.by.walk(p.root)
	x.pleasAnswered.Add(1)
	p.done.Store(true)
}
