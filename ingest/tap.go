package ingest

import "context"

// Tap sees what comes over a stream's links. Its methods are called on the
// stream's goroutine, in order; they must not keep what they are given.
type Tap interface {
	// Up says that a link begins.
	Up()
	// Message gives the frames of a message, before anything is done with it.
	Message(frames [][]byte)
	// Down says that the link has ended, and why.
	Down(err error)
}

// Tapped returns the options of a stream whose links t sees.
func Tapped(o Options, t Tap) Options {
	dial := o.dialer()
	o.Dial = func(ctx context.Context, h Hooks) (Link, error) {
		l, err := dial(ctx, h)
		if err != nil {
			return nil, err
		}
		t.Up()
		return &tapped{Link: l, tap: t}, nil
	}
	return o
}

// dialer is what makes the stream's links.
func (o *Options) dialer() dialFunc {
	if o.Dial != nil {
		return o.Dial
	}
	t := o.Transport
	t.Endpoint, t.Topics = o.Endpoint, []string{o.Topic}
	return dialer(t)
}

type tapped struct {
	Link
	tap Tap
}

func (l *tapped) Next() ([][]byte, error) {
	frames, err := l.Link.Next()
	if err != nil {
		l.tap.Down(err)
		return nil, err
	}
	l.tap.Message(frames)
	return frames, nil
}
