package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/registry"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/engine/validate"
)

// registrationLimit bounds one registration or release, so that there is time
// left to answer before the listener's write time-out.
const registrationLimit = time.Minute

// registryRoutes adds the routes of registration, if there is a registrar, but
// for the first only with Options.Registration:
//
//	GET    /v1/workers             what is registered
//	PUT    /v1/workers/{id}        register, all ranks or none; the same again renews
//	POST   /v1/workers/{id}/renew  renew the lease; the answer says which owners are out
//	DELETE /v1/workers/{id}        end it: detach the owners, stop following
//	POST   /v1/owners/clear        empty one domain of an owner, or both
//	POST   /v1/owners/forget       give up a detached owner's slot
func (s *Server) registryRoutes(api *http.ServeMux) {
	if s.opt.Registry == nil {
		return
	}
	s.metrics.RegisterMetricsWriter(s.writeRegistryMetrics)
	s.route(api, "/v1/workers", http.MethodGet, RoleRead, s.workers)
	if !s.opt.Registration {
		return
	}
	s.route(api, "/v1/workers/{id}", "", RoleWrite, s.worker)
	s.route(api, "/v1/workers/{id}/renew", http.MethodPost, RoleWrite, s.renewWorker)
	s.route(api, "/v1/owners/clear", http.MethodPost, RoleWrite, s.clearOwner)
	s.route(api, "/v1/owners/forget", http.MethodPost, RoleWrite, s.forgetOwner)
}

func (s *Server) workers(_ http.ResponseWriter, _ *http.Request, c *call) *apiError {
	c.out = append(appendRegistrations(append(c.out, `{"workers":`...), s.opt.Registry.Registrations()), '}')
	return nil
}

// worker registers and releases.
func (s *Server) worker(w http.ResponseWriter, r *http.Request, c *call) *apiError {
	ctx, cancel := context.WithTimeout(r.Context(), registrationLimit)
	defer cancel()
	id := r.PathValue("id")
	switch r.Method {
	case http.MethodPut:
		if e := s.read(w, r, c); e != nil {
			return e
		}
		worker, err := registry.ParseWorker(id, c.body)
		if err != nil {
			return registryFailure(err, nil)
		}
		lease, err := s.opt.Registry.Register(ctx, worker)
		if err != nil {
			return registryFailure(err, &worker)
		}
		c.out = append(appendLease(c.out, &lease), '}')
		return nil
	case http.MethodDelete:
		if err := s.opt.Registry.Release(ctx, id); err != nil {
			return registryFailure(err, nil)
		}
		c.out = append(appendText(c.out, `{"id":`, id), `,"released":true}`...)
		return nil
	}
	w.Header().Set("Allow", "PUT, DELETE")
	return fail(405, "bad_method", "", "/v1/workers/{id} wants PUT to register and DELETE to release")
}

func (s *Server) renewWorker(_ http.ResponseWriter, r *http.Request, c *call) *apiError {
	id := r.PathValue("id")
	lease, err := s.opt.Registry.Renew(id)
	if err != nil {
		return registryFailure(err, nil)
	}
	c.out = append(appendLease(c.out, &lease), `,"renewed":true}`...)
	return nil
}

// clearOwner empties domains. Without a domain it is both; a domain that is
// null, or no string, is an error and never taken for absent.
func (s *Server) clearOwner(w http.ResponseWriter, r *http.Request, c *call) *apiError {
	return s.onOwner(w, r, c, true, func(ctx context.Context, control residency.Control, scope string, owner residency.OwnerID, d residency.Domains) error {
		return control.Clear(ctx, scope, owner, d)
	})
}

func (s *Server) forgetOwner(w http.ResponseWriter, r *http.Request, c *call) *apiError {
	return s.onOwner(w, r, c, false, func(ctx context.Context, control residency.Control, scope string, owner residency.OwnerID, _ residency.Domains) error {
		return control.Forget(ctx, scope, owner)
	})
}

