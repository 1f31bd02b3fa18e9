package registry

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/engine/validate"
)

// TestReplayEndpoints holds what a registration may say of where what was missed
// is asked for, and where that goes.
func TestReplayEndpoints(t *testing.T) {
	for _, c := range []struct {
		name   string
		worker Worker
		change func(w *Worker)
		rule   validate.Rule
		field  string
	}{
		{"on loopback", owned(t, "w", 1), func(w *Worker) { w.Ranks[1].Replays = []string{"tcp://localhost:6558"} }, validate.HostLoopbackName, "ranks[1].raw_replay_endpoint"},
		{"one too many", owned(t, "w", 1), func(w *Worker) { w.Ranks[1].Replays = []string{"tcp://h:1", "tcp://h:2"} }, validate.DescriptorEndpoint, "ranks[1].raw_replay_endpoint"},
		{"one of two wrong", owned(t, "w", 1), func(w *Worker) {
			w.Ranks[0].Endpoints = []string{"tcp://h:1", "tcp://h:2"}
			w.Ranks[0].Replays = []string{"tcp://h:3", "tcp://h"}
		}, validate.EndpointPort, "ranks[0].raw_replay_endpoints[1]"},
		{"plain, of one rank of two", plainWorker("p", 1), func(w *Worker) { w.Ranks[0].Replays = []string{"tcp://h:1"} }, validate.DescriptorEndpoint, "ranks[1].raw_replay_endpoint"},
		{"plain, on other ports", plainWorker("p", 1), func(w *Worker) {
			w.Ranks[0].Replays, w.Ranks[1].Replays = []string{"tcp://h:1"}, []string{"tcp://h:3"}
		}, validate.EndpointPort, "ranks[1].raw_replay_endpoint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.worker.clone()
			c.change(&w)
			var list validate.Errors
			if err := w.check(); !errors.As(err, &list) || !slices.ContainsFunc(list, func(e *validate.Error) bool { return e.Rule == c.rule && e.Field == c.field }) {
				t.Errorf("%v is not %v of %s", err, c.rule, c.field)
			}
		})
	}
	t.Run("of an owned rank", func(t *testing.T) {
		w := owned(t, "w", 1)
		was := w.clone()
		w.Ranks[1].Replays = []string{"tcp://10.0.0.1:6558"}
		if err := w.check(); err != nil {
			t.Fatal(err)
		}
		all := w.intents(residency.Host{Instance: 7})
		if diff := cmp.Diff([][]string{nil, {"tcp://10.0.0.1:6558"}}, [][]string{all[0].Replays, all[1].Replays}); diff != "" {
			t.Error(diff)
		}
		if w.equal(&was) || w.derive(1) == was.derive(1) || w.derive(0) != was.derive(0) {
			t.Error("another replay endpoint is another registration, and of its rank alone another incarnation")
		}
	})
	t.Run("of a plain worker", func(t *testing.T) {
		w := plainWorker("p", 1)
		w.Ranks[0].Replays, w.Ranks[1].Replays = []string{"tcp://h:6557"}, []string{"tcp://h:6558"}
		if err := w.check(); err != nil {
			t.Fatal(err)
		}
		if s, err := w.source(); err != nil || s.Replay != "tcp://h:6557" || s.Validate() != nil {
			t.Errorf("%+v, %v", s, err)
		}
		for i := range w.Ranks {
			w.Ranks[i].Endpoints = append(w.Ranks[i].Endpoints, w.Ranks[i].Endpoints[0])
			w.Ranks[i].Replays = append(w.Ranks[i].Replays, w.Ranks[i].Replays[0])
		}
		if s, err := w.source(); err != nil || s.Replay != "" || !slices.Equal(s.ShardReplays, w.Ranks[0].Replays) {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
