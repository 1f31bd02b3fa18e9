package load

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"

	"github.com/cairn-kv/cairn/perf/corpus"
)

// Options are the settings of one run.
type Options struct {
	Mode   string        // "closed", "beside", "open", "memory" or "verify"
	Every  int           // of queries, only every so manieth is asked in closed and verify; 0: all
	Window time.Duration // of beside and open
	// Enough is how much measured time a closed run wants: a small corpus is
	// played again on a new index, up to eight times, until there is so much.
	// 0: 200 ms.
	Enough time.Duration
}

// Modes are all modes there are.
var Modes = []string{"closed", "beside", "open", "memory", "verify"}

// Run plays a corpus on a contestant once.
func Run(c *corpus.Corpus, who *Contestant, o Options) (*Result, error) {
	r := &Result{
		Contestant: who.Name, About: who.About, Corpus: c.Header.Name, Mode: o.Mode,
		Checksum: fmt.Sprintf("%016x", c.Totals.Checksum),
	}
	if err := who.takes(c.Header); err != nil {
		r.Skipped = err.Error()
		return r, nil
	}
	var err error
	switch o.Mode {
	case "closed":
		r.Metrics, err = closed(c, who, o)
	case "beside":
		r.Metrics, err = beside(c, who, o)
	case "open":
		r.Metrics, err = open(c, who, o)
	case "memory":
		r.Metrics, err = memory(c, who)
	case "verify":
		r.Metrics, err = verify(c, who, o)
	default:
		err = fmt.Errorf("load: mode %q; want one of %v", o.Mode, Modes)
	}
	if err == nil && r.Metrics == nil {
		r.Skipped = "readers and writer do not work beside each other"
	}
	return r, err
}

// Drive is the whole program of a driver: it plays the corpus that the arguments
// name and prints the result as one line of JSON. It returns the exit status.
func Drive(who Contestant, args []string, out, errs io.Writer) int {
	var o Options
	flags := flag.NewFlagSet(who.Name, flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.Mode, "mode", "closed", "closed, beside, open, memory or verify")
	flags.IntVar(&o.Every, "every", 1, "ask only every so manieth query (closed, verify)")
	window := flags.Float64("window", 1, "seconds that beside and open take")
	profile := flags.String("cpuprofile", "", "file for a CPU profile of the run, the corpus read before it")
	flags.Usage = func() {
		fmt.Fprintf(errs, "usage: %s [flags] CORPUS\n", who.Name)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return 2
	}
	o.Window = time.Duration(*window * float64(time.Second))
	err := func() error {
		c, err := corpus.ReadFile(flags.Arg(0))
		if err != nil {
			return err
		}
		stop, err := startProfile(*profile)
		if err != nil {
			return err
		}
		r, err := Run(c, &who, o)
		if perr := stop(); err == nil {
			err = perr
		}
		if err != nil {
			return err
		}
		return r.WriteJSON(out)
	}()
	if err != nil {
		fmt.Fprintf(errs, "%s: %v\n", who.Name, err)
		return 1
	}
	return 0
}

// startProfile begins a CPU profile, none without a name.
func startProfile(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
