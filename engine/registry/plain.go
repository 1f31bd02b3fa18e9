package registry

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/validate"
)

// checkPlain judges a worker without owned residency: an engine whose ranks
// count from 0 and listen on consecutive ports.
func (w *Worker) checkPlain() error {
	var p problems
	if len(w.Ranks) == 0 {
		p.add(validate.EmptyDescriptors, "ranks", "[]", "is empty", "at least one dp rank")
	}
	for i := range w.Ranks {
		r := &w.Ranks[i]
		at := func(field string) string { return fmt.Sprintf("ranks[%d].%s", i, field) }
		if int(r.Rank) != i {
			p.add(validate.JSONNumber, at("dp_rank"), fmt.Sprint(r.Rank), fmt.Sprintf("stands at position %d", i), "ranks 0, 1, 2, … in order: a plain worker's ranks are told apart by its ports and its batches")
		}
		if r.Topic != w.Ranks[0].Topic {
			p.add(validate.DescriptorTopic, at("raw_topic"), r.Topic, "is not the topic of rank 0", strconv.Quote(w.Ranks[0].Topic))
		}
		if r.Incarnation != 0 {
			p.add(validate.JSONUnknown, at("intent_incarnation"), fmt.Sprint(r.Incarnation), "goes with owned residency", "no such field, or a protocol with owned residency")
		}
		if len(r.Endpoints) == 0 || len(r.Endpoints) != len(w.Ranks[0].Endpoints) {
			p.add(validate.DescriptorEndpoint, at("raw_zmq_endpoint"), strings.Join(r.Endpoints, " "), fmt.Sprintf("rank %d has %d endpoints, rank 0 has %d", r.Rank, len(r.Endpoints), len(w.Ranks[0].Endpoints)), "one endpoint for every TP shard, as many for every rank")
			continue
		}
		for s, ep := range r.Endpoints {
			field := at("raw_zmq_endpoint")
			if len(r.Endpoints) > 1 {
				field = at(fmt.Sprintf("raw_zmq_endpoints[%d]", s))
			}
			if _, err := validate.Endpoint(field, ep); err != nil {
				p.note(err)
				continue
			}
			if want, err := engine.RankEndpoint(w.Ranks[0].Endpoints[s], i); err == nil && want != ep {
				p.add(validate.EndpointPort, field, ep, fmt.Sprintf("rank %d of a plain worker listens %d ports above rank 0, which is %s", i, i, w.Ranks[0].Endpoints[s]), want)
			}
		}
	}
	return p.err()
}

// source is a plain worker as the engine follows it.
func (w *Worker) source() (engine.Source, error) {
	s := engine.Source{ID: w.ID, Model: w.Model, Ranks: len(w.Ranks), Topic: w.Ranks[0].Topic}
	if eps := w.Ranks[0].Endpoints; len(eps) == 1 {
		s.Endpoint = eps[0]
	} else {
		s.Shards = eps
	}
	switch replays := w.Ranks[0].Replays; {
	case len(replays) == 0:
	case len(s.Shards) == 0:
		s.Replay = replays[0]
	default:
		s.ShardReplays = replays
	}
	if w.WorkerType == "" {
		return s, nil
	}
	s.Hint = &engine.HintConfig{WorkerType: w.WorkerType, Endpoint: w.HintEndpoints["0"], Carrier: w.HintCarrier, Link: w.HintLink, TP: w.HintTP}
	stride, err := w.stride()
	s.Hint.Stride = stride
	return s, err
}

// stride finds the number of ports between the hint endpoints of two ranks: a
// plain worker's follow one another evenly on one host.
func (w *Worker) stride() (int, error) {
	if len(w.HintEndpoints) < 2 {
		return 0, nil
	}
	var ports []int
	for i := range w.Ranks {
		ep := w.HintEndpoints[strconv.Itoa(i)]
		host, text, err := net.SplitHostPort(strings.TrimPrefix(ep, "tcp://"))
		first, _, _ := net.SplitHostPort(strings.TrimPrefix(w.HintEndpoints["0"], "tcp://"))
		port, perr := strconv.Atoi(text)
		ports = append(ports, port)
		if err != nil || perr != nil || host != first || i > 0 && (ports[1] <= ports[0] || port != ports[0]+i*(ports[1]-ports[0])) {
			return 0, validate.Errors{{Rule: validate.EndpointPort, Field: fmt.Sprintf("router_hint_source_control_endpoints[%d]", i), Value: ep,
				Why: "does not follow the endpoints of the ranks before it", Want: "one host, and the same number of ports from every rank to the next"}}
		}
	}
	return ports[1] - ports[0], nil
}
