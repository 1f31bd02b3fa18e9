package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/ingest/journal"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

const kvTopic = "kv@{source}@{model}"

// listenHere starts a listener on any port and returns where.
func listenHere(t testing.TB, e *Engine, set func(*Listener)) string {
	t.Helper()
	l := Listener{ID: "in", Bind: "tcp://127.0.0.1:0", Topic: kvTopic}
	if set != nil {
		set(&l)
	}
	if err := e.Listen(patience(t), l); err != nil {
		t.Fatal(err)
	}
	return listenerOf(t, e, l.ID).Endpoint
}

func listenerOf(t testing.TB, e *Engine, id string) ListenerStatus {
	t.Helper()
	for _, l := range e.Listeners() {
		if l.ID == id {
			return l
		}
	}
	t.Fatalf("no listener %q", id)
	return ListenerStatus{}
}

// dropped is how many messages a listener dropped for a reason.
func (l ListenerStatus) dropped(reason string) uint64 {
	for _, c := range l.Dropped {
		if c.Reason == reason {
			return c.Count
		}
	}
	return 0
}

// dialling starts a publisher that connects.
func dialling(t testing.TB, endpoint, topic string, c zmtp.PublisherConfig) *publisher {
	t.Helper()
	c.Backoff = zmtp.Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond}
	pub, err := c.Connect(context.Background(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pub.Close() })
	p := &publisher{t: t, pub: pub, topic: topic, dialect: dialects[1]}
	p.connected()
	return p
}

func (p *publisher) connected() {
	p.t.Helper()
	if err := p.pub.WaitSubscribers(patience(p.t), 1); err != nil {
		p.t.Fatal(err)
	}
}

// sendOf publishes a batch of a rank and returns its sequence.
func (p *publisher) sendOf(rank int, events ...event) uint64 {
	p.t.Helper()
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, float64(time.Now().UnixMilli())/1000)
	b = msgp.AppendArrayHeader(b, uint32(len(events)))
	for _, e := range events {
		b = p.dialect.append(b, e)
	}
	return p.sendRaw(msgp.AppendInt(b, rank))
}

// eventually awaits what follows from an event that nothing announces.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%s: not after 20 s", what)
		}
	}
}

// applied waits until a batch is visible, of a source that may come into being
// only with it.
func applied(t testing.TB, e *Engine, source string, rank int, seq uint64) {
	t.Helper()
	var err error
	eventually(t, "source "+source, func() bool {
		err = e.WaitApplied(patience(t), source, rank, seq)
		return !errors.Is(err, ErrUnknownSource) && !errors.Is(err, ErrUnknownRank)
	})
	if err != nil {
		t.Fatalf("%s rank %d, sequence %d: %v", source, rank, seq, err)
	}
}

func asked(model string, n int) *Query { return &Query{Model: model, Tokens: count(1, uint32(n))} }

func stateOf(t testing.TB, e *Engine, source string, rank int) State {
	t.Helper()
	for _, s := range e.Sources() {
		for _, st := range s.Streams {
			if s.ID == source && st.Rank == rank {
				return st.State
			}
		}
	}
	t.Fatalf("no stream of %s rank %d", source, rank)
	return 0
}

// Sources come into being by their topics, with models of their own; the end of
// one publisher is nothing to the others.
func TestListenerMakesSources(t *testing.T) {
	e := openEngine(t, Options{})
	at := listenHere(t, e, nil)
	a := dialling(t, at, "kv@w1@m", zmtp.PublisherConfig{})
	b := dialling(t, at, "kv@w2@m2", zmtp.PublisherConfig{})
	applied(t, e, "w1", 0, a.sendOf(0, store(4, "GPU", "")))
	applied(t, e, "w2", 0, b.sendOf(0, store(2, "GPU", "")))
	if d := depthsOf(t, e, asked("m", 256), "w1", 0, 0); d.Device != 256 {
		t.Errorf("w1: %+v", d)
	}
	if d := depthsOf(t, e, asked("m2", 256), "w2", 0, 0); d.Device != 128 {
		t.Errorf("w2: %+v", d)
	}
	a.pub.Close()
	eventually(t, "w1 disconnected", func() bool { return stateOf(t, e, "w1", 0) == Disconnected })
	applied(t, e, "w2", 0, b.sendOf(0, remove("GPU", "", chainNames[1])))
	if d := depthsOf(t, e, asked("m2", 256), "w2", 0, 0); d.Device != 64 {
		t.Errorf("w2: %+v", d)
	}
	if s := stateOf(t, e, "w2", 0); s != Exact {
		t.Errorf("w2 is %v", s)
	}
	st := listenerOf(t, e, "in")
	if st.Sources != 2 || st.Dynamic != 2 || st.Connected != 2 || st.Open != 1 || st.MaxSources != DefaultMaxSources {
		t.Errorf("%+v", st)
	}
	for _, s := range e.Sources() {
		if len(s.Streams) != 1 || s.Streams[0].Endpoint != at {
			t.Errorf("%+v", s)
		}
	}
}

