package load

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Result is what one run of one contestant on one corpus gave. Drivers in other
// languages print the same JSON.
type Result struct {
	Contestant string `json:"contestant"`
	About      string `json:"about"`
	Corpus     string `json:"corpus"`
	Checksum   string `json:"checksum"` // of the corpus, hexadecimal
	Mode       string `json:"mode"`
	// Skipped says why nothing was played; Metrics are empty then.
	Skipped string             `json:"skipped,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
}

// WriteJSON prints a result as one line.
func (r *Result) WriteJSON(out io.Writer) error {
	return json.NewEncoder(out).Encode(r)
}

// WriteBench prints a result as a line that benchstat reads.
func (r *Result) WriteBench(out io.Writer) error {
	if r.Skipped != "" {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Benchmark%s%s/corpus=%s/index=%s 1", strings.ToUpper(r.Mode[:1]), r.Mode[1:], r.Corpus, r.Contestant)
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		fmt.Fprintf(&b, " %s %s", format(r.Metrics[name]), name)
	}
	_, err := fmt.Fprintln(out, b.String())
	return err
}

// format prints a figure with four digits that mean something.
func format(x float64) string {
	if x == 0 || math.Abs(x) >= 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// rank is the nearest-rank quantile of sorted values: the smallest that at least
// q of all do not exceed.
func rank[T any](sorted []T, q float64) T {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Median of some values, at least one.
func Median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// latencies reports quantiles of times under a name.
func latencies(m map[string]float64, name string, times []time.Duration) {
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	m[name+"-p50-ns"] = float64(rank(times, .5))
	m[name+"-p99-ns"] = float64(rank(times, .99))
	m[name+"-p999-ns"] = float64(rank(times, .999))
	m[name+"-max-ns"] = float64(times[len(times)-1])
}
