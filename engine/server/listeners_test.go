package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// TestListeners: where publishers connect to, and what became of them, over
// HTTP and as metrics.
func TestListeners(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	e, err := engine.Open(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(ctx)
	ts := httptest.NewServer(newServer(t, Options{Engine: e}).Handler())
	defer ts.Close()
	defer ts.Client().CloseIdleConnections()
	get := func(path string) string {
		t.Helper()
		reply, err := ts.Client().Get(ts.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		body, err := io.ReadAll(reply.Body)
		if err != nil || reply.StatusCode != 200 {
			t.Fatalf("%s: %s: %s, %v", path, reply.Status, body, err)
		}
		return string(body)
	}
	if got := get("/v1/listeners"); got != `{"listeners":[]}`+"\n" && got != `{"listeners":[]}` {
		t.Errorf("without listeners: %s", got)
	}
	if strings.Contains(get("/metrics"), "cairn_listener") {
		t.Error("metrics of listeners without one")
	}
	if err := e.Listen(ctx, engine.Listener{ID: "in", Bind: "tcp://127.0.0.1:0", Topic: "kv@{source}", Source: engine.Source{Model: "m"}}); err != nil {
		t.Fatal(err)
	}
	at := e.Listeners()[0].Endpoint
	pub, err := zmtp.PublisherConfig{}.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"kv@", "kv@w1"} {
		if err := pub.Send([]byte(topic), binary.BigEndian.AppendUint64(nil, 0), stored(2)); err != nil {
			t.Fatal(err)
		}
	}
	for len(e.Sources()) == 0 {
		if ctx.Err() != nil {
			t.Fatal("no source")
		}
		time.Sleep(time.Millisecond)
	}
	if err := e.WaitApplied(ctx, "w1", 0, 0); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Listeners []struct {
			ID, Endpoint, Topic, Model string
			Sources, Dynamic           int
			MaxSources                 int `json:"max_sources"`
			Connections                map[string]uint64
			Dropped                    map[string]uint64
			LastError                  string `json:"last_error"`
		}
	}
	if err := json.Unmarshal([]byte(get("/v1/listeners")), &got); err != nil {
		t.Fatal(err)
	}
	l := got.Listeners[0]
	if l.ID != "in" || l.Endpoint != at || l.Topic != "kv@{source}" || l.Model != "m" || l.Sources != 1 || l.Dynamic != 1 || l.MaxSources != engine.DefaultMaxSources ||
		l.Connections["open"] != 1 || l.Connections["connected"] != 1 || l.Dropped["topic_empty_field"] != 1 || l.LastError != "" {
		t.Errorf("%+v", l)
	}
	text := get("/metrics")
	for _, line := range []string{
		`cairn_listener_sources{listener="in"} 1`,
		`cairn_listener_connections{listener="in"} 1`,
		`cairn_listener_connections_total{listener="in",outcome="connected"} 1`,
		`cairn_listener_connections_total{listener="in",outcome="refused"} 0`,
		`cairn_listener_messages_dropped_total{listener="in",reason="topic_empty_field"} 1`,
		`cairn_listener_messages_dropped_total{listener="in",reason="contested"} 0`,
		`cairn_listener_forgotten_total{listener="in"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}
