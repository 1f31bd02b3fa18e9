package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
)

const hintsFile = `
hints:
  min_gain_blocks: 2
  spread_window_blocks: 0
  suffix_ranges: true
  cost:
    enabled: true
    min_gain_seconds: 0.002
    min_confidence: 0.5
    coefficients:
      - {model: m, link: ib, per_token: 25e-6, per_position: 0.6e-9, bytes_per_token: 114688, bytes_per_second: 12.5e9, setup_seconds: 0.002}
      - {bytes_per_token: 1}
sources:
  - id: w1
    model: m
    endpoint: tcp://10.0.0.1:5557
    ranks: 2
    hint:
      worker_type: decode
      endpoints: {0: "tcp://10.0.0.1:5000", 1: "tcp://10.0.0.1:5003"}
      tp: 2
      carrier: kv_hints
      link: ib
  - id: w2
    model: m
    endpoint: tcp://10.0.0.2:5557
    ranks: 2
    hint:
      worker_type: aggregated
      ports: {engine: sglang, control_host: 10.0.0.2, control_port: 23280, tp_size: 8, dp_size: 2, dp_attention: true}
  - id: w3
    model: m
    endpoint: tcp://10.0.0.3:5557
    ranks: 2
    hint: {worker_type: aggregated, ports: {engine: vllm, control_advertise_host: 10.0.0.3, control_ports: [5000, 5003], pp_size: 1}}
  - id: w4
    model: m
    endpoint: tcp://10.0.0.4:5557
    hint: {metadata: '{"router_hint":true,"router_hint_worker_type":"prefill"}'}
`

// TestHints: every key of the section reads, and what is printed reads back.
func TestHints(t *testing.T) {
	c, err := Parse("c.yaml", []byte(hintsFile))
	if err != nil {
		t.Fatal(err)
	}
	want := engine.HintOptions{MinGainBlocks: 2, Spread: true, SuffixRanges: true, Cost: engine.CostOptions{Enabled: true, MinGain: 2 * time.Millisecond, MinConfidence: 0.5,
		Coefficients: []engine.CostCoefficients{{Model: "m", Link: "ib", PerToken: 25e-6, PerPosition: 0.6e-9, BytesPerToken: 114688, BytesPerSecond: 12.5e9, Setup: 2 * time.Millisecond}, {BytesPerToken: 1}}}}
	if diff := cmp.Diff(want, c.Hints); diff != "" {
		t.Errorf("hints, want -, got +:\n%s", diff)
	}
	part := &engine.HintConfig{WorkerType: "decode", Endpoints: map[int]string{0: "tcp://10.0.0.1:5000", 1: "tcp://10.0.0.1:5003"}, TP: 2, Carrier: "kv_hints", Link: "ib"}
	if diff := cmp.Diff(part, c.Sources[0].Hint); diff != "" {
		t.Errorf("a source's part, want -, got +:\n%s", diff)
	}
	for i, want := range []*engine.HintConfig{
		{WorkerType: "aggregated", Ports: &hint.Ports{SGLang: true, Bind: "10.0.0.2", Port: 23280, TP: 8, DP: 2, DPAttention: true}},
		{WorkerType: "aggregated", Ports: &hint.Ports{Host: "10.0.0.3", List: []int{5000, 5003}, PP: 1}},
		{Metadata: `{"router_hint":true,"router_hint_worker_type":"prefill"}`},
	} {
		if diff := cmp.Diff(want, c.Sources[i+1].Hint); diff != "" {
			t.Errorf("source %d, want -, got +:\n%s", i+1, diff)
		}
	}
	out, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("printed", out)
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if diff := cmp.Diff(c.Hints, again.Hints); diff != "" {
		t.Errorf("printed and read back, want -, got +:\n%s\n%s", diff, out)
	}
	for i := range c.Sources {
		if diff := cmp.Diff(c.Sources[i].Hint, again.Sources[i].Hint); diff != "" {
			t.Errorf("printed and read back, want -, got +:\n%s\n%s", diff, out)
		}
	}
	if c, err = Parse("c.yaml", []byte("hints: {spread_window_blocks: off, min_gain_blocks: 1}")); err != nil || c.Hints.Spread {
		t.Errorf("off is %+v, %v", c.Hints, err)
	}
	plain := Default()
	if out, err := plain.YAML(); err != nil || strings.Contains(string(out), "hints:\n") {
		t.Errorf("options at their defaults are printed: %v\n%s", err, out)
	}
}

