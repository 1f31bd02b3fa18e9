package server

import (
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
)

// hintEngine is the part of *engine.Engine that the routes about options of
// hints stand on. An Options.Engine without it has none of these routes.
type hintEngine interface {
	HintStatus() engine.HintStatus
	SetPeerLoad(source string, rank int, l engine.PeerLoad) error
	FetchStarted(source string, rank int) error
	FetchEnded(source string, rank int) error
	ObservePrefill(model string, from, to int, backlog float64, took time.Duration) error
	ObserveTransfer(source string, rank, tokens int, bytes int64, others int, took time.Duration) error
}

// hintRoutes registers the routes about hints in general:
//
//	GET  /v1/hints          options, counts, and who takes part
//	POST /v1/hints/load     {"source","rank","waiting"?,"backlog"?}: replaces what was told
//	POST /v1/hints/fetch    {"source","rank","state":"started"|"ended", and at the end
//	                        "tokens"?,"bytes"?,"seconds"?,"others"?: what it took}
//	POST /v1/hints/prefill  {"model","from"?,"to","seconds","backlog"?}: what one took
func (s *Server) hintRoutes(mux *http.ServeMux) {
	e, ok := s.opt.Engine.(hintEngine)
	if !ok {
		return
	}
	s.metrics.RegisterMetricsWriter(func(w io.Writer) { writeHintMetrics(w, e) })
	s.route(mux, "/v1/hints", http.MethodGet, RoleRead, func(_ http.ResponseWriter, _ *http.Request, c *call) *apiError {
		st := e.HintStatus()
		c.out = appendHintStatus(c.out, &st)
		return nil
	})
	tell := func(path string, f func(*cursor) error) {
		s.route(mux, path, http.MethodPost, RoleWrite, func(w http.ResponseWriter, r *http.Request, c *call) *apiError {
			if e := s.read(w, r, c); e != nil {
				return e
			}
			cu := &cursor{b: c.body}
			err := f(cu)
			if cu.err != nil {
				return cu.err
			}
			if err != nil {
				return untold(err)
			}
			c.out = append(c.out, `{"status":"ok"}`...)
			return nil
		})
	}
	tell("/v1/hints/load", func(c *cursor) error { return tellLoad(e, c) })
	tell("/v1/hints/fetch", func(c *cursor) error { return tellFetch(e, c) })
	tell("/v1/hints/prefill", func(c *cursor) error { return tellPrefill(e, c) })
}

// peerFields are what names a place, in every request that has one.
type peerFields struct {
	source string
	rank   int
}

func (p *peerFields) parse(c *cursor, key string) bool {
	switch key {
	case "source":
		p.source = c.text(key)
	case "rank":
		p.rank = c.integer(key, "bad_rank", 0, math.MaxInt32)
	default:
		return false
	}
	return true
}

func (p *peerFields) required(c *cursor) {
	if c.end(); c.err == nil && p.source == "" {
		c.fail(400, "missing_field", "source", "is required")
	}
}

func tellLoad(e hintEngine, c *cursor) error {
	var at peerFields
	l := engine.PeerLoad{Waiting: -1}
	c.object("", func(key string) bool {
		switch key {
		case "waiting":
			l.Waiting = c.integer(key, "bad_waiting", 0, math.MaxInt32)
		case "backlog":
			l.Backlog = c.factor(key)
		default:
			return at.parse(c, key)
		}
		return true
	})
	if at.required(c); c.err != nil {
		return nil
	}
	return e.SetPeerLoad(at.source, at.rank, l)
}

