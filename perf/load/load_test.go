package load

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/perf/corpus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small writes a corpus of a few hundred requests and reads it back.
func small(t *testing.T, change func(*corpus.Shape)) (*corpus.Corpus, string) {
	t.Helper()
	s, err := corpus.Named("conversation-8")
	if err != nil {
		t.Fatal(err)
	}
	s.Requests, s.Capacity = 300, 300
	if change != nil {
		change(&s)
	}
	name := filepath.Join(t.TempDir(), "small.crp")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := corpus.NewWriter(f, s.Header())
	if err != nil {
		t.Fatal(err)
	}
	if err := corpus.Simulate(s, w.Add); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := corpus.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return c, name
}

// TestModes makes every kind of run with both indexes of ours.
func TestModes(t *testing.T) {
	c, _ := small(t, func(s *corpus.Shape) { s.Replicas = 2 })
	want := map[string][]string{
		"closed": {"mixed-ns/block", "store-new-ns/block", "store-known-ns/block", "remove-ns/block", "match-ns", "match-p50-ns"},
		"beside": {"match-p99-ns", "written-Mblocks/s", "matches/s"},
		"open":   {"valid", "kept-up", "took-ms", "answered-p50-ns", "visible-max-ns"},
		"memory": {"bytes/membership"},
		"verify": {"answers"},
	}
	for _, who := range []Contestant{Cairn(), MapTree()} {
		for _, mode := range Modes {
			t.Run(who.Name+"/"+mode, func(t *testing.T) {
				r, err := Run(c, &who, Options{Mode: mode, Window: 50 * time.Millisecond, Enough: 1})
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range want[mode] {
					if v, ok := r.Metrics[name]; !ok || math.IsNaN(v) || v <= 0 && name != "valid" && name != "kept-up" {
						t.Errorf("%s is %v (there: %v)", name, v, ok)
					}
				}
				if w, ok := r.Metrics["wrong"]; ok && w != 0 {
					t.Errorf("%v of %v answers are wrong", w, r.Metrics["answers"])
				}
				var line bytes.Buffer
				if err := r.WriteBench(&line); err != nil {
					t.Fatal(err)
				}
				if f := strings.Fields(line.String()); len(f) != 2+2*len(r.Metrics) || !strings.HasPrefix(f[0], "Benchmark") {
					t.Errorf("benchstat gets %q", line.String())
				}
			})
		}
	}
}

// forgetful is an index that forgets to remove.
type forgetful struct{ Index }

func (f forgetful) Apply(events []corpus.Op) {
	for i := range events {
		if events[i].Kind != corpus.Remove {
			f.Index.Apply(events[i : i+1])
		}
	}
}

// TestVerifyNotices makes sure that wrong answers are counted, sampled or not.
func TestVerifyNotices(t *testing.T) {
	c, _ := small(t, nil)
	who := Cairn()
	sound := who.New
	who.New = func(h corpus.Header) (Index, error) {
		x, err := sound(h)
		return forgetful{x}, err
	}
	for _, every := range []int{0, 3} {
		r, err := Run(c, &who, Options{Mode: "verify", Every: every})
		if err != nil {
			t.Fatal(err)
		}
		if r.Metrics["wrong"] == 0 {
			t.Errorf("every %d: an index that forgets to remove gives %v answers, none wrong", every, r.Metrics["answers"])
		}
		if want := float64(c.Totals.Queries / max(every, 1)); r.Metrics["answers"] != want {
			t.Errorf("every %d: %v answers; want %v", every, r.Metrics["answers"], want)
		}
	}
}

