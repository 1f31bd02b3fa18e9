package differ

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
)

// Options tune a replay. The zero value compares everything.
type Options struct {
	// Check is called with the index after every op; nil: not. It is the
	// place for an index's own invariants.
	Check func(tree.Interface) error
	// CheckEvery calls Check only at every so many ops (0 and 1: every op).
	CheckEvery int
	// Counters compares whole outcomes, not their reasons alone, of every event
	// that gives no name another meaning and before the first one that waits:
	// how those are counted is up to the index.
	Counters bool
	// Hang is how long one op may take; 0: two minutes.
	Hang time.Duration
}

// Failure is the first difference a replay found.
type Failure struct {
	Op   int    // index into the ops, len(ops) if at no op
	Why  string // what differed, or the panic with its stack
	Hung bool   // the index did not come back
}

// Error describes the failure.
func (f *Failure) Error() string { return fmt.Sprintf("op %d: %s", f.Op, f.Why) }

// Figures count what a replay compared.
type Figures struct {
	Queries    int
	NamesGiven int // names the index gave
	NamesHeld  int // names the model gave for the same questions
}

// Add adds g to f.
func (f *Figures) Add(g Figures) {
	f.Queries += g.Queries
	f.NamesGiven += g.NamesGiven
	f.NamesHeld += g.NamesHeld
}

// Replay applies ops to a fresh index and to a fresh model and returns the
// first difference, nil if there is none. A panic of the index is a failure
// of the op it happened in; so is a call that never returns.
func Replay(newIndex func() tree.Interface, ops []Op, o Options) (Figures, *Failure) {
	type result struct {
		f    Figures
		fail *Failure
	}
	hang := o.Hang
	if hang == 0 {
		hang = 2 * time.Minute
	}
	done := make(chan result, 1) // buffered: a late end of a hung replay leaks nothing
	var at atomic.Int64          // the op being played
	go func() {
		f, fail := replay(newIndex, ops, o, &at)
		done <- result{f, fail}
	}()
	timer := time.NewTimer(hang)
	defer timer.Stop()
	for was := int64(-1); ; {
		select {
		case r := <-done:
			return r.f, r.fail
		case <-timer.C:
		}
		now := at.Load()
		if now == was {
			return Figures{}, &Failure{Op: int(now), Why: fmt.Sprintf("no end after %v", hang), Hung: true}
		}
		was = now
		timer.Reset(hang)
	}
}

// pair is one holder in both indexes.
type pair struct{ want, got tree.Holder }

type player struct {
	model   *model.Model
	index   tree.Interface
	mr, ir  tree.Reader
	labels  map[int]pair
	label   map[tree.Holder]int // of the index's holders
	figures Figures

	counters bool // compare them
	waited   bool // some block has waited since all was empty
}

