package server

import (
	"io"
	"net/http"

	"github.com/cairn-kv/cairn/engine"
)

// Listening is the part of *engine.Engine that publishers connect to. Without it
// there is no route for it, and no metric.
type Listening interface {
	Listeners() []engine.ListenerStatus
}

// listenerRoutes adds
//
//	GET /v1/listeners   where publishers connect to, and what became of them
func (s *Server) listenerRoutes(api *http.ServeMux) {
	if _, ok := s.opt.Engine.(Listening); ok {
		s.route(api, "/v1/listeners", http.MethodGet, RoleRead, s.listeners)
		s.metrics.RegisterMetricsWriter(s.writeListenerMetrics)
	}
}

func (s *Server) listeners(_ http.ResponseWriter, _ *http.Request, c *call) *apiError {
	c.out = append(c.out, `{"listeners":[`...)
	for i, l := range s.opt.Engine.(Listening).Listeners() {
		c.out = appendListener(comma(c.out, i), &l)
	}
	c.out = append(c.out, "]}"...)
	return nil
}

func appendListener(b []byte, l *engine.ListenerStatus) []byte {
	b = appendText(b, `{"id":`, l.ID)
	b = appendText(b, `,"endpoint":`, l.Endpoint)
	b = appendText(b, `,"topic":`, l.Topic)
	b = appendText(b, `,"model":`, l.Model)
	b = appendInt(b, `,"sources":`, l.Sources)
	b = appendInt(b, `,"dynamic":`, l.Dynamic)
	b = appendInt(b, `,"max_sources":`, l.MaxSources)
	b = appendInt(b, `,"streams":`, l.Streams)
	b = appendInt(b, `,"max_streams":`, l.MaxStreams)
	b = appendUint(b, `,"forgotten":`, l.Forgotten)
	b = appendInt(b, `,"connections":{"open":`, l.Open)
	b = appendInt(b, `,"pending":`, l.Pending)
	for _, c := range connectionCounts {
		b = appendUint(b, `,"`+c.name+`":`, c.of(l))
	}
	b = appendUint(b, `,"message_bytes":`, uint64(l.Memory))
	b = append(b, `},"dropped":{`...)
	for i, d := range l.Dropped {
		b = appendUint(comma(b, i), `"`+d.Reason+`":`, d.Count)
	}
	return append(appendText(b, `},"last_error":`, l.LastError), '}')
}

// connectionCounts are what became of the connections of a listener.
var connectionCounts = []struct {
	name string
	of   func(*engine.ListenerStatus) uint64
}{
	{"accepted", func(l *engine.ListenerStatus) uint64 { return l.Accepted }},
	{"connected", func(l *engine.ListenerStatus) uint64 { return l.Connected }},
	{"refused", func(l *engine.ListenerStatus) uint64 { return l.Refused }},
	{"failed", func(l *engine.ListenerStatus) uint64 { return l.Failed }},
	{"full", func(l *engine.ListenerStatus) uint64 { return l.Full }},
	{"hurried", func(l *engine.ListenerStatus) uint64 { return l.Hurried }},
	{"broken", func(l *engine.ListenerStatus) uint64 { return l.Broken }},
	{"superseded", func(l *engine.ListenerStatus) uint64 { return l.Superseded }},
}

func (s *Server) writeListenerMetrics(w io.Writer) {
	all := s.opt.Engine.(Listening).Listeners()
	if len(all) == 0 {
		return
	}
	gauge := func(name string, of func(*engine.ListenerStatus) int64) {
		f := newFamily(w, "cairn_listener_"+name, "gauge")
		for i := range all {
			f.add(uint64(max(of(&all[i]), 0)), "listener", all[i].ID)
		}
	}
	gauge("sources", func(l *engine.ListenerStatus) int64 { return int64(l.Sources) })
	gauge("connections", func(l *engine.ListenerStatus) int64 { return int64(l.Open) })
	gauge("handshakes", func(l *engine.ListenerStatus) int64 { return int64(l.Pending) })
	gauge("message_bytes", func(l *engine.ListenerStatus) int64 { return l.Memory })
	f := newFamily(w, "cairn_listener_connections_total", "counter")
	for i := range all {
		for _, c := range connectionCounts {
			f.add(c.of(&all[i]), "listener", all[i].ID, "outcome", c.name)
		}
	}
	f = newFamily(w, "cairn_listener_messages_dropped_total", "counter")
	for i := range all {
		for _, d := range all[i].Dropped {
			f.add(d.Count, "listener", all[i].ID, "reason", d.Reason)
		}
	}
	f = newFamily(w, "cairn_listener_forgotten_total", "counter")
	for i := range all {
		f.add(all[i].Forgotten, "listener", all[i].ID)
	}
}
