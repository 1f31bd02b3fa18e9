package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/perf/load"
)

// runLimit bounds one run of one contestant.
const runLimit = 3 * time.Minute

// entrant is a contestant with the command that runs it.
type entrant struct {
	contestant
	words []string
}

// match is a whole comparison.
type match struct {
	corpora     []*file
	contestants []entrant
	left        []string // out, and why
	modes       []string
	rounds      int
	window      float64
	notes       io.Writer
	command     string
	commit      string // when it began
	results     []played
}

// played is one run: the round tells which other runs it may be compared with.
type played struct {
	load.Result
	Round int `json:"round"`
	Every int `json:"every,omitempty"` // queries were sampled
}

// play makes all runs. It saves what there is after every round, for a long run
// may be cut short.
func (m *match) play(ctx context.Context, save func() error) error {
	for _, f := range m.corpora {
		for _, mode := range m.modes {
			rounds := m.rounds
			if mode == "verify" || mode == "memory" || mode == "sustained" {
				rounds = 1
			}
			out := map[string]bool{} // who skipped this or failed
			for round := range rounds {
				order := slices.Clone(m.contestants)
				if round%2 == 1 {
					slices.Reverse(order)
				}
				for _, e := range order {
					if out[e.name] || e.once && round > 0 {
						continue
					}
					p, err := m.one(ctx, f, e, mode)
					if ctx.Err() != nil {
						return ctx.Err()
					}
					if err != nil {
						fmt.Fprintf(m.notes, "run: %s on %s, %s: %v\n", e.name, f.name, mode, err)
						m.left = append(m.left, fmt.Sprintf("%s on %s, %s: %v", e.name, f.name, mode, err))
						out[e.name] = true
						continue
					}
					p.Round = round
					out[e.name] = p.Skipped != ""
					m.results = append(m.results, *p)
				}
				fmt.Fprintf(m.notes, "run: %s, %s, round %d of %d done at %s\n", f.name, mode, round+1, rounds, time.Now().Format(time.TimeOnly))
				if err := save(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// one makes one run.
func (m *match) one(ctx context.Context, f *file, e entrant, mode string) (*played, error) {
	if mode == "sustained" {
		return m.sustain(ctx, f, e)
	}
	every := 1
	if e.most > 0 && (mode == "closed" || mode == "verify") {
		every = max(1, f.totals.Queried/e.most)
	}
	return run1(ctx, f, e, mode, m.window, every)
}

func run1(ctx context.Context, f *file, e entrant, mode string, window float64, every int) (*played, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	args := append(slices.Clone(e.words[1:]), "-mode", mode, "-window", strconv.FormatFloat(window, 'f', -1, 64))
	if every > 1 {
		args = append(args, "-every", strconv.Itoa(every))
	}
	cmd := exec.CommandContext(ctx, e.words[0], append(args, f.path)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() == context.DeadlineExceeded {
			return nil, fmt.Errorf("not done within %v", runLimit)
		}
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	p := &played{}
	if err := json.Unmarshal(out.Bytes(), &p.Result); err != nil {
		return nil, fmt.Errorf("no result in %q: %w", out.String(), err)
	}
	p.Contestant = e.name
	if want := fmt.Sprintf("%016x", f.totals.Checksum); p.Checksum != want {
		return nil, fmt.Errorf("played a corpus with checksum %s; want %s", p.Checksum, want)
	}
	if every > 1 {
		p.Every = every
	}
	return p, nil
}

// sustain finds the highest rate that an entrant keeps up with. Only runs with a
// valid generator count.
func (m *match) sustain(ctx context.Context, f *file, e entrant) (*played, error) {
	var best, last *played
	_, err := bracket(4*m.window, func(window float64) (bool, error) {
		for range 3 {
			p, err := run1(ctx, f, e, "open", window, 1)
			if err != nil {
				return false, err
			}
			last = p
			if p.Skipped != "" {
				return false, errSkipped
			}
			if p.Metrics["valid"] == 1 {
				// Achieved is at least 99 % of what is offered.
				kept := p.Metrics["kept-up"] == 1 && p.Metrics["took-ms"]*.99 <= p.Metrics["window-ms"]
				if kept {
					best = p
				}
				return kept, nil
			}
		}
		return false, nil // the generator itself does not go so fast
	})
	if err == errSkipped {
		return last, nil
	}
	if err != nil {
		return nil, err
	}
	best.Mode = "sustained"
	return best, nil
}

var errSkipped = errors.New("skipped")

// bracket finds the shortest window that is kept, within 10 %: from the given
// one on windows are doubled until one is kept, halved until one is not, and
// what is between is halved then.
func bracket(window float64, keeps func(float64) (bool, error)) (float64, error) {
	const most = 12
	kept, broken := 0.0, 0.0
	for n := 0; kept == 0 || broken == 0; n++ {
		if n == most {
			return kept, fmt.Errorf("no end after windows up to %v s", window)
		}
		ok, err := keeps(window)
		if err != nil {
			return 0, err
		}
		if ok {
			kept = window
			window /= 2
		} else {
			broken = window
			window *= 2
		}
	}
	for kept/broken > 1.1 {
		middle := (kept + broken) / 2
		ok, err := keeps(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			kept = middle
		} else {
			broken = middle
		}
	}
	return kept, nil
}
