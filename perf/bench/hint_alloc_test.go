//go:build !race

package bench

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// TestHintUnderFire: with all publishers at full speed, match and hint answer
// rightly, and allocate nothing, which is told by the stacks of all that is
// allocated in the process.
func TestHintUnderFire(t *testing.T) {
	p := newHintPool(t, func() tree.Interface { return tree.New(tree.Options{}) })
	var a router
	for range 10 {
		if err := a.route(p, false); err != nil {
			t.Fatal(err)
		}
	}
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	before := allocatedBy(t)
	p.open()
	seqs := map[uint64]bool{}
	for from := time.Now(); time.Since(from) < hintTime || len(seqs) < 2 && time.Since(from) < 20*time.Second; {
		if err := a.route(p, false); err != nil {
			t.Fatal(err)
		}
		seqs[a.hint.Applied[1]] = true
	}
	p.cease()
	after := allocatedBy(t)
	if after["asked"] != before["asked"] {
		t.Errorf("match and hint allocated %d objects", after["asked"]-before["asked"])
	}
	if after["published"] == before["published"] {
		t.Error("the publishers allocated nothing: allocations are not told")
	}
	if len(seqs) < 2 {
		t.Errorf("all hints rest on one sequence: nothing was published beside them")
	}
	t.Logf("%d asked, %d missed", a.asked, a.missed)
	if a.missed > 5+a.asked/50 {
		t.Errorf("%d of %d hints missed: few may be", a.missed, a.asked)
	}
	p.settle()
	if missed := a.missed; a.route(p, false) != nil || a.missed != missed || len(a.hint.Names) != hintBlocks {
		t.Errorf("with publishers quiet: %d missed, %d names", a.missed-missed, len(a.hint.Names))
	}
}

// allocatedBy counts objects by who allocated them: queries, publishers.
func allocatedBy(t *testing.T) map[string]int64 {
	t.Helper()
	runtime.GC() // the profile is as of the last two
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 1<<12)
	n, ok := runtime.MemProfile(records, true)
	for !ok {
		records = make([]runtime.MemProfileRecord, n+256)
		n, ok = runtime.MemProfile(records, true)
	}
	by := map[string]int64{}
	for i := range records[:n] {
		frames := runtime.CallersFrames(records[i].Stack())
		for {
			f, more := frames.Next()
			switch {
			case strings.HasSuffix(f.Function, "engine.(*Engine).Route"):
				by["asked"] += records[i].AllocObjects
			case strings.Contains(f.Function, "zmtp.(*Publisher)"):
				by["published"] += records[i].AllocObjects
			}
			if !more {
				break
			}
		}
	}
	return by
}
