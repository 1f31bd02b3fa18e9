package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cairn-kv/cairn/engine"
)

// Pusher is the part of *engine.Engine that takes batches. Without it there
// are no routes to push to.
type Pusher interface {
	Push(ctx context.Context, b *engine.Batch) (engine.PushResult, error)
}

// pushLimit bounds how long a push waits, so that there is time left to answer
// before the listener's write time-out.
const pushLimit = time.Minute

// pushRoutes adds the routes for sources whose events are pushed:
//
//	POST /v1/events?source=w1&rank=0&seq=41&wait=applied   one batch
//	POST /events                                           Mooncake's envelopes
//
// Both wait for room, and with wait=applied until what was sent is visible:
// this is the back-pressure.
func (s *Server) pushRoutes(api *http.ServeMux) {
	if _, ok := s.opt.Engine.(Pusher); !ok {
		return
	}
	s.route(api, "/v1/events", http.MethodPost, RoleWrite, s.pushBatch)
	s.route(api, "/events", http.MethodPost, RoleWrite, s.pushEnvelopes)
}

// pushTypes are the content types of batches.
var pushTypes = map[string]bool{
	"application/json":         true,
	"application/x-ndjson":     true,
	"application/msgpack":      true,
	"application/x-msgpack":    true,
	"application/vnd.msgpack":  true,
	"application/octet-stream": false, // says nothing: refused with the others
}

// readEvents takes the body of a push.
func (s *Server) readEvents(w http.ResponseWriter, r *http.Request, c *call) *apiError {
	given := r.Header.Get("Content-Type")
	if t, _, err := mime.ParseMediaType(given); err != nil || !pushTypes[t] {
		return fail(415, "bad_content_type", "", "the content type is %q, wants application/json, application/x-ndjson or application/msgpack", given)
	}
	return s.readAll(w, r, c)
}

// pushQuery is what the URL of a push says.
type pushQuery struct {
	source, topic string
	rank          int
	seq           uint64
	hasSeq        bool
	applied       bool
}

func parsePush(r *http.Request, batch bool) (q pushQuery, e *apiError) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, fail(400, "bad_query", "", "the query of the URL cannot be read")
	}
	if h := r.Header.Get("Cairn-Sequence"); h != "" && batch {
		if values.Has("seq") {
			return q, fail(400, "repeated_field", "seq", "stands in the URL and in the header Cairn-Sequence")
		}
		values.Set("seq", h)
	}
	for key, list := range values {
		if len(list) > 1 {
			return q, fail(400, "repeated_field", clip([]byte(key)), "stands twice")
		}
		v := list[0]
		switch {
		case key == "source" && batch:
			q.source = v
		case key == "topic" && batch:
			q.topic = v
		case key == "rank" && batch:
			if q.rank, err = strconv.Atoi(v); err != nil || !digits([]byte(v)) {
				return q, fail(400, "bad_rank", "rank", "%s is not a whole number from 0", clip([]byte(v)))
			}
		case key == "seq" && batch:
			if q.seq, err = strconv.ParseUint(v, 10, 64); err != nil || !digits([]byte(v)) {
				return q, fail(400, "bad_seq", "seq", "%s is not a whole number of 0 … 18446744073709551614", clip([]byte(v)))
			}
			q.hasSeq = true
		case key == "wait" && v == "applied":
			q.applied = true
		case key == "wait" && v == "accepted":
		case key == "wait":
			return q, fail(400, "bad_wait", "wait", "%s is neither accepted nor applied", clip([]byte(v)))
		default:
			return q, fail(400, "unknown_field", clip([]byte(key)), "is not a field of this request")
		}
	}
	if batch && q.source == "" {
		return q, fail(400, "missing_field", "source", "is required: the source whose events are pushed")
	}
	return q, nil
}

