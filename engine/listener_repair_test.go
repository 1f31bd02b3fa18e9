package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// A publisher that connects is repaired as one that listens, where its replay
// socket is known.
func TestListenerRepairs(t *testing.T) {
	a := newArchive(t)
	e := openEngine(t, Options{Repair: RepairOptions{ProbeAfter: -1}})
	at := listenHere(t, e, func(l *Listener) {
		l.Topic, l.MaxSources = "kv@{source}", -1
		l.Sources = []Source{{ID: "w1", Model: "m", Replay: a.Addr()}}
	})
	p := dialling(t, at, "kv@w1", zmtp.PublisherConfig{})
	p.keep = a.keep
	applied(t, e, "w1", 0, p.send(store(4, "GPU", "")))
	p.lose(remove("GPU", "", chainNames[3]))
	applied(t, e, "w1", 0, p.send(event{remove: true, names: []uint64{chainNames[2]}, medium: "GPU"}))
	eventually(t, "repaired", func() bool { return stateOf(t, e, "w1", 0) == Exact })
	if d := depthsOf(t, e, asked("m", 256), "w1", 0, 0); d.Device != 128 {
		t.Errorf("%+v", d)
	}
	if n := counterOf(t, e, "w1", "losses"); n != 0 {
		t.Errorf("%d losses", n)
	}
}

// Replay sockets may be announced with the publishers, and move with them.
func TestDiscoveredReplay(t *testing.T) {
	var now atomic.Pointer[string]
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, *now.Load()) }))
	defer list.Close()
	process := func() *publisher {
		a, p := newArchive(t), listen(t, "127.0.0.1", dialects[1])
		p.keep = a.keep
		text := fmt.Sprintf(`[{"data_parallel_rank":0,"endpoint":%q,"replay_endpoint":%q,"topic":""}]`, p.pub.Addr(), a.Addr())
		now.Store(&text)
		return p
	}
	p := process()
	e := openEngine(t, Options{Repair: RepairOptions{ProbeAfter: -1}})
	if err := e.AddSource(patience(t), Source{ID: "w1", Model: "m", Discover: &Discovery{URL: list.URL, Replay: true}}); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		p.connected()
		p.send(store(4-round, "GPU", ""))
		p.lose(remove("GPU", "", chainNames[3-round]))
		p.send(event{remove: true, names: []uint64{chainNames[2-round]}, medium: "GPU"})
		want := 128 - 64*round
		eventually(t, "repaired", func() bool {
			return depthsOf(t, e, asked("m", 256), "w1", 0, 0).Device == want && stateOf(t, e, "w1", 0) == Exact
		})
		old := p
		p = process()
		old.pub.Close()
	}
	if n := counterOf(t, e, "w1", "losses"); n != 0 {
		t.Errorf("%d losses", n)
	}
}

// counterOf is a counter of a source's first stream.
func counterOf(t testing.TB, e *Engine, source, name string) uint64 {
	t.Helper()
	for _, s := range e.Sources() {
		if s.ID != source {
			continue
		}
		for _, c := range s.Streams[0].Counters {
			if c.Name == name {
				return c.Value
			}
		}
	}
	t.Fatalf("no counter %s of %s", name, source)
	return 0
}
