package load

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/perf/corpus"
)

// The rules of an open run.
const (
	validBy = 1.01 // all is issued within so many windows, or the generator was too slow
	keptBy  = 1.10 // all is done within so many windows, or the index did not keep up
	warmup  = 128  // queries before the clock starts
)

// lane is a list of operations with their deadlines, and how many of them the
// generator has issued. Whoever serves it never makes the generator wait.
type lane struct {
	ops       []corpus.Op
	deadlines []time.Duration
	issued    atomic.Int64
	closed    atomic.Bool
	parked    atomic.Bool
	wake      chan struct{} // holds at most one wake-up
}

func newLane() *lane { return &lane{wake: make(chan struct{}, 1)} }

// tries is how often an idle lane looks again before it parks.
const tries = 20

// next waits until operation i is issued, or the end; it returns how many are
// issued.
func (l *lane) next(i int) int {
	for n := 0; ; n++ {
		if n := int(l.issued.Load()); n > i {
			return n
		}
		if l.closed.Load() && int(l.issued.Load()) <= i {
			return i
		}
		if n < tries {
			runtime.Gosched()
			continue
		}
		l.parked.Store(true)
		if int(l.issued.Load()) <= i && !l.closed.Load() {
			<-l.wake
		}
		l.parked.Store(false)
	}
}

// issue makes it known that n operations are issued.
func (l *lane) issue(n int) {
	l.issued.Store(int64(n))
	l.rouse()
}

func (l *lane) rouse() {
	if l.parked.Load() {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// end makes it known that nothing more is issued.
func (l *lane) end() {
	l.closed.Store(true)
	l.rouse()
}

// open issues every operation of a corpus at its own time, stretched or pressed
// into the window, whether the ones before are done or not. A writer serves the
// events in order, a reader the queries; at one deadline queries are issued
// before events. The clock runs from the first deadline to the last operation
// done, drain included.
func open(c *corpus.Corpus, who *Contestant, o Options) (map[string]float64, error) {
	if !who.Concurrent {
		return nil, nil
	}
	index, err := who.New(c.Header)
	if err != nil {
		return nil, err
	}
	asks, tells := newLane(), newLane()
	scale := float64(o.Window) / float64(max(c.Totals.Nanos, 1))
	for _, op := range c.Ops {
		l := tells
		if op.Kind == corpus.Query {
			l = asks
		}
		l.ops = append(l.ops, op)
		l.deadlines = append(l.deadlines, time.Duration(float64(op.Nanos)*scale))
	}
	touch(c.Ops)
	reader := index.Reader()
	for i := range min(warmup, len(asks.ops)) {
		reader.Match(asks.ops[i].Words)
	}
	runtime.GC()

	service := make([]time.Duration, 0, len(asks.ops))
	sojourn := make([]time.Duration, 0, len(asks.ops))
	visible := make([]time.Duration, 0, len(tells.ops))
	var done sync.WaitGroup
	start := time.Now()
	var asked, told time.Duration
	done.Go(func() {
		for i := 0; ; i++ {
			if asks.next(i) <= i {
				break
			}
			from := time.Since(start)
			reader.Match(asks.ops[i].Words)
			asked = time.Since(start)
			service, sojourn = append(service, asked-from), append(sojourn, asked-asks.deadlines[i])
		}
	})
	done.Go(func() {
		for i := 0; ; {
			n := min(tells.next(i), i+batch)
			if n <= i {
				break
			}
			index.Apply(tells.ops[i:n])
			index.Sync()
			told = time.Since(start)
			for ; i < n; i++ {
				visible = append(visible, told-tells.deadlines[i])
			}
		}
	})
	issued := issue(start, asks, tells)
	done.Wait()
	took := max(asked, told)
	m := map[string]float64{
		"window-ms": float64(o.Window) / 1e6,
		"took-ms":   float64(took) / 1e6,
		"valid":     truth(issued <= time.Duration(validBy*float64(o.Window))),
		"kept-up":   truth(took <= time.Duration(keptBy*float64(o.Window))),
		"Mblocks/s": float64(c.Totals.Blocks()) / 1e6 / took.Seconds(),
		"ops/s":     float64(c.Totals.Queries+c.Totals.Stores+c.Totals.Removes+c.Totals.Clears) / took.Seconds(),
	}
	latencies(m, "match", service)
	latencies(m, "answered", sojourn)
	latencies(m, "visible", visible)
	return m, nil
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// issue issues every operation when its deadline comes and returns when the last
// one was issued. It sleeps when there is time to, and spins otherwise, if there
// is a processor for that: with two, a generator that spins has taken half of
// what it measures. Then deadlines come up to a tick late, which is in the
// latencies.
func issue(start time.Time, asks, tells *lane) time.Duration {
	const tick = 150 * time.Microsecond
	spins := runtime.NumCPU() > 3
	var now time.Duration
	a, t := 0, 0
	for a < len(asks.ops) || t < len(tells.ops) {
		l, i := tells, &t
		if a < len(asks.ops) && (t == len(tells.ops) || asks.deadlines[a] <= tells.deadlines[t]) {
			l, i = asks, &a
		}
		for due := l.deadlines[*i]; now < due; now = time.Since(start) {
			switch wait := due - now; {
			case wait > 2*tick:
				time.Sleep(wait - tick)
			case spins:
				runtime.Gosched()
			default:
				time.Sleep(tick)
			}
		}
		*i++
		l.issue(*i)
	}
	now = time.Since(start)
	asks.end()
	tells.end()
	return now
}
