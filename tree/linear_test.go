package tree_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/cairn-kv/cairn/tree"
)

// Small histories of one writer and some readers, written down with the order
// of calls and returns and given to a checker that knows nothing of the index
// but its sequential meaning. TestRace asks whether each answer was true at some
// instant of its own call; this asks for one order of all calls: who asks after
// another's answer may not see less news than that.

// Blocks of a linear world: 0 to 3 are shared, then the paths part.
var linearPaths = [2][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 8, 9, 10, 11}}

const linearTiers = 3

// linearState is what one holder holds: a bit a block.
type linearState struct {
	held   [2][linearTiers]uint16 // by TP shard and tier
	shards uint8
	hidden bool
}

func (s linearState) depth(path []int, v tree.View) uint32 {
	if s.hidden {
		return 0
	}
	var on [linearTiers]uint16
	for t := range on {
		on[t] = s.held[0][t]
		if s.shards == 2 {
			on[t] &= s.held[1][t]
		}
	}
	count := func(mask uint16, from int) int {
		n := from
		for n < len(path) && mask>>path[n]&1 != 0 {
			n++
		}
		return n
	}
	dev, host, disk := on[tree.Device], on[tree.Host], on[tree.Disk]
	switch v {
	case tree.ViewDevice:
		return uint32(count(dev, 0))
	case tree.ViewHost:
		return uint32(count(host, 0))
	case tree.ViewDeviceHost:
		return uint32(count(dev|host, 0))
	case tree.ViewExtension:
		return uint32(count(host, count(dev, 0)))
	default:
		return uint32(count(dev|host|disk, 0))
	}
}

type linearKind uint8

const (
	linearAdd linearKind = iota
	linearLose
	linearClear
	linearHide
	linearShow
	linearAsk
)

// linearInput is one step of a history: a block that comes or goes, a change of
// everything, or a question about one view.
type linearInput struct {
	kind  linearKind
	shard uint8
	tier  tree.Tier
	block uint8
	query uint8
	view  tree.View
}

func (s linearState) after(in linearInput) linearState {
	switch in.kind {
	case linearAdd:
		s.held[in.shard][in.tier] |= 1 << in.block
	case linearLose:
		s.held[in.shard][in.tier] &^= 1 << in.block
	case linearClear:
		s.held = [2][linearTiers]uint16{}
	case linearHide, linearShow:
		s.hidden = in.kind == linearHide
	}
	return s
}

func linearModel(shards int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return linearState{shards: uint8(shards)} },
		Step: func(state, input, output any) (bool, any) {
			s, in := state.(linearState), input.(linearInput)
			if in.kind == linearAsk {
				return output.(uint32) == s.depth(linearPaths[in.query], in.view), s
			}
			return true, s.after(in)
		},
	}
}

// linearEvent is one call of the writer, about one holder. Blocks of one event
// may come or go one by one: each is an operation of its own, all as long as
// the call.
type linearEvent struct {
	holder int
	apply  func(ix tree.Interface, hs []tree.Holder)
	steps  []linearInput
}

type linearProfile struct {
	name    string
	tiers   int
	shards  int
	own     bool // names of the holder's own
	most    int  // blocks in an event
	changes int  // of 20 events, how many clear, hide or show
}

var linearProfiles = []linearProfile{
	{"one by one", 1, 1, false, 1, 1},
	{"events", 1, 1, false, 4, 2},
	{"tiers", linearTiers, 1, false, 2, 1},
	{"own names", 1, 1, true, 3, 2},
	{"two shards", 2, 2, false, 2, 1},
	{"clears", 1, 1, false, 4, 8},
}

const linearHolders = 2

