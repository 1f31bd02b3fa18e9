package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// place names a (source, dp rank).
type place struct {
	Source string `json:"source"`
	Rank   int    `json:"rank"`
}

// parsePlace reads "w2" or "w2/1"; a source's name may have slashes of its own.
func parsePlace(s string) (place, error) {
	p := place{Source: s}
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		if rank, err := strconv.Atoi(s[i+1:]); err == nil && rank >= 0 {
			p = place{Source: s[:i], Rank: rank}
		}
	}
	if p.Source == "" {
		return p, &usageError{fmt.Errorf("--target %q names no source; want SOURCE or SOURCE/RANK", s)}
	}
	return p, nil
}

func newHint() *cobra.Command {
	var k client
	var p prompt
	var target, messageID string
	c := &cobra.Command{
		Use:   "hint --model MODEL --tokens IDS --target SOURCE[/RANK]",
		Short: "Ask a server for a peer-fetch hint",
		Long: `Ask a running server whether a peer of the target holds more of a prompt than
the target does itself. The answer is the kv.fetch message for the target, or
the reason why there is none:

  no_longer_source   nobody holds more than the target
  ineligible         somebody does and may not serve: detail says why
  target_incapable   the target is unknown or declares no hint role
  no_capable_worker  no source of the model takes part in hints`,
		Example: `  cairn hint --model m --tokens 1,2,3,4,5,6,7,8 --target w2
  cairn hint --model m --tokens @prompt.json --target w2/1 --message-id req-42 --json`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			q, err := p.question(c.InOrStdin())
			if err != nil {
				return err
			}
			t, err := parsePlace(target)
			if err != nil {
				return err
			}
			body, err := k.post(c.Context(), "/v1/hint", struct {
				question
				Target    place  `json:"target"`
				MessageID string `json:"message_id,omitempty"`
			}{q, t, messageID})
			if err != nil {
				return err
			}
			if k.asJSON {
				_, err := c.OutOrStdout().Write(body)
				return err
			}
			return printHint(c.OutOrStdout(), body)
		},
	}
	p.flags(c)
	c.Flags().StringVar(&target, "target", "", "where the request was sent: SOURCE or SOURCE/RANK (required)")
	c.Flags().StringVar(&messageID, "message-id", "", "id that the hint carries")
	k.flags(c.Flags())
	return c
}

func printHint(w io.Writer, body []byte) error {
	type candidate struct {
		Source string `json:"source"`
		Rank   int    `json:"rank"`
		Domain string `json:"domain"`
		Depth  int    `json:"depth"`
	}
	var a struct {
		Hint      json.RawMessage `json:"hint"`
		Source    *candidate      `json:"source"`
		Depth     int             `json:"depth"`
		Threshold int             `json:"threshold"`
		Reason    string          `json:"reason"`
		Detail    string          `json:"detail"`
		Best      *candidate      `json:"best"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	if a.Hint == nil {
		reason := a.Reason
		if a.Detail != "" {
			reason += " (" + a.Detail + ")"
		}
		fmt.Fprintf(w, "no hint: %s\n", reason)
		if a.Best != nil {
			fmt.Fprintf(w, "longest holder: %s/%d with %d blocks\n", a.Best.Source, a.Best.Rank, a.Best.Depth)
		}
		return nil
	}
	if a.Source != nil {
		fmt.Fprintf(w, "fetch from %s/%d (%s): it holds %d blocks, the target %d\n", a.Source.Source, a.Source.Rank, a.Source.Domain, a.Depth, a.Threshold)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, a.Hint, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, pretty.String())
	return err
}