// TestEveryWayToConnect: either side may bind, over IPv4, IPv6 and ipc.
func TestEveryWayToConnect(t *testing.T) {
	for name, bind := range map[string]string{
		"IPv4": "tcp://127.0.0.1:0", "IPv6": "tcp://[::1]:0", "any": "tcp://*:0",
		"ipc": "ipc://" + t.TempDir() + "/kv", "abstract": "ipc://@cairn-" + fmt.Sprint(time.Now().UnixNano()),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "IPv6" {
				l, err := net.Listen("tcp", "[::1]:0")
				if err != nil {
					t.Skipf("no IPv6 here: %v", err)
				}
				l.Close()
			}
			e := openEngine(t, Options{})
			check := func(source string) {
				t.Helper()
				if d := depthsOf(t, e, asked("m", 256), source, 0, 0); d.Device != 128 {
					t.Errorf("%s: %+v", source, d)
				}
			}
			at := listenHere(t, e, func(l *Listener) { l.Bind = bind })
			p := dialling(t, at, "kv@theirs@m", zmtp.PublisherConfig{})
			applied(t, e, "theirs", 0, p.sendOf(0, store(2, "GPU", "")))
			check("theirs")
			if err := e.RemoveListener(patience(t), "in"); err != nil {
				t.Fatal(err)
			}

			pub, err := zmtp.Listen(context.Background(), bind)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { pub.Close() })
			q := &publisher{t: t, pub: pub, dialect: dialects[0]}
			if err := e.AddSource(patience(t), Source{ID: "ours", Model: "m", Endpoint: pub.Addr()}); err != nil {
				t.Fatal(err)
			}
			q.connected()
			applied(t, e, "ours", 0, q.send(store(2, "GPU", "")))
			check("ours")
		})
	}
}

// A connection that breaks is judged by the numbers of the one before: going on,
// a loss, or another process.
func TestListenerPublisherReturns(t *testing.T) {
	e := openEngine(t, Options{})
	at := listenHere(t, e, nil)
	p := dialling(t, at, "kv@w1@m", zmtp.PublisherConfig{})
	applied(t, e, "w1", 0, p.sendOf(0, store(4, "GPU", "")))
	again := func() {
		t.Helper()
		p.pub.Disconnect()
		eventually(t, "disconnected", func() bool { return stateOf(t, e, "w1", 0) == Disconnected })
		p.connected()
	}
	again()
	applied(t, e, "w1", 0, p.sendOf(0, remove("GPU", "", chainNames[3])))
	if d, s := depthsOf(t, e, asked("m", 256), "w1", 0, 0), stateOf(t, e, "w1", 0); d.Device != 192 || s != Exact {
		t.Errorf("going on: %+v, %v", d, s)
	}
	again()
	p.next++ // one was lost meanwhile
	applied(t, e, "w1", 0, p.sendOf(0, store(1, "GPU", "")))
	if d, s := depthsOf(t, e, asked("m", 256), "w1", 0, 0), stateOf(t, e, "w1", 0); d.Device != 64 || s != Degraded {
		t.Errorf("a loss: %+v, %v", d, s)
	}
	again()
	p.next = 0 // another process
	p.sendOf(0, store(2, "GPU", ""))
	eventually(t, "exact again", func() bool { return stateOf(t, e, "w1", 0) == Exact })
	applied(t, e, "w1", 0, 0)
	if d := depthsOf(t, e, asked("m", 256), "w1", 0, 0); d.Device != 128 {
		t.Errorf("another process: %+v", d)
	}
}