// linearScript makes the writer's calls. Nothing in them waits: a parent is
// always held.
func linearScript(p linearProfile, r *rand.Rand, n int) (script []linearEvent) {
	var truth [linearHolders]linearState
	for len(script) < n {
		k := r.IntN(linearHolders)
		s := &truth[k]
		e := linearEvent{holder: k}
		if r.IntN(20) < p.changes {
			in := linearInput{kind: []linearKind{linearClear, linearClear, linearHide, linearShow, linearShow}[r.IntN(5)]}
			e.steps = []linearInput{in}
			e.apply = func(ix tree.Interface, hs []tree.Holder) {
				switch in.kind {
				case linearClear:
					ix.Clear(hs[k])
				case linearHide:
					ix.Hide(hs[k])
				default:
					ix.Show(hs[k])
				}
			}
			*s = s.after(in)
			script = append(script, e)
			continue
		}
		path := linearPaths[r.IntN(2)]
		shard, tier := uint8(r.IntN(p.shards)), tree.Tier(r.IntN(p.tiers))
		lo := r.IntN(len(path))
		hi := min(len(path), lo+1+r.IntN(p.most))
		name := func(block int) uint64 {
			if p.own {
				return uint64(block + 1 + 100*(k+1))
			}
			return uint64(block + 1)
		}
		store := r.IntN(5) < 3
		for store && lo > 0 { // down to where the parent is held
			var any uint16
			for _, w := range s.held[shard] {
				any |= w
			}
			if any>>path[lo-1]&1 != 0 {
				break
			}
			lo, hi = lo-1, hi-1
		}
		st := tree.Store{Span: 1, HasParent: lo > 0}
		if lo > 0 {
			st.Parent = name(path[lo-1])
		}
		var names []uint64
		for i := lo; i < hi; i++ {
			in := linearInput{kind: linearLose, shard: shard, tier: tier, block: uint8(path[i])}
			if store {
				in.kind = linearAdd
			}
			e.steps = append(e.steps, in)
			*s = s.after(in)
			st.Pairs = append(st.Pairs, name(path[i]), uint64(path[i])+500)
			names = append(names, name(path[i]))
		}
		if r.IntN(2) == 0 {
			slices.Reverse(names)
		}
		e.apply = func(ix tree.Interface, hs []tree.Holder) {
			o := tree.Owner{Holder: hs[k], Tier: tier, Shard: shard}
			if store {
				ix.Store(o, &st)
			} else {
				ix.Remove(o, names)
			}
		}
		script = append(script, e)
	}
	return script
}

// linearRun plays a script on an index and writes down who was called when.
type linearRun struct {
	index   tree.Interface
	hs      []tree.Holder
	queries [2][]uint64
	clock   atomic.Int64
	writes  [linearHolders][]porcupine.Operation
	answers [][]linearAnswer // by reader
}

type linearAnswer struct {
	call, ret int64
	query     int
	units     [linearHolders][tree.NumViews]uint32
}

func newLinearRun(ix tree.Interface, p linearProfile, readers int) *linearRun {
	w := &linearRun{index: ix, answers: make([][]linearAnswer, readers)}
	for range linearHolders {
		h, err := ix.AddHolder(tree.Set, p.shards)
		if err != nil {
			panic(err) // the profiles' numbers are legal
		}
		w.hs = append(w.hs, h)
	}
	for q, path := range linearPaths {
		for _, b := range path {
			w.queries[q] = append(w.queries[q], uint64(b)+500)
		}
	}
	return w
}

func (w *linearRun) write(e linearEvent) {
	call := w.clock.Add(1)
	e.apply(w.index, w.hs)
	ret := w.clock.Add(1)
	for _, in := range e.steps {
		w.writes[e.holder] = append(w.writes[e.holder], porcupine.Operation{Input: in, Call: call, Output: uint32(0), Return: ret})
	}
	w.index.Step()
}

func (w *linearRun) ask(i int, rd tree.Reader, r *rand.Rand) {
	a := linearAnswer{query: r.IntN(2), call: w.clock.Add(1)}
	got := rd.Match(0, w.queries[a.query])
	a.ret = w.clock.Add(1)
	for _, d := range got {
		if k := slices.Index(w.hs, d.Holder); k >= 0 {
			a.units[k] = d.Units
		}
	}
	w.answers[i] = append(w.answers[i], a)
}

