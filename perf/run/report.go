package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/perf/load"
)

// column is a figure of the tables.
type column struct {
	mode, metric, title string
	unit                float64
	more                bool // is better
}

var columns = []column{
	{"verify", "wrong", "wrong answers", 1, false},
	{"closed", "mixed-Mblocks/s", "mixed, M block-ops/s", 1, true},
	{"closed", "store-new-ns/block", "store new, ns", 1, false},
	{"closed", "store-known-ns/block", "known", 1, false},
	{"closed", "store-mixed-ns/block", "mixed", 1, false},
	{"closed", "store-one-ns/block", "one block", 1, false},
	{"closed", "remove-ns/block", "remove, ns", 1, false},
	{"closed", "match-p50-ns", "Match p50, µs", 1e3, false},
	{"closed", "match-p99-ns", "p99", 1e3, false},
	{"beside", "match-p50-ns", "beside a writer: p50", 1e3, false},
	{"beside", "match-p99-ns", "p99", 1e3, false},
	{"beside", "written-Mblocks/s", "written, M/s", 1, true},
	{"sustained", "Mblocks/s", "sustained, M/s", 1, true},
	{"open", "answered-p50-ns", "open: answered p50, µs", 1e3, false},
	{"open", "answered-p99-ns", "p99", 1e3, false},
	{"open", "visible-p99-ns", "visible p99", 1e3, false},
	{"memory", "bytes/membership", "bytes", 1, false},
}

// figures are the values of one metric of one contestant on one corpus, by
// round.
func (m *match) figures(f *file, who string, c column) map[int]float64 {
	all := map[int]float64{}
	for _, p := range m.results {
		if v, ok := p.Metrics[c.metric]; ok && p.Contestant == who && p.Corpus == f.name && p.Mode == c.mode {
			all[p.Round] = v
		}
	}
	return all
}

func median(of map[int]float64) (float64, bool) {
	if len(of) == 0 {
		return 0, false
	}
	var x []float64
	for _, v := range of {
		x = append(x, v)
	}
	return load.Median(x), true
}

// ratio is how many times better cairn is than another, the median over rounds
// that both played.
func ratio(cairn, other map[int]float64, more bool) (float64, bool) {
	var x []float64
	for round, v := range other {
		w, ok := cairn[round]
		if !ok || v == 0 || w == 0 {
			continue
		}
		if more {
			v, w = w, v
		}
		x = append(x, v/w)
	}
	if len(x) == 0 {
		return 0, false
	}
	return load.Median(x), true
}

// write leaves all files of a run and prints the summary.
func (m *match) write(dir string, out io.Writer) error {
	var lines, bench bytes.Buffer
	for i := range m.results {
		p := &m.results[i]
		if err := json.NewEncoder(&lines).Encode(p); err != nil {
			return err
		}
		if err := p.WriteBench(&bench); err != nil {
			return err
		}
	}
	summary := m.summary()
	for name, text := range map[string][]byte{
		"results.jsonl": lines.Bytes(), "bench.txt": bench.Bytes(), "summary.md": []byte(summary), "plot.svg": []byte(m.plot()),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, summary)
	return err
}

