package conformance

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/engine"
)

// transcript is one line of replay.jsonl: messages on the live and the replay
// socket.
type transcript struct {
	ID     string           `json:"id"`
	Steps  []transcriptStep `json:"steps"`
	Expect struct {
		Applied []string `json:"applied"`
		Topics  []string `json:"topics"`
		Cleared uint64   `json:"cleared"`
		Ignored uint64   `json:"ignored_replies"`
		History string   `json:"history"`
		Queries []struct {
			Tokens []uint32 `json:"tokens"`
			Device *int     `json:"device_blocks"`
		} `json:"queries"`
	} `json:"expect"`

	line int
}

// transcriptStep is one message, or what happens to the connection.
type transcriptStep struct {
	Do   string   `json:"do"`
	Hex  []string `json:"frames"`
	data [][]byte
}

// histories are the states that a transcript's words stand for.
var histories = map[string]engine.State{"whole": engine.Exact, "partial": engine.Degraded, "pending": engine.Repairing}

// transcriptBlock is the tokens of an index block of a transcript.
const transcriptBlock = 4

// parseTranscript reads one transcript. An unknown kind of step is an error.
func parseTranscript(l line) (*transcript, error) {
	t := &transcript{line: l.number}
	if err := l.decode(t); err != nil {
		return nil, err
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("line %d, %s: %s", l.number, t.ID, fmt.Sprintf(format, args...))
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		for _, h := range s.Hex {
			b, err := hex.DecodeString(h)
			if err != nil {
				return nil, fail("step %d: frames: %v", i, err)
			}
			s.data = append(s.data, b)
		}
		switch s.Do {
		case "live":
			if len(s.data) != 3 || len(s.data[1]) != 8 {
				return nil, fail("step %d: live: want topic, sequence of 8 bytes, payload", i)
			}
		case "request":
			if len(s.data) != 2 || len(s.data[1]) != 8 {
				return nil, fail("step %d: request: want an empty frame and 8 bytes", i)
			}
		case "reply", "reconnect", "timeout":
		default:
			return nil, fail("step %d: unknown kind of step %q", i, s.Do)
		}
	}
	if _, known := histories[t.Expect.History]; !known {
		return nil, fail("expect.history %q: want whole, partial or pending", t.Expect.History)
	}
	for i, q := range t.Expect.Queries {
		if q.Device == nil {
			return nil, fail("expect.queries[%d]: device_blocks is missing", i)
		}
	}
	for i, a := range t.Expect.Applied {
		if _, err := strconv.ParseUint(a, 10, 64); err != nil {
			return nil, fail("expect.applied[%d] %q: want a sequence", i, a)
		}
	}
	return t, nil
}

// playReplay plays transcripts, each on an engine of its own.
func playReplay(ctx context.Context, f *File, lines []line, o Options) error {
	for _, l := range lines {
		t, err := parseTranscript(l)
		if err != nil {
			return err
		}
		if err := (&transcriptRun{transcript: t, file: f}).play(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", t.ID, err)
		}
	}
	return nil
}

// transcriptRun is one run of a transcript.
type transcriptRun struct {
	*transcript
	file *File
	rig  *rig
	open *asked
	live uint64 // messages sent
	ups  uint64 // connections so far
}

// timeOut is how long a stream of a transcript in which nobody answers waits.
const timeOut = 500 * time.Millisecond

func (r *transcriptRun) play(ctx context.Context, o Options) (err error) {
	for _, s := range r.Steps {
		if s.Do == "timeout" {
			o.silence = timeOut
		}
	}
	if r.rig, err = newRig(o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.rig.close()) }()
	source := engine.Source{ID: r.ID, Model: defaultModel, Ranks: 1}
	if len(r.Expect.Topics) == 1 {
		source.Topic = r.Expect.Topics[0]
	}
	if err := r.rig.addRepaired(ctx, source); err != nil {
		return err
	}
	r.ups = 1
	defer func() { r.open.end() }()
	for i := range r.Steps {
		r.file.Played++
		if err := r.step(ctx, &r.Steps[i]); err != nil {
			return fmt.Errorf("step %d, %s: %w", i, r.Steps[i].Do, err)
		}
	}
	return r.check(ctx)
}

