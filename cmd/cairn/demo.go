package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cairn-kv/cairn/perf/demo"
	"github.com/cairn-kv/cairn/perf/fleet"
)

func newDemo() *cobra.Command {
	var o demo.Options
	var falsify string
	var lossy bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "A simulated fleet, matched, hinted and checked, in about a minute",
		Long: `Run a fleet of simulated engines inside this process: their caches fill, evict
and copy between device, host and disk, driven by a real conversation trace, and
announce it over real ZeroMQ sockets as fast as they can, in the dialects of vLLM
and SGLang. cairn follows them; every request of the trace is matched and hinted.

All along every answer is judged against what the simulated engines really held,
which is kept apart from cairn's own code as plain token lists. The exit status
is 1 if one answer was false. --break makes the fleet publish something wrong,
to see that the judge notices. --lossy loses messages on the way, cuts connections
and lets replays lose some of what they bring: cairn asks for what is missing and
answers nothing from a source until it has come.`,
		Example: `  cairn demo
  cairn demo --duration 10s --json
  cairn demo --lossy
  cairn demo --break drop-removes   # must fail`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Duration <= 0 {
				return &usageError{fmt.Errorf("--duration %v leaves no time; want more than 0, such as %v", o.Duration, demo.DefaultDuration)}
			}
			if o.Requests < 0 {
				return &usageError{fmt.Errorf("--requests %d is negative; want a number of requests, or 0 for no limit but the duration", o.Requests)}
			}
			if falsify != "" {
				b, err := fleet.ParseBreak(falsify)
				if err != nil {
					return &usageError{fmt.Errorf("--break: %w", err)}
				}
				o.Break = b
			}
			if lossy {
				o.Loss = fleet.Loss{Gap: 0.002, GapMax: 5, Cut: 0.0005, Replay: 0.3}
			}
			out := &noting{Writer: c.OutOrStdout()}
			o.Live = !o.JSON && demo.Terminal(out.Writer)
			s, err := demo.Run(c.Context(), o, out)
			if err == nil && o.JSON && !out.wrote {
				// Interrupted before there was anything to sum up: who reads
				// JSON gets JSON all the same.
				e := json.NewEncoder(out)
				e.SetIndent("", "  ")
				err = e.Encode(s)
			}
			return err
		},
	}
	c.Flags().DurationVar(&o.Duration, "duration", demo.DefaultDuration, "how long requests are made; the end takes a few seconds more")
	c.Flags().IntVar(&o.Requests, "requests", 0, "stop after so many requests; 0 for no limit but the duration")
	c.Flags().Uint64Var(&o.Seed, "seed", 0, "seed of the fleet's and the router's choices")
	c.Flags().StringVar(&falsify, "break", "", "falsify what the fleet publishes: drop-removes or reorder")
	c.Flags().BoolVar(&lossy, "lossy", false, "lose messages on the way, and repair it")
	c.Flags().BoolVar(&o.JSON, "json", false, "print the summary as JSON and nothing else")
	return c
}

// noting notes whether anything was written.
type noting struct {
	io.Writer
	wrote bool
}

func (n *noting) Write(p []byte) (int, error) {
	n.wrote = true
	return n.Writer.Write(p)
}
