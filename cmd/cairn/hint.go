package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cairn-kv/cairn/engine/hint"
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
	var target, messageID, carrier, hashes string
	var who bool
	var request string
	c := &cobra.Command{
		Use:   "hint --model MODEL --tokens IDS --target SOURCE[/RANK]",
		Short: "Ask a server for a peer-fetch hint",
		Long: `Ask a running server whether a peer of the target holds more of a prompt than
the target does itself. The answer is the kv.fetch message for the target, or
the reason why there is none:

  no_longer_source   nobody holds more than the target
  ineligible         somebody does and may not serve: detail says why
  target_incapable   the target is unknown or declares no hint role
  no_capable_worker  no source of the model takes part in hints
  policy_skip        a policy hook declined
  cost               the transfer would take longer than computing again

Details of ineligible: role (another worker type than the target's), endpoint
(none that the target's shards can dial), self (it is the target's own),
state_agent (its blocks are the engine's; only its cache owner's are fetched).

With --who, list instead who takes part in hints, and why others do not. With
--read, say what hint a request carries, as the worker that gets it would read
it; no server is asked.`,
		Example: `  cairn hint --model m --tokens 1,2,3,4,5,6,7,8 --target w2
  cairn hint --model m --tokens @prompt.json --target w2/1 --message-id req-42 --json
  cairn hint --who
  cairn hint --read request.json`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if who {
				return listPeers(c, &k, p.model)
			}
			if request != "" {
				return readHint(c, request)
			}
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
				Carrier   string `json:"carrier,omitempty"`
				Hashes    string `json:"hashes,omitempty"`
			}{q, t, messageID, carrier, hashes})
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
	c.Flags().StringVar(&carrier, "carrier", "", "how the request carries the hint, instead of the way the target declared: "+hint.Carriers)
	c.Flags().StringVar(&hashes, "hashes", "", "write block hashes as number or string (default number)")
	c.Flags().StringVar(&request, "read", "", "file with a request, or with a hint alone, to read instead of asking; - is standard input")
	c.Flags().BoolVar(&who, "who", false, "list who takes part in hints, and why others do not; of --model alone if it is given")
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
		Carrier   string          `json:"carrier"`
		Request   json.RawMessage `json:"request"`
		Source    *candidate      `json:"source"`
		Depth     int             `json:"depth"`
		Threshold int             `json:"threshold"`
		Eligible  int             `json:"eligible"`
		Reason    string          `json:"reason"`
		Detail    string          `json:"detail"`
		Note      string          `json:"note"`
		Best      *candidate      `json:"best"`
		Estimate  *struct {
			Gain      float64 `json:"gain_ms"`
			Recompute float64 `json:"recompute_ms"`
			Transfer  float64 `json:"transfer_ms"`
		} `json:"estimate"`
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
	} else if a.Source != nil {
		fmt.Fprintf(w, "fetch from %s/%d (%s): it holds %d blocks, the target %d\n", a.Source.Source, a.Source.Rank, a.Source.Domain, a.Depth, a.Threshold)
	}
	if a.Eligible > 1 {
		fmt.Fprintf(w, "%d sources might have served\n", a.Eligible)
	}
	if e := a.Estimate; e != nil {
		fmt.Fprintf(w, "recompute %.3f ms, transfer %.3f ms, gain %+.3f ms\n", e.Recompute, e.Transfer, e.Gain)
	}
	if a.Note != "" {
		fmt.Fprintf(w, "note: %s\n", a.Note)
	}
	if a.Hint == nil {
		return nil
	}
	message := a.Hint
	if a.Request != nil {
		fmt.Fprintf(w, "to merge into the request (%s):\n", a.Carrier)
		message = a.Request
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, message, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, pretty.String())
	return err
}

// listPeers prints who takes part in hints.
func listPeers(c *cobra.Command, k *client, model string) error {
	body, err := k.get(c.Context(), "/v1/hints")
	if err != nil {
		return err
	}
	if k.asJSON {
		_, err := c.OutOrStdout().Write(body)
		return err
	}
	var st struct {
		Hints      uint64            `json:"hints"`
		Domains    map[string]uint64 `json:"domains"`
		Reasons    map[string]uint64 `json:"reasons"`
		Ineligible map[string]uint64 `json:"ineligible"`
		Peers      []struct {
			Source     string `json:"source"`
			Rank       int    `json:"rank"`
			Domain     string `json:"domain"`
			Model      string `json:"model"`
			WorkerType string `json:"worker_type"`
			Target     bool   `json:"target"`
			Serves     bool   `json:"serves"`
			WhyNot     string `json:"why_not"`
			Endpoint   string `json:"endpoint"`
			Hinted     uint64 `json:"hinted"`
		} `json:"peers"`
	}
	if err := json.Unmarshal(body, &st); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	t := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SOURCE\tDOMAIN\tMODEL\tTYPE\tTARGET\tSOURCE OF HINTS\tENDPOINT\tHINTED")
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	for _, p := range st.Peers {
		if model != "" && p.Model != model {
			continue
		}
		serves := "yes"
		if !p.Serves {
			serves = "no: " + p.WhyNot
		}
		target := "no"
		if p.Target {
			target = "yes"
		}
		fmt.Fprintf(t, "%s/%d\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", p.Source, p.Rank, p.Domain, p.Model, dash(p.WorkerType), target, serves, dash(p.Endpoint), p.Hinted)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	w := c.OutOrStdout()
	fmt.Fprintf(w, "\n%d hints: %d of workers, %d of cache owners\n", st.Hints, st.Domains["worker"], st.Domains["cache_owner"])
	for _, of := range []struct {
		format string
		counts map[string]uint64
	}{{"no hint, %s: %d\n", st.Reasons}, {"ineligible, %s: %d\n", st.Ineligible}} {
		for _, name := range slices.Sorted(maps.Keys(of.counts)) {
			if n := of.counts[name]; n > 0 {
				fmt.Fprintf(w, of.format, name, n)
			}
		}
	}
	return nil
}

// maxRequest bounds a request that is read.
const maxRequest = 64 << 20

// readHint says what hint a request carries.
func readHint(c *cobra.Command, name string) error {
	in := c.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return &usageError{fmt.Errorf("--read: %w", err)}
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxRequest))
	if err != nil {
		return fmt.Errorf("--read %s: %w", name, err)
	}
	m, carrier, err := hint.Find(data)
	by := "carried as " + carrier.String()
	if errors.Is(err, hint.ErrNoHint) {
		if alone, parsed := hint.Parse(data); parsed == nil {
			m, by, err = alone, "a hint alone", nil
		}
	}
	if err != nil {
		return err
	}
	f := m.FirstFetch()
	w := c.OutOrStdout()
	fmt.Fprintf(w, "%s: fetch %d blocks from %s\n", by, len(f.Names), f.Endpoint)
	if m.ProtocolVersion != hint.ProtocolVersion {
		fmt.Fprintf(w, "protocol version %q: consumers know %q and warn\n", m.ProtocolVersion, hint.ProtocolVersion)
	}
	for _, a := range m.Actions {
		if a.Fetch == nil {
			fmt.Fprintf(w, "action %q is not understood, and ignored\n", a.Type)
		}
	}
	for _, n := range f.Names {
		fmt.Fprintln(w, n)
	}
	return nil
}
