package server

import (
	"io"

	"github.com/cairn-kv/cairn/engine"
)

// recordingMetrics adds the counts of a recording, while there is one.
func (s *Server) recordingMetrics() {
	e, ok := s.opt.Engine.(interface {
		RecordingStats() (engine.RecordingStats, bool)
	})
	if !ok {
		return
	}
	s.metrics.RegisterMetricsWriter(func(w io.Writer) {
		st, on := e.RecordingStats()
		if !on {
			return
		}
		newFamily(w, "cairn_recording_records_total", "counter").add(st.Records)
		newFamily(w, "cairn_recording_lost_records_total", "counter").add(st.Lost)
		newFamily(w, "cairn_recording_file_bytes", "gauge").add(st.Bytes)
	})
}
