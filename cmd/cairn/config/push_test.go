package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine"
)

// TestPushedSource: a source without an endpoint, whose events are pushed.
func TestPushedSource(t *testing.T) {
	text := "sources:\n  - id: w1\n    model: m\n    push: true\n    ranks: 2\n"
	c, err := Parse("c.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]engine.Source{{ID: "w1", Model: "m", Push: true, Ranks: 2, Protocol: engine.FrameworkV1}}, c.Sources); d != "" {
		t.Error(d)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	out, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("again.yaml", out)
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if d := cmp.Diff(c.Sources, again.Sources); d != "" || strings.Contains(string(out), "endpoint") {
		t.Errorf("%s in\n%s", d, out)
	}
	for text, want := range map[string]string{
		"push: true\n    endpoint: tcp://h:1":      `sources[0].push: true: stands beside endpoint`,
		"push: true\n    shards: [tcp://h:1]":      `sources[0].push: true: stands beside shards`,
		"push: yes\n    endpoint: tcp://h:1":       `sources[0].push`,
		"push: false\n    endpoint: tcp://h:1":     "",
		"push: true\n    replay: tcp://10.0.0.1:1": `sources[0].push: true: stands beside replay`,
	} {
		_, err := Parse("c.yaml", []byte("sources:\n  - id: w1\n    model: m\n    "+text+"\n"))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
