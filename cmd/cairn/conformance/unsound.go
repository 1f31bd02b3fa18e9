package conformance

import (
	"context"
	"errors"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest"
)

// Between these SGLang names no parent of the first page of a node, so that its
// events cannot be put together again.
const (
	unsoundSince = "0.5.1"
	soundSince   = "0.5.6"
)

// unsound reports whether a capture is of a release that must be refused unless
// its source takes it on purpose.
func (h *head) unsound() bool {
	return h.Engine == "sglang" && !older(h.Version, unsoundSince) && older(h.Version, soundSince)
}

// playRefusal plays the messages of an unsound release to a source that does not
// take it: it must be fenced, say why, and answer nothing.
func (c *capture) playRefusal(ctx context.Context, f *File, o Options) (err error) {
	source, err := c.source(true)
	if err != nil {
		return err
	}
	source.TakeUnsound = false
	r, err := newRig(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.add(ctx, source); err != nil {
		return err
	}
	for i := range c.lines {
		x := &c.lines[i]
		stream, _ := c.stream(x.Stream)
		if x.Kind == "msg" {
			if err := r.publish(captureSource, stream.Rank, x.Topic, x.seq, x.data); err != nil {
				return err
			}
		}
	}
	for _, s := range c.head.Streams {
		if err := r.settle(ctx, captureSource, s.Rank); err != nil {
			return err
		}
		st := r.stream(captureSource, s.Rank)
		compare(f, 1, s.Name, "state of a source that does not take the release", engine.Fenced.String()+", "+string(ingest.CauseUnsound), st.State.String()+", "+st.Cause)
	}
	compare(f, 1, c.head.ID, "residencies of a source that does not take the release", 0, r.total().Residencies)
	return nil
}
