package fuzz

import (
	"os"
	"path/filepath"
	"testing"
)

// seed gives a target every raw file of its corpus, with further arguments
// behind it if there are any.
func seed(f *testing.F, corpus string, more ...any) {
	f.Helper()
	dir := filepath.Join("corpus", corpus)
	entries, err := os.ReadDir(dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]any{raw}, more...)...)
	}
}
