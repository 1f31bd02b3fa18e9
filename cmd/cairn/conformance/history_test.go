package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gapless is a capture without a gap, clear or restart: one stream from 0 on.
const gapless = "testdata/captures/vllm/full-0.9.0.1-a.jsonl.zst"

// rewrite plays a changed copy of a capture.
func rewrite(t *testing.T, change func(lines []string) []string) *Report {
	t.Helper()
	read, err := readLines(gapless)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range read {
		lines = append(lines, string(l.data))
	}
	name := filepath.Join(t.TempDir(), "changed.jsonl")
	if err := os.WriteFile(name, []byte(strings.Join(change(lines), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), []string{name}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// message is the index of the n-th message.
func message(t *testing.T, lines []string, n int) int {
	t.Helper()
	for i, l := range lines {
		if strings.Contains(l, `"kind":"msg"`) {
			if n == 0 {
				return i
			}
			n--
		}
	}
	t.Fatal("too few messages")
	return 0
}

func TestARepeatedMessageBoundsNothing(t *testing.T) {
	var checks int
	for _, n := range []int{0, 1, 7} {
		r := rewrite(t, func(lines []string) []string {
			i := message(t, lines, n)
			return slices.Insert(lines, i, lines[i])
		})
		f := r.Files[0]
		if !r.OK() || f.Bounds != 0 || f.Checks == 0 || checks != 0 && f.Checks != checks {
			t.Errorf("message %d twice: %+v", n, f)
		}
		checks = f.Checks
	}
}

func TestAMissingMessageIsAnErrorOfTheFile(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		put  []string // instead of it
	}{
		{"the first", 0, nil},
		{"one of the middle", 7, nil},
		{"a lost line of others", 7, []string{`{"kind":"lost","stream":"dp0","from":"8","to":"9"}`}},
		{"an earlier message again", 7, []string{`{"kind":"msg","stream":"dp0","topic":"","seq":"2","payload":""}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var at int
			r := rewrite(t, func(lines []string) []string {
				i := message(t, lines, c.n)
				lines = slices.DeleteFunc(slices.Replace(lines, i, i+1, c.put...), func(l string) bool {
					return strings.Contains(l, `"kind":"query"`) || strings.Contains(l, `"kind":"state"`)
				})
				at = message(t, lines, c.n) + 1
				return append(lines, lines[len(lines)-1])
			})
			f := r.Files[0]
			if r.OK() || !strings.Contains(f.Error, fmt.Sprintf("line %d: msg of \"dp0\"", at)) || !strings.Contains(f.Error, "no line of kind lost says so") {
				t.Errorf("line %d: %+v", at, f)
			}
		})
	}
}

func TestBoundsAreCountedApart(t *testing.T) {
	for _, place := range []int{0, 1} { // right before and right behind
		r := rewrite(t, func(lines []string) []string {
			i := message(t, lines, 0)
			next := message(t, lines, 1)
			rest := slices.Clone(lines[next:])
			rest = slices.Insert(rest, place, `{"kind":"lost","stream":"dp0","from":"0","to":"0"}`)
			return append(lines[:i:i], rest...)
		})
		f := r.Files[0]
		if r.OK() || f.Checks == 0 || f.Bounds != f.Checks || !strings.Contains(f.Error, "upper bounds") {
			t.Errorf("nothing but bounds is fine: %+v", f)
		}
		var text bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%d checks, %d of them upper bounds", f.Checks, f.Checks)
		if strings.Count(text.String(), want) != 2 || !strings.HasPrefix(text.String(), "ERROR") {
			t.Errorf("text without %q twice:\n%s", want, text.String())
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), fmt.Sprintf(`"checks":%d,"bounds":%d`, f.Checks, f.Checks)) {
			t.Errorf("JSON: %s", data)
		}
	}
	// Losses that end: what was lost is bounded, the rest is exact.
	f := play(t, Options{}, "testdata/captures/vllm/gap-0.17.1-a.jsonl.zst").Files[0]
	if f.Bounds == 0 || f.Bounds >= f.Checks {
		t.Errorf("a capture with losses: %d checks, %d of them bounds", f.Checks, f.Bounds)
	}
}

func TestAQuestionBehindNoSuchMessageIsAnError(t *testing.T) {
	for _, kind := range []string{"query", "state"} {
		for _, after := range []string{"99999999", "0", "x", ""} {
			var at int
			r := rewrite(t, func(lines []string) []string {
				for i := len(lines) - 1; i > 0; i-- {
					var x map[string]json.RawMessage
					if err := json.Unmarshal([]byte(lines[i]), &x); err != nil {
						t.Fatal(err)
					}
					if string(x["kind"]) != `"`+kind+`"` {
						continue
					}
					x["after"] = json.RawMessage(`"` + after + `"`)
					data, err := json.Marshal(x)
					if err != nil {
						t.Fatal(err)
					}
					lines[i], at = string(data), i+1
					return lines
				}
				t.Fatalf("no %s", kind)
				return nil
			})
			if f := r.Files[0]; r.OK() || !strings.Contains(f.Error, fmt.Sprintf("line %d: %s", at, kind)) || !strings.Contains(f.Error, "after") {
				t.Errorf("%s after %q in line %d: %+v", kind, after, at, f)
			}
		}
	}
}

func TestCovered(t *testing.T) {
	const top = 1<<64 - 1
	for _, c := range []struct {
		gap  span
		told []span
		want bool
	}{
		{span{3, 5}, nil, false},
		{span{3, 5}, []span{{3, 5}}, true},
		{span{3, 5}, []span{{0, 9}}, true},
		{span{3, 5}, []span{{5, 5}, {3, 4}}, true},
		{span{3, 5}, []span{{3, 3}, {5, 5}}, false},
		{span{3, 5}, []span{{4, 5}}, false},
		{span{3, 5}, []span{{3, 4}}, false},
		{span{3, top - 1}, []span{{0, top}}, true},
	} {
		if got := covered(c.gap, c.told); got != c.want {
			t.Errorf("covered(%v, %v) = %v", c.gap, c.told, got)
		}
	}
}