func (m *match) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s` at %s, %s, %s, %d processors, %s\n", strings.TrimSpace(m.command), m.commit, time.Now().UTC().Format("2006-01-02 15:04 MST"), runtime.Version(), runtime.NumCPU(), processor())
	for _, c := range overview {
		m.across(&b, c)
	}
	for _, f := range m.corpora {
		t := &f.totals
		fmt.Fprintf(&b, "\n### %s\n\n%d holders, blocks of %d tokens, factors %v; %d queries of %.1f blocks on average, %d stores, %d removes, %d clears; %.2f M block operations, %d memberships at the end; checksum %016x\n\n",
			f.name, f.header.Holders, f.header.Unit, f.header.Factors, t.Queries, float64(t.Queried)/float64(max(t.Queries, 1)),
			t.Stores, t.Removes, t.Clears, float64(t.Blocks())/1e6, t.Left, t.Checksum)
		m.table(&b, f)
	}
	if len(m.left) > 0 {
		fmt.Fprintf(&b, "\nLeft out:\n\n")
		for _, l := range m.left {
			fmt.Fprintf(&b, "* %s\n", strings.ReplaceAll(l, "\n", " "))
		}
	}
	return b.String()
}

// overview are the figures that get a table over all corpora.
var overview = []column{
	{"closed", "mixed-Mblocks/s", "Mixed, M block operations a second of CPU", 1, true},
	{"closed", "match-p50-ns", "Match alone, p50, µs", 1e3, false},
	{"closed", "match-p99-ns", "Match alone, p99, µs", 1e3, false},
	{"beside", "match-p50-ns", "Match beside a writer at full speed, p50, µs", 1e3, false},
	{"beside", "match-p99-ns", "Match beside a writer at full speed, p99, µs", 1e3, false},
	{"beside", "written-Mblocks/s", "Written beside a reader at full speed, M blocks a second", 1, true},
	{"memory", "bytes/membership", "Bytes a membership", 1, false},
	{"verify", "wrong", "Wrong answers of those compared", 1, false},
}

// across prints one figure for all corpora and contestants.
func (m *match) across(b *strings.Builder, c column) {
	if len(m.corpora) < 2 || !slices.Contains(m.modes, c.mode) {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n| |", c.title)
	for _, e := range m.contestants {
		fmt.Fprintf(b, " %s |", e.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(m.contestants)) + "\n")
	for _, f := range m.corpora {
		fmt.Fprintf(b, "| %s |", f.name)
		for _, e := range m.contestants {
			m.cell(b, f, e, c)
		}
		b.WriteString("\n")
	}
}

// cell prints the median of a figure and how many times better cairn is.
func (m *match) cell(b *strings.Builder, f *file, e entrant, c column) {
	all := m.figures(f, e.name, c)
	v, ok := median(all)
	switch {
	case !ok:
		b.WriteString(" – |")
	case c.metric == "wrong":
		asked, _ := median(m.figures(f, e.name, column{mode: "verify", metric: "answers"}))
		fmt.Fprintf(b, " %.0f of %.0f |", v, asked)
	default:
		fmt.Fprintf(b, " %s", short(v/c.unit))
		if r, ok := ratio(m.figures(f, "cairn", c), all, c.more); ok && e.name != "cairn" {
			fmt.Fprintf(b, " (%sx)", short(r))
		}
		b.WriteString(" |")
	}
}

// table prints medians, and beside each how many times better cairn is.
func (m *match) table(b *strings.Builder, f *file) {
	var used []column
	for _, c := range columns {
		if slices.ContainsFunc(m.contestants, func(e entrant) bool { return len(m.figures(f, e.name, c)) > 0 }) {
			used = append(used, c)
		}
	}
	b.WriteString("| |")
	for _, c := range used {
		fmt.Fprintf(b, " %s |", c.title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(used)) + "\n")
	for _, e := range m.contestants {
		fmt.Fprintf(b, "| %s |", e.name)
		for _, c := range used {
			m.cell(b, f, e, c)
		}
		b.WriteString("\n")
	}
	for _, p := range m.results {
		if p.Corpus == f.name && p.Skipped != "" {
			fmt.Fprintf(b, "\n%s, %s: %s.\n", p.Contestant, p.Mode, p.Skipped)
		}
		if p.Corpus == f.name && p.Every > 1 && p.Mode == "verify" {
			fmt.Fprintf(b, "\n%s is asked every %dth query; its mix is put together from its parts.\n", p.Contestant, p.Every)
		}
	}
}

// short prints two or three digits that mean something.
func short(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.3g", x)
	}
	return fmt.Sprintf("%.2g", x)
}

// processor names the processor, as far as the system tells.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}

// commit is what is measured, as far as git tells.
func commit() string {
	id, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "no known commit"
	}
	if changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "tree", "perf").Output(); err != nil || len(changed) > 0 {
		return strings.TrimSpace(string(id)) + " with changes"
	}
	return strings.TrimSpace(string(id))
}