// scheduled plays writer and readers as coroutines: a seeded schedule stops one
// at any step and goes on with another, so that a failure comes back.
func (w *linearRun) scheduled(script []linearEvent, asks int, r *rand.Rand, hook func(write, read func())) {
	var pause func()
	at := func() { pause() }
	hook(at, at)
	type player struct {
		next  func() (struct{}, bool)
		yield func(struct{}) bool
	}
	var players []*player
	play := func(f func()) {
		p := &player{}
		next, stop := iter.Pull(func(yield func(struct{}) bool) { p.yield = yield; f() })
		_ = stop // every player is played to its end
		p.next = next
		players = append(players, p)
	}
	play(func() {
		for _, e := range script {
			w.write(e)
			pause()
		}
	})
	for i := range w.answers {
		rd, own := w.index.NewReader(), rand.New(rand.NewPCG(r.Uint64(), uint64(i)))
		play(func() {
			for range asks {
				w.ask(i, rd, own)
				pause()
			}
		})
	}
	for len(players) > 0 {
		k := r.IntN(len(players))
		for n := 1 + r.IntN(6); n > 0; n-- {
			p := players[k]
			pause = func() { p.yield(struct{}{}) }
			if _, more := p.next(); !more {
				players = slices.Delete(players, k, k+1)
				break
			}
		}
	}
}

// free plays them as goroutines.
func (w *linearRun) free(script []linearEvent, asks int, seed uint64, hook func(write, read func())) {
	var turns atomic.Uint64
	yield := func() {
		if turns.Add(1)%7 == seed%7 {
			runtime.Gosched()
		}
	}
	hook(yield, yield)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range w.answers {
		rd, own := w.index.NewReader(), rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			<-begin
			for range asks {
				w.ask(i, rd, own)
			}
		})
	}
	close(begin)
	for _, e := range script {
		w.write(e)
		runtime.Gosched()
	}
	all.Wait()
}

// judge looks for one order of all calls about each holder and view, and
// describes the first history that has none.
func (w *linearRun) judge(shards int) (why string, overlapping int) {
	model := linearModel(shards)
	for k := range w.hs {
		for v := range tree.NumViews {
			history := slices.Clone(w.writes[k])
			for i, list := range w.answers {
				for _, a := range list {
					history = append(history, porcupine.Operation{ClientId: 1 + i, Call: a.call, Return: a.ret,
						Input: linearInput{kind: linearAsk, query: uint8(a.query), view: v}, Output: a.units[k][v]})
				}
			}
			if porcupine.CheckOperations(model, history) {
				continue
			}
			slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
			var b strings.Builder
			fmt.Fprintf(&b, "no order explains holder %d in view %d (kinds: add, lose, clear, hide, show, ask):\n", k, v)
			for _, o := range history {
				fmt.Fprintf(&b, "%d–%d by %d: %+v → %v\n", o.Call, o.Return, o.ClientId, o.Input, o.Output)
			}
			return b.String(), 0
		}
	}
	for k := range w.hs {
		for _, list := range w.answers {
			for _, a := range list {
				if slices.ContainsFunc(w.writes[k], func(o porcupine.Operation) bool { return o.Call < a.ret && a.call < o.Return }) {
					overlapping++
				}
			}
		}
	}
	return "", overlapping
}

// linear plays and judges one history, made from a seed.
func linear(newIndex func() (tree.Interface, func(write, read func())), p linearProfile, seed uint64, scheduled bool) (why string, overlapping int) {
	r := rand.New(rand.NewPCG(seed, uint64(len(p.name))))
	ix, hook := newIndex()
	w := newLinearRun(ix, p, 2+r.IntN(2))
	script := linearScript(p, r, 14)
	if scheduled {
		w.scheduled(script, 10, r, hook)
	} else {
		w.free(script, 10, seed, hook)
	}
	return w.judge(p.shards)
}

func linearIndex() (tree.Interface, func(write, read func())) {
	x := tree.New(tree.Options{Seed: 1})
	return x, x.Hook
}

// TestLinearizable plays small histories on the index, by a schedule and at
// full speed, and has each checked.
func TestLinearizable(t *testing.T) {
	histories := 150
	if raceDetector || testing.Short() {
		histories = 25
	}
	for _, p := range linearProfiles {
		for _, mode := range []string{"scheduled", "free"} {
			t.Run(p.name+"/"+mode, func(t *testing.T) {
				overlapping := 0
				for seed := range uint64(histories) {
					why, n := linear(linearIndex, p, seed, mode == "scheduled")
					if why != "" {
						t.Fatalf("seed %d: %s", seed, why)
					}
					overlapping += n
				}
				t.Logf("%d histories, %d answers met a writer's call", histories, overlapping)
				if overlapping == 0 && mode == "scheduled" {
					t.Error("no answer met a call of the writer")
				}
			})
		}
	}
}

