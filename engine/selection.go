package engine

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/cairn-kv/cairn/engine/hint"
)

// HintOptions change which of the sources that may serve a hint names. The zero
// value is the plain rule: the longest wins.
type HintOptions struct {
	// MinGainBlocks is how many blocks a source must be ahead of the target.
	// 0 and 1 mean strictly longer.
	MinGainBlocks int
	// Spread lets sources within SpreadWindowBlocks of the best compete: one is
	// drawn by the request's id, with chances of 1 / (1 + its load). A window of
	// 0 spreads ties alone. Loads are what SetPeerLoad and FetchStarted tell.
	Spread             bool
	SpreadWindowBlocks int
	// Cost compares the transfer with recomputing.
	Cost CostOptions
	// SuffixRanges lets sources offer a run of blocks that begins behind the
	// root, if it joins what the target holds. For targets whose cache library
	// goes by membership, as the newer ones do.
	SuffixRanges bool
	// Policy, if set, has the last word. It runs inside Hint, on the caller's
	// goroutine. See hint.Policy.
	Policy hint.Policy
}

// CostOptions are about seconds instead of blocks.
type CostOptions struct {
	// Enabled ranks sources by the seconds their transfer saves. Where the
	// coefficients of one source are unknown, length decides, which the answer
	// notes.
	Enabled bool
	// MinGain is what a transfer must save at least.
	MinGain time.Duration
	// MinConfidence is how far the coefficients must be trusted, 0 … 1.
	// Configured ones are not trusted before something was observed.
	MinConfidence float64
	// Coefficients are what is known beforehand; ObservePrefill and
	// ObserveTransfer refine them.
	Coefficients []CostCoefficients
}

// CostCoefficients are the configured coefficients of a model on a link. An
// empty Model or Link stands for all that are not named; the entry that names
// more wins, the model before the link.
type CostCoefficients struct {
	Model string
	Link  string // HintConfig.Link of the source
	// PerToken is the prefill time of a token at the beginning of a prompt,
	// PerPosition what each token before it adds; both in seconds, for both are
	// shorter than a nanosecond can say.
	PerToken    float64
	PerPosition float64
	// BytesPerToken is the size of a token's keys and values, all TP shards
	// together.
	BytesPerToken float64
	// BytesPerSecond is what the link carries, all shards' links together, and
	// Setup the time before the first byte.
	BytesPerSecond float64
	Setup          time.Duration
}

// MaxHintWindow bounds MinGainBlocks and SpreadWindowBlocks.
const MaxHintWindow = 1 << 20

// check refuses options that mean nothing.
func (o *HintOptions) check(bad func(field string, value any, want string) error) error {
	switch {
	case o.MinGainBlocks < 0 || o.MinGainBlocks > MaxHintWindow:
		return bad("hints.min_gain_blocks", o.MinGainBlocks, fmt.Sprintf("wants 1 … %d", MaxHintWindow))
	case o.SpreadWindowBlocks < 0 || o.SpreadWindowBlocks > MaxHintWindow:
		return bad("hints.spread_window_blocks", o.SpreadWindowBlocks, fmt.Sprintf("wants 0 … %d, or no spreading", MaxHintWindow))
	case o.SpreadWindowBlocks > 0 && !o.Spread:
		return bad("hints.spread_window_blocks", o.SpreadWindowBlocks, "goes with spreading only")
	case o.Cost.MinGain < 0:
		return bad("hints.cost.min_gain_seconds", o.Cost.MinGain, "wants 0 or more")
	case !(o.Cost.MinConfidence >= 0 && o.Cost.MinConfidence <= 1):
		return bad("hints.cost.min_confidence", o.Cost.MinConfidence, "wants 0 … 1")
	}
	for i := range o.Cost.Coefficients {
		c := &o.Cost.Coefficients[i]
		for _, f := range []struct {
			name string
			v    float64
		}{{"per_token", c.PerToken}, {"per_position", c.PerPosition}, {"bytes_per_token", c.BytesPerToken},
			{"bytes_per_second", c.BytesPerSecond}, {"setup_seconds", c.Setup.Seconds()}} {
			if !(f.v >= 0) || math.IsInf(f.v, 0) {
				return bad(fmt.Sprintf("hints.cost.coefficients[%d].%s", i, f.name), f.v, "wants 0 (unknown) or more")
			}
		}
		for j := range i {
			if d := &o.Cost.Coefficients[j]; d.Model == c.Model && d.Link == c.Link {
				return bad(fmt.Sprintf("hints.cost.coefficients[%d]", i), fmt.Sprintf("model %q, link %q", c.Model, c.Link), fmt.Sprintf("stands at [%d] already", j))
			}
		}
	}
	return nil
}

// rule is what decisions are given of the options.
func (o *HintOptions) rule() hint.Options {
	return hint.Options{
		MinGain: o.MinGainBlocks,
		Spread:  o.Spread, Window: o.SpreadWindowBlocks,
		Cost: o.Cost.Enabled, MinSeconds: o.Cost.MinGain.Seconds(), MinConfidence: o.Cost.MinConfidence,
		Ranges: o.SuffixRanges,
		Policy: o.Policy,
	}
}

// selection is an engine's own part in choosing sources: its options, and what
// it counts and learns.
type selection struct {
	rule  hint.Options
	costs costBook

	unnamed    atomic.Uint64 // requests without an id, which are numbered
	domains    [2]atomic.Uint64
	blocks     atomic.Uint64 // named by hints
	notes      [hint.NumNotes]atomic.Uint64
	badChoices atomic.Uint64
	warned     [numWarnings]atomic.Bool
}

// Warnings that are given once in the life of an engine.
const (
	warnNobody    = iota // no worker of a model takes part, or the index is not local
	warnBadChoice        // a policy chose what was not offered
	numWarnings
)

func newSelection(o *HintOptions) *selection {
	s := &selection{rule: o.rule()}
	s.costs.init(o.Cost.Coefficients)
	return s
}

// sample is what draws among competing sources: the request's id, so that the
// same request gets the same source, or a number of its own.
func (s *selection) sample(id string) uint64 {
	if id == "" {
		return s.unnamed.Add(1)
	}
	return xxhash.Sum64String(id)
}

// count takes note of what came of a call.
func (e *Engine) count(model string, h *HintAnswer, badChoice bool) {
	e.stats.hints[h.Reason].Add(1)
	e.stats.details[h.Detail].Add(1)
	s := e.selection
	if h.Note != hint.NoNote {
		s.notes[h.Note].Add(1)
	}
	switch h.Reason {
	case hint.Hinted:
		s.domains[h.Best.Domain].Add(1)
		s.blocks.Add(uint64(len(h.Names)))
	case hint.NoCapableWorker, hint.IndexNotLocal:
		if s.first(warnNobody) {
			e.opt.Logger.Warn("no hints for a model", "model", model, "reason", h.Reason.String())
		}
	case hint.PolicySkip:
		if badChoice {
			s.badChoices.Add(1)
			if s.first(warnBadChoice) {
				e.opt.Logger.Warn("the hint policy chose a source that it was not offered", "model", model)
			}
		}
	}
}

// first reports whether a warning was not given yet, and is now.
func (s *selection) first(warning int) bool {
	w := &s.warned[warning]
	return !w.Load() && w.CompareAndSwap(false, true)
}
