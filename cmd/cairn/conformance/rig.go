package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/internal/memnet"
	"github.com/cairn-kv/cairn/tree"
)

// rig is one engine together with a publisher for every stream it follows.
// It belongs to one goroutine.
type rig struct {
	engine  *engine.Engine
	options Options
	network *memnet.Network // nil: that of the system
	sources map[string]*rigged
	answer  engine.Answer
}

// rigged is a source of a rig.
type rigged struct {
	spec  engine.Source
	feeds []*feed // by rank
}

// feed is the publishing end of one stream, and what was sent through it.
type feed struct {
	publisher *zmtp.Publisher
	replayer  *replayer // nil: no replay endpoint
	sent      bool
	last      uint64 // sequence of the last message
	restarts  uint32 // how often the sequence went back
	base      uint32 // incarnation of the stream before the first message
}

// newRig opens an engine without sources.
func newRig(o Options) (*rig, error) {
	r := &rig{options: o, sources: map[string]*rigged{}}
	options := engine.Options{
		Shards:   o.Shards,
		MaxRanks: maxRanks,
		NewIndex: o.NewIndex,
		// A publisher of ours that is slow to come is no reason to hide anything.
		StaleAfter:  time.Hour,
		SilentAfter: -1,
		Backoff:     zmtp.Backoff{Min: time.Millisecond, Max: 50 * time.Millisecond},
		// A file's requests are those that it tells of, however close together.
		Repair: engine.RepairOptions{Cooldown: -1, ProbeAfter: -1, Silence: o.silence},
	}
	if o.Direct {
		r.network = memnet.New()
		options.DialContext = r.network.Dial
	}
	var err error
	r.engine, err = engine.Open(options)
	return r, err
}

// maxRanks is the number of dp ranks a played source may have: more than any
// engine's, for vectors state ranks at random.
const maxRanks = 1024

// close ends the engine and all publishers.
func (r *rig) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	errs := []error{r.engine.Close(ctx)}
	for _, s := range r.sources {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

func (s *rigged) close() error {
	var errs []error
	for _, f := range s.feeds {
		errs = append(errs, f.publisher.Close())
		if f.replayer != nil {
			errs = append(errs, f.replayer.router.Close())
		}
	}
	return errors.Join(errs...)
}

// add binds a publisher for each rank of spec, adds the source to the engine
// and waits until all of its streams are connected.
func (r *rig) add(ctx context.Context, spec engine.Source) error {
	return r.addSource(ctx, spec, false)
}

// addRepaired is add for a source with a replay endpoint for each rank.
func (r *rig) addRepaired(ctx context.Context, spec engine.Source) error {
	return r.addSource(ctx, spec, true)
}

func (r *rig) addSource(ctx context.Context, spec engine.Source, repaired bool) error {
	if r.sources[spec.ID] != nil {
		return fmt.Errorf("source %q is there already", spec.ID)
	}
	s := &rigged{spec: spec}
	publishers, err := r.listen(ctx, max(spec.Ranks, 1))
	if err != nil {
		return err
	}
	for _, p := range publishers {
		s.feeds = append(s.feeds, &feed{publisher: p})
	}
	s.spec.Endpoint = publishers[0].Addr()
	if repaired {
		replayers, endpoint, err := r.addReplay(ctx, len(publishers))
		if err != nil {
			return errors.Join(err, s.close())
		}
		s.spec.Replay = endpoint
		for rank, p := range replayers {
			s.feeds[rank].replayer = p
		}
	}
	r.sources[spec.ID] = s
	if err := r.engine.AddSource(ctx, s.spec); err != nil {
		return err
	}
	for _, f := range s.feeds {
		if err := f.publisher.WaitSubscribers(ctx, 1); err != nil {
			return err
		}
	}
	for _, st := range r.status(spec.ID) {
		s.feeds[st.Rank].base = st.Incarnation
	}
	return nil
}

// listen makes the publishers of a source: rank r listens on port + r.
func (r *rig) listen(ctx context.Context, ranks int) ([]*zmtp.Publisher, error) {
	if r.network == nil {
		return listen(ctx, ranks)
	}
	var all []*zmtp.Publisher
	first := r.network.Reserve(ranks)
	for rank := range ranks {
		l := r.network.Listen(first + rank)
		p, err := zmtp.PublisherConfig{Listener: l}.Listen(ctx, "tcp://"+l.Addr().String())
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		all = append(all, p)
	}
	return all, nil
}

// portTries bounds the search for neighbouring ports.
const portTries = 64

// listen binds publishers on ranks neighbouring ports of loopback: rank r
// listens on port + r.
func listen(ctx context.Context, ranks int) ([]*zmtp.Publisher, error) {
	var last error
	for range portTries {
		first, err := zmtp.Listen(ctx, "tcp://127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		all := []*zmtp.Publisher{first}
		_, text, _ := net.SplitHostPort(strings.TrimPrefix(first.Addr(), "tcp://"))
		port, err := strconv.Atoi(text)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("publisher address %q: %w", first.Addr(), err), first.Close())
		}
		for rank := 1; rank < ranks && err == nil; rank++ {
			var p *zmtp.Publisher
			if p, err = zmtp.Listen(ctx, fmt.Sprintf("tcp://127.0.0.1:%d", port+rank)); err == nil {
				all = append(all, p)
			}
		}
		if err == nil {
			return all, nil
		}
		last = err // somebody has one of the ports: try others
		for _, p := range all {
			p.Close()
		}
	}
	return nil, fmt.Errorf("no %d neighbouring ports are free: %w", ranks, last)
}

