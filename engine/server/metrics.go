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

// routeMetrics makes the metrics of one route; those of failures on demand,
// by status.
func (s *Server) routeMetrics(path string) (seconds *metrics.PrometheusHistogram, failed func(status int) *metrics.Counter) {
	route := `{route=` + label(path)
	return s.metrics.GetOrCreatePrometheusHistogram("cairn_http_request_duration_seconds" + route + `}`),
		func(status int) *metrics.Counter {
			return s.metrics.GetOrCreateCounter("cairn_http_errors_total" + route + `,code="` + strconv.Itoa(status) + `"}`)
		}
}

// label quotes a label's value as the text format wants it.
func label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

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
		{"cairn_index_deferred_holders", func(i int) int { return st.Shards[i].Deferred }},
	} {
		f := newFamily(w, g.name, "gauge")
		for i := range st.Shards {
			f.add(uint64(max(g.of(i), 0)), "shard", strconv.Itoa(i))
		}
	}
	f := newFamily(w, "cairn_index_reader_retries_total", "counter")
	for i := range st.Shards {
		f.add(st.Shards[i].Retries, "shard", strconv.Itoa(i))
	}
}

func (s *Server) writeSourceMetrics(w io.Writer, all []engine.SourceStatus) {
	each := func(name, kind string, of func(st *engine.StreamStatus) uint64) {
		f := newFamily(w, name, kind)
		for i := range all {
			for j := range all[i].Streams {
				st := &all[i].Streams[j]
				f.add(of(st), "source", all[i].ID, "rank", strconv.Itoa(st.Rank), "tp_shard", strconv.Itoa(st.TPShard))
			}
		}
	}
	flag := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	each("cairn_stream_connected", "gauge", func(st *engine.StreamStatus) uint64 { return flag(st.Connected) })
	each("cairn_stream_silent", "gauge", func(st *engine.StreamStatus) uint64 { return flag(st.Silent) })
	each("cairn_stream_sequence", "gauge", func(st *engine.StreamStatus) uint64 { return st.Seq })
	each("cairn_stream_applied_sequence", "gauge", func(st *engine.StreamStatus) uint64 { return st.Applied })
	each("cairn_stream_connections_total", "counter", func(st *engine.StreamStatus) uint64 { return uint64(st.Epoch) })

	f := newFamily(w, "cairn_stream_state", "gauge")
	for i := range all {
		for j := range all[i].Streams {
			st := &all[i].Streams[j]
			for v := range engine.NumStates {
				f.add(flag(st.State == v), "source", all[i].ID, "rank", strconv.Itoa(st.Rank),
					"tp_shard", strconv.Itoa(st.TPShard), "state", v.String())
			}
		}
	}
	f = newFamily(w, "cairn_stream_cause", "gauge")
	for i := range all {
		for j := range all[i].Streams {
			if st := &all[i].Streams[j]; st.Cause != "" {
				f.add(1, "source", all[i].ID, "rank", strconv.Itoa(st.Rank), "tp_shard", strconv.Itoa(st.TPShard), "cause", st.Cause)
			}
		}
	}
	// Counters of one name stand together, in the order in which they are met.
	var names []string
	seen := map[string]bool{}
	for i := range all {
		for j := range all[i].Streams {
			for _, c := range all[i].Streams[j].Counters {
				if !seen[c.Name] {
					seen[c.Name] = true
					names = append(names, c.Name)
				}
			}
		}
	}
	for _, n := range names {
		f := newFamily(w, "cairn_stream_"+n+"_total", "counter")
		for i := range all {
			for j := range all[i].Streams {
				st := &all[i].Streams[j]
				for _, c := range st.Counters {
					if c.Name != n {
						continue
					}
					l := []string{"source", all[i].ID, "rank", strconv.Itoa(st.Rank), "tp_shard", strconv.Itoa(st.TPShard)}
					if c.Reason != "" {
						l = append(l, "reason", c.Reason)
					}
					f.add(c.Value, l...)
				}
			}
		}
	}
}
