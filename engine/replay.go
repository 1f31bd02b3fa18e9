package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/journal"
	"github.com/cairn-kv/cairn/tree/content"
)

// ErrRecordingOf says that a journal is no recording that this engine can
// play: of another scheme of content hashes, or with definitions that it does
// not understand.
var ErrRecordingOf = errors.New("engine: the recording cannot be played")

// ReplayOptions say how a recording is played. The zero value plays all of it
// as fast as it can.
type ReplayOptions struct {
	// Speed is how many seconds of the recording pass in one; 0: as fast as
	// possible. What comes out of it is the same at any speed.
	Speed float64
	// Until, if set, ends the replay in front of the first record made later.
	Until time.Time
	// From, if set, leaves out what was made earlier: its streams join late.
	From time.Time
	// Progress, if set, is called now and then with what was played so far.
	Progress func(ReplayReport)
}

// ReplayReport is what a replay has done.
type ReplayReport struct {
	Records  uint64
	Messages uint64
	Sources  int // that were added
	// Lost is how many records the recording itself says are missing.
	Lost uint64
	// Damaged is how many chunks could not be read.
	Damaged int
	// Torn is how many bytes at the end are those of a writer that was cut off.
	Torn     int64
	From, To time.Time // of the first and the last record that was played
}

// Whole reports whether everything that was received was played.
func (r *ReplayReport) Whole() bool { return r.Lost == 0 && r.Damaged == 0 }

// Replay adds the sources of a recording and plays what they received, in the
// order in which it was recorded, through streams like any others: they judge,
// decode and answer for it as they did. It returns when all of it is applied;
// the sources stay, with what they hold and without links. An engine that had
// no sources before gives the dump of the engine that was recorded.
//
// The streams take turns, so that nothing depends on who is quicker. The error
// is ctx's, wraps ErrRecordingOf, or is one of AddSource; the report says how
// far it came.
func (e *Engine) Replay(ctx context.Context, r *journal.Reader, o ReplayOptions) (ReplayReport, error) {
	p := &player{engine: e, opt: o, streams: map[uint32]*playedStream{}, sources: map[string]*playedSource{}}
	p.report.Torn = r.Info().Torn
	err := p.check(r)
	if err == nil {
		err = p.begin(ctx, r)
	}
	if err == nil {
		err = p.run(ctx, r)
	}
	return p.report, errors.Join(err, p.end(ctx))
}

// player is a replay under way.
type player struct {
	engine  *Engine
	opt     ReplayOptions
	report  ReplayReport
	streams map[uint32]*playedStream
	sources map[string]*playedSource // by id
	clock   struct {
		began time.Time // ours
		from  time.Time // theirs
	}
}

// playedSource is a source that the recording told of.
type playedSource struct {
	id    string
	feeds map[[2]int]*playedStream // by rank and TP shard
	left  int                      // streams that are not forgotten
}

// playedStream is one stream and the link it has now.
type playedStream struct {
	source *playedSource
	feed   *feed
	ups    chan *handLink // links for its next Dial
	over   chan struct{}  // closed: there will be no more
	link   *handLink      // nil: down
	dealt  chan struct{}

	any  bool                // it has had a batch
	last uint64              // the last one's sequence
	held map[uint64][][]byte // messages that waited for a repair
	// restarted: the next batch is of another process, which its sequence need
	// not show.
	restarted bool
}

// check refuses a recording whose hashes are of another kind.
func (p *player) check(r *journal.Reader) error {
	var meta recordMeta
	if err := json.Unmarshal(r.Info().Meta, &meta); err != nil || meta.Writer != "cairn" {
		return fmt.Errorf("%w: its header is not that of an engine's recording", ErrRecordingOf)
	}
	if meta.Scheme != content.Scheme && r.Info().Mode == journal.Hashed {
		return fmt.Errorf("%w: its content hashes are of the scheme %q, ours of %q", ErrRecordingOf, meta.Scheme, content.Scheme)
	}
	if p.opt.Speed < 0 || math.IsNaN(p.opt.Speed) || math.IsInf(p.opt.Speed, 0) {
		return &FieldError{Field: "speed", Value: fmt.Sprint(p.opt.Speed), Want: "wants a factor above 0, or 0 for as fast as possible"}
	}
	return nil
}

// begin goes to where the replay starts, with the streams there were then.
func (p *player) begin(ctx context.Context, r *journal.Reader) error {
	if p.opt.From.IsZero() {
		return nil
	}
	if err := r.SeekTime(p.opt.From); err != nil {
		return err
	}
	return r.Definitions(func(rec *journal.Record) error { return p.play(ctx, rec) })
}

