package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-kv/cairn/engine/identity"
)

// owners is the part of /v1/owners that the tables show.
type owners struct {
	Owners []struct {
		Source    string    `json:"source"`
		Rank      int       `json:"rank"`
		Domain    string    `json:"domain"`
		Model     string    `json:"model"`
		BlockSize int       `json:"block_size"`
		Freshness freshness `json:"freshness"`
	} `json:"owners"`
	Slots []slot `json:"slots"`
	Hosts []struct {
		Scope    string `json:"scope"`
		MaxSlots int    `json:"max_slots"`
		Healthy  bool   `json:"healthy"`
		Error    string `json:"error"`
		Total    int    `json:"total_slots"`
		Active   int    `json:"active_slots"`
		Detached int    `json:"detached_slots"`
		Failed   int    `json:"failed_slots"`
		Rejected uint64 `json:"capacity_rejected_total"`
	} `json:"hosts"`
	Workers []struct {
		ID       string   `json:"id"`
		Scope    string   `json:"scope"`
		Owners   []string `json:"owners"`
		Out      []string `json:"out"`
		Complete bool     `json:"complete"`
		LeftMS   *int64   `json:"left_ms"`
		IdleMS   int64    `json:"idle_ms"`
		Renewals uint64   `json:"renewals"`
	} `json:"workers"`
	File *struct {
		Path    string            `json:"path"`
		Loaded  bool              `json:"loaded"`
		Workers int               `json:"workers"`
		Problem string            `json:"problem"`
		Failed  map[string]string `json:"failed"`
	} `json:"file"`
}

// slot is one slot of a cache owner.
type slot struct {
	Owner       string   `json:"owner"`
	Rank        uint32   `json:"rank"`
	Model       string   `json:"model"`
	State       string   `json:"state"`
	Flags       []string `json:"flags"`
	Outcome     string   `json:"outcome"`
	Schedulable bool     `json:"schedulable"`
	HintReady   bool     `json:"hint_ready"`
	Generation  uint64   `json:"generation"`
	Intents     []uint64 `json:"intents"`
	Attachment  *struct {
		Incarnation uint64 `json:"incarnation"`
		Worker      struct {
			ID uint64 `json:"id"`
		} `json:"worker"`
	} `json:"attachment"`
	Lease      string `json:"lease"`
	LeaseAgeMS int64  `json:"lease_age_ms"`
	Reason     string `json:"reason"`
	SinceMS    int64  `json:"since_ms"`
}

func newOwners() *cobra.Command {
	var k client
	var wide bool
	c := &cobra.Command{
		Use:   "owners",
		Short: "Show what a server's answers can name, and the slots and leases behind it",
		Long: `Show what a running server's answers can name: every source, rank and domain
with its state; then, where workers register themselves, the slots of cache
owners, the control scopes, the leases, and the watched file.

A slot's OUTCOME says whether its owner counts for its worker (ready) or why it
does not; HINT whether its blocks may be offered to others. REASON says what
happened last to a slot that is not ready.`,
		Example: `  cairn owners
  cairn owners --wide            # owner ids in full
  cairn owners --json | jq '.slots[] | select(.state != "attached")'`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			body, err := k.get(c.Context(), "/v1/owners")
			if err != nil {
				return err
			}
			if k.asJSON {
				_, err := c.OutOrStdout().Write(body)
				return err
			}
			var o owners
			if err := json.Unmarshal(body, &o); err != nil {
				return fmt.Errorf("the server's answer: %w", err)
			}
			return o.print(c.OutOrStdout(), wide)
		},
	}
	c.Flags().BoolVar(&wide, "wide", false, "print owner ids and scopes in full")
	k.flags(c.Flags())
	return c
}

