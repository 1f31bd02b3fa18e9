package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cairn-kv/cairn/perf/corpus"
	"github.com/cairn-kv/cairn/perf/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 2 && os.Args[1] == "drive" {
		os.Exit(drive(os.Args[2], os.Args[3:]))
	}
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(os.Stderr, "run: %v\n", err)
		}
		os.Exit(1)
	}
}

// drive is this program as the driver of a contestant of ours.
func drive(name string, args []string) int {
	list, err := named([]string{name})
	if err != nil || list[0].own == nil {
		fmt.Fprintf(os.Stderr, "run: %q is no contestant of this module; want one of %v\n", name, ours)
		return 2
	}
	who := list[0].own()
	who.Name = name
	return load.Drive(who, args, os.Stdout, os.Stderr)
}

// quick are the shapes of a run of minutes.
var quick = []string{"conversation-8", "conversation-128", "16-token-128", "agent", "events-7", "holes"}

func run(ctx context.Context, args []string, out, notes io.Writer) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(notes)
	shapes := flags.String("shapes", strings.Join(quick, ","), "shapes, or all")
	who := flags.String("contestants", strings.Join(ours, ","), "contestants, or all")
	modes := flags.String("modes", "verify,closed,beside,memory", "verify, closed, beside, open, memory, sustained")
	rounds := flags.Int("rounds", 5, "rounds of closed, beside and open; verify and memory are done once")
	window := flags.Float64("window", 1, "seconds that a run of beside and open takes")
	dir := flags.String("out", filepath.Join("bin", "perf"), "folder of results, corpora and drivers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not expected; see -help", flags.Args())
	}
	if *rounds < 1 || *window <= 0 {
		return fmt.Errorf("-rounds %d -window %v; want at least 1, and more than 0", *rounds, *window)
	}
	list, err := named(strings.Split(*who, ","))
	if err != nil {
		return err
	}
	m := &match{window: *window, rounds: *rounds, notes: notes, command: "go run ./perf/run " + strings.Join(args, " "), commit: commit()}
	if err := os.MkdirAll(filepath.Join(*dir, "corpora"), 0o755); err != nil {
		return err
	}
	for _, mode := range strings.Split(*modes, ",") {
		if mode != "sustained" && !contains(load.Modes, mode) {
			return fmt.Errorf("mode %q; want sustained or some of %v", mode, load.Modes)
		}
		m.modes = append(m.modes, mode)
	}
	names := strings.Split(*shapes, ",")
	if *shapes == "all" {
		names = nil
		for _, s := range corpus.Shapes {
			names = append(names, s.Name)
		}
	}
	for _, name := range names {
		c, err := prepare(name, filepath.Join(*dir, "corpora"), notes)
		if err != nil {
			return err
		}
		m.corpora = append(m.corpora, c)
	}
	for _, c := range list {
		words, err := c.driver(filepath.Join(*dir, "drivers"), notes)
		if err != nil {
			// A peer that cannot be built here is told of, not an obstacle.
			fmt.Fprintf(notes, "run: %s is left out: %v\n", c.name, err)
			m.left = append(m.left, fmt.Sprintf("%s: %v", c.name, err))
			continue
		}
		m.contestants = append(m.contestants, entrant{c, words})
	}
	err = m.play(ctx, func() error { return m.write(*dir, io.Discard) })
	if werr := m.write(*dir, out); werr != nil {
		return werr
	}
	return err
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// file is a corpus on disk.
type file struct {
	name   string
	path   string
	header corpus.Header
	totals corpus.Totals
}

// prepare makes the corpus of a shape if it is not there.
func prepare(name, dir string, notes io.Writer) (*file, error) {
	shape, err := corpus.Named(name)
	if err != nil {
		return nil, err
	}
	f := &file{name: name, path: filepath.Join(dir, name+".crp")}
	if f.read() == nil && f.header == shape.Header() {
		return f, nil
	}
	fmt.Fprintf(notes, "run: making %s\n", f.path)
	t, err := os.Create(f.path + ".new")
	if err != nil {
		return nil, err
	}
	defer t.Close()
	w, err := corpus.NewWriter(t, shape.Header())
	if err != nil {
		return nil, err
	}
	if err := corpus.Simulate(shape, w.Add); err != nil {
		return nil, err
	}
	if _, err := w.Close(); err != nil {
		return nil, err
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if err := os.Rename(f.path+".new", f.path); err != nil {
		return nil, err
	}
	return f, f.read()
}

// read checks the file and learns what is in it.
func (f *file) read() error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	r, err := corpus.NewReader(in)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = r.Next()
	}
	if err != io.EOF {
		return err
	}
	f.header, f.totals = r.Header, r.Totals
	return nil
}
