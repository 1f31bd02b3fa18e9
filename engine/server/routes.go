package server

import (
	"net/http"
	"strings"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/internal/jsontext"
)

func (s *Server) match(w http.ResponseWriter, r *http.Request, c *call) *apiError {
	if e := s.read(w, r, c); e != nil {
		return e
	}
	c.req.reset()
	if e := c.req.parse(c.body, false); e != nil {
		return e
	}
	if err := s.opt.Engine.Match(&c.req.query, &c.ans); err != nil {
		return failure(err)
	}
	c.out = appendAnswer(c.out, &c.ans)
	return nil
}

func (s *Server) hint(w http.ResponseWriter, r *http.Request, c *call) *apiError {
	if e := s.read(w, r, c); e != nil {
		return e
	}
	c.req.reset()
	if e := c.req.parse(c.body, true); e != nil {
		return e
	}
	if err := s.opt.Engine.Hint(&c.req.query, c.req.target, &c.hint); err != nil {
		return failure(err)
	}
	c.out = appendHint(c.out, &c.hint, c.req.as)
	return nil
}

func (s *Server) owners(_ http.ResponseWriter, _ *http.Request, c *call) *apiError {
	c.out = appendOwners(append(c.out, `{"owners":`...), s.opt.Engine.Owners())
	c.out = append(s.appendRegistry(c.out), '}')
	return nil
}

func (s *Server) sources(_ http.ResponseWriter, _ *http.Request, c *call) *apiError {
	c.out = append(appendSources(append(c.out, `{"sources":`...), s.opt.Engine.Sources()), '}')
	return nil
}

func (s *Server) health(_ http.ResponseWriter, _ *http.Request, c *call) *apiError {
	c.out = append(appendText(c.out, `{"status":"ok","version":`, s.opt.Version), '}')
	return nil
}

// ready answers 200 as soon as no source is configured, or one stream is
// connected: a router may ask, and freshness tells what each answer is worth.
// One dead worker must not take the whole fleet's index out of service.
func (s *Server) ready(w http.ResponseWriter, r *http.Request, c *call) *apiError {
	var by [engine.NumStates]int
	streams, connected := 0, 0
	for _, src := range s.opt.Engine.Sources() {
		for i := range src.Streams {
			st := &src.Streams[i]
			streams++
			by[st.State]++
			if st.Connected {
				connected++
			}
		}
	}
	ready := streams == 0 || connected > 0
	b := appendFlag(c.out, `{"ready":`, ready)
	b = appendInt(b, `,"streams":`, streams)
	b = appendInt(b, `,"connected":`, connected)
	b = append(b, `,"states":{`...)
	for i, n := range by {
		b = appendInt(append(jsontext.AppendString(comma(b, i), engine.State(i).String()), ':'), "", n)
	}
	b = append(b, "}}"...)
	if ready {
		c.out = b
		return nil
	}
	writeJSON(w, http.StatusServiceUnavailable, b)
	return nil
}

func (s *Server) writeMetrics(w http.ResponseWriter, _ *http.Request, _ *call) *apiError {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	s.metrics.WritePrometheus(w)
	return nil
}

// unknown answers for what is no route, and names those there are: some are
// there only where the engine, or its configuration, has something behind them.
func (s *Server) unknown(paths []string) func(http.ResponseWriter, *http.Request, *call) *apiError {
	all := strings.Join(paths, ", ")
	return func(_ http.ResponseWriter, r *http.Request, _ *call) *apiError {
		return fail(404, "unknown_route", "", "no route %s; there are %s", clip([]byte(r.URL.Path)), all)
	}
}