// linearMutant is an index with one thing wrong that no single answer shows.
type linearMutant struct {
	*tree.Index
	pause  func()
	others []*tree.Index // each reader has an index of its own
	given  int
	clear  bool // a clear takes one block after another
	stale  bool // a reader repeats itself now and then
}

func (m *linearMutant) all(f func(x *tree.Index)) {
	f(m.Index)
	for _, x := range m.others {
		m.pause()
		f(x)
	}
}

func (m *linearMutant) AddHolder(p tree.Policy, n int) (h tree.Holder, err error) {
	for _, x := range m.others {
		if _, err := x.AddHolder(p, n); err != nil {
			return 0, err
		}
	}
	return m.Index.AddHolder(p, n) // the same in all: they are made alike
}

func (m *linearMutant) Store(o tree.Owner, s *tree.Store) (out tree.Outcome) {
	m.all(func(x *tree.Index) { out = x.Store(o, s) })
	return out
}

func (m *linearMutant) Remove(o tree.Owner, names []uint64) (out tree.Outcome) {
	m.all(func(x *tree.Index) { out = x.Remove(o, names) })
	return out
}

func (m *linearMutant) Clear(h tree.Holder) {
	if !m.clear {
		m.all(func(x *tree.Index) { x.Clear(h) })
		return
	}
	for b := 11; b >= 0; b-- { // leaves first
		m.Index.Remove(tree.Owner{Holder: h}, []uint64{uint64(b + 1)})
	}
}

func (m *linearMutant) Hide(h tree.Holder) { m.all(func(x *tree.Index) { x.Hide(h) }) }
func (m *linearMutant) Show(h tree.Holder) { m.all(func(x *tree.Index) { x.Show(h) }) }

func (m *linearMutant) NewReader() tree.Reader {
	x := m.Index
	if len(m.others) > 0 {
		x = append([]*tree.Index{m.Index}, m.others...)[m.given%(1+len(m.others))]
	}
	m.given++
	return &linearMutantReader{Reader: x.NewReader(), stale: m.stale, last: map[int][]tree.Depths{}}
}

type linearMutantReader struct {
	tree.Reader
	stale bool
	asked int
	last  map[int][]tree.Depths
}

func (r *linearMutantReader) Match(root tree.Root, contents []uint64) []tree.Depths {
	key := int(contents[len(contents)-1])
	if r.asked++; r.stale && r.asked%3 == 0 {
		if a, ok := r.last[key]; ok {
			return a
		}
	}
	r.last[key] = slices.Clone(r.Reader.Match(root, contents))
	return r.last[key]
}

// TestLinearizabilityCheckerCatches shows that the checker is one: each of these
// gives answers that were true at some instant of their calls, or nearly.
func TestLinearizabilityCheckerCatches(t *testing.T) {
	for _, c := range []struct {
		name, profile string
		replicas      int
		clear, stale  bool
	}{
		{"each reader hears of a change at another time", "one by one", 2, false, false},
		{"a clear takes one block after another", "clears", 0, true, false},
		{"a reader repeats what it said before", "events", 0, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := slices.IndexFunc(linearProfiles, func(p linearProfile) bool { return p.name == c.profile })
			broken := func() (tree.Interface, func(write, read func())) {
				m := &linearMutant{Index: tree.New(tree.Options{Seed: 1}), clear: c.clear, stale: c.stale}
				for range c.replicas {
					m.others = append(m.others, tree.New(tree.Options{Seed: 1}))
				}
				return m, func(write, read func()) {
					m.pause = write
					m.Hook(write, read)
					for _, x := range m.others {
						x.Hook(write, read)
					}
				}
			}
			for seed := range uint64(200) {
				if why, _ := linear(broken, linearProfiles[i], seed, true); why != "" {
					t.Logf("seed %d: %s", seed, why)
					return
				}
			}
			t.Error("200 histories were found in order")
		})
	}
}
