package engine

import (
	"strconv"

	"github.com/cairn-kv/cairn/engine/hint"
)

// HintConfig is what a worker publishes about its part in hints.
type HintConfig struct {
	// WorkerType is aggregated (or agg), prefill or decode. Required: hints
	// pass between equal types only.
	WorkerType string
	// Endpoint is the control endpoint of rank 0, tcp://host:port, as peers
	// dial it (loopback is allowed, a wildcard is not). Empty: the source can
	// be a target, never a source.
	Endpoint string
	// Stride is the number of ports between two ranks' endpoints. 0 means 1;
	// engines with DP attention use tp_size / dp_size.
	Stride int
}

func (s *Source) validateHint(bad func(field, value, want string) error) error {
	h := s.Hint
	if h == nil {
		return nil
	}
	if r, ok := hint.ParseRole(h.WorkerType); !ok || r == hint.NotCapable {
		return bad("hint.worker_type", strconv.Quote(h.WorkerType), "wants one of "+hint.Roles)
	}
	if h.Stride < 0 || h.Stride > 65535 {
		return bad("hint.stride", strconv.Itoa(h.Stride), "wants the ports between two ranks, at least 1")
	}
	if h.Endpoint == "" {
		return nil
	}
	if _, err := hint.RankEndpoint(h.Endpoint, s.ranks()-1, h.stride()); err != nil {
		return bad("hint.endpoint", strconv.Quote(h.Endpoint), err.Error())
	}
	return nil
}

func (h *HintConfig) stride() int { return max(h.Stride, 1) }