// TestEveryFactor plays the factors that others may not know.
func TestEveryFactor(t *testing.T) {
	for name, change := range map[string]func(*corpus.Shape){
		"tiers":   func(s *corpus.Shape) { s.Host = 300 },
		"copies":  func(s *corpus.Shape) { s.Copies, s.Affine = true, true },
		"clears":  func(s *corpus.Shape) { s.Clears = 7 },
		"private": func(s *corpus.Shape) { s.Private, s.Replicas = true, 3 },
		"holes":   func(s *corpus.Shape) { s.Holes = true },
		"equal":   func(s *corpus.Shape) { s.Equal, s.Length, s.Capacity = true, 4, 1200 },
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := small(t, change)
			for _, who := range []Contestant{Cairn(), MapTree()} {
				r, err := Run(c, &who, Options{Mode: "verify"})
				if err != nil {
					t.Fatal(err)
				}
				if r.Metrics["wrong"] != 0 || r.Metrics["answers"] == 0 {
					t.Errorf("%s: %v of %v answers are wrong", who.Name, r.Metrics["wrong"], r.Metrics["answers"])
				}
			}
			simple := Cairn()
			simple.Factors = 0
			r, err := Run(c, &simple, Options{Mode: "verify"})
			if err != nil {
				t.Fatal(err)
			}
			if skipped := name != "holes" && name != "equal"; skipped != (r.Skipped != "") {
				t.Errorf("a contestant that knows no factors skips for %q", r.Skipped)
			}
		})
	}
}

func TestDrive(t *testing.T) {
	c, name := small(t, nil)
	profile := filepath.Join(t.TempDir(), "cpu")
	var out, errs bytes.Buffer
	if code := Drive(Cairn(), []string{"-mode", "memory", "-cpuprofile", profile, name}, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var r Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	if r.Contestant != "cairn" || r.Corpus != c.Header.Name || r.Metrics["bytes/membership"] < 1 {
		t.Errorf("result %+v", r)
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
		t.Errorf("no profile: %v", err)
	}
	for _, args := range [][]string{{}, {"-mode", "fast", name}, {filepath.Join(t.TempDir(), "none")}, {"-nonsense"}} {
		if code := Drive(Cairn(), args, &out, &errs); code == 0 {
			t.Errorf("%q: exit 0", args)
		}
	}
}

func TestRank(t *testing.T) {
	x := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for q, want := range map[float64]int{0: 1, .1: 1, .11: 2, .5: 5, .51: 6, .99: 10, 1: 10} {
		if got := rank(x, q); got != want {
			t.Errorf("rank %v is %d; want %d", q, got, want)
		}
	}
}

// TestIssueKeepsOrder lets the generator run late and sees that it issues
// everything all the same, queries first at one deadline.
func TestIssueKeepsOrder(t *testing.T) {
	due := func(ms ...int) (l *lane) {
		l = newLane()
		for _, m := range ms {
			l.ops = append(l.ops, corpus.Op{})
			l.deadlines = append(l.deadlines, time.Duration(m)*time.Millisecond)
		}
		return l
	}
	asks, tells := due(0, 1, 1, 2), due(0, 0, 1)
	start := time.Now()
	took := issue(start, asks, tells)
	if took < 2*time.Millisecond {
		t.Errorf("all was issued after %v, before the last deadline", took)
	}
	if asks.issued.Load() != 4 || tells.issued.Load() != 3 || !asks.closed.Load() || !tells.closed.Load() {
		t.Errorf("issued %d and %d; want 4 and 3, and both lanes closed", asks.issued.Load(), tells.issued.Load())
	}
	if n := asks.next(4); n != 4 {
		t.Errorf("next of a closed lane is %d; want 4, its end", n)
	}
}

// TestLaneWakes has a lane park again and again; one wake-up lost, and the test
// hangs.
func TestLaneWakes(t *testing.T) {
	l := newLane()
	const all = 2000
	served := make(chan int)
	go func() {
		i := 0
		for n := l.next(i); n > i; n = l.next(i) {
			i = n
		}
		served <- i
	}()
	for i := range all {
		for n := 0; n < 100 && !l.parked.Load(); n++ {
			runtime.Gosched()
		}
		l.issue(i + 1)
	}
	l.end()
	if n := <-served; n != all {
		t.Errorf("%d operations are served; want %d", n, all)
	}
}

// TestForeignCorpus plays a corpus that another program made.
func TestForeignCorpus(t *testing.T) {
	c, err := corpus.ReadFile("../corpus/testdata/foreign.crp")
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []Contestant{Cairn(), MapTree()} {
		r, err := Run(c, &who, Options{Mode: "verify"})
		if err != nil {
			t.Fatal(err)
		}
		if r.Metrics["wrong"] != 0 || r.Metrics["answers"] != 6 {
			t.Errorf("%s: %v of %v answers are wrong; want none of 6", who.Name, r.Metrics["wrong"], r.Metrics["answers"])
		}
	}
}
