package bound

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

const kv = "kv@{source}@{model}"

func TestPublishersAreToldApart(t *testing.T) {
	r := newRig(t, Options{}, kv)
	a, b := r.publisher(), r.publisher()
	send(t, a, "kv@w1@m", 0, 0, 1)
	s1 := r.next(key("w1", "m", 0))
	r.hears(s1, 0, 1)
	send(t, b, "kv@w1@m", 1, 7)
	s2 := r.next(key("w1", "m", 1))
	r.hears(s2, 7)
	send(t, a, "kv@w1@m", 0, 2)
	send(t, b, "kv@w1@m", 1, 8)
	r.hears(s1, 2)
	r.hears(s2, 8)

	// The end of one is nothing to the other.
	a.Close()
	if err := r.ends(s1); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v, want EOF", err)
	}
	send(t, b, "kv@w1@m", 1, 9)
	r.hears(s2, 9)

	// Its next connection finds the same stream, from whatever port it comes.
	c := r.publisher()
	send(t, c, "kv@w1@m", 0, 0)
	r.hears(s1, 0)
	if n := len(r.made); n != 0 {
		t.Fatalf("%d streams too many", n)
	}
}

// A publisher whose connection breaks comes back by itself to the same stream.
func TestPublisherReconnects(t *testing.T) {
	r := newRig(t, Options{}, kv)
	p := r.publisher()
	send(t, p, "kv@w1@m", -1, 0)
	s := r.next(key("w1", "m", 0))
	r.hears(s, 0)
	for n := uint64(1); n <= 10; n++ {
		p.Disconnect()
		r.ends(s)
		r.subscribed(p)
		send(t, p, "kv@w1@m", -1, n)
		r.hears(s, n)
	}
	if st := r.Stats(); st.Connected != 11 || st.Superseded != 0 || st.dropped("contested") != 0 {
		t.Fatalf("%+v", st)
	}
}