// Ranks are those that are met, each with its own numbers, wherever they come
// from.
func TestListenerMeetsRanks(t *testing.T) {
	e := openEngine(t, Options{})
	at := listenHere(t, e, nil)
	a := dialling(t, at, "kv@w1@m", zmtp.PublisherConfig{})
	b := dialling(t, at, "kv@w1@m", zmtp.PublisherConfig{})
	applied(t, e, "w1", 5, a.sendOf(5, store(4, "GPU", "")))
	applied(t, e, "w1", 2, b.sendOf(2, store(1, "GPU", "")))
	applied(t, e, "w1", 5, a.sendOf(5, remove("GPU", "", chainNames[3])))
	for rank, want := range map[int]int{5: 192, 2: 64} {
		if d := depthsOf(t, e, asked("m", 256), "w1", rank, 0); d.Device != want {
			t.Errorf("rank %d: %+v, want %d", rank, d, want)
		}
		if s := stateOf(t, e, "w1", rank); s != Exact {
			t.Errorf("rank %d is %v", rank, s)
		}
	}
	if all := e.Sources(); len(all) != 1 || len(all[0].Streams) != 2 || all[0].State != Exact {
		t.Errorf("%+v", all)
	}
	// A rank beyond the limit is refused.
	a.sendOf(DefaultMaxRanks, store(1, "GPU", ""))
	eventually(t, "refused", func() bool { return listenerOf(t, e, "in").dropped("refused") == 1 })
	if st := listenerOf(t, e, "in"); !strings.Contains(st.LastError, "rank 64") {
		t.Errorf("%q", st.LastError)
	}
}

// A relay that is connected to speaks for many, over one connection.
func TestListenerOfRelay(t *testing.T) {
	e := openEngine(t, Options{})
	p := listen(t, "127.0.0.1", dialects[1])
	if err := e.Listen(patience(t), Listener{ID: "relay", Connect: p.pub.Addr(), Topic: kvTopic}); err != nil {
		t.Fatal(err)
	}
	p.connected()
	for i, topic := range []string{"kv@w1@m", "kv@w2@m", "kv@w1@m"} {
		p.topic, p.next = topic, uint64(i/2)
		seq := p.sendOf(0, store(4-i, "GPU", ""))
		applied(t, e, topic[3:5], 0, seq)
	}
	for source, want := range map[string]int{"w1": 256, "w2": 192} {
		if d := depthsOf(t, e, asked("m", 256), source, 0, 0); d.Device != want {
			t.Errorf("%s: %+v, want %d", source, d, want)
		}
	}
}

// Sources with settings of their own are there from the start, and take part in
// hints.
func TestListenerKnownSources(t *testing.T) {
	e := openEngine(t, Options{})
	hints := func(port int) *HintConfig {
		return &HintConfig{WorkerType: "aggregated", Endpoint: fmt.Sprintf("tcp://127.0.0.1:%d", port)}
	}
	at := listenHere(t, e, func(l *Listener) {
		l.Topic, l.MaxSources = "kv@{source}", -1
		l.Sources = []Source{{ID: "w1", Model: "m", Hint: hints(23280)}, {ID: "w2", Model: "m", Hint: hints(23281)}}
	})
	if all := e.Sources(); len(all) != 2 || all[0].State != Connecting || len(all[0].Streams) != 1 {
		t.Fatalf("%+v", all)
	}
	a := dialling(t, at, "kv@w1", zmtp.PublisherConfig{})
	b := dialling(t, at, "kv@w2", zmtp.PublisherConfig{})
	applied(t, e, "w1", 0, a.sendOf(0, store(4, "GPU", "")))
	applied(t, e, "w2", 0, b.sendOf(0, event{clear: true}))
	var h HintAnswer
	if err := e.Hint(asked("m", 256), Target{Source: "w2", MessageID: "r"}, &h); err != nil || h.Reason != 0 {
		t.Errorf("%v: %v %v", err, h.Reason, h.Detail)
	}
	c := dialling(t, at, "kv@w3", zmtp.PublisherConfig{})
	c.sendOf(0, store(1, "GPU", ""))
	eventually(t, "refused", func() bool { return listenerOf(t, e, "in").dropped("refused") == 1 })
	if st := listenerOf(t, e, "in"); st.Sources != 2 || st.Dynamic != 0 || !strings.Contains(st.LastError, "w3") {
		t.Errorf("%+v", st)
	}
}

