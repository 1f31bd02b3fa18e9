package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/perf/corpus"
	"github.com/cairn-kv/cairn/perf/load"
)

// TestMain lets the test's own program be the driver of contestants of ours.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "drive" {
		os.Exit(drive(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

func TestBracket(t *testing.T) {
	for _, limit := range []float64{.013, .9, 1, 4, 77} {
		calls := 0
		got, err := bracket(4, func(w float64) (bool, error) { calls++; return w >= limit, nil })
		if err != nil || got < limit || got > 1.1*limit {
			t.Errorf("limit %v: window %v, error %v; want one up to a tenth above the limit", limit, got, err)
		}
		if calls > 20 {
			t.Errorf("limit %v: %d runs", limit, calls)
		}
	}
	if _, err := bracket(1, func(float64) (bool, error) { return false, nil }); err == nil {
		t.Error("nothing is ever kept, and there is no error")
	}
	broken := errors.New("broken")
	if _, err := bracket(1, func(float64) (bool, error) { return false, broken }); err != broken {
		t.Errorf("error %v; want the run's", err)
	}
}

func TestRatio(t *testing.T) {
	cairn := map[int]float64{0: 10, 1: 20, 2: 10}
	other := map[int]float64{0: 20, 1: 60, 3: 1}
	if r, ok := ratio(cairn, other, false); !ok || r != 2.5 {
		t.Errorf("ratio of times %v, %v; want 2.5, of the rounds both played", r, ok)
	}
	if r, ok := ratio(cairn, other, true); !ok || math.Abs(r-(1./2+1./3)/2) > 1e-9 {
		t.Errorf("ratio of rates %v, %v; want %v", r, ok, (1./2+1./3)/2)
	}
	if _, ok := ratio(cairn, map[int]float64{7: 1}, true); ok {
		t.Error("a ratio without a common round")
	}
}

// TestPins makes sure that what is committed is what lock compares with, and
// names no registry.
func TestPins(t *testing.T) {
	files, err := filepath.Glob("../peers/*/Cargo.pins")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "://") || strings.Contains(string(text), "source = ") {
			t.Errorf("%s says where packages come from", name)
		}
		if unpinned(string(text)) != string(text) {
			t.Errorf("%s is not in the form that lock compares with", name)
		}
	}
}

// TestContestants makes sure that every peer has its folder.
func TestContestants(t *testing.T) {
	for _, c := range contestants {
		if c.own != nil {
			continue
		}
		cargo, _ := filepath.Glob(filepath.Join("..", "peers", c.dir, "Cargo.*s"))
		golang, _ := filepath.Glob(filepath.Join("..", "peers", c.dir, "go.mod"))
		if len(cargo) != 1 && len(golang) != 1 {
			t.Errorf("%s has neither Cargo.pins nor go.mod in perf/peers/%s", c.name, c.dir)
		}
	}
}

// TestMatch plays a small corpus with contestants of ours, in processes of their
// own, and reads what is written.
func TestMatch(t *testing.T) {
	s, err := corpus.Named("conversation-8")
	if err != nil {
		t.Fatal(err)
	}
	s.Requests, s.Capacity, s.Name = 200, 300, "small"
	dir := t.TempDir()
	f := &file{name: s.Name, path: filepath.Join(dir, "small.crp")}
	out, err := os.Create(f.path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := corpus.NewWriter(out, s.Header())
	if err != nil {
		t.Fatal(err)
	}
	if err := corpus.Simulate(s, w.Add); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.read(); err != nil {
		t.Fatal(err)
	}
	list, err := named(ours)
	if err != nil {
		t.Fatal(err)
	}
	var notes bytes.Buffer
	m := &match{corpora: []*file{f}, modes: []string{"verify", "beside"}, rounds: 2, window: .02, notes: &notes, command: "test"}
	for _, c := range list {
		words, err := c.driver(dir, &notes)
		if err != nil {
			t.Fatal(err)
		}
		m.contestants = append(m.contestants, entrant{c, words})
	}
	if err := m.play(context.Background(), func() error { return m.write(dir, io.Discard) }); err != nil {
		t.Fatal(err)
	}
	if len(m.left) > 0 {
		t.Fatalf("left out: %v", m.left)
	}
	if want := 3 + 2*3; len(m.results) != want {
		t.Fatalf("%d results; want %d", len(m.results), want)
	}
	var printed bytes.Buffer
	if err := m.write(dir, &printed); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| cairn | 0 of 200 |", "| maptree | 0 of 200 |", "### small"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, printed.String())
		}
	}
	svg, err := os.ReadFile(filepath.Join(dir, "plot.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("plot.svg: %v", err)
		}
	}
	for name, least := range map[string]int{"results.jsonl": 9, "bench.txt": 9} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n != least {
			t.Errorf("%s has %d lines; want %d", name, n, least)
		}
	}
}

// TestWrongCorpus makes sure that a driver that played something else is found.
func TestWrongCorpus(t *testing.T) {
	f := &file{name: "x", path: "x"}
	echo := entrant{contestant{name: "echo"}, []string{"echo", `{"contestant":"echo","checksum":"1"}`}}
	if _, err := run1(context.Background(), f, echo, "verify", 1, 1); err == nil {
		t.Error("what the driver printed is taken for a result")
	}
	f.totals.Checksum = 1
	echo.words = []string{"sh", "-c", `echo '{"contestant":"echo","checksum":"0000000000000001"}'`}
	if p, err := run1(context.Background(), f, echo, "verify", 1, 1); err != nil || p.Result.Contestant != "echo" {
		t.Errorf("result %+v, error %v", p, err)
	}
	if _, err := named([]string{"nobody"}); err == nil || !strings.Contains(err.Error(), "kv-index") {
		t.Errorf("error %v; want one that lists contestants", err)
	}
	if got := (&load.Result{Skipped: "x"}).WriteBench(io.Discard); got != nil {
		t.Error(got)
	}
}
