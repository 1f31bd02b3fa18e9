package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK    = 0
	exitFalse = 1 // ran, and the result is bad: a difference, a false answer, an error
	exitUsage = 2 // not run: wrong flags or configuration
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole command, with everything it touches passed in.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	// The first signal asks for an orderly end. It also restores the default
	// handling, so that a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, errReported) {
		// Several problems found at once are a line each.
		fmt.Fprintf(errs, "cairn: %s\n", strings.ReplaceAll(err.Error(), "\n", "\ncairn: "))
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFalse
}

// errReported says that what went wrong has been printed already.
var errReported = errors.New("reported")

// usageError is an error of how the command was called or configured.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "cairn",
		Short: "Which worker holds which KV-cache blocks, answered from the engines' own events",
		Long: `cairn follows the KV-cache events that inference engines (vLLM, SGLang and
others) publish over ZeroMQ, keeps an exact index of them, and answers two
questions about a prompt: how much of its prefix each worker holds, on which
tier; and from which peer the chosen worker can fetch the rest.`,
		Example: `  cairn demo                       # see it work, nothing to set up
  cairn serve --config cairn.yaml  # follow your engines
  cairn query --model m --tokens 1,2,3,4,5,6,7,8
  cairn check recorded.jsonl.zst   # does it read your engine's stream right?`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Errorf("unknown command %q; see cairn --help", args[0])}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServe(), newDemo(), newQuery(), newHint(), newOwners(), newRegister(), newRecord(), newReplay(), newDump(), newCheck(), newCorpus(), newVersion())
	return root
}

// noArguments refuses words that are no flags.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("%q is not expected here; see %s --help", args[0], c.CommandPath())}
	}
	return nil
}
