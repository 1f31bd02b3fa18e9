package conformance

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/cairn-kv/cairn/engine"
)

// scriptsFile holds the transport scripts that are played when a description
// in prose, transport.md, asks for them by name.
//
//go:embed scripts.jsonl
var scriptsFile []byte

// playScripts plays a file of transport scripts.
func playScripts(ctx context.Context, f *File, lines []line, o Options) error {
	for _, l := range lines {
		s, err := parseScript(l)
		if err != nil {
			return err
		}
		if err := playScript(ctx, f, s, o); err != nil {
			return fmt.Errorf("%s: %w", s.ID, err)
		}
	}
	return nil
}

var scriptHeading = regexp.MustCompile(`^## (Q\d+[a-z]?) · (.*)$`)

// playScriptNames plays the scripts that a transport.md describes: those that
// are built in, by the name in the heading. The others are named as skipped.
func playScriptNames(ctx context.Context, f *File, o Options) error {
	data, err := os.ReadFile(f.Name)
	if err != nil {
		return err
	}
	lines, err := scanLines(bytes.NewReader(scriptsFile))
	if err != nil {
		return err
	}
	known := map[string]*script{}
	for _, l := range lines {
		s, err := parseScript(l)
		if err != nil {
			return err
		}
		known[s.ID] = s
	}
	found := false
	text := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; text.Scan(); n++ {
		h := scriptHeading.FindStringSubmatch(text.Text())
		if h == nil {
			continue
		}
		found = true
		s := known[h[1]]
		if s == nil {
			f.skip(h[1]+" "+h[2], "no script of that name is built in")
			continue
		}
		s.line = n
		if err := playScript(ctx, f, s, o); err != nil {
			return fmt.Errorf("%s: %w", s.ID, err)
		}
	}
	if !found {
		return errors.New("no heading such as '## Q05 · …' in it")
	}
	return text.Err()
}

// playScript plays one script on an engine of its own.
func playScript(ctx context.Context, f *File, s *script, o Options) (err error) {
	r, err := newRig(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.addSource(ctx, engine.Source{ID: s.ID, Model: defaultModel, Ranks: 1, FirstSeq: s.FirstSeq}, s.Replay); err != nil {
		return err
	}
	p := &scriptRun{script: s, file: f, rig: r}
	defer func() { p.open.end() }()
	for i := range s.moves {
		if err := p.move(ctx, &s.moves[i]); err != nil {
			return fmt.Errorf("%q: %w", s.moves[i].text, err)
		}
	}
	return nil
}

// scriptRun is one run of a script.
type scriptRun struct {
	*script
	file *File
	rig  *rig
	open *asked // the request that is being answered
}

func (p *scriptRun) move(ctx context.Context, m *move) error {
	r, f, s := p.rig, p.file, p.script
	switch m.verb {
	case "live":
		for seq := m.first; ; seq++ {
			f.Played++
			if seq == reserved {
				// Refused as data, so that nothing waits for it.
				if err := r.raw(s.ID, 0, nil, sequenceFrame(seq), m.batch(seq)); err != nil {
					return err
				}
			} else if err := r.publish(s.ID, 0, "", seq, m.batch(seq)); err != nil {
				return err
			}
			if seq == m.last {
				return nil
			}
		}
	case "frames":
		f.Played++
		return r.raw(s.ID, 0, m.raw()...)
	case "request", "rp", "end":
		return p.replay(ctx, m)
	}
	if m.verb == "state" && m.state == engine.Repairing.String() {
		// Nothing to settle: what is published is held.
		limit, cancel := context.WithTimeout(ctx, r.options.patience)
		defer cancel()
		state := func() string { return r.stream(s.ID, 0).State.String() }
		_ = r.until(limit, func() bool { return state() == m.state }, func() string { return m.text })
		compare(f, s.line, s.ID, m.text, m.state, state())
		return nil
	}
	if err := r.settle(ctx, s.ID, 0); err != nil {
		return err
	}
	switch m.verb {
	case "?":
		a, err := r.match(&engine.Query{Model: defaultModel, Tokens: m.tokens})
		if err != nil {
			return err
		}
		got := 0
		for _, h := range a.Holders {
			if h.Source == s.ID && h.Rank == 0 {
				got = h.Tokens.Device / scriptBlock
			}
		}
		compare(f, s.line, s.ID, m.text, m.n, uint64(got))
	case "state":
		compare(f, s.line, s.ID, m.text, m.state, r.stream(s.ID, 0).State.String())
	case "requests":
		if p := r.sources[s.ID].feeds[0].replayer; p != nil {
			compare(f, s.line, s.ID, m.text, m.n, p.count.Load())
		}
	default:
		// What is dropped has no sequence to wait for: the count itself is awaited.
		limit, cancel := context.WithTimeout(ctx, r.options.patience)
		defer cancel()
		_ = r.until(limit, func() bool { return streamCount(r.stream(s.ID, 0), m.verb) == m.n }, func() string { return m.text })
		compare(f, s.line, s.ID, m.text, m.n, streamCount(r.stream(s.ID, 0), m.verb))
	}
	return nil
}

// replay plays what is said on the replay socket.
func (p *scriptRun) replay(ctx context.Context, m *move) error {
	switch m.verb {
	case "request":
		p.open.end()
		p.open = nil
		a, err := p.rig.sources[p.ID].feeds[0].replayer.wait(ctx, p.rig.options.patience)
		if errors.Is(err, errNotAsked) {
			compare(p.file, p.line, p.ID, m.text, fmt.Sprint("from ", m.first), "none")
			return nil
		}
		if err != nil {
			return err
		}
		compare(p.file, p.line, p.ID, m.text, fmt.Sprint("from ", m.first), fmt.Sprint("from ", a.from))
		p.open = a
	case "rp":
		for seq := m.first; p.open != nil; seq++ {
			p.file.Played++
			p.open.send(nil, sequenceFrame(seq), m.batch(seq))
			if seq == m.last {
				break
			}
		}
	case "end":
		if p.open != nil {
			p.open.send(nil, endMarker(), nil)
			p.open.end()
			p.open = nil
		}
	}
	return nil
}

// reserved is the sequence of the end marker of a replay: never data.
const reserved = 1<<64 - 1

// raw renders the frames of a malformed message.
func (m *move) raw() [][]byte {
	var frames [][]byte
	for _, f := range m.frames {
		switch f {
		case "topic":
			frames = append(frames, nil)
		case "sequence":
			frames = append(frames, sequenceFrame(0))
		case "sequence7":
			frames = append(frames, sequenceFrame(0)[1:])
		case "payload":
			frames = append(frames, vllmMap.batch(0))
		case "extra":
			frames = append(frames, []byte("extra"))
		}
	}
	return frames
}
