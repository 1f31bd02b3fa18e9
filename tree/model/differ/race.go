package differ

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
)

// RaceProfiles are the shapes that Race runs through. Stores in them never
// wait and never give a name another meaning, so that within one event a
// depth only grows or only shrinks.
func RaceProfiles() []Profile {
	base := Profile{Holders: [2]int{6, 6}, TP: 1, Tiers: []tree.Tier{tree.Device}, Prefixes: 6, Length: [2]int{10, 80}, Spans: 1, Roots: 1}
	with := func(name string, f func(*Profile)) Profile {
		p := base
		p.Name = name
		f(&p)
		return p
	}
	return []Profile{
		with("race-leaf-first", func(p *Profile) { p.LeafFirst = true }),
		with("race-holes", func(p *Profile) { p.Set = .5 }),
		with("race-tiers", func(p *Profile) { p.Tiers, p.Place = []tree.Tier{tree.Device, tree.Host, tree.Disk}, .2 }),
		with("race-clears", func(p *Profile) { p.Clear, p.Drop, p.Hide = .08, .06, .05 }),
		with("race-private", func(p *Profile) { p.Private, p.Twins, p.Clear = .7, .2, .02 }),
		with("race-tp", func(p *Profile) { p.TP, p.Waits, p.Clear = 3, .4, .02 }),
		with("race-many", func(p *Profile) { p.Holders, p.Prefixes, p.Clear = [2]int{80, 80}, 3, .03 }),
		with("race-long", func(p *Profile) { p.Prefixes, p.Long, p.Holders = 2, 3000, [2]int{4, 4} }),
	}
}

// RaceOptions size a race. The zero value is a short one.
type RaceOptions struct {
	Ops     int // in one cycle; default 2,000
	Cycles  int // how often the ops are played on one index at least; default 3
	Readers int // default 2
	Queries int // different queries, at most 64; default 12
	// Overlap is how many answers must have met ops in progress: cycles go on
	// until so many have, for where other work keeps the processors the readers
	// may sleep through many a cycle. Default 1; negative: none.
	Overlap int
	// During is called by the writer between two ops, and may be nil: a place
	// to yield or to preempt.
	During func()
	// AfterCycle is called by the writer behind each cycle, when every holder
	// is dropped; nil: not called. Its error fails the race.
	AfterCycle func(tree.Interface) error
	// Within bounds the whole race; default one minute.
	Within time.Duration
}

// RaceFigures say how much a race has compared.
type RaceFigures struct {
	Answers     int // answers judged
	Overlapping int // of these, with at least one op in progress during the call
	Names       int // names judged
	Seconds     float64
}

// Race plays a seeded list of ops at full speed by one writer, again and
// again, while readers ask. Every figure must be the truth at some instant
// between call and return: the depth after one of the ops that the call
// overlapped, or one in between while such an op was under way (not for
// clears, drops and hides, which are one instant). Names must be names that
// the holder was told at that very place, in order and without a gap.
func Race(t testing.TB, newIndex func() tree.Interface, p Profile, seed uint64, o RaceOptions) RaceFigures {
	t.Helper()
	setDefault(&o.Ops, 2000)
	setDefault(&o.Cycles, 3)
	setDefault(&o.Readers, 2)
	setDefault(&o.Queries, 12)
	setDefault(&o.Overlap, 1)
	if o.Within == 0 {
		o.Within = time.Minute
	}
	what := fmt.Sprintf("profile %s, seed %d", p.Name, seed)
	future := foretell(p, seed, o.Ops, min(o.Queries, 64))
	// A difference that needs no race is found, and shrunk, without one.
	Must(t, newIndex, future.alone(), Options{}, "%s, without readers", what)
	r := &race{t: t, o: o, index: newIndex(), truth: future, n: len(future.ops)}
	return r.run(seed, what)
}

func setDefault(v *int, to int) {
	if *v == 0 {
		*v = to
	}
}

// truth is what every query would have answered after every op.
type truth struct {
	ops     []Op
	instant []bool // op i changes everything at one instant
	reasons []tree.Reason
	queries []Op
	labels  int
	// depths holds, by query and label, the changes in order, the first of
	// them at op 0: nothing.
	depths [][][]change
	// names holds, by query and label, where on the query's path the block of
	// each name ends, and how many units it covers.
	names []map[int]map[uint64][2]int
}

