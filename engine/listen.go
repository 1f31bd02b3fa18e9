package engine

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/ingest/bound"
	"github.com/cairn-kv/cairn/ingest/topic"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// Defaults of a Listener.
const (
	DefaultMaxSources  = 1024
	DefaultMaxStreams  = 4096
	DefaultForgetAfter = 10 * time.Minute
)

// MaxListenerSources and MaxListenerStreams bound Listener.MaxSources and
// Listener.MaxStreams.
const (
	MaxListenerSources = 1 << 16
	MaxListenerStreams = 1 << 18
)

// Listener describes a socket that many publishers share: one they connect to,
// or a relay that speaks for them. Topics tell its publishers apart; their
// addresses never do.
//
// Sources come into being with their first message, and go when nobody has
// spoken for them for ForgetAfter. Those that need settings of their own, a
// hint's control endpoint above all, are named in Sources.
type Listener struct {
	// ID names the listener in logs and statuses. Required, unique in the
	// engine.
	ID string
	// Bind is where publishers connect to: tcp://*:5557, tcp://[::]:5557,
	// ipc:///path. Exclusive with Connect.
	Bind string
	// Connect is a relay to connect to, which carries the topics of many
	// publishers: tcp://host:port or ipc:///path.
	Connect string
	// Topic is a template such as kv@{source}@{model}: see package
	// ingest/topic. Empty: every topic is Source's.
	Topic string
	// Source is what every source that comes into being is like: Model if topics
	// do not name it, Protocol, Policy, MainGroup, FirstSeq, NoPythonRoot,
	// BareMM, BlockSize, ZeroParentUnknown, Hybrid, InvisibleKeys, TakeUnsound.
	// Its ID is the name of the one source of a listener whose topics name none.
	// Nothing else may be set.
	Source Source
	// Sources are known beforehand, with settings of their own: any but those
	// that say where a publisher is. They are there from the start and stay.
	// Ranks is how many are there from the start; more are met.
	Sources []Source
	// MaxSources bounds the sources that come into being; 0 means 1024. One
	// more than that is refused and counted. Negative: none do, and only
	// Sources are fed.
	MaxSources int
	// MaxStreams bounds the streams that come into being, one for each rank of a
	// source that is met; 0 means 4096. Each costs Options.RingBytes.
	MaxStreams int
	// ForgetAfter is how long nobody may speak for a source that came into being
	// until it is removed. 0 means 10 min, negative never.
	ForgetAfter time.Duration

	// Users are who may connect, by PLAIN; none means whoever can reach the
	// port. For Bind.
	Users []zmtp.Plain
	// Plain is what the relay is told. For Connect.
	Plain *zmtp.Plain
	// MaxConns, MaxMessage, MaxMemory and HandshakeTimeout bound what strangers
	// can cost: see zmtp.BindOptions, whose defaults hold for 0.
	MaxConns         int
	MaxMessage       int
	MaxMemory        int64
	HandshakeTimeout time.Duration
	// Wrap, if set, is put around every connection that is accepted: TLS. For
	// Bind.
	Wrap func(net.Conn) net.Conn
}

// ListenerError is a FieldError of a listener.
type ListenerError struct {
	Listener string // id, "" if it has none
	FieldError
}

// Error reads: listener "in": bind "tcp://h": wants tcp://host:port.
func (e *ListenerError) Error() string {
	return fmt.Sprintf("listener %q: %s", e.Listener, e.FieldError.Error())
}

// Unwrap returns the *FieldError.
func (e *ListenerError) Unwrap() error { return &e.FieldError }

// ErrListenerExists and ErrUnknownListener are wrapped with the id.
var (
	ErrListenerExists  = errors.New("engine: listener exists already")
	ErrUnknownListener = errors.New("engine: unknown listener")
)

// Validate checks a listener without starting it. The error joins everything
// that is wrong, each a *ListenerError.
func (l *Listener) Validate() error { return errors.Join(l.problems()...) }