func (r *transcriptRun) step(ctx context.Context, s *transcriptStep) error {
	feed := r.rig.sources[r.ID].feeds[0]
	switch s.Do {
	case "live":
		seq := binary.BigEndian.Uint64(s.data[1])
		if err := r.rig.publish(r.ID, 0, string(s.data[0]), seq, s.data[2]); err != nil {
			return err
		}
		r.live++
		// Before the next step: replies and live messages have no order among
		// themselves but that of the transcript.
		return r.counts(ctx, "received", r.live)
	case "request":
		r.open.end()
		r.open = nil
		want := binary.BigEndian.Uint64(s.data[1])
		a, err := feed.replayer.wait(ctx, r.rig.options.patience)
		if errors.Is(err, errNotAsked) {
			compare(r.file, r.line, r.ID, "request", fmt.Sprint("from ", want), "none")
			return nil
		}
		if err != nil {
			return err
		}
		compare(r.file, r.line, r.ID, "request", fmt.Sprint("from ", want), fmt.Sprint("from ", a.from))
		r.open = a
	case "reply":
		if r.open != nil {
			r.open.send(s.data...)
		}
	case "reconnect":
		r.open.end()
		r.open = nil
		feed.publisher.Disconnect()
		r.ups++
		if err := r.counts(ctx, "connections", r.ups); err != nil {
			return err
		}
		return feed.publisher.WaitSubscribers(ctx, 1)
	case "timeout":
		return r.counts(ctx, "failed", 1)
	}
	return nil
}

// counts waits until the stream has counted n.
func (r *transcriptRun) counts(ctx context.Context, word string, n uint64) error {
	return r.rig.until(ctx, func() bool { return streamCount(r.rig.stream(r.ID, 0), word) >= n },
		func() string { return fmt.Sprintf("%s %d", word, n) })
}

// check compares what came of it.
func (r *transcriptRun) check(ctx context.Context) error {
	x := &r.Expect
	pending := x.History == "pending"
	if n := len(x.Applied); n > 0 && !pending {
		feed := r.rig.sources[r.ID].feeds[0]
		last, _ := strconv.ParseUint(x.Applied[n-1], 10, 64) // it was parsed before
		feed.last = last
		limit, cancel := context.WithTimeout(ctx, r.rig.options.patience)
		defer cancel()
		if err := r.rig.settle(limit, r.ID, 0); err != nil && ctx.Err() == nil {
			r.file.differ(r.line, r.ID, "applied", strings.Join(x.Applied, " "), err)
			return nil
		}
	}
	st := r.rig.stream(r.ID, 0)
	compare(r.file, r.line, r.ID, "number of batches applied", uint64(len(x.Applied)), streamCount(st, "applied"))
	compare(r.file, r.line, r.ID, "times emptied", x.Cleared, streamCount(st, "losses")+streamCount(st, "restarts"))
	compare(r.file, r.line, r.ID, "replies ignored", x.Ignored, streamCount(st, "malformed"))
	compare(r.file, r.line, r.ID, "history "+x.History, histories[x.History], st.State)
	for _, q := range x.Queries {
		a, err := r.rig.match(&engine.Query{Model: defaultModel, Tokens: q.Tokens})
		if err != nil {
			return err
		}
		got, withheld := 0, len(a.Flagged) == 1
		for _, h := range a.Holders {
			if h.Source == r.ID && h.Rank == 0 {
				got = h.Tokens.Device / transcriptBlock
			}
		}
		step := fmt.Sprintf("query of %d tokens", len(q.Tokens))
		if pending {
			// A source that is being repaired answers nothing, and says so.
			compare(r.file, r.line, r.ID, step+", withheld meanwhile", true, withheld && got == 0)
			continue
		}
		compare(r.file, r.line, r.ID, step, *q.Device, got)
	}
	return nil
}