// change is a holder's depths after so many ops.
type change struct {
	ops   int
	units [tree.NumViews]uint32
}

// foretell makes the ops and computes the truth on the model, one op at a time.
func foretell(p Profile, seed uint64, n, queries int) *truth {
	g := newGenerator(p, seed)
	for range g.between(p.Holders[0], p.Holders[1]) {
		g.addHolder()
	}
	g.QueryEvery = n + 1
	g.run(n)
	tr := &truth{}
	for len(tr.queries) < queries {
		c := &g.chains[len(tr.queries)%len(g.chains)]
		q := Op{Kind: Query, Root: c.root, Contents: c.contents}
		if len(tr.queries) >= len(g.chains) { // a part, going on otherwise
			q.Contents = append(slices.Clone(c.contents[:1+g.r.IntN(len(c.contents))]), 1<<50)
		}
		tr.queries = append(tr.queries, q)
	}
	for _, op := range g.ops {
		if op.Kind != Query && op.Kind != Drain {
			tr.ops = append(tr.ops, op)
		}
	}
	for _, h := range g.all { // a cycle ends with nobody
		tr.ops = append(tr.ops, Op{Kind: Drop, Holder: h.label})
	}
	tr.labels = g.labels + 1
	tr.compute()
	return tr
}

func (tr *truth) compute() {
	m := model.New()
	ids := make([]tree.Holder, tr.labels)
	chains := map[int]map[uint64]told{}
	for range tr.queries {
		series := make([][]change, tr.labels)
		for l := range series {
			series[l] = []change{{}}
		}
		tr.depths = append(tr.depths, series)
		tr.names = append(tr.names, map[int]map[uint64][2]int{})
	}
	for i := range tr.ops {
		op := &tr.ops[i]
		h := ids[op.Holder]
		if op.Kind == Add {
			h, _ = m.AddHolder(op.Policy, op.Shards) // labels are legal holders
			ids[op.Holder] = h
		}
		tr.reasons = append(tr.reasons, apply(m, h, op).Reason)
		tr.instant = append(tr.instant, op.Kind == Clear || op.Kind == Drop || op.Kind == Hide || op.Kind == Show)
		for q := range tr.queries {
			query := &tr.queries[q]
			series := &tr.depths[q][op.Holder]
			d := m.Depths(h, query.Root, query.Contents)
			if d != (*series)[len(*series)-1].units {
				*series = append(*series, change{i + 1, d})
			}
		}
		if op.Kind == Store {
			tr.place(op, chains)
		}
	}
}

// alone returns the ops with one of the queries behind each.
func (tr *truth) alone() (ops []Op) {
	for i, op := range tr.ops {
		ops = append(ops, op, tr.queries[i%len(tr.queries)])
	}
	return ops
}

// told is a chain that a holder was told, to the end of one block.
type told struct {
	root     tree.Root
	contents []uint64
}

// place notes where on each query's path the blocks of a store lie. chains
// holds what each label was told before, by name.
func (tr *truth) place(op *Op, chains map[int]map[uint64]told) {
	known := chains[op.Holder]
	if known == nil {
		known = map[uint64]told{}
		chains[op.Holder] = known
	}
	at := told{root: op.Root}
	if parent, ok := known[op.Parent]; ok && op.HasParent {
		at = parent
	} else if op.HasParent && op.Parent != 0 {
		return
	}
	behind := len(at.contents)
	at.contents = append(slices.Clip(at.contents), op.Contents...)
	for i, name := range op.Names {
		known[name] = told{at.root, at.contents[:behind+(i+1)*op.Span]}
	}
	for q := range tr.queries {
		common := 0
		for c := tr.queries[q].Contents; tr.queries[q].Root == at.root && common < min(len(c), len(at.contents)) && c[common] == at.contents[common]; {
			common++
		}
		for i, name := range op.Names {
			end := behind + (i+1)*op.Span
			if end > common {
				break
			}
			if tr.names[q][op.Holder] == nil {
				tr.names[q][op.Holder] = map[uint64][2]int{}
			}
			tr.names[q][op.Holder][name] = [2]int{end, op.Span}
		}
	}
}

