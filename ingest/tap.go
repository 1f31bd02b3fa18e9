package ingest

import "context"

// Tap sees what a stream does with what it receives, in the order in which it
// does it: enough to do the same again without asking anybody. Its methods are
// called on the stream's goroutine; they must not keep what they are given.
type Tap interface {
	// Up says that a link begins.
	Up()
	// Message gives the frames of a message of the link: before it is visible, or
	// once it is known that it will not be.
	Message(frames [][]byte, f Fate)
	// Merged says that the message with this sequence, held so far, is applied;
	// it is not visible yet.
	Merged(seq uint64)
	// Replayed gives a batch that a replay has brought and that is applied; it is
	// not visible yet.
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
		if n, ok := l.(Newcomer); ok && n.Another() {
			t.Restarted()
		}
		return &tapped{Link: l, tap: t}, nil
	}
	return o
}

// tapped is a link of a stream that is tapped.
type tapped struct {
	Link
	tap    Tap
	frames [][]byte // of the message that the stream is at, until the tap has it

	// What is being applied, if it is not that message.
	merging, replaying bool
	seq                uint64
	payload            []byte
}

func (l *tapped) Next() ([][]byte, error) {
	l.tell(Dropped) // it was not applied
	frames, err := l.Link.Next()
	if err != nil {
		l.tap.Down(err)
		return nil, err
	}
	l.frames = frames
	return frames, nil
}

// tell tells what becomes of the message that the stream is at, once.
func (l *tapped) tell(f Fate) {
	if l.frames != nil {
		l.tap.Message(l.frames, f)
		l.frames = nil
	}
}

// Another implements Newcomer for a link that does.
func (l *tapped) Another() bool {
	n, ok := l.Link.(Newcomer)
	return ok && n.Another()
}

// Newcomer is a link that knows more of its publisher than sequences tell.
type Newcomer interface {
	// Another reports whether the publisher is another process than that of the
	// link before: its first message is a restart, whatever its sequence.
	Another() bool
}

// another reports whether the link's publisher is known to be another process.
func (s *Stream) another() bool {
	if l := s.link.Load(); l != nil {
		n, ok := (*l).(Newcomer)
		return ok && n.Another()
	}
	return false
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

// tapApplies notes that the batch at hand is applied.
func (s *Stream) tapApplies() {
	t := s.tapped()
	if t == nil {
		return
	}
	switch {
	case t.merging:
		t.tap.Merged(t.seq)
	case t.replaying:
		t.tap.Replayed(t.seq, t.payload)
	default:
		t.tell(Dealt)
	}
	t.merging, t.replaying, t.payload = false, false, nil
}

// tapHeld notes that the message at hand is held.
func (s *Stream) tapHeld() {
	if t := s.tapped(); t != nil {
		t.tell(Held)
	}
}

// tapMerged notes that a message that was held is applied next.
func (s *Stream) tapMerged(seq uint64) {
	if t := s.tapped(); t != nil {
		t.merging, t.replaying, t.seq = true, false, seq
	}
}

// tapReplayed notes that a batch of a replay is applied next.
func (s *Stream) tapReplayed(seq uint64, payload []byte) {
	if t := s.tapped(); t != nil {
		t.merging, t.replaying, t.seq, t.payload = false, true, seq, payload
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