// pushBatch takes one batch of one stream.
func (s *Server) pushBatch(w http.ResponseWriter, r *http.Request, c *call) *apiError {
	q, e := parsePush(r, true)
	if e == nil {
		e = s.readEvents(w, r, c)
	}
	if e != nil {
		return e
	}
	ctx, cancel := context.WithTimeout(r.Context(), pushLimit)
	defer cancel()
	res, err := s.opt.Engine.(Pusher).Push(ctx, &engine.Batch{
		Source: q.source, Rank: q.rank, Seq: q.seq, HasSeq: q.hasSeq, Topic: []byte(q.topic), Payload: c.body, Applied: q.applied,
	})
	if err != nil {
		return pushFailure(q.source, err)
	}
	b := appendText(c.out, `{"source":`, q.source)
	b = appendInt(b, `,"rank":`, q.rank)
	b = appendUint(b, `,"seq":`, res.Seq)
	b = appendText(b, `,"verdict":`, string(res.Verdict))
	b = appendUint(b, `,"missing":`, res.Missing)
	b = appendInt(b, `,"events":`, res.Events)
	b = appendInt(b, `,"accepted":`, accepted(&res))
	b = append(b, `,"rejected":[`...)
	b = append(appendRejections(b, &res, false), ']')
	if skipped := appendRejections(nil, &res, true); len(skipped) > 0 {
		b = append(append(append(b, `,"skipped":[`...), skipped...), ']')
	}
	b = appendText(b, `,"state":`, res.State.String())
	b = appendCause(b, res.Cause)
	return s.pushed(w, c, append(b, '}'), q.applied)
}

// pushed answers 200 if everything is visible, and 202 if it was taken.
func (s *Server) pushed(w http.ResponseWriter, c *call, b []byte, applied bool) *apiError {
	if applied {
		c.out = b
		return nil
	}
	writeJSON(w, http.StatusAccepted, b)
	return nil
}

// accepted is how many events of a batch were taken.
func accepted(r *engine.PushResult) int {
	if r.Verdict == engine.VerdictDuplicate {
		return 0
	}
	return r.Events - len(r.Rejected)
}

// appendRejections lists the events that were dropped: those that are wrong, or
// those that say nothing to us.
func appendRejections(b []byte, r *engine.PushResult, skipped bool) []byte {
	n := 0
	for i := range r.Rejected {
		if x := &r.Rejected[i]; x.Skipped == skipped {
			b = appendRejected(comma(b, n), x.Index, x.Reason)
			n++
		}
	}
	return b
}

func appendRejected(b []byte, index int, reason string) []byte {
	b = appendInt(b, `{"index":`, index)
	return append(appendText(b, `,"reason":`, reason), '}')
}

// envelope is what decides for whom an event of Mooncake's is.
type envelope struct {
	Backend *string `json:"backend_id"`
	Model   *string `json:"model_name"`
	Rank    *int    `json:"dp_rank"`
}

// pushRun is consecutive events for one stream.
type pushRun struct {
	source, model string
	rank          int
	index         []int // in the request
	body          []byte
}