// apply makes the call of one op on an index; Add, Query and Drain make none.
func apply(ix tree.Writer, h tree.Holder, op *Op) tree.Outcome {
	owner := tree.Owner{Holder: h, Tier: op.Tier, Shard: op.Shard}
	switch op.Kind {
	case Store:
		s := tree.Store{Root: op.Root, HasParent: op.HasParent, Parent: op.Parent, Span: op.Span,
			Pairs: op.pairs(), KeepMeaning: op.KeepMeaning, SkipUnknown: op.SkipUnknown}
		return ix.Store(owner, &s)
	case Place:
		return ix.Place(owner, op.Names)
	case Remove:
		return ix.Remove(owner, op.Names)
	case Clear:
		ix.Clear(h)
	case ClearShard:
		ix.ClearShard(h, int(op.Shard))
	case Drop:
		ix.Drop(h)
	case Hide:
		ix.Hide(h)
	case Show:
		ix.Show(h)
	case Step:
		ix.Step()
	}
	return tree.Outcome{}
}

type race struct {
	t     testing.TB
	o     RaceOptions
	index tree.Interface
	truth *truth
	n     int // ops of a cycle

	started atomic.Int64 // ops begun, over all cycles
	ended   atomic.Int64 // ops finished
	overlap atomic.Int64 // answers that met an op in progress
	stop    atomic.Bool
	labels  sync.Map // tree.Holder → labelled
	failed  sync.Once
}

// labelled is what a holder of the index is: a label of one cycle.
type labelled struct{ cycle, label int }

func (r *race) run(seed uint64, what string) RaceFigures {
	begun := time.Now()
	var readers sync.WaitGroup
	figures := make([]RaceFigures, r.o.Readers)
	warm := make(chan struct{}, r.o.Readers)
	for i := range r.o.Readers {
		rd := r.index.NewReader()
		readers.Add(1)
		go func() {
			defer readers.Done()
			defer func() {
				if p := recover(); p != nil {
					r.fail(what, fmt.Errorf("a reader panics: %v", p))
				}
			}()
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for k := 0; !r.stop.Load(); k++ {
				if err := r.ask(rd, random, &figures[i]); err != nil {
					r.fail(what, err)
				}
				if k == 0 {
					warm <- struct{}{}
				}
			}
		}()
	}
	for range r.o.Readers {
		<-warm
	}
	enough := func(cycle int) bool {
		return cycle >= r.o.Cycles && int(r.overlap.Load()) >= r.o.Overlap
	}
	for cycle := 0; !enough(cycle) && !r.stop.Load() && time.Since(begun) < r.o.Within; cycle++ {
		if err := r.write(cycle); err != nil {
			r.fail(what, err)
		}
	}
	r.stop.Store(true)
	readers.Wait()
	var sum RaceFigures
	for _, f := range figures {
		sum.Answers += f.Answers
		sum.Overlapping += f.Overlapping
		sum.Names += f.Names
	}
	sum.Seconds = time.Since(begun).Seconds()
	return sum
}

func (r *race) fail(what string, err error) {
	r.stop.Store(true)
	r.failed.Do(func() { r.t.Errorf("%s: %v", what, err) })
}

// write plays the ops once.
func (r *race) write(cycle int) error {
	ids := make([]tree.Holder, r.truth.labels)
	for i := range r.truth.ops {
		if r.stop.Load() {
			return nil
		}
		op := &r.truth.ops[i]
		r.started.Add(1)
		if op.Kind == Add {
			h, err := r.index.AddHolder(op.Policy, op.Shards)
			if err != nil {
				return fmt.Errorf("op %d: %w", i, err)
			}
			ids[op.Holder] = h
			r.labels.Store(h, labelled{cycle, op.Holder})
		} else if out := apply(r.index, ids[op.Holder], op); out.Reason != r.truth.reasons[i] {
			return fmt.Errorf("op %d: reason %d, want %d", i, out.Reason, r.truth.reasons[i])
		}
		r.ended.Add(1)
		r.index.Step()
		if r.o.During != nil {
			r.o.During()
		}
	}
	if r.o.AfterCycle != nil {
		return r.o.AfterCycle(r.index)
	}
	return nil
}

