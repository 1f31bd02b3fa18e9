package differ

import (
	"slices"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// shrinkTime bounds the search for a smaller list after a failure.
const shrinkTime = 20 * time.Second

// Run generates n ops of a profile, replays them on a fresh index beside the
// model and fails t at the first difference, with the smallest list of ops it
// could find: as Go text for a permanent test and, where the format can say
// it, as a line for cases/index.jsonl.
func Run(t testing.TB, newIndex func() tree.Interface, p Profile, seed uint64, n int, o Options) Figures {
	t.Helper()
	return Must(t, newIndex, Generate(p, seed, n), o, "profile %s, seed %d, %d ops", p.Name, seed, n)
}

// Must replays ops and fails t as Run does. The format and its values say
// where the ops come from.
func Must(t testing.TB, newIndex func() tree.Interface, ops []Op, o Options, format string, values ...any) Figures {
	t.Helper()
	figures, fail := Replay(newIndex, ops, o)
	if fail == nil {
		return figures
	}
	t.Errorf(format+": %v", append(slices.Clone(values), fail)...)
	small, last := Shrink(newIndex, ops, fail, o, shrinkTime)
	t.Logf("%d of %d ops are enough: %v\n%s", len(small), len(ops), last, Text(small))
	if line, ok := Trace("T?", small); ok {
		t.Logf("as a trace:\n%s", line)
	}
	t.FailNow()
	return figures
}
