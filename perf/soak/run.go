package soak

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// Options say what to soak, and how long. BlockOps or For ends a soak, whichever
// comes first; at least one cycle is finished.
type Options struct {
	Profile  Profile
	Seed     uint64
	BlockOps int64         // blocks stored and removed; 0: no limit
	For      time.Duration // 0: no limit
	Readers  int           // default 2; below 0: none
	Cycle    int64         // blocks stored and removed between two drains; default 500,000
	// New makes the index; default tree.New. It must hold to the Bytes given.
	New func(tree.Options) tree.Interface
	// Check is called after every drain; nil: not.
	Check func(tree.Interface) error
	// Pool makes the names of a profile that has but few; default small numbers
	// from 0, as engines have that count their blocks.
	Pool func(i int) uint64
	// Hook has a function called between any two stores of the index's writer;
	// nil: the writer is stopped between events only.
	Hook func(ix tree.Interface, between func())
}

// parityEvery is how often the writer stops to compare.
const parityEvery = 500 * time.Millisecond

// burst is how many questions a reader asks before it looks up.
const burst = 64

// growth is how much more memory a drained index may have than it had after
// each manner of drain was used once.
const growth = 1.25

// Run soaks an index. The error says what was wrong first; the report is valid
// in any case.
func Run(o Options) (*Report, error) {
	if o.Readers == 0 {
		o.Readers = 2
	}
	if o.Cycle == 0 {
		o.Cycle = 500_000
	}
	if o.New == nil {
		o.New = func(t tree.Options) tree.Interface { return tree.New(t) }
	}
	p := o.Profile
	begun := time.Now()
	rep := newReport(p, o.Seed)
	ix := o.New(tree.Options{Seed: o.Seed, Bytes: p.Bytes})
	t := &truth{world: newWorld(p, o.Seed)}
	w := &writer{
		p: p, index: ix, check: o.Check, truth: t, r: rand.New(rand.NewPCG(o.Seed, 2)), rest: rand.New(rand.NewPCG(o.Seed, 98)),
		reader: ix.NewReader(), figs: rep,
	}
	for i := range p.Pool {
		n := uint64(i)
		if o.Pool != nil {
			n = o.Pool(i)
		}
		w.pool = append(w.pool, n)
	}
	for k := range p.Holders {
		s := newSlot(p, t.world)
		t.slots = append(t.slots, s)
		if err := w.attach(k); err != nil {
			return rep, err
		}
		s.shown.Store(present)
	}
	if p.Chaos && o.Hook != nil {
		o.Hook(ix, chaos(o.Seed))
	}
	crowded := runtime.GOMAXPROCS(0) <= o.Readers
	askers := make([]*asker, max(0, o.Readers))
	var stop atomic.Bool
	var all sync.WaitGroup
	wrong := make(chan error, len(askers)+1) // one of each at most
	for i := range askers {
		a := &asker{truth: t, rd: ix.NewReader(), r: rand.New(rand.NewPCG(o.Seed, uint64(3+i))), below: p.Bytes == 0, seen: make([]uint32, p.Holders)}
		askers[i] = a
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					wrong <- fmt.Errorf("a reader panics: %v", p)
					stop.Store(true)
				}
			}()
			for !stop.Load() {
				on := time.Now()
				for range burst {
					if err := a.ask(); err != nil {
						wrong <- fmt.Errorf("while the writer writes: %w", err)
						stop.Store(true)
						return
					}
				}
				if crowded { // rest as long, so that the writer has a processor
					time.Sleep(time.Since(on))
				}
			}
		})
	}
	if err := w.run(o, begun, &stop); err != nil {
		wrong <- err
	}
	stop.Store(true)
	all.Wait()
	rep.finish(ix, askers, begun)
	select {
	case err := <-wrong:
		rep.Wrong = err.Error()
		return rep, fmt.Errorf("soak %s, seed %d: %w", p.Name, o.Seed, err)
	default:
		return rep, nil
	}
}

// run writes until it is time.
func (w *writer) run(o Options, begun time.Time, stop *atomic.Bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("event %d: the writer panics: %v", w.event, p)
		}
	}()
	over := func() bool {
		return stop.Load() || o.BlockOps > 0 && w.figs.blockOps() >= o.BlockOps || o.For > 0 && time.Since(begun) >= o.For
	}
	looked := time.Now()
	for cycle := 0; ; cycle++ {
		for until := w.figs.blockOps() + o.Cycle*int64(o.Profile.Grow); w.figs.blockOps() < until; {
			for range 64 {
				if err := w.step(); err != nil {
					return err
				}
			}
			w.index.Step()
			if time.Since(looked) >= parityEvery {
				if err := w.parity(64); err != nil {
					return err
				}
				looked = time.Now()
			}
			if over() {
				break
			}
		}
		if err := w.parity(256); err != nil {
			return err
		}
		if err := w.fair(); err != nil {
			return err
		}
		if err := w.drain(cycle % 4); err != nil {
			return err
		}
		// After each manner of drain has been used, memory has been where it goes.
		if b := w.figs.Bytes; len(b) > 4 && float64(b[len(b)-1]) > growth*float64(b[3]) {
			return fmt.Errorf("event %d: %d bytes after drain %d, %d after the fourth", w.event, b[len(b)-1], len(b), b[3])
		}
		if over() {
			return nil
		}
	}
}

// chaos stops the writer now and then, between any two of its stores: its
// processor goes to others, for an instant or for long. It is stopped about half
// of the time, however long a stop takes.
func chaos(seed uint64) func() {
	r := rand.New(rand.NewPCG(seed, 99))
	left, gap, on := 64, 64, time.Now()
	return func() {
		if left--; left > 0 {
			return
		}
		off := time.Now()
		if r.IntN(2) == 0 {
			time.Sleep(50 * time.Microsecond)
		} else {
			runtime.Gosched()
		}
		now := time.Now()
		if now.Sub(off) > off.Sub(on) {
			gap *= 2
		} else if gap > 16 {
			gap = gap * 3 / 4
		}
		left, on = 1+r.IntN(2*gap), now
	}
}
