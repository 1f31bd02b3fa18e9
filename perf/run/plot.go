package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the plot, in pixels.
const (
	labelWidth = 250
	panelWidth = 420
	gap        = 40
	rowHeight  = 16
	titleRow   = 26
)

// panel is one half of the plot: a logarithmic axis.
type panel struct {
	title string
	x     float64
	least float64
	most  float64
}

// at is where a value is.
func (p *panel) at(v float64) float64 {
	v = math.Log(v/p.least) / math.Log(p.most/p.least)
	return p.x + panelWidth*min(max(v, 0), 1)
}

// plot draws throughput on the left and latencies of matches, from p50 to p99,
// on the right; a row is one contestant on one corpus.
func (m *match) plot() string {
	var rows strings.Builder
	throughput := panel{"mixed, M block operations a second of CPU", labelWidth, .01, 1000}
	latency := panel{"Match, µs: p50 to p99; thick alone, thin beside a writer", labelWidth + panelWidth + gap, .1, 1e6}
	y := 50.0
	colours := []string{"#1f6f54", "#5aa48a", "#8a8a8a", "#b5452c", "#c9792c", "#d2a03c", "#7a4ba0", "#3563a8", "#6f93c4", "#98497a"}
	value := func(f *file, who, mode, metric string) (float64, bool) {
		return median(m.figures(f, who, column{mode: mode, metric: metric}))
	}
	for _, f := range m.corpora {
		fmt.Fprintf(&rows, `<text x="8" y="%.0f" font-weight="bold">%s</text>`+"\n", y+16, html.EscapeString(f.name))
		y += titleRow
		for i, e := range m.contestants {
			fmt.Fprintf(&rows, `<text x="20" y="%.0f">%s</text>`+"\n", y+12, html.EscapeString(e.name))
			colour := colours[i%len(colours)]
			if v, ok := value(f, e.name, "closed", "mixed-Mblocks/s"); ok {
				fmt.Fprintf(&rows, `<rect x="%d" y="%.0f" width="%.1f" height="11" fill="%s"/><text x="%.1f" y="%.0f" fill="#444">%s</text>`+"\n",
					labelWidth, y+2, throughput.at(v)-labelWidth, colour, throughput.at(v)+4, y+11, short(v))
			}
			for k, mode := range []string{"closed", "beside"} {
				p50, ok := value(f, e.name, mode, "match-p50-ns")
				p99, _ := value(f, e.name, mode, "match-p99-ns")
				if ok {
					from, to := latency.at(p50/1e3), latency.at(p99/1e3)
					fmt.Fprintf(&rows, `<rect x="%.1f" y="%.0f" width="%.1f" height="%d" fill="%s"/>`+"\n", from, y+2+float64(7*k), max(to-from, 2), 6-3*k, colour)
				}
			}
			y += rowHeight
		}
		y += 8
	}
	var b strings.Builder
	width := labelWidth + 2*panelWidth + 2*gap
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" font-family="sans-serif" font-size="11">`+"\n", width, y+20)
	fmt.Fprintf(&b, `<rect width="%d" height="%.0f" fill="white"/>`+"\n", width, y+20)
	for _, p := range []panel{throughput, latency} {
		fmt.Fprintf(&b, `<text x="%.0f" y="16" font-weight="bold">%s</text>`+"\n", p.x, html.EscapeString(p.title))
		for v := p.least; v <= p.most*1.001; v *= 10 {
			fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="36" y2="%.0f" stroke="#ddd"/><text x="%.1f" y="32" text-anchor="middle" fill="#666">%s</text>`+"\n", p.at(v), p.at(v), y, p.at(v), fmt.Sprintf("%g", math.Round(v*1000)/1000))
		}
	}
	b.WriteString(rows.String())
	b.WriteString("</svg>\n")
	return b.String()
}