func replay(newIndex func() tree.Interface, ops []Op, o Options, at *atomic.Int64) (f Figures, fail *Failure) {
	i := 0
	defer func() {
		if p := recover(); p != nil {
			fail = &Failure{Op: i, Why: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	m, ix := model.New(), newIndex()
	p := &player{
		model: m, index: ix, mr: m.NewReader(), ir: ix.NewReader(),
		labels: map[int]pair{Nobody: {}}, label: map[tree.Holder]int{},
		counters: o.Counters,
	}
	for ; i < len(ops); i++ {
		at.Store(int64(i))
		err := p.play(&ops[i])
		if err == nil && o.Check != nil && (i+1)%max(o.CheckEvery, 1) == 0 {
			err = o.Check(ix)
		}
		if err != nil {
			return p.figures, &Failure{Op: i, Why: err.Error()}
		}
	}
	return p.figures, nil
}

// play applies one op to both sides and compares what they say.
func (p *player) play(o *Op) error {
	switch o.Kind {
	case Query:
		return p.query(o)
	case Drain:
		return p.drain()
	case Step:
		apply(p.index, 0, o)
		return nil
	}
	h, ok := p.labels[o.Holder]
	if o.Kind == Add && !ok {
		return p.add(o)
	}
	if o.Kind == Add || !ok {
		return nil // a label twice, or never: not a list of ours, but a legal one
	}
	want, got := apply(p.model, h.want, o), apply(p.index, h.got, o)
	// Some counters of an outcome depend on how an index goes about an event;
	// whether it takes the event does not.
	if want.Reason != got.Reason {
		return fmt.Errorf("reason %d, want %d", got.Reason, want.Reason)
	}
	p.waited = p.waited || want.Waiting > 0
	if p.counters && want != got && want.Moved == 0 && !p.waited {
		return fmt.Errorf("outcome %+v, want %+v", got, want)
	}
	return nil
}

func (p *player) add(o *Op) error {
	want, err := p.model.AddHolder(o.Policy, o.Shards)
	got, err2 := p.index.AddHolder(o.Policy, o.Shards)
	if (err == nil) != (err2 == nil) {
		return fmt.Errorf("AddHolder(%d, %d): error %v, want %v", o.Policy, o.Shards, err2, err)
	}
	if err != nil {
		return nil
	}
	if got == 0 {
		return fmt.Errorf("AddHolder gave holder 0")
	}
	if _, twice := p.label[got]; twice {
		return fmt.Errorf("AddHolder gave holder %d a second time", got)
	}
	p.labels[o.Holder], p.label[got] = pair{want, got}, o.Holder
	return nil
}

func (p *player) query(o *Op) error {
	p.figures.Queries++
	want := map[int][tree.NumViews]uint32{}
	labels := map[tree.Holder]int{}
	for l, h := range p.labels {
		labels[h.want] = l
	}
	for _, d := range p.mr.Match(o.Root, o.Contents) {
		want[labels[d.Holder]] = d.Units
	}
	// A Match's answer is valid until the next one: it is used at once.
	answer := p.ir.Match(o.Root, o.Contents)
	got := map[int][tree.NumViews]uint32{}
	for i, d := range answer {
		l, ok := p.label[d.Holder]
		if !ok {
			return fmt.Errorf("answer %d names holder %d, which was never added", i, d.Holder)
		}
		if _, twice := got[l]; twice {
			return fmt.Errorf("answer names holder %d twice: %v", l, answer)
		}
		if got[l] = d.Units; d.Units == ([tree.NumViews]uint32{}) {
			return fmt.Errorf("answer gives holder %d with no depth in any view", l)
		}
		if i > 0 && answer[i-1].Units[tree.ViewAny] < d.Units[tree.ViewAny] {
			return fmt.Errorf("answer is not deepest first: %v", answer)
		}
	}
	for _, l := range sortedLabels(p.labels) {
		if got[l] != want[l] {
			return fmt.Errorf("holder %d has depths %v, want %v (device, host, any, device or host, extension)", l, got[l], want[l])
		}
	}
	if err := p.names(o, want); err != nil {
		return err
	}
	return p.stats()
}

// names asks for the names of up to eight holders in every view.
func (p *player) names(o *Op, want map[int][tree.NumViews]uint32) error {
	labels := sortedLabels(p.labels)
	if n := len(labels); n > 8 { // a window that moves with the query
		at := len(o.Contents) % (n - 7)
		labels = labels[at : at+8]
	}
	for _, l := range labels {
		h := p.labels[l]
		for v := range tree.NumViews {
			depth := o.Depth
			if depth == 0 {
				depth = int(want[l][v])
			}
			const mark = 0xfeed // Names appends: what is there stays
			list := p.ir.Names([]uint64{mark}, h.got, v, depth)
			if len(list) == 0 || list[0] != mark {
				return fmt.Errorf("names of holder %d do not append to dst", l)
			}
			p.figures.NamesGiven += len(list) - 1
			p.figures.NamesHeld += len(p.mr.Names(nil, h.want, v, depth))
			if err := p.model.NameOK(h.want, v, o.Root, o.Contents, depth, list[1:]); err != nil {
				return fmt.Errorf("names of holder %d in view %d to depth %d: %w", l, v, depth, err)
			}
		}
	}
	return nil
}

// stats compares the figures that mean the same in any index.
func (p *player) stats() error {
	want, got := p.model.Stats(), p.index.Stats()
	if want.Holders != got.Holders {
		return fmt.Errorf("%d holders, want %d", got.Holders, want.Holders)
	}
	if want.Residencies != got.Residencies {
		return fmt.Errorf("%d residencies, want %d", got.Residencies, want.Residencies)
	}
	if (want.Waiting == 0) != (got.Waiting == 0) {
		return fmt.Errorf("%d blocks wait, want %d", got.Waiting, want.Waiting)
	}
	return nil
}

// drain empties every holder: by removes of every copy, a clear, a drop or
// clears of each shard, by label. Then nothing may be left.
func (p *player) drain() error {
	owners := map[tree.Holder][]model.Block{}
	for _, b := range p.model.Blocks() {
		owners[b.Owner.Holder] = append(owners[b.Owner.Holder], b)
	}
	for _, l := range sortedLabels(p.labels) {
		blocks := owners[p.labels[l].want]
		if len(blocks) == 0 {
			continue
		}
		var err error
		switch l % 4 {
		case 0:
			err = p.removeAll(l, blocks)
		case 1:
			err = p.play(&Op{Kind: Clear, Holder: l})
		case 2:
			err = p.play(&Op{Kind: Drop, Holder: l})
		case 3:
			for s := range tree.MaxShards {
				err = p.play(&Op{Kind: ClearShard, Holder: l, Shard: uint8(s)})
			}
		}
		if err != nil {
			return fmt.Errorf("while emptying holder %d: %w", l, err)
		}
	}
	if left := p.model.Blocks(); len(left) > 0 {
		panic(fmt.Sprintf("differ: the model still holds %v", left[0]))
	}
	for n := 0; p.index.Step(); n++ {
		if n > 10_000_000 {
			return fmt.Errorf("deferred work does not end: Step is true for ever")
		}
	}
	p.waited = false
	st, want := p.index.Stats(), p.model.Stats()
	if st.Holders != want.Holders {
		return fmt.Errorf("after a drain %d holders, want %d", st.Holders, want.Holders)
	}
	if st.Residencies != 0 || st.Waiting != 0 || st.Runs != 0 || st.Names != 0 || st.Links != 0 || st.Deferred != 0 {
		return fmt.Errorf("after a drain something is left: %+v", st)
	}
	return nil
}

// removeAll removes every copy of a holder's blocks, last names first.
func (p *player) removeAll(label int, blocks []model.Block) error {
	for len(blocks) > 0 {
		first := blocks[0]
		op := Op{Kind: Remove, Holder: label, Tier: first.Owner.Tier, Shard: first.Owner.Shard}
		var rest []model.Block
		for _, b := range blocks {
			if b.Owner == first.Owner {
				op.Names = append(op.Names, b.Name)
				b.Copies--
			}
			if b.Copies > 0 {
				rest = append(rest, b)
			}
		}
		slices.Reverse(op.Names)
		if err := p.play(&op); err != nil {
			return err
		}
		blocks = rest
	}
	return nil
}

func sortedLabels(m map[int]pair) []int {
	labels := make([]int, 0, len(m))
	for l := range m {
		if l != Nobody {
			labels = append(labels, l)
		}
	}
	slices.Sort(labels)
	return labels
}
