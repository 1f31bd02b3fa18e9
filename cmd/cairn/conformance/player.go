package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/ingest/wire"
)

// playCapture plays a recorded stream and compares every answer.
func playCapture(ctx context.Context, f *File, lines []line, o Options) error {
	if isPeer(lines) {
		return playPeer(ctx, f, lines, o)
	}
	if isAnswers(lines) {
		return playAnswers(ctx, f, lines, o)
	}
	c, err := parseCapture(lines)
	if err != nil {
		return err
	}
	if c.head.unsound() {
		if err := c.playRefusal(ctx, f, o); err != nil {
			return err
		}
	}
	if c.head.Engine != "sglang" || !older(c.head.Version, pythonRootUntil) {
		return (&captureRun{capture: c, file: f, root: true}).play(ctx, o)
	}
	// By the rules alone every block waits for a parent that never comes.
	byRules := &captureRun{capture: c, file: f, note: ", hash(()) is a parent"}
	if older(c.head.Version, pagesSince) {
		// One block per node, of any length: the engine's own answers count
		// parts of blocks, and only those by the rules can be compared.
		return byRules.play(ctx, o)
	}
	// Read as the engine means it, the answers are the engine's.
	asEngine := &captureRun{capture: c, file: f, root: true, engines: true, note: ", hash(()) is the root"}
	return errors.Join(asEngine.play(ctx, o), byRules.play(ctx, o))
}

// SGLang names the root parent by Python's hash(()) before pythonRootUntil,
// and announces pages instead of whole nodes since pagesSince.
const (
	pythonRootUntil = "0.5.1"
	pagesSince      = "0.4.8"
)

// captureRun is one run of a capture.
type captureRun struct {
	*capture
	file    *File
	root    bool   // hash(()) is the root
	engines bool   // compare with the engine's own answers, not with the rules'
	note    string // for reports

	rig     *rig
	partial map[string]bool // by stream: something before was lost, nothing cleared since
	holes   map[string]*hole
	next    map[string]uint64
	decoder wire.Decoder
}

func (r *captureRun) play(ctx context.Context, o Options) (err error) {
	source, err := r.source(r.root)
	if err != nil {
		return err
	}
	r.partial, r.next, r.holes = map[string]bool{}, map[string]uint64{}, map[string]*hole{}
	if r.rig, err = newRig(o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.rig.close()) }()
	if err := r.rig.addSource(ctx, source, r.repaired()); err != nil {
		return err
	}
	for i := range r.lines {
		if err := r.line(ctx, &r.lines[i]); err != nil {
			return fmt.Errorf("line %d: %w", r.lines[i].number, err)
		}
	}
	return nil
}

func (r *captureRun) line(ctx context.Context, x *captured) error {
	stream, _ := r.stream(x.Stream)
	switch x.Kind {
	case "msg":
		r.file.Played++
		if err := r.follow(x); err != nil {
			return err
		}
		return r.rig.publish(captureSource, stream.Rank, x.Topic, x.seq, x.data)
	case "query":
		if err := r.rig.settle(ctx, captureSource, stream.Rank); err != nil {
			return err
		}
		return r.ask(x, stream.Rank)
	case "state":
		if err := r.rig.settle(ctx, captureSource, stream.Rank); err != nil {
			return err
		}
		r.state(x)
	case "replay":
		return r.exchange(ctx, x, stream.Rank)
	}
	return nil
}

// repaired reports whether the capture's engine was asked for what was missing.
func (r *captureRun) repaired() bool {
	kinds := map[string]bool{}
	for i := range r.lines {
		kinds[r.lines[i].Kind] = true
	}
	return kinds["lost"] && kinds["replay"]
}

