package ingest

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Headers of an HTTPSnapshot's answer.
const (
	HeaderWatermark = "Kv-Watermark" // decimal
	HeaderEpoch     = "Kv-Epoch"     // any text; may be missing
)

// DefaultMaxSnapshot bounds the body of an HTTPSnapshot, in bytes.
const DefaultMaxSnapshot = 256 << 20

// HTTPSnapshot is a Snapshotter that asks an HTTP endpoint beside the engine:
//
//	GET URL
//	200
//	Kv-Watermark: 4711
//	Kv-Epoch: 8f0c…
//
//	┌ length, 4 bytes big-endian ┬ payload as of a live message ┐ …
//
// The zero value of all but URL is good. It is safe for concurrent use.
type HTTPSnapshot struct {
	URL      string
	Client   *http.Client // nil: http.DefaultClient
	MaxBytes int64        // of the body; 0: DefaultMaxSnapshot
}

// Snapshot asks once. Errors name the URL and what came.
func (h *HTTPSnapshot) Snapshot(ctx context.Context) (*Snapshot, error) {
	fail := func(format string, args ...any) (*Snapshot, error) {
		return nil, fmt.Errorf("ingest: snapshot from %s: "+format, append([]any{h.URL}, args...)...)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return fail("%w", err)
	}
	client := h.Client
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(request)
	if err != nil {
		return fail("%w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fail("status %d; 200 would be right", answer.StatusCode)
	}
	s := &Snapshot{Epoch: answer.Header.Get(HeaderEpoch)}
	if s.Watermark, err = strconv.ParseUint(answer.Header.Get(HeaderWatermark), 10, 64); err != nil {
		return fail("%s %q; a sequence in decimal would be right", HeaderWatermark, answer.Header.Get(HeaderWatermark))
	}
	limit := h.MaxBytes
	if limit == 0 {
		limit = DefaultMaxSnapshot
	}
	body := bufio.NewReader(answer.Body)
	for left := limit; ; {
		var head [4]byte
		if _, err := io.ReadFull(body, head[:]); err == io.EOF {
			return s, nil
		} else if err != nil {
			return fail("a length: %w", err)
		}
		n := int64(binary.BigEndian.Uint32(head[:]))
		if left -= n + int64(len(head)); left < 0 {
			return fail("more than %d bytes", limit)
		}
		// What arrives is kept, not what is announced.
		payload, err := io.ReadAll(io.LimitReader(body, n))
		if err == nil && int64(len(payload)) < n {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fail("a payload of %d bytes: %w", n, err)
		}
		s.Batches = append(s.Batches, payload)
	}
}
