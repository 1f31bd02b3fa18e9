package differ_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

func newModel() tree.Interface { return model.New() }

func TestModelAgreesWithItself(t *testing.T) {
	for _, p := range differ.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			n := 600
			if p.Name == "many" || p.Name == "long" {
				n = 150
			}
			f := differ.Run(t, newModel, p, 1, n, differ.Options{})
			if f.Queries < n/10 || f.NamesGiven == 0 || f.NamesGiven != f.NamesHeld {
				t.Errorf("figures %+v", f)
			}
		})
	}
}

func TestGenerateIsSeeded(t *testing.T) {
	p, ok := differ.ProfileNamed("mixed")
	if !ok {
		t.Fatal("no profile mixed")
	}
	a, b := differ.Generate(p, 3, 200), differ.Generate(p, 3, 200)
	if differ.Text(a) != differ.Text(b) {
		t.Error("one seed gave two lists")
	}
	if differ.Text(a) == differ.Text(differ.Generate(p, 4, 200)) {
		t.Error("two seeds gave one list")
	}
}

// TestGenerateCovers holds the generator to what a differential test needs:
// events that really change residencies, waiting blocks that attach, moves.
func TestGenerateCovers(t *testing.T) {
	var sum tree.Outcome
	reasons := map[tree.Reason]int{}
	for _, p := range differ.Profiles() {
		if p.Name == "long" || p.Name == "many" {
			continue
		}
		count := func() tree.Interface { return &counting{Model: model.New(), sum: &sum, reasons: reasons} }
		if _, fail := differ.Replay(count, differ.Generate(p, 1, 500), differ.Options{}); fail != nil {
			t.Fatal(fail)
		}
	}
	t.Logf("%+v %v", sum, reasons)
	for name, n := range map[string]int{"New": sum.New, "Known": sum.Known, "Waiting": sum.Waiting, "Removed": sum.Removed, "Unknown": sum.Unknown, "Moved": sum.Moved} {
		if n < 100 {
			t.Errorf("%s happens %d times only", name, n)
		}
	}
	for _, r := range []tree.Reason{tree.SelfParent, tree.DuplicateName, tree.BadOwner, tree.BadShape} {
		if reasons[r] == 0 {
			t.Errorf("reason %d never happens", r)
		}
	}
}

type counting struct {
	*model.Model
	sum     *tree.Outcome
	reasons map[tree.Reason]int
}

func (c *counting) note(o tree.Outcome) tree.Outcome {
	c.sum.New += o.New
	c.sum.Known += o.Known
	c.sum.Waiting += o.Waiting
	c.sum.Removed += o.Removed
	c.sum.Unknown += o.Unknown
	c.sum.Moved += o.Moved
	c.reasons[o.Reason]++
	return o
}

func (c *counting) Store(o tree.Owner, s *tree.Store) tree.Outcome {
	return c.note(c.Model.Store(o, s))
}
func (c *counting) Place(o tree.Owner, n []uint64) tree.Outcome  { return c.note(c.Model.Place(o, n)) }
func (c *counting) Remove(o tree.Owner, n []uint64) tree.Outcome { return c.note(c.Model.Remove(o, n)) }

// mutant is a model with one thing wrong.
type mutant struct {
	*model.Model
	addHolder func(tree.Policy, int) (tree.Holder, error)
	store     func(tree.Owner, *tree.Store) tree.Outcome
	place     func(tree.Owner, []uint64) tree.Outcome
	remove    func(tree.Owner, []uint64) tree.Outcome
	clear     func(tree.Holder)
	hide      func(tree.Holder)
	step      func() bool
	stats     func(tree.Stats) tree.Stats
	match     func([]tree.Depths) []tree.Depths
	names     func([]uint64) []uint64
}

func (m *mutant) AddHolder(p tree.Policy, n int) (tree.Holder, error) {
	if m.addHolder != nil {
		return m.addHolder(p, n)
	}
	return m.Model.AddHolder(p, n)
}
func (m *mutant) Store(o tree.Owner, s *tree.Store) tree.Outcome {
	if m.store != nil {
		return m.store(o, s)
	}
	return m.Model.Store(o, s)
}
func (m *mutant) Place(o tree.Owner, n []uint64) tree.Outcome {
	if m.place != nil {
		return m.place(o, n)
	}
	return m.Model.Place(o, n)
}
func (m *mutant) Remove(o tree.Owner, n []uint64) tree.Outcome {
	if m.remove != nil {
		return m.remove(o, n)
	}
	return m.Model.Remove(o, n)
}
func (m *mutant) Clear(h tree.Holder) {
	if m.clear != nil {
		m.clear(h)
		return
	}
	m.Model.Clear(h)
}
func (m *mutant) Hide(h tree.Holder) {
	if m.hide != nil {
		m.hide(h)
		return
	}
	m.Model.Hide(h)
}
func (m *mutant) Step() bool { return m.step != nil && m.step() }
func (m *mutant) Stats() tree.Stats {
	if m.stats != nil {
		return m.stats(m.Model.Stats())
	}
	return m.Model.Stats()
}
func (m *mutant) NewReader() tree.Reader { return &mutantReader{m.Model.NewReader(), m} }