// follow keeps track of what of a stream's history is known: from a gap until
// everything is cleared, an answer may be less than the engine's.
func (r *captureRun) follow(x *captured) error {
	switch follows(x.seq, r.next[x.Stream]) {
	case repeated:
		return nil // dropped, whatever is in it
	case behindGap:
		r.holes[x.Stream] = &hole{span: span{r.next[x.Stream], x.seq - 1}, partial: r.partial[x.Stream]}
		r.partial[x.Stream] = true
	case restarted:
		r.partial[x.Stream] = x.seq > 0 // from its beginning or not
	}
	r.next[x.Stream] = x.seq + 1
	r.scan(x.Stream, x.data)
	if h := r.holes[x.Stream]; h != nil && !r.partial[x.Stream] {
		h.cleared = true
	}
	return nil
}

// scan looks for what a batch does to the history: one that cannot be decoded
// makes it partial, a clear makes it whole.
func (r *captureRun) scan(stream string, payload []byte) {
	if _, err := r.decoder.Reset(payload); err != nil {
		r.partial[stream] = true
		return
	}
	var e wire.Event
	for {
		more, err := r.decoder.Next(&e)
		if err != nil {
			r.partial[stream] = true
			return
		}
		if !more {
			return
		}
		if e.Kind == wire.Clear {
			r.partial[stream] = false
		}
	}
}

// depths are leading index blocks on the device and over any tier.
type depths struct{ device, any int }

func (d depths) String() string { return fmt.Sprintf("%d device, %d any", d.device, d.any) }

// ask compares one answer.
func (r *captureRun) ask(x *captured, rank int) error {
	a, err := r.rig.match(r.query(x))
	if err != nil {
		return err
	}
	var got depths
	for _, h := range a.Holders {
		if h.Source == captureSource && h.Rank == rank && h.Domain == hint.Worker {
			got = depths{h.Tokens.Device / r.head.IndexBlock, h.Tokens.Any / r.head.IndexBlock}
		}
	}
	right := x.Expect
	if x.Rules != nil && !r.engines {
		right = &x.Rules.leading
	}
	if right.Device == nil {
		return errors.New("query: rules.device_blocks is missing")
	}
	expected := depths{*right.Device, got.any}
	if right.Any != nil {
		expected.any = *right.Any
	}
	r.file.Checks++
	step := fmt.Sprintf("query of %d tokens after %s%s", len(x.Tokens), x.After, r.note)
	if x.History == "partial" || r.partial[x.Stream] {
		r.file.Bounds++
		if got.device > expected.device || got.any > expected.any {
			r.file.differ(x.number, x.Stream, step+", history partial", "at most "+expected.String(), got)
		}
		return nil
	}
	if got != expected {
		r.file.differ(x.number, x.Stream, step, expected, got)
	}
	return nil
}

// state compares the number of residencies where the capture's figure means
// what the index counts: all tiers of one stream with one cache group.
func (r *captureRun) state(x *captured) {
	reason := ""
	switch {
	case len(r.head.Streams) > 1:
		reason = "the index counts residencies of all streams together"
	case len(r.head.Config.Groups) > 1:
		reason = "the index does not count residencies of sparse groups"
	case r.partial[x.Stream]:
		reason = "history is partial"
	case r.hasHostTier() && x.ByTier == nil:
		reason = "the file tells the device's residencies alone"
	}
	if reason != "" {
		r.file.skip("state", reason)
		return
	}
	expected := *x.Resident
	if x.ByTier != nil {
		expected = x.ByTier["device"] + x.ByTier["host"]
	}
	if x.Rules != nil && !r.engines {
		expected = 0
		for _, n := range []*int{x.Rules.OnDevice, x.Rules.OnHost} {
			if n != nil {
				expected += *n
			}
		}
	}
	got := r.rig.total()
	r.file.Checks++
	// What a block behind a removed parent counts as depends on whether the
	// parent's meaning was forgotten, which rule 9 leaves open.
	if expected < got.Residencies || expected > got.Residencies+got.Waiting {
		r.file.differ(x.number, x.Stream, fmt.Sprintf("residencies after %s%s", x.After, r.note),
			expected, fmt.Sprintf("%d, and %d waiting", got.Residencies, got.Waiting))
	}
}
