package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// answers are what a peer's indexer said to the questions of a capture after
// the same messages. The capture is a file of its own.
type answers struct {
	ID    string `json:"id"`
	Of    string `json:"of"` // the capture
	Block int    `json:"index_block"`
	list  []peerAnswer
}

// peerAnswer is one line of answers.
type peerAnswer struct {
	Query  *int            `json:"query"` // which question of the capture, from 0
	Stream string          `json:"stream"`
	After  string          `json:"after"`
	Device *int            `json:"dynamo_device"` // blocks
	Raw    json.RawMessage `json:"dynamo_raw"`

	any    int // blocks over any tier
	number int
}

// apart says to which captures the peer answers too little now and then, and
// why. Everywhere else, and otherwise, its answers are those of the rules.
var apart = map[string]string{
	"s0518-eagle-p16-a":             "the peer's query cannot ask for windows that look ahead",
	"s0523-eagle-p16-a":             "the peer's query cannot ask for windows that look ahead",
	"s0523-namespaces-dynamo-p16-a": "the peer refuses blocks behind a second name of known content",
}

// isAnswers reports whether a file holds a peer's answers.
func isAnswers(lines []line) bool {
	var kind struct {
		Kind string `json:"kind"`
	}
	return len(lines) > 1 && lines[1].decode(&kind) == nil && kind.Kind == "answer"
}

func parseAnswers(lines []line) (*answers, error) {
	a := &answers{}
	if err := lines[0].decode(a); err != nil {
		return nil, err
	}
	if a.Of == "" || a.Of != filepath.Base(a.Of) || a.Block < 1 {
		return nil, fmt.Errorf("line %d: of %q, index_block %d: want the name of a capture and the tokens of a block", lines[0].number, a.Of, a.Block)
	}
	for _, l := range lines[1:] {
		x := peerAnswer{number: l.number}
		if err := l.decode(&x); err != nil {
			return nil, err
		}
		var raw struct {
			Longest int `json:"longest_matched"` // tokens
		}
		if x.Query == nil || x.Device == nil {
			return nil, fmt.Errorf("line %d: query or dynamo_device is missing", l.number)
		}
		if err := json.Unmarshal(x.Raw, &raw); err != nil {
			return nil, fmt.Errorf("line %d: dynamo_raw: %w", l.number, err)
		}
		x.any = raw.Longest / a.Block
		a.list = append(a.list, x)
	}
	return a, nil
}

// capture reads the capture that a file of answers is about: it lies in the same
// folder, or in that of its engine beside it.
func (a *answers) capture(name string) (*capture, string, error) {
	dir := filepath.Dir(name)
	var missing error
	for _, at := range []string{filepath.Join(dir, a.Of), filepath.Join(filepath.Dir(dir), "sglang", a.Of), filepath.Join(filepath.Dir(dir), "vllm", a.Of)} {
		for _, end := range []string{".jsonl.zst", ".jsonl"} {
			lines, err := readLines(at + end)
			if errors.Is(err, os.ErrNotExist) {
				missing = err
				continue
			}
			if err != nil {
				return nil, "", err
			}
			c, err := parseCapture(lines)
			return c, at + end, err
		}
	}
	return nil, "", missing
}

// playAnswers plays the capture and compares with the peer's answers instead of
// the engine's.
func playAnswers(ctx context.Context, f *File, lines []line, o Options) error {
	a, err := parseAnswers(lines)
	if err != nil {
		return err
	}
	c, name, err := a.capture(f.Name)
	if errors.Is(err, os.ErrNotExist) {
		f.skip("answer", fmt.Sprintf("the capture %s is not beside the file", a.Of))
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if c.lines, err = a.ask(f, c); err != nil {
		return err
	}
	// The peer takes SGLang's hash(()) for a parent like any other.
	root := c.head.Engine != "sglang" || !older(c.head.Version, pythonRootUntil)
	return (&captureRun{capture: c, file: f, root: root, note: ", " + a.ID}).play(ctx, o)
}

// ask returns the messages of a capture with its questions, and the peer's
// answers to them.
func (a *answers) ask(f *File, c *capture) ([]captured, error) {
	var lines []captured
	question := 0
	for _, x := range c.lines {
		if x.Kind != "query" {
			if x.Kind == "msg" || x.Kind == "lost" {
				lines = append(lines, x)
			}
			continue
		}
		i := slices.IndexFunc(a.list, func(p peerAnswer) bool { return *p.Query == question })
		question++
		if i < 0 {
			continue
		}
		p := a.list[i]
		if p.Stream != x.Stream || p.After != x.After {
			return nil, fmt.Errorf("line %d: query %d is about %q after %s in the capture", p.number, *p.Query, x.Stream, x.After)
		}
		right := *x.Expect
		if x.Rules != nil && x.Rules.Device != nil {
			right = x.Rules.leading
		}
		if why := apart[a.Of]; why != "" && *p.Device < *right.Device {
			f.skip("answer", why)
			continue
		}
		x.Expect, x.Rules, x.number = &leading{Device: p.Device, Any: &p.any}, nil, p.number
		lines = append(lines, x)
	}
	for i, p := range a.list {
		first := slices.IndexFunc(a.list, func(o peerAnswer) bool { return *o.Query == *p.Query })
		if *p.Query < 0 || *p.Query >= question || first != i {
			return nil, fmt.Errorf("line %d: query %d: want one of the %d of %s, each once", p.number, *p.Query, question, a.Of)
		}
	}
	return lines, nil
}
