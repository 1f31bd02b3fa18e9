package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-kv/cairn/engine/identity"
)

// How a registration that cannot reach its server tries again.
const (
	firstRetry   = 100 * time.Millisecond
	lastRetry    = 5 * time.Second
	releaseLimit = 10 * time.Second
	// attachLimit is how long a registration may take: the server waits for a
	// former life of the worker to end, and bounds that itself.
	attachLimit = 70 * time.Second
)

func newRegister() *cobra.Command {
	var k client
	var file, id string
	c := &cobra.Command{
		Use:   "register --worker FILE",
		Short: "Register a worker with a server and keep its lease until a signal comes",
		Long: `Register a worker and its cache owners with a running server, renew the lease,
and release it when a signal comes: for a process beside the engine. FILE is the
JSON that PUT /v1/workers/{id} takes. A rank without intent_incarnation gets one
that is drawn at this start, so start this when the engine starts.

If the lease is lost, the worker is registered anew; if the server cannot be
reached, or has no free slot, it is tried until it can. What the server refuses
for good ends the command.

An owner whose stream ended is attached again. One that was fenced (its stream
lost something that cannot be made up for) is out until the engine restarts,
and this command with it; the worker's other owners stay.`,
		Example: `  cairn register --worker worker.json --server http://cairn:8090
  cairn register --worker - --id w1 < worker.json

  {"id": "w1", "model": "m", "worker_id": 17, "ingress_protocol": "sglang_hicache_v1",
   "kv_block_size": 64, "router_hint_worker_type": "aggregated",
   "router_hint_source_control_endpoints": {"0": "tcp://10.0.0.7:23280"},
   "ranks": [{"dp_rank": 0, "raw_zmq_endpoint": "tcp://10.0.0.7:5557", "raw_topic": "kv@17",
              "cache_owner_id": "0123…:0123…/0123…/0123…"}]}`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			body, err := readWorker(file, c.InOrStdin(), &id)
			if err != nil {
				return &usageError{fmt.Errorf("--worker: %w", err)}
			}
			r := registration{client: &k, id: id, body: body, out: c.ErrOrStderr()}
			return r.run(c.Context())
		},
	}
	c.Flags().StringVar(&file, "worker", "", "file with the worker's JSON, - for standard input")
	c.Flags().StringVar(&id, "id", "", "id to register under (default: the id in the JSON)")
	k.flags(c.Flags())
	c.Flags().Lookup("json").Hidden = true // there is no answer to print
	return c
}

// readWorker reads the JSON and gives every rank an incarnation. id is taken
// from the JSON if it is empty, and stands in neither afterwards.
func readWorker(file string, in io.Reader, id *string) ([]byte, error) {
	var text []byte
	var err error
	switch file {
	case "":
		return nil, errors.New(`"" is no file; want FILE, or - for standard input`)
	case "-":
		text, err = io.ReadAll(io.LimitReader(in, maxReply))
	default:
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	var worker map[string]json.RawMessage
	if err := json.Unmarshal(text, &worker); err != nil {
		return nil, fmt.Errorf("%s is no JSON object: %w", file, err)
	}
	var own string
	if json.Unmarshal(worker["id"], &own) == nil && *id == "" {
		*id = own
	}
	if *id == "" {
		return nil, errors.New("the worker has no id; want one in the JSON, or --id")
	}
	delete(worker, "id")
	var protocol string
	json.Unmarshal(worker["ingress_protocol"], &protocol) // the server judges it
	var ranks []map[string]json.RawMessage
	if p, _ := identity.ParseProtocol(protocol); p.Owned() && json.Unmarshal(worker["ranks"], &ranks) == nil {
		for _, r := range ranks {
			if _, stated := r["intent_incarnation"]; r != nil && !stated {
				r["intent_incarnation"] = fmt.Appendf(nil, "%d", identity.NewIncarnation())
			}
		}
		if worker["ranks"], err = json.Marshal(ranks); err != nil {
			return nil, err
		}
	}
	return json.Marshal(worker)
}

// registration keeps one worker registered.
type registration struct {
	*client
	id   string
	body []byte
	out  io.Writer // what happened, a line each
	said string    // the last line, which is not repeated

	registered bool
	unanswered bool          // a registration was sent, and may have been carried out
	every      time.Duration // between renewals
	lacks      []string      // owners that the last answer called out
}

func (r *registration) say(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); line != r.said {
		r.said = line
		fmt.Fprintln(r.out, line)
	}
}

