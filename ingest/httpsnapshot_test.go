package ingest

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func framed(payloads ...[]byte) (b []byte) {
	for _, p := range payloads {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
	}
	return b
}

func TestHTTPSnapshot(t *testing.T) {
	for _, c := range []struct {
		name      string
		status    int
		watermark string
		body      []byte
		batches   int
		err       string
	}{
		{"two batches", 200, "41", framed([]byte("one"), []byte("")), 2, ""},
		{"an empty cache", 200, "18446744073709551614", nil, 0, ""},
		{"no such endpoint", 404, "41", nil, 0, "status 404"},
		{"no watermark", 200, "", nil, 0, `Kv-Watermark ""`},
		{"a negative watermark", 200, "-1", nil, 0, `Kv-Watermark "-1"`},
		{"cut in a length", 200, "41", []byte{0, 0}, 0, "a length"},
		{"cut in a payload", 200, "41", framed([]byte("one"))[:6], 0, "a payload of 3 bytes"},
		{"announces far more than there is", 200, "41", []byte{0, 0, 3, 0}, 0, "a payload of 768 bytes"},
		{"too much", 200, "41", framed(make([]byte, 2000)), 0, "more than 1000 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.watermark != "" {
					w.Header().Set(HeaderWatermark, c.watermark)
				}
				w.Header().Set(HeaderEpoch, "e1")
				w.WriteHeader(c.status)
				_, _ = w.Write(c.body)
			}))
			defer server.Close()
			h := &HTTPSnapshot{URL: server.URL, MaxBytes: 1000, Client: server.Client()}
			s, err := h.Snapshot(t.Context())
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), server.URL) {
					t.Fatalf("error %v, want %s and the URL", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Batches) != c.batches || s.Epoch != "e1" || s.Watermark < 41 {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// A gap is repaired from the state of an engine that offers it over HTTP.
func TestAGapIsRepairedOverHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(HeaderWatermark, "8")
		_, _ = w.Write(framed(payload(nil, storeAB), payload(nil, storeX)))
	}))
	defer server.Close()
	r := newRig(t, 0)
	f := r.feed(Options{Repair: Repair{Snapshot: &HTTPSnapshot{URL: server.URL, Client: server.Client()}}})
	f.live(0, storeC)
	f.live(9, storeC)
	f.wait(9)
	f.state(Worker, Exact, "")
	r.device(span(1, 12), 3)
	r.device(span(21, 24), 1)
}