type mutantReader struct {
	tree.Reader
	m *mutant
}

func (r *mutantReader) Match(root tree.Root, contents []uint64) []tree.Depths {
	a := r.Reader.Match(root, contents)
	if r.m.match != nil {
		a = r.m.match(slices.Clone(a))
	}
	return a
}
func (r *mutantReader) Names(dst []uint64, h tree.Holder, v tree.View, depth int) []uint64 {
	n := len(dst)
	dst = r.Reader.Names(dst, h, v, depth)
	if r.m.names != nil {
		dst = append(dst[:n:n], r.m.names(dst[n:])...)
	}
	return dst
}

// mutants are wrong indexes, by what is wrong, each with a profile that must
// find it and how many ops its shortest proof may have.
var mutants = []struct {
	name    string
	profile string
	most    int
	wreck   func(*mutant)
}{
	{"a removal is lost", "leaf-first", 6, func(m *mutant) {
		m.remove = func(o tree.Owner, names []uint64) tree.Outcome {
			if len(names) == 2 {
				names = names[1:]
			}
			return m.Model.Remove(o, names)
		}
	}},
	{"copies do not count", "holes", 5, func(m *mutant) {
		m.addHolder = func(_ tree.Policy, n int) (tree.Holder, error) { return m.Model.AddHolder(tree.Set, n) }
	}},
	{"sets count", "holes", 5, func(m *mutant) {
		m.addHolder = func(_ tree.Policy, n int) (tree.Holder, error) { return m.Model.AddHolder(tree.Copies, n) }
	}},
	{"a remove takes the children along", "holes", 5, func(m *mutant) {
		children := map[uint64][]uint64{}
		m.store = func(o tree.Owner, s *tree.Store) tree.Outcome {
			for i := 0; s.Span > 0 && i+1+s.Span < len(s.Pairs); i += 1 + s.Span {
				children[s.Pairs[i]] = append(children[s.Pairs[i]], s.Pairs[i+1+s.Span])
			}
			return m.Model.Store(o, s)
		}
		m.remove = func(o tree.Owner, names []uint64) tree.Outcome {
			for _, n := range names {
				m.Model.Remove(o, children[n])
			}
			return m.Model.Remove(o, names)
		}
	}},
	{"orphans are roots", "orphans", 4, func(m *mutant) {
		m.store = func(o tree.Owner, s *tree.Store) tree.Outcome {
			known := slices.ContainsFunc(m.Blocks(), func(b model.Block) bool {
				return b.Owner.Holder == o.Holder && b.Name == s.Parent && !b.Waiting
			})
			c := *s
			c.HasParent = s.HasParent && (known || slices.Contains(s.Pairs, s.Parent))
			return m.Model.Store(o, &c)
		}
	}},
	{"a removed orphan comes back", "orphans", 6, func(m *mutant) {
		m.remove = func(o tree.Owner, names []uint64) tree.Outcome {
			waiting := map[uint64]bool{}
			for _, b := range m.Blocks() {
				waiting[b.Name] = waiting[b.Name] || b.Waiting && b.Owner == o
			}
			return m.Model.Remove(o, slices.DeleteFunc(slices.Clone(names), func(n uint64) bool { return waiting[n] }))
		}
	}},
	{"a clear forgets what waits", "orphans", 5, func(m *mutant) {
		m.clear = func(h tree.Holder) {
			for _, b := range m.Blocks() {
				for k := 0; b.Owner.Holder == h && !b.Waiting && k < b.Copies; k++ {
					m.Model.Remove(b.Owner, []uint64{b.Name})
				}
			}
		}
	}},
	{"zero is no name", "reuse", 6, func(m *mutant) {
		m.remove = func(o tree.Owner, names []uint64) tree.Outcome {
			return m.Model.Remove(o, slices.DeleteFunc(slices.Clone(names), func(n uint64) bool { return n == 0 }))
		}
	}},
	{"a placeholder is a store", "tiers", 4, func(m *mutant) {
		m.place = func(o tree.Owner, names []uint64) tree.Outcome {
			for _, n := range names {
				m.Model.Store(o, &tree.Store{Span: 1, Pairs: []uint64{n, 0}, KeepMeaning: true})
			}
			return tree.Outcome{}
		}
	}},
	{"no more than ten holders", "many", 25, func(m *mutant) {
		m.match = func(a []tree.Depths) []tree.Depths { return a[:min(len(a), 10)] }
	}},
	{"the device is any tier", "tiers", 5, func(m *mutant) {
		m.match = func(a []tree.Depths) []tree.Depths {
			for i := range a {
				a[i].Units[tree.ViewDevice] = a[i].Units[tree.ViewAny]
			}
			return a
		}
	}},
	{"the extension is device or host", "tiers", 5, func(m *mutant) {
		m.match = func(a []tree.Depths) []tree.Depths {
			for i := range a {
				a[i].Units[tree.ViewExtension] = a[i].Units[tree.ViewDeviceHost]
			}
			return a
		}
	}},
	{"one TP shard is enough", "tp", 4, func(m *mutant) {
		m.addHolder = func(p tree.Policy, _ int) (tree.Holder, error) { return m.Model.AddHolder(p, 1) }
		m.store = func(o tree.Owner, s *tree.Store) tree.Outcome {
			o.Shard /= tree.MaxShards
			return m.Model.Store(o, s)
		}
	}},
	{"hidden holders answer", "tiers", 5, func(m *mutant) { m.hide = func(tree.Holder) {} }},
	{"a name too many", "holes", 3, func(m *mutant) {
		m.names = func(n []uint64) []uint64 {
			if len(n) > 2 {
				n = append(n, 12345)
			}
			return n
		}
	}},
	{"names leave one out", "holes", 3, func(m *mutant) {
		m.names = func(n []uint64) []uint64 {
			if len(n) > 2 {
				n = append(slices.Clone(n[:1]), n[2:]...)
			}
			return n
		}
	}},
	{"residencies are off by copies", "holes", 4, func(m *mutant) {
		m.stats = func(s tree.Stats) tree.Stats {
			for _, b := range m.Blocks() {
				s.Residencies += b.Copies - 1
			}
			return s
		}
	}},
	{"something is left over", "leaf-first", 1, func(m *mutant) {
		m.stats = func(s tree.Stats) tree.Stats {
			s.Runs = 1
			return s
		}
	}},
	{"a panic", "holes", 3, func(m *mutant) {
		m.remove = func(o tree.Owner, names []uint64) tree.Outcome {
			if len(names) > 3 {
				panic("four names")
			}
			return m.Model.Remove(o, names)
		}
	}},
}

