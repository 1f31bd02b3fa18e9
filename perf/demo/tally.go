package demo

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/perf/fleet"
)

// maxExamples is how many false answers are told in full.
const maxExamples = 5

// tally counts what the drivers and judges see. All of it may be read while
// it grows.
type tally struct {
	requests atomic.Uint64
	matches  atomic.Uint64
	tokens   atomic.Uint64 // of prompts
	deepest  atomic.Uint64 // sum of the deepest holder's tokens

	figures  [fleet.Whole + 1]atomic.Uint64 // judged depths by how they agree
	answers  atomic.Uint64                  // holders judged
	spanning atomic.Uint64                  // of them, whose interval spans several sequences
	absent   atomic.Uint64                  // holders left out, judged
	bounds   atomic.Uint64                  // judged by bounds only
	unjudged atomic.Uint64                  // interval older than what is remembered
	withheld atomic.Uint64                  // holders whose depths were withheld

	hints        atomic.Uint64
	hintSpanning atomic.Uint64 // of them, whose source's interval spans several sequences
	cut          atomic.Uint64 // of them, that name fewer blocks than the source ever held
	missed       atomic.Uint64 // no_longer_source, though somebody held more all the time
	blocks       atomic.Uint64 // named by hints
	reasons      [hint.NumReasons]atomic.Uint64
	details      [hint.NumDetails]atomic.Uint64
	domains      [2]atomic.Uint64 // of hints' sources
	fetched      atomic.Uint64    // tokens that fetches would have restored
	refused      atomic.Uint64    // tokens that had gone when the fetch would have come
	named        []atomic.Uint64  // hints by source, in the court's order of streams

	rest atomic.Uint64 // answers checked to the block at the end

	latency histogram

	falses   atomic.Uint64
	mu       sync.Mutex
	examples []string
}

// refute counts a false answer and keeps the first few.
func (t *tally) refute(format string, args ...any) {
	t.falses.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.examples) < maxExamples {
		t.examples = append(t.examples, fmt.Sprintf(format, args...))
	}
}

func (t *tally) told() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.examples...)
}

// histogram counts durations in buckets an eighth of an octave wide.
type histogram struct {
	buckets [64 * 8]atomic.Uint64
}

func (h *histogram) add(d time.Duration) {
	n := uint64(max(d, 8))
	top := bits.Len64(n) - 4
	h.buckets[top*8+int(n>>top&7)].Add(1)
}

// quantile returns the upper edge of the bucket where a share of all lies.
func (h *histogram) quantile(share float64) time.Duration {
	var total uint64
	for i := range h.buckets {
		total += h.buckets[i].Load()
	}
	want, sum := uint64(share*float64(total)), uint64(0)
	for i := range h.buckets {
		if sum += h.buckets[i].Load(); sum > want {
			return time.Duration(uint64(i%8+9) << (i / 8))
		}
	}
	return 0
}
