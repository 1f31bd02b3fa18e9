package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cairn-kv/cairn/perf/corpus"
	"github.com/cairn-kv/cairn/perf/fleet"
)

func newCorpus() *cobra.Command {
	c := &cobra.Command{
		Use:   "corpus",
		Short: "Make and check corpora: what a fleet announces and is asked, in one file",
		Long: `A corpus is a binary file of queries, stores and removes as a fleet of engines
would emit them, in the order of their time, with the right answer of every
query. Indexes in any language can be compared on it; the format is described in
perf/corpus/doc.go.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newCorpusMake(), newCorpusCheck(), newCorpusShapes())
	return c
}

func newCorpusShapes() *cobra.Command {
	return &cobra.Command{
		Use:   "shapes",
		Short: "List the shapes that have names",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, s := range corpus.Shapes {
				fmt.Fprintf(w, "%s\t%s\n", s.Name, s.About)
			}
			return w.Flush()
		},
	}
}

func newCorpusMake() *cobra.Command {
	var trace, base string
	own := corpus.Shape{}
	c := &cobra.Command{
		Use:   "make FILE",
		Short: "Simulate engines on a trace and write what they emit",
		Long: `Simulate engines with prefix caching on a trace of requests and write what they
emit, and what is asked, to FILE.

The trace is a file of JSON lines: timestamp (ms), input_length, output_length,
and hash_ids, the ids of the prompt's blocks of 512 tokens, root first. Without
--trace it is that of the shape. Flags change the shape's settings.`,
		Example: `  cairn corpus make --shape 16-token-128 out.crp
  cairn corpus make --trace mine.jsonl --engines 32 --capacity 4096 out.crp`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Errorf("%d files are named; want one; see %s --help", len(args), c.CommandPath())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			s, err := corpus.Named(base)
			if err != nil {
				return &usageError{err}
			}
			for name, set := range map[string]func(){
				"requests": func() { s.Requests = own.Requests },
				"engines":  func() { s.Engines = own.Engines },
				"capacity": func() { s.Capacity = own.Capacity },
				"host":     func() { s.Host = own.Host },
				"replicas": func() { s.Replicas = own.Replicas },
				"length":   func() { s.Length = own.Length },
				"copies":   func() { s.Worlds = own.Worlds },
				"affine":   func() { s.Affine = own.Affine },
				"private":  func() { s.Private = own.Private },
				"twice":    func() { s.Copies = own.Copies },
				"holes":    func() { s.Holes = own.Holes },
				"equal":    func() { s.Equal = own.Equal },
				"clears":   func() { s.Clears = own.Clears },
				"seed":     func() { s.Seed = own.Seed },
			} {
				if c.Flags().Changed(name) {
					set()
					s.Name = "custom"
				}
			}
			if trace != "" {
				requests, err := readTrace(trace)
				if err != nil {
					return err
				}
				s.Name, s.Trace = "custom", func() []corpus.Trace { return requests }
			}
			totals, err := makeCorpus(args[0], s)
			if err != nil {
				return err
			}
			return describe(c.OutOrStdout(), s.Header(), totals)
		},
	}
	f := c.Flags()
	f.StringVar(&base, "shape", "conversation-8", "shape to begin with; see cairn corpus shapes")
	f.StringVar(&trace, "trace", "", "file of requests, JSON lines")
	f.IntVar(&own.Requests, "requests", 0, "at most so many requests; 0 for all")
	f.IntVar(&own.Engines, "engines", 0, "engines")
	f.IntVar(&own.Capacity, "capacity", 0, "blocks an engine keeps")
	f.IntVar(&own.Host, "host", 0, "blocks an engine keeps on its host tier; 0 for none")
	f.IntVar(&own.Replicas, "replicas", 1, "holders that announce what an engine does")
	f.IntVar(&own.Length, "length", 1, "blocks that an id of the trace stands for: blocks of 512/length tokens")
	f.IntVar(&own.Worlds, "copies", 1, "disjoint copies of the trace at the same time")
	f.BoolVar(&own.Affine, "affine", false, "requests mostly go where their prefix was last, not anywhere")
	f.BoolVar(&own.Private, "private", false, "every holder has names of its own")
	f.BoolVar(&own.Copies, "twice", false, "what an engine computes twice is announced twice")
	f.BoolVar(&own.Holes, "holes", false, "engines leave holes in chains when they evict")
	f.BoolVar(&own.Equal, "equal", false, "an id of the trace stands for equal blocks")
	f.IntVar(&own.Clears, "clears", 0, "an engine loses all after every so many requests; 0 for never")
	f.Uint64Var(&own.Seed, "seed", 1, "seed of all choices")
	return c
}

func readTrace(name string) ([]corpus.Trace, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	requests, err := fleet.ReadTrace(f, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return requests, nil
}

// makeCorpus writes a corpus; a file that could not be finished is not left.
func makeCorpus(name string, s corpus.Shape) (t corpus.Totals, err error) {
	f, err := os.Create(name)
	if err != nil {
		return t, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	w, err := corpus.NewWriter(f, s.Header())
	if err != nil {
		return t, err
	}
	if err := corpus.Simulate(s, w.Add); err != nil {
		return t, err
	}
	return w.Close()
}

func newCorpusCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a corpus: checksums, promises, and every answer",
		Long: `Read a corpus, compare all checksums, play it on plain maps and compare the
answer of every query and the class of every store. A difference makes the exit
status 1. Corpora that other programs made are checked the same way.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Errorf("%d files are named; want one; see %s --help", len(args), c.CommandPath())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			r, err := corpus.NewReader(f)
			if err != nil {
				return err
			}
			truth := corpus.NewTruth(r.Header)
			op := 0
			for {
				g, err := r.Next()
				if err == io.EOF {
					return describe(c.OutOrStdout(), r.Header, r.Totals)
				}
				if err != nil {
					return err
				}
				for i := range g.Ops {
					o := &g.Ops[i]
					a, class, err := truth.Play(o)
					switch {
					case err != nil:
					case o.Kind == corpus.Query && len(g.Answers) == 0:
						err = errors.New("a query without an answer")
					case o.Kind == corpus.Query:
						if g.Answers[0] != a {
							err = fmt.Errorf("the answer is %+v; right is %+v", g.Answers[0], a)
						}
						g.Answers = g.Answers[1:]
					case o.Class != class && o.Class != corpus.Unclassed:
						err = fmt.Errorf("a store of class %d; right is %d", o.Class, class)
					}
					if err != nil {
						return fmt.Errorf("%s: operation %d: %w", args[0], op, err)
					}
					op++
				}
			}
		},
	}
}

// describe prints what is in a corpus, as JSON.
func describe(out io.Writer, h corpus.Header, t corpus.Totals) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		corpus.Header
		Factors string
		corpus.Totals
		Checksum string
	}{h, h.Factors.String(), t, fmt.Sprintf("%016x", t.Checksum)})
}
