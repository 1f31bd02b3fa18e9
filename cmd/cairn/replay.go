package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-kv/cairn/cmd/cairn/config"
	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/server"
	"github.com/cairn-kv/cairn/ingest/journal"
)

// replaying is what cairn replay was asked for.
type replaying struct {
	speed                 float64
	from, until           string
	dump, compare, export string
	info, asJSON          bool
	listen                string
	shards                int
	logLevel              string
}

func newReplay() *cobra.Command {
	var o replaying
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "Play a recording, and see what the index was",
		Long: `Play a recording of cairn record into an index of its own, through streams like
any others: they judge, decode and answer as they did. What comes out is the same
at any speed, byte for byte: --dump writes it, --compare holds it against a dump
that was made beside the recording.

A file that was cut off by a crash is played as far as it is whole. With --listen
the routes of cairn serve answer from what is played, while it is played and
until a signal comes.

Times are RFC 3339, or durations from the recording's begin such as +90s.`,
		Example: `  cairn replay incident.cairn --info
  cairn replay incident.cairn --compare incident.dump
  cairn replay incident.cairn --until +10m --dump at-ten-minutes.dump
  cairn replay incident.cairn --speed 10 --listen 127.0.0.1:8090
  cairn replay incident.cairn --export captures/   # for cairn check`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Errorf("want one recording, %d are named; see cairn replay --help", len(args))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args[0]) },
	}
	f := c.Flags()
	f.Float64Var(&o.speed, "speed", 0, "seconds of the recording that pass in one; 0: as fast as possible")
	f.StringVar(&o.from, "from", "", "leave out what was recorded before")
	f.StringVar(&o.until, "until", "", "end in front of what was recorded later")
	f.StringVar(&o.dump, "dump", "", "write the dump of what is held in the end to a new file; - is standard output")
	f.StringVar(&o.compare, "compare", "", "compare the dump with a file; the exit status is 1 if they differ")
	f.StringVar(&o.export, "export", "", "write one file per source that cairn check plays into this folder")
	f.BoolVar(&o.info, "info", false, "describe the recording and play nothing")
	f.BoolVar(&o.asJSON, "json", false, "print the report as JSON")
	f.StringVar(&o.listen, "listen", "", "address to answer questions at, loopback only")
	f.IntVar(&o.shards, "shards", 1, "index shards to play on")
	f.StringVar(&o.logLevel, "log-level", "error", "debug, info, warn or error")
	return c
}

func (o *replaying) run(c *cobra.Command, name string) (err error) {
	r, err := journal.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	in := r.Info()
	if o.info {
		return describeRecording(c.OutOrStdout(), r, o.asJSON)
	}
	play := engine.ReplayOptions{Speed: o.speed}
	for _, at := range []struct {
		flag, text string
		t          *time.Time
	}{{"--from", o.from, &play.From}, {"--until", o.until, &play.Until}} {
		if *at.t, err = moment(at.text, in.From); err != nil {
			return &usageError{fmt.Errorf("%s %q: %w", at.flag, at.text, err)}
		}
	}
	var want []byte
	if o.compare != "" {
		if want, err = os.ReadFile(o.compare); err != nil {
			return &usageError{fmt.Errorf("--compare: %w", err)}
		}
	}
	log := newLogger(c.ErrOrStderr(), config.Log{Level: o.logLevel})
	e, err := engine.Open(engine.Options{Shards: o.shards, Logger: log, SilentAfter: -1})
	if err != nil {
		return &usageError{err}
	}
	s := &service{log: log, failed: make(chan error, 1), workers: &registering{}}
	defer func() {
		limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, s.shutdown(limit), e.Close(limit))
	}()
	if o.listen != "" {
		if err := o.answer(c, e, s); err != nil {
			return err
		}
	}
	began := time.Now()
	report, err := e.Replay(c.Context(), r, play)
	if perr := o.print(c.OutOrStdout(), &report, time.Since(began)); err == nil {
		err = perr
	}
	if err != nil {
		return err
	}
	if err := o.results(c, e, r, want); err != nil {
		return err
	}
	if o.listen != "" {
		select {
		case <-c.Context().Done():
		case err := <-s.failed:
			return err
		}
	}
	return nil
}

// answer serves the routes over the index that is played into.
func (o *replaying) answer(c *cobra.Command, e *engine.Engine, s *service) error {
	if _, err := server.CheckBind(o.listen, false, false, false); err != nil {
		return &usageError{fmt.Errorf("--listen: %w", err)}
	}
	api, err := server.New(server.Options{Engine: e, Logger: s.log, Version: thisBuild().Version})
	if err != nil {
		return err
	}
	addr, err := s.listen(c.Context(), "routes", o.listen, api.Handler(), nil)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.ErrOrStderr(), "answering at http://%s\n", addr)
	return err
}