// Sources are bounded, and those that nobody speaks for make room.
func TestListenerForgets(t *testing.T) {
	e := openEngine(t, Options{})
	at := listenHere(t, e, func(l *Listener) { l.MaxSources, l.ForgetAfter = 2, 100*time.Millisecond })
	var pubs []*publisher
	for i := range 2 {
		p := dialling(t, at, fmt.Sprintf("kv@w%d@m", i), zmtp.PublisherConfig{})
		applied(t, e, fmt.Sprintf("w%d", i), 0, p.sendOf(0, store(1, "GPU", "")))
		pubs = append(pubs, p)
	}
	c := dialling(t, at, "kv@w2@m", zmtp.PublisherConfig{})
	c.sendOf(0, store(1, "GPU", ""))
	eventually(t, "refused", func() bool { return listenerOf(t, e, "in").dropped("refused") == 1 })
	if st := listenerOf(t, e, "in"); st.Sources != 2 || !strings.Contains(st.LastError, "too many sources") {
		t.Errorf("%+v", st)
	}
	pubs[0].pub.Close()
	eventually(t, "forgotten", func() bool { return listenerOf(t, e, "in").Forgotten == 1 })
	if all := e.Sources(); len(all) != 1 || all[0].ID != "w1" {
		t.Fatalf("%+v", all)
	}
	applied(t, e, "w2", 0, c.sendOf(0, store(3, "GPU", "")))
	if s := stateOf(t, e, "w2", 0); s != Degraded {
		t.Errorf("a publisher whose beginning was refused is %v", s)
	}
}

// Ranks are bounded over all sources of a listener, for each costs a ring.
func TestListenerMaxStreams(t *testing.T) {
	e := openEngine(t, Options{})
	at := listenHere(t, e, func(l *Listener) { l.MaxStreams, l.ForgetAfter = 3, 50*time.Millisecond })
	p := dialling(t, at, "kv@w1@m", zmtp.PublisherConfig{})
	for rank := range 3 {
		applied(t, e, "w1", rank, p.sendOf(rank, store(1, "GPU", "")))
	}
	for i, topic := range []string{"kv@w1@m", "kv@w2@m"} {
		p.topic = topic
		p.sendOf(3, store(1, "GPU", ""))
		eventually(t, "refused", func() bool { return listenerOf(t, e, "in").dropped("refused") == uint64(i+1) })
		if st := listenerOf(t, e, "in"); st.Streams != 3 || st.Sources != 1 || !strings.Contains(st.LastError, "too many streams") {
			t.Errorf("%+v", st)
		}
	}
	p.pub.Close()
	eventually(t, "forgotten", func() bool { return listenerOf(t, e, "in").Streams == 0 })
	q := dialling(t, at, "kv@w2@m", zmtp.PublisherConfig{})
	applied(t, e, "w2", 7, q.sendOf(7, store(1, "GPU", "")))
}

// What is told apart by nothing is refused: another model, another's source.
func TestListenerRefuses(t *testing.T) {
	e := openEngine(t, Options{})
	addWorker(t, e, "own", "127.0.0.1", 1, dialects[1], nil)
	at := listenHere(t, e, nil)
	p := dialling(t, at, "kv@w1@m", zmtp.PublisherConfig{})
	applied(t, e, "w1", 0, p.sendOf(0, store(1, "GPU", "")))
	for i, c := range []struct{ topic, says string }{
		{"kv@w1@other", `is of model "m"`},
		{"kv@own@m", ErrSourceExists.Error()},
	} {
		q := dialling(t, at, c.topic, zmtp.PublisherConfig{})
		q.sendOf(0, store(4, "GPU", ""))
		eventually(t, c.topic, func() bool { return listenerOf(t, e, "in").dropped("refused") == uint64(i+1) })
		if st := listenerOf(t, e, "in"); !strings.Contains(st.LastError, c.says) {
			t.Errorf("%s: %q, want %q", c.topic, st.LastError, c.says)
		}
	}
	if d := depthsOf(t, e, asked("m", 256), "w1", 0, 0); d.Device != 64 {
		t.Errorf("%+v", d)
	}
}