// drop takes a source away, and waits until the engine forgot it.
func (r *rig) drop(ctx context.Context, id string) error {
	s := r.sources[id]
	if s == nil {
		return nil
	}
	delete(r.sources, id)
	return errors.Join(r.engine.RemoveSource(ctx, id), s.close())
}

// publish sends one good message and notes its sequence.
func (r *rig) publish(id string, rank int, topic string, seq uint64, payload []byte) error {
	f := r.sources[id].feeds[rank]
	if f.sent && seq < f.last {
		f.restarts++
	}
	f.sent, f.last = true, seq
	return f.publisher.Send([]byte(topic), sequenceFrame(seq), payload)
}

func sequenceFrame(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// next sends a payload under the stream's next sequence.
func (r *rig) next(id string, rank int, payload []byte) error {
	s := r.sources[id]
	seq := s.spec.FirstSeq
	if f := s.feeds[rank]; f.sent {
		seq = f.last + 1
	}
	return r.publish(id, rank, s.spec.Topic, seq, payload)
}

// raw sends frames as they are; it does not count as a message of the stream.
func (r *rig) raw(id string, rank int, frames ...[]byte) error {
	return r.sources[id].feeds[rank].publisher.Send(frames...)
}

// settle waits until everything published on a stream is visible.
func (r *rig) settle(ctx context.Context, id string, rank int) error {
	f := r.sources[id].feeds[rank]
	if !f.sent {
		return nil
	}
	// A restart makes applied-through go back, so that a sequence of the old
	// history may look applied already: the incarnation has to be right too.
	if err := r.until(ctx, func() bool {
		st := r.stream(id, rank)
		return st != nil && st.Incarnation-f.base >= f.restarts
	}, func() string { return fmt.Sprintf("source %s rank %d: restart %d", id, rank, f.restarts) }); err != nil {
		return err
	}
	if err := r.engine.WaitApplied(ctx, id, rank, f.last); err != nil {
		return fmt.Errorf("source %s rank %d: sequence %d is not applied: %w", id, rank, f.last, err)
	}
	return nil
}

// until waits for what has no event of its own: the engine shows counters and
// states, but calls nobody when they change.
func (r *rig) until(ctx context.Context, done func() bool, what func() string) error {
	if done() {
		return nil
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if done() {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what(), context.Cause(ctx))
		}
	}
}

// status returns the streams of a source.
func (r *rig) status(id string) []engine.StreamStatus {
	for _, s := range r.engine.Sources() {
		if s.ID == id {
			return s.Streams
		}
	}
	return nil
}

// stream returns one stream of a source, nil if there is none.
func (r *rig) stream(id string, rank int) *engine.StreamStatus {
	for _, st := range r.status(id) {
		if st.Rank == rank {
			return &st
		}
	}
	return nil
}

// total sums what the engine's shards hold.
func (r *rig) total() tree.Stats {
	var sum tree.Stats
	for _, s := range r.engine.Stats().Shards {
		sum.Holders += s.Holders
		sum.Residencies += s.Residencies
		sum.Waiting += s.Waiting
		sum.Runs += s.Runs
		sum.Names += s.Names
		sum.Links += s.Links
		sum.Bytes += s.Bytes
		sum.Deferred += s.Deferred
	}
	return sum
}

// match asks the engine, and returns its answer, valid until the next.
func (r *rig) match(q *engine.Query) (*engine.Answer, error) {
	err := r.engine.Match(q, &r.answer)
	if errors.Is(err, engine.ErrUnknownModel) { // nobody serves it: nobody has anything
		r.answer.Holders, r.answer.Flagged = r.answer.Holders[:0], r.answer.Flagged[:0]
		err = nil
	}
	return &r.answer, err
}