func tellFetch(e hintEngine, c *cursor) error {
	var at peerFields
	var state string
	var tokens, bytes, others int
	var seconds float64
	measured := false
	c.object("", func(key string) bool {
		switch key {
		case "state":
			if state = c.text(key); state != "started" && state != "ended" {
				c.fail(400, "bad_state", key, "%s is none of started, ended", clip(strconv.AppendQuote(nil, state)))
			}
		case "tokens":
			tokens, measured = c.integer(key, "bad_tokens", 1, maxPosition), true
		case "bytes":
			bytes, measured = c.integer(key, "bad_bytes", 1, math.MaxInt64), true
		case "others":
			others = c.integer(key, "bad_others", 0, math.MaxInt32)
		case "seconds":
			seconds, measured = c.factor(key), true
		default:
			return at.parse(c, key)
		}
		return true
	})
	switch at.required(c); {
	case c.err != nil:
		return nil
	case state == "":
		c.fail(400, "missing_field", "state", "is required: started or ended")
		return nil
	case state == "started" && measured:
		c.fail(400, "bad_state", "state", "what a fetch took is told when it has ended")
		return nil
	case state == "started":
		return e.FetchStarted(at.source, at.rank)
	}
	if measured {
		// First, so that figures that are refused leave everything as it was.
		if err := e.ObserveTransfer(at.source, at.rank, tokens, int64(bytes), others, duration(seconds)); err != nil {
			return err
		}
	}
	return e.FetchEnded(at.source, at.rank)
}

func tellPrefill(e hintEngine, c *cursor) error {
	var model string
	var from, to int
	var seconds, backlog float64
	c.object("", func(key string) bool {
		switch key {
		case "model":
			model = c.text(key)
		case "from":
			from = c.integer(key, "bad_position", 0, maxPosition)
		case "to":
			to = c.integer(key, "bad_position", 1, maxPosition)
		case "seconds":
			seconds = c.factor(key)
		case "backlog":
			backlog = c.factor(key)
		default:
			return false
		}
		return true
	})
	if c.end(); c.err == nil && model == "" {
		c.fail(400, "missing_field", "model", "is required")
	}
	if c.err != nil {
		return nil
	}
	return e.ObservePrefill(model, from, to, backlog, duration(seconds))
}

// duration is a time of at most a day, which none of these takes.
func duration(seconds float64) time.Duration {
	return time.Duration(min(seconds, 86_400) * float64(time.Second))
}

// factor reads a number of 0 or more that need not be whole. It is the one kind
// of number here that is not exact, and names are none.
func (c *cursor) factor(field string) float64 {
	b := c.number(field, "a number")
	if c.err != nil {
		return 0
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || v < 0 || math.IsInf(v, 0) {
		c.fail(400, "bad_number", field, "%s is not a number of 0 or more", clip(b))
		return 0
	}
	return v
}

// untold turns an engine's refusal into ours.
func untold(err error) *apiError {
	var f *engine.FieldError
	switch {
	case errors.Is(err, engine.ErrUnknownSource):
		return fail(404, "unknown_source", "source", "no source has this id")
	case errors.Is(err, engine.ErrUnknownRank):
		return fail(404, "unknown_rank", "rank", "the source has no such dp rank")
	case errors.As(err, &f):
		return fail(400, "bad_value", f.Field, "%s: %s", f.Value, f.Want)
	}
	return fail(400, "bad_observation", "", "%v", err)
}

// writeHintMetrics writes what Stats does not know. Places are few: they are the
// configured ranks.
func writeHintMetrics(w io.Writer, e hintEngine) {
	st := e.HintStatus()
	f := newFamily(w, "cairn_hint_sources_total", "counter")
	for d := range st.Domains {
		f.add(st.Domains[d], "domain", engine.Domain(d).String())
	}
	newFamily(w, "cairn_hint_blocks_total", "counter").add(st.Blocks)
	f = newFamily(w, "cairn_hint_notes_total", "counter")
	for n := hint.NoNote + 1; n < hint.NumNotes; n++ {
		f.add(st.Notes[n], "note", n.String())
	}
	newFamily(w, "cairn_hint_bad_choices_total", "counter").add(st.BadChoices)
	f = newFamily(w, "cairn_hint_named_total", "counter")
	each := func(f family, v func(*engine.HintPeer) uint64) {
		for i := range st.Peers {
			// Both domains of a rank are one place; the worker stands for it.
			if p := &st.Peers[i]; p.WorkerType != "" && p.Domain == hint.Worker {
				f.add(v(p), "source", p.Source, "rank", strconv.Itoa(p.Rank))
			}
		}
	}
	each(f, func(p *engine.HintPeer) uint64 { return p.Hinted })
	each(newFamily(w, "cairn_hint_fetches_in_flight", "gauge"), func(p *engine.HintPeer) uint64 { return uint64(p.Fetches) })
}