func TestMutantsAreCaught(t *testing.T) {
	for _, mu := range mutants {
		t.Run(strings.ReplaceAll(mu.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			p, ok := differ.ProfileNamed(mu.profile)
			if !ok {
				t.Fatalf("no profile %s", mu.profile)
			}
			wrong := func() tree.Interface {
				m := &mutant{Model: model.New()}
				mu.wreck(m)
				return m
			}
			for seed := uint64(1); seed <= 5; seed++ {
				ops := differ.Generate(p, seed, 200)
				_, fail := differ.Replay(wrong, ops, differ.Options{})
				if fail == nil {
					continue
				}
				small, last := differ.Shrink(wrong, ops, fail, differ.Options{}, 5*time.Minute)
				if _, again := differ.Replay(wrong, small, differ.Options{}); again == nil {
					t.Fatalf("the shrunk list does not fail:\n%s", differ.Text(small))
				}
				if len(small) > mu.most {
					t.Errorf("%d ops are left, want at most %d: %v\n%s", len(small), mu.most, last, differ.Text(small))
				}
				if line, ok := differ.Trace("T1", small); ok {
					if err := differ.RunTrace(model.New(), []byte(line)); err != nil {
						t.Errorf("the model fails its own trace: %v\n%s", err, line)
					}
				}
				return
			}
			t.Error("not caught by 5 seeds")
		})
	}
}

func TestHangIsReported(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	hung := func() tree.Interface {
		m := &mutant{Model: model.New()}
		m.place = func(tree.Owner, []uint64) tree.Outcome {
			<-block
			return tree.Outcome{}
		}
		return m
	}
	ops := []differ.Op{{Kind: differ.Add, Holder: 1, Shards: 1}, {Kind: differ.Place, Holder: 1, Names: []uint64{1}}, {Kind: differ.Query}}
	_, fail := differ.Replay(hung, ops, differ.Options{Hang: 300 * time.Millisecond})
	if fail == nil || !fail.Hung || fail.Op != 1 {
		t.Fatalf("got %v, want a hang at op 1", fail)
	}
	small, _ := differ.Shrink(hung, ops, fail, differ.Options{Hang: 300 * time.Millisecond}, time.Second)
	if len(small) != 2 {
		t.Errorf("%d ops are left, want 2", len(small))
	}
}