func TestListenerUsers(t *testing.T) {
	e := openEngine(t, Options{})
	at := listenHere(t, e, func(l *Listener) { l.Users = []zmtp.Plain{{User: "engine", Password: zmtp.Password("s3cret")}} })
	p := dialling(t, at, "kv@w1@m", zmtp.PublisherConfig{Plain: &zmtp.Plain{User: "engine", Password: zmtp.Password("s3cret")}})
	applied(t, e, "w1", 0, p.sendOf(0, store(1, "GPU", "")))
	c := zmtp.PublisherConfig{Plain: &zmtp.Plain{User: "engine", Password: zmtp.Password("guess")}}
	stranger, err := c.Connect(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	eventually(t, "refused", func() bool { return listenerOf(t, e, "in").Refused > 0 })
	if st := listenerOf(t, e, "in"); st.Open != 1 || !strings.Contains(st.LastError, "engine") {
		t.Errorf("%+v", st)
	}
}

func TestRemoveListener(t *testing.T) {
	e := openEngine(t, Options{})
	at := listenHere(t, e, nil)
	p := dialling(t, at, "kv@w1@m", zmtp.PublisherConfig{})
	applied(t, e, "w1", 0, p.sendOf(0, store(1, "GPU", "")))
	if err := e.Listen(patience(t), Listener{ID: "in", Bind: "tcp://127.0.0.1:0", Topic: kvTopic}); !errors.Is(err, ErrListenerExists) {
		t.Errorf("a second of the name: %v", err)
	}
	if err := e.Listen(patience(t), Listener{ID: "in2", Bind: at, Topic: kvTopic}); err == nil {
		t.Error("one address was bound twice")
	}
	if err := e.RemoveListener(patience(t), "in"); err != nil {
		t.Fatal(err)
	}
	if n := len(e.Sources()) + len(e.Listeners()); n != 0 {
		t.Errorf("%d sources and listeners are left", n)
	}
	for _, id := range []string{"in", "in2", "other"} {
		if err := e.RemoveListener(patience(t), id); !errors.Is(err, ErrUnknownListener) {
			t.Errorf("%s: %v", id, err)
		}
	}
	// The name and the address are free again.
	listenHere(t, e, func(l *Listener) { l.Bind = at })
	p.next = 0
	eventually(t, "connected", func() bool { return listenerOf(t, e, "in").Connected == 1 })
	p.connected()
	applied(t, e, "w1", 0, p.sendOf(0, store(1, "GPU", "")))

	// A source of a listener may be removed; its publisher makes it anew.
	if err := e.RemoveSource(patience(t), "w1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "made anew", func() bool {
		p.connected()
		p.sendOf(0, store(1, "GPU", ""))
		return len(e.Sources()) == 1
	})

	// A known source that exists already ends the listener.
	err := e.Listen(patience(t), Listener{ID: "in3", Bind: "tcp://127.0.0.1:0", Topic: kvTopic, Sources: []Source{{ID: "x", Model: "m"}, {ID: "w1", Model: "m"}}})
	if !errors.Is(err, ErrSourceExists) {
		t.Errorf("%v, want ErrSourceExists", err)
	}
	if l, s := len(e.Listeners()), len(e.Sources()); l != 1 || s != 1 {
		t.Errorf("%d listeners, %d sources", l, s)
	}
}

