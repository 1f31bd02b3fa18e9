package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cairn-kv/cairn/perf/load"
)

// contestant is one column of the tables.
type contestant struct {
	name string
	// own makes it in this program; peers have a driver in perf/peers instead.
	own func() load.Contestant
	dir string // of the driver
	arg string // first argument of a driver that is several contestants
	// most blocks that are queried in a closed or verify run: beyond it queries
	// are sampled. 0: no limit.
	most int
	// once: so far behind that one round says enough.
	once bool
}

var contestants = []contestant{
	{name: "cairn", own: load.Cairn},
	{name: "cairn-again", own: load.Cairn},
	{name: "maptree", own: load.MapTree, most: 1_000_000},
	{name: "kv-index", dir: "kv-index"},
	{name: "dynamo-crtc", dir: "dynamo", arg: "crtc"},
	{name: "dynamo-positional", dir: "dynamo", arg: "positional"},
	{name: "smg-radix-tree", dir: "smg-radix-tree"},
	{name: "llm-d", dir: "llm-d", arg: "default", most: 60_000, once: true},
	{name: "llm-d-raised", dir: "llm-d", arg: "raised", most: 60_000, once: true},
	{name: "aibrix", dir: "aibrix", most: 200_000, once: true},
}

// ours are the contestants that need nothing but this module.
var ours = []string{"cairn", "cairn-again", "maptree"}

func named(names []string) ([]contestant, error) {
	var list []contestant
	for _, name := range names {
		found := false
		for _, c := range contestants {
			if c.name == name || name == "all" {
				list, found = append(list, c), true
			}
		}
		if !found {
			var all []string
			for _, c := range contestants {
				all = append(all, c.name)
			}
			return nil, fmt.Errorf("no contestant is named %q; want all, or some of %s", name, strings.Join(all, ","))
		}
	}
	return list, nil
}

// driver builds what runs a contestant and returns its command line up to the
// flags.
func (c *contestant) driver(out string, notes io.Writer) ([]string, error) {
	if c.own != nil {
		self, err := os.Executable()
		return []string{self, "drive", c.name}, err
	}
	dir := filepath.Join("perf", "peers", c.dir)
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("%w; the command wants to be run at the root of the module", err)
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(out, c.dir)
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		err = in(dir, notes, nil, "go", "build", "-o", binary, ".")
		return command(binary, c.arg), err
	}
	target := filepath.Join(out, "cargo")
	if err := lock(dir, notes); err != nil {
		return nil, err
	}
	err = in(dir, notes, []string{"CARGO_TARGET_DIR=" + target}, "cargo", "build", "--release", "--locked")
	return command(filepath.Join(target, "release", c.dir+"-driver"), c.arg), err
}

func command(words ...string) []string {
	if words[len(words)-1] == "" {
		words = words[:len(words)-1]
	}
	return words
}

// in runs a command in a folder; what it prints goes to notes.
func in(dir string, notes io.Writer, env []string, name string, args ...string) error {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%s is not on this machine", name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = notes, notes
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s in %s: %w", strings.Join(append([]string{name}, args...), " "), dir, err)
	}
	return nil
}

// lock makes Cargo.lock from Cargo.pins, which is the same without the lines
// that say where packages come from. Those lines name a registry; which one it
// is, is the machine's choice, so cargo is asked for it.
func lock(dir string, notes io.Writer) error {
	pins, err := os.ReadFile(filepath.Join(dir, "Cargo.pins"))
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "Cargo.lock")
	if old, err := os.ReadFile(name); err == nil && unpinned(string(old)) == string(pins) {
		return nil
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := in(dir, notes, nil, "cargo", "generate-lockfile"); err != nil {
		return err
	}
	made, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	source := ""
	for line := range strings.Lines(string(made)) {
		if strings.HasPrefix(line, "source = ") {
			source = line
			break
		}
	}
	return os.WriteFile(name, []byte(strings.ReplaceAll(string(pins), "\nchecksum = ", "\n"+source+"checksum = ")), 0o644)
}

// unpinned takes the lines out of a Cargo.lock that Cargo.pins does not have.
func unpinned(lock string) string {
	var b strings.Builder
	for line := range strings.Lines(lock) {
		if !strings.HasPrefix(line, "source = ") {
			b.WriteString(line)
		}
	}
	return b.String()
}