// ask makes one query and judges its answer, and some names of it.
func (r *race) ask(rd tree.Reader, random *rand.Rand, f *RaceFigures) error {
	q := random.IntN(len(r.truth.queries))
	query := &r.truth.queries[q]
	from := int(r.ended.Load())
	answer := rd.Match(query.Root, query.Contents)
	to := int(r.started.Load())
	f.Answers++
	if to > from {
		f.Overlapping++
		r.overlap.Add(1)
	}
	got := map[int][tree.NumViews]uint32{}
	for i, d := range answer {
		v, ok := r.labels.Load(d.Holder)
		if !ok {
			return fmt.Errorf("query %d: holder %d was never added", q, d.Holder)
		}
		h := v.(labelled)
		if _, twice := got[h.label]; twice && from/r.n == to/r.n {
			return fmt.Errorf("query %d: holder %d twice in one answer", q, h.label)
		}
		got[h.label] = d.Units
		if d.Units[tree.ViewAny] == 0 || i > 0 && answer[i-1].Units[tree.ViewAny] < d.Units[tree.ViewAny] {
			return fmt.Errorf("query %d: answer has no depth or is out of order: %v", q, answer)
		}
		if err := r.judge(q, h, d.Units, from, to); err != nil {
			return err
		}
	}
	if from/r.n == to/r.n { // within one cycle, who is not listed must have had nothing
		for l := range r.truth.labels {
			if _, listed := got[l]; !listed {
				if err := r.judge(q, labelled{from / r.n, l}, [tree.NumViews]uint32{}, from, to); err != nil {
					return err
				}
			}
		}
	}
	if len(answer) > 0 && random.IntN(4) == 0 {
		d := answer[random.IntN(len(answer))]
		return r.askNames(rd, q, d, from, random, f)
	}
	if random.IntN(8) == 0 {
		runtime.Gosched()
	}
	return nil
}

// judge checks one holder's figures against the truth after each of the ops
// that the call overlapped: ops [from, to] of all cycles.
func (r *race) judge(q int, h labelled, units [tree.NumViews]uint32, from, to int) error {
	lo, hi := max(from-h.cycle*r.n, 0), min(to-h.cycle*r.n, r.n)
	if lo > r.n || hi < 0 {
		return fmt.Errorf("query %d: holder %d of cycle %d answers at op %d to %d", q, h.label, h.cycle, from, to)
	}
	series := r.truth.depths[q][h.label]
	i, _ := slices.BinarySearchFunc(series, lo+1, func(c change, ops int) int { return c.ops - ops })
	i-- // the last change at or before lo
	for v, x := range units {
		ok := false
		for k := i; k < len(series) && !ok && (k == i || series[k].ops <= hi); k++ {
			y := series[k].units[v]
			if ok = x == y; !ok && k > i && !r.truth.instant[series[k].ops-1] {
				before := series[k-1].units[v]
				ok = min(before, y) < x && x < max(before, y)
			}
		}
		if !ok {
			var seen []uint32
			for k := i; k < len(series) && (k == i || series[k].ops <= hi); k++ {
				seen = append(seen, series[k].units[v])
			}
			return fmt.Errorf("query %d, holder %d, view %d: depth %d, but the truth at ops %d to %d was %v", q, h.label, v, x, lo, hi, seen)
		}
	}
	return nil
}

// askNames checks that names are of the holder's blocks on the query's path,
// following each other without a gap.
func (r *race) askNames(rd tree.Reader, q int, d tree.Depths, from int, random *rand.Rand, f *RaceFigures) error {
	v := tree.View(random.IntN(int(tree.NumViews)))
	depth := int(d.Units[v])
	if depth > 0 && random.IntN(2) == 0 {
		depth = 1 + random.IntN(depth)
	}
	names := rd.Names(nil, d.Holder, v, depth)
	label, _ := r.labels.Load(d.Holder)
	l := label.(labelled).label
	covered := 0
	for k, name := range names {
		at, ok := r.truth.names[q][l][name]
		if !ok {
			return fmt.Errorf("query %d, holder %d, view %d: name %d (%#x) was never a block of it there", q, l, v, k, name)
		}
		if at[0] > depth || at[0]-at[1] > covered || at[0] <= covered {
			return fmt.Errorf("query %d, holder %d, view %d: name %d ends at %d, behind %d, of depth %d", q, l, v, k, at[0], covered, depth)
		}
		covered = at[0]
	}
	f.Names += len(names)
	return nil
}