// pushEnvelopes takes events that name their source themselves: backend_id is
// the id of a source whose events are pushed. What follows one another for one
// stream is one batch.
func (s *Server) pushEnvelopes(w http.ResponseWriter, r *http.Request, c *call) *apiError {
	q, e := parsePush(r, false)
	if e == nil {
		e = s.read(w, r, c)
	}
	if e != nil {
		return e
	}
	events, e := splitEvents(c.body)
	if e != nil {
		return e
	}
	ctx, cancel := context.WithTimeout(r.Context(), pushLimit)
	defer cancel()
	reasons := make([]string, len(events))
	taken := 0
	for _, run := range runsOf(events, reasons) {
		batch := engine.Batch{Source: run.source, Model: run.model, Rank: run.rank, Payload: append(run.body, ']'), Applied: q.applied}
		res, err := s.opt.Engine.(Pusher).Push(ctx, &batch)
		var field *engine.FieldError
		if errors.As(err, &field) && field.Field == "rank" {
			batch.Rank = 0 // a rank without a stream of its own: its events say it themselves
			res, err = s.opt.Engine.(Pusher).Push(ctx, &batch)
		}
		why := ""
		switch {
		case err == nil:
			for _, x := range res.Rejected {
				if x.Index < len(run.index) {
					reasons[run.index[x.Index]] = x.Reason
				}
			}
			taken += accepted(&res)
			continue
		case errors.Is(err, engine.ErrUnknownSource):
			why = "unknown_source"
		case errors.Is(err, engine.ErrNotPushed):
			why = "not_a_push_source"
		case errors.Is(err, engine.ErrBatch):
			why = "undecodable"
		case errors.As(err, &field):
			why = "bad_" + field.Field
		default:
			return pushFailure(run.source, err)
		}
		for _, i := range run.index {
			reasons[i] = why
		}
	}
	b := appendInt(c.out, `{"accepted":`, taken)
	b = append(b, `,"rejected":[`...)
	n := 0
	for i, why := range reasons {
		if why != "" {
			b = appendRejected(comma(b, n), i, why)
			n++
		}
	}
	return s.pushed(w, c, append(b, "]}"...), q.applied)
}

// splitEvents cuts a body into its events: one object, a list of them, or an
// object with such a list as events.
func splitEvents(body []byte) ([]json.RawMessage, *apiError) {
	text := bytes.TrimLeft(body, " \t\r\n")
	var list []json.RawMessage
	if len(text) > 0 && text[0] == '[' {
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, fail(400, "bad_json", "", "the body is not JSON")
		}
		return list, nil
	}
	var whole struct {
		Events *[]json.RawMessage `json:"events"`
	}
	if err := json.Unmarshal(body, &whole); err != nil {
		if json.Valid(body) {
			return nil, fail(422, "wrong_type", "events", "wants a list of events")
		}
		return nil, fail(400, "bad_json", "", "the body is not JSON")
	}
	if whole.Events != nil {
		return *whole.Events, nil
	}
	return []json.RawMessage{body}, nil
}

// runsOf puts together what follows one another for one stream, and says of
// events that are for nobody why.
func runsOf(events []json.RawMessage, reasons []string) []*pushRun {
	var all []*pushRun
	for i, ev := range events {
		var h envelope
		if err := json.Unmarshal(ev, &h); err != nil {
			reasons[i] = "field_type"
			continue
		}
		if h.Backend == nil || *h.Backend == "" {
			reasons[i] = "no_backend_id"
			continue
		}
		want := pushRun{source: *h.Backend}
		if h.Model != nil {
			want.model = *h.Model
		}
		if h.Rank != nil {
			want.rank = *h.Rank
		}
		run := (*pushRun)(nil)
		if n := len(all); n > 0 && all[n-1].source == want.source && all[n-1].model == want.model && all[n-1].rank == want.rank {
			run = all[n-1]
			run.body = append(run.body, ',')
		} else {
			want.body = []byte{'['}
			run = &want
			all = append(all, run)
		}
		run.index = append(run.index, i)
		run.body = append(run.body, ev...)
	}
	return all
}

// pushFailure turns an error of Push into ours.
func pushFailure(source string, err error) *apiError {
	var field *engine.FieldError
	switch {
	case errors.As(err, &field):
		return fail(400, "bad_"+field.Field, field.Field, "%s %s", field.Value, field.Want)
	case errors.Is(err, engine.ErrUnknownSource):
		return fail(404, "unknown_source", "source", "there is no source %q", source)
	case errors.Is(err, engine.ErrNotPushed):
		return fail(409, "not_a_push_source", "source", "%q gets its events from its endpoint; a source that is pushed to is configured with push: true", source)
	case errors.Is(err, engine.ErrBatch):
		return fail(400, "undecodable", "", "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fail(503, "overloaded", "", "the batch was not taken within %v, or not visible", pushLimit)
	case errors.Is(err, context.Canceled):
		return fail(400, "bad_body", "", "the caller went away")
	}
	return failure(err)
}
