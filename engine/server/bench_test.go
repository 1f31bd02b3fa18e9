package server

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/cairn-kv/cairn/engine"
)

// BenchmarkMetrics writes what a scrape of a fleet gets: streams of a hundred
// counters, most of them reasons that never came.
func BenchmarkMetrics(b *testing.B) {
	f := &fake{}
	for i := range 2000 {
		st := engine.StreamStatus{State: engine.Exact, Connected: true}
		for c := range 100 {
			n := engine.Counter{Name: "count" + strconv.Itoa(c/5), Reason: "reason" + strconv.Itoa(c%5)}
			if c%5 == 0 {
				n.Reason, n.Value = "", uint64(i)
			}
			st.Counters = append(st.Counters, n)
		}
		f.sources = append(f.sources, engine.SourceStatus{ID: "worker-" + strconv.Itoa(i), Streams: []engine.StreamStatus{st}})
	}
	s, err := New(Options{Engine: f})
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		s.writeSourceMetrics(&out, f.sources)
	}
	b.ReportMetric(float64(out.Len()), "bytes/scrape")
}