func TestListenerValidate(t *testing.T) {
	good := Listener{ID: "in", Bind: "tcp://*:5557", Topic: kvTopic}
	password := zmtp.Password("x")
	for name, set := range map[string]func(*Listener){
		"the least": func(*Listener) {},
		"IPv6":      func(l *Listener) { l.Bind = "tcp://[::]:5557" },
		"ipc":       func(l *Listener) { l.Bind = "ipc:///run/kv.sock" },
		"a relay": func(l *Listener) {
			l.Bind, l.Connect, l.Plain = "", "tcp://relay:5557", &zmtp.Plain{User: "u", Password: password}
		},
		"one source": func(l *Listener) { l.Topic, l.Source = "", Source{ID: "pool", Model: "m", FirstSeq: 1} },
		"known ones alone": func(l *Listener) {
			l.Topic, l.MaxSources, l.Sources = "{source}", -1, []Source{{ID: "w", Model: "m", Replay: "tcp://h:5558"}}
		},
		"users": func(l *Listener) { l.Users = []zmtp.Plain{{User: "u", Password: password}} },
	} {
		l := good
		set(&l)
		if err := l.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		name  string
		set   func(*Listener)
		wants []string
	}{
		{"nothing", func(l *Listener) { *l = Listener{} }, []string{`id "": a listener needs a name`, `bind "": wants where`, `topic "": names no {source}`, `model "": names the model`}},
		{"both ways", func(l *Listener) { l.Connect = "tcp://h:1" }, []string{`connect "tcp://h:1": stands beside bind`}},
		{"bind", func(l *Listener) { l.Bind = "tcp://h" }, []string{`listener "in": bind "tcp://h": wants tcp://host:port`}},
		{"connect", func(l *Listener) { l.Bind, l.Connect = "", "tcp://*:1" }, []string{`connect "tcp://*:1": names no host`}},
		{"topic", func(l *Listener) { l.Topic = "kv@{pod}" }, []string{`topic "kv@{pod}": at byte 3 {pod} is no placeholder; want {source}`}},
		{"id and {source}", func(l *Listener) { l.Source.ID = "x" }, []string{`source "x": stands beside a topic with {source}`}},
		{"model and {model}", func(l *Listener) { l.Source.Model = "x" }, []string{`model "x": stands beside a topic with {model}`}},
		{"no model", func(l *Listener) { l.Topic = "kv@{source}" }, []string{`model "": names the model that queries ask for: wants it here, or {model}`}},
		{"several at once", func(l *Listener) {
			l.MaxSources, l.MaxConns, l.MaxMessage, l.HandshakeTimeout = 1<<20, -1, 5, 1
			l.Plain = &zmtp.Plain{User: "u", Password: password}
			l.Users = []zmtp.Plain{{User: "nobody"}}
			l.Source = Source{Endpoint: "tcp://h:1", Protocol: "x", Ranks: 2, Hint: &HintConfig{WorkerType: "decode"}}
		}, []string{`max_sources 1048576: wants 1 … 65536`, `max_connections -1`, `max_message 5`, `handshake_timeout 1`, `plain "u": is for connect`, `users[0] "nobody": has no password`,
			`endpoint "tcp://h:1": is not for a listener`, `protocol "x": wants one of`, `ranks 2: is not for a listener`, `hint decode: is not for a listener`}},
		{"known", func(l *Listener) {
			l.Sources = []Source{{ID: "a", Model: "m"}, {ID: "a", Model: "", Topic: "t"}, {ID: "b", Model: "m", Replay: "tcp://*:1"}}
		}, []string{`sources[1].id "a": is the id of sources[0] too`, `sources[1].model "": names the model`, `sources[1].topic "t": is not for a listener`, `sources[2].replay "tcp://*:1": names no host`}},
		{"users of a relay", func(l *Listener) {
			l.Bind, l.Connect, l.Users = "", "tcp://h:1", []zmtp.Plain{{User: "u", Password: password}}
		}, []string{`users 1 users: are for bind`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := good
			c.set(&l)
			err := l.Validate()
			if err == nil {
				t.Fatal("no error")
			}
			var f *ListenerError
			if !errors.As(err, &f) {
				t.Errorf("%T", err)
			}
			for _, want := range c.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %s in\n%v", want, err)
				}
			}
			if n := strings.Count(err.Error(), "\n") + 1; n != len(c.wants) {
				t.Errorf("%d problems, want %d\n%v", n, len(c.wants), err)
			}
		})
	}
}

