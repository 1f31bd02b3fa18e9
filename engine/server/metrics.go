package server

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/VictoriaMetrics/metrics"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
)

// Labels come from a short list: route, code, source, rank, tp_shard, state,
// cause, reason, detail, shard. Never a request, a prompt or a block.

func (s *Server) registerMetrics() {
	s.metrics.RegisterMetricsWriter(s.writeEngineMetrics)
	s.metrics.RegisterMetricsWriter(metrics.WriteGoMetrics)
	s.metrics.RegisterMetricsWriter(metrics.WriteProcMetrics)
}

// durations are the buckets of request times in seconds. They begin where an
// answer does, at tens of microseconds.
var durations = []float64{10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6,
	1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1, 2.5, 10}

// routeMetrics makes the metrics of one route; those of failures on demand,
// by status.
func (s *Server) routeMetrics(path string) (seconds *metrics.PrometheusHistogram, failed func(status int) *metrics.Counter) {
	route := `{route=` + label(path)
	return s.metrics.GetOrCreatePrometheusHistogramExt("cairn_http_request_duration_seconds"+route+`}`, durations),
		func(status int) *metrics.Counter {
			return s.metrics.GetOrCreateCounter("cairn_http_errors_total" + route + `,code="` + strconv.Itoa(status) + `"}`)
		}
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// label quotes a label's value as the text format wants it.
func label(s string) string { return `"` + escapes.Replace(s) + `"` }

// family writes the lines of one metric, under one type line.
type family struct {
	w    io.Writer
	name string
}

func newFamily(w io.Writer, name, kind string) family {
	fmt.Fprintf(w, "# TYPE %s %s\n", name, kind)
	return family{w, name}
}

func (f family) add(v uint64, labels ...string) {
	io.WriteString(f.w, f.name)
	for i := 0; i < len(labels); i += 2 {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		io.WriteString(f.w, sep+labels[i]+"="+label(labels[i+1]))
	}
	if len(labels) > 0 {
		io.WriteString(f.w, "}")
	}
	io.WriteString(f.w, " "+strconv.FormatUint(v, 10)+"\n")
}

func (s *Server) writeEngineMetrics(w io.Writer) {
	newFamily(w, "cairn_build_info", "gauge").add(1, "version", s.opt.Version)
	st := s.opt.Engine.Stats()
	gauge := func(name string, v int) { newFamily(w, name, "gauge").add(uint64(max(v, 0))) }
	gauge("cairn_sources", st.Sources)
	gauge("cairn_streams", st.Streams)
	gauge("cairn_holders", st.Holders)
	newFamily(w, "cairn_matches_total", "counter").add(st.Matches)
	newFamily(w, "cairn_ring_stalls_total", "counter").add(st.QueueStalls)
	newFamily(w, "cairn_stale_generation_drops_total", "counter").add(st.StaleDrops)

	f := newFamily(w, "cairn_hints_total", "counter")
	f.add(st.Hints[hint.Hinted], "outcome", "hint")
	for r := hint.Hinted + 1; r < hint.NumReasons; r++ {
		f.add(st.Hints[r], "outcome", r.String())
	}
	f = newFamily(w, "cairn_hints_ineligible_total", "counter")
	for d := hint.NoDetail + 1; d < hint.NumDetails; d++ {
		f.add(st.Ineligible[d], "detail", d.String())
	}
	s.writeIndexMetrics(w, &st)
	s.writeSourceMetrics(w, s.opt.Engine.Sources())
}

func (s *Server) writeIndexMetrics(w io.Writer, st *engine.Stats) {
	for _, g := range []struct {
		name string
		of   func(i int) int
	}{
		{"cairn_index_residencies", func(i int) int { return st.Shards[i].Residencies }},
		{"cairn_index_waiting_blocks", func(i int) int { return st.Shards[i].Waiting }},
		{"cairn_index_runs", func(i int) int { return st.Shards[i].Runs }},
		{"cairn_index_names", func(i int) int { return st.Shards[i].Names }},
		{"cairn_index_bytes", func(i int) int { return st.Shards[i].Bytes }},
		{"cairn_index_budget_bytes", func(i int) int { return st.Shards[i].Budget }},
		{"cairn_index_deferred_holders", func(i int) int { return st.Shards[i].Deferred }},
	} {
		f := newFamily(w, g.name, "gauge")
		for i := range st.Shards {
			f.add(uint64(max(g.of(i), 0)), "shard", strconv.Itoa(i))
		}
	}
	for _, c := range []struct {
		name string
		of   func(i int) uint64
	}{
		{"cairn_index_reader_retries_total", func(i int) uint64 { return st.Shards[i].Retries }},
		{"cairn_index_reader_pleas_total", func(i int) uint64 { return st.Shards[i].Pleas }},
		{"cairn_index_evicted_blocks_total", func(i int) uint64 { return st.Shards[i].Evicted }},
		{"cairn_index_refused_blocks_total", func(i int) uint64 { return st.Shards[i].Refused }},
	} {
		f := newFamily(w, c.name, "counter")
		for i := range st.Shards {
			f.add(c.of(i), "shard", strconv.Itoa(i))
		}
	}
}