// onOwner reads a request about one owner and does it.
func (s *Server) onOwner(w http.ResponseWriter, r *http.Request, c *call, domain bool,
	f func(ctx context.Context, control residency.Control, scope string, owner residency.OwnerID, d residency.Domains) error) *apiError {
	if e := s.read(w, r, c); e != nil {
		return e
	}
	o := validate.ReadObject(c.body)
	o.Require("owner")
	text := o.Text("owner")
	domains := residency.BothDomains
	if domain {
		switch name := o.Text("domain"); {
		case !o.Has("domain") || o.Err() != nil:
		case name == residency.WorkerDomain.String():
			domains = residency.WorkerDomain
		case name == residency.CacheOwnerDomain.String():
			domains = residency.CacheOwnerDomain
		default:
			o.Add(&validate.Error{Rule: validate.JSONType, Field: "domain", Value: name, Why: "is no domain", Want: `"worker" or "cache_owner", or no such field for both`})
		}
	}
	o.End()
	if err := o.Err(); err != nil {
		return registryFailure(err, nil)
	}
	id, err := validate.Owner("owner", text)
	if err != nil {
		return registryFailure(err, nil)
	}
	control := s.opt.Registry.Control()
	if control == nil {
		return registryFailure(fmt.Errorf("%w: %q", residency.ErrUnknownOwner, text), nil)
	}
	ctx, cancel := context.WithTimeout(r.Context(), registrationLimit)
	defer cancel()
	if err := f(ctx, control, fmt.Sprintf("%x", id.Scope), residency.OwnerID(text), domains); err != nil {
		return registryFailure(err, nil)
	}
	c.out = append(appendText(c.out, `{"owner":`, text), '}')
	return nil
}

// registryCodes are the errors of the registry that callers may branch on.
var registryCodes = []struct {
	err    error
	status int
	code   string
}{
	{residency.ErrUnknownLease, 404, "unknown_worker"},
	{residency.ErrUnknownOwner, 404, "unknown_owner"},
	{residency.ErrNoHost, 404, "unknown_owner"},
	{residency.ErrClosed, 503, "closed"},
	{engine.ErrClosed, 503, "closed"},
	{registry.ErrUnsupported, 400, "unsupported"},
	{registry.ErrFull, 409, "no_room"},
	{registry.ErrTaken, 409, "id_taken"},
	{engine.ErrSourceExists, 409, "id_taken"},
	{residency.ErrFenced, 409, "fenced"},
	{residency.ErrInUse, 409, "in_use"},
	{residency.ErrReleased, 409, "released"},
	{residency.ErrHostWithdrawn, 503, "host_withdrawn"},
	{context.DeadlineExceeded, 503, "timeout"},
	{context.Canceled, 503, "cancelled"},
}

// registryFailure turns an error of the registry into ours. worker is what was
// to be registered, to name the place of a rank that failed.
func registryFailure(err error, worker *registry.Worker) *apiError {
	e := &apiError{status: 503, code: "attach_failed", text: err.Error()}
	var (
		bad   validate.Errors
		one   *validate.Error
		rank  *residency.RankError
		field *engine.FieldError
	)
	switch {
	case errors.As(err, &bad):
	case errors.As(err, &one):
		bad = validate.Errors{one}
	}
	switch {
	case len(bad) > 0:
		e.status, e.code, e.field, e.problems = 400, "bad_registration", bad[0].Field, bad
		// The status is the first problem's.
		switch bad[0].Rule {
		case validate.JSONSyntax:
			e.code = "bad_json"
		case validate.JSONType:
			e.status, e.code = 422, "wrong_type"
		}
		return e
	case errors.As(err, &field):
		e.status, e.code, e.field = 400, "bad_registration", field.Field
		return e
	case errors.As(err, &rank) && worker != nil:
		if i := slices.IndexFunc(worker.Ranks, func(r registry.Rank) bool { return r.Rank == rank.Rank }); i >= 0 {
			e.field = fmt.Sprintf("ranks[%d]", i)
		}
	}
	if code, known := conflictCode(err); known {
		e.status, e.code = 409, code
		return e
	}
	for _, known := range registryCodes {
		if errors.Is(err, known.err) {
			e.status, e.code = known.status, known.code
			return e
		}
	}
	return e
}

// conflictCode names the conflicts that have a type.
func conflictCode(err error) (string, bool) {
	var (
		capacity  *residency.CapacityError
		changed   *residency.ChangedError
		immutable *residency.ImmutableError
		ambiguous *residency.AmbiguousError
		host      *residency.HostMismatchError
		field     *residency.FieldError
	)
	switch {
	case errors.As(err, &capacity):
		return "no_free_slot", true
	case errors.As(err, &changed):
		return "changed_intent", true
	case errors.As(err, &immutable):
		return "immutable_field", true
	case errors.As(err, &ambiguous):
		return "ambiguous_owner", true
	case errors.As(err, &host):
		return "other_host", true
	case errors.As(err, &field):
		return "changed_registration", true
	}
	return "", false
}
