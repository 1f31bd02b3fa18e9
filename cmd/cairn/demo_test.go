package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"
)

// TestDemoInterruptedEarly: a run that ends before the fleet is followed still
// prints its summary as JSON.
func TestDemoInterruptedEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	c := newDemo()
	c.SetArgs([]string{"--json"})
	c.SetOut(&out)
	c.SetErr(&out)
	if err := c.ExecuteContext(ctx); err != nil {
		t.Fatal(err)
	}
	var s struct {
		Interrupted bool    `json:"interrupted"`
		False       *uint64 `json:"false"`
	}
	d := json.NewDecoder(&out)
	if err := d.Decode(&s); err != nil || !s.Interrupted || s.False == nil || *s.False != 0 {
		t.Errorf("summary %+v, %v", s, err)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Errorf("more than one summary: %v", err)
	}
}

// TestUsageErrorsOfTheDemo holds the exit status of values that make no run.
func TestUsageErrorsOfTheDemo(t *testing.T) {
	for _, args := range [][]string{{"--duration", "0s"}, {"--duration=-1s"}, {"--requests", "-1"}, {"--break", "all"}} {
		if got := run(append([]string{"demo"}, args...), nil, io.Discard, io.Discard); got != exitUsage {
			t.Errorf("demo %v: exit %d, want %d", args, got, exitUsage)
		}
	}
}
