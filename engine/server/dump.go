package server

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/cairn-kv/cairn/engine"
)

// Dumper is the part of *engine.Engine that tells everything it holds. Without
// it there is no route for it.
type Dumper interface {
	Dump(ctx context.Context, w io.Writer) error
}

// dumpRoutes adds
//
//	GET /v1/dump   who holds what, as canonical text: see engine.Engine.Dump
//
// It needs the role admin: names and hashes of every block stand in it, no
// token does.
func (s *Server) dumpRoutes(api *http.ServeMux) {
	if _, ok := s.opt.Engine.(Dumper); ok {
		s.route(api, "/v1/dump", http.MethodGet, RoleAdmin, s.dump)
	}
}

func (s *Server) dump(w http.ResponseWriter, r *http.Request, _ *call) *apiError {
	out := &lateHeader{w: w}
	err := s.opt.Engine.(Dumper).Dump(r.Context(), out)
	switch {
	case err == nil:
	case out.begun:
		panic(http.ErrAbortHandler) // a dump that is cut must not look whole
	case errors.Is(err, engine.ErrNoDump):
		return fail(501, "no_dump", "", "this engine's index cannot tell what it holds")
	case r.Context().Err() != nil:
		return fail(400, "bad_body", "", "the caller went away")
	default:
		return failure(err)
	}
	return nil
}

// lateHeader writes the header with the first byte, so that an error before it
// can still be told.
type lateHeader struct {
	w     http.ResponseWriter
	begun bool
}

func (l *lateHeader) Write(b []byte) (int, error) {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	return l.w.Write(b)
}
