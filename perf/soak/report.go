package soak

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// Report is what a soak has done. Figures are of all its cycles.
type Report struct {
	Profile    string  `json:"profile"`
	Seed       uint64  `json:"seed"`
	Go         string  `json:"go"`
	Processors int     `json:"processors"`
	Seconds    float64 `json:"seconds"`
	Events     int64   `json:"events"`
	Stored     int64   `json:"stored_blocks"`
	Removed    int64   `json:"removed_blocks"`
	Clears     int64   `json:"clears"`
	Attaches   int64   `json:"attaches"`
	Drains     int     `json:"drains"`
	Queries    int64   `json:"queries"`        // beside the writer
	Queried    int64   `json:"queried_blocks"` // in them
	Judged     int64   `json:"judged"`         // figures of a holder in them
	Loose      int64   `json:"loose"`          // not judged: the holder was being hidden, shown, cleared or replaced
	Parities   int64   `json:"parities"`       // comparisons at rest
	Compared   int64   `json:"compared"`       // figures of a holder in them
	Names      int64   `json:"names"`          // looked up in them
	Retries    uint64  `json:"retries"`
	Pleas      uint64  `json:"pleas"`
	Evicted    uint64  `json:"evicted"`
	Refused    uint64  `json:"refused"`
	Least      int     `json:"least_share,omitempty"` // of the holders of a full index
	Most       int     `json:"most_share,omitempty"`
	Budget     int     `json:"budget_bytes,omitempty"`
	Bytes      []int   `json:"drained_bytes"` // after each drain
	Wrong      string  `json:"wrong"`         // what was, empty if nothing
}

func newReport(p Profile, seed uint64) *Report {
	return &Report{Profile: p.Name, Seed: seed, Go: runtime.Version(), Processors: runtime.GOMAXPROCS(0), Budget: p.Bytes}
}

// blockOps are the blocks written.
func (r *Report) blockOps() int64 { return r.Stored + r.Removed }

func (r *Report) finish(ix tree.Interface, askers []*asker, begun time.Time) {
	for _, a := range askers {
		r.Queries += a.asked
		r.Queried += a.units
		r.Judged += a.judged
		r.Loose += a.loose
	}
	st := ix.Stats()
	r.Retries, r.Pleas, r.Evicted, r.Refused = st.Retries, st.Pleas, st.Evicted, st.Refused
	r.Seconds = time.Since(begun).Seconds()
	const kept = 8 // of many drains the first and the last tell
	if len(r.Bytes) > 2*kept {
		r.Bytes = append(r.Bytes[:kept:kept], r.Bytes[len(r.Bytes)-kept:]...)
	}
}

// WriteJSON writes reports, one a line.
func WriteJSON(w io.Writer, reports []*Report) error {
	e := json.NewEncoder(w)
	for _, r := range reports {
		if err := e.Encode(r); err != nil {
			return fmt.Errorf("soak report: %w", err)
		}
	}
	return nil
}

// WriteMarkdown writes reports as a table.
func WriteMarkdown(w io.Writer, reports []*Report) error {
	var b strings.Builder
	b.WriteString("| Profile | Seed | Blocks written | Blocks queried | Figures judged beside the writer | Figures, names compared at rest | Drains | Attaches | Retries a query | Evicted | Seconds | Wrong |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range reports {
		wrong := "0"
		if r.Wrong != "" {
			wrong = r.Wrong
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s, %s | %d | %s | %.1e | %s | %.0f | %s |\n",
			r.Profile, r.Seed, short(r.blockOps()), short(r.Queried), short(r.Judged), short(r.Compared), short(r.Names),
			r.Drains, short(r.Attaches), float64(r.Retries)/float64(max(1, r.Queries)), short(int64(r.Evicted)), r.Seconds, wrong)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// short prints a number to three digits.
func short(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.3g G", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.3g M", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.3g K", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}
