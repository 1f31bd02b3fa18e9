package corpus

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// small makes a shape small enough for a test, with evictions all the same.
func small(s Shape) Shape {
	trace := s.Trace
	s.Trace = func() []Trace {
		t := trace()
		return t[:min(len(t), 300)]
	}
	s.Requests = 0
	s.Length = min(max(s.Length, 1), 4)
	s.Engines = min(s.Engines, 70)
	s.Capacity = s.Length * max(120, 2400/s.Engines)
	if s.Host > 0 {
		s.Host = s.Capacity
	}
	switch s.Name {
	case "agent":
		s.Engines, s.Capacity = 4, 1300
	case "long-96":
		s.Engines, s.Capacity = 4, 600
	case "turns":
		s.Engines, s.Capacity = 4, 300
	}
	if s.Clears > 0 {
		s.Clears = 3
	}
	return s
}

func write(t *testing.T, s Shape) ([]byte, Totals) {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, s.Header())
	if err != nil {
		t.Fatal(err)
	}
	if err := Simulate(s, w.Add); err != nil {
		t.Fatal(err)
	}
	totals, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), totals
}

func TestShapesReadAsWritten(t *testing.T) {
	for _, s := range Shapes {
		t.Run(s.Name, func(t *testing.T) {
			s := small(s)
			file, totals := write(t, s)
			again, _ := write(t, s)
			if !bytes.Equal(file, again) {
				t.Fatal("the same shape made two different files")
			}
			c, err := Read(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			if c.Totals != totals {
				t.Errorf("read totals %+v, written %+v", c.Totals, totals)
			}
			if c.Header != s.Header() {
				t.Errorf("read header %+v, written %+v", c.Header, s.Header())
			}
			if totals.Queries == 0 || totals.Stores == 0 || totals.Removes == 0 {
				t.Errorf("%+v: something never happens", totals)
			}
			if s.Clears > 0 && totals.Clears == 0 {
				t.Error("no holder is cleared")
			}
			hits, tiers, single, last := 0, 0, 0, map[int]uint64{}
			truth := NewTruth(c.Header)
			for _, o := range c.Ops {
				a, class, err := truth.Play(&o)
				if err != nil {
					t.Fatal(err)
				}
				if o.Kind == Query {
					if a != c.Answers[0] {
						t.Fatalf("answer %+v, written %+v", a, c.Answers[0])
					}
					c.Answers = c.Answers[1:]
					hits += a.Holders
					continue
				}
				if class != o.Class {
					t.Fatalf("class %d, written %d", class, o.Class)
				}
				if o.Tier > 0 {
					tiers++
				}
				if o.Kind == Store && o.Blocks() == 1 {
					single++
				}
				if o.Nanos < last[o.Holder] {
					t.Fatalf("an operation of holder %d at %d ns comes behind one at %d", o.Holder, o.Nanos, last[o.Holder])
				}
				last[o.Holder] = o.Nanos
			}
			if hits == 0 {
				t.Error("no query finds a holder")
			}
			if (tiers > 0) != (s.Host > 0) {
				t.Errorf("%d operations on the host tier with %d blocks there", tiers, s.Host)
			}
			if s.Length > 1 && s.Name != "long-96" && single == 0 {
				t.Error("no store of one block: nothing is generated")
			}
		})
	}
}

// TestFactorsShow makes sure that a factor does something: without it the
// corpus is another one, in the way the factor says.
func TestFactorsShow(t *testing.T) {
	base := small(Shape{Name: "x", Trace: conversation, Engines: 8, Length: 2, Seed: 1})
	_, plain := write(t, base)
	names := func(file []byte) (shared, all int) {
		c, err := Read(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[uint64]int{}
		for _, o := range c.Ops {
			if o.Kind != Store {
				continue
			}
			for i := 0; i < len(o.Words); i += 2 {
				all++
				if h, ok := seen[o.Words[i]]; ok && h != o.Holder {
					shared++
				}
				seen[o.Words[i]] = o.Holder
			}
		}
		return shared, all
	}
	private := base
	private.Private, private.Replicas = true, 2
	file, totals := write(t, private)
	if shared, all := names(file); shared != 0 || all != 2*plain.Stored {
		t.Errorf("private names: %d of %d are shared; want 0 of %d", shared, all, 2*plain.Stored)
	}
	shared := private
	shared.Private = false
	file, sharedTotals := write(t, shared)
	if n, _ := names(file); n < plain.Stored {
		t.Errorf("replicas share %d names; want at least %d", n, plain.Stored)
	}
	totals.Checksum, sharedTotals.Checksum = 0, 0
	if totals != sharedTotals {
		t.Errorf("private names change more than names: %+v, %+v", totals, sharedTotals)
	}
	for name, change := range map[string]func(*Shape){
		"worlds": func(s *Shape) { s.Worlds = 3 },
		"holes":  func(s *Shape) { s.Holes = true },
		"affine": func(s *Shape) { s.Affine = true },
		"seed":   func(s *Shape) { s.Seed = 2 },
	} {
		s := base
		change(&s)
		if _, other := write(t, s); other.Checksum == plain.Checksum {
			t.Errorf("%s makes no difference", name)
		} else if name == "worlds" && other.Queried != 3*plain.Queried {
			t.Errorf("3 worlds ask for %d blocks; want 3 × %d", other.Queried, plain.Queried)
		}
	}
}

// TestReaderRefuses flips every word of a small file, and cuts it everywhere.
func TestReaderRefuses(t *testing.T) {
	s := small(Shape{Name: "x", Trace: conversation, Requests: 4, Engines: 2, Seed: 1})
	s.Requests = 4
	file, _ := write(t, s)
	for at := 0; at < len(file); at += 8 {
		bad := bytes.Clone(file)
		bad[at+at/8%8] ^= 0x10
		if _, err := Read(bytes.NewReader(bad)); err == nil {
			t.Fatalf("byte %d changed, and the file is read all the same", at)
		}
		if _, err := Read(bytes.NewReader(file[:at])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: error %v; want an unexpected end", at, err)
		}
	}
	if _, err := Read(bytes.NewReader(append(bytes.Clone(file), 0))); err == nil {
		t.Error("something behind the trailer is not noticed")
	}
}

func TestTruthRefuses(t *testing.T) {
	h := Header{Holders: 2}
	store := func(holder int, parent uint64, words ...uint64) Op {
		return Op{Kind: Store, Holder: holder, HasParent: parent != 0, Parent: parent, Words: words}
	}
	for _, c := range []struct {
		name string
		ops  []Op // the last one is refused
		want string
	}{
		{"unknown parent", []Op{store(0, 0, 1, 11), store(1, 1, 2, 12)}, "does not hold"},
		{"removed twice", []Op{store(0, 0, 1, 11), {Kind: Remove, Words: []uint64{1, 1}}}, "where it is not"},
		{"stored twice", []Op{store(0, 0, 1, 11), store(0, 0, 1, 11)}, "copies"},
		{"second name", []Op{store(0, 0, 1, 11), store(0, 0, 2, 11)}, "second name"},
		{"second block", []Op{store(0, 0, 1, 11), store(0, 1, 1, 12)}, "second block"},
		{"holder", []Op{store(2, 0, 1, 11)}, "holder 2"},
		{"tier", []Op{{Kind: Remove, Tier: 1}}, "tier 1"},
		{"half a pair", []Op{store(0, 0, 1)}, "pairs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			truth := NewTruth(h)
			for i := range c.ops {
				_, _, err := truth.Play(&c.ops[i])
				if last := i == len(c.ops)-1; last != (err != nil) || last && !strings.Contains(err.Error(), c.want) {
					t.Fatalf("operation %d: error %v; want %q of the last one", i, err, c.want)
				}
			}
		})
	}
}

// TestTruth is a story whose answers are known by heart.
func TestTruth(t *testing.T) {
	truth := NewTruth(Header{Holders: 3, Factors: Tiers})
	play := func(o Op) Answer {
		t.Helper()
		a, _, err := truth.Play(&o)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ask := func(depths [3]int, device [3]int) {
		t.Helper()
		var want Answer
		for h := range depths {
			if d := depths[h]; d > 0 {
				want.Any += Digest(h, d)
				want.Holders++
				want.Deepest = max(want.Deepest, d)
			}
			if d := device[h]; d > 0 {
				want.Device += Digest(h, d)
			}
		}
		if got := play(Op{Kind: Query, Words: []uint64{11, 12, 13}}); got != want {
			t.Errorf("answer %+v; want %+v", got, want)
		}
	}
	ask([3]int{}, [3]int{})
	play(Op{Kind: Store, Holder: 0, Words: []uint64{1, 11, 2, 12, 3, 13, 4, 14}})
	play(Op{Kind: Store, Holder: 1, Words: []uint64{5, 11}})
	play(Op{Kind: Store, Holder: 2, Words: []uint64{6, 99}})
	ask([3]int{3, 1, 0}, [3]int{3, 1, 0})
	play(Op{Kind: Store, Holder: 0, Tier: 1, HasParent: true, Parent: 1, Words: []uint64{2, 12}})
	play(Op{Kind: Remove, Holder: 0, Words: []uint64{2}})
	ask([3]int{3, 1, 0}, [3]int{1, 1, 0})
	play(Op{Kind: Remove, Holder: 0, Tier: 1, Words: []uint64{2}})
	ask([3]int{1, 1, 0}, [3]int{1, 1, 0})
	play(Op{Kind: Store, Holder: 0, HasParent: true, Parent: 1, Words: []uint64{2, 12}})
	ask([3]int{3, 1, 0}, [3]int{3, 1, 0})
	play(Op{Kind: Clear, Holder: 0})
	ask([3]int{0, 1, 0}, [3]int{0, 1, 0})
	if truth.held != 2 {
		t.Errorf("%d memberships; want 2", truth.held)
	}
}

// TestForeign reads a corpus that another program made from the description of
// the format alone, with answers written down by hand.
func TestForeign(t *testing.T) {
	c, err := ReadFile("testdata/foreign.crp")
	if err != nil {
		t.Fatal(err)
	}
	if want := Private | Copies | Holes | Tiers | Clears; c.Header.Name != "foreign" || c.Header.Holders != 3 || c.Header.Factors != want {
		t.Errorf("header %+v", c.Header)
	}
	truth := NewTruth(c.Header)
	asked := 0
	for i := range c.Ops {
		o := &c.Ops[i]
		a, class, err := truth.Play(o)
		if err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
		if class != o.Class {
			t.Errorf("operation %d: class %d; the file says %d", i, class, o.Class)
		}
		if o.Kind == Query {
			if a != c.Answers[asked] {
				t.Errorf("query %d: answer %+v; the file says %+v", asked, a, c.Answers[asked])
			}
			asked++
		}
	}
	if truth.held != c.Totals.Left || truth.peak != c.Totals.Peak {
		t.Errorf("%d memberships at most, %d left; the file says %d and %d", truth.peak, truth.held, c.Totals.Peak, c.Totals.Left)
	}
}