// run registers, renews until ctx ends, and releases. The error is what the
// server refused, nil after a release.
func (r *registration) run(ctx context.Context) error {
	var pause time.Duration
	retry := firstRetry
	for {
		select {
		case <-ctx.Done():
			return r.release(ctx)
		case <-time.After(pause):
		}
		err := r.step(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			pause, retry = r.every, firstRetry
		case r.registered && status(err) == http.StatusNotFound:
			r.say("the lease of %s is gone; registering anew", r.id)
			r.registered, r.lacks, pause = false, nil, 0
		case len(r.lacks) > 0 && (temporary(err) || status(err) == http.StatusConflict): // the others are held all the same
			r.say("%v", err)
			pause, retry = r.every, firstRetry
		case temporary(err):
			r.say("%v; trying again", err)
			pause, retry = retry, min(2*retry, lastRetry)
		default:
			return err
		}
	}
}

var errNoLease = errors.New("the server's answer is no lease")

// step renews, or registers if that is due. Where owners are out it does the
// one and then the other, which attaches them again if that can be.
func (r *registration) step(ctx context.Context) error {
	path := "/v1/workers/" + url.PathEscape(r.id)
	if r.registered {
		answer, err := r.ask(ctx, http.MethodPost, path+"/renew", nil)
		if err != nil {
			return err
		}
		lease, err := readLease(answer)
		if err != nil {
			return err
		}
		r.tell(lease.Out)
		if len(lease.Out) == 0 {
			return nil
		}
		// No longer than until the next renewal.
		hasty := *r.client
		hasty.timeout = min(hasty.timeout, r.every)
		if answer, err = hasty.ask(ctx, http.MethodPut, path, r.body); err != nil {
			return err
		}
		if lease, err = readLease(answer); err == nil {
			r.tell(lease.Out)
		}
		return err
	}
	patient := *r.client
	patient.timeout = max(patient.timeout, attachLimit)
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	answer, err := patient.ask(traced, http.MethodPut, path, r.body)
	r.unanswered = err != nil && status(err) == 0 && (sent.Load() || r.unanswered)
	if err != nil {
		return err
	}
	lease, err := readLease(answer)
	if err != nil {
		return err
	}
	r.registered, r.every = true, time.Duration(lease.RenewMS)*time.Millisecond
	r.say("registered %s: %d cache owners, lease %s, renewed every %s", r.id, len(lease.Owners), ms(lease.LeaseMS), ms(lease.RenewMS))
	return nil
}

// lease is the answer to a registration or a renewal.
type lease struct {
	Owners  []string `json:"owners"`
	Out     []string `json:"out"`
	LeaseMS int64    `json:"lease_ms"`
	RenewMS int64    `json:"renew_ms"`
}

func readLease(answer []byte) (l lease, err error) {
	if err := json.Unmarshal(answer, &l); err != nil || l.RenewMS < 1 {
		return l, fmt.Errorf("%w: %s", errNoLease, answer)
	}
	return l, nil
}

// tell says whose owners are out, if they are others than before.
func (r *registration) tell(out []string) {
	switch {
	case slices.Equal(out, r.lacks):
	case len(out) == 0:
		r.say("all owners of %s are attached again", r.id)
	default:
		r.say("owners of %s that are out: %s; attaching them again", r.id, strings.Join(out, ", "))
	}
	r.lacks = out
}

// release ends the registration, if there is one or may be one.
func (r *registration) release(ctx context.Context) error {
	if !r.registered && !r.unanswered {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	_, err := r.ask(ctx, http.MethodDelete, "/v1/workers/"+url.PathEscape(r.id), nil)
	none := status(err) == http.StatusNotFound
	switch {
	case err != nil && !none:
		return fmt.Errorf("%s is not released, its lease will end: %w", r.id, err)
	case r.registered || !none:
		r.say("released %s", r.id)
	}
	return nil
}

// status is that of an answer that refuses; 0 if there was none.
func status(err error) int {
	var refused *refusedError
	if errors.As(err, &refused) {
		return refused.status
	}
	return 0
}

// passing are conflicts that end when another worker leaves.
var passing = []string{"no_free_slot", "no_room", "ambiguous_owner", "released", "in_use"}

// temporary reports whether the same call may go well later on: there was no
// answer, or the server could not, not would not.
func temporary(err error) bool {
	var refused *refusedError
	if errors.As(err, &refused) {
		return refused.status >= 500 || slices.Contains(passing, refused.code)
	}
	var usage *usageError
	return !errors.As(err, &usage) && !errors.Is(err, errNoLease)
}