// An engine that binds port 0 is found by its list, and found again when it has
// other ports.
func TestDiscoveredSource(t *testing.T) {
	var ports atomic.Pointer[[]string]
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var entries []string
		for rank, at := range *ports.Load() {
			entries = append(entries, fmt.Sprintf(`{"data_parallel_rank":%d,"endpoint":%q,"replay_endpoint":null,"topic":""}`, rank, at))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(entries, ","))
	}))
	defer list.Close()
	bind := func() []*publisher {
		pubs := []*publisher{listen(t, "127.0.0.1", dialects[1]), listen(t, "127.0.0.1", dialects[1])}
		ports.Store(&[]string{strings.Replace(pubs[0].pub.Addr(), "127.0.0.1", "*", 1), pubs[1].pub.Addr()})
		return pubs
	}
	pubs := bind()
	e := openEngine(t, Options{})
	url := list.URL + "/kv_event_sources"
	if err := e.AddSource(patience(t), Source{ID: "w1", Model: "m", Ranks: 2, Discover: &Discovery{URL: url}}); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		for rank, p := range pubs {
			p.connected()
			p.send(store(4-rank-round, "GPU", ""))
			want := 64 * (4 - rank - round)
			eventually(t, "depth", func() bool { return depthsOf(t, e, asked("m", 256), "w1", rank, 0).Device == want })
		}
		if all := e.Sources(); all[0].State != Exact || all[0].Streams[1].Endpoint != url {
			t.Errorf("%+v", all)
		}
		old := pubs
		pubs = bind()
		for _, p := range old {
			p.pub.Close()
		}
	}
	for name, set := range map[string]func(*Source){
		"url":      func(s *Source) { s.Discover.URL = "tcp://h:1" },
		"endpoint": func(s *Source) { s.Endpoint = "tcp://h:1" },
		"shards":   func(s *Source) { s.Shards = []string{"tcp://h:1"} },
		"replay":   func(s *Source) { s.Replay = "tcp://h:1" },
	} {
		s := Source{ID: "x", Model: "m", Discover: &Discovery{URL: url}}
		set(&s)
		var f *FieldError
		if err := e.AddSource(patience(t), s); !errors.As(err, &f) || !strings.HasSuffix(f.Field, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A source that dials proves itself to its publisher.
func TestSourcePlain(t *testing.T) {
	user := zmtp.Plain{User: "cairn", Password: zmtp.Password("s3cret")}
	pub, err := zmtp.PublisherConfig{Users: []zmtp.Plain{user}}.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	e := openEngine(t, Options{})
	if err := e.AddSource(patience(t), Source{ID: "no", Model: "m", Endpoint: pub.Addr()}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "refused", func() bool { return strings.Contains(e.Sources()[0].Streams[0].LastError, "PLAIN") })
	if err := e.AddSource(patience(t), Source{ID: "w1", Model: "m", Endpoint: pub.Addr(), Plain: &user}); err != nil {
		t.Fatal(err)
	}
	if err := pub.WaitSubscribers(patience(t), 1); err != nil {
		t.Fatal(err)
	}
	p := &publisher{t: t, pub: pub, dialect: dialects[1]}
	applied(t, e, "w1", 0, p.send(store(1, "GPU", "")))
}

// What came over a listener is recorded and played as everything else, with the
// ranks that were met.
func TestListenerIsRecorded(t *testing.T) {
	e := openEngine(t, Options{})
	at := listenHere(t, e, nil)
	var file bytes.Buffer
	r, err := e.Record(&file, RecordOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := dialling(t, at, "kv@w1@m", zmtp.PublisherConfig{})
	b := dialling(t, at, "kv@w2@m", zmtp.PublisherConfig{})
	applied(t, e, "w1", 3, a.sendOf(3, store(4, "GPU", "")))
	applied(t, e, "w2", 0, b.sendOf(0, store(2, "GPU", "")))
	a.next = 0 // another series of numbers on the same connection
	applied(t, e, "w1", 1, a.sendOf(1, store(1, "GPU", "")))
	want := dumpOf(t, e)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	played := openEngine(t, Options{})
	from, err := journal.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := played.Replay(patience(t), from, ReplayOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := dumpOf(t, played); got != want {
		t.Errorf("played:\n%s\nrecorded:\n%s", got, want)
	}
}
