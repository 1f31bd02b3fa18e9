package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-kv/cairn/cmd/cairn/config"
	"github.com/cairn-kv/cairn/engine"
)

// recordOptions say what serve records.
type recordOptions struct {
	out    string // "": nothing is recorded
	hashed bool
	wait   bool // streams wait for the disk
	dump   string
	limit  time.Duration // 0: until a signal comes
}

func newRecord() *cobra.Command {
	var file string
	var o recordOptions
	c := &cobra.Command{
		Use:   "record --config FILE --out FILE",
		Short: "Serve, and record everything the sources say",
		Long: `Do what cairn serve does, and write everything that the sources of the
configuration say into a new file, until a signal comes: what streams there are,
when their connections begin and end, and every message, with what a repair
brought in its place. cairn replay plays it again, to the same index, byte for
byte.

The file is packed with zstd in chunks of about a megabyte; what a crash costs is
the last second at most. With --hashed no prompts are in it: hashes of content
stand in the place of tokens, and no adapter, salt, extra key or session is
named. It replays to the same index all the same.

Streams wait for the disk, so that nothing is missing; with --never-wait messages
are left out and counted where the disk does not keep up, and answers never
suffer.`,
		Example: `  cairn record --config cairn.yaml --out incident.cairn
  cairn record --config cairn.yaml --out incident.cairn --hashed --for 10m --dump incident.dump
  cairn replay incident.cairn --compare incident.dump`,
		Args: noArguments,
	}
	values := settingFlags(c)
	f := c.Flags()
	f.StringVar(&file, "config", "", "configuration file (or CAIRN_CONFIG)")
	f.StringVar(&o.out, "out", "", "new file to record into (required)")
	f.BoolVar(&o.hashed, "hashed", false, "record no prompts: hashes in the place of tokens")
	f.DurationVar(&o.limit, "for", 0, "how long to record; 0: until a signal comes")
	f.StringVar(&o.dump, "dump", "", "write the dump of what is held in the end to a new file")
	never := f.Bool("never-wait", false, "leave messages out rather than wait for the disk")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if o.out == "" {
			return &usageError{errors.New("--out is missing; want the file to record into")}
		}
		if o.limit < 0 {
			return &usageError{fmt.Errorf("--for %v: want a duration, or 0 for no limit", o.limit)}
		}
		o.wait = !*never
		conf, err := configure(c, file, values)
		if err != nil {
			return &usageError{err}
		}
		return serve(c.Context(), conf, newLogger(c.ErrOrStderr(), conf.Log), o)
	}
	return c
}

// over is when the recording has lasted long enough, never without a limit.
func (o *recordOptions) over() <-chan time.Time {
	if o.limit == 0 {
		return nil
	}
	return time.After(o.limit)
}

// settingFlags adds a flag for every setting, and returns their values by name.
func settingFlags(c *cobra.Command) map[string]*string {
	values := map[string]*string{}
	for i := range config.Settings {
		s := &config.Settings[i]
		d := config.Default()
		usage := s.Usage
		if v := s.Get(&d); v != "" && !s.IsFlag() {
			usage += fmt.Sprintf(" (default %s)", v)
		}
		values[s.Flag()] = c.Flags().String(s.Flag(), "", usage)
		if s.IsFlag() {
			c.Flags().Lookup(s.Flag()).NoOptDefVal = "true"
		}
	}
	return values
}

// start begins a recording before there is anything to record. stop ends it: it
// is called while the engine is still open.
func (o *recordOptions) start(e *engine.Engine, log *slog.Logger) (stop func(context.Context) error, err error) {
	none := func(context.Context) error { return nil }
	f, err := os.OpenFile(o.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return none, &usageError{fmt.Errorf("--out: %w", err)}
	}
	var dump *os.File
	if o.dump != "" {
		if dump, err = os.OpenFile(o.dump, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return none, errors.Join(&usageError{fmt.Errorf("--dump: %w", err)}, f.Close(), os.Remove(o.out))
		}
	}
	rec, err := e.Record(f, engine.RecordOptions{Hashed: o.hashed, Wait: o.wait})
	if err != nil {
		return none, errors.Join(err, f.Close())
	}
	log.Info("recording", "out", o.out, "hashed", o.hashed, "wait", o.wait)
	return func(ctx context.Context) error {
		return o.stop(ctx, e, rec, dump, log)
	}, nil
}

// stop ends the recording, and writes the dump of what was held when it ended.
func (o *recordOptions) stop(ctx context.Context, e *engine.Engine, rec *engine.Recording, dump *os.File, log *slog.Logger) error {
	var errs []error
	if dump != nil {
		// The streams first: what is applied must be recorded, and nothing else.
		errs = append(errs, e.Quiesce(ctx))
		errs = append(errs, e.Dump(ctx, dump), dump.Close())
	}
	errs = append(errs, rec.Stop())
	st := rec.Stats()
	log.Info("recorded", "out", o.out, "records", st.Records, "lost", st.Lost, "bytes", st.Bytes, "unpacked", st.Raw)
	return errors.Join(errs...)
}