// results does what was asked for behind the replay.
func (o *replaying) results(c *cobra.Command, e *engine.Engine, r *journal.Reader, want []byte) error {
	if o.dump == "" && o.compare == "" && o.export == "" {
		return nil
	}
	var dump bytes.Buffer
	if err := e.Dump(c.Context(), &dump); err != nil {
		return err
	}
	if o.dump != "" {
		w, done, err := creating(c, o.dump)
		if err != nil {
			return &usageError{fmt.Errorf("--dump: %w", err)}
		}
		_, err = w.Write(dump.Bytes())
		if err := errors.Join(err, done()); err != nil {
			return fmt.Errorf("--dump: %w", err)
		}
	}
	if o.export != "" {
		if err := exportCaptures(r, dump.Bytes(), o.export); err != nil {
			return fmt.Errorf("--export: %w", err)
		}
	}
	if o.compare == "" {
		return nil
	}
	if bytes.Equal(want, dump.Bytes()) {
		_, err := fmt.Fprintf(c.OutOrStdout(), "the dump is the same: %d lines\n", bytes.Count(want, []byte("\n")))
		return err
	}
	if err := writeDifference(c.OutOrStdout(), string(want), dump.String()); err != nil {
		return err
	}
	return errReported
}

// moment reads a time, or a duration from the begin of a recording.
func moment(text string, begin time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if after, ok := strings.CutPrefix(text, "+"); ok {
		d, err := time.ParseDuration(after)
		if err != nil || d < 0 {
			return time.Time{}, errors.New("want a duration such as +90s")
		}
		return begin.Add(d), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, errors.New("want a time such as 2026-11-30T10:00:00Z, or a duration from the begin such as +90s")
	}
	return t, nil
}

// print tells what was played.
func (o *replaying) print(w io.Writer, r *engine.ReplayReport, took time.Duration) error {
	if o.asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Records  uint64    `json:"records"`
			Messages uint64    `json:"messages"`
			Sources  int       `json:"sources"`
			From     time.Time `json:"from"`
			To       time.Time `json:"to"`
			Seconds  float64   `json:"seconds"`
			Whole    bool      `json:"whole"`
			Lost     uint64    `json:"lost"`
			Damaged  int       `json:"damaged_chunks"`
			Torn     int64     `json:"torn_bytes"`
		}{r.Records, r.Messages, r.Sources, r.From, r.To, took.Seconds(), r.Whole(), r.Lost, r.Damaged, r.Torn})
	}
	fmt.Fprintf(w, "played %d records: %d messages of %d sources, %v in %v\n",
		r.Records, r.Messages, r.Sources, r.To.Sub(r.From).Round(time.Millisecond), took.Round(time.Millisecond))
	if r.Lost > 0 {
		fmt.Fprintf(w, "%d records are missing: the recording itself says so\n", r.Lost)
	}
	if r.Damaged > 0 {
		fmt.Fprintf(w, "%d chunks are damaged and were left out\n", r.Damaged)
	}
	if r.Torn > 0 {
		fmt.Fprintf(w, "the recording was cut off: its last %d bytes are no whole chunk\n", r.Torn)
	}
	return nil
}

// shownDifferences is how many lines of each kind a comparison shows.
const shownDifferences = 10

// writeDifference shows which lines two dumps do not share. Their lines are
// sorted, so that a walk over both finds them.
func writeDifference(w io.Writer, want, got string) error {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	in := func(lines []string) map[string]int {
		n := map[string]int{}
		for _, l := range lines {
			n[l]++
		}
		return n
	}
	inA, inB := in(a), in(b)
	show := func(sign string, lines []string, other map[string]int) error {
		n := 0
		for _, l := range lines {
			if other[l] > 0 {
				other[l]--
				continue
			}
			if n++; n <= shownDifferences {
				if _, err := fmt.Fprintf(w, "%s %s\n", sign, l); err != nil {
					return err
				}
			}
		}
		if n > shownDifferences {
			fmt.Fprintf(w, "%s … and %d more\n", sign, n-shownDifferences)
		}
		return nil
	}
	if _, err := fmt.Fprintln(w, "the dumps differ (- the file's, + the replay's):"); err != nil {
		return err
	}
	return errors.Join(show("-", a, inB), show("+", b, inA))
}
