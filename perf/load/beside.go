package load

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/perf/corpus"
)

// near is how many queries around the writer's place a reader draws from.
const near = 64

// batch is how many events the writer applies between two looks at whether all
// of them can be seen.
const batch = 64

// beside has a writer and a reader work beside each other, both at full speed.
// The first half of the corpus warms the index up. Then the writer plays the
// events of the second half, and once it is through, all of them again on
// emptied holders, while the reader asks what is asked near the writer's place.
func beside(c *corpus.Corpus, who *Contestant, o Options) (map[string]float64, error) {
	if !who.Concurrent {
		return nil, nil
	}
	index, err := who.New(c.Header)
	if err != nil {
		return nil, err
	}
	queries, events, at := apart(c)
	if len(queries) == 0 || len(events) == 0 {
		return nil, fmt.Errorf("load: %s has no queries or no events", c.Header.Name)
	}
	warm := len(events) / 2
	index.Apply(events[:warm])
	index.Sync()
	runtime.GC()

	var place atomic.Int64 // event the writer is at
	var stop atomic.Bool
	place.Store(int64(warm))
	var done sync.WaitGroup
	written, from := 0, time.Now()
	done.Go(func() {
		for i := warm; !stop.Load(); {
			if i == len(events) {
				i = 0
				for h := range c.Header.Holders {
					index.Apply([]corpus.Op{{Kind: corpus.Clear, Holder: h}})
				}
			}
			n := min(batch, len(events)-i)
			place.Store(int64(i))
			index.Apply(events[i : i+n])
			index.Sync()
			for k := range events[i : i+n] {
				written += events[i+k].Blocks()
			}
			i += n
		}
	})
	reader := index.Reader()
	random := rand.New(rand.NewPCG(1, 2))
	times := make([]time.Duration, 0, 1<<20)
	for len(times) == 0 || time.Since(from) < o.Window && len(times) < cap(times) {
		q := at[place.Load()] - random.IntN(near)
		op := queries[min(max(q, 0), len(queries)-1) : 1+min(max(q, 0), len(queries)-1)]
		touch(op)
		asked := time.Now()
		reader.Match(op[0].Words)
		times = append(times, time.Since(asked))
	}
	took := time.Since(from)
	stop.Store(true)
	done.Wait()
	m := map[string]float64{
		"written-Mblocks/s": float64(written) / 1e6 / took.Seconds(),
		"matches/s":         float64(len(times)) / took.Seconds(),
	}
	latencies(m, "match", times)
	return m, nil
}

// apart gives queries and events by themselves, and how many queries are before
// each event.
func apart(c *corpus.Corpus) (queries, events []corpus.Op, at []int) {
	for _, o := range c.Ops {
		if o.Kind == corpus.Query {
			queries = append(queries, o)
		} else {
			events, at = append(events, o), append(at, len(queries))
		}
	}
	return queries, events, at
}