func (l *Listener) problems() (all []error) {
	bad := func(field, value, want string) {
		all = append(all, &ListenerError{l.ID, FieldError{Field: field, Value: value, Want: want}})
	}
	if l.ID == "" {
		bad("id", `""`, "a listener needs a name that is unique in the engine")
	} else if strings.ContainsFunc(l.ID, control) || len(l.ID) > maxID {
		bad("id", strconv.Quote(l.ID), fmt.Sprintf("wants at most %d bytes without control characters", maxID))
	}
	switch {
	case l.Bind == "" && l.Connect == "":
		bad("bind", `""`, "wants where publishers connect to, such as tcp://*:5557, or connect with a relay")
	case l.Bind != "" && l.Connect != "":
		bad("connect", strconv.Quote(l.Connect), "stands beside bind: give one of them")
	case l.Bind != "":
		if err := zmtp.CheckBind(l.Bind); err != nil {
			bad("bind", strconv.Quote(l.Bind), wanted(err))
		}
	default:
		if _, err := RankEndpoint(l.Connect, 0); err != nil {
			bad("connect", strconv.Quote(l.Connect), err.Error())
		}
	}
	tmpl, err := topic.Parse(l.Topic)
	var syntax *topic.SyntaxError
	switch {
	case errors.As(err, &syntax):
		bad("topic", strconv.Quote(l.Topic), fmt.Sprintf("at byte %d %s; want %s", syntax.Offset, syntax.What, syntax.Want))
	case tmpl.NamesSource() && l.Source.ID != "":
		bad("source", strconv.Quote(l.Source.ID), "stands beside a topic with {source}: the topic names it")
	case !tmpl.NamesSource() && l.Source.ID == "":
		bad("topic", strconv.Quote(l.Topic), "names no {source}: wants one, as in kv@{source}@{model}, or source with the name of the only one")
	}
	if err == nil {
		switch {
		case tmpl.NamesModel() && l.Source.Model != "":
			bad("model", strconv.Quote(l.Source.Model), "stands beside a topic with {model}: the topic names it")
		case !tmpl.NamesModel() && l.Source.Model == "" && l.MaxSources >= 0:
			bad("model", `""`, "names the model that queries ask for: wants it here, or {model} in the topic")
		}
	}
	if l.MaxSources > MaxListenerSources {
		bad("max_sources", strconv.Itoa(l.MaxSources), fmt.Sprintf("wants 1 … %d, or none", MaxListenerSources))
	}
	if l.MaxStreams > MaxListenerStreams {
		bad("max_streams", strconv.Itoa(l.MaxStreams), fmt.Sprintf("wants 1 … %d", MaxListenerStreams))
	}
	for _, n := range []struct {
		field string
		value int64
		least int64
	}{
		{"max_streams", int64(l.MaxStreams), 1},
		{"max_connections", int64(l.MaxConns), 1},
		{"max_message", int64(l.MaxMessage), 1 << 10},
		{"max_memory", l.MaxMemory, 64 << 10},
		{"handshake_timeout", int64(l.HandshakeTimeout), int64(time.Millisecond)},
	} {
		if n.value != 0 && n.value < n.least {
			bad(n.field, strconv.FormatInt(n.value, 10), fmt.Sprintf("wants at least %d, or 0 for the default", n.least))
		}
	}
	if len(l.Users) > 0 && l.Bind == "" {
		bad("users", strconv.Itoa(len(l.Users))+" users", "are for bind: a relay is told plain")
	}
	for i := range l.Users {
		if want := plainProblem(&l.Users[i]); want != "" {
			bad(fmt.Sprintf("users[%d]", i), strconv.Quote(l.Users[i].User), want)
		}
	}
	if l.Plain != nil {
		if l.Connect == "" {
			bad("plain", strconv.Quote(l.Plain.User), "is for connect: those who connect here are users")
		} else if want := plainProblem(l.Plain); want != "" {
			bad("plain", strconv.Quote(l.Plain.User), want)
		}
	}
	all = append(all, l.likeProblems()...)
	return append(all, l.knownProblems()...)
}

