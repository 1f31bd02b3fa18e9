package soak_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/perf/soak"
	"github.com/cairn-kv/cairn/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wrong is an index with one thing wrong.
type wrong struct {
	*tree.Index
	n      int
	store  func(w *wrong, o tree.Owner, s *tree.Store) tree.Outcome
	remove func(w *wrong, o tree.Owner, names []uint64) tree.Outcome
	clear  func(w *wrong, h tree.Holder)
	match  func(w *wrong, d []tree.Depths) []tree.Depths
	stats  func(w *wrong, s tree.Stats) tree.Stats
}

func (w *wrong) Store(o tree.Owner, s *tree.Store) tree.Outcome {
	if w.n++; w.store != nil {
		return w.store(w, o, s)
	}
	return w.Index.Store(o, s)
}

func (w *wrong) Remove(o tree.Owner, names []uint64) tree.Outcome {
	if w.n++; w.remove != nil {
		return w.remove(w, o, names)
	}
	return w.Index.Remove(o, names)
}

func (w *wrong) Clear(h tree.Holder) {
	if w.clear != nil {
		w.clear(w, h)
		return
	}
	w.Index.Clear(h)
}

func (w *wrong) Stats() tree.Stats {
	if w.stats != nil {
		return w.stats(w, w.Index.Stats())
	}
	return w.Index.Stats()
}

func (w *wrong) NewReader() tree.Reader { return &wrongReader{Reader: w.Index.NewReader(), w: w} }

type wrongReader struct {
	tree.Reader
	w   *wrong
	own []tree.Depths
}

func (r *wrongReader) Match(root tree.Root, contents []uint64) []tree.Depths {
	d := r.Reader.Match(root, contents)
	if r.w.match != nil {
		r.own = append(r.own[:0], d...)
		return r.w.match(r.w, r.own)
	}
	return d
}

// TestSoakCatches shows that a soak finds what is wrong, and where: at rest,
// beside the writer, after a drain.
func TestSoakCatches(t *testing.T) {
	for _, c := range []struct {
		name, profile, says string
		wreck               func(w *wrong)
	}{
		{"a removal in five hundred is lost", "strict", "", func(w *wrong) {
			w.remove = func(w *wrong, o tree.Owner, names []uint64) tree.Outcome {
				if w.n%500 == 0 {
					names = names[1:]
				}
				return w.Index.Remove(o, names)
			}
		}},
		{"a store in five hundred is lost", "holes", "", func(w *wrong) {
			w.store = func(w *wrong, o tree.Owner, s *tree.Store) tree.Outcome {
				if w.n%500 == 0 {
					return tree.Outcome{}
				}
				return w.Index.Store(o, s)
			}
		}},
		{"a second copy does not count", "copies", "", func(w *wrong) {
			w.remove = func(w *wrong, o tree.Owner, names []uint64) tree.Outcome {
				w.Index.Remove(o, names)
				return w.Index.Remove(o, names)
			}
		}},
		{"a clear leaves other tiers", "chaos", "", func(w *wrong) {
			w.clear = func(*wrong, tree.Holder) {}
		}},
		{"the deepest is one too deep", "many", "", func(w *wrong) {
			w.match = func(_ *wrong, d []tree.Depths) []tree.Depths {
				if len(d) > 0 {
					for v := range d[0].Units {
						d[0].Units[v]++
					}
				}
				return d
			}
		}},
		{"the last is left out", "churn", "", func(w *wrong) {
			w.match = func(_ *wrong, d []tree.Depths) []tree.Depths {
				if len(d) > 3 {
					d = d[:len(d)-1]
				}
				return d
			}
		}},
		{"a holder twice", "strict", "twice", func(w *wrong) {
			w.match = func(_ *wrong, d []tree.Depths) []tree.Depths {
				if len(d) > 0 {
					d = append(d, d[len(d)-1])
				}
				return d
			}
		}},
		{"something is left", "adversarial", "after a drain", func(w *wrong) {
			w.stats = func(_ *wrong, s tree.Stats) tree.Stats {
				if s.Residencies == 0 {
					s.Names = 1
				}
				return s
			}
		}},
		{"memory grows from drain to drain", "shards", "after the fourth", func(w *wrong) {
			w.stats = func(w *wrong, s tree.Stats) tree.Stats {
				s.Bytes += 400 * w.n
				return s
			}
		}},
		{"a byte too many", "budget", "the budget is", func(w *wrong) {
			w.stats = func(w *wrong, s tree.Stats) tree.Stats {
				if w.n > 500 {
					s.Bytes = s.Budget + 1
				}
				return s
			}
		}},
		{"one of all loses what all should", "budget", "want equally much", func(w *wrong) {
			victim := tree.Holder(0)
			w.store = func(w *wrong, o tree.Owner, s *tree.Store) tree.Outcome {
				if victim == 0 {
					victim = o.Holder
				}
				if o.Holder == victim && w.n%4 > 0 && w.Index.Stats().Evicted > 0 {
					return tree.Outcome{}
				}
				return w.Index.Store(o, s)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ok := soak.Named(c.profile)
			if !ok {
				t.Fatalf("no profile %s", c.profile)
			}
			if p.Clear > 0 {
				p.Clear = .01
			}
			rep, err := soak.Run(soak.Options{Profile: p, Seed: 7, BlockOps: 120_000, Cycle: 8000,
				New: func(o tree.Options) tree.Interface {
					w := &wrong{Index: tree.New(o)}
					c.wreck(w)
					return w
				}})
			if err == nil || rep.Wrong == "" || !strings.Contains(err.Error(), "seed 7") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, report %+v, want one that says %q", err, rep, c.says)
			}
		})
	}
}

func TestReports(t *testing.T) {
	p, _ := soak.Named("strict")
	rep, err := soak.Run(soak.Options{Profile: p, Seed: 3, BlockOps: 5000, Cycle: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Stored == 0 || rep.Removed != rep.Stored && rep.Clears == 0 && rep.Drains == 1 || rep.Drains < 3 || rep.Judged == 0 || rep.Compared == 0 {
		t.Errorf("report %+v", *rep)
	}
	var j, m bytes.Buffer
	if err := soak.WriteJSON(&j, []*soak.Report{rep, rep}); err != nil {
		t.Fatal(err)
	}
	var back soak.Report
	if err := json.NewDecoder(&j).Decode(&back); err != nil || back.Seed != 3 || back.Stored != rep.Stored {
		t.Errorf("read back %+v, error %v", back, err)
	}
	if err := soak.WriteMarkdown(&m, []*soak.Report{rep}); err != nil || strings.Count(m.String(), "\n") != 3 || !strings.Contains(m.String(), "| strict | 3 |") {
		t.Errorf("table %q, error %v", m.String(), err)
	}
}

// TestSoakIsSeeded: the writer's events are the seed's, whatever readers do.
func TestSoakIsSeeded(t *testing.T) {
	p, _ := soak.Named("own-names")
	var stored []int64
	for range 2 {
		rep, err := soak.Run(soak.Options{Profile: p, Seed: 5, BlockOps: 6000, Cycle: 2000})
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, rep.Stored, rep.Removed, rep.Events)
	}
	if stored[0] != stored[3] || stored[1] != stored[4] || stored[2] != stored[5] {
		t.Errorf("one seed, two soaks: %v", stored)
	}
}
