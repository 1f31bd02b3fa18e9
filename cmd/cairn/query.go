package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// holder and freshness are the parts of an answer that the table shows.
type holder struct {
	Source    string `json:"source"`
	Rank      int    `json:"rank"`
	Domain    string `json:"domain"`
	BlockSize int    `json:"block_size"`
	Tokens    struct {
		Device        int `json:"device"`
		Host          int `json:"host"`
		Any           int `json:"any"`
		HostExtension int `json:"host_extension"`
	} `json:"tokens"`
	Freshness freshness `json:"freshness"`
}

type freshness struct {
	State    string    `json:"state"`
	Cause    string    `json:"cause"`
	Advisory bool      `json:"advisory"`
	Silent   bool      `json:"silent"`
	Seq      uint64    `json:"seq"`
	Applied  [2]uint64 `json:"applied"`
	LagMS    uint64    `json:"lag_ms"`
	AgeMS    uint64    `json:"age_ms"`
}

func newQuery() *cobra.Command {
	var k client
	var p prompt
	c := &cobra.Command{
		Use:   "query --model MODEL --tokens IDS",
		Short: "Ask a server which holders have a prompt's prefix",
		Long: `Ask a running server how many leading tokens of a prompt each holder has: on
its device, on its host memory, on any tier of its own, and how much host memory
adds right behind the device prefix. Deepest first; holders without a leading
block are left out.

STATE says how far an answer can be believed: exact, or degraded (something was
lost; true but not all), disconnected (the truth of then). Holders whose depths
are withheld are listed below with the reason.`,
		Example: `  cairn query --model m --tokens 1,2,3,4,5,6,7,8,9
  cairn query --model m --tokens @prompt.json --adapter my-lora --json
  tokenize prompt.txt | cairn query --model m --tokens @-`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			q, err := p.question(c.InOrStdin())
			if err != nil {
				return err
			}
			body, err := k.post(c.Context(), "/v1/match", q)
			if err != nil {
				return err
			}
			if k.asJSON {
				_, err := c.OutOrStdout().Write(body)
				return err
			}
			return printMatch(c.OutOrStdout(), body)
		},
	}
	p.flags(c)
	k.flags(c.Flags())
	return c
}

func printMatch(w io.Writer, body []byte) error {
	var a struct {
		Tokens  int      `json:"tokens"`
		Holders []holder `json:"holders"`
		Flagged []holder `json:"flagged"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	if len(a.Holders) == 0 {
		fmt.Fprintf(w, "no holder has a leading block of these %d tokens\n", a.Tokens)
	} else {
		fmt.Fprintf(w, "leading tokens of %d:\n", a.Tokens)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "SOURCE\tRANK\tDOMAIN\tBLOCK\tDEVICE\tHOST\tANY\tHOST-EXT\tSTATE\tAPPLIED\tLAG\tAGE")
		for _, h := range a.Holders {
			fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%dms\t%dms\n",
				h.Source, h.Rank, h.Domain, h.BlockSize, h.Tokens.Device, h.Tokens.Host, h.Tokens.Any, h.Tokens.HostExtension,
				h.Freshness.mark(), h.Freshness.span(), h.Freshness.LagMS, h.Freshness.AgeMS)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(a.Flagged) == 0 {
		return nil
	}
	fmt.Fprintln(w, "withheld:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SOURCE\tRANK\tDOMAIN\tSTATE\tAGE")
	for _, h := range a.Flagged {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%dms\n", h.Source, h.Rank, h.Domain, h.Freshness.mark(), h.Freshness.AgeMS)
	}
	return t.Flush()
}

// mark is the state with what qualifies it, and why it is that:
// degraded,advisory (gap).
func (f *freshness) mark() string {
	s := f.State
	if f.Advisory {
		s += ",advisory"
	}
	if f.Silent {
		s += ",silent"
	}
	if f.Cause != "" {
		s += " (" + f.Cause + ")"
	}
	return s
}

// span is what was applied before and after the walk: one figure if equal.
func (f *freshness) span() string {
	s := strconv.FormatUint(f.Applied[0], 10)
	if f.Applied[0] != f.Applied[1] {
		s += "–" + strconv.FormatUint(f.Applied[1], 10)
	}
	return s
}