// likeProblems checks what sources that come into being are like.
func (l *Listener) likeProblems() (all []error) {
	s := l.Source
	// What topics say cannot be wrong here.
	s.ID, s.Model = cmp.Or(s.ID, "{source}"), cmp.Or(s.Model, "{model}")
	for _, e := range append(s.reached(), s.problems(DefaultMaxRanks, false)...) {
		e.Source = ""
		all = append(all, &ListenerError{l.ID, *e})
	}
	if s.Replay != "" {
		all = append(all, &ListenerError{l.ID, FieldError{Field: "replay", Value: strconv.Quote(s.Replay), Want: "is one publisher's: name its source, with its own replay, in sources"}})
	}
	if s.Ranks != 0 {
		all = append(all, &ListenerError{l.ID, FieldError{Field: "ranks", Value: strconv.Itoa(s.Ranks), Want: "is not for a listener: ranks come into being with their messages"}})
	}
	if s.Hint != nil {
		all = append(all, &ListenerError{l.ID, FieldError{Field: "hint", Value: s.Hint.WorkerType, Want: "is not for a listener: name the source, with its own hint, in sources"}})
	}
	return all
}

// knownProblems checks the sources that are known beforehand.
func (l *Listener) knownProblems() (all []error) {
	ids := map[string]int{}
	for i := range l.Sources {
		s := &l.Sources[i]
		add := func(e FieldError) {
			e.Source, e.Field = "", fmt.Sprintf("sources[%d].%s", i, e.Field)
			all = append(all, &ListenerError{l.ID, e})
		}
		for _, e := range append(s.reached(), s.problems(DefaultMaxRanks, false)...) {
			add(*e)
		}
		if s.Replay != "" {
			if _, err := RankEndpoint(s.Replay, s.ranks()-1); err != nil {
				add(FieldError{Field: "replay", Value: strconv.Quote(s.Replay), Want: err.Error()})
			}
		}
		if before, twice := ids[s.ID]; twice && s.ID != "" {
			add(FieldError{Field: "id", Value: strconv.Quote(s.ID), Want: fmt.Sprintf("is the id of sources[%d] too", before)})
		}
		ids[s.ID] = i
	}
	return all
}

// reached finds what says where a publisher is: a listener's come by themselves.
func (s *Source) reached() (all []*FieldError) {
	for _, f := range []struct {
		set          bool
		field, value string
	}{
		{s.Endpoint != "", "endpoint", strconv.Quote(s.Endpoint)},
		{len(s.Shards) > 0, "shards", strconv.Itoa(len(s.Shards)) + " endpoints"},
		{len(s.ShardReplays) > 0, "shard_replays", strconv.Itoa(len(s.ShardReplays)) + " endpoints"},
		{s.Push, "push", "true"},
		{s.Topic != "", "topic", strconv.Quote(s.Topic)},
		{s.Plain != nil, "plain", "is set"},
		{s.Discover != nil, "discover", "is set"},
	} {
		if f.set {
			all = append(all, &FieldError{Source: s.ID, Field: f.field, Value: f.value, Want: "is not for a listener, to which publishers come with the listener's topic"})
		}
	}
	return all
}

// plainProblem is what a user and password want, "" if they are right.
func plainProblem(p *zmtp.Plain) string {
	switch {
	case p.Password == nil:
		return "has no password"
	case len(p.User) > 255:
		return "is longer than the 255 bytes that PLAIN can carry"
	}
	return ""
}

// wanted is what an endpoint's error says behind the endpoint.
func wanted(err error) string {
	if e := new(zmtp.EndpointError); errors.As(err, &e) {
		return e.Want
	}
	return err.Error()
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// maxID is the longest id of a source or listener, in bytes.
const maxID = 256

// ListenerStatus describes one listener as it is now.
type ListenerStatus struct {
	ID string
	// Endpoint is where publishers can connect to, with the port that was
	// chosen, or the relay that is connected to.
	Endpoint string
	Topic    string
	Model    string // "" if topics name it
	// Sources is how many sources it feeds, Dynamic how many of them came into
	// being by themselves, and MaxSources the most there may be of those.
	Sources, Dynamic, MaxSources int
	// Streams is how many streams came into being, MaxStreams the most there may
	// be of those.
	Streams, MaxStreams int
	// Forgotten is how many were removed because nobody spoke for them.
	Forgotten uint64
	// Stats counts connections and what was dropped before it reached a stream.
	bound.Stats
}
