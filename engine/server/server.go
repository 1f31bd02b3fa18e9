package server

import (
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/registry"
)

// Engine is the part of *engine.Engine that the routes stand on.
type Engine interface {
	Match(q *engine.Query, a *engine.Answer) error
	Hint(q *engine.Query, t engine.Target, h *engine.HintAnswer) error
	Sources() []engine.SourceStatus
	Owners() []engine.OwnerStatus
	Stats() engine.Stats
}

// Options configure a Server. Engine is required.
type Options struct {
	Engine Engine
	// Tokens are the bearer tokens; nil leaves all routes open, which CheckBind
	// allows on loopback only.
	Tokens *Tokens
	// MaxBody is the largest request body in bytes. 0 means 8 MiB.
	MaxBody int64
	// Logger gets what a caller cannot be told. Nil: slog.Default.
	Logger *slog.Logger
	// Registry is where workers are registered, told of by /v1/owners and
	// /v1/workers; nil if there is none. With Registration they may register over
	// HTTP.
	Registry     *registry.Registrar
	Registration bool
	// WorkersFile is the watched file of workers, nil if there is none. Whoever
	// made it runs it.
	WorkersFile *registry.Watcher
	// Version stands in /health and the metric cairn_build_info.
	Version string
}

// DefaultMaxBody is the body limit of Options.MaxBody 0.
const DefaultMaxBody = 8 << 20

// Server holds the handlers. Make one with New.
type Server struct {
	opt     Options
	api     http.Handler
	admin   http.Handler
	metrics *metrics.Set
	calls   sync.Pool                   // *call
	paths   map[*http.ServeMux][]string // of the routes

	badToken atomic.Bool // the token file failed to reload, and that was logged
}

// call is what one request needs.
type call struct {
	body []byte
	out  []byte
	req  request
	ans  engine.Answer
	hint engine.HintAnswer
}

// maxPooledCall bounds what an idle call keeps, in bytes of body and answer.
const maxPooledCall = 1 << 20

// New makes the handlers.
func New(o Options) (*Server, error) {
	if o.Engine == nil {
		return nil, errors.New("server: Options.Engine is nil")
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Server{opt: o, metrics: metrics.NewSet(), paths: map[*http.ServeMux][]string{}}
	s.calls.New = func() any { return new(call) }
	s.registerMetrics()

	api := http.NewServeMux()
	s.route(api, "/v1/match", http.MethodPost, RoleRead, s.match)
	s.route(api, "/v1/hint", http.MethodPost, RoleRead, s.hint)
	s.hintRoutes(api)
	s.route(api, "/v1/owners", http.MethodGet, RoleRead, s.owners)
	s.route(api, "/v1/sources", http.MethodGet, RoleRead, s.sources)
	s.route(api, "/health", http.MethodGet, RoleNone, s.health)
	s.route(api, "/ready", http.MethodGet, RoleRead, s.ready)
	s.route(api, "/metrics", http.MethodGet, RoleRead, s.writeMetrics)
	s.registryRoutes(api)
	s.pushRoutes(api)
	s.dumpRoutes(api)
	s.recordingMetrics()
	s.listenerRoutes(api)
	s.route(api, "/", "", RoleRead, s.unknown(s.paths[api]))
	s.api = api

	admin := http.NewServeMux()
	s.route(admin, "/health", http.MethodGet, RoleNone, s.health)
	s.route(admin, "/metrics", http.MethodGet, RoleRead, s.writeMetrics)
	for path, h := range map[string]http.HandlerFunc{
		"/debug/pprof/":        pprof.Index,
		"/debug/pprof/cmdline": pprof.Cmdline,
		"/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol":  pprof.Symbol,
		"/debug/pprof/trace":   pprof.Trace,
	} {
		admin.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if e := s.allow(r, RoleAdmin); e != nil {
				writeError(w, e)
				return
			}
			h(w, r)
		})
	}
	s.route(admin, "/", "", RoleRead, s.unknown(append(s.paths[admin], "/debug/pprof/")))
	s.admin = admin
	return s, nil
}

// Handler serves the routes of version 1.
func (s *Server) Handler() http.Handler { return s.api }

// Admin serves /debug/pprof, /metrics and /health, for a listener of its own.
func (s *Server) Admin() http.Handler { return s.admin }

