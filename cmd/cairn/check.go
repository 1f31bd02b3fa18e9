package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-kv/cairn/cmd/cairn/conformance"
)

func newCheck() *cobra.Command {
	var o conformance.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "check FILE|FOLDER…",
		Short: "Play conformance files and recorded streams, and report every difference",
		Long: `Play files through cairn and compare every answer with the one the file states.
Messages go over real ZeroMQ sockets on loopback.

  *.jsonl, *.jsonl.zst   wire vectors, index traces, transport scripts, and event
                         streams recorded from engines with their own answers
  transport.md           the transport scripts it names

The formats are described in docs/check.md; a stream that you recorded from your
own engine can be checked the same way. Of a folder, all files are played but
its README.md.

What is known but not played yet is listed by name. Checks that are only upper
bounds, behind something lost, are counted apart. An unknown kind of line, a gap
without a lost line, a file with nothing to check exactly, and any difference
make the exit status 1.`,
		Example: `  cairn check cases/ captures/
  cairn check --json recorded.jsonl.zst`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{fmt.Errorf("no file is named; see %s --help", c.CommandPath())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			report, err := conformance.Run(c.Context(), args, o)
			if asJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetIndent("", "  ")
				if werr := e.Encode(report); werr != nil {
					return werr
				}
			} else if werr := report.WriteText(c.OutOrStdout()); werr != nil {
				return werr
			}
			if err != nil {
				return err
			}
			if !report.OK() {
				return errReported
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the whole report as JSON")
	c.Flags().BoolVar(&o.Direct, "direct", false, "connect inside the process instead of over sockets of the system")
	c.Flags().IntVar(&o.Shards, "shards", 1, "index shards to play on")
	c.Flags().DurationVar(&o.Timeout, "timeout", 2*time.Minute, "bound of one file")
	return c
}