// print writes the tables that have a row.
func (o *owners) print(w io.Writer, wide bool) error {
	short := brief
	if wide {
		short = func(s string) string { return s }
	}
	t := tables{w: w, begun: len(o.Owners) == 0}
	if len(o.Owners) == 0 {
		fmt.Fprintln(w, "no source is followed")
	}
	var rows [][]string
	for _, h := range o.Owners {
		source := h.Source
		if _, err := identity.ParseCacheOwnerID(source); err == nil {
			source = short(source)
		}
		rows = append(rows, []string{source, strconv.Itoa(h.Rank), h.Domain, h.Model, strconv.Itoa(h.BlockSize),
			h.Freshness.mark(), h.Freshness.span(), ms(int64(h.Freshness.LagMS)), ms(int64(h.Freshness.AgeMS))})
	}
	t.table("", "SOURCE RANK DOMAIN MODEL BLOCK STATE APPLIED LAG AGE", rows)
	rows = nil
	for _, s := range o.Slots {
		rows = append(rows, s.row(short))
	}
	t.table("slots of cache owners:", "OWNER RANK STATE OUTCOME HINT GEN WORKER INCARNATION LEASE IDLE REASON", rows)
	rows = nil
	for _, h := range o.Hosts {
		health := "yes"
		if !h.Healthy {
			health = "no: " + h.Error
		}
		rows = append(rows, []string{short(h.Scope), fmt.Sprintf("%d/%d", h.Total, h.MaxSlots), strconv.Itoa(h.Active), strconv.Itoa(h.Detached),
			strconv.Itoa(h.Failed), strconv.FormatUint(h.Rejected, 10), health})
	}
	t.table("control scopes:", "SCOPE SLOTS ACTIVE DETACHED FAILED REJECTED HEALTHY", rows)
	rows = nil
	for _, l := range o.Workers {
		kind, left := "plain", "no end"
		if l.Scope != "" {
			kind = fmt.Sprintf("%d owners", len(l.Owners))
		}
		if l.LeftMS != nil {
			left = ms(*l.LeftMS)
		}
		state := "complete"
		switch {
		case !l.Complete:
			state = "under way"
		case len(l.Out) > 0:
			state = fmt.Sprintf("%d out", len(l.Out))
		}
		rows = append(rows, []string{l.ID, kind, state, left, ms(l.IdleMS), strconv.FormatUint(l.Renewals, 10)})
	}
	t.table("registered workers:", "ID KIND STATE LEFT IDLE RENEWALS", rows)
	if f := o.File; f != nil && t.err == nil {
		fmt.Fprintf(w, "\nfile of workers %s: %d workers\n", f.Path, f.Workers)
		if f.Problem != "" {
			fmt.Fprintf(w, "  not taken as it is: %s\n", f.Problem)
		}
		rows = nil
		for _, id := range slices.Sorted(maps.Keys(f.Failed)) {
			rows = append(rows, []string{id, f.Failed[id]})
		}
		t.table("", "FAILED WHY", rows)
	}
	return t.err
}

// row is a slot's line.
func (s *slot) row(short func(string) string) []string {
	state := s.State
	if len(s.Flags) > 0 {
		state += "," + strings.Join(s.Flags, ",")
	}
	worker, incarnation := "-", "-"
	if s.Attachment != nil {
		worker, incarnation = strconv.FormatUint(s.Attachment.Worker.ID, 10), strconv.FormatUint(s.Attachment.Incarnation, 10)
	} else if len(s.Intents) > 0 {
		all := make([]string, len(s.Intents))
		for i, n := range s.Intents {
			all[i] = strconv.FormatUint(n, 10)
		}
		incarnation = "wants " + strings.Join(all, ",")
	}
	lease, idle := "-", "-"
	if s.Lease != "" {
		lease, idle = s.Lease, ms(s.LeaseAgeMS)
	}
	hint := "no"
	if s.HintReady {
		hint = "yes"
	}
	reason := strings.Join(strings.Fields(s.Reason), " ") // of one line
	if reason == "" {
		reason = "-"
	} else {
		reason += " (" + ms(s.SinceMS) + " ago)"
	}
	return []string{short(s.Owner), strconv.FormatUint(uint64(s.Rank), 10), state, s.Outcome, hint, strconv.FormatUint(s.Generation, 10),
		worker, incarnation, lease, idle, reason}
}

// brief keeps the ends of the parts of an id, which is where ids differ.
func brief(id string) string {
	const keep = 6
	var b strings.Builder
	for len(id) > 0 {
		n := strings.IndexAny(id, ":/")
		sep := ""
		if n < 0 {
			n = len(id)
		} else {
			sep = id[n : n+1]
		}
		if part := id[:n]; len(part) > keep+1 {
			b.WriteString("…" + part[len(part)-keep:])
		} else {
			b.WriteString(part)
		}
		b.WriteString(sep)
		id = id[n+len(sep):]
	}
	return b.String()
}

// ms writes milliseconds as a duration to the tenth of a second.
func ms(n int64) string {
	d := time.Duration(n) * time.Millisecond
	if d >= 10*time.Second {
		return d.Round(time.Second).String()
	}
	if d >= time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.String()
}

// tables writes tables one below the other.
type tables struct {
	w     io.Writer
	begun bool
	err   error
}

// table writes a title, column names divided by spaces, and rows. Without rows
// it writes nothing.
func (t *tables) table(title, columns string, rows [][]string) {
	if len(rows) == 0 || t.err != nil {
		return
	}
	if t.begun && title != "" {
		fmt.Fprintln(t.w)
	}
	t.begun = true
	if title != "" {
		fmt.Fprintln(t.w, title)
	}
	tw := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.ReplaceAll(columns, " ", "\t"))
	for _, r := range rows {
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	t.err = tw.Flush()
}
