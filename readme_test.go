package cairn

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeExample compiles the example of the README as it stands there.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) != 1 {
		t.Fatalf("README.md has %d blocks of Go, want the one example", len(blocks))
	}
	code := string(blocks[0][1])
	if n := strings.Count(strings.TrimSpace(code), "\n") + 1; n > 20 {
		t.Errorf("the example has %d lines, want at most 20", n)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	// A file named on the command line belongs to the module of the directory
	// that the command runs in.
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "example"), file).CombinedOutput(); err != nil {
		t.Errorf("the example does not compile: %v\n%s", err, out)
	}
}

// TestReadmeLinks finds what the README and the docs point at inside the tree.
func TestReadmeLinks(t *testing.T) {
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	for _, file := range append(files, "README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			target := string(m[1])
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil {
				t.Errorf("%s points at %s: %v", file, target, err)
			}
		}
	}
}
