package tree_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

// TestRace asks at full speed while the writer works at full speed: every
// figure must be the truth at some instant of its call.
func TestRace(t *testing.T) {
	o := differ.RaceOptions{Ops: 3000, Cycles: 6, Readers: 2, Queries: 12}
	if raceDetector || testing.Short() {
		o.Ops, o.Cycles = 600, 3
	}
	for _, p := range differ.RaceProfiles() {
		for _, during := range []struct {
			name string
			do   func()
		}{{"full-speed", nil}, {"yielding", runtime.Gosched}} {
			t.Run(fmt.Sprintf("%s/%s", p.Name, during.name), func(t *testing.T) {
				o := o
				o.During = during.do
				if p.Name == "race-long" {
					o.Ops /= 6
				}
				o.AfterCycle = drained
				f := differ.Race(t, newIndex, p, 1, o)
				t.Logf("%d answers, %d with ops under way, %d names, %.2f s", f.Answers, f.Overlapping, f.Names, f.Seconds)
				if f.Answers == 0 || f.Overlapping == 0 {
					t.Error("the readers did not meet the writer")
				}
			})
		}
	}
}

// drained says what an index without holders still has.
func drained(ix tree.Interface) error {
	for ix.Step() {
	}
	st := ix.Stats()
	if st.Holders != 0 || st.Residencies != 0 || st.Waiting != 0 || st.Runs != 0 || st.Names != 0 || st.Links != 0 || st.Deferred != 0 {
		return fmt.Errorf("after a cycle something is left: %+v", st)
	}
	return invariants(ix)
}