// progressEvery is how many records are played between two calls of Progress.
const progressEvery = 1 << 12

// run plays all records.
func (p *player) run(ctx context.Context, r *journal.Reader) error {
	for {
		rec, err := r.Next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, journal.ErrCorrupt):
			p.engine.opt.Logger.Error("a part of the recording is lost", "err", err)
			p.report.Damaged++
			continue
		case err != nil:
			return err
		case !p.opt.Until.IsZero() && rec.Time.After(p.opt.Until):
			return nil
		}
		if err := p.pace(ctx, rec.Time); err != nil {
			return err
		}
		if err := p.play(ctx, rec); err != nil {
			return fmt.Errorf("record %d: %w", rec.Number, err)
		}
		if p.report.Records == 0 {
			p.report.From = rec.Time
		}
		p.report.To = rec.Time
		p.report.Records++
		if p.report.Records%progressEvery == 0 {
			if p.opt.Progress != nil {
				p.opt.Progress(p.report)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
}

// pace waits until it is a record's turn.
func (p *player) pace(ctx context.Context, at time.Time) error {
	if p.opt.Speed == 0 {
		return nil
	}
	if p.clock.began.IsZero() {
		p.clock.began, p.clock.from = time.Now(), at
		return nil
	}
	due := p.clock.began.Add(time.Duration(float64(at.Sub(p.clock.from)) / p.opt.Speed))
	wait := time.Until(due)
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// play does what a record says.
func (p *player) play(ctx context.Context, rec *journal.Record) error {
	if rec.Kind == journal.Lost {
		p.report.Lost += rec.N
		return nil
	}
	if rec.Kind == journal.Define {
		return p.define(ctx, rec)
	}
	s := p.streams[rec.Stream]
	if s == nil {
		if rec.Kind == journal.Message || rec.Kind == journal.Reply {
			p.report.Lost++ // its stream was defined in a chunk that is damaged
		}
		return nil
	}
	switch rec.Kind {
	case journal.Forget:
		return p.forget(ctx, rec.Stream, s)
	case journal.Up:
		return s.up(ctx)
	case journal.Down:
		why := "the link was lost"
		if len(rec.Data) > 0 {
			why = string(rec.Data[0])
		}
		return s.down(ctx, errors.New(why))
	case journal.Message:
		p.report.Messages++
		return s.message(ctx, ingest.Fate(rec.N), rec.Data)
	case journal.Merge:
		return s.merge(ctx, rec.N)
	case journal.Reply:
		return s.batch(ctx, rec.Data)
	case journal.Restart:
		s.restarted = true
	}
	return nil
}

// define makes a stream, and its source with the first of its streams.
func (p *player) define(ctx context.Context, rec *journal.Record) error {
	var d definition
	if err := json.Unmarshal(rec.Data[0], &d); err != nil {
		return fmt.Errorf("%w: a stream's definition: %w", ErrRecordingOf, err)
	}
	src := p.sources[d.Source.ID]
	if src == nil {
		src = &playedSource{id: d.Source.ID, feeds: map[[2]int]*playedStream{}}
		spec := d.Source.source()
		var ranks []int
		if spec.met() {
			ranks = []int{d.Rank}
		}
		if err := joined(spec.problems(p.engine.opt.MaxRanks, !spec.met())); err != nil {
			return err
		}
		if err := p.engine.addSource(ctx, spec, ranks, src.play); err != nil {
			return err
		}
		p.sources[src.id] = src
		p.report.Sources++
	}
	s := src.feeds[[2]int{d.Rank, d.TPShard}]
	if added, ok := p.engine.sources.Load(src.id); s == nil && ok && added.listed && d.TPShard == 0 {
		if _, err := added.rankFeed(ctx, d.Rank, src.play); err != nil {
			return err
		}
		s = src.feeds[[2]int{d.Rank, 0}]
	}
	if s == nil {
		return fmt.Errorf("%w: source %q has no stream of rank %d, TP shard %d", ErrRecordingOf, src.id, d.Rank, d.TPShard)
	}
	p.streams[rec.Stream] = s
	src.left++
	return nil
}

// play makes the links of a stream that is played.
func (src *playedSource) play(f *feed) dialFunc {
	s := &playedStream{source: src, feed: f, ups: make(chan *handLink), over: make(chan struct{}), dealt: make(chan struct{}, 1)}
	src.feeds[[2]int{f.rank, f.tp}] = s
	return s.dial
}

// forget ends a stream; with the last one its source is removed.
func (p *player) forget(ctx context.Context, id uint32, s *playedStream) error {
	delete(p.streams, id)
	if s.source.left--; s.source.left > 0 {
		return nil
	}
	delete(p.sources, s.source.id)
	for _, s := range s.source.feeds {
		close(s.over)
	}
	return p.engine.RemoveSource(ctx, s.source.id)
}

// end has every stream apply what it was given, and ends it.
func (p *player) end(ctx context.Context) error {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(p.sources)) {
		for _, s := range p.sources[id].feeds {
			if err := s.settle(ctx); err != nil && ctx.Err() == nil {
				errs = append(errs, fmt.Errorf("engine: source %q rank %d: %w", id, s.feed.rank, err))
			}
			close(s.over)
		}
	}
	return errors.Join(errs...)
}

// dial is the stream's Options.Dial: it waits for the next link.
func (s *playedStream) dial(ctx context.Context, h ingest.Hooks) (ingest.Link, error) {
	select {
	case l := <-s.ups:
		l.ctx, l.hooks = ctx, h
		return l, nil
	case <-s.over:
		return nil, ingest.ErrEnd
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// up gives the stream a link.
func (s *playedStream) up(ctx context.Context) error { return s.open(ctx, false) }

// open gives the stream a link, of another process or not. One that is still
// there has ended unseen.
func (s *playedStream) open(ctx context.Context, another bool) error {
	if s.link != nil {
		if err := s.down(ctx, errors.New("its end was not recorded")); err != nil {
			return err
		}
	}
	l := newHandLink(s.over)
	l.another = another
	select {
	case s.ups <- l:
		s.link = l
		return nil
	case <-s.feed.port.Done():
		return nil // the stream has ended, as it did then
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// down ends the link, and waits until the stream has seen it.
func (s *playedStream) down(ctx context.Context, why error) error {
	l := s.link
	if l == nil {
		return nil
	}
	s.link = nil
	select {
	case l.ends <- why:
	case <-l.closed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-l.closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// message gives the stream a message, in the order in which the recorded one
// dealt with it: no repair is needed again, for its batches come in their
// places.
func (s *playedStream) message(ctx context.Context, f ingest.Fate, frames [][]byte) error {
	seq, ok := sequenceOf(frames)
	switch {
	case !ok:
		return s.give(ctx, frames)
	case f == ingest.Held:
		if s.held == nil {
			s.held = map[uint64][][]byte{}
		}
		own := make([][]byte, len(frames))
		for i, b := range frames {
			own[i] = bytes.Clone(b)
		}
		s.held[seq] = own
		return nil
	case f == ingest.Dropped && s.any && seq <= s.last:
		// A replay had brought it before it came: its sequence went back, and
		// would look like a restart.
		return nil
	}
	return s.batch(ctx, frames)
}

// merge gives the stream a message that waited.
func (s *playedStream) merge(ctx context.Context, seq uint64) error {
	frames := s.held[seq]
	for n := range s.held {
		if n <= seq {
			delete(s.held, n)
		}
	}
	if frames == nil {
		return nil // its record is lost, which shows as a gap
	}
	return s.batch(ctx, frames)
}

// batch gives the stream a batch that the recorded one applied here.
func (s *playedStream) batch(ctx context.Context, frames [][]byte) error {
	seq, ok := sequenceOf(frames)
	if !ok {
		return s.give(ctx, frames)
	}
	if s.restarted && s.any && seq >= s.last {
		// What the recorded stream had proof of, the link has to tell this one.
		if err := s.open(ctx, true); err != nil {
			return err
		}
	}
	s.restarted = false
	s.any, s.last = true, seq
	return s.give(ctx, frames)
}

// sequenceOf is the sequence of a message, false if it is malformed.
func sequenceOf(frames [][]byte) (uint64, bool) {
	if len(frames) != 3 || len(frames[1]) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(frames[1]), true
}

// give hands a message over, and waits until it is dealt with.
func (s *playedStream) give(ctx context.Context, frames [][]byte) error {
	if s.link == nil { // its beginning was not recorded
		if err := s.up(ctx); err != nil {
			return err
		}
	}
	l := s.link
	if l == nil {
		return nil // the stream has ended
	}
	select {
	case l.messages <- handed{frames, s.dealt}:
	case <-l.closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-s.dealt:
	case <-l.closed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// settle waits until everything the stream was given is applied.
func (s *playedStream) settle(ctx context.Context) error {
	st := s.feed.stream.Status(ingest.Worker, s.feed.applied())
	if !st.Received {
		return nil
	}
	return s.feed.wait(ctx, st.Seq)
}