// A relay speaks for many: one connection, topics and ranks interleaved.
func TestRelay(t *testing.T) {
	for _, way := range []string{"that connects", "that is connected to"} {
		t.Run(way, func(t *testing.T) {
			var r *rig
			var p *zmtp.Publisher
			if way == "that connects" {
				r = newRig(t, Options{}, kv)
				p = r.publisher()
			} else {
				var err error
				p, err = zmtp.Listen(context.Background(), "tcp://127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				r = newRig(t, Options{Connect: zmtp.Options{Endpoint: p.Addr()}, Backoff: zmtp.Backoff{Min: time.Millisecond}}, kv)
				r.subscribed(p)
			}
			const rounds, sources, ranks = 50, 3, 2
			var keys []Key
			for i := range sources {
				for rank := range ranks {
					keys = append(keys, key(name(i), "m", rank))
				}
			}
			for n := range uint64(rounds) {
				for i, k := range keys {
					send(t, p, "kv@"+k.Source+"@m", k.Rank, 100*uint64(i)+n)
				}
			}
			streams := map[Key]*stream{}
			for _, k := range keys {
				streams[k] = r.next(k)
			}
			for i, k := range keys {
				for n := range uint64(rounds) {
					r.hears(streams[k], 100*uint64(i)+n)
				}
			}
			p.Disconnect()
			for _, k := range keys {
				r.ends(streams[k])
			}
			r.subscribed(p)
			for i, k := range keys {
				send(t, p, "kv@"+k.Source+"@m", k.Rank, uint64(i))
				r.hears(streams[k], uint64(i))
			}
		})
	}
}

// A rank may stand in the topic; the batch knows better.
func TestRankOfTopic(t *testing.T) {
	r := newRig(t, Options{Model: "m"}, "{source}/{rank}")
	p := r.publisher()
	send(t, p, "w/3", -1, 1)
	r.hears(r.next(key("w", "m", 3)), 1)
	send(t, p, "w/3", 5, 2)
	r.hears(r.next(key("w", "m", 5)), 2)
}

// What topics do not name is the socket's.
func TestNamesOfTheSocket(t *testing.T) {
	r := newRig(t, Options{Source: "pool", Model: "m"}, "")
	p := r.publisher()
	send(t, p, "whatever", -1, 0)
	r.hears(r.next(key("pool", "m", 0)), 0)
}

func TestStrangeMessages(t *testing.T) {
	r := newRig(t, Options{}, kv)
	r.open = func(k Key) error {
		if k.Source == "no" {
			return errNo
		}
		if k.Rank > 63 {
			return ingest.ErrRank
		}
		return nil
	}
	p := r.publisher()
	p.Send([]byte("kv@w1@m"))                                  // before there is a stream
	p.Send([]byte("kv@w1@m"), seqFrame(0), []byte{0xc1})       // undecodable
	p.Send([]byte("kv@w1@m"), seqFrame(0)[:7], batch(0))       // half a number
	send(t, p, "kv@", 0, 1)                                    // no source
	send(t, p, "kv@w1", 0, 1)                                  // no model
	send(t, p, "kv@no@m", 0, 1, 2)                             // not wanted
	send(t, p, "kv@w1@m", 64, 1)                               // too high a rank
	send(t, p, "kv@w1@m", 1<<20, 1)                            // far too high
	send(t, p, "kv@w1@m", 0, 5)                                // sound
	p.Send([]byte("kv@w1@m"), seqFrame(6), []byte{0x91, 0xc1}) // the stream's to count
	send(t, p, "kv@w1@m", 0, 7)
	s := r.next(key("w1", "m", 0))
	r.hears(s, 5, 6, 7)
	st := r.Stats()
	for reason, want := range map[string]uint64{"malformed": 3, "topic_empty_field": 1, "topic_other_text": 1, "refused": 4, "contested": 0} {
		if got := st.dropped(reason); got != want {
			t.Errorf("%s: %d, want %d", reason, got, want)
		}
	}
	if st.LastError == "" {
		t.Error("no last error")
	}
}

// A connection that is dead without knowing it gives way.
func TestSilentConnectionIsSuperseded(t *testing.T) {
	for _, minor := range []byte{0, 1} { // a 3.0 peer cannot be asked
		r := newRig(t, Options{Takeover: 50 * time.Millisecond}, kv)
		r.mute(minor, "kv@w1@m", 0, 4)
		s := r.next(key("w1", "m", 0))
		r.hears(s, 4)
		p := r.publisher()
		send(t, p, "kv@w1@m", 0, 0)
		if err := r.ends(s); !errors.Is(err, ErrSuperseded) {
			t.Fatalf("got %v, want ErrSuperseded", err)
		}
		r.hears(s, 0)
		if st := r.Stats(); st.Superseded != 1 {
			t.Fatalf("%+v", st)
		}
	}
}

// Two live publishers with one name: the first keeps it, nothing is mixed, and
// the second has it when the first is gone.
func TestContestedLane(t *testing.T) {
	r := newRig(t, Options{Takeover: time.Second}, kv) // in which a answers
	a := r.publisher()
	send(t, a, "kv@w1@m", 0, 0)
	s := r.next(key("w1", "m", 0))
	r.hears(s, 0)
	b := r.publisher()
	send(t, b, "kv@w1@m", 0, 100)
	// a answers the PING by which it is asked.
	r.await("contested", func(st Stats) bool { return st.dropped("contested") == 1 })
	send(t, b, "kv@w1@m", 0, 101)
	r.await("contested", func(st Stats) bool { return st.dropped("contested") == 2 })
	// It may speak for others meanwhile, and is not held up.
	send(t, b, "kv@w2@m", 0, 0)
	r.hears(r.next(key("w2", "m", 0)), 0)
	send(t, a, "kv@w1@m", 0, 1)
	r.hears(s, 1)
	a.Close()
	r.ends(s)
	send(t, b, "kv@w1@m", 0, 102)
	r.hears(s, 102)
	if st := r.Stats(); st.Superseded != 0 {
		t.Fatalf("%+v", st)
	}
}

// A stream that is slow holds up its own connection only, and is not taken for
// a dead one.
func TestSlowStreamHoldsUpItsConnectionOnly(t *testing.T) {
	r := newRig(t, Options{Takeover: 20 * time.Millisecond}, kv)
	gate := make(chan struct{})
	var once sync.Once
	release := func() { once.Do(func() { close(gate) }) }
	t.Cleanup(release)
	stalled := false
	r.stall = func(k Key) {
		if k.Source == "slow" && stalled {
			<-gate
		}
		if k.Source == "slow" {
			stalled = true
		}
	}
	a, b := r.publisher(), r.publisher()
	send(t, a, "kv@slow@m", 0, 0, 1)
	slow := r.next(key("slow", "m", 0))
	r.hears(slow, 0)
	send(t, b, "kv@w2@m", 0, 0, 1)
	s := r.next(key("w2", "m", 0))
	r.hears(s, 0, 1)
	c := r.publisher()
	send(t, c, "kv@slow@m", 0, 9)
	r.await("contested", func(st Stats) bool { return st.dropped("contested") == 1 })
	release()
	r.hears(slow, 1)
}

// Heartbeats and wake-ups reach a stream whoever reads its connection.
func TestHooks(t *testing.T) {
	r := newRig(t, Options{Bind: zmtp.BindOptions{HeartbeatInterval: 5 * time.Millisecond}}, kv)
	p := r.publisher()
	signals := func(s *stream) {
		t.Helper()
		s.mu.Lock()
		l := s.link
		s.mu.Unlock()
		for range 3 {
			l.Wake()
			for what, c := range map[string]chan struct{}{"heartbeat": s.beats, "wake-up": s.wakes} {
				select {
				case <-c:
				case <-time.After(long):
					t.Fatalf("%+v: no %s", s.key, what)
				}
			}
		}
	}
	send(t, p, "kv@w1@m", 0, 0)
	s1 := r.next(key("w1", "m", 0))
	r.hears(s1, 0)
	signals(s1)
	send(t, p, "kv@w2@m", 0, 0)
	s2 := r.next(key("w2", "m", 0))
	r.hears(s2, 0)
	signals(s1)
	signals(s2)
	send(t, p, "kv@w1@m", 0, 1)
	r.hears(s1, 1)
}

// A peer that answers heartbeats no more ends, as one that was dialled.
func TestIdlePeerEnds(t *testing.T) {
	r := newRig(t, Options{Bind: zmtp.BindOptions{HeartbeatInterval: 5 * time.Millisecond, IdleTimeout: 20 * time.Millisecond}}, kv)
	r.mute(1, "kv@w1@m", 0, 0)
	s := r.next(key("w1", "m", 0))
	r.hears(s, 0)
	if err := r.ends(s); !errors.Is(err, zmtp.ErrIdle) {
		t.Fatalf("got %v, want ErrIdle", err)
	}
}

// A stream that ends leaves the others of its connection alone.
func TestStreamEnds(t *testing.T) {
	r := newRig(t, Options{}, kv)
	p := r.publisher()
	send(t, p, "kv@w1@m", 0, 0)
	s1 := r.next(key("w1", "m", 0))
	r.hears(s1, 0)
	send(t, p, "kv@w2@m", 0, 0)
	s2 := r.next(key("w2", "m", 0))
	r.hears(s2, 0)

	remove := func(s *stream) {
		r.mu.Lock()
		delete(r.lanes, s.key)
		r.mu.Unlock()
		s.end()
		s.lane.Close()
		r.ends(s)
	}
	remove(s1)
	send(t, p, "kv@w2@m", 0, 1)
	r.hears(s2, 1)
	// Its publisher is still there, so it comes into being again.
	send(t, p, "kv@w1@m", 0, 1)
	s1 = r.next(key("w1", "m", 0))
	r.hears(s1, 1)

	// The only one of a connection takes the connection with it.
	q := r.publisher()
	send(t, q, "kv@w3@m", 0, 0)
	s3 := r.next(key("w3", "m", 0))
	r.hears(s3, 0)
	remove(s3)
	ctx, cancel := context.WithTimeout(r.ctx, long)
	defer cancel()
	if err := q.WaitEnded(ctx, 1); err != nil { // it comes back
		t.Fatal(err)
	}
}

func TestLaneIsFree(t *testing.T) {
	n := NewLane()
	if since, ok := n.Free(); !ok || since.IsZero() {
		t.Fatal(since, ok)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errNo)
	if _, err := n.Dial(ctx, ingest.Hooks{}); err != errNo {
		t.Fatal(err)
	}
	n.Close()
	n.Close()
	if _, err := n.Dial(context.Background(), ingest.Hooks{}); err != ErrGone {
		t.Fatal(err)
	}

	r := newRig(t, Options{}, kv)
	p := r.publisher()
	send(t, p, "kv@w1@m", 0, 0)
	s := r.next(key("w1", "m", 0))
	r.hears(s, 0)
	if _, ok := s.lane.Free(); ok {
		t.Fatal("free, though a publisher is connected")
	}
	p.Close()
	r.ends(s)
	r.await("free", func(Stats) bool { _, ok := s.lane.Free(); return ok })
}

// Two hundred publishers on one socket; a third of them die, over and over.
func TestManyPublishers(t *testing.T) {
	const many = 200
	r := newRig(t, Options{}, kv)
	pubs := make([]*zmtp.Publisher, many)
	streams := make([]*stream, many)
	next := make([]uint64, many)
	for i := range pubs {
		pubs[i] = r.publisher()
		send(t, pubs[i], "kv@"+name(i)+"@m", 0, 0)
		streams[i] = r.next(key(name(i), "m", 0))
		r.hears(streams[i], 0)
		next[i] = 1
	}
	for round := range 3 {
		for i, p := range pubs {
			if i%3 == round {
				p.Disconnect()
			} else {
				send(t, p, "kv@"+name(i)+"@m", 0, next[i])
			}
		}
		for i := range pubs {
			if i%3 == round {
				r.ends(streams[i])
				r.subscribed(pubs[i])
				send(t, pubs[i], "kv@"+name(i)+"@m", 0, next[i])
			}
			r.hears(streams[i], next[i])
			next[i]++
		}
	}
	st := r.Stats()
	if st.Open != many || st.Superseded != 0 || st.Failed != 0 {
		t.Fatalf("%+v", st)
	}
	for _, c := range st.Dropped {
		if c.Count != 0 {
			t.Errorf("%+v", c)
		}
	}
}

// The socket ends whatever its streams do, and so do the links.
func TestSocketEnds(t *testing.T) {
	r := newRig(t, Options{}, kv)
	p := r.publisher()
	send(t, p, "kv@w1@m", 0, 0)
	s1 := r.next(key("w1", "m", 0))
	r.hears(s1, 0)
	q := r.publisher()
	send(t, q, "kv@w2@m", 0, 0)
	send(t, q, "kv@w3@m", 0, 0)
	s2, s3 := r.next(key("w2", "m", 0)), r.next(key("w3", "m", 0))
	r.hears(s2, 0)
	r.hears(s3, 0)
	r.Close()
	for _, s := range []*stream{s1, s2, s3} {
		r.ends(s)
	}
}

func TestListenErrors(t *testing.T) {
	open := func(context.Context, Key) (*Lane, error) { return NewLane(), nil }
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"no open":        {Options{Bind: zmtp.BindOptions{Endpoint: "tcp://127.0.0.1:0"}}, "Options.Open is nil"},
		"takeover":       {Options{Open: open, Takeover: -1}, "Options.Takeover is -1ns"},
		"both ways":      {Options{Open: open, Bind: zmtp.BindOptions{Endpoint: "tcp://*:1"}, Connect: zmtp.Options{Endpoint: "tcp://h:1"}}, "want one of them"},
		"no endpoint":    {Options{Open: open}, "has no scheme"},
		"an engine's ip": {Options{Open: open, Bind: zmtp.BindOptions{Endpoint: "tcp://h"}}, "tcp://host:port"},
	} {
		if _, err := Listen(context.Background(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// One series on a connection costs nothing per message, as on one that was
// dialled.
func TestNextDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	lane := NewLane()
	s, err := Listen(context.Background(), Options{
		Bind: zmtp.BindOptions{Endpoint: "tcp://127.0.0.1:0"}, Source: "w", Model: "m",
		Open: func(context.Context, Key) (*Lane, error) { return lane, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run() }()
	defer func() { s.Close(); <-ended }()
	p, err := zmtp.PublisherConfig{}.Connect(context.Background(), s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	if err := p.WaitSubscribers(ctx, 1); err != nil {
		t.Fatal(err)
	}
	const many = 2000
	for n := range uint64(many) {
		send(t, p, "topic", 0, n)
	}
	l, err := lane.Dial(ctx, ingest.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range many / 2 {
		if _, err := l.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(many/2-1, func() {
		if _, err := l.Next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}

var _ net.Conn = (*line)(nil)
