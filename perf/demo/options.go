package demo

import (
	"io"
	"os"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/perf/fleet"
)

// Defaults of Options.
const (
	DefaultDuration = 30 * time.Second
	DefaultDrivers  = 2
	DefaultRest     = 400
)

// Options configure a run. The zero value is good.
type Options struct {
	// Duration is how long requests are made; the end takes a few seconds
	// more. 0 means DefaultDuration.
	Duration time.Duration
	// Requests ends the run early, after so many. 0: only Duration counts.
	Requests int
	// Engines of the fleet; nil means fleet.Default.
	Engines []fleet.Engine
	// Break falsifies what the fleet publishes, to see the judge notice.
	Break fleet.Break
	// Loss loses messages on the way. The engines keep them for replay, so
	// nothing is lost for good, and all is exact again in the end.
	Loss fleet.Loss
	// Seed makes the fleet's and the router's choices repeatable, as far as
	// the scheduler lets them.
	Seed uint64
	// Drivers is the number of goroutines that make requests; 0 means
	// DefaultDrivers.
	Drivers int
	// Rest is the number of prompts whose answers are checked to the block
	// when all is applied; 0 means DefaultRest.
	Rest int
	// JSON: write the summary as one JSON object and nothing else.
	JSON bool
	// Live: the output is a terminal, the status is one line written over
	// again. Otherwise it is a line every few seconds. See Terminal.
	Live bool
}

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	i, err := f.Stat()
	return err == nil && i.Mode()&os.ModeCharDevice != 0
}

func (o *Options) fill() {
	if o.Duration <= 0 {
		o.Duration = DefaultDuration
	}
	if o.Drivers <= 0 {
		o.Drivers = DefaultDrivers
	}
	if o.Rest <= 0 {
		o.Rest = DefaultRest
	}
}

// lossy reports whether messages are lost.
func (o *Options) lossy() bool { return o.Loss != fleet.Loss{} }

// replay is how many batches a stream keeps for replay.
func (o *Options) replay() int {
	if !o.lossy() {
		return 0
	}
	return 10_000 // as vLLM does
}

// repair is how what was lost is asked for: by far more often than an engine's
// replay socket should be, since losses are the point.
func (o *Options) repair() engine.RepairOptions {
	if !o.lossy() {
		return engine.RepairOptions{}
	}
	return engine.RepairOptions{Cooldown: -1, ProbeAfter: 200 * time.Millisecond}
}