// HTTPServer wraps a handler with the time-outs that a listener must have. The
// write time-out leaves room for a profile of a minute.
func HTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	hs := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      90 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	if log != nil {
		hs.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	}
	return hs
}

// route registers one path. Whatever a handler returns as an error becomes its
// JSON; what it leaves in c.out is the answer.
func (s *Server) route(mux *http.ServeMux, path, method string, role Role, h func(w http.ResponseWriter, r *http.Request, c *call) *apiError) {
	s.paths[mux] = append(s.paths[mux], path)
	seconds, failed := s.routeMetrics(path)
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		e := s.allow(r, role)
		if e == nil && method != "" && r.Method != method && !(method == http.MethodGet && r.Method == http.MethodHead) {
			w.Header().Set("Allow", method)
			e = fail(405, "bad_method", "", "%s wants %s", path, method)
		}
		if e == nil {
			c := s.calls.Get().(*call)
			c.out = c.out[:0]
			if e = h(w, r, c); e == nil && len(c.out) > 0 {
				writeJSON(w, http.StatusOK, c.out)
			}
			if cap(c.body)+cap(c.out)+4*cap(c.req.query.Tokens) <= maxPooledCall {
				s.calls.Put(c)
			}
		}
		if e != nil {
			failed(e.status).Inc()
			writeError(w, e)
		}
		seconds.UpdateDuration(start)
	})
}

// allow checks the caller's token.
func (s *Server) allow(r *http.Request, role Role) *apiError {
	if s.opt.Tokens == nil || role == RoleNone {
		return nil
	}
	have, err := s.opt.Tokens.role(r)
	if bad := err != nil; bad != s.badToken.Swap(bad) && bad {
		s.opt.Logger.Warn("token file cannot be reloaded, the old tokens hold", "err", err)
	}
	switch {
	case have >= role:
		return nil
	case have == RoleNone:
		return fail(401, "no_token", "", "wants a known token: Authorization: Bearer …")
	}
	return fail(403, "wrong_role", "", "the token's role does not reach this route")
}

func writeJSON(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b) // an error here is a caller who went away
}

func writeError(w http.ResponseWriter, e *apiError) {
	if e.status == 401 {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, e.status, appendError(nil, e))
}

// read takes the body of a JSON request.
func (s *Server) read(w http.ResponseWriter, r *http.Request, c *call) *apiError {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return fail(415, "bad_content_type", "", "the content type is %q, wants application/json", r.Header.Get("Content-Type"))
	}
	return s.readAll(w, r, c)
}

// readAll takes the body of a request, whatever it is.
func (s *Server) readAll(w http.ResponseWriter, r *http.Request, c *call) *apiError {
	if r.ContentLength > s.opt.MaxBody {
		return fail(413, "too_large", "", "the body has %d bytes, the limit is %d", r.ContentLength, s.opt.MaxBody)
	}
	body := http.MaxBytesReader(w, r.Body, s.opt.MaxBody)
	c.body = c.body[:0]
	if r.ContentLength > int64(cap(c.body)) {
		c.body = make([]byte, 0, r.ContentLength+1)
	}
	for {
		if len(c.body) == cap(c.body) {
			c.body = append(c.body, 0)[:len(c.body)]
		}
		n, err := body.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		if err == io.EOF {
			return nil
		}
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			return fail(413, "too_large", "", "the body has more than %d bytes", s.opt.MaxBody)
		}
		if err != nil {
			return fail(400, "bad_body", "", "the body could not be read to its end")
		}
	}
}

// failure turns an engine's error into ours.
func failure(err error) *apiError {
	switch {
	case errors.Is(err, engine.ErrUnknownModel):
		return fail(404, "unknown_model", "model", "no source serves this model")
	case errors.Is(err, engine.ErrClosed):
		return fail(503, "closed", "", "shutting down")
	case errors.Is(err, engine.ErrSaltedHashes):
		return fail(400, "salted_hashes", "content_hashes", "carry their namespace: adapter, salt and keys do not go with them")
	case errors.Is(err, engine.ErrKeys):
		return fail(400, "bad_key", "keys", "touch more than %d blocks in all", engine.MaxKeyTouches)
	}
	return fail(400, "bad_query", "", "%v", err)
}
