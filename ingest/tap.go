package ingest

import (
	"context"
	"encoding/binary"
)

// Tap sees what a stream does with what it receives, in the order in which it
// does it: enough to do the same again without asking anybody. Its methods are
// called on the stream's goroutine; they must not keep what they are given.
type Tap interface {
	// Up says that a link begins.
	Up()
	// Message gives the frames of a message of the link, once it is dealt with.
	Message(frames [][]byte, f Fate)
	// Merged says that the message with this sequence, held so far, is about to
	// be applied.
	Merged(seq uint64)
	// Replayed gives a batch that a replay has brought and that is about to be
	// applied.
	Replayed(seq uint64, payload []byte)
	// Restarted says that what is applied next begins the history of a process
	// that has shown itself to be another one, whatever its sequence.
	Restarted()
	// Restored says that everything was replaced by a snapshot: what follows
	// cannot be done again from what the tap has seen.
	Restored()
	// Down says that the link has ended, and why.
	Down(err error)
}

// Fate is what became of a message.
type Fate uint8

const (
	// Dealt: it was applied.
	Dealt Fate = iota
	// Held: it waits for a repair, see Tap.Merged.
	Held
	// Dropped: it came before, belongs to a fenced source, or is no batch.
	Dropped
)

// Tapped returns the options of a stream that t sees.
func Tapped(o Options, t Tap) Options {
	dial := o.Dial
	if dial == nil {
		z := o.Transport
		if o.Attached != nil {
			z.MaxMessage = maxAttachedMessage
		}
		z.Endpoint, z.Topics = o.Endpoint, []string{o.Topic}
		dial = dialer(z)
	}
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

// tapped is a link of a stream that is tapped.
type tapped struct {
	Link
	tap    Tap
	frames [][]byte // of the message that the stream is at
	fate   Fate
}

func (l *tapped) Next() ([][]byte, error) {
	l.settle()
	frames, err := l.Link.Next()
	if err != nil {
		l.tap.Down(err)
		return nil, err
	}
	l.frames, l.fate = frames, Dropped
	return frames, nil
}

// settle tells what became of the message that the stream was at.
func (l *tapped) settle() {
	if l.frames != nil {
		l.tap.Message(l.frames, l.fate)
		l.frames = nil
	}
}

// tapped returns the stream's link if it is tapped, else nil.
func (s *Stream) tapped() *tapped {
	if l := s.link.Load(); l != nil {
		if t, ok := (*l).(*tapped); ok {
			return t
		}
	}
	return nil
}

// tapApplies notes that the batch at hand is being applied.
func (s *Stream) tapApplies() {
	if t := s.tapped(); t != nil && t.frames != nil && len(t.frames) == 3 && len(t.frames[1]) == 8 && binary.BigEndian.Uint64(t.frames[1]) == s.seq {
		t.fate = Dealt
	}
}

// tapHeld notes that the message at hand is held.
func (s *Stream) tapHeld() {
	if t := s.tapped(); t != nil {
		t.fate = Held
		t.settle() // at once, for it may be merged at once
	}
}

// tapMerged notes that a message that was held is applied next.
func (s *Stream) tapMerged(seq uint64) {
	if t := s.tapped(); t != nil {
		t.tap.Merged(seq)
	}
}

// tapReplayed notes that a batch of a replay is applied next.
func (s *Stream) tapReplayed(seq uint64, payload []byte) {
	if t := s.tapped(); t != nil {
		t.tap.Replayed(seq, payload)
	}
}

// tapRestarted notes that the publisher is another process.
func (s *Stream) tapRestarted() {
	if t := s.tapped(); t != nil {
		t.tap.Restarted()
	}
}

// tapRestored notes that a snapshot has replaced everything.
func (s *Stream) tapRestored() {
	if t := s.tapped(); t != nil {
		t.tap.Restored()
	}
}
