package tree_test

import (
	"bufio"
	"bytes"
	"os"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

// TestTraces plays every trace of the shared cases on the index, twice, and on
// one of three shards; all sources are dropped behind each, and nothing is left.
func TestTraces(t *testing.T) {
	file, err := os.ReadFile("model/testdata/index.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	one, three, traces := newIndex(), newShards(), 0
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); traces++ {
		for _, ix := range []tree.Interface{one, one, three} {
			if err := differ.RunTrace(ix, lines.Bytes()); err != nil {
				t.Errorf("%T: %v", ix, err)
			}
			for ix.Step() {
			}
		}
		if err := drained(one); err != nil {
			t.Error(err)
		}
	}
	if traces != 21 {
		t.Errorf("%d traces, want 21", traces)
	}
}
