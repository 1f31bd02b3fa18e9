package tree_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/perf/soak"
	"github.com/cairn-kv/cairn/tree"
)

// TestSoak soaks the index in every profile: a moment in a test run; with
// CAIRN_SOAK=60s for so long altogether; with CAIRN_SOAK=1e8 until so many
// blocks have been stored and removed in each. CAIRN_SOAK_SEED repeats a seed,
// CAIRN_SOAK_PROFILE takes one profile, CAIRN_SOAK_REPORT names a folder for
// soak.jsonl and soak.md. See make soak.
func TestSoak(t *testing.T) {
	o := soak.Options{
		BlockOps: 60_000, Cycle: 15_000,
		New:   func(o tree.Options) tree.Interface { return tree.New(o) },
		Check: invariants,
		Hook:  func(ix tree.Interface, between func()) { ix.(*tree.Index).Hook(between, nil) },
		Seed:  1,
	}
	profiles := soak.Profiles()
	if name := os.Getenv("CAIRN_SOAK_PROFILE"); name != "" {
		p, ok := soak.Named(name)
		if !ok {
			t.Fatalf("CAIRN_SOAK_PROFILE is %q, which is no profile", name)
		}
		profiles = []soak.Profile{p}
	}
	if long := os.Getenv("CAIRN_SOAK"); long != "" {
		o.Seed = uint64(time.Now().UnixNano())
		o.BlockOps, o.Cycle = 0, 0
		if d, err := time.ParseDuration(long); err == nil {
			o.For, o.Cycle = d/time.Duration(len(profiles)), 100_000
		} else if n, err := strconv.ParseFloat(long, 64); err == nil && n >= 1 {
			o.BlockOps, o.Cycle = int64(n), max(15_000, int64(n)/64)
		} else {
			t.Fatalf("CAIRN_SOAK is %q, want a duration like 60s or a number of blocks like 1e8", long)
		}
	} else if raceDetector || testing.Short() {
		o.BlockOps, o.Cycle = 12_000, 4000
	}
	if s := os.Getenv("CAIRN_SOAK_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("CAIRN_SOAK_SEED: %v", err)
		}
		o.Seed = seed
	}
	var reports []*soak.Report
	for _, p := range profiles {
		t.Run(p.Name, func(t *testing.T) {
			o := o
			o.Profile = p
			if o.Seed%2 == 0 {
				o.Pool = colliding(o.Seed)
			}
			rep, err := soak.Run(o)
			reports = append(reports, rep)
			t.Logf("seed %d: %+v", o.Seed, *rep)
			if err != nil {
				t.Error(err)
			}
			if rep.Judged == 0 || rep.Compared == 0 || rep.Drains == 0 {
				t.Errorf("nothing was judged: %+v", *rep)
			}
		})
	}
	if dir := os.Getenv("CAIRN_SOAK_REPORT"); dir != "" {
		writeReports(t, dir, reports)
	}
}

// TestSoaksOnceUnfair repeats soaks after which a holder had a sixth less than the
// others: its table of own names could not grow, while memory of other kinds lay
// about in arenas.
func TestSoaksOnceUnfair(t *testing.T) {
	if raceDetector || testing.Short() {
		t.Skip("it takes millions of blocks until shares come apart")
	}
	p, ok := soak.Named("budget-tiers")
	if !ok || p.Unfair != .05 {
		t.Fatalf("the bound of profile budget-tiers is %v", p.Unfair)
	}
	for _, seed := range []uint64{117, 125} {
		rep, err := soak.Run(soak.Options{Profile: p, Seed: seed, BlockOps: 4_000_000, Cycle: 100_000, Readers: -1})
		t.Logf("seed %d: shares of %d to %d, %d evicted, %d refused", seed, rep.Least, rep.Most, rep.Evicted, rep.Refused)
		if err != nil {
			t.Error(err)
		}
		if rep.Least == 0 {
			t.Errorf("seed %d: shares were never compared", seed)
		}
		if rep.Refused*20 > rep.Evicted {
			t.Errorf("seed %d: %d blocks were refused, %d evicted", seed, rep.Refused, rep.Evicted)
		}
	}
}

// colliding makes names that all meet in one place of the name table of an
// index with a seed: what nobody can aim at who does not know it.
func colliding(seed uint64) func(i int) uint64 {
	x, next := tree.New(tree.Options{Seed: seed}), uint64(0)
	const same = (1<<18 - 1) << 46 // the segment, and home in it
	want := x.NameHash(1) & same
	return func(int) uint64 {
		for {
			if next++; x.NameHash(next)&same == want {
				return next
			}
		}
	}
}

func writeReports(t *testing.T, dir string, reports []*soak.Report) {
	t.Helper()
	for name, write := range map[string]func(*os.File) error{
		"soak.jsonl": func(f *os.File) error { return soak.WriteJSON(f, reports) },
		"soak.md":    func(f *os.File) error { return soak.WriteMarkdown(f, reports) },
	} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := write(f); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