func TestHintsAreChecked(t *testing.T) {
	for name, tc := range map[string][2]string{
		"a word":                  {"hints: on", `hints: "on" is a string`},
		"an unknown key":          {"hints: {min_gain: 1}", "hints.min_gain: is not a known key"},
		"no blocks":               {"hints: {min_gain_blocks: 0}", "hints.min_gain_blocks: 0"},
		"a negative window":       {"hints: {spread_window_blocks: -1}", "hints.spread_window_blocks"},
		"a window of words":       {"hints: {spread_window_blocks: wide}", "hints.spread_window_blocks"},
		"ranges that are 1":       {"hints: {suffix_ranges: 1}", "hints.suffix_ranges"},
		"cost on":                 {"hints: {cost: on}", "hints.cost"},
		"a confidence of 2":       {"hints: {cost: {min_confidence: 2}}", "hints.cost.min_confidence: 2 is none; want a number of 0 … 1"},
		"a negative gain":         {"hints: {cost: {min_gain_seconds: -0.5}}", "hints.cost.min_gain_seconds"},
		"a gain of days":          {"hints: {cost: {min_gain_seconds: 100000}}", "hints.cost.min_gain_seconds"},
		"coefficients of one":     {"hints: {cost: {coefficients: {model: m}}}", "hints.cost.coefficients"},
		"a coefficient of none":   {"hints: {cost: {coefficients: [{per_token: fast}]}}", "hints.cost.coefficients[0].per_token"},
		"an unknown one":          {"hints: {cost: {coefficients: [{c1: 1}]}}", "hints.cost.coefficients[0].c1: is not a known key"},
		"the same twice":          {"hints: {cost: {coefficients: [{model: m}, {model: m}]}}", "hints.cost.coefficients[1]: is about what hints.cost.coefficients[0] is about"},
		"an endless one":          {"hints: {cost: {coefficients: [{per_token: .inf}]}}", "hints.cost.coefficients[0].per_token"},
		"a rank of words":         {"sources: [{id: a, model: m, endpoint: 'tcp://h:1', hint: {worker_type: agg, endpoints: {one: 'tcp://h:1'}}}]", "sources[0].hint.endpoints.one"},
		"a rank too few":          {"sources: [{id: a, model: m, ranks: 2, endpoint: 'tcp://h:1', hint: {worker_type: agg, endpoints: {0: 'tcp://h:1'}}}]", "sources[0].hint.endpoints"},
		"ports of another engine": {"sources: [{id: a, model: m, endpoint: 'tcp://h:1', hint: {worker_type: agg, ports: {engine: trt}}}]", "sources[0].hint.ports.engine"},
		"port 0":                  {"sources: [{id: a, model: m, endpoint: 'tcp://h:1', hint: {worker_type: agg, ports: {control_port: 0}}}]", "sources[0].hint.ports.control_port"},
		"a port that is true":     {"sources: [{id: a, model: m, endpoint: 'tcp://h:1', hint: {worker_type: agg, ports: {control_ports: [true]}}}]", "sources[0].hint.ports.control_ports[0]"},
		"ports of one rank":       {"sources: [{id: a, model: m, ranks: 2, endpoint: 'tcp://h:1', hint: {worker_type: agg, ports: {control_advertise_host: h, control_ports: [5]}}}]", "sources[0].hint.ports"},
		"half of the metadata":    {"sources: [{id: a, model: m, endpoint: 'tcp://h:1', hint: {metadata: '{\"router_hint\":1}'}}]", "sources[0].hint.metadata"},
		"a carrier":               {"sources: [{id: a, model: m, endpoint: 'tcp://h:1', hint: {worker_type: agg, carrier: header}}]", `sources[0].hint.carrier: "header"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("c.yaml", []byte(tc[0])); err == nil || !strings.Contains(err.Error(), tc[1]) {
				t.Errorf("%v does not say %q", err, tc[1])
			}
		})
	}
}
