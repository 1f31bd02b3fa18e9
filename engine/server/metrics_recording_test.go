package server

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/engine"
)

func TestRecordingMetrics(t *testing.T) {
	e, err := engine.Open(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	h := newServer(t, Options{Engine: e}).Handler()
	if _, body := do(t, h, "GET", "/metrics", ""); strings.Contains(body, "cairn_recording") {
		t.Error("there is no recording, and it has metrics")
	}
	rec, err := e.Record(struct{ io.Writer }{io.Discard}, engine.RecordOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Stop()
	if err := e.AddSource(context.Background(), engine.Source{ID: "w", Model: "m", Push: true}); err != nil {
		t.Fatal(err)
	}
	_, body := do(t, h, "GET", "/metrics", "")
	for _, line := range []string{"cairn_recording_records_total ", "cairn_recording_lost_records_total 0\n", "cairn_recording_file_bytes "} {
		if !strings.Contains(body, "\n"+line) {
			t.Errorf("no %q in the metrics", line)
		}
	}
}
