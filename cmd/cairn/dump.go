package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
)

func newDump() *cobra.Command {
	var k client
	var out string
	c := &cobra.Command{
		Use:   "dump",
		Short: "Print who holds what, as text that can be compared",
		Long: `Print everything that a running server's index holds, one sorted line for every
holder, stream and block. The text depends on what was applied and on nothing
else, so two servers that saw the same say the same, and so does a replay of a
recording (cairn replay FILE --compare DUMP). Tokens do not stand in it.

Where the server wants tokens, this one needs the role admin.`,
		Example: `  cairn dump --out now.dump
  cairn dump | grep '^block w1 0 worker' | wc -l`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), k.timeout)
			defer cancel()
			reply, err := k.send(ctx, http.MethodGet, "/v1/dump", nil)
			if err != nil {
				return err
			}
			defer reply.Body.Close()
			w, done, err := creating(c, out)
			if err != nil {
				return &usageError{fmt.Errorf("--out: %w", err)}
			}
			if _, err := io.Copy(w, reply.Body); err != nil {
				return errors.Join(fmt.Errorf("the dump is cut: %w", err), done())
			}
			return done()
		},
	}
	c.Flags().StringVar(&out, "out", "-", "new file to write; - is standard output")
	f := c.Flags()
	f.StringVar(&k.server, "server", "http://127.0.0.1:8090", "URL of the server")
	f.StringVar(&k.tokenFile, "token-file", "", "file with the bearer token the server wants: its first token is sent")
	f.DurationVar(&k.timeout, "timeout", time.Minute, "how long to wait for the whole dump")
	return c
}

// creating opens a file for writing that must not be there yet, or standard
// output. The function that is returned closes it.
func creating(c *cobra.Command, name string) (io.Writer, func() error, error) {
	if name == "-" {
		return c.OutOrStdout(), func() error { return nil }, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}