func TestTextIsGo(t *testing.T) {
	got := differ.Text([]differ.Op{
		{Kind: differ.Add, Holder: 1, Policy: tree.Set, Shards: 2},
		{Kind: differ.Store, Holder: 1, Shard: 1, Tier: tree.Host, HasParent: true, Parent: 7, Span: 1, Names: []uint64{1, 0}, Contents: []uint64{5, 6}},
		{Kind: differ.Drain},
	})
	want := `[]differ.Op{
	{Kind: differ.Add, Holder: 1, Policy: 1, Shards: 2},
	{Kind: differ.Store, Holder: 1, Tier: 1, Shard: 1, HasParent: true, Parent: 7, Span: 1, Names: []uint64{1, 0}, Contents: []uint64{5, 6}},
	{Kind: differ.Drain},
}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// recorder is a testing.TB that notes failures instead of failing.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	errors []string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) FailNow()            { runtime.Goexit() }
func (r *recorder) Errorf(format string, v ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, v...))
}

func TestRaceAcceptsTheModel(t *testing.T) {
	for _, p := range differ.RaceProfiles() {
		t.Run(p.Name, func(t *testing.T) {
			o := differ.RaceOptions{Ops: 400, Cycles: 2, Queries: 8}
			f := differ.Race(t, newModel, p, 1, o)
			t.Logf("%+v", f)
			if f.Answers == 0 {
				t.Error("nothing was asked")
			}
		})
	}
}

// torn is a model whose readers see single events, clears and moves half done,
// or hear of them late.
type torn struct {
	*model.Model
	clears bool
	late   bool
	ahead  bool
	alone  atomic.Int64 // readers; one alone is served well
	// turn is offered by the writer between two ops and taken by a reader that
	// answers wrongly: so that they meet, and few ops lie between, however
	// slow either of them is.
	turn chan struct{}
}

// offer waits for a reader to answer wrongly, but not for one that is gone.
func (x *torn) offer() {
	select {
	case x.turn <- struct{}{}:
	case <-time.After(10 * time.Millisecond):
	}
}

// taken reports whether the writer stands between two ops, and lets it go on.
func (x *torn) taken() bool {
	select {
	case <-x.turn:
		return true
	default:
		return false
	}
}

func (x *torn) Clear(h tree.Holder) {
	if !x.clears {
		x.Model.Clear(h)
		return
	}
	for i, b := range x.Blocks() {
		if b.Owner.Holder == h {
			x.Model.Remove(b.Owner, []uint64{b.Name})
		}
		if i%3 == 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
	x.Model.Clear(h)
}

func (x *torn) NewReader() tree.Reader {
	x.alone.Add(1)
	return &tornReader{Reader: x.Model.NewReader(), x: x}
}

type tornReader struct {
	tree.Reader
	x *torn
}

func (r *tornReader) Match(root tree.Root, contents []uint64) []tree.Depths {
	a := r.Reader.Match(root, contents)
	switch {
	case r.x.alone.Load() == 1:
	case r.x.late && len(a) > 0 && r.x.taken(): // an answer of before, as if a walk had mixed two instants
		b := slices.Clone(a)
		a = r.Reader.Match(root, contents)
		for i := range a {
			for j := range b {
				if a[i].Holder == b[j].Holder {
					for v := range a[i].Units {
						a[i].Units[v] = max(a[i].Units[v], b[j].Units[v]) + 1
					}
				}
			}
		}
	case r.x.ahead && len(a) > 1 && r.x.taken():
		a = a[:len(a)-1]
	}
	return a
}

func TestRaceCatches(t *testing.T) {
	for _, c := range []struct {
		name, profile       string
		clears, late, ahead bool
	}{
		{"a clear seen half", "race-clears", true, false, false},
		{"a depth nobody had", "race-holes", false, true, false},
		{"a holder left out", "race-holes", false, false, true},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			for _, p := range differ.RaceProfiles() {
				if p.Name != c.profile {
					continue
				}
				rec := &recorder{TB: t}
				turn := make(chan struct{})
				newIndex := func() tree.Interface {
					return &torn{Model: model.New(), clears: c.clears, late: c.late, ahead: c.ahead, turn: turn}
				}
				o := differ.RaceOptions{Ops: 500, Cycles: 4, Queries: 6}
				if ops := 0; c.late || c.ahead {
					o.During = func() {
						if ops++; ops%10 == 0 {
							(&torn{turn: turn}).offer()
						}
					}
				}
				for seed := uint64(1); seed < 20 && len(rec.errors) == 0; seed++ {
					done := make(chan struct{})
					go func() { // of its own, so that FailNow may end it
						defer close(done)
						differ.Race(rec, newIndex, p, seed, o)
					}()
					<-done
				}
				if len(rec.errors) == 0 {
					t.Error("not caught")
				}
			}
		})
	}
}
