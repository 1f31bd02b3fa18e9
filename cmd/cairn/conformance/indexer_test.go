package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A peer's answers and the capture they are about.
const (
	peerAnswers = "testdata/captures/dynamo/indexer-s0523-namespaces-dynamo-p16-a.jsonl.zst"
	peerAsked   = "testdata/captures/sglang/s0523-namespaces-dynamo-p16-a.jsonl.zst"
)

// rewriteAnswers plays a changed copy of the answers beside the capture, or far
// from it.
func rewriteAnswers(t *testing.T, beside bool, old, new string) *File {
	t.Helper()
	read, err := readLines(peerAnswers)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, l := range read {
		text += string(l.data) + "\n"
	}
	if old != "" && !strings.Contains(text, old) {
		t.Fatalf("no %s", old)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "answers.jsonl")
	if err := os.WriteFile(name, []byte(strings.Replace(text, old, new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if beside {
		data, err := os.ReadFile(peerAsked)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(peerAsked)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Run(t.Context(), []string{name}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Files[0]
}

func TestPeersAnswers(t *testing.T) {
	f := rewriteAnswers(t, true, "", "")
	if len(f.Differences) != 0 || f.Error != "" || f.Checks != 98 || len(f.Skipped) != 1 || f.Skipped[0].Count != 21 {
		t.Errorf("119 answers, 21 of them too low: %+v", f)
	}
	for _, c := range []struct{ name, old, new, differs, error string }{
		{"more than is right", `"dynamo_device":10,`, `"dynamo_device":11,`, "11 device", ""},
		{"more on the host", `"longest_matched":160`, `"longest_matched":176`, "11 any", ""},
		{"behind another message", `"after":"5"`, `"after":"4"`, "", "query 0"},
		{"of no question", `"query":118,`, `"query":119,`, "", "query 119"},
		{"without a figure", `"dynamo_device":10,`, ``, "", "dynamo_device"},
		{"of a path", `"of":"s0523`, `"of":"../s0523`, "", "name of a capture"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := rewriteAnswers(t, true, c.old, c.new)
			switch {
			case c.differs != "":
				if len(f.Differences) != 1 || !strings.Contains(f.Differences[0].Expected, c.differs) {
					t.Errorf("%+v", f)
				}
			case !strings.Contains(f.Error, c.error) || c.error != "" && f.Error == "":
				t.Errorf("%+v", f)
			}
		})
	}
	if f := rewriteAnswers(t, false, "", ""); f.Error != "" || f.Checks != 0 || len(f.Skipped) != 1 {
		t.Errorf("without the capture: %+v", f)
	}
}
